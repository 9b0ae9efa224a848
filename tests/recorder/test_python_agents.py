"""Programs that record themselves: their turns replay, exceptions are recorded, their typing is checked."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import eventlog
from eventlog import InvalidEvent, NotDurable, Recorder, Store
from eventlog.base.types import COLUMN_NAMES
from locus_cli.main import run
from tests.worktree.support import on_disk


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A directory with a store, an executable, a link, a private file, a secret and an ignored folder."""
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    Store.init(work / ".locus").close()
    (work / "src/a.py").write_bytes(b"one\r\n\xff")
    (work / "run").write_text("#!/bin/sh\n")
    os.chmod(work / "run", 0o755)
    os.symlink("src/a.py", work / "link")
    (work / "private").write_text("mine")
    os.chmod(work / "private", 0o600)
    (work / "key").write_text("AWS_SECRET_ACCESS_KEY=" + "p9XeKd2+Vt7mQzR4" + "nB8sLw/1yUfGhJ3cTaKo6MiE\n")
    return work


@pytest.fixture
def recorder(work: Path) -> "Iterator[Recorder]":
    with Store.open(work / ".locus") as store:
        yield Recorder(store, agent="script")


def without_store(root: Path) -> "dict[bytes, object]":
    return {path: what for path, what in on_disk(root).items() if not path.startswith(b".locus")}


def test_a_turn_replays_byte_for_byte(
    work: Path, recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1, S1-37: `root` and `snapshot` capture a directory as hooks do, so that `locus replay` gives both its
    states, with modes and links; what changed between is counted, and contents with a secret are withheld."""
    before = without_store(work)
    with recorder.start_turn("Change it", root=work) as turn:
        (work / "src/a.py").write_text("two\n")
        (work / "new").write_text("new\n")
        os.unlink(work / "link")
        turn.snapshot(work)
    after = without_store(work)
    monkeypatch.chdir(work)
    for at, held in (("start", before), ("end", after)):
        assert run(["replay", "last", "--at", at, "--to", str(tmp_path / at)]) == 0
        assert without_store(tmp_path / at) == held != {}
    first, last = (e for e in recorder.store.timeline(turn.ref) if e["event_type"] == "snapshot")
    assert [e["payload"].get("files_changed") for e in (first, last)] == [None, 3]
    assert last["tree_hash"] == turn.tree and last["blobs"] == [turn.tree] and last["success"]
    assert {one.path for one in recorder.store.diff(turn.ref).changes} == {b"link", b"new", b"src/a.py"}
    assert len(recorder.store.withheld()) == 1
    assert recorder.store.verify("deep") == []


def test_settings_of_the_store_hold(work: Path, recorder: Recorder) -> None:
    """S1-37: what is captured from Python follows `.gitignore` and `config.toml`, as in a hook."""
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / ".gitignore").write_text("build/\nout/\n")
    for name in ("build", "out"):
        (work / name).mkdir()
        (work / name / "x").write_text("x" * 500)
    (work / ".locus/config.toml").write_text('[capture]\ninclude = ["out/**"]\nmax_file_bytes = 600\n')
    (work / "large").write_text("x" * 700)
    turn = recorder.start_turn("Look", root=work)
    payload = recorder.store.timeline(turn.ref)[1]["payload"]
    tree = recorder.store.tree(turn.ref, "start")

    assert tree.file("out/x") == b"x" * 500
    with pytest.raises(eventlog.NotFound):
        tree.file("build/x")
    assert [path for path, _ in payload["skipped"]] == ["large"] and payload["ignored_count"] >= 1


def test_a_text_is_no_directory(work: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1-37: a name, or a hash, in the place of a directory is refused with the words for what to give; a
    tree that is stored goes in by the door that says so."""
    monkeypatch.chdir(work)
    turn = recorder.start_turn("Look", root=".")
    assert turn.tree is not None
    before = recorder.store.journal.next_position()
    for text in ("turn_start", turn.tree):
        with pytest.raises(InvalidEvent, match=r"takes the directory to capture, such as '\.'.*snapshot_of"):
            turn.snapshot(text)
    with pytest.raises(InvalidEvent, match="give `root`"):
        recorder.start_turn("Look", root=".", tree_hash=turn.tree)
    assert recorder.store.journal.next_position() == before
    turn.snapshot_of(turn.tree)
    assert recorder.store.tree(turn.ref).file("private") == b"mine"


def test_an_exception_is_recorded_and_goes_on(recorder: Recorder) -> None:
    """P7, S1-33, S1-47: a turn that an exception leaves has it as an error and ends as failed, its session
    too, once; what ends well ends by itself."""
    with pytest.raises(ZeroDivisionError), recorder.start_session("Work") as session:
        with session.start_turn("Well") as well:
            well.action("Bash", {"command": "ls"})
        with session.start_turn("Badly"):
            print(1 / 0)
    turns = recorder.store.query("select status, outcome from turns order by turn").rows
    assert turns == [("completed", None), ("failed", "ZeroDivisionError: division by zero")]
    errors = recorder.store.query("select error_type, message, resolved from errors").rows
    assert errors == [("ZeroDivisionError", "division by zero", False)]
    assert recorder.store.query("select status, end_reason from sessions").rows == [("closed", "failed")]
    with recorder.start_session("More"):
        pass
    with pytest.raises(KeyError), recorder.start_session("Outside of a turn"):
        raise KeyError("x")
    ends = recorder.store.query("select end_reason from sessions order by ended_at").rows
    assert ends == [("failed",), ("explicit",), ("failed",)]
    assert recorder.store.query("select turn from errors where error_type = 'KeyError'").rows == [(None,)]


def test_what_cannot_be_recorded_hides_no_exception(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: where the log refuses, the program's own exception goes on, with a note that says so."""

    def full(*_: object, **__: object) -> range:
        raise NotDurable("the disk is full")

    with pytest.raises(ZeroDivisionError) as caught, recorder.start_turn("Badly"):
        monkeypatch.setattr(recorder.store, "append_rows", full)
        print(1 / 0)
    assert caught.value.__notes__ == ["Locus could not record this: the disk is full"]


def test_an_event_has_the_columns_of_the_log() -> None:
    """P8: the typed dict and the envelope name the same columns, and the names that users annotate with are
    public."""
    assert tuple(eventlog.Event.__annotations__) == COLUMN_NAMES
    for name in ("Event", "Limits", "Result", "Session", "Turn", "TurnRef"):
        assert getattr(eventlog, name).__name__ == name and name in eventlog.__all__


ROOT = Path(__file__).parents[2]

_PROGRAM = """
from eventlog import Event, Limits, Recorder, Result, Session, Store, Turn, TurnRef

def tool(turn: Turn) -> int:
    return turn.action("Bash", {"command": "ls"}, success=True, cwd="/w")

def note(store: Store, last: TurnRef) -> None:
    event: Event = {"event_type": "note", "payload": {"any": [1]}}
    store.append([event, {"event_type": "note", "prompt_tokens": 3}])
    for one in store.events():
        path: str | None = one["path"]
    found: Result = store.query("select 1", limits=Limits(rows_max=1))
    with Recorder(store, agent="x", branch="main").start_session("Work") as session:
        kept: Session = session
        with kept.start_turn("Do it", root=".") as turn:
            turn.llm("m", prompt_tokens=1, cache_read_tokens=2)
            turn.snapshot(".")
"""

# Each is one line that must be an error, by the code of mypy.
_WRONG = {
    'turn.action("Bash", {}, sucess=True)': "call-arg",
    'turn.llm("m", promt_tokens=1)': "call-arg",
    'turn.error("E", "m", fille="x")': "call-arg",
    'turn.end(titel="x")': "call-arg",
    'Recorder(store, agent="x", brunch="y")': "call-arg",
    'store.append([{"event_type": "x", "promt_tokens": 1}])': "typeddict-unknown-key",
    'store.append([{"event_type": 3}])': "typeddict-item",
    '[one["pth"] for one in store.events()]': "typeddict-item",
    "turn.snapshot(3)": "arg-type",
}


def test_a_type_checker_sees_a_wrong_word(tmp_path: Path) -> None:
    """P8: `mypy --strict` of a user's program, accepts what is right and finds each wrong keyword, key
    and type."""
    body = "\n".join(f"    {line}" for line in _WRONG)
    program = tmp_path / "agent.py"
    program.write_text(f"{_PROGRAM}\n\ndef wrong(turn: Turn, store: Store) -> None:\n{body}\n")
    first = program.read_text().split("\n").index(body.split("\n")[0]) + 1
    # The project's settings, which are strict, and so its cache: what was checked is not checked again.
    mypy = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(program)]
    done = subprocess.run(mypy, capture_output=True, text=True, cwd=ROOT)
    found = {}
    for line in done.stdout.splitlines():
        assert f"/{program.name}:" in line, textwrap.shorten(line, 200)
        if ": error: " in line:
            number = int(line.partition(f"{program.name}:")[2].split(":")[0])
            found[number] = line.rpartition("[")[2].rstrip("]")
    assert found == {first + n: code for n, code in enumerate(_WRONG.values())}
