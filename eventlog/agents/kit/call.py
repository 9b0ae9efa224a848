"""What one hook call of an agent says, before anything is looked at: the values that adapters give.

`Call` is what `interpret` of an adapter returns; `hooks/record.py` completes and writes it. The functions
below read hook input without trusting it: a value of the wrong kind is an unknown one. Pure but for
`read_tail`; any thread may use them. On the hook path.
"""

import os
import stat

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.names import event_id_of
from eventlog.base.types import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

# The moments at which a working directory is looked at.
SESSION, TURN_START, TOOL_START, TOOL, TURN_END, SESSION_END = (
    "session",
    "turn_start",
    "tool_start",
    "tool",
    "turn_end",
    "session_end",
)

TEXT_SIZE_MAX = 4096  # of ids, names and paths that become columns
_TITLE_SIZE_MAX = 80
# Of the last word of an id that is unique by itself.
_RANDOM_SIZE_MIN = 5
_ALNUM = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LONG_SIZE_MIN = 12


class EditedFile:
    """A file that an edit tool says it changed.

    `original` is the text that the agent found in it, None when it does not say; `added` and `removed` are
    the lines that its own patch counts.
    """

    __slots__ = ("added", "original", "path", "removed")

    def __init__(self, path: str) -> None:
        self.path = path
        self.original: "str | None" = None
        self.added: "int | None" = None
        self.removed: "int | None" = None


class ToolUse:
    """One use of a tool: the id that the agent gave it, if any, and its arguments.

    `words` stand for the arguments in ids, where hooks spell them otherwise than transcripts do. `scope` is
    what the ids of its calls are unique in, where that is not the agent.
    """

    __slots__ = ("args", "id", "name", "scope", "words")

    def __init__(
        self,
        name: "str | None",
        id: "str | None",
        args: object,
        words: object = None,
        scope: "tuple[str, ...]" = (),
    ) -> None:
        self.name = name
        self.id = id
        self.args = args
        self.words = args if words is None else words
        self.scope = scope

    @property
    def command(self) -> object:
        """The command that a shell is to run, where the arguments name one."""
        return self.args.get("command") if isinstance(self.args, dict) else None


class CalledTool:
    """What a hook call says of its tool.

    `kind` is what the tool may change (`tools.py`), None for a call of no tool; `named` are the files that an
    edit tool names. `started_action_id` is the action of a tool that begins; `ended` are the actions of those
    that are known to have ended, and `cause` is the one of them that explains what a capture finds.
    `all_ended` says that every tool of the turn has ended by now.
    """

    def __init__(self) -> None:
        self.kind: "str | None" = None
        self.named: "list[EditedFile]" = []
        self.started_action_id: "str | None" = None
        self.ended: "list[str]" = []
        self.cause: "str | None" = None
        self.all_ended = False

    def rename(self, before: str, after: str) -> None:
        """Give an action its id in place of an earlier one."""
        self.started_action_id = after if self.started_action_id == before else self.started_action_id
        self.cause = after if self.cause == before else self.cause
        self.ended = [after if action == before else action for action in self.ended]


class CallKeys:
    """What an agent says in place of the ids that it does not give; `hooks/synthetic_ids.py` makes the ids.

    `called_at` is the time of the call, `tool_call` the tool and a digest of its arguments. `counted` are the
    events of tool calls whose ids are not unique, with their keys (`call_key`). `model_call` is the key of a
    model call but for its number among equal ones of its turn.
    """

    def __init__(self) -> None:
        self.called_at: "str | None" = None
        self.tool_call: "tuple[str, str] | None" = None
        self.counted: "list[tuple[Event, tuple[str, ...]]]" = []
        self.model_call: "tuple[str, ...] | None" = None


class Call:
    """One hook call.

    `columns` are the envelope columns that all its events share; `events` are complete but for those, and
    come in the order in which they are to be written; `may_duplicate` says that some may have been recorded
    before. `prompt` is a person's message, which names the turn (whose start is the first event) and may name
    the session; `answers` is the prompt that the end of its turn names. `transcripts` are files in which the
    agent keeps its model calls and words. `unheard` is a call whose turn is new to the notes, because the
    hook of its prompt was killed.
    """

    def __init__(self, agent: str, columns: Event) -> None:
        self.agent = agent
        self.columns = columns
        self.events: "list[Event]" = []
        self.moment: "str | None" = None
        self.tool = CalledTool()
        self.keys = CallKeys()
        self.prompt: "str | None" = None
        self.answers: "str | None" = None
        self.transcripts: "list[str]" = []
        self.may_duplicate = False
        self.unheard = False

    @property
    def session(self) -> "str | None":
        return text_of(self.columns, "agent_session_id")

    @property
    def turn(self) -> "str | None":
        return text_of(self.columns, "agent_turn_id")

    def take(
        self,
        payload: "dict[str, object]",
        meanings: "Mapping[str, Callable[[Call, dict[str, object]], None]]",
        *raw_key: "str | None",
    ) -> "Call":
        """What a hook's input means, by its event; kept raw where that or the session is not known.

        Args: raw_key: the key of the raw event (`raw`).
        """
        name = text_of(payload, "hook_event_name")
        meaning = meanings.get(name or "")
        if meaning is None or self.session is None:
            raw(self, payload, name, *raw_key)
        else:
            meaning(self, payload)
        return self

    # -- what the moments of all agents say ------------------------------------------------------

    def begin_session(self, source: str, payload: "Mapping[str, object]", **columns: object) -> None:
        """A session begins or, by its `source`, goes on."""
        begins = source in ("startup", "clear")
        key = ("session", self.session) if begins else ()
        operation = "start" if begins else source
        self.add("session", payload, *key, operation=operation, status="active", **columns)
        if source != "compact":  # which happens in the middle of a turn
            self.moment = SESSION

    def end_session(self, reason: str, payload: "Mapping[str, object]") -> None:
        self.add("session", {**payload, "end_reason": reason}, operation="end", status="closed")
        self.moment = SESSION_END

    def begin_turn(
        self, message: str, payload: "Mapping[str, object]", *, origin: "str | None" = None
    ) -> None:
        """A turn begins with `message`.

        Args: payload: what else is known of the prompt; origin: who wrote it, where the agent reports that.
        """
        turn, by_person = self.turn, origin in (None, "user", "sdk")
        self.add(
            "turn",
            {"user_message": message, "origin": origin},
            "turn",
            turn,
            "start",
            operation="start",
            status="active",
            title=None if by_person else f"({str(origin).replace('_', ' ')})",
        )
        fields = {"snapshot_type": "turn_start"}
        self.add("snapshot", fields, "snapshot", turn, "start", operation="turn_start")
        words = {"message": message, "origin": origin, **payload}
        self.add("intent", words, "intent", turn, source="user" if by_person else "system")
        self.moment = TURN_START
        self.prompt = message if by_person else None

    def end_turn(
        self, outcome: object, payload: "Mapping[str, object]", *key: "str | None", status: str
    ) -> None:
        """A turn ends; `outcome` are the last words of the model."""
        self.add("snapshot", {"snapshot_type": "turn_end"}, operation="turn_end")
        words = {"outcome": outcome if isinstance(outcome, str) else None, **payload}
        self.add("turn", words, *key, source="agent", operation="end", status=status)
        self.moment = TURN_END

    def read_transcript(self, path: "str | None") -> None:
        """Model calls, or the agent's words, are in the file at `path`."""
        self.transcripts += [] if path is None else [path]

    # -- events ----------------------------------------------------------------------------------

    def add_of_tool(
        self, event_type: str, use: ToolUse, payload: "Mapping[str, object]", **columns: object
    ) -> Event:
        """One more event, of a tool call; its action is what this begins or ends."""
        if use.id is None:
            return self.add(event_type, payload, None, tool=use.name, **columns)
        key = call_key(event_type, use.id, self.session, use.words, use.scope)
        event = self.add(event_type, payload, *key, tool=use.name, tool_use_id=use.id, **columns)
        self.count(event, key, use.id)
        if event_type == "action":
            self.tool.ended.append(str(event["event_id"]))
        elif event_type == "tool_start":
            self.tool.started_action_id = event_id_of(self.agent, "action", *key[1:])
        return event

    def add_missed_look(self, turn: str) -> None:
        """Record that nothing was captured when the turn began: no hook reported it then."""
        fields = {"snapshot_type": "turn_start", "capture": {"state": "missed"}}
        columns = {"operation": "turn_start", "success": False}
        self.add("snapshot", fields, "snapshot", turn, "missed", **columns)
        if self.moment != TOOL_START:  # before the capture of this call
            self.events.insert(0, self.events.pop())

    def count(self, event: Event, key: "tuple[str, ...]", tool_use_id: str) -> None:
        """`event` of a tool call has `key`, which equal calls share unless the id is unique."""
        event["event_id"] = event_id_of(self.agent, *key)
        if not is_global(tool_use_id):
            self.keys.counted.append((event, key))

    def add(
        self, event_type: str, payload: "Mapping[str, object]", *key: "str | None", **columns: object
    ) -> Event:
        """One more event. `key` makes its id (docs/event-ids.md); a random id when a part is unknown."""
        event: Event = {"event_type": event_type}
        event.update((name, value) for name, value in columns.items() if value is not None)
        event["payload"] = {name: value for name, value in payload.items() if value is not None}
        known = [part for part in key if part]
        if known and len(known) == len(key):
            event["event_id"] = event_id_of(self.agent, *known)
        self.events.append(event)
        return event


def columns_of(agent: str, fields: "Mapping[str, object]", names: "Iterable[tuple[str, str]]") -> Event:
    """The shared columns: `names` are (column, name in the hook's input)."""
    columns: Event = {"agent": agent}
    for column, name in names:
        value = text_of(fields, name)
        if value is not None:
            columns[column] = value
    return columns


def text_of(fields: "Mapping[str, object]", name: str) -> "str | None":
    """A text that may become a column, or a part of a key; None when it is none."""
    value = fields.get(name)
    if not isinstance(value, str) or not value or len(value) > TEXT_SIZE_MAX:
        return None
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def int_of(fields: "Mapping[str, object]", name: str) -> "int | None":
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**53:
        return None
    return int(value)


def object_of(fields: "Mapping[str, object]", name: str) -> "dict[str, object]":
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def known(**columns: "Any") -> Event:
    """Columns without those whose value is unknown."""
    return {name: value for name, value in columns.items() if value is not None}


def without(fields: "Mapping[str, Any]", *names: str) -> "dict[str, Any]":
    """What an object says besides `names`."""
    return {name: value for name, value in fields.items() if name not in names}


def title_of(text: str) -> "str | None":
    """The first line that says something, cut at a word."""
    for line in text.split("\n", 50)[:50]:
        words = " ".join(line[:1000].split())
        if words:
            if len(words) <= _TITLE_SIZE_MAX:
                return words
            return words[:_TITLE_SIZE_MAX].rpartition(" ")[0][:_TITLE_SIZE_MAX] or words[:_TITLE_SIZE_MAX]
    return None


def raw(call: Call, fields: "Mapping[str, object]", name: "str | None", *key: "str | None") -> None:
    """Keep a call as it came, as one event of type `hook`."""
    tool_use_id = text_of(fields, "tool_use_id")
    columns = {
        "operation": name,
        "tool": text_of(fields, "tool_name"),
        "model": text_of(fields, "model"),
        "tool_use_id": tool_use_id,
    }
    event = call.add("hook", fields, "hook", name, *(key or (None,)), **columns)
    if name is not None and tool_use_id is not None and key == (tool_use_id,):
        of_call = call_key("hook", tool_use_id, call.session, fields.get("tool_input"), (name,))
        call.count(event, of_call, tool_use_id)


# -- keys of tool calls --------------------------------------------------------------------------


def is_global(tool_use_id: str) -> bool:
    """Whether an id is unique by itself: its last word looks random.

    That is one of 5 characters or more with both letters and digits, or of 12 or more with digits, or with
    both small and capital letters.
    """
    word = tool_use_id[len(tool_use_id.rstrip(_ALNUM)) :]
    if word.isalpha():
        return len(word) >= _LONG_SIZE_MIN and not (word.islower() or word.isupper())
    return len(word) >= (_LONG_SIZE_MIN if word.isdigit() else _RANDOM_SIZE_MIN)


def call_key(
    event_type: str, tool_use_id: str, session: "str | None", args: object, scope: "tuple[str, ...]" = ()
) -> "tuple[str, ...]":
    """What makes the id of an event of a tool call, after the agent.

    Args: args: as the agent gave them to the tool; scope: what its ids are unique in, where that is not the
        agent.
    """
    if is_global(tool_use_id):
        return (event_type, *scope, tool_use_id)
    return (event_type, *scope, tool_use_id, session or "", args_digest(args))


def numbered(key: "tuple[str, ...]", number: int) -> "tuple[str, ...]":
    """The key of the `number`th call, from 0, of those that have the same one."""
    return (*key, str(number)) if number else key


def args_digest(args: object) -> str:
    """32 hex digits that stand for the arguments of a call, whatever the order of their names."""
    return blake3(jsontext.encode(_ordered(args))).hexdigest()[:32]


def _ordered(value: object) -> object:
    if isinstance(value, dict):
        return {name: _ordered(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_ordered(element) for element in value]
    return value


class TranscriptOffset:
    """How far a transcript was read: the offset after the last whole line, in the file of this inode."""

    __slots__ = ("inode", "offset")

    def __init__(self, inode: int = 0, offset: int = 0) -> None:
        self.inode = inode
        self.offset = offset


def read_tail(path: str, mark: TranscriptOffset, bytes_max: int) -> "tuple[bytes, TranscriptOffset]":
    """The whole lines after `mark`, and the mark to go on from. Raises: OSError when it cannot be read."""
    if not path.endswith(".jsonl"):
        return b"", mark
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return b"", mark
        offset = mark.offset if mark.inode == status.st_ino and mark.offset <= status.st_size else 0
        data = os.pread(fd, bytes_max, offset)
    finally:
        os.close(fd)
    end = data.rfind(b"\n") + 1
    if end == 0 and len(data) == bytes_max:
        end = len(data)  # a line longer than what one call may read is passed over
    return data[:end], TranscriptOffset(status.st_ino, offset + end)


def time_of(text: "str | None") -> "int | None":
    """Microseconds since 1970 of `YYYY-MM-DDThh:mm:ss[.fff]Z`; None for anything else."""
    if text is None or len(text) < 20 or not text.endswith("Z") or text[10] != "T":
        return None
    whole, _, fraction = text[:-1].partition(".")
    digits = (whole[0:4], whole[5:7], whole[8:10], whole[11:13], whole[14:16], whole[17:19])
    if len(whole) != 19 or not all(part.isascii() and part.isdigit() for part in (*digits, fraction or "0")):
        return None
    year, month, day, hour, minute, second = map(int, digits)
    # Days since 1970, with years that begin in March so that the leap day is their last.
    shifted = year - (month < 3)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + day_of_year - 719_468
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + int((fraction + "000000")[:6])
