"""Where OpenCode's sessions are kept, as lines: a database of rows, or a directory of JSON files.

A *source* is a session with its subagents; its path is that of the database, `#`, and the session's id. The
lines are JSON objects of ours around what OpenCode wrote:

    {"opencode": "session", "info": …}     what of a session stays as it is; a subagent's before its messages
    {"opencode": "totals", "info": …}      after it, what changes as it goes on; not part of what was recorded
    {"opencode": "message", "info": …}     in order of time
    {"opencode": "part", "part": …}        after their message, in order of ids

A database is only read, in one transaction. One that nobody has open (no `-wal` beside it) is read without
its locks, so that no file of SQLite's is left behind, and its size and time are compared afterwards.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import orjson
from blake3 import blake3

from eventlog.agents.kit.lines import FileSource, ImportOffset, Line, head_of, parse, read_document
from eventlog.base.errors import EventLogError

if TYPE_CHECKING:
    import sqlite3

AGENT = "opencode"
HEAD, MESSAGE, PART, TOTALS = "session", "message", "part", "totals"

_MAGIC = b"SQLite format 3\0"
_BUSY_S = 3.0
_TREE = (
    "with recursive tree(id) as "
    "(select ?1 union select s.id from session s join tree on s.parent_id = tree.id) "
)
_ROOTS = (
    "select id, time_updated from session where parent_id is null "
    "or parent_id not in (select id from session) order by time_created, id"
)
_STAMP = _TREE + (
    "select (select max(time_updated) from session where id in tree),"
    " (select count(*) from message where session_id in tree),"
    " (select max(time_updated) from message where session_id in tree),"
    " (select count(*) from part where session_id in tree),"
    " (select max(time_updated) from part where session_id in tree)"
)
_SESSIONS = _TREE + "select * from session where id in tree order by time_created, id"
_MESSAGES = _TREE + (
    "select id, session_id, data from message where session_id in tree order by time_created, id"
)
_PARTS = "select id, session_id, data from part where message_id = ?1 order by id"

# Columns of a session that hold JSON, and names that an export gives to columns.
_JSON_COLUMNS = frozenset(("revert", "permission", "model", "metadata", "summary_diffs"))
_NAMES = {"project_id": "projectID", "parent_id": "parentID", "workspace_id": "workspaceID"}
# What of a session stays as it is from its beginning.
_STABLE = ("id", "slug", "projectID", "directory", "path", "parentID", "version")

Rows = Iterator[tuple[str, bytes]]


def sessions_in(path: str) -> Iterator[FileSource]:
    """The sources that a file holds. Raises: EventLogError when a database cannot be read."""
    if is_database(path):
        with _opened(path) as rows:
            roots = rows.execute(_ROOTS).fetchall()
        for session, updated in roots:
            yield DatabaseSource(path, str(session), updated if isinstance(updated, int) else 0)
    elif os.path.basename(os.path.dirname(os.path.dirname(path))) == "session":
        if not _parent_of(path):
            yield DirectorySource(path)
    else:
        yield FileSource(AGENT, [path])


def is_database(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


class _RowSource(FileSource):
    """A source whose lines are made of rows."""

    def rows(self) -> Rows:
        """(kind, line) in order."""
        raise NotImplementedError

    def lines(self, offsets: "Mapping[str, ImportOffset]") -> Iterator[Line]:
        mark = ImportOffset()
        self.marks = [mark]
        known = self._known_lines(offsets.get(os.path.basename(self.path)))
        mark.hasher = blake3()
        for number, (kind, data) in enumerate(self.rows(), 1):
            if kind == TOTALS:
                yield Line(0, number, mark.size, data, parse(data), False)
                continue
            record = parse(data)
            yield Line(0, number, mark.size, data, record, mark.lines < known)
            mark.hasher.update(data)
            mark.size += len(data)
            mark.lines += 1
            mark.malformed += record is None

    def _known_lines(self, imported: "ImportOffset | None") -> int:
        """How many of the first lines were imported, and are as they were."""
        if imported is None or not imported.lines:
            return 0
        digest = blake3()
        for number, data in enumerate((data for kind, data in self.rows() if kind != TOTALS), 1):
            digest.update(data)
            if number == imported.lines:
                return number if digest.hexdigest() == imported.digest else 0
        return 0


class DatabaseSource(_RowSource):
    """A session in OpenCode's database."""

    def __init__(self, database: str, session: str, updated_ms: int = 0) -> None:
        super().__init__(AGENT, [f"{database}#{session}"])
        self._database = database
        self._session = session
        self._updated_ms = updated_ms

    def stamp(self) -> "list[list[int]]":
        try:
            with _opened(self._database) as rows:
                figures = rows.execute(_STAMP, [self._session]).fetchone()
        except EventLogError as error:
            raise OSError(errno.EIO, str(error)) from error
        inode = os.stat(self._database).st_ino
        return [[inode, *(figure if isinstance(figure, int) else 0 for figure in figures)]]

    def touched_s(self) -> float:
        return self._updated_ms / 1000

    def head(self) -> "list[dict[str, Any]]":
        with _opened(self._database) as rows:
            infos = list(_infos(rows, self._session))
        return [{"opencode": HEAD, "info": _stable(info), "cwd": info.get("directory")} for info in infos[:1]]

    def rows(self) -> Rows:
        with _opened(self._database) as rows:
            waiting = {str(info["id"]): info for info in _infos(rows, self._session)}
            if self._session in waiting:
                yield from _head(waiting.pop(self._session))
            for message, session, data in rows.execute(_MESSAGES, [self._session]):
                if session in waiting:
                    yield from _head(waiting.pop(session))
                yield MESSAGE, _row(MESSAGE, "info", {"id": message, "sessionID": session}, data)
                for part, owner, body in rows.execute(_PARTS, [message]):
                    ids = {"id": part, "messageID": message, "sessionID": owner}
                    yield PART, _row(PART, "part", ids, body)
            for info in waiting.values():
                yield from _head(info)


class DirectorySource(_RowSource):
    """A session in the files of older versions: `storage/session/PROJECT/ID.json`, and its messages'."""

    def __init__(self, path: str) -> None:
        super().__init__(AGENT, [path])
        self._storage = os.path.dirname(os.path.dirname(os.path.dirname(path)))

    def stamp(self) -> "list[list[int]]":
        session = os.path.basename(self.path).removesuffix(".json")
        own = os.stat(self.path)
        stamps = [[own.st_ino, own.st_size, own.st_mtime_ns]]
        for path in [f"{self._storage}/message/{session}", *self._part_directories(session)]:
            try:
                status = os.stat(path)
            except OSError:
                continue
            stamps.append([status.st_ino, status.st_size, status.st_mtime_ns])
        return stamps

    def head(self) -> "list[dict[str, Any]]":
        infos = head_of(self.path)[:1]
        return [{"opencode": HEAD, "info": _stable(info), "cwd": info.get("directory")} for info in infos]

    def rows(self) -> Rows:
        infos = self._infos()
        messages = []
        for session in infos:
            for path in _json_files(f"{self._storage}/message/{session}"):
                document = _document(path)
                time = document.get("time")
                created = time.get("created") if isinstance(time, dict) else None
                key = created if isinstance(created, int) else 0, os.path.basename(path)
                messages.append((key, session, path))
        waiting = dict(infos)
        first = next(iter(infos))
        yield from _head(waiting.pop(first))
        for (_, name), session, path in sorted(messages):
            if session in waiting:
                yield from _head(waiting.pop(session))
            message = name.removesuffix(".json")
            ids = {"id": message, "sessionID": session}
            yield MESSAGE, _line(MESSAGE, "info", {**ids, **_document(path)})
            for part in _json_files(f"{self._storage}/part/{message}"):
                owner = {"id": os.path.basename(part).removesuffix(".json"), "messageID": message}
                yield PART, _line(PART, "part", {**owner, "sessionID": session, **_document(part)})
        for info in waiting.values():
            yield from _head(info)

    def _infos(self) -> "dict[str, dict[str, Any]]":
        """The session and, after it, those that descend from it."""
        own = _document(self.path)
        beside = [_document(path) for path in _json_files(os.path.dirname(self.path)) if path != self.path]
        infos = {os.path.basename(self.path).removesuffix(".json"): own}
        grown = True
        while grown:
            more = [info for info in beside if info.get("parentID") in infos and info.get("id") not in infos]
            infos.update((str(info["id"]), info) for info in more if isinstance(info.get("id"), str))
            grown = any(isinstance(info.get("id"), str) for info in more)
        return infos

    def _part_directories(self, session: str) -> Iterator[str]:
        for path in _json_files(f"{self._storage}/message/{session}"):
            yield path
            yield f"{self._storage}/part/{os.path.basename(path).removesuffix('.json')}"


# -- the database ------------------------------------------------------------------------------------


@contextmanager
def _opened(path: str) -> "Iterator[sqlite3.Connection]":
    """One consistent view of the database. Raises: EventLogError."""
    import sqlite3
    from urllib.parse import quote

    try:
        with _readable(path) as (database, mode):
            before = os.stat(database)
            uri = f"file:{quote(database)}?{mode}"
            with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)) as rows:
                rows.execute("begin")
                yield rows
            after = os.stat(database)
            if mode != "mode=ro" and (before.st_size, before.st_mtime_ns) != (
                after.st_size,
                after.st_mtime_ns,
            ):
                raise EventLogError(f"{path} was changed while it was read; import again")
    except (sqlite3.Error, OSError) as error:
        busy = "locked" in str(error) or "busy" in str(error)
        what = "is in use by OpenCode; import again in a moment" if busy else f"cannot be read: {error}"
        raise EventLogError(f"{path} {what}") from error


@contextmanager
def _readable(path: str) -> "Iterator[tuple[str, str]]":
    """The path to open, and how, so that nothing is written where the database is."""
    if not os.path.exists(f"{path}-wal"):
        yield path, "immutable=1"
    elif os.path.exists(f"{path}-shm"):
        yield path, "mode=ro"
    else:  # left by a crash: SQLite would have to make the missing file
        with tempfile.TemporaryDirectory(prefix="locus-") as directory:
            for suffix in ("", "-wal"):
                shutil.copyfile(f"{path}{suffix}", f"{directory}/opencode.db{suffix}")
            yield f"{directory}/opencode.db", "mode=ro"


def _infos(rows: "sqlite3.Connection", session: str) -> "Iterator[dict[str, Any]]":
    """The session and those that descend from it, as an export says them."""
    cursor = rows.execute(_SESSIONS, [session])
    names = [column[0] for column in cursor.description]
    infos = [_info(dict(zip(names, row, strict=True))) for row in cursor]
    yield from sorted(infos, key=lambda info: info["id"] != session)


def _info(row: "dict[str, Any]") -> "dict[str, Any]":
    info: dict[str, Any] = {}
    time: dict[str, Any] = {}
    for name, value in row.items():
        if value is None:
            continue
        if name in _JSON_COLUMNS and isinstance(value, str):
            try:
                value = orjson.loads(value)
            except ValueError:
                pass  # then as the text that it is
        if name.startswith("time_"):
            time[name.removeprefix("time_")] = value
        else:
            info[_NAMES.get(name, name)] = _plain(value)
    return {**info, "time": time}


def _head(info: "dict[str, Any]") -> Rows:
    yield HEAD, _line(HEAD, "info", _stable(info))
    yield TOTALS, _line(TOTALS, "info", info)


def _stable(info: "dict[str, Any]") -> "dict[str, Any]":
    time = info.get("time")
    created = time.get("created") if isinstance(time, dict) else None
    names = (*_STABLE, "title") if info.get("parentID") else _STABLE
    return {**{name: info[name] for name in names if name in info}, "time": {"created": created}}


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _line(kind: str, name: str, record: "dict[str, Any]") -> bytes:
    return orjson.dumps({"opencode": kind, name: record}, default=str) + b"\n"


def _row(kind: str, name: str, ids: "dict[str, Any]", data: object) -> bytes:
    """A row as a line; what is no JSON object as the bytes that it is."""
    text = data if isinstance(data, bytes) else str(data).encode("utf-8", "surrogatepass")
    record = parse(text)
    return text if record is None else _line(kind, name, {**ids, **record})


# -- files -------------------------------------------------------------------------------------------


def _json_files(directory: str) -> list[str]:
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".json"))
    except OSError:
        return []
    return [f"{directory}/{name}" for name in names]


def _document(path: str) -> "dict[str, Any]":
    document = read_document(path)
    return {} if document is None else document[1]


def _parent_of(path: str) -> str | None:
    """The parent of a session, when that is kept beside it."""
    try:
        parent = _document(path).get("parentID")
    except EventLogError:
        return None
    if not isinstance(parent, str) or "/" in parent:
        return None
    return parent if os.path.exists(f"{os.path.dirname(path)}/{parent}.json") else None
