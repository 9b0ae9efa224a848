"""Which errors are open, event by event: the rule of `projections/resolutions.py` for a journal's end.

A hook asks no index, so it holds the errors that were open in the cached facts, and takes the later events.
A test gives both the same events. On the hook path, where a session begins.
"""

from eventlog.base.exploring import CHANGING_TOOLS, is_exploratory
from eventlog.memory import codes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Facts = dict[str, Any]


class OpenErrors:
    """`errors`, as a briefing's facts have them; each method changes that list."""

    def __init__(self, errors: "list[Facts]") -> None:
        self._errors = errors
        # Of calls that failed: tool, target and command; of errors in the list: the call that failed.
        self._failed: "dict[tuple[str | None, object], tuple[str | None, str | None, str | None]]" = {}
        self._calls: "dict[str, tuple[str | None, object]]" = {}

    def take_call(self, session: "str | None", event: "Facts", payload: "Facts") -> None:
        """A tool was called: where it worked, what failed before on the same target is dealt with."""
        tool, command = event.get("tool"), command_of(payload)
        target = event.get("path") or command or event.get("title")
        call = (session, event.get("tool_use_id"))
        if event.get("success") is False and call[1] is not None and target:
            self._failed[call] = (tool, target, command)
            is_exploring = is_exploratory(tool, command)
            mine = {error["event"] for error in self._errors if self._calls.get(error["event"]) == call}
            self._errors[:] = [
                {**error, "target": target} if error["event"] in mine else error
                for error in self._errors
                if not (is_exploring and error["event"] in mine)
            ]
        elif event.get("success") is True and session is not None and target:
            kind = kind_of(tool)
            self._errors[:] = [
                error
                for error in self._errors
                if error["target"] != target or error["session"] != session or kind_of(error["tool"]) != kind
            ]

    def take_mark(self, event: "Facts") -> None:
        """An error that is marked resolved: those that it names are dealt with."""
        links = ("extends", "related_to", "reinforces", "contradicts")
        names = {event.get("context_id")}.union(*(event.get(name) or () for name in links)) - {None}
        self._errors[:] = [error for error in self._errors if error["context"] not in names]

    def take_error(
        self, session: "str | None", event: "Facts", payload: "Facts", position: int
    ) -> "Facts | None":
        """Something failed: the error where it is open."""
        call = (session, event.get("tool_use_id"))
        target = event.get("target") or event.get("path") or command_of(payload)
        mine = (event.get("tool"), target, command_of(payload))
        tool, target, command = self._failed.get(call, mine)
        if is_exploratory(tool, command):
            return None
        if call[1] is not None:
            self._calls[event["event_id"]] = call
        message = payload.get("message")
        return {
            "event": event["event_id"],
            "type": event.get("error_type"),
            "tool": event.get("tool"),
            "path": event.get("path"),
            "text": message if isinstance(message, str) else event.get("title") or "",
            "session": session,
            "target": target,
            "context": event.get("context_id"),
            "position": position,
        }


def kind_of(tool: "str | None") -> "str | None":
    """The tool, or one word for all that change a file."""
    return "change" if tool is not None and tool.lower() in CHANGING_TOOLS else tool


def command_of(payload: "Facts") -> "str | None":
    """The command line of a call, by its arguments; words of a list are joined by blanks."""
    args = payload.get("args")
    command = codes.command_of(args) if isinstance(args, dict) else None
    return command or codes.command_of({"command": payload.get("command")}) or None
