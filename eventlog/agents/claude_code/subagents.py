"""The subagents of one session of Claude Code: which line is whose, and which tool call launched which.

One object for one source, no thread but its own. Pure.
"""

from collections.abc import Mapping
from typing import Any

from blake3 import blake3

from eventlog.agents.kit.call import text_of

LAUNCHERS = ("Agent", "Task")

_Object = dict[str, Any]


class Subagents:
    """`meta_parts` are the files of the source that say what a subagent is, each with its id."""

    def __init__(self, meta_parts: Mapping[int, str]) -> None:
        self.meta_parts = meta_parts
        self.metas: dict[str, _Object] = {}
        self.turns: dict[str, str | None] = {}  # of their first lines; later ones may name a later turn
        self._chain: dict[str, str] = {}  # line → subagent, where lines name none
        self._begun: set[str] = set()
        self._launches: dict[str, tuple[str, str | None]] = {}  # prompt → tool call, kind of subagent
        self._launched: dict[str, str] = {}  # tool call → subagent
        self._words: dict[str, str] = {}

    def of_line(self, record: _Object) -> str:
        """The subagent of a side chain's line: the one that it names, else the first line of its chain."""
        subagent = text_of(record, "agentId")
        if subagent is None:
            uuid, parent = str(record.get("uuid")), str(record.get("parentUuid"))
            subagent = self._chain[uuid] = self._chain.get(parent, uuid)
        return subagent

    def launch(self, tool: str | None, tool_use_id: str, args: object) -> None:
        """A tool call, which may launch one."""
        if tool in LAUNCHERS and isinstance(args, dict) and isinstance(args.get("prompt"), str):
            self._launches[args["prompt"]] = tool_use_id, text_of(args, "subagent_type")

    def begin(self, subagent: str, prompt: str) -> "tuple[_Object, str | None, str | None] | None":
        """What is known of one that gets its first prompt: its facts, tool call and kind; None later on."""
        if subagent in self._begun:
            return None
        self._begun.add(subagent)
        meta = self.metas.pop(subagent, {})
        tool_use_id, kind = self._launches.pop(prompt, (None, None))
        tool_use_id = text_of(meta, "toolUseId") or tool_use_id
        if tool_use_id is not None:
            self._launched[tool_use_id] = subagent
        return meta, tool_use_id, text_of(meta, "agentType") or kind

    def note_text(self, subagent: str, text: str) -> None:
        self._words[subagent] = text

    def ended(self, tool_use_id: str | None, result: _Object, shown: str) -> "tuple[str, str] | None":
        """The subagent that a result ends, with the digest of its last words.

        The result of a call that launched a subagent is its end, unless that works in the background.
        """
        subagent = text_of(result, "agentId") or self._launched.get(tool_use_id or "")
        if subagent is None or result.get("status") not in (None, "completed"):
            return None
        words = self._words.get(subagent) or shown
        return subagent, blake3(words.encode("utf-8", "replace")).hexdigest()[:16]
