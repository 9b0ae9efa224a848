"""`locus import git` of clones that lack objects: what is there is recorded, the rest comes later (P1)."""

import json
import shutil
from pathlib import Path

import pytest

from tests.agents.histories import SYMLINK, History, git, git_tree_of_directory, line_of, trees_of
from tests.cli.support import Locus

# Names that a tree has under an escape: missing contents are listed under the name itself, and found by it.
ODD = {"s/.locus", "s/refused%git%7E1"}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Five commits; every content but those of the last one is of one commit alone."""
    history = History()
    for n in range(5):
        history.put(b"d/f", b"".join(b"%d of %d\n" % (line, n) for line in range(20)))
        history.put(b"g", b"%d\n" % n).put(b"link", b"to %d" % n, SYMLINK).put(b"same", b"same\n")
        for odd in ODD:
            history.put(odd.encode(), b"odd %d\n" % n)
        if n == 3:
            history.remove(b"d/f").put(b"d/moved", b"moved\n")
        history.commit(f"c{n}")
    path = history.write(str(tmp_path_factory.mktemp("origin") / "r"))
    git(path, "config", "uploadpack.allowFilter", "true")
    return path


@pytest.fixture
def clone(origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus) -> Path:
    """A clone without the contents of older commits, with a store, as working directory."""
    return _clone(origin, tmp_path, monkeypatch, locus, "--filter=blob:none")


def _clone(origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus, *options: str) -> Path:
    path = tmp_path / "clone"
    git(None, "clone", "-q", *options, f"file://{origin}", str(path))
    monkeypatch.chdir(path)
    assert locus("init").code == 0
    return path


def _complete(clone: Path) -> None:
    git(str(clone), "fetch", "-q", "--refetch", "--no-filter")


def _report(locus: Locus, code: int, *options: object) -> dict[str, object]:
    ended = locus("import", "git", *options, "--json")
    assert ended.code == code, ended.err
    report: dict[str, object] = json.loads(ended.out)["import"]
    return report


def _replays(locus: Locus, clone: Path, tmp_path: Path) -> dict[str, tuple[int, str]]:
    """By commit the exit code of its replay, and what git would call the directory."""
    found = {}
    for commit in line_of(str(clone)):
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        code = locus("replay", f"git:{commit}", "--to", out).code
        found[commit] = code, git_tree_of_directory(str(out), {}) if code == 0 else ""
    return found


def test_a_partial_clone_is_recorded_and_completed(
    locus: Locus, clone: Path, origin: str, tmp_path: Path
) -> None:
    """All commits are turns at once, missing contents are named; nothing is fetched; then all is exact."""
    before = set(git(str(clone), "cat-file", "--batch-check", "--batch-all-objects").split("\n"))
    report = _report(locus, 4)
    again = _report(locus, 4)
    assert (report["commits"], again["commits"], again["events"]) == (5, 0, 0)
    assert {path for path, _ in report["missing"]} == {"d/f", "g", "link", *ODD}  # type: ignore[attr-defined]
    assert set(git(str(clone), "cat-file", "--batch-check", "--batch-all-objects").split("\n")) == before
    codes = [code for code, _ in _replays(locus, clone, tmp_path).values()]
    assert codes == [4, 4, 4, 4, 0]
    ended = locus("cat", f"git:{line_of(origin)[1]}:g")
    assert ended.code == 1 and "fetch it, and import again" in ended.err

    _complete(clone)
    assert _report(locus, 0)["commits"] == 0
    assert _report(locus, 0)["events"] == 0
    trees = trees_of(origin)
    assert _replays(locus, clone, tmp_path) == {commit: (0, trees[commit]) for commit in line_of(origin)}
    assert locus("cat", f"git:{line_of(origin)[1]}:g").out == b"1\n"
    assert b"+1\n" in locus("diff", f"git:{line_of(origin)[1]}", "g").out
    assert locus("store", "verify", "--read").code == 0


def test_a_limited_import_of_a_partial_clone(locus: Locus, clone: Path, origin: str, tmp_path: Path) -> None:
    """The files before the first commit that is taken in are missing too, and come later."""
    assert _report(locus, 4, "--limit", 1)["commits"] == 1
    _complete(clone)
    assert _report(locus, 0)["commits"] == 4
    trees = trees_of(origin)
    assert _replays(locus, clone, tmp_path) == {commit: (0, trees[commit]) for commit in line_of(origin)}
    first = line_of(origin)[-1]
    shutil.rmtree(tmp_path / "out")
    assert locus("replay", f"git:{first}", "--at", "start", "--to", tmp_path / "out").code == 0
    assert git_tree_of_directory(str(tmp_path / "out"), {}) == trees[line_of(origin)[-2]]


def test_a_clone_without_trees_has_the_messages(
    locus: Locus, origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Author, time and reason are recorded without the files; completing it gives what one import gives."""
    clone = _clone(origin, tmp_path, monkeypatch, locus, "--filter=tree:0", "--bare")
    assert len(_report(locus, 4)["missing"]) == 5  # type: ignore[arg-type]
    turns = "select title, status, end_tree is null as bare from turns order by turn"
    assert json.loads(locus("sql", "--json", turns).out)[0] == {
        "title": "c0", "status": "incomplete", "bare": True,
    }  # fmt: skip
    assert b"c4" in locus("log").out
    _complete(clone)
    assert _report(locus, 0)["commits"] == 5
    facts = (
        "select event_id, event_type, session_id, turn, path, before_hash, after_hash, tree_hash "
        "from events where agent = 'git' order by all"
    )
    completed = json.loads(locus("sql", "--json", facts).out)

    shutil.rmtree(clone / ".locus")
    locus("init")
    _report(locus, 0)
    assert json.loads(locus("sql", "--json", facts).out) == completed


def test_one_lost_object_costs_what_it_holds(
    locus: Locus, origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A blob that is gone is named, other commits are whole; a commit that is gone ends the history."""
    clone = _clone(origin, tmp_path, monkeypatch, locus)
    _loosen(clone)
    line = line_of(str(clone))
    _remove(clone, git(str(clone), "rev-parse", f"{line[2]}:g"))
    assert [path for path, _ in _report(locus, 4)["missing"]] == ["g"]  # type: ignore[attr-defined]
    assert [code for code, _ in _replays(locus, clone, tmp_path).values()] == [0, 0, 4, 0, 0]

    _remove(clone, line[1])
    shutil.rmtree(clone / ".locus")
    locus("init")
    report = _report(locus, 4)
    assert (report["commits"], report["provisional"]) == (3, True)


def _loosen(clone: Path) -> None:
    """Take the clone's packs apart, so that one object can be lost."""
    packs = clone / ".git" / "objects" / "pack"
    for pack in list(packs.glob("*.pack")):
        moved = clone / pack.name
        pack.rename(moved)
        git(str(clone), "unpack-objects", "-q", stdin=moved.read_bytes())
        moved.unlink()


def _remove(clone: Path, oid: str) -> None:
    (clone / ".git" / "objects" / oid[:2] / oid[2:]).unlink()


def test_search_finds_contents_that_came_later(locus: Locus, clone: Path) -> None:
    """S2-1: what a partial clone lacked is found once an import brought it, also in an index made before."""
    assert _report(locus, 4)
    assert hits(locus, '"13 of 1"') == []
    _complete(clone)
    assert _report(locus, 0)
    ((path, snippet),) = hits(locus, '"13 of 1"')
    assert path == "d/f" and "13 of 1" in snippet


def hits(locus: Locus, words: str) -> list[tuple[str, str]]:
    """The contents that a search finds: path and snippet."""
    found = json.loads(locus("search", words, "--wait", "--json").text)["hits"]
    return [(hit["path"], hit["snippet"]) for hit in found if hit["is_content"]]
