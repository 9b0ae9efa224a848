"""`locus diff` and `locus history` on a small real history."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog import Recorder
from eventlog.blobs.ids import from_text, to_text
from eventlog.recorder.recorder import Turn
from eventlog.store import Store
from tests.blobs.support import Node, overwrite, store_node
from tests.cli.support import Locus, Recorded, git, locus_process
from tests.replay.states import file


def begin(store: Store, start: Node | None, title: str = "A turn") -> Turn:
    """A turn that begins with this tree."""
    tree = None if start is None else to_text(store_node(store.blobs, start))
    return Recorder(store, agent="probe").start_turn(title, tree_hash=tree)


def record(store: Store, start: Node | None, end: Node | None) -> str:
    """A turn that begins with one tree and ends with another; its name."""
    turn = begin(store, start)
    if end is not None:
        turn.snapshot_of(to_text(store_node(store.blobs, end)))
    turn.end()
    return turn.ref.name


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store in a directory of its own, which is the working directory."""
    root = tmp_path / "own"
    root.mkdir()
    Store.init(root / ".locus", repo_hash="0123456789ab").close()
    monkeypatch.chdir(root)
    return root


def test_a_turn_is_shown_as_git_shows_it(locus: Locus, recorded: Recorded) -> None:
    """S1-31, S1-45: the diff of a commit's turn is git's own, but for the ids of text."""
    for commit, parent in zip(recorded.commits[1:], recorded.commits, strict=False):
        ended = locus("diff", f"git:{commit}")
        expected = git(recorded.root, "diff", "-M100%", "--full-index", "--no-color", parent, commit) + "\n"
        rows = re.sub(r"^index .*\n(?!Binary)", "", expected, flags=re.M).split("\n")

        assert (ended.code, ended.err) == (0, "")
        assert [r.split(" @@")[0] for r in ended.text.split("\n")] == [r.split(" @@")[0] for r in rows]


def test_between_two_turns_and_back(locus: Locus, recorded: Recorded, tmp_path: Path) -> None:
    """P1: from any turn to any other, also backwards, git applies the diff and gets the replayed files."""
    first, last = (f"git:{recorded.commits[at]}" for at in (0, 2))
    for a, b in ((first, last), (last, first)):
        start, end = tmp_path / f"{a[4:9]}-start", tmp_path / f"{a[4:9]}-end"
        locus("replay", a, "--to", start)
        locus("replay", b, "--to", end)
        (tmp_path / "patch").write_bytes(locus("diff", a, b).out)
        git(start, "apply", str(tmp_path / "patch"))

        done = subprocess.run(["diff", "-r", "--no-dereference", start, end], capture_output=True)
        assert (done.returncode, done.stdout) == (0, b"")
        assert os.access(start / "run.sh", os.X_OK) == (b == last)


def test_plain_text_can_be_patched(locus: Locus, own: Path, tmp_path: Path) -> None:
    """P1: `patch -p1` takes the diff of text: with CRLF, bytes that are no UTF-8, no last newline."""
    before: Node = {b"crlf": file(b"a\r\nb\r\nc\r\n"), b"latin": file(b"caf\xe9\n"), b"end": file(b"x")}
    after: Node = {b"crlf": file(b"a\r\nB\r\nc\r\n"), b"latin": file(b"caf\xe8\n"), b"end": file(b"x\ny")}
    with Store.open() as store:
        record(store, before, after)
        store.replay("last", tmp_path / "tree", at="start")
    out = locus("diff", "last").out
    subprocess.run(["patch", "-p1", "-s", "--binary"], cwd=tmp_path / "tree", input=out, check=True)

    assert b"-caf\xe9\n+caf\xe8\n" in out
    assert {p.name.encode(): file(p.read_bytes()) for p in (tmp_path / "tree").iterdir()} == after


def test_counts_and_names(locus: Locus, recorded: Recorded) -> None:
    """P8: --stat counts, --name-only names as git quotes them, and both leave the text out."""
    stat = locus("diff", "last", "--stat")
    names = locus("diff", f"git:{recorded.commits[1]}", "last", "--name-only")

    assert stat.text.splitlines() == [
        "CHANGE   LINES  PATH",
        "rename   +0 −0  README.md → READ ME é.md",
        "add     binary  data.bin",
        "",
        "2 paths, +0 −0",
    ]
    assert names.text.splitlines() == [
        r'"READ ME \303\251.md"',
        "app",
        "data.bin",
        "run.sh",
    ]


def test_json_says_it_all(locus: Locus, recorded: Recorded) -> None:
    """P8: one document with both moments, and for each change its entries, counts and text."""
    found = json.loads(locus("diff", f"git:{recorded.commits[1]}", "--json").out)
    counted = json.loads(locus("diff", "last", "--stat", "--json").out)
    named = json.loads(locus("diff", "last", "--name-only", "--json").out)
    (change,) = found["changes"]

    assert (found["version"], found["from"]["at"], found["to"]["at"]) == (1, "start", "end")
    assert (change["path"], change["operation"], change["lines_added"], change["lines_removed"]) == (
        "src/app.py", "edit", 2, 1,
    )  # fmt: skip
    assert change["before"]["mode"] == "100644" and change["after"]["hash"].startswith("blake3:")
    assert change["diff"].endswith(" print('one')\n-print('two')\n+print('zwei')\n+print('three')\n")
    assert [(c["old_path"], c["binary"], "diff" in c) for c in counted["changes"]] == [
        ("README.md", False, False),
        (None, True, False),
    ]
    assert "binary" not in named["changes"][0]
    assert found["missing"] == []


def test_paths_may_be_typed_from_anywhere(
    locus: Locus, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: relative to the working directory, to the repository, or absolute; a turn is no path."""
    commit = f"git:{recorded.commits[1]}"
    wanted = locus("diff", commit, "src/app.py").out
    assert wanted.startswith(b"diff --git a/src/app.py")
    monkeypatch.chdir(recorded.root / "src")

    for path in ("app.py", "src/app.py", "./app.py", "../src", str(recorded.root / "src/app.py")):
        assert locus("diff", commit, path).out == wanted
        history = locus("history", path)
        assert history.code == (1 if path == "../src" else 0)
    assert locus("diff", commit, "git:" + recorded.commits[2], "app.py").out == b""
    for path in ("app.py", "src/app.py", "src/sub/../app.py", "../src", str(recorded.root / "src/app.py")):
        listed = locus("log", "--type", "file", "--path", path)
        assert "edit src/app.py" in listed.text and "run.sh" not in listed.text
        found = locus("search", "zwei", "--path", path)
        assert "src/app.py" in found.text
    assert "run.sh" in locus("log", "--type", "file", "--path", "..").text
    for asked in (["log"], ["search", "zwei"], ["errors"], ["decisions"]):
        refused = locus(*asked, "--path", "/etc/passwd")
        assert (refused.code, refused.out) == (1, b"") and "outside the repository" in refused.err
    outside = locus("diff", commit, "/etc/passwd")
    assert (outside.code, outside.out) == (1, b"") and "outside the repository" in outside.err


def test_an_unknown_session_or_type_is_reported(locus: Locus, recorded: Recorded) -> None:
    """P8: a session or a type that nothing has is an error that says what there is, not an empty answer."""
    for asked in (["log"], ["search", "zwei"], ["errors"], ["decisions"]):
        ended = locus(*asked, "--session", "zzz")
        assert (ended.code, ended.out) == (1, b"") and "no session is called 'zzz'" in ended.err
    for asked in (["log"], ["search", "zwei"]):
        ended = locus(*asked, "--type", "nosuch")
        assert (ended.code, ended.out) == (1, b"") and "file, intent, ref, session" in ended.err
        assert locus(*asked, "--type", "error").code == 0  # it may come
    session = json.loads(locus("log", "--json").out.splitlines()[0])["session_id"]
    for name in (session, session[:5], f"sess-{session}", f"session:sample_{session}"):
        assert locus("log", "--session", name).out == locus("log").out != b""


def test_names_that_are_not_utf8_choose_events(
    locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: a file whose name is no UTF-8 is found by its bytes, quoted, and below its directory."""
    root = tmp_path / "odd"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    odd = os.fsdecode(b"caf\xe9.txt")
    for place in ("data", "m\u00fcll", os.fsdecode(b"d\xe9")):
        (root / place).mkdir()
        for name in (odd, "plain.txt"):
            (root / place / name).write_text("honey and nuts\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Odd names", at=1)
    monkeypatch.chdir(root)
    assert locus("init").code == 0 and locus("import", "git").code == 0

    for place, number in (
        ("data", 2),
        ("m\u00fcll", 2),
        (os.fsdecode(b"d\xe9"), 2),
        (f"data/{odd}", 1),
        (r'"data/caf\351.txt"', 1),
    ):
        listed = locus("log", "--type", "file", "--json", "--path", place)
        assert (listed.code, listed.text.count("\n")) == (0, number), place
        found = locus("search", "honey", "--json", "--path", place)
        assert found.code == 0 and len(json.loads(found.out)["hits"]) == number, place


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nope"], 1, "no turn is called"),
        (["last", "git:0000000"], 1, "no turn is called"),
        (["last", "nope"], 1, "nope: no such path in"),
        (["last", "README.md", "nope"], 1, "nope: no such path in"),
        (["last", '"broken'], 2, "quoted path"),
        ([], 2, "Missing argument"),
    ],
)
def test_what_is_not_there_is_reported(
    locus: Locus, recorded: Recorded, arguments: list[str], code: int, words: str
) -> None:
    """P8: an unknown turn or path is one clear line and nothing on stdout."""
    ended = locus("diff", *arguments)

    assert (ended.code, ended.out) == (code, b"")
    assert words in ended.err and ended.err.count("\n") == 1


def test_a_turn_without_a_snapshot_is_reported(locus: Locus, own: Path) -> None:
    """P7: a turn of which no tree was recorded has no diff, and the message says so."""
    with Store.open() as store:
        none = record(store, None, None)
        half = record(store, None, {b"a": file(b"1\n")})

    assert "no tree was recorded" in locus("diff", none, half).err
    assert "no tree was recorded" in locus("diff", half).err
    with Store.open() as store:
        record(store, {b"a": file(b"2\n")}, None)
    assert b"-1\n+2\n" in locus("diff", half, "last").out


def test_what_was_not_captured_is_listed(locus: Locus, own: Path) -> None:
    """P1: a file whose content is unknown on one side is named on stderr with the reason; exit code 4."""
    with Store.open() as store:
        turn = begin(store, {b"a": file(b"1\n"), b"b": file(b"1\n")})
        turn.file("b", before=b"1\n", after=b"2\n")
        turn.event("file", {"skipped": "too large"}, path="a", operation="edit")
    ended = locus("diff", "last")
    data = json.loads(locus("diff", "last", "--json").out)

    running = "not compared: .: the turn is still running; its files are those of the last capture\n"
    assert (ended.code, ended.err) == (4, f"{running}not compared: a: too large\n")
    assert ended.out.startswith(b"diff --git a/b b/b\n")
    assert data["missing"][1:] == [{"path": "a", "reason": "too large"}]


def test_damage_is_named_and_the_rest_is_shown(locus: Locus, own: Path) -> None:
    """I24: a damaged content is exit code 12 and named; what is whole is shown all the same."""
    with Store.open() as store:
        good = {b"good": file(b"good\n")}
        store_node(store.blobs, good)
        bad: Node = {**good, b"bad": file(os.urandom(4000).hex().encode())}
        end = to_text(store_node(store.blobs, bad, codec="raw"))
        begin(store, {}).snapshot_of(end)
        entry = next(e for e in store.blobs.get_tree(from_text(end)) if e.name == b"bad")
        path, _, group_offset, *_ = store.blobs.locations([entry.id])[entry.id]
    data = bytearray(Path(path).read_bytes())
    data[group_offset + 100] ^= 0xFF
    overwrite(path, bytes(data))

    for options in ([], ["--stat"], ["--json"]):
        ended = locus("diff", "last", *options)
        assert ended.code == 12
        assert b"good" in ended.out and to_text(entry.id) in ended.err
    assert "not compared: bad: its content is damaged" in locus("diff", "last").err
    assert locus("diff", "last", "--name-only").code == 0


def test_a_large_file_with_one_changed_line_is_one_hunk(locus: Locus, own: Path) -> None:
    """P4: the size of a file that hardly changed does not show; 50 MB in the hunt, 5 MB otherwise."""
    lines = 800_000 if os.environ.get("LOCUS_HUNT") else 80_000
    big = b"".join(b"line %09d of a large file, 60 bytes and some more each\n" % n for n in range(lines))
    middle = len(big) // 2
    with Store.open() as store:
        record(store, {b"big": file(big)}, {b"big": file(big[:middle] + b"X" + big[middle:])})

    assert locus("diff", "last").out.count(b"\n") == 3 + 9
    assert locus("diff", "last", "--stat").text.endswith("1 path, +1 −1\n")


def test_a_terminal_gets_nothing_that_harms_it(own: Path) -> None:
    """P8: control characters in a recorded file are made visible on a terminal, and kept in a pipe."""
    with Store.open() as store:
        record(store, {}, {b"f": file(b"\x1b[2Jgone\n")})
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "locus_cli", "diff", "last"], cwd=own, stdout=follower, stderr=follower
    ):
        os.close(follower)
        shown = b""
        try:
            while part := os.read(leader, 65536):
                shown += part
        except OSError:  # the other end is closed: Linux says EIO
            pass
    os.close(leader)

    assert b"\\x1b[2Jgone" in shown and b"\x1b[2J" not in shown
    assert b"+\x1b[2Jgone\n" in locus_process("diff", "last", cwd=own).out


def test_history_lists_versions(locus: Locus, recorded: Recorded) -> None:
    """S1-55, S1-56: the versions of one file, newest first, with turn, change and lines, also from before its
    rename; 20 unless asked."""
    rows = locus("history", "READ ME é.md").text.splitlines()
    objects = [json.loads(row) for row in locus("history", "src/app.py", "--json").out.splitlines()]
    limited = locus("history", "src/app.py", "--limit", 1)

    assert rows[0].split()[:4] == ["TURN", "WHEN", "(UTC)", "CHANGE"]
    assert [row.split()[3] for row in rows[1:]] == ["rename", "add"]
    assert "README.md → READ ME é.md" in rows[1] and "Begin the sample" in rows[2]
    assert [(o["operation"], o["lines_added"], o["lines_removed"]) for o in objects] == [
        ("edit", 2, 1),
        ("add", 2, 0),
    ]
    assert objects[0]["user_request"].startswith("Count in German")
    assert objects[0]["context_id"].endswith("_002") and objects[0]["commit"] == recorded.commits[1]
    assert len(limited.text.splitlines()) == 2 and "There are more" in limited.err
    assert locus("cat", objects[1]["after_hash"]).out == b"print('one')\nprint('two')\n"


def test_a_file_without_history_is_reported(locus: Locus, recorded: Recorded) -> None:
    """P8: a path of which nothing is recorded is exit code 1 and says what to try."""
    ended = locus("history", "nope.py")

    assert (ended.code, ended.out) == (1, b"")
    assert "no event changes nope.py" in ended.err and "locus log --path nope.py" in ended.err
