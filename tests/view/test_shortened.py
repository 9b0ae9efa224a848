"""A spine of some turns: the same trees at each stop, and nothing of the other turns."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eventlog.view.shortened import shorten

Files = dict[str, str]


@st.composite
def histories(draw: st.DrawFn) -> list[list[Files]]:
    """Of each turn the files at its stops, by path their content."""
    paths, contents = st.sampled_from("abcde"), st.sampled_from("0123")
    files = st.dictionaries(paths, contents, max_size=4)
    return draw(st.lists(st.lists(files, min_size=0, max_size=2), min_size=1, max_size=6))


def spine_of(history: list[list[Files]]) -> dict[str, Any]:
    """The answer `spine` of such a history; a stop rests on the one before it."""
    paths = sorted({path for turn in history for files in turn for path in files})
    hashes = sorted({content for turn in history for files in turn for content in files.values()})
    stops, changes, before = [], [], Files()
    for number, turn in enumerate(history):
        for at, files in zip(("start", "end"), turn, strict=False):
            rows: list[list[Any]] = [
                [paths.index(path), hashes.index(content), 1, "f", "M" if path in before else "A", None]
                for path, content in files.items()
                if before.get(path) != content
            ]
            rows += [[paths.index(path), None, None, None, "D", None] for path in before if path not in files]
            stops.append({"turn": number, "at": at, "base": len(stops) - 1})
            changes.append(rows)
            before = files
    turns = [{"name": str(number)} for number in range(len(history))]
    tables = {"reasons": {str(n): path for n, path in enumerate(paths)}, "withheld": dict(enumerate(hashes))}
    withheld = {str(n): content for n, content in tables["withheld"].items()}
    return {
        "paths": paths, "hashes": hashes, "stops": stops, "changes": changes, "turns": turns,
        **tables, "withheld": withheld,
    }  # fmt: skip


def files_at(spine: dict[str, Any], stop: int) -> Files:
    base = spine["stops"][stop]["base"]
    files = {} if base < 0 else files_at(spine, base)
    for path, content, _, _, operation, _ in spine["changes"][stop]:
        if operation == "D":
            del files[spine["paths"][path]]
        else:
            files[spine["paths"][path]] = spine["hashes"][content]
    return files


@given(histories(), st.data())
def test_some_turns_have_the_same_trees(history: list[list[Files]], data: st.DataObject) -> None:
    """P1, P5: each stop that is kept has its files, and no path or content is left that none of them has."""
    first = data.draw(st.integers(0, len(history) - 1))
    last = data.draw(st.integers(first + 1, len(history)))
    short = shorten(spine_of(history), first, last)

    wanted = [files for turn in history[first:last] for files in turn]
    assert [files_at(short, stop) for stop in range(len(short["stops"]))] == wanted
    assert [turn["name"] for turn in short["turns"]] == [str(n) for n in range(first, last)]
    assert set(short["paths"]) == {path for files in wanted for path in files}
    assert set(short["hashes"]) == {content for files in wanted for content in files.values()}
    assert set(short["reasons"].values()) == set(short["paths"])
    assert set(short["withheld"].values()) == set(short["hashes"])
