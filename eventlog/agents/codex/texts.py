"""The words in a rollout of Codex: which texts are the user's, and what else is in their lines. Pure."""

from typing import Any

from eventlog.agents.kit.draft import rest_of
from eventlog.agents.kit.words import objects_of

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


def is_of_client(text: str, *, bare: bool) -> bool:
    """Whether an item in the user's name is none of the user's; `bare` lines are those of 2025."""
    return text.lstrip().startswith(_OF_CLIENT_BARE if bare else _OF_CLIENT)


def prompt_rest(item: "dict[str, Any]") -> "dict[str, Any]":
    """What an item says of a prompt besides its text; the content where there is more than texts."""
    rest = rest_of(item, OF_MESSAGE)
    content = item.get("content")
    if any(block.get("type") != "input_text" for block in objects_of(content)):
        rest["content"] = content
    return rest
