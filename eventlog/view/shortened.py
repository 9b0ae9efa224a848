"""A spine of some turns of a longer one: all files at its first stop, nothing that only others had. Pure."""

from collections.abc import Mapping
from typing import Any

_PATH, _HASH, _OPERATION, _OLD_PATH = 0, 1, 4, 5
_ADDED = "A"

Row = list[Any]


def shorten(spine: "Mapping[str, Any]", first: int, last: int) -> "dict[str, Any]":
    """The answer `spine` with the turns from number `first` up to `last`, which is not in it.

    Stops that rest on one before them begin with all files of that moment. Paths, contents and reasons that
    no stop of these turns has are gone.
    """
    shown = [n for n, stop in enumerate(spine["stops"]) if first <= stop["turn"] < last]
    position = {stop: n for n, stop in enumerate(shown)}
    stops, changes = [], []
    for n in shown:
        stop = spine["stops"][n]
        rests_on = stop["base"] in position
        stops.append(
            stop | {"turn": stop["turn"] - first, "base": position[stop["base"]] if rests_on else -1}
        )
        changes.append(spine["changes"][n] if rests_on else _files_at(spine, n))
    short = {**spine, "turns": spine["turns"][first:last], "stops": stops}
    return short | _renumbered(spine, changes)


def _files_at(spine: "Mapping[str, Any]", stop: int) -> "list[Row]":
    """All files of a stop, as additions."""
    chain = [stop]
    while spine["stops"][chain[-1]]["base"] >= 0:
        chain.append(spine["stops"][chain[-1]]["base"])
    files: dict[int, Row] = {}
    for n in reversed(chain):
        for row in spine["changes"][n]:
            if row[_OLD_PATH] is not None:
                files.pop(row[_OLD_PATH], None)
            if row[_OPERATION] == "D":
                files.pop(row[_PATH], None)
            else:
                files[row[_PATH]] = [*row[:_OPERATION], _ADDED, None]
    return [files[path] for path in sorted(files)]


def _renumbered(spine: "Mapping[str, Any]", changes: "list[list[Row]]") -> "dict[str, Any]":
    """Tables of what the changes name, and the changes by the new numbers."""
    rows = [row for stop in changes for row in stop]
    paths = sorted({path for row in rows for path in (row[_PATH], row[_OLD_PATH]) if path is not None})
    hashes = sorted({row[_HASH] for row in rows if row[_HASH] is not None})
    path_number: dict[Any, Any] = {old: new for new, old in enumerate(paths)} | {None: None}
    hash_number: dict[Any, Any] = {old: new for new, old in enumerate(hashes)} | {None: None}
    return {
        "paths": [spine["paths"][old] for old in paths],
        "hashes": [spine["hashes"][old] for old in hashes],
        "changes": [
            [[path_number[row[0]], hash_number[row[1]], *row[2:5], path_number[row[5]]] for row in stop]
            for stop in changes
        ],
        "reasons": _of(spine["reasons"], path_number),
        "withheld": _of(spine["withheld"], hash_number),
    }


def _of(table: "Mapping[str, str]", numbers: "Mapping[Any, Any]") -> "dict[str, str]":
    return {str(numbers[int(old)]): words for old, words in table.items() if int(old) in numbers}
