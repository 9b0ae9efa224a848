"""What a reader of a format says of a transcript: events in the making, and what tools did to files.

A `Draft` belongs to one source and one thread. Readers call it in the order of the lines; the importer takes
`items` after each line. Pure.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from blake3 import blake3

from eventlog.agents.kit.call import ToolUse, args_digest, is_global, numbered, object_of
from eventlog.agents.kit.fact import Fact, words_in
from eventlog.agents.kit.lines import Line
from eventlog.base import jsontext
from eventlog.base.names import event_id_of
from eventlog.base.types import KIND_OF_TYPE, SOURCE_OF_TYPE, Event

# What is recorded once, however often a line says it. Of all else the same id with other content is another
# fact.
_ONCE = frozenset(("session", "turn", "subagent", "import", "llm"))

WRITE, REPLACE, PATCH, DELETE, SEEN = "write", "replace", "patch", "delete", "seen"
BACKUP = "backup"


@dataclass(slots=True, kw_only=True)
class FileEdit:
    """What a tool did to a file, or showed of it; which of the fields count follows from `kind`.

    - `WRITE`: the file holds `content` now.
    - `REPLACE`: each of `replacements` (old, new, all) was made in turn.
    - `PATCH`: `patch`, a unified diff without its header, was applied.
    - `DELETE`: it is gone.
    - `SEEN`: nothing was changed; the file held `content`. With `loose`, perhaps and a newline more. With
      `first_line` that is a part of it, which begins with the line of this number, from 1.
    - `BACKUP`: nothing was changed; the agent keeps what the file held now under the name `backup` (None:
      there was no file).

    `path` is as the tool got it, `old_path` where the file was before. `original` is the content before as
    the agent says it; `created` whether it says that there was none (None: it does not say). `patch` is also
    kept for an edit whose content cannot be computed. `added` and `removed` are its counts of lines.
    """

    kind: str = field(kw_only=False)
    path: str = field(kw_only=False)
    content: str | bytes | None = None
    original: str | bytes | None = None
    created: bool | None = None
    replacements: "tuple[tuple[str, str, bool], ...]" = ()
    patch: str | None = None
    old_path: str | None = None
    added: int | None = None
    removed: int | None = None
    loose: bool = False
    first_line: int | None = None
    backup: str | None = None


@dataclass(frozen=True, slots=True)
class FileItem:
    """A file edit in its place among the events: `cause` is the action that made it."""

    cause: Event
    edit: FileEdit
    columns: Event


class Draft:
    """The events of one source, as its reader makes them.

    `columns` are what every event of the source has, `of_line` what those of the present line have; readers
    set them. `session`, `turn`, `cwd` (the first) and `commit` are known once a line named them; `outcome` is
    what the model said last, `status` how the turn under way ends when it does not end well. `parts` are the
    paths of the source's files, to which the number of a line's part belongs. `closed` keeps how each turn
    ended that was followed by another, since a line may hold several; `is_copy` is the source's. `owner` is
    the session that had the turn under way first, where another copied it; `aliases` are other names that
    lines give the session. `reused` are facts whose id, as the agent gave it, another one of the source has;
    `former` has the ids that earlier versions gave facts, by their ids. `is_taken` says whether another
    session has another fact under the id of one, `is_held` whether it has a call with the id of a tool call.
    """

    def __init__(self, agent: str, parts: Sequence[str] = (), *, is_copy: bool = False) -> None:
        self.agent = agent
        self.parts = parts
        self.is_copy = is_copy
        self.columns: Event = {"agent": agent}
        self.of_line: Event = {}
        self.items: list[Event | FileItem] = []
        self.session: str | None = None
        self.turn: str | None = None
        self.cwd: str | None = None
        self.commit: str | None = None
        self.line: Line | None = None
        self.outcome: str | None = None
        self.status: str | None = None
        self.closed: dict[str, tuple[str | None, str | None]] = {}
        self.owner: str | None = None
        self.aliases: list[str] = []
        self.reused: set[str] = set()
        self.former: dict[str, str] = {}
        self.is_taken: Callable[[Fact], bool] | None = None
        self.is_held: Callable[[str], bool] | None = None
        # Of what another session's fact may have the id: whether one has.
        self._taken: dict[tuple[str, ...], bool] = {}  # by scope and id of a tool call
        self._answers: dict[str, str] = {}  # the id of a model's answer → that which it has here
        self._turns: dict[object, str] = {}  # the same of turns, where it is another one
        self._apart: set[str] = set()  # of all else: events that have another id here
        self._contents: dict[str, int] = {}  # event id → what stands for the content of the first
        self._calls: dict[tuple[str, ...], int] = {}  # how many tool calls of each key
        self._tool_use_ids: set[str] = set()  # those that are not unique

    # -- what a reader calls ---------------------------------------------------------------------

    def begin_session(self, key: str, payload: Mapping[str, object], **columns: object) -> None:
        """The session of all events from here on; a `session` start."""
        self.enter_session(key)
        self.event("session", payload, "session", key, operation="start", status="active", **columns)

    def enter_session(self, key: str) -> None:
        """The session of all events from here on, whose start is in another source."""
        self.session = key
        self.columns["agent_session_id"] = key

    def leave_session(self) -> None:
        """The source goes on with another session."""
        if self.turn is not None:
            self.closed[self.turn] = self.outcome, self.status
        self.turn = self.owner = self.outcome = self.status = None
        self.of_line = {}

    def begin_turn(
        self, key: str, message: str, *, origin: str = "user", wordless: str | None = None, **columns: object
    ) -> Event:
        """A turn begins with `message`: its start, and the intent, which is returned. `key` is the agent's id
        of the turn.

        `wordless` is its title when the message has no words.
        """
        if self.turn is not None:
            self.closed[self.turn] = self.outcome, self.status
        self.outcome = self.status = None
        payload: Event = {"user_message": message, "origin": origin}
        if key not in self._turns and self._is_another_turn(key, payload, columns):
            self._turns[key] = f"{self.session}:{key}"
        key = self._turns.get(key, key)
        self.turn = key
        self.of_line["agent_turn_id"] = key
        self.event(
            "turn",
            payload,
            "turn",
            key,
            "start",
            operation="start",
            status="active",
            title=wordless or "(no words)" if origin == "user" else f"({origin.replace('_', ' ')})",
            **columns,
        )
        return self.event(
            "intent",
            {"message": message, "origin": origin},
            "intent",
            key,
            source="user" if origin == "user" else "system",
        )

    def message(self, kind: str, text: str, *key: str | None, **fields: object) -> None:
        """What the model said: `kind` is text or reasoning. The main agent's last text is the outcome."""
        payload = {"text": text, **fields}
        self.event("message", payload, *(("message", *key) if key else ()), source="agent", operation=kind)
        if kind == "text" and "subagent_id" not in self.of_line:
            self.outcome = text

    def tool_event(
        self,
        event_type: str,
        use: ToolUse,
        payload: Mapping[str, object],
        *,
        called_at: object = None,
        **columns: Any,
    ) -> Event:
        """What a tool was asked for, or gave; as `event`."""
        key = self._call_key(event_type, use, called_at=called_at)
        return self.event(event_type, payload, *key, tool=use.name, tool_use_id=use.id, **columns)

    def tool_failed(
        self,
        use: ToolUse,
        message: str,
        *,
        error_type: str = "tool_failure",
        command: object = None,
        half: Any = None,
    ) -> Event:
        """The last action of a tool failed."""
        payload = {"message": message, "tool": use.name, "command": command or use.command}
        key = self._call_key("error", use)
        columns = {"tool": use.name, "tool_use_id": use.id, "half": half}
        return self.error(payload, *key, error_type=error_type, **columns)

    def error(
        self, payload: Mapping[str, object], *key: str | None, resolved: bool = False, **columns: Any
    ) -> Event:
        """Something failed; `columns` has its `error_type`."""
        return self.event("error", payload, *key, resolved=resolved, related_to=["errors"], **columns)

    def subagent(
        self, operation: str, subagent: str, payload: Mapping[str, object], *key: str | None, **columns: Any
    ) -> Event:
        """A subagent starts or ends."""
        key = ("subagent", subagent, operation, *key)
        return self.event("subagent", payload, *key, operation=operation, source="agent", **columns)

    def event(
        self,
        event_type: str,
        payload: Mapping[str, object],
        *key: str | None,
        half: Any = None,
        **columns: object,
    ) -> Event:
        """One more event. `key` makes its id; with an unknown part, session and content do.

        `half` has the columns in which the event differs where an import ended between its lines.
        """
        event: Event = {
            "event_type": event_type,
            "event_kind": KIND_OF_TYPE.get(event_type, "observation"),
            "source": SOURCE_OF_TYPE.get(event_type, "system"),
            **self.columns,
            **self.of_line,
        }
        for name, value in columns.items():
            if value is not None:
                event[name] = value
        stated = event["payload"] = {name: value for name, value in payload.items() if value is not None}
        if not key or None in key or "" in key:
            key = (event_type, self.session, digest_of(stated), self._location())
        parts = [part or "" for part in key]
        if self._turns:
            parts = [self._turns.get(part, part) for part in parts]
        event["event_id"] = event_id_of(self.agent, *parts)
        if event_type not in _ONCE:
            if parts[-1] != self.turn:
                if not any(map(self._tells, parts[1:])):
                    self._scope(event, parts)
                elif self._is_reused(event, parts):
                    self._scope(event, parts, is_new=True)
            self._keep_apart(event, half)
        return self.tell(event)

    def tell(self, event: Event) -> Event:
        """One more event, which has its id."""
        self.items.append(self._in_own_turn(event))
        return event

    def _in_own_turn(self, columns: Event) -> Event:
        turn = columns.get("agent_turn_id")
        if turn in self._turns:
            columns["agent_turn_id"] = self._turns[turn]
        return columns

    def answer_id(self, message_id: str, columns: "Callable[[], Event]", *, grows: bool = False) -> str:
        """The id of a model's answer; with the session where another answer, of another session, has it.

        Args: columns: gives those of the model call; grows: more of it may follow.
        """
        if self.is_taken is None or self.is_copy or self.session is None or self.session in message_id:
            return message_id
        if message_id not in self._answers:
            asked = Fact(lambda: {"event_type": "llm", **self.of_line, **columns()}, self._sessions(),
                         message_id=message_id, grows=grows)  # fmt: skip
            is_taken = self.is_taken(asked)
            self._answers[message_id] = f"{self.session}:{message_id}" if is_taken else message_id
        return self._answers[message_id]

    def _call_key(self, event_type: str, use: ToolUse, *, called_at: object = None) -> tuple[str | None, ...]:
        """The key of an event of a tool call; of an error that of the last action.

        `called_at`: when the call was made, where that is known and `of_line` is its result's.
        """
        if use.id is None:
            return (event_type, *use.scope, None)
        own = (*use.scope, use.id)
        session, tells = self._sessions()[1], is_global(use.id)
        if tells and not self._is_apart(event_type, own, use.words, called_at):
            return (event_type, *own)
        key: tuple[str, ...] = (event_type, *own, session, args_digest(use.words))
        plain, number = key[1:], self._calls.get(key[1:], 0)
        key = numbered(key, max(0, number - 1) if event_type == "error" else number)
        event_id = event_id_of(self.agent, *key)
        if event_type != "error":
            self._calls[plain] = number + 1
            if tells or use.id in self._tool_use_ids:
                self.reused.add(event_id)
            self._tool_use_ids.add(use.id)
        if not tells:
            self.was(event_id, event_id_of(self.agent, event_type, *own))
        return key

    def _sessions(self) -> tuple[str, str]:
        """The session of the line, and the one that had its turn first."""
        here = str(self.of_line.get("agent_session_id") or self.session)
        return here, self.owner or here

    def _is_apart(self, event_type: str, key: "tuple[str, ...]", args: object, called_at: object) -> bool:
        """Whether a call cannot have the id that the agent gave it; the first with that id decides."""
        if self.is_taken is None or self.is_copy or event_type == "error":
            return self._taken.get(key, False)
        if key not in self._taken:
            call: Event = {"event_type": event_type, **self.of_line, "payload": {"args": args}}
            asked = Fact(lambda: call, self._sessions(), tool_call=key, called_at=called_at)
            self._taken[key] = self.is_taken(asked)
        return self._taken[key]

    def _is_reused(self, event: Event, parts: "list[str]") -> bool:
        """Whether another session's fact has the id of an event; of a tool call its id has decided that."""
        event_id, sessions = str(event["event_id"]), self._sessions()
        if self.is_taken is None or self.is_copy or event_id in self._contents or event_id in self._apart:
            return event_id in self._apart
        if tuple(parts[1:]) in self._taken or not {self.session, *sessions}.isdisjoint(parts):
            return False
        if not self.is_taken(Fact(lambda: event, sessions)):
            return False
        self._apart.add(event_id)
        return True

    def _is_another_turn(self, key: str, payload: Event, columns: Event) -> bool:
        """Whether another session has a turn of this id, of which this one is no copy."""
        if self.is_taken is None or self.is_copy or not key or str(self.session) in key:
            return False
        event: Event = {
            "event_type": "turn",
            "operation": "start",
            **self.of_line,
            **columns,
            "payload": payload,
        }
        event["event_id"] = event_id_of(self.agent, "turn", key, "start")
        return self.is_taken(Fact(lambda: event, (self._sessions()[0],)))

    def is_of_another(self, tool_use_id: str) -> bool:
        """Whether a call of another session has this id, so that it does not name an action of this one."""
        return self.is_held is not None and self.is_held(tool_use_id)

    def was(self, event_id: str, former: str) -> None:
        """An earlier version, or an import that ended within the event's lines, gave it another id."""
        if former != event_id:
            self.former[event_id] = former

    def file(self, cause: Event, edit: FileEdit) -> None:
        """What the action `cause` did to a file, or showed of it."""
        self.items.append(FileItem(cause, edit, self._in_own_turn({**self.columns, **self.of_line})))

    def raw(self, record: Mapping[str, object], kind: str | None, *key: str | None) -> Event:
        """Keep a line as it is."""
        return self.event("transcript", record, *(("transcript", *key) if key else ()), operation=kind)

    def add_rest(self, event_type: str, rest: Mapping[str, object], *, was_imported: bool) -> None:
        """What the line at hand adds to the last event of this type; it has a place of its own in the log
        where an import before has read no further than the event, which was then recorded without it."""
        if not rest or not was_imported or self.line is None or self.line.is_imported:
            return
        events = (event for event in reversed(self.items) if isinstance(event, dict))
        cause = next((str(event["event_id"]) for event in events if event["event_type"] == event_type), None)
        if cause is not None:
            self.event("transcript", rest, "transcript", cause, "rest", operation="rest", cause=cause)

    def _tells(self, part: str) -> bool:
        """Whether a part of a key names the fact in all sessions: a random id, a digest, or the session."""
        return part == self.session or is_global(part)

    def _scope(self, event: Event, key: "list[str]", *, is_new: bool = False) -> None:
        """Add the session to a key whose id may come again in another one, or does: that `is_new`."""
        former, session = str(event["event_id"]), event.get("agent_session_id")
        event["event_id"] = event_id_of(self.agent, *key, self.owner or str(session or ""))
        if is_new:
            self.reused.add(str(event["event_id"]))
        else:
            self.was(str(event["event_id"]), former)

    def _keep_apart(self, event: Event, half: "Event | None") -> None:
        """Give a fact whose id another one of the source has an id of its own, which its content makes."""
        data = _content_of(event)
        first = self._contents.setdefault(str(event["event_id"]), hash(data))
        if first == hash(data):
            return
        own = self._id_by_content(event, data)
        if half is not None:
            self.was(own, self._id_by_content(event, _content_of({**event, **half})))
        event["event_id"] = own
        if own not in self._contents:
            self.reused.add(own)
            self._contents[own] = hash(data)

    def _id_by_content(self, event: Event, content: bytes) -> str:
        key = str(event["event_type"]), "again", str(event["event_id"]), blake3(content).hexdigest()[:32]
        return event_id_of(self.agent, *key)

    # -- for the importer ------------------------------------------------------------------------

    def take(self) -> "list[Event | FileItem]":
        """What came since the last time."""
        items, self.items = self.items, []
        return items

    def _location(self) -> str:
        """Tells lines with equal content apart; that of a copy is another, which is the price of no key."""
        return "" if self.line is None else str(self.line.number)


def _content_of(event: Event) -> bytes:
    """What makes an event the fact that it is: what it says, of what kind and tool, and when.

    A copy that a fork or a subagent begins with differs only in where it is.
    """
    get = event.get
    words = words_in(object_of(event, "payload"))
    identity = get("event_type"), get("operation"), get("occurred_at"), get("tool_use_id"), get("tool")
    return jsontext.encode_without_floats([*identity, words])


def digest_of(value: Any) -> str:
    return blake3(jsontext.encode_fast(value)).hexdigest()[:32]


def rest_of(record: "Mapping[str, Any]", known: "Collection[str]") -> "dict[str, Any]":
    """What a line, or a part of one, says beside what is known."""
    return {name: value for name, value in record.items() if name not in known and value is not None}
