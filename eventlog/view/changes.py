"""The answers `compare` and `change`: what differs between two moments, and one file of it line by line."""

import re
from collections.abc import Iterator
from typing import Any

from eventlog.base.errors import Corruption, NotFound
from eventlog.base.paths import path_text
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import SUBMODULE, TreeEntry
from eventlog.replay.compare import PathChange
from eventlog.replay.diffs import Diff, FileDiff, diff
from eventlog.replay.linediff import line_diff
from eventlog.view.parameters import BadParameter, Parameters
from eventlog.view.stores import ViewedStore

FILES_MAX = 10_000
COUNTED_MAX = 500  # files whose lines are counted, for which contents are read
LINES_MAX = 20_000  # of one change
_HEADER = re.compile(rb"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")

# A line of a hunk: its sign, its numbers before and after, its text.
Line = list[str | int | None]


def compare(viewed: ViewedStore, parameters: Parameters) -> dict[str, Any]:
    difference = _diff(viewed, parameters)
    files = [
        _file(viewed, file, counted=number < COUNTED_MAX)
        for number, file in enumerate(difference)
        if number < FILES_MAX
    ]
    missing = [
        _missing(path_text(gap.path), gap.reason) for gap in difference.missing[: FILES_MAX - len(files)]
    ]
    total = len(difference.changes) + len(difference.missing)
    return {"files": files + missing, "cut": total if total > FILES_MAX else None}


def _diff(viewed: ViewedStore, parameters: Parameters) -> Diff:
    """Between two moments; without a second one within the turn of the first."""
    first = parameters.moment("a", viewed)
    if parameters.text("b") is None:
        if first.at == "start":
            raise BadParameter("b is missing: a moment alone is the end of a turn")
        return viewed.store.diff(first.turn)
    second = parameters.moment("b", viewed)
    files_at = viewed.store.files_at
    return diff(files_at(first.turn, first.at), files_at(second.turn, second.at))


def _file(viewed: ViewedStore, file: FileDiff, *, counted: bool) -> dict[str, Any]:
    change = file.change
    why = _why_not(viewed, change)
    fields = {
        "path": file.path,
        "old_path": file.old_path,
        "operation": file.operation,
        "added": None,
        "removed": None,
        "binary": None,
        "withheld": why,
        "reason": None,
        "before": _hash(change.before),
        "after": _hash(change.after),
    }
    if why is not None or not counted:
        return fields
    try:
        counts = {"added": file.lines_added, "removed": file.lines_removed, "binary": file.binary}
    except (NotFound, Corruption) as error:
        return {**fields, "reason": str(error)}
    return {**fields, **counts}


def _missing(path: str, reason: str) -> dict[str, Any]:
    nothing = dict.fromkeys(
        ("old_path", "operation", "added", "removed", "binary", "withheld", "before", "after")
    )
    return {"path": path, **nothing, "reason": reason}


def _hash(entry: TreeEntry | None) -> str | None:
    return None if entry is None else to_text(entry.id)


def _why_not(viewed: ViewedStore, change: PathChange) -> str | None:
    """Why the contents of a change are withheld; None where they are not."""
    hashes = {_hash(change.before), _hash(change.after)} & viewed.withheld()
    return viewed.store.why_withheld(*hashes) if hashes else None


def change(viewed: ViewedStore, parameters: Parameters) -> dict[str, Any]:
    path = parameters.required("path")
    difference = _diff(viewed, parameters)
    file = next((file for file in difference if path in (file.path, file.old_path)), None)
    if file is None:
        gap = next((gap for gap in difference.missing if path_text(gap.path) == path), None)
        return _without(gap.reason if gap is not None else "nothing of it changed")
    why = _why_not(viewed, file.change)
    if why is not None:
        return _without(f"withheld: the content {why}")
    try:
        return _hunks(viewed, file)
    except (NotFound, Corruption) as error:
        return _without(str(error))


def _without(why: str) -> dict[str, Any]:
    return {"hunks": [], "why": why, "cut": None}


def _hunks(viewed: ViewedStore, file: FileDiff) -> dict[str, Any]:
    before, after = file.change.before, file.change.after
    if before is not None and after is not None and before.id == after.id:
        what = "its name" if file.old_path is not None else "its permissions"
        return _without(f"{what} changed, and not its content")
    if file.binary:
        return _without("it is binary")
    hunks, left = [], LINES_MAX
    for hunk in line_diff(_content(viewed, before), _content(viewed, after)).hunks():
        lines = list(_lines(hunk))
        hunks.append({"header": hunk.partition(b"\n")[0].decode(), "lines": lines[:left]})
        left -= len(lines)
        if left <= 0:
            break
    return {"hunks": hunks, "why": None, "cut": LINES_MAX if left < 0 else None}


def _content(viewed: ViewedStore, entry: TreeEntry | None) -> bytes:
    if entry is None:
        return b""
    data = viewed.store.blobs.get(entry.id)
    return b"Subproject commit %b\n" % data if entry.kind == SUBMODULE else data


def _lines(hunk: bytes) -> Iterator[Line]:
    """The lines of a hunk; a note that a text ends without a line feed has the sign `\\`."""
    header, _, body = hunk.partition(b"\n")
    numbers = _HEADER.match(header)
    assert numbers is not None
    # An empty range names the line before it.
    old, new = (int(number) or 1 for number in numbers.groups())
    for line in body.removesuffix(b"\n").split(b"\n"):
        sign, text = line[:1].decode(), line[1:].decode("utf-8", "replace")
        yield [sign, old if sign in " -" else None, new if sign in " +" else None, text]
        old += sign in " -"
        new += sign in " +"
