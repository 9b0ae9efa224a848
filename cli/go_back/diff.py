"""`locus diff`: what changed in a turn, or between two."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click

import eventlog
from eventlog.base.paths import OUTSIDE, is_outside, path_text, quoted
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import DIRECTORY, TreeEntry
from eventlog.query.lookup import names_a_turn
from eventlog.replay.patches import mode_of

from .. import complete
from ..access import open_store
from ..exits import PARTIAL, exit_with
from ..filters import names_of
from ..options import json_option
from ..output import (
    certainty_json,
    count,
    document,
    lines,
    naming_stdout,
    one_line,
    path_words,
    put,
    say,
    table,
)
from ..output import change as change_text
from ..outside import local
from ..terminal import patch_lines, put_lines


@click.command("diff")
@click.argument("turn", metavar="A", shell_complete=complete.turns)
@click.argument("others", nargs=-1, metavar="[B] [PATH]…", shell_complete=complete.turns_and_paths)
@click.option("--stat", is_flag=True, help="Count lines instead of showing them.")
@click.option("--name-only", is_flag=True, help="Only the paths that changed.")
@click.option("--binary", is_flag=True, help="Show binary files too, in a form that git apply takes.")
@click.option("--show-withheld", is_flag=True, help="Also show contents that hold a secret.")
@json_option
def command(
    turn: str,
    others: tuple[str, ...],
    stat: bool,
    name_only: bool,
    binary: bool,
    show_withheld: bool,
    as_json: bool,
) -> None:
    """Show what changed in a turn, or between two.

    With A alone from the start of that turn to its end, with B from the end of A to the end of B.
    PATHs are files or folders; write ./NAME for one that is called like a turn. The form is git's:
    `git apply` takes it. Files that were not captured, or are not known to be exact, are listed on
    stderr, and the exit code is 4. So are contents with a secret, unless --show-withheld is given.

    \b
    locus diff last
    locus diff git:1a2b3c4 last src/
    """
    with open_store() as store:
        first = store.turn(turn)
        second, paths = _split(store, first, others)
        diff = store.diff(first, second)
        diff = diff.within([_known(store, diff, path) for path in paths])
        outside = _outside(store, first) if second is None and not paths else []
        withheld = frozenset() if show_withheld or name_only else store.withheld()
        reading = _Reading(withheld, store.why_withheld)
        if as_json:
            fields = _json(diff, reading, with_lines=not name_only, with_text=not (stat or name_only))
            put(document({**fields, "outside": outside}))
        elif name_only:
            _put_names(diff)
        elif stat:
            put(_stat(reading.of(diff)))
        else:
            _put_patch(reading.of(diff), binary)
    if not as_json:
        _say_missing(diff, reading)
        for path in outside:
            say(f"changed outside of the repository: {path_words(local(path))} (locus history shows it)")
    if reading.damage is not None:
        raise reading.damage
    if diff.missing or reading.lost:
        exit_with(PARTIAL)


def _split(
    store: "eventlog.Store", first: "eventlog.TurnRef", others: tuple[str, ...]
) -> "tuple[eventlog.TurnRef | None, tuple[str, ...]]":
    """(B, PATHs): the first of `others` is a turn, or the first path."""
    if not others:
        return None, ()
    name, rest = others[0], others[1:]
    if name != "last" and names_a_turn(name):
        return store.turn(name), rest
    if "/" in name or (name != "last" and "_" not in name and _has(store, first, name)):
        return None, others
    try:
        return store.turn(name), rest
    except eventlog.NotFound:
        return None, others  # if it is not a path either, the error will say so


def _outside(store: "eventlog.Store", turn: "eventlog.TurnRef") -> list[str]:
    """The files that a turn changed outside of the repository; no patch for it can hold them."""
    rows = store.query(
        "select distinct path from events where event_type = 'file' and operation is distinct from 'read' "
        "and session_id = $1 and turn = $2 and starts_with(path, $3) order by path",
        [turn.session_id, turn.turn, OUTSIDE],
    ).rows
    return [path for (path,) in rows if is_outside(path)]


def _has(store: "eventlog.Store", turn: "eventlog.TurnRef", path: str) -> bool:
    try:
        store.tree(turn).entry(names_of(store, path)[0])
    except eventlog.NotFound:
        return False
    return True


def _known(store: "eventlog.Store", diff: "eventlog.Diff", path: str) -> str:
    names = names_of(store, path)
    return next((name for name in names if diff.knows(name)), names[-1])


class _Reading:
    """Reads a diff; unreadable contents are noted, and the rest goes on."""

    def __init__(self, withheld: frozenset[str], why: Callable[[str], str]) -> None:
        self._withheld = withheld
        self._why = why
        self.lost: list[tuple[str, str]] = []  # (path, reason)
        self.damage: "eventlog.Corruption | None" = None

    def of(self, diff: "eventlog.Diff") -> "Iterator[eventlog.FileDiff]":
        for file in diff:
            if self.read(file):
                yield file

    def read(self, file: "eventlog.FileDiff") -> bool:
        """Whether the contents of a change can be shown; they are read by this."""
        if withheld := self._withheld_side(file):
            why = self._why(withheld)
            self.lost.append((file.path, f"withheld, because it {why}; --show-withheld shows it"))
            return False
        try:
            _ = file.binary
        except eventlog.Corruption as error:
            self.damage = self.damage or error
            self.lost.append((file.path, "its content is damaged"))
        except eventlog.NotFound as error:
            self.lost.append((file.path, str(error)))
        else:
            return True
        return False

    def _withheld_side(self, file: "eventlog.FileDiff") -> str | None:
        sides = (file.change.before, file.change.after)
        ids = (to_text(side.id) for side in sides if side is not None)
        return next((id for id in ids if id in self._withheld), None)


def _put_patch(files: "Iterable[eventlog.FileDiff]", binary: bool) -> None:
    """Write exact bytes to a file or a pipe, harmless text to a terminal."""
    if sys.stdout.isatty():
        texts = (lines(b"".join(file.patch(binary=binary)).decode("utf-8", "replace")) for file in files)
        put_lines(patch_lines(line for text in texts for line in text.removesuffix("\n").split("\n")))
        return
    for file in files:
        patch = file.patch(binary=binary)
        with naming_stdout():
            sys.stdout.buffer.writelines(patch)
    with naming_stdout():
        sys.stdout.buffer.flush()


def _put_names(diff: "eventlog.Diff") -> None:
    for change in diff.changes:
        put(quoted(change.path) + b"\n")


def _stat(files: "Iterable[eventlog.FileDiff]") -> str:
    cells = []
    added = removed = 0
    for file in files:
        added += file.lines_added or 0
        removed += file.lines_removed or 0
        counts = "binary" if file.binary else change_text(file.lines_added, file.lines_removed)
        names = (path_words(path) for path in (file.old_path, file.path) if path is not None)
        cells.append((file.operation, counts, " → ".join(names)))
    if not cells:
        return ""
    listed = table(("CHANGE", "LINES", "PATH"), cells, right=(1,), free=(), drop=("CHANGE",))
    return f"{listed}\n{count(len(cells), 'path')}, {change_text(added, removed)}\n"


def _json(diff: "eventlog.Diff", reading: _Reading, *, with_lines: bool, with_text: bool) -> dict[str, Any]:
    changes = []
    for file in diff:
        record: dict[str, Any] = {
            "path": file.path,
            "old_path": file.old_path,
            "operation": file.operation,
            "before": _entry(file.change.before),
            "after": _entry(file.change.after),
        }
        changes.append(record)
        if not with_lines:
            continue
        readable = reading.read(file)
        record["binary"] = file.binary if readable else None
        record["lines_added"] = file.lines_added if readable else None
        record["lines_removed"] = file.lines_removed if readable else None
        if with_text:
            record["diff"] = file.text.decode("utf-8", "replace") if readable else None
    missing = [(_text(gap.path), gap.reason) for gap in diff.missing] + reading.lost
    return {
        "from": _moment(diff.before),
        "to": _moment(diff.after),
        "changes": changes,
        "missing": [{"path": path, "reason": reason} for path, reason in missing],
    }


def _moment(state: "eventlog.TreeState") -> dict[str, Any]:
    return {
        "turn": f"turn:{state.turn}",
        "at": state.at,
        "tree_hash": state.tree_hash,
        "certainty": certainty_json(state.certainty),
    }


def _entry(entry: TreeEntry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    size = 0 if entry.kind == DIRECTORY else entry.size
    return {"mode": mode_of(entry), "hash": to_text(entry.id), "size": size}


def _say_missing(diff: "eventlog.Diff", reading: _Reading) -> None:
    for path, reason in [*((_text(gap.path), gap.reason) for gap in diff.missing), *reading.lost]:
        say(f"not compared: {path_words(path)}: {one_line(reason)}")


def _text(path: bytes) -> str:
    return path_text(path)
