"""Shared context in a repository: committed JSON, local session ids, a dashboard. One writer at a time.

    data/context/planning_context.json             committed; the entries of all workstreams
    data/context/implementation_context.json       committed; apart from the other, always
    data/context/{planning,implementation}_sessions.local.json   never committed: ids of tools' sessions
    docs/context_summary.md                        for people to read; nothing is read from it

Every change is an event of type `context` first; the files are views, and `rebuild` writes the same bytes
again (P2). What a file says that the log does not know (somebody else committed it) becomes an event when it
is loaded, the newer of the two for each key. A file that cannot be read stops nobody: its bytes stay in
the store under `memory/aside/`, and of one with marks of a merge conflict both sides are read.
"""

import json
import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from blake3 import blake3

from eventlog.base.errors import InvalidEvent, Unsupported
from eventlog.base.fs import store_error
from eventlog.base.jsontext import object_of
from eventlog.base.locks import CONTEXT, acquire
from eventlog.base.types import Event
from eventlog.memory.files import make_private, pretty, read_json, replace_file, stamp
from eventlog.memory.shared_entry import (
    PHASES,
    SCHEMA_VERSION,
    SESSIONS,
    Entry,
    EntryKey,
    check,
    key_of,
    merged,
    new_entry,
)
from eventlog.memory.shared_state import DIRECTORY, SUMMARY_FILE
from eventlog.store import Store

CONTEXT_EVENT = "context"
_WRITE, _TAKEN = "write", "take"
_IGNORE = b"# Ids of tools' sessions are of use on one machine only.\n*.local.json\n"
_CONFLICT = re.compile(
    r"^<<<<<<<[^\n]*\n(.*?)(?:^\|\|\|\|\|\|\|[^\n]*\n.*?)?^=======[^\n]*\n(.*?)^>>>>>>>[^\n]*\n?", re.M | re.S
)


@dataclass(slots=True)
class Loaded:
    """The entries of one phase. `problems` say what could not be read, and where its bytes are."""

    entries: "dict[EntryKey, Entry]" = field(default_factory=dict)
    problems: "list[str]" = field(default_factory=list)
    newer: bool = False  # the file has a format that this program does not know: it is not replaced


class ContextStore:
    """The shared context of the repository at `root`, with the log of `store`."""

    def __init__(self, store: Store, root: "str | os.PathLike[str]") -> None:
        self.store = store
        self.root = os.fspath(root)

    def path(self, phase: str, *, local: bool = False) -> Path:
        name = f"{phase}_sessions.local.json" if local else f"{phase}_context.json"
        return Path(self.root) / DIRECTORY / name

    def load(self, phase: str) -> Loaded:
        """All entries of a phase, from log and file. Raises: Corruption of the log, NotDurable, OSError."""
        logged = self._logged(phase)
        loaded = self._read_file(phase)
        unknown = [
            entry
            for key, entry in loaded.entries.items()
            if entry != logged.get(key) and _time_of(entry) >= _time_of(logged.get(key, {}))
        ]
        if unknown:
            self.store.append_rows(_event(phase, _TAKEN, entry) for entry in unknown)
        return Loaded(logged | {key_of(entry): entry for entry in unknown}, loaded.problems, loaded.newer)

    def entry(self, phase: str, key: EntryKey) -> Entry:
        """What is known of a workstream; an empty entry when nothing is."""
        return self.load(phase).entries.get(key) or new_entry(key)

    def save(self, phase: str, entry: Entry, *, now: "datetime | None" = None) -> Entry:
        """Merge an entry into what is known, log it, and write the files; the entry as it is then.

        Raises: InvalidEvent (a field is wrong), Unsupported (the file is of a newer format), LockTimeout,
        NotDurable, OSError. When it raises nothing was changed, or the next call writes what the log has.
        """
        check(entry)
        with self._locked():
            loaded = self.load(phase)
            if loaded.newer:
                raise Unsupported(loaded.problems[0])
            key = key_of(entry)
            update = {**entry, "updated_at": stamp(now or datetime.now(UTC))}
            whole = merged(loaded.entries.get(key) or new_entry(key), update)
            safe = self.store.redactor.redact({"event_type": CONTEXT_EVENT, "payload": whole})
            whole = cast(Entry, safe["payload"])
            self.store.append_rows([_event(phase, _WRITE, whole)])
            loaded.entries[key] = whole
            self._write(phase, loaded.entries)
        return whole

    def save_sessions(self, phase: str, key: EntryKey, sessions: "dict[str, Any]") -> None:
        """Note ids of tools' sessions, on this machine only. Raises: LockTimeout, OSError."""
        with self._locked():
            all_sessions = self.sessions(phase)
            all_sessions[key] = {**all_sessions.get(key, {}), **sessions}
            rows = [{"key": k.as_dict(), SESSIONS: all_sessions[k]} for k in sorted(all_sessions)]
            self._put(self.path(phase, local=True), pretty({"entries": rows}))

    def sessions(self, phase: str) -> "dict[EntryKey, dict[str, Any]]":
        """Ids of tools' sessions; what cannot be read is as if it were not there."""
        sessions = {}
        data = read_json(self.path(phase, local=True))
        for row in data.get("entries", ()) if isinstance(data, dict) else ():
            try:
                sessions[key_of(row)] = dict(row[SESSIONS])
            except (InvalidEvent, AttributeError, KeyError, TypeError, ValueError):
                continue
        return sessions

    def rebuild(self, phase: str) -> Path:
        """Write a phase's file from the log alone; its path. Raises: as `save`."""
        with self._locked():
            self._write(phase, self._logged(phase))
        return self.path(phase)

    # -- the log -------------------------------------------------------------------------------

    def _logged(self, phase: str) -> "dict[EntryKey, Entry]":
        entries: dict[EntryKey, Entry] = {}
        with self.store.view() as view:
            columns = ("title", "payload")
            for event in view.iterate(event_types=(CONTEXT_EVENT,), columns=columns):
                entry = object_of(event["payload"])
                if event["title"] == phase and "key" in entry:
                    entries[key_of(entry)] = entry
        return entries

    # -- files ---------------------------------------------------------------------------------

    def _locked(self) -> Any:
        return acquire(self.store.fs, self.store.layout, CONTEXT, timeout_s=10.0)

    def _read_file(self, phase: str) -> Loaded:
        path = self.path(phase)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return Loaded()
        except OSError as error:
            return Loaded(problems=[f"{path}: {error.strerror}; it is left as it is"])
        try:
            entries, problem = self._entries_of(data.decode("utf-8"))
        except Unsupported as error:
            return Loaded(problems=[f"{path}: {error}"], newer=True)
        except (ValueError, RecursionError):
            entries, problem = {}, "it is no JSON of shared context"
        if problem is None:
            return Loaded(entries)
        return Loaded(
            entries, [f"{path}: {problem}; its bytes are kept in {self._keep_aside(path.name, data)}"]
        )

    def _entries_of(self, text: str) -> "tuple[dict[EntryKey, Entry], str | None]":
        """Entries by key, and what was wrong with them. Raises: ValueError, Unsupported."""
        sides = [text]
        problem = None
        if _CONFLICT.search(text):
            sides = [_CONFLICT.sub(r"\1", text), _CONFLICT.sub(r"\2", text)]
            problem = "it has marks of a merge conflict, and the newer entry of each workstream counts"
        entries: dict[EntryKey, Entry] = {}
        for side in sides:
            data = json.loads(side)
            if not isinstance(data, dict) or not isinstance(data.get("entries"), list):
                raise ValueError("no entries")
            if data.get("schema_version") != SCHEMA_VERSION:
                raise Unsupported(
                    f"format {data.get('schema_version')!r} is not known here, {SCHEMA_VERSION} is; install "
                    "a newer Locus. The file is left as it is."
                )
            for entry in data["entries"]:
                try:
                    check(entry)
                except (InvalidEvent, AttributeError) as error:
                    problem = f"an entry was left out: {error}"
                    continue
                key = key_of(entry)
                if _time_of(entry) >= _time_of(entries.get(key, {})):
                    entries[key] = entry
        return entries, problem

    def _keep_aside(self, name: str, data: bytes) -> str:
        directory = Path(self.store.layout.root) / "memory" / "aside"
        path = directory / f"{blake3(data).hexdigest(8)}-{name}"
        if not path.exists():
            make_private(directory)
            replace_file(path, data)
        return str(path)

    def _write(self, phase: str, entries: "dict[EntryKey, Entry]") -> None:
        rows = [entries[key] for key in sorted(entries)]
        self._put(self.path(phase), pretty({"schema_version": SCHEMA_VERSION, "entries": rows}))
        everything = {name: self._logged(name) for name in PHASES} | {phase: entries}
        self._put(Path(self.root) / SUMMARY_FILE, dashboard(everything))

    def _put(self, path: Path, data: bytes) -> None:
        """Raises: NotDurable with what to do."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.parent.name == "context" and not (path.parent / ".gitignore").exists():
                replace_file(path.parent / ".gitignore", _IGNORE, mode=0o644)
            replace_file(path, data, mode=0o644)
        except OSError as error:
            raise store_error(error, os.fspath(path), "write shared context") from error


def dashboard(phases: "dict[str, dict[EntryKey, Entry]]") -> bytes:
    """What `docs/context_summary.md` shows: for people; nobody reads it back."""
    lines = [
        "# Shared context",
        "",
        "Made from the JSON files in `data/context/`; changes to this page are lost.",
    ]
    for phase in PHASES:
        for key, entry in sorted(phases.get(phase, {}).items()):
            lines += ["", f"## {phase}: {_cell(key.workstream_id)} ({_cell(key.branch) or 'no branch'})", ""]
            request = entry.get("feature_request")
            if request:
                lines.append(f"{_cell(str(request))}\n")
            summary = (entry.get("working_summary") or {}).get("text")
            if summary:
                lines.append("> " + "\n> ".join(str(summary).splitlines()))
            for decision in entry.get("open_decisions") or ():
                if decision.get("status", "open") == "open":
                    lines.append(f"- decide: {_cell(str(decision.get('text', '')))}")
            run = entry.get("last_run") or {}
            if run.get("status"):
                lines.append(
                    f"- last run: {_cell(str(run['status']))}, next: {_cell(str(run.get('next_action')))}"
                )
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _cell(text: str) -> str:
    return " ".join(text.split())


def _event(phase: str, operation: str, entry: Entry) -> Event:
    return {
        "event_type": CONTEXT_EVENT,
        "event_kind": "fact",
        "source": "agent",
        "operation": operation,
        "title": phase,
        "payload": entry,
    }


def _time_of(entry: Entry) -> str:
    return str(entry.get("updated_at") or "")
