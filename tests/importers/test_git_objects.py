"""Reading a git repository without trusting anything in or around it."""

import os
from pathlib import Path

import pytest

from eventlog.base.errors import Corruption, EventLogError, NotFound, Refused
from eventlog.importers.git_formats import parse_commit
from eventlog.importers.git_objects import EMPTY_TREE, open_repository
from tests.agents.histories import EXECUTABLE, FILE, SUBMODULE_MODE, SYMLINK, History, git, line_of, trees_of

_MIB = 1 << 20


def _pairs(path: str) -> list[tuple[str, str]]:
    trees = trees_of(path)
    line = [trees[commit] for commit in line_of(path)]
    return list(zip([EMPTY_TREE[len(line[0])], *line], line, strict=False))


def test_a_line_begins_at_the_root_and_follows_first_parents(tmp_path: Path) -> None:
    """The commits of a merged branch are not part of the line."""
    history = (
        History().put(b"a", b"1").commit("root").put(b"b", b"2").commit("side", branch="side", start="main")
    )
    history.remove(b"b").put(b"c", b"3").commit("main goes on")
    path = history.put(b"b", b"2").commit("merge", merge="side").write(str(tmp_path / "r"))
    with open_repository(path) as repository:
        line = repository.first_parent_line(repository.resolve("main"))
        commits = repository.commits(line)

    assert [commit.subject for commit in commits] == ["root", "main goes on", "merge"]
    assert line == line_of(path)
    assert len(commits[-1].parents) == 2


def test_changes_say_what_git_says(tmp_path: Path) -> None:
    """Additions, edits, deletions, renames, modes, symlinks, submodules, binaries and odd names."""
    text = b"".join(b"line %d\n" % n for n in range(50))
    odd = b'caf\xe9 "q"\n\x01\\ '
    history = (
        History()
        .put(b"keep", b"k")
        .put(b"old", text)
        .put(b"bin", b"\0")
        .put(b"run", b"#!")
        .put(b"gone", b"g")
    )
    history.commit("1")
    history.remove(b"old").put(b"new", text + b"more\n").put(b"bin", b"\0\1").put(b"run", b"#!", EXECUTABLE)
    history.remove(b"gone").put(odd, b"x\ny\n").put(b"link", b"keep", SYMLINK)
    path = history.put(b"sub", b"5" * 40, SUBMODULE_MODE).commit("2").write(str(tmp_path / "r"))
    with open_repository(path) as repository:
        changes = list(repository.changes(_pairs(path)))[1]
    found = {
        c.path: (c.old_path, f"{c.before_mode:06o}", f"{c.after_mode:06o}", c.lines_added, c.lines_removed)
        for c in changes
    }

    assert found == {
        b"bin": (None, FILE, FILE, None, None),
        b"run": (None, FILE, EXECUTABLE, 0, 0),
        b"new": (b"old", FILE, FILE, 1, 0),
        b"gone": (None, FILE, "000000", 0, 1),
        odd: (None, "000000", FILE, 2, 0),
        b"link": (None, "000000", SYMLINK, 1, 0),
        b"sub": (None, "000000", SUBMODULE_MODE, None, None),
    }


def test_a_name_that_looks_like_the_answer_is_read_as_a_name(tmp_path: Path) -> None:
    """Names made of ids, tabs, newlines and colons are read by their place, not by their look."""
    id = b"a" * 40
    names = [id + b" " + id + b"\n", b":100644 100644 x y A", b"1\t2\tz", b"end-\n", b"-\t-\t", b"\t"]
    history = History()
    for name in names:
        history.put(name, name * 3)
    path = history.commit().commit("empty").write(str(tmp_path / "r"))
    with open_repository(path) as repository:
        changes = list(repository.changes(_pairs(path)))
        again = list(repository.changes(_pairs(path)[1:]))
        entries = list(repository.entries(_pairs(path)[0][1]))

    assert sorted(change.path for change in changes[0]) == sorted(names)
    assert changes[1:] == again == [[]]
    assert sorted(entry.path for entry in entries) == sorted(names)


def test_contents_come_in_order_and_large_ones_as_their_size(tmp_path: Path) -> None:
    """A content above the bound is skipped in pieces; the answers after it stay right."""
    path = (
        History()
        .put(b"a", b"small")
        .put(b"b", b"x" * 3 * _MIB)
        .put(b"c", b"")
        .commit()
        .write(str(tmp_path / "r"))
    )
    with open_repository(path) as repository:
        ids = [entry.id for entry in repository.entries(trees_of(path)[line_of(path)[0]])]

        assert list(repository.contents(ids, _MIB)) == [b"small", 3 * _MIB, b""]
        assert list(repository.contents(ids[::-1], 4 * _MIB)) == [b"", b"x" * 3 * _MIB, b"small"]


def test_a_missing_object_is_none(tmp_path: Path) -> None:
    """A partial clone lacks objects: those that are there come all the same; a commit names what is to do."""
    path = History().put(b"a", b"1").commit().write(str(tmp_path / "r"))
    with open_repository(path) as repository:
        head = repository.resolve("HEAD")
        found = list(repository.contents(["1" * 40, head, "2" * 40], _MIB))
        assert [data is None for data in found] == [True, False, True]
        assert repository.present(["1" * 40, head]) == {head}
        with pytest.raises(NotFound, match="partial clone"):
            repository.commits(["1" * 40])


@pytest.mark.parametrize("rev", ["-rf", "--output=x", "--all", "a\0b"])
def test_a_revision_is_never_an_option(tmp_path: Path, rev: str) -> None:
    """What begins with a dash is refused before git sees it."""
    path = History().put(b"a", b"1").commit().write(str(tmp_path / "r"))
    with open_repository(path) as repository, pytest.raises(Refused):
        repository.resolve(rev)


@pytest.mark.parametrize("rev", ["nowhere", "..", "HEAD~9", "HEAD:a", "", "main..main", "HEAD^{tree}"])
def test_what_names_no_commit_is_not_found(tmp_path: Path, rev: str) -> None:
    """A name of no commit is an error that repeats the name."""
    path = History().put(b"a", b"1").commit().write(str(tmp_path / "r"))
    with open_repository(path) as repository, pytest.raises(NotFound):
        repository.resolve(rev)


def test_revisions_are_read_as_git_reads_them(tmp_path: Path) -> None:
    """Branches, tags, short ids and expressions all name commits."""
    path = History().put(b"a", b"1").commit("one").put(b"a", b"2").commit("two").write(str(tmp_path / "r"))
    line = line_of(path)
    git(path, "tag", "-a", "v1", "-m", "tag", line[0])
    with open_repository(path) as repository:
        named = {
            rev: repository.resolve(rev) for rev in ("HEAD", "main", "v1", line[0][:8], "HEAD~1", ":/two")
        }

    one, two = line
    assert named == {"HEAD": two, "main": two, "v1": one, line[0][:8]: one, "HEAD~1": one, ":/two": two}


def test_no_repository_and_no_commit_are_told_apart(tmp_path: Path) -> None:
    """A folder outside git, a broken .git file, and a repository before its first commit."""
    git(None, "init", "-q", str(tmp_path / "unborn"))
    (tmp_path / "plain").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / ".git").write_text("gitdir: nowhere\n")

    with pytest.raises(NotFound, match="git repository"):
        open_repository(str(tmp_path / "plain"))
    with pytest.raises(NotFound, match="should name a git directory"):
        open_repository(str(tmp_path / "broken"))
    with (
        open_repository(str(tmp_path / "unborn")) as repository,
        pytest.raises(NotFound, match="no commits yet"),
    ):
        repository.resolve("HEAD")


def test_a_repository_is_found_from_below_and_from_linked_work_trees(tmp_path: Path) -> None:
    """Any folder of a work tree, linked work trees and bare repositories lead to the same objects."""
    path = (
        History()
        .put(b"a/b/c", b"1")
        .commit()
        .write(str(tmp_path / "r"), "--separate-git-dir", str(tmp_path / "g"))
    )
    git(path, "reset", "-q", "--hard", "main")
    git(path, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "other")
    for place in ("r", "r/a/b", "linked/a", "g"):
        with open_repository(str(tmp_path / place)) as repository:
            assert repository.common_dir == str(tmp_path / "g")
            assert repository.resolve("other") == line_of(path)[0]
    with open_repository(str(tmp_path / "linked")) as repository:
        assert repository.work_tree == str(tmp_path / "linked")
        assert repository.first_parent_line(repository.resolve("HEAD")) == line_of(path)


def test_configuration_cannot_change_what_is_read_or_run_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings, attributes, grafts and replace refs, the user's and the repository's, are without effect."""
    path = (
        History()
        .put(b"a.txt", b"1\n")
        .commit("one")
        .put(b"a.txt", b"1\n2\n")
        .commit("two")
        .write(str(tmp_path / "r"), "-q")
    )
    one, two = line_of(path)
    trap = tmp_path / "trap"
    run = f"touch {trap}; cat"
    for key in ("diff.external", "diff.x.textconv", "diff.x.command", "core.fsmonitor", "core.pager"):
        git(path, "config", key, run)
    for key, value in (("diff.renames", "copies"), ("diff.noprefix", "true"), ("core.quotePath", "true")):
        git(path, "config", key, value)
    for place in (f"{path}/.gitattributes", f"{path}/.git/info/attributes"):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        Path(place).write_text("*.txt diff=x -text binary\n")
    git(path, "replace", two, one)
    Path(f"{path}/.git/info/grafts").write_text(f"{two}\n")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(f"[diff]\n\texternal = {run}\n[core]\n\tfsmonitor = {run}\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", run)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "diff.external")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", run)
    with open_repository(path) as repository:
        line = repository.first_parent_line(repository.resolve("main"))
        commits = repository.commits(line)
        changes = list(repository.changes([(commits[0].tree, commits[1].tree)]))

    assert line == [one, two]
    assert [commit.subject for commit in commits] == ["one", "two"]
    assert [(c.path, c.lines_added, c.lines_removed) for c in changes[0]] == [(b"a.txt", 1, 0)]
    assert not trap.exists()


def test_reading_leaves_the_repository_as_it_is(tmp_path: Path) -> None:
    """No file of the repository is made, changed or touched, and nothing is left behind elsewhere."""
    path = History().put(b"a", b"1").commit().write(str(tmp_path / "r"), "-q")
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def seen() -> dict[str, tuple[int, int, int]]:
        found = {}
        for directory, _, names in os.walk(path):
            for name in [".", *names]:
                facts = os.lstat(os.path.join(directory, name))
                found[os.path.join(directory, name)] = (facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        return found

    before = seen()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(scratch))
        with open_repository(path) as repository:
            commits = repository.commits(repository.first_parent_line(repository.resolve("HEAD")))
            list(repository.changes([(EMPTY_TREE[40], commits[0].tree)]))
            list(repository.contents([e.id for e in repository.entries(commits[0].tree)], _MIB))
            assert os.listdir(scratch)

    assert seen() == before
    assert os.listdir(scratch) == []


def test_sha256_repositories_are_read(tmp_path: Path) -> None:
    """Repositories with 64-digit ids give the same answers."""
    path = str(tmp_path / "r")
    git(None, "init", "-q", "--object-format=sha256", "--initial-branch=main", path)
    Path(path, "a").write_bytes(b"1\n")
    git(path, "add", "a")
    git(path, "commit", "-q", "-m", "one")
    with open_repository(path) as repository:
        line = repository.first_parent_line(repository.resolve("HEAD"))
        commit = repository.commits(line)[0]
        changes = list(repository.changes([(EMPTY_TREE[64], commit.tree)]))

    assert len(line[0]) == 64
    assert [(c.path, c.lines_added) for c in changes[0]] == [(b"a", 1)]


def test_a_process_that_dies_is_an_error_and_no_wait(tmp_path: Path) -> None:
    """I31: when git ends in the middle of an answer, the reader says so instead of waiting."""
    path = History().put(b"a", b"1").commit().write(str(tmp_path / "r"))
    with open_repository(path) as repository:
        with pytest.raises(EventLogError, match="git ls-tree"):
            list(repository.entries("1" * 40))
        tree = trees_of(path)[line_of(path)[0]]
        pairs = [("1" * 40, "2" * 40), (EMPTY_TREE[40], tree), (tree, "2" * 40)]
        found = list(repository.changes(pairs))
        assert [changes and changes[0].path for changes in found] == [None, b"a", None]


def test_messages_in_any_encoding_are_kept() -> None:
    """The stated encoding is used where it fits; latin-1 otherwise keeps every byte."""

    def message(stated: bytes, text: bytes) -> tuple[str, str | None]:
        head = b"tree %b\nauthor A <a> 1 +0000\ncommitter C <c> 2 +0000\n" % (b"1" * 40)
        head += b"encoding %b\n" % stated if stated else b""
        commit = parse_commit("c" * 40, head + b"gpgsig x\n tree no\n\n" + text)
        assert commit.message.encode(commit.encoding or "utf-8") == text
        return commit.message, commit.encoding

    assert message(b"", "é".encode()) == ("é", None)
    assert message(b"ISO-8859-2", b"\xb1") == ("ą", "ISO-8859-2")
    assert message(b"", b"\xff") == ("ÿ", "latin-1")
    assert message(b"no-such", b"\xff") == ("ÿ", "latin-1")
    assert message(b"utf-16", b"odd") == ("odd", None)
    assert message(b"", b"\xed\xa0\x80") == ("\xed\xa0\x80", "latin-1")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"A B <a@b> 12 +0100", ("A B", "a@b", 12, "+0100")),
        (b"<> 12 +0100", ("", "", 12, "+0100")),
        (b"A <a@b>", ("A", "a@b", None, "")),
        (b"A <a@b> soon", ("A", "a@b", None, "")),
        (b"A <x> <a@b> -5 +0000", ("A", "x> <a@b", -5, "+0000")),
        (b"nonsense", ("", "", None, "")),
    ],
)
def test_malformed_people_are_read_as_far_as_they_go(line: bytes, expected: tuple[object, ...]) -> None:
    """P7: what a commit does not say is unknown; it stops nobody from reading the rest."""
    data = b"tree %b\nauthor %b\ncommitter C <c> 2 +0000\n\nm" % (b"1" * 40, line)

    assert tuple(parse_commit("c" * 40, data).author) == expected


def test_what_is_no_commit_is_corruption() -> None:
    """I11: an object without the fields of a commit is refused."""
    with pytest.raises(Corruption):
        parse_commit("c" * 40, b"object 1\ntype commit\n\n")


def test_a_subject_is_the_first_paragraph() -> None:
    """S1-47: a title is one line; a commit without a message is called by its id."""

    def subject(message: bytes) -> str:
        head = b"tree %b\nauthor A <a> 1 +0000\ncommitter C <c> 2 +0000\n\n" % (b"1" * 40)
        return parse_commit("abcdef" * 7, head + message).subject

    assert subject(b"\n  Fix the\n bug \n\nbody") == "Fix the bug"
    assert subject(b"") == "commit abcdefabcdef"


def test_without_git_the_message_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the program git gets a sentence about it."""
    path = History().put(b"a", b"1").commit().write(str(tmp_path / "r"))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(NotFound, match="install it"):
        open_repository(path)
