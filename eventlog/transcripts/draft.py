"""What a reader of a format says of a transcript: events in the making, and what tools did to files.

A `Draft` belongs to one source and one thread. Readers call it in the order of the lines; the importer takes
`items` after each line. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from blake3 import blake3

from eventlog import jsontext
from eventlog.names import event_id_of
from eventlog.transcripts.lines import Line
from eventlog.types import KIND_OF_TYPE, SOURCE_OF_TYPE, Event

WRITE, REPLACE, PATCH, DELETE, SEEN = "write", "replace", "patch", "delete", "seen"
BACKUP = "backup"


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

    `path` is as the tool got it, `old_path` where the file stood before. `original` is the content before as
    the agent says it; `created` whether it says that there was none (None: it does not say). `patch` is also
    kept for an edit whose content cannot be computed. `added` and `removed` are its counts of lines.
    """

    __slots__ = (
        "added",
        "backup",
        "content",
        "created",
        "first_line",
        "kind",
        "loose",
        "old_path",
        "original",
        "patch",
        "path",
        "removed",
        "replacements",
    )

    def __init__(
        self,
        kind: str,
        path: str,
        *,
        content: str | bytes | None = None,
        original: str | bytes | None = None,
        created: bool | None = None,
        replacements: "tuple[tuple[str, str, bool], ...]" = (),
        patch: str | None = None,
        old_path: str | None = None,
        added: int | None = None,
        removed: int | None = None,
        loose: bool = False,
        first_line: int | None = None,
        backup: str | None = None,
    ) -> None:
        self.kind = kind
        self.path = path
        self.content = content
        self.original = original
        self.created = created
        self.replacements = replacements
        self.patch = patch
        self.old_path = old_path
        self.added = added
        self.removed = removed
        self.loose = loose
        self.first_line = first_line
        self.backup = backup


class FileItem:
    """A file edit in its place among the events: `cause` is the action that made it."""

    __slots__ = ("cause", "columns", "edit")

    def __init__(self, cause: Event, edit: FileEdit, columns: Event) -> None:
        self.cause = cause
        self.edit = edit
        self.columns = columns


class Draft:
    """The events of one source, as its reader makes them.

    `columns` are what every event of the source has, `of_line` what those of the present line have; readers
    set them. `session`, `turn`, `cwd` (the first) and `commit` are known once they were said; `outcome` is
    what the model said last, `status` how the turn under way ends when it does not end well. `parts` are the
    paths of the source's files, to which the number of a line's part belongs. `closed` keeps how each turn
    ended that was followed by another, since a line may tell several; `is_copy` is the source's.
    """

    __slots__ = (
        "agent",
        "closed",
        "columns",
        "commit",
        "cwd",
        "is_copy",
        "items",
        "line",
        "of_line",
        "outcome",
        "parts",
        "session",
        "status",
        "turn",
    )

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

    # -- what a reader calls ---------------------------------------------------------------------

    def begin_session(self, key: str, payload: Mapping[str, object], **columns: object) -> None:
        """The session of all events from here on; a `session` start."""
        self.enter_session(key)
        self.event("session", payload, "session", key, operation="start", status="active", **columns)

    def enter_session(self, key: str) -> None:
        """The session of all events from here on, whose start stands in another source."""
        self.session = key
        self.columns["agent_session_id"] = key

    def begin_turn(
        self, key: str, message: str, *, origin: str = "user", wordless: str | None = None, **columns: object
    ) -> None:
        """A turn begins with `message`: its start, and the intent. `key` is the agent's id of the turn.

        `wordless` is its title when the message has no words.
        """
        if self.turn is not None:
            self.closed[self.turn] = self.outcome, self.status
        self.outcome = self.status = None
        self.turn = key
        self.of_line["agent_turn_id"] = key
        self.event(
            "turn",
            {"user_message": message, "origin": origin},
            "turn",
            key,
            "start",
            operation="start",
            status="active",
            title=wordless or "(no words)" if origin == "user" else f"({origin.replace('_', ' ')})",
            **columns,
        )
        self.event(
            "intent",
            {"message": message, "origin": origin},
            "intent",
            key,
            source="user" if origin == "user" else "system",
        )

    def message(self, kind: str, text: str, *key: str | None, **said: object) -> None:
        """What the model said: `kind` is text or reasoning. The main agent's last text is the outcome."""
        payload = {"text": text, **said}
        self.event("message", payload, *(("message", *key) if key else ()), source="agent", operation=kind)
        if kind == "text" and "subagent_id" not in self.of_line:
            self.outcome = text

    def event(
        self, event_type: str, payload: Mapping[str, object], *key: str | None, **columns: object
    ) -> Event:
        """One more event. `key` makes its id; with an unknown part, session and content do."""
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
        said = event["payload"] = {name: value for name, value in payload.items() if value is not None}
        if not key or None in key or "" in key:
            key = (event_type, self.session, digest_of(said), self._place())
        event["event_id"] = event_id_of(self.agent, *[part or "" for part in key])
        self.items.append(event)
        return event

    def file(self, cause: Event, edit: FileEdit) -> None:
        """What the action `cause` did to a file, or showed of it."""
        self.items.append(FileItem(cause, edit, {**self.columns, **self.of_line}))

    def raw(self, said: Mapping[str, object], kind: str | None, *key: str | None) -> Event:
        """Keep a line as it is."""
        return self.event("transcript", said, *(("transcript", *key) if key else ()), operation=kind)

    # -- for the importer ------------------------------------------------------------------------

    def take(self) -> "list[Event | FileItem]":
        """What came since the last time."""
        items, self.items = self.items, []
        return items

    def _place(self) -> str:
        """Tells lines with equal content apart; that of a copy is another, which is the price of no key."""
        return "" if self.line is None else str(self.line.number)


def digest_of(value: Any) -> str:
    return blake3(jsontext.encode_fast(value)).hexdigest()[:32]
