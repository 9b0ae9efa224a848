"""Continuity codes: what is captured, how it is written, when it counts, and what the log says of it."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.erasure import erasure
from eventlog.memory import codes_of_log
from eventlog.memory.budget import tokens_of
from eventlog.memory.codes import (
    ACTIVE,
    AutoCapture,
    SessionContextCapture,
    functions_in,
    lines_of,
    runner_of,
)
from eventlog.memory.codes_files import (
    InjectionPackage,
    SessionCleanupManager,
    SessionContext,
    SessionContextInjector,
    stored,
)
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store
from locus_cli.main import run

NOW = datetime(2026, 1, 22, 13, 35, 14, tzinfo=UTC)
HYDRA = """proj:hydra
impl:proxy.go
impl:supervisor.go
impl:supervisor.Process
impl:config.Load
dec:split-proxy-3-files
dec:plan-splits-before-writing
block:race:test-failure-line-712
next:add-mutex-to-process-struct
next:rerun-race-detector"""


def hydra() -> SessionContextCapture:
    capture = SessionContextCapture("20260121-143022", "hydra")
    for path in ("cmd/proxy.go", "/abs/supervisor.go", "proxy.go"):
        capture.record_file_modified(path)
    for name in ("supervisor.Process", "config.Load"):
        capture.record_function(name)
    capture.record_decision("split proxy", "3 files")
    capture.record_decision("plan splits", "before writing")
    capture.record_blocker("race", "test failure line 712")
    capture.record_next("next:add-mutex-to-process-struct")
    capture.record_next("rerun-race-detector")
    return capture


def saved(base: Path, project: str, *, now: datetime = NOW, **lists: int) -> SessionContext:
    capture = SessionContextCapture(now.strftime("%Y%m%d-%H%M%S"), project)
    for number in range(lists.get("files", 1)):
        capture.record_file_modified(f"{project}_{number}.py")
    for number in range(lists.get("decisions", 0)):
        capture.record_decision(f"use part {number}", "it is simple")
    for number in range(lists.get("blockers", 0)):
        capture.record_blocker("need", f"part {number}")
    context = capture.to_context(now=now)
    SessionContextInjector(base).save_context(context)
    return context


# -- capture ---------------------------------------------------------------------------------------


def test_the_worked_example_comes_out_line_by_line(tmp_path: Path) -> None:
    """S4-5, S4-8, S4-9, S4-10, S4-11, S4-20, S4-47: ten lines, in their order, and nothing else."""
    injector = SessionContextInjector(tmp_path)
    injector.save_context(hydra().to_context(now=NOW))
    package = injector.inject("hydra", now=NOW)

    assert package is not None
    assert package.codes == HYDRA
    assert package.session_id == "20260121-143022"
    assert package.expires_at == "2026-01-29T13:35:14Z"
    assert package.token_count == int(10 * 1.3) == tokens_of(HYDRA)


def test_what_is_noted_twice_is_one_code_in_its_first_place() -> None:
    """S4-6, S4-7, S4-12: completions and next actions stay as given; lists have no repetitions."""
    capture = SessionContextCapture("20260122-133514", "p")
    for action in ("test:clustering", "impl:a.py", "test:clustering"):
        capture.record_completion(action)
        capture.record_next(action)
    for name in ("b", "a", "b"):
        capture.record_function(name)
        capture.record_file_modified(f"x/{name}.py")
        capture.record_decision(name, "because")
        capture.record_blocker("kind", name)
    context = capture.to_context("PHASE-2", now=NOW)

    assert context.completed == context.next_actions == ("test:clustering", "impl:a.py")
    assert context.key_functions == ("impl:b", "impl:a")
    assert context.files_modified == ("impl:b.py", "impl:a.py")
    assert context.decisions == ("dec:b-because", "dec:a-because")
    assert context.blockers == ("block:kind:b", "block:kind:a")


def test_a_context_says_when_it_ends() -> None:
    """S4-2, S4-13: its id, project and phase as given, active, a week to live, in aware times."""
    context = SessionContextCapture("20260122-133514", "p").to_context("feature-auth", now=NOW)

    assert (context.id, context.project, context.phase) == ("20260122-133514", "p", "feature-auth")
    assert (context.timestamp, context.expires - context.timestamp) == (NOW, timedelta(days=7))
    assert context.status == ACTIVE
    assert SessionContextCapture("i", "p").to_context().timestamp.tzinfo is not None


def test_tools_and_words_become_codes() -> None:
    """S4-23, S4-24, S4-25, S4-26, S4-27: edits, definitions, tests, decisions and blockers are heard."""
    auto = AutoCapture("20260122-133514", "p")
    auto.on_tool_use(
        "Write", {"file_path": "/w/a.py", "content": "def one(): ...\nasync def two(): ..."}, None
    )
    auto.on_tool_use(
        "Edit", {"file_path": "b.go", "new_string": "func (s *S) Run() {}\nfunc main() {}"}, None
    )
    auto.on_tool_use("Edit", {"file_path": "c.js", "new_string": "function go(x) {}"}, "ok")
    auto.on_tool_use("Read", {"file_path": "d.py", "content": "def not_read(): ..."}, None)
    auto.on_tool_use("Bash", {"command": "pytest -q tests"}, None)
    auto.on_tool_use("Bash", {"command": "go test ./..."}, None)
    auto.on_tool_use("Bash", {"command": "npm install left-pad@latest"}, None)
    auto.on_user_message("Decision: we ship on Friday")
    auto.on_user_message("I am BLOCKED by the missing certificate of the proxy")
    auto.on_user_message("Let's use the second form")
    auto.on_user_message("Thank you")
    context = auto.get_context("p1")

    assert context.files_modified == ("impl:a.py", "impl:b.go", "impl:c.js")
    assert context.key_functions == ("impl:one", "impl:two", "impl:Run", "impl:main", "impl:go")
    assert context.completed == ("test:pytest", "test:go")
    assert context.decisions == ("dec:user_specified-explicit",)
    assert context.blockers == ("block:user_reported:I-am-BLOCKED-by-the-missing-ce",)
    assert context.phase == "p1"


def test_ordinary_words_are_no_tests() -> None:
    """S4-25: `latest`, `contest` and the shell's own `test` are none; runners that do not say `test` are."""
    ordinary = ("npm i x@latest", "ls contest", "test -f a", "", "cat tests/a.py", "git add tests/a.py")
    assert [runner_of(command) for command in ordinary] == [None] * 6
    tests = (
        "make test_all",
        "./run_tests.sh -q",
        "python -m unittest",
        "cargo nextest run",
        "cd a && vitest",
    )
    assert [runner_of(c) for c in tests] == ["make", "run_tests.sh", "python", "cargo", "vitest"]
    assert functions_in("undefined (x)\ndefine y\nconst n = 1") == []
    defined = "pub fn go<T>(x: T)\nexport const run = async (x) => 1"
    assert functions_in(defined) == ["go", "run"]


@given(st.text(), st.text(max_size=20))
def test_a_code_is_one_line(text: str, kind: str) -> None:
    """S4-1, P5: whatever is noted, each code is one line, and recorded text adds none."""
    capture = SessionContextCapture("i", text)
    capture.record_completion(text)
    capture.record_next(text)
    capture.record_decision(text, kind)
    capture.record_blocker(kind, text)
    capture.record_file_modified(text)
    capture.record_function(text)
    lines = lines_of(stored(capture.to_context(now=NOW)))

    assert len(lines) == 6
    assert all(len(line.splitlines()) == 1 for line in lines)


# -- the ten scenarios ------------------------------------------------------------------------------


def test_basic_capture() -> None:
    """S4-37: three functions and two files come out exactly."""
    capture = SessionContextCapture("i", "p")
    for name in ("fn1", "fn2", "fn3"):
        capture.record_function(name)
    for name in ("f1", "f2"):
        capture.record_file_modified(name)
    context = capture.to_context()

    assert context.files_modified == ("impl:f1", "impl:f2")
    assert context.key_functions == ("impl:fn1", "impl:fn2", "impl:fn3")


def test_save_and_load(tmp_path: Path) -> None:
    """S4-3, S4-4, S4-16, S4-38: the file has the seed's keys, and the next session gets the same codes."""
    first = hydra()
    first.record_completion("test:pytest")
    SessionContextInjector(tmp_path).save_context(SessionContextCapture("old", "hydra").to_context(now=NOW))
    path = SessionContextInjector(tmp_path).save_context(first.to_context("p8", now=NOW))
    data = json.loads(path.read_text("utf-8"))
    package = SessionContextInjector(tmp_path).inject("hydra", now=NOW + timedelta(days=6))

    assert path == tmp_path / "memory/sessions/active-hydra.json"
    assert path.read_text("utf-8").startswith('{\n  "session_id": "20260121-143022"')
    assert data["metadata"] == {"expires_at": "2026-01-29T13:35:14Z"}
    assert (data["project"], data["timestamp"]) == ("hydra", "2026-01-22T13:35:14Z")
    assert (data["completed"], data["phase"]) == (["test:pytest"], "p8")
    assert package == InjectionPackage(HYDRA, tokens_of(HYDRA), "20260121-143022", "2026-01-29T13:35:14Z")
    assert [p.name for p in path.parent.iterdir()] == ["active-hydra.json"]


def test_eight_days_old(tmp_path: Path) -> None:
    """S4-15, S4-18, S4-19, S4-39: it goes to the archive under its session, and is not returned."""
    saved(tmp_path, "p")
    injector = SessionContextInjector(tmp_path)

    assert injector.inject("p", now=NOW + timedelta(days=8)) is None
    archived = json.loads((tmp_path / "memory/sessions/archive/20260122-133514.json").read_text("utf-8"))
    assert archived["archived_at"] == "2026-01-30T13:35:14Z"
    assert archived["files"] == ["impl:p_0.py"]
    assert not injector.path_of("p").exists()


def test_everything_is_captured(tmp_path: Path) -> None:
    """S4-35, S4-40: twenty files, ten decisions and five blockers are all there."""
    saved(tmp_path, "p", files=20, decisions=10, blockers=5)
    package = SessionContextInjector(tmp_path).inject("p", now=NOW)

    assert package is not None
    assert len(package.codes.split("\n")) == 1 + 20 + 10 + 5


def test_no_previous_session(tmp_path: Path) -> None:
    """S4-14, S4-41: None and no error, and the directory is made."""
    assert SessionContextInjector(tmp_path / "new").inject("new-project") is None
    assert (tmp_path / "new/memory/sessions").is_dir()


def test_a_usual_session_is_within_its_budget(tmp_path: Path) -> None:
    """S4-21, S4-34, S4-42: fifteen files, eight decisions and three blockers are under 1500 tokens."""
    saved(tmp_path, "p", files=15, decisions=8, blockers=3)
    package = SessionContextInjector(tmp_path).inject("p", now=NOW)

    assert package is not None
    assert package.token_count == int((1 + 15 + 8 + 3) * 1.3) < 1500


def test_codes_beyond_their_budget_are_warned_of(tmp_path: Path) -> None:
    """S4-34, S4-35: above 1,500 tokens the command says so, and leaves nothing out."""
    for steps, warned in ((1_153, False), (1_154, True)):
        (tmp_path / str(steps)).mkdir()
        root = tmp_path / str(steps) / ".locus"
        with Store.init(root, project_name="p") as store:
            turn = Recorder(store, agent="script").start_turn("Go")
            turn.action("TodoWrite", {"todos": [{"content": f"step-{n}"} for n in range(steps)]})
        command = [sys.executable, "-m", "locus_cli", "--store", str(root), "codes"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert ended.stdout.count("\n") == steps + 1
        assert ("above 1,500" in ended.stderr) is warned, ended.stderr


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"metadata": 3'])
def test_a_corrupt_file(tmp_path: Path, data: bytes) -> None:
    """S4-17, S4-29, S4-43: None and no crash; cleaning up keeps its bytes in the archive."""
    injector = SessionContextInjector(tmp_path)
    injector.path_of("p").write_bytes(data)

    assert injector.inject("p") is None
    assert injector.path_of("p").read_bytes() == data
    assert SessionCleanupManager(tmp_path).cleanup_expired() == 0
    (kept,) = (tmp_path / "memory/sessions/archive").iterdir()
    assert kept.read_bytes() == data
    assert not injector.path_of("p").exists()


@pytest.mark.parametrize("when", [None, "soon", 7, "2026-01-29T13:35:14", "2026-01-29T13:35:14+02:00"])
def test_when_it_expires_must_be_given(tmp_path: Path, when: object) -> None:
    """S4-18: without a time, or with none that can be read, it has expired; a time without a zone is UTC."""
    context = saved(tmp_path, "p")
    injector = SessionContextInjector(tmp_path)
    data = {**stored(context), "metadata": {"expires_at": when}}
    injector.path_of("p").write_text(json.dumps(data), "utf-8")
    legible = isinstance(when, str) and when.startswith("2026")

    assert (injector.inject("p", now=NOW) is not None) is legible


def test_projects_are_apart(tmp_path: Path) -> None:
    """S4-44: each gets its own codes, also when its name is no file name."""
    for count, project in enumerate(("hydra", "cerberus", "../../hydra", "a/b")):
        saved(tmp_path, project, files=count)
    injector = SessionContextInjector(tmp_path)
    found = {p: injector.inject(p, now=NOW) for p in ("hydra", "cerberus", "../../hydra", "a/b")}

    assert {p: package.codes.split("\n")[0] for p, package in found.items() if package is not None} == {
        p: f"proj:{p}" for p in found
    }
    assert [package.codes.count("impl:") for package in found.values() if package] == [0, 1, 2, 3]
    assert {p.parent for p in tmp_path.rglob("active-*")} == {tmp_path / "memory/sessions"}


def test_cleaning_up(tmp_path: Path) -> None:
    """S4-28, S4-45: of two that expired and one that counts, two go; without a directory there is nothing."""
    assert SessionCleanupManager(tmp_path / "nowhere").cleanup_expired() == 0
    saved(tmp_path, "one", now=NOW - timedelta(days=9))
    saved(tmp_path, "two", now=NOW - timedelta(days=9))
    saved(tmp_path, "three")

    assert SessionCleanupManager(tmp_path).cleanup_expired(now=NOW) == 2
    directory = tmp_path / "memory/sessions"
    assert [path.name for path in directory.glob("active-*")] == ["active-three.json"]
    assert len(list((directory / "archive").iterdir())) == 2  # of one id, and both are kept


def test_a_completed_project_leaves_nothing(tmp_path: Path) -> None:
    """S4-22, S4-48: its file goes, and nobody minds when there is none."""
    saved(tmp_path, "p")
    injector = SessionContextInjector(tmp_path)
    injector.mark_complete("p")
    injector.mark_complete("p")

    assert injector.inject("p", now=NOW) is None


# -- out of the log ---------------------------------------------------------------------------------


def worked(store: Store) -> str:
    """A session with everything that leaves a code; its id."""
    recorder = Recorder(store, agent="codex")
    session = recorder.start_session("Make the proxy safe")
    turn = recorder.start_turn("Let's make it safe")
    turn.file("src/proxy.go", before=b"func Old() {}\n", after=b"func Old() {}\nfunc (p *P) Serve() {}\n")
    turn.file("gone.go", before=b"func Gone() {}\n", after=None)
    turn.decision("split proxy", "3 files")
    turn.error("tool_failure", "it failed\nmore", tool="Bash", command="make check")
    turn.error("race", "line 712\nmore", tool="Bash", command="go run -race .")
    report = "Exit code 101\n=== FAILURES ===\n>   assert x\nE   assert 1 == 2\n1 failed"
    turn.error("tool_failure", report, tool="Bash", command="cd core && RUST_LOG=1 cargo test")
    turn.action("Bash", {"command": "make check"}, success=True)
    turn.action("Bash", {"command": "pytest -q"}, success=True)
    turn.action("Bash", {"command": "cargo test"}, success=False)
    turn.action("TodoWrite", {"todos": [{"content": "old one", "status": "pending"}]})
    todos = [
        {"content": "add a mutex", "status": "pending"},
        {"content": "read the code", "status": "completed"},
        {"content": "forget it", "status": "cancelled"},
    ]
    turn.action("TodoWrite", {"todos": todos})
    recorder.end_session()
    return session.session_id


LINES = [
    "proj:locus",
    "impl:proxy.go",
    "impl:Serve",
    "dec:split-proxy-3-files",
    "block:race:line-712",
    "block:test:cargo-E-assert-1-==-2",
    "next:add-a-mutex",
]


def test_a_recorded_session_leaves_its_codes(store: Store) -> None:
    """S4-1, S4-48: files, new functions, decisions, what fails and what is to do are read in the log."""
    session = worked(store)
    codes = codes_of_log.of_store(store)

    assert codes is not None
    assert lines_of(stored(codes.context)) == LINES
    assert codes.context.completed == ("test:pytest", "read-the-code")
    assert codes.session_id == session
    assert codes == codes_of_log.of_session(store, session)


@pytest.mark.slow
def test_a_new_session_reads_those_of_the_last(store: Store) -> None:
    """S4-31: a session that did nothing so far does not hide what the one before left."""
    session = worked(store)
    Recorder(store, agent="claude-code").start_session("Go on")
    codes = codes_of_log.of_store(store)

    assert codes is not None and codes.session_id == session


def test_what_people_say_is_in_the_log_first(store: Store) -> None:
    """P2: notes are events of the session, and the codes are read from them."""
    session = worked(store)
    codes_of_log.say(store, codes_of_log.NEXT, "ask Ann about\nthe proxy", session)
    codes_of_log.say(store, codes_of_log.DONE, "add a mutex", session)
    codes_of_log.say(store, codes_of_log.BLOCKER, "need: a key", session)
    codes_of_log.say(store, codes_of_log.DECISION, "no cache=it lies", session)
    found = codes_of_log.of_store(store)

    assert found is not None
    assert found.context.next_actions == ("ask-Ann-about-the-proxy",)
    assert found.context.completed[-1] == "add-a-mutex"
    assert found.context.blockers[:2] == ("block:need:-a-key", "block:race:line-712")
    assert found.context.decisions[-1] == "dec:no-cache-it-lies"
    assert [event["event_type"] for event in store.events()][-4:] == ["code"] * 4


def test_what_a_user_wrote_is_noted_where_it_is_asked_for(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """S4-26, S4-30, S4-31: words of decisions and blockers become codes of the session; saving says how many
    files were modified; the next start is given the lines. Without asking, nobody guesses from a prompt."""
    worked(store)
    messages = ("Decision: we ship on Friday", "I am BLOCKED by the missing certificate of it", "Thank you")
    listed = [part for message in messages for part in ("--said", message)]
    assert run(["--store", store.layout.root, "codes", *listed, "--export"]) == 0
    lines, output = capsys.readouterr()

    assert lines.splitlines() == [
        *LINES[:4],
        "dec:user_specified-explicit",
        "block:user_reported:I-am-BLOCKED-by-the-missing-ce",
        *LINES[4:],
    ]
    assert output.endswith("active-locus.json: 1 file\n")
    package = SessionContextInjector(store.layout.root).inject("locus")
    assert package is not None and f"{package.codes}\n" == lines


def test_the_exported_file_is_a_view(store: Store, tmp_path: Path) -> None:
    """P2, S4-4: deleted or damaged it is written again with the same bytes; completed, it goes."""
    session = worked(store)
    path = codes_of_log.export(store)
    assert path is not None and str(path).startswith(store.layout.root)
    before = path.read_bytes()
    path.unlink()
    assert codes_of_log.export(store) == path and path.read_bytes() == before
    path.write_bytes(b"{")
    assert codes_of_log.export(store) == path and path.read_bytes() == before
    elsewhere = codes_of_log.export(store, tmp_path / "home")
    assert elsewhere is not None and elsewhere.read_bytes() == before
    package = SessionContextInjector(tmp_path / "home").inject("locus")
    assert package is not None and package.codes.split("\n") == LINES

    codes_of_log.say(store, codes_of_log.COMPLETE, "", session)
    assert codes_of_log.export(store) is None and not path.exists()


def test_the_base_directory_is_configured(store: Store, tmp_path: Path) -> None:
    """S4-14: `[memory] codes_base` says where the files are."""
    Path(store.layout.config_file).write_text(f'[memory]\ncodes_base = "{tmp_path}/base"\n', "utf-8")
    worked(store)

    assert codes_of_log.export(store) == tmp_path / "base/memory/sessions/active-locus.json"


@pytest.mark.slow
def test_the_maintainer_writes_the_file(store: Store) -> None:
    """P2, S4-48: nobody has to ask for it: the process that keeps the store brings it up to date."""
    worked(store)
    done = subprocess.run(
        [sys.executable, "-m", "locus_cli.maintainer", store.layout.root], capture_output=True, timeout=60
    )
    path = Path(store.layout.root) / "memory/sessions/active-locus.json"

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert json.loads(path.read_bytes())["files"] == ["impl:proxy.go"]


def test_an_erasure_takes_the_files_with_it(store: Store) -> None:
    """I30: what codes were made from may be gone, so the views below the store go, archived ones too."""
    session = worked(store)
    path = codes_of_log.export(store)
    assert path is not None
    SessionContextInjector(store.layout.root).inject("locus", now=NOW + timedelta(days=4000))
    assert codes_of_log.export(store) == path
    erasure.erase(store, erasure.plan_session(store, session))

    assert list(path.parent.rglob("*.json")) == []
