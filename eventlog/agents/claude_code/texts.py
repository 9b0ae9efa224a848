"""Texts that Claude Code itself writes where a person's or a tool's words would be. Pure."""

import re

from eventlog.agents.claude_code.hooks import NOTIFICATION as NOTIFICATION
from eventlog.agents.kit.words import objects_of

INTERRUPTED = "[Request interrupted"
# A command that the model gets, and one that the client runs itself, as a rule.
COMMAND_OF_MODEL, COMMAND_OF_CLIENT = "<command-message>", "<command-name>"
OUTPUT_OF_CLIENT = ("<local-command-stdout", "<local-command-stderr")
SHELL = "<bash-"
SHELL_SIGN = "! "  # what a person types before such a command

_NO_PROMPTS = ("<local-command-", SHELL, INTERRUPTED, "Caveat:", "<system-reminder>")
_REFUSALS = (
    "The user doesn't want to proceed",
    "The user doesn't want to take this action",
    "Permission to use ",
    "Claude requested permissions to ",
)
_TAG = re.compile(r"<(command-name|command-args|bash-input|bash-stdout|bash-stderr)>(.*?)</\1>", re.DOTALL)


def texts_of(content: object) -> list[str]:
    """The texts of a message's content: itself, or those of its text blocks."""
    if isinstance(content, str):
        return [content]
    texts = [block.get("text") for block in objects_of(content) if block.get("type") == "text"]
    return [text for text in texts if isinstance(text, str)]


def is_persons(text: str) -> bool:
    """Whether it is something that a person, or a notification in their place, asked the model."""
    return not text.lstrip().startswith(_NO_PROMPTS)


def attached(blocks: object) -> str | None:
    """What a message without words holds, such as `(image, 2 documents)`; None when it holds nothing."""
    kinds = [str(block.get("type")) for block in objects_of(blocks)]
    counts = {kind: kinds.count(kind) for kind in kinds}
    kinds_text = ", ".join(kind if count == 1 else f"{count} {kind}s" for kind, count in counts.items())
    return f"({kinds_text})" if kinds_text else None


def is_refusal(text: str) -> bool:
    """Whether the result of a tool says that it was not allowed to run."""
    return text.startswith(_REFUSALS)


def tags_of(text: str) -> dict[str, str]:
    """The parts of a command, by their names."""
    return dict(_TAG.findall(text))


def command_of(text: str) -> str:
    """A command as the person typed it."""
    tags = tags_of(text)
    return f"{tags.get('command-name', '')} {tags.get('command-args', '')}".strip()
