"""The hook that starts a session: it records, and where a setting asks for it, tells what is known here."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import blake3
import pytest

from eventlog.base.fs import REAL
from eventlog.base.locks import APPEND, acquire
from eventlog.memory import briefing_hook, briefing_of_log, intent
from eventlog.memory.briefing import BriefingReader
from eventlog.memory.evidence import NOTE
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store
from locus_cli import hook_entry
from locus_cli.main import run
from tests.cli.hook_support import Agent, project
from tests.test_house import HOOK_PROBE, ROOT

ENABLED = "[briefing]\nat_start = true\n"
AUTH = "refactoring auth module"


@pytest.fixture(scope="module")
def _prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("told") / "work"
    work.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    with Store.init(work / ".locus") as store:
        turn = Recorder(store, agent="cursor").start_turn("Look at the parser")
        turn.decision("keep the old parser")
        turn.end(title="Parser looked at", outcome="It is sound")
    return work


@pytest.fixture
def work(_prepared: Path, tmp_path: Path) -> Path:
    """A working directory whose store has a little in it; hooks are to tell of it."""
    shutil.copytree(_prepared, tmp_path / "work")
    (tmp_path / "work/.locus/config.toml").write_text(ENABLED)
    return tmp_path / "work"


@pytest.fixture
def store(work: Path) -> Iterator[Store]:
    with Store.open(work / ".locus") as opened:
        yield opened


def hook(work: Path, agent: str, name: str = "SessionStart", *, starts: bool = False, **fields: Any) -> bytes:
    """What one hook prints. Args: starts: whether it may start processes."""
    if agent == "opencode" and name == "SessionStart":
        name = "session.created"
    payload = {"session_id": "s-1", "cwd": str(work), "hook_event_name": name, "source": "startup", **fields}
    done = subprocess.run(
        [sys.executable, "-m", "locus_cli.hook_entry", agent],
        input=json.dumps(payload).encode(),
        capture_output=True,
        cwd=work.parent,
        env={
            **os.environ,
            "LOCUS_NO_MAINTENANCE": "" if starts else "1",
            "LOCUS_HOOK_PATIENCE": "20",
        },
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_a_briefing_is_given_while_its_session_is_recorded(work: Path, store: Store) -> None:
    """P4: who waits for the one does not wait for the other, here for a lock that somebody else holds."""
    payload = {"session_id": "s-1", "cwd": str(work), "hook_event_name": "SessionStart", "source": "startup"}
    hook_process = subprocess.Popen(
        [sys.executable, "-m", "locus_cli.hook_entry", "claude-code"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=work.parent,
        env={**os.environ, "LOCUS_NO_MAINTENANCE": "1", "LOCUS_HOOK_PATIENCE": "20"},
    )
    with hook_process as agent, acquire(REAL, store.layout, APPEND, timeout_s=10):
        assert agent.stdin is not None and agent.stdout is not None
        before_s, recorded = time.monotonic(), store.status().events
        agent.stdin.write(json.dumps(payload).encode())
        agent.stdin.close()
        given = agent.stdout.readline()
        assert "keep the old parser" in text_in(given) and time.monotonic() - before_s < 20
        assert store.status().events == recorded
    assert agent.returncode == 0 and store.status().events > recorded


def text_in(data: bytes) -> str:
    answer = json.loads(data)
    assert list(answer) == ["hookSpecificOutput"]
    assert answer["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    return str(answer["hookSpecificOutput"]["additionalContext"])


def now(store: Store) -> "dict[str, Any]":
    """The facts as a hook has them."""
    found = briefing_hook.facts_now(store.layout, store.identity, time.monotonic() + 60)
    assert found is not None
    return found


@pytest.mark.fast
@pytest.mark.parametrize("agent", ["claude-code", "codex", "gemini-cli", "opencode"])
def test_a_session_that_begins_is_given_what_is_known(work: Path, agent: str) -> None:
    """S3-21, S3-28: the session is registered, then the briefing is printed in the agent's own form."""
    text = text_in(hook(work, agent))

    assert text.split("\n")[1] == NOTE
    assert text.index('cursor was asked: "Look at the parser"') < text.index('came of it: "It is sound"')
    assert '"keep the old parser"' in text
    assert "cursor: " in text and f"{agent}: " not in text  # it is not in its own briefing
    with Store.open(work / ".locus") as store:
        assert agent in {one.agent for one in intent.at_work(store)}


def test_nothing_is_printed_unless_it_is_asked_for(work: Path) -> None:
    """P4: by default a hook is silent; so it is for a session that goes on, other moments, other agents."""
    assert hook(work, "claude-code", source="resume") == b""
    assert hook(work, "claude-code", source="compact") == b""
    assert hook(work, "claude-code", "UserPromptSubmit", prompt="x", prompt_id="p") == b""
    assert hook(work, "some-agent") == b""
    assert hook(work, "opencode", "session.resumed") == b""
    assert hook(work, "opencode", "session.created", agent_id="inner") == b""
    (work / ".locus/config.toml").unlink()
    assert hook(work, "claude-code", session_id="s-2") == b""


def test_an_agent_that_forgets_the_output_of_hooks_is_briefed_again(work: Path) -> None:
    """S3-21: a chat of Gemini CLI does not keep it, so one that goes on gets it again, without itself."""
    assert '"keep the old parser"' in text_in(hook(work, "gemini-cli"))
    again = text_in(hook(work, "gemini-cli", source="resume"))
    assert '"keep the old parser"' in again and "gemini-cli: " not in again


def test_what_was_declared_for_an_agent_scopes_the_session_that_it_opens(work: Path, store: Store) -> None:
    """S3-21, S3-22, S3-24, S3-27: declared before the agent starts; hooks tag their events with it."""
    intent.start(store, "claude-code", AUTH, ["src/auth/"])
    text = text_in(hook(work, "claude-code"))

    assert f"Briefing scoped to session: {AUTH} [src/auth/]\n" in text
    active = intent.active_of(store, "claude-code")
    assert active is not None
    assert (active.agent_session_id, active.focus, active.scope) == ("s-1", AUTH, ("src/auth/",))
    hook(work, "claude-code", "UserPromptSubmit", prompt="x", prompt_id="p")
    (work / "a.py").write_text("one")
    args = {"file_path": str(work / "a.py")}
    hook(
        work, "claude-code", "PostToolUse", prompt_id="p", tool_name="Write", tool_use_id="t", tool_input=args
    )
    (changed,) = store.events(event_types=("file",))
    assert (changed["path"], changed["session_id"]) == ("a.py", active.session_id)  # S3-22


def test_what_came_since_is_read_from_the_journal(store: Store) -> None:
    """P2, I22: the kept facts and the journal's end give what gathering all of it gives."""
    briefing_of_log.export(store)
    claude = Recorder(store, agent="claude-code")
    claude.start_session(AUTH, intent={"focus": AUTH, "scope": ["src/"]}, title=AUTH)
    turn = claude.start_turn("Split it")
    turn.file("src/a.py", before=None, after=b"1")
    turn.file("src/a.py", before=b"1", after=b"2")
    turn.decision("use cookies", "they are there", path="src/a.py")
    turn.error("tool_failure", "tests failed", tool="pytest")
    store.append([{"event_type": "warning", "agent": "codex", "payload": {"message": "disk full"}}])
    Recorder(store, agent="cursor").end_session("done")
    turn.end(title="Split", outcome="done")
    folded, gathered = now(store), briefing_of_log.gather(store)
    for name in ("errors", "decisions"):
        for fact in (*folded[name], *gathered[name]):
            del fact["context"]  # of an event since then, the index alone knows it

    for name in (
        "position",
        "sessions",
        "files",
        "decisions",
        "decisions_total",
        "warnings",
        "errors",
        "errors_total",
    ):
        assert folded[name] == gathered[name], name
    assert [(t["text"], t["outcome"]) for t in folded["turns"]] == [
        (t["text"], t["outcome"]) for t in gathered["turns"]
    ]
    store.journal.rotate()
    store.append([{"event_type": "warning", "agent": "codex", "payload": {"message": "disk fuller"}}])
    assert [one["text"] for one in now(store)["warnings"]] == ["disk fuller", "disk full"]


def test_a_decision_that_was_taken_back_since_is_shown_no_more(store: Store) -> None:
    """P2, S3-21: one fold says which decisions are open, whether the index or a journal gives the events."""
    store.append([{"event_type": "decision", "context_id": "decision:x", "payload": {"decision": "use X"}}])
    briefing_of_log.export(store)
    store.append([{"event_type": "feedback", "contradicts": ["decision:x"], "payload": {"message": "no X"}}])
    folded, gathered = now(store), briefing_of_log.gather(store)

    assert [one["text"] for one in folded["decisions"]] == ["keep the old parser"]
    assert folded["decisions"] == gathered["decisions"]
    assert folded["decisions_total"] == gathered["decisions_total"] == 1


def test_a_session_of_another_repository_supersedes_none(store: Store) -> None:
    """S3-21: a session supersedes the one that its agent had in the same repository; one of another
    repository supersedes none of these, and is not shown."""
    briefing_of_log.export(store)
    own = store.repo_hash
    for repo, session in ((own, "aaaaaaaa"), (own, "bbbbbbbb"), ("r2", "cccccccc")):
        payload = {"agent": "codex", "repo": repo, "session_id": session, "payload": {"session_id": session}}
        store.append([{"event_type": "session", "operation": "start", "status": "active", **payload}])

    active = [one["id"] for one in now(store)["sessions"] if one["agent"] == "codex"]
    assert active == ["bbbbbbbb"]
    assert active == [
        one["id"] for one in briefing_of_log.gather(store)["sessions"] if one["agent"] == "codex"
    ]


def test_an_error_that_was_dealt_with_since_is_shown_no_more(store: Store) -> None:
    """P2, S3-21: one rule says which errors are open, in the index and at the journal's end: stated, seen,
    exploratory."""

    def call(id: str, tool: str, args: dict[str, str], success: bool, **columns: object) -> dict[str, object]:
        fields = {"success": success, "tool": tool, "tool_use_id": id, "payload": {"args": args}, **columns}
        return {"event_type": "action", **session, **fields}

    def error(id: str | None, tool: str | None, text: str, **columns: object) -> dict[str, object]:
        fields = {"tool": tool, "tool_use_id": id, "payload": {"message": text}, **columns}
        return {"event_type": "error", **session, **fields}

    session = {"session_id": "abcdefgh", "turn": 1}
    make, edit = {"command": "make"}, {"file_path": "a.py"}
    failed = [
        call("t1", "Bash", make, False), error("t1", "Bash", "make failed"),
        call("t2", "Bash", {"command": "pytest -q"}, False), error("t2", "Bash", "tests failed"),
        error("t3", "Edit", "not read yet"), call("t3", "Edit", edit, False, path="a.py"),
        error(None, "ci", "a build failed", context_id="error:abcdefgh_001_099"),
    ]  # fmt: skip
    since = [
        call("t4", "Bash", {"command": "cd src && rg x | head"}, False), error("t4", "Bash", "Exit code 1"),
        error("t5", "Bash", "Exit code 2"), call("t5", "Bash", {"command": "which zsh"}, False),
        error("t6", "Read", "File does not exist."),
        error(None, None, "reported by a person", payload={"message": "x", "command": "rg y"}),
        call("t7", "Bash", make, True), call("t8", "MultiEdit", edit, True, path="a.py"),
        error(None, None, "dealt with", resolved=True, related_to=["error:abcdefgh_001_099"]),
    ]  # fmt: skip
    store.append(failed)
    briefing_of_log.export(store)
    assert [one["text"] for one in now(store)["errors"]] == [
        "a build failed", "not read yet", "tests failed", "make failed",
    ]  # fmt: skip
    store.append(since)
    folded, gathered = now(store), briefing_of_log.gather(store)

    assert [one["text"] for one in folded["errors"]] == ["x", "tests failed"]
    assert [one["text"] for one in gathered["errors"]] == ["x", "tests failed"]
    assert folded["errors_total"] == gathered["errors_total"] == 2
    os.unlink(store.layout.briefing)
    assert [one["text"] for one in now(store)["errors"]] == ["x", "tests failed"], "without kept facts, too"


def test_without_kept_facts_a_new_log_is_read_and_an_old_one_is_not(store: Store) -> None:
    """P4: no work in proportion to history: of sealed events nothing is given until facts are kept."""
    assert [one["text"] for one in now(store)["decisions"]] == ["keep the old parser"]
    store.seal()
    assert briefing_hook.facts_now(store.layout, store.identity, time.monotonic() + 60) is None
    briefing_of_log.export(store)
    assert now(store)["position"] == briefing_of_log.gather(store)["position"]


@pytest.mark.parametrize("sealed", [True, False])
def test_a_store_that_was_filled_before_it_is_switched_on_is_briefed_from_at_once(
    tmp_path: Path, sealed: bool
) -> None:
    """S3-28: by hooks and by an import, sealed or not: the first session that begins afterwards is briefed,
    though nobody ran `locus briefing`."""
    work = project(tmp_path)
    root = work / ".locus"
    assert run(["--store", str(root), "import", "git", str(work)]) == 0
    agent = Agent(work)
    agent.start()
    agent.prompt("Explain the parser")
    agent.write("parser.py", "x = 1\n")
    agent.stop("It parses.")
    agent.finish()
    if sealed:
        assert run(["--store", str(root), "store", "seal"]) == 0
    (root / "config.toml").write_text(ENABLED)
    text = text_in(hook(work, "claude-code", starts=True))

    assert "Explain the parser" in text and "parser.py" in text
    if sealed:
        kept = root / "memory/briefing.json"
        made = kept.stat()
        assert "Explain the parser" in text_in(hook(work, "claude-code", starts=True, session_id="s-2"))
        assert kept.stat() == made, "facts that are there are not made again"
        kept.write_bytes(b"{}")
        assert "Explain the parser" in text_in(hook(work, "codex", starts=True, session_id="s-3"))
        kept.unlink()
        assert hook(work, "claude-code", session_id="s-4") == b"", "nothing may be started here"
        assert hook(work, "cursor", starts=True, session_id="s-5") == b""
        assert not kept.exists(), "an agent without a briefing needs no facts"


def test_a_session_does_not_wait_longer_than_its_time_for_facts() -> None:
    """P4: whoever makes the facts goes on alone when the time is over, and is there for the next session."""
    slow = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    hook_entry._await(slow.pid, time.monotonic() - 1)
    assert slow.poll() is None
    slow.communicate(b"\n")
    done = subprocess.Popen([sys.executable, "-c", ""])
    hook_entry._await(done.pid, time.monotonic() + 60)
    hook_entry._await(None, time.monotonic() + 60)
    done.wait()


@pytest.mark.parametrize("by", ["hook", "command"])
def test_facts_are_made_before_a_session_asks_for_them(work: Path, store: Store, by: str) -> None:
    """S3-28: when a turn ends and beside a command, however lately the maintainer was at work."""
    store.seal()
    note = Path(store.layout.live("maintained"))
    note.parent.mkdir(mode=0o700, exist_ok=True)
    note.write_text("1\n")
    if by == "hook":
        hook(work, "claude-code", "Stop", starts=True, last_assistant_message="Done.", prompt_id="p")
    else:
        environ = {**os.environ, "LOCUS_NO_MAINTENANCE": ""}
        subprocess.run([sys.executable, "-m", "locus_cli", "log"], cwd=work, check=True, env=environ)
    lock = os.open(f"{store.layout.root}/locks/briefing.lock", os.O_RDWR | os.O_CREAT, 0o600)
    until_s = time.monotonic() + 60
    while not os.path.exists(store.layout.briefing) and time.monotonic() < until_s:
        time.sleep(0.02)
    fcntl.flock(lock, fcntl.LOCK_EX)  # whoever makes them has ended
    os.close(lock)
    assert "Look at the parser" in text_in(hook(work, "claude-code"))


def test_kept_facts_that_are_damaged_or_of_another_store_count_as_none(store: Store) -> None:
    """P2, I22: they are derived; what does not verify is left out."""
    path = Path(briefing_of_log.export(store))
    store.seal()
    good = path.read_bytes()

    def is_told() -> bool:
        return briefing_hook.facts_now(store.layout, store.identity, time.monotonic() + 60) is not None

    assert is_told() and path.stat().st_mode & 0o777 == 0o600
    for bad in (b"", b"{}", good[:-9], good.replace(b"keep the old", b"drop the old"), b"[" * 100_000):
        path.write_bytes(bad)
        assert not is_told()
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert not is_told()
    other = json.loads(good)["facts"] | {"store": "00" * 16}
    path.unlink()
    briefing_of_log.write(store, other)
    assert not is_told()


def test_a_deadline_gives_the_kept_facts_alone(store: Store) -> None:
    """P4: what there is no time for is left out, and the text says up to which event it goes."""
    briefing_of_log.export(store)
    store.append([{"event_type": "warning", "payload": {"message": "late"}}])
    found = briefing_hook.facts_now(store.layout, store.identity, 0.0)
    assert found is not None
    text = briefing_hook.text_at_start(
        store.layout, store.identity, BriefingReader("claude-code"), None, 900, now_us=1, deadline_s=0.0
    )

    assert found["warnings"] == [] and now(store)["warnings"] != []
    assert f"events up to {found['position']}\n" in text


def test_a_torn_end_of_the_journal_is_the_end(store: Store, work: Path) -> None:
    """I10, P4: bytes that are no frame end the reading; the next session is briefed all the same."""
    briefing_of_log.export(store)
    store.append([{"event_type": "warning", "payload": {"message": "whole"}}])
    with open(store.layout.journal(1), "r+b") as file:
        file.seek(len(file.read().rstrip(b"\0")))
        file.write(b"\x89EV1" + b"x" * 100)

    assert [one["text"] for one in now(store)["warnings"]] == ["whole"]


def test_a_budget_and_overlaps_are_settings(work: Path, store: Store) -> None:
    """S3-38, P4: how long it may be, and whether it tells where sessions meet, is up to the user."""
    two = [intent.start(store, agent, "x", ["src/"]) for agent in ("cursor", "codex")]
    briefing_of_log.export(store)
    assert "overlap" not in text_in(hook(work, "claude-code"))
    (work / ".locus/config.toml").write_text(ENABLED + "overlaps = true\ntokens = 150\n")
    text = text_in(hook(work, "claude-code", session_id="s-2"))

    assert f"overlap: {two[1].name} and {two[0].name} both have src/" in text
    assert int(len(text.split()) * 1.3) <= 150 and "left out: " in text
    (work / ".locus/config.toml").write_text(ENABLED + "tokens = 0\n")
    assert hook(work, "claude-code", session_id="s-3") == b""


def test_the_hook_that_tells_loads_no_heavy_module(work: Path, tmp_path: Path) -> None:
    """I34: nor does it load anything of the library that other hooks do without."""
    with Store.open(work / ".locus") as store:
        assert (
            store.redactor.problem is None
        )  # the first to read the settings keeps what came of parsing them
    reported = tmp_path / "SessionStart"
    fields = {"session_id": "s", "cwd": str(work), "hook_event_name": "SessionStart", "source": "startup"}
    reported.write_text(json.dumps(fields))
    site = str(Path(blake3.__file__).parent.parent)
    probe = HOOK_PROBE.format(
        root=str(ROOT), site=site, inputs=[str(reported)], target=str(tmp_path / "none")
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", probe], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    *output, at_import, in_all = done.stdout.splitlines()

    assert "Look at the parser" in output[0]
    assert at_import == "locus_cli.hook_entry"
    banned = {
        "click", "pyarrow", "duckdb", "orjson", "dataclasses", "typing", "pathlib", "re", "enum", "json",
        "collections", "functools", "contextlib", "datetime", "tomllib",
    }  # fmt: skip
    loaded = set(in_all.split())
    assert "eventlog.memory.briefing_hook" in loaded
    assert {name.split(".")[0] for name in loaded} & banned == set()
    assert {name.split(".")[1] for name in loaded if name.startswith("eventlog.")} & {
        "query",
        "store",
    } == set()


def test_a_session_within_seconds_is_given_the_codes_of_the_very_last(
    work: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """S4-1, S4-9, S4-31, S4-35: facts were kept when an older session was the last. One that begins gets
    what the very last one left: all of it, line by line as `locus codes` prints it, a failure by what failed,
    and nothing of a failure that is over."""

    def tool(
        name: str, use: str, event: str = "PostToolUse", error: str | None = None, **args: object
    ) -> None:
        payload = {"tool_name": name, "tool_use_id": use, "tool_input": args, "prompt_id": "p"}
        hook(work, "claude-code", event, session_id="s-2", **payload, **({"error": error} if error else {}))

    old = Recorder(store, agent="cursor").start_turn("Old work")
    old.decision("backoff", "jitter")
    old.action("TodoWrite", {"todos": [{"content": "add mutex", "status": "pending"}]})
    old.end(title="Old work")
    briefing_of_log.export(store)
    hook(work, "claude-code", session_id="s-2")
    hook(work, "claude-code", "UserPromptSubmit", session_id="s-2", prompt="Mend it", prompt_id="p")
    (work / "flaky.py").write_text("def retry():\n    pass\n")
    tool("Write", "t1", file_path=str(work / "flaky.py"), content="def retry():\n    pass\n")
    failure = "Exit code 1\n==== FAILURES ====\nE       assert 1 == 2\n1 failed in 0.1s"
    tool("Bash", "t2", "PostToolUseFailure", failure, command="pytest -q tests/test_a.py")
    tool("Bash", "t3", "PostToolUseFailure", "Exit code 2\nno rule", command="make all")
    tool("Bash", "t4", command="make all")
    tool("TodoWrite", "t5", todos=[{"content": "fix flaky test", "status": "pending"}])
    hook(work, "claude-code", "SessionEnd", session_id="s-2", reason="exit")

    text = text_in(hook(work, "claude-code", session_id="s-3"))
    assert run(["--store", str(work / ".locus"), "codes"]) == 0
    codes = capsys.readouterr().out

    assert f"\n\n{codes}" in f"{text}\n" and "add-mutex" not in text
    assert codes.splitlines()[1:] == [
        "impl:flaky.py",
        "impl:retry",
        "block:test:pytest-E-assert-1-==-2",
        "next:fix-flaky-test",
    ]
