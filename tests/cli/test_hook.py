"""The hook program: records, never hurts (P4)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import ANY

import pytest

from eventlog.store import Store

HOOK = [sys.executable, "-m", "locus_cli.hook_entry"]


def hook(stdin: bytes, *arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*HOOK, *arguments],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=30,
    )


def silent(done: subprocess.CompletedProcess[bytes]) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    Store.init(tmp_path / ".locus").close()
    return tmp_path / ".locus"


def events(store: Path) -> list[dict[str, object]]:
    with Store.open(store) as opened:
        return list(opened.events())


def test_a_hook_call_becomes_one_event(store: Path, tmp_path: Path) -> None:
    """P4, S0-21: the payload is kept as it is, the shared names become columns, nothing is printed."""
    payload = {
        "session_id": "s-1", "prompt_id": "p-1", "tool_use_id": "t-1", "cwd": str(tmp_path),
        "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls é"},
    }  # fmt: skip
    done = hook(json.dumps(payload).encode(), "some-agent", cwd=tmp_path)
    (event,) = events(store)

    assert silent(done)
    assert {**payload, "hook_us": ANY} == event["payload"]
    assert {"event_type": "hook", "event_kind": "observation", "source": "system", "agent": "some-agent",
            "agent_session_id": "s-1", "agent_turn_id": "p-1", "tool_use_id": "t-1", "tool": "Bash",
            "operation": "PreToolUse", "cwd": str(tmp_path)}.items() <= event.items()  # fmt: skip
    assert (event["turn"], event["seq"]) == (1, 1)


def test_a_hook_that_is_installed_twice_is_one_event(store: Path, tmp_path: Path) -> None:
    """I8: the same call of the same tool, reported twice, is visible once."""
    text = b'{"session_id": "s", "tool_use_id": "t", "hook_event_name": "PreToolUse"}'
    assert silent(hook(text, "a", cwd=tmp_path)) and silent(hook(text, "a", cwd=tmp_path))

    assert len(events(store)) == 1


@pytest.mark.parametrize("said", [b"", b"not json", b"[1, 2]", b'{"a": ', b"\xff\xfe", b"[" * 10_000])
def test_what_is_not_an_object_is_kept_as_text(said: bytes, store: Path, tmp_path: Path) -> None:
    """P4: input of any kind is recorded and does no harm."""
    done = hook(said, "agent", cwd=tmp_path)
    (event,) = events(store)

    assert silent(done)
    assert event["payload"] == {
        "text": said.decode("utf-8", "backslashreplace"),
        "not_an_object": True,
        "cut": False,
        "hook_us": ANY,
    }


def test_a_huge_input_is_cut(store: Path, tmp_path: Path) -> None:
    """P4: an input that no frame could hold is kept in part, and says so."""
    done = hook(b'{"a": "' + b"x" * (50 << 20) + b'"}', "agent", cwd=tmp_path)
    (event,) = events(store)

    assert silent(done)
    assert isinstance(event["payload"], dict)
    assert event["payload"]["cut"] is True


def test_without_a_store_nothing_happens(tmp_path: Path) -> None:
    """P4: in a directory without a store a hook leaves no trace."""
    assert silent(hook(b'{"session_id": "s"}', "agent", cwd=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_store_of_the_payloads_directory_is_used(store: Path, tmp_path: Path) -> None:
    """The agent's working directory finds the store, wherever the hook was started; LOCUS_DIR wins."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = Store.init(elsewhere / ".locus")
    other.close()
    below = tmp_path / "src"
    below.mkdir()
    reported = json.dumps({"cwd": str(below)}).encode()

    assert silent(hook(reported, "agent", cwd=elsewhere))
    assert (len(events(store)), len(events(elsewhere / ".locus"))) == (1, 0)
    assert silent(hook(reported, "agent", cwd=elsewhere, LOCUS_DIR=str(elsewhere / ".locus")))
    assert (len(events(store)), len(events(elsewhere / ".locus"))) == (1, 1)


def test_a_failure_is_noted_and_not_raised(store: Path, tmp_path: Path) -> None:
    """P4: a damaged store is not the agent's problem; the note says what went wrong, and stays small."""
    (store / "STORE").write_bytes(b"{}")
    notes = store / "tmp/hook-errors.log"
    assert silent(hook(b"{}", "agent", cwd=tmp_path))
    assert "Corruption" in notes.read_text()

    notes.write_bytes(b"x" * 100_000)
    assert silent(hook(b"{}", "agent", cwd=tmp_path))
    assert notes.stat().st_size < 10_000


def test_a_hook_whose_input_never_ends_stops_by_itself(store: Path, tmp_path: Path) -> None:
    """P4, I31: a caller that keeps the pipe open is left after the deadline, with exit code 0."""
    process = subprocess.Popen([*HOOK, "agent"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.communicate()
    assert events(store) == []


def test_a_person_gets_help(tmp_path: Path) -> None:
    """`locus-hook --help` says what the program is for."""
    done = hook(b"", "--help", cwd=tmp_path)

    assert done.returncode == 0
    assert done.stdout.startswith(b"usage: locus-hook AGENT")
