"""What was said in a rollout of Codex, each text once: most stand there as an item and as an event. Pure."""

from typing import Any

from eventlog.agents.kit.draft import rest_of

ITEM, EVENT = 0, 1  # where a text stands: in an item of the conversation, or in an event of the client

# Of items and events, what columns hold or what another event records.
PASSTHROUGH = "internal_chat_message_metadata_passthrough"
OF_MESSAGE = frozenset(("type", "role", "content", PASSTHROUGH))
OF_REASONING = frozenset(("type", "summary", PASSTHROUGH))
OF_USER = frozenset(("type", "message"))

# What the client says in the name of its user. Where there are events, one repeats what the user said.
_OF_CLIENT = ("<", "# AGENTS.md instructions")
_OF_CLIENT_BARE = (
    "<environment_context>",
    "<user_instructions>",
    "<user_action>",
    "<turn_aborted>",
    "# AGENTS.md instructions",
)


class Texts:
    """The texts of one turn, and how often each channel had them."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], list[int]] = {}

    def clear(self) -> None:
        self._counts.clear()

    def nth(self, kind: str, text: str, channel: int) -> int:
        """Which one of its kind a text is in its turn, from 1; 0 when the other channel had it."""
        counts = self._counts.setdefault((kind, text), [0, 0])
        counts[channel] += 1
        return counts[channel] if counts[channel] > counts[1 - channel] else 0


def is_of_client(text: str, *, bare: bool) -> bool:
    """Whether an item in the user's name is none of the user's; `bare` lines are those of 2025."""
    return text.lstrip().startswith(_OF_CLIENT_BARE if bare else _OF_CLIENT)


def prompt_rest(item: "dict[str, Any]") -> "dict[str, Any]":
    """What an item says of a prompt besides its text; the content where there is more than texts."""
    rest = rest_of(item, OF_MESSAGE)
    content = item.get("content")
    if isinstance(content, list) and any(
        block.get("type") != "input_text" for block in content if isinstance(block, dict)
    ):
        rest["content"] = content
    return rest
