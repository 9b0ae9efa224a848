"""The answers `history`, `blame` and `tree`: versions of a file, who wrote its lines, all files."""

from collections.abc import Mapping, Sequence
from typing import Any

from eventlog.base.errors import Refused
from eventlog.base.paths import path_text
from eventlog.blobs.ids import blob_id, to_text
from eventlog.blobs.tree import DIRECTORY, SIZE_UNKNOWN, SKIPPED, TreeEntry, plain_kind
from eventlog.replay.deferred import hashed
from eventlog.replay.history import FileVersion
from eventlog.replay.leaf_changes import reason_of
from eventlog.replay.trees import TreeState
from eventlog.undo.blame import BlamedLine, LineOrigin, blame
from eventlog.view.parameters import Moment, Parameters
from eventlog.view.stores import ViewedStore

LINES_MAX = 50_000
FILES_MAX = 100_000
VERSIONS_MAX = 2_000
_LINE_MAX = 4_000  # characters

_WHOSE = (
    "select session_id, turn, person from turns where list_contains($1, session_id) and person is not null"
)


def history(viewed: ViewedStore, parameters: Parameters) -> dict[str, Any]:
    versions = viewed.store.history(parameters.required("path"), limit=VERSIONS_MAX + 1, rewritten=False)
    return {
        "versions": [_version(version) for version in versions[:VERSIONS_MAX]],
        "cut": VERSIONS_MAX if len(versions) > VERSIONS_MAX else None,
    }


def _version(version: FileVersion) -> dict[str, Any]:
    return {
        "event_id": version.event_id,
        "turn": version.turn_name,
        "title": version.title,
        "agent": version.agent,
        "at": version.at,
        "operation": version.operation,
        "path": version.path,
        "old_path": version.old_path,
        "hash": version.after_hash,
        "added": version.lines_added,
        "removed": version.lines_removed,
        "certain": version.doubt is None,
        "doubt": version.doubt,
    }


def blamed(viewed: ViewedStore, parameters: Parameters) -> dict[str, Any]:
    moment, path = parameters.moment("moment", viewed), parameters.required("path")
    lines = blame(viewed.store, path, None, until=_until(moment))
    content = to_text(blob_id(b"".join(line.text for line in lines)))
    if content in viewed.withheld():
        raise Refused(f"{path} {viewed.store.why_withheld(content)}, so its lines are withheld")
    shown = lines[:LINES_MAX]
    people = _people(viewed, shown)
    origins: dict[LineOrigin, int] = {}
    listed: dict[tuple[Any, ...], int] = {}
    rows = []
    for line in shown:
        number = origins.get(line.origin)
        if number is None:
            fields = _origin(line.origin, people)
            number = origins[line.origin] = listed.setdefault(tuple(fields.items()), len(listed))
        text = line.text.rstrip(b"\n").decode("utf-8", "replace")
        rows.append([number, text[:_LINE_MAX]])
    return {
        "origins": [dict(fields) for fields in listed],
        "lines": rows,
        "cut": len(lines) if len(lines) > len(shown) else None,
    }


def _until(moment: Moment) -> int | None:
    """The position before which versions count."""
    return moment.turn.since if moment.at == "start" else moment.turn.until


def _people(viewed: ViewedStore, lines: Sequence[BlamedLine]) -> Mapping[tuple[str, int], str]:
    versions = {line.origin.version for line in lines if line.origin.version is not None}
    sessions = sorted({version.session_id for version in versions if version.session_id is not None})
    return {(row[0], row[1]): row[2] for row in viewed.store.query(_WHOSE, [sessions]).rows}


def _origin(origin: LineOrigin, people: Mapping[tuple[str, int], str]) -> dict[str, Any]:
    version = origin.version
    if version is None:
        return {**dict.fromkeys(("turn", "title", "agent", "person", "at")), "how": origin.kind}
    return {
        "turn": version.turn_name,
        "title": version.title,
        "agent": version.agent,
        "person": people.get((version.session_id or "", version.turn or 0)),
        "at": version.at,
        "how": origin.kind,
    }


def tree(viewed: ViewedStore, parameters: Parameters) -> dict[str, Any]:
    moment = parameters.moment("moment", viewed)
    state = viewed.store.files_at(moment.turn, moment.at)
    files, last = list[list[Any]](), b""
    for path, entry in state.walk():
        if last and not path.startswith(last + b"/"):
            files.append([path_text(last), None, None, "d", None])
        last = path if entry.kind == DIRECTORY else b""
        if entry.kind != DIRECTORY:
            files.append(_file(state, path, entry))
        if len(files) > FILES_MAX:
            break
    if last:
        files.append([path_text(last), None, None, "d", None])
    return {
        "files": files[:FILES_MAX],
        "state": state.certainty.state,
        "why": state.certainty.why or None,
        "cut": FILES_MAX if len(files) > FILES_MAX else None,
    }


def _file(state: TreeState, path: bytes, entry: TreeEntry) -> list[Any]:
    kind = plain_kind(entry.kind).decode()
    size = None if entry.size == SIZE_UNKNOWN else entry.size
    if entry.kind == SKIPPED:
        return [path_text(path), None, size, kind, reason_of(state, entry)]
    return [path_text(path), to_text(hashed(state.blobs, entry).id), size, kind, None]
