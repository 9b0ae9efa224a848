"""Words of bad will: recorded text in front of a terminal, and what a hook may be given."""

import json
import os
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from eventlog.store import Store
from tests.cli.hook_support import HOOK, project
from tests.cli.support import Locus
from tests.older import append_as_before

EVIL = "x\x1b]0;owned\x07\x1b[2J\x1b[1A\x9b31m\r\x08\u202eevil\u2066\x00end"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which every text that a sender chooses is of bad will."""
    root = tmp_path_factory.mktemp("hostile") / ".locus"
    more = dict.fromkeys(
        ("title", "model", "branch", "cwd", "tool", "status", "error_type", "agent_version"), EVIL
    )
    with Store.init(root, project_name=EVIL) as store:
        with store.blobs.writer() as writer:
            before, after = (f"blake3:{writer.put(text.encode()).hex()}" for text in (EVIL, f"{EVIL}\n2"))
            writer.flush()
        base = {"event_kind": "fact", "source": "agent", "agent": EVIL, "agent_session_id": "s", **more}
        events = [
            ("session", {"operation": "start"}), ("turn", {"operation": "start", "agent_turn_id": EVIL}),
            ("action", {"tool_use_id": EVIL}), ("decision", {}), ("error", {}), ("llm", {"message_id": EVIL}),
            ("file", {"operation": "edit", "path": f"d/{EVIL}", "before_hash": before, "after_hash": after}),
            ("snapshot", {}), ("turn", {"operation": "end"}), ("session", {"operation": "end"}),
        ]  # fmt: skip
        payload = {"user_message": EVIL, "summary": EVIL, "end_reason": EVIL, "message": EVIL, EVIL: [EVIL]}
        append_as_before(
            store, [{**base, "event_type": kind, "payload": payload, **of} for kind, of in events]
        )
        store.seal()
    return root


@pytest.mark.parametrize(
    "command",
    [
        "log", "log --events", "log --events --type action", "timeline last", "show last", "show SESSION",
        "show EVENT", "session ls --all", "session show SESSION", "status", "doctor", "diff last",
        "history d/x", "store du", "store du --by path", "store gc --dry-run", "store repair",
        "store verify --deep", "decisions", "errors", "search evil", "sql 'from events'",
        "sql 'select title, path, payload from events'",
        "sql 'from turns'", "show EVIL", "timeline EVIL", "cat last:EVIL", "store pin EVIL",
        "replay last --to OUT",
    ],
)  # fmt: skip
def test_no_reading_command_hands_recorded_text_to_the_terminal(
    command: str, hostile: Path, locus: Locus, tmp_path: Path
) -> None:
    """P8: no control character and no direction mark reaches a terminal, from the log, names or arguments."""
    with Store.open(hostile) as store:
        session, event = store.query(
            "select session_id, event_id from events where event_type = 'file'"
        ).rows[0]
    words = shlex.split(command.replace("SESSION", session).replace("EVENT", event))
    words = [
        word.replace("EVIL", EVIL.replace("\x00", "")).replace("OUT", str(tmp_path / "o")) for word in words
    ]
    ended = locus("--store", hostile, *words)
    shown = ended.out.decode("utf-8", "surrogateescape") + ended.err

    assert shown and "bug in Locus" not in shown
    assert sorted({c for c in shown if c in "\x1b\x07\x9b\r\x08\x00\u202e\u2066"}) == []


def deep(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


HOSTILE = {
    "deep": deep(100_000),
    "deep-list": b"[" * 200_000,
    "huge-int": b'{"session_id": 1' + b"0" * 100_000 + b"}",
    "huge-float": b'{"session_id": "s", "hook_event_name": "Stop", "x": 1e999999}',
    "surrogate": b'{"session_id": "\\ud800", "hook_event_name": "UserPromptSubmit", "prompt": "\\udfff"}',
    "nul": b'{"session_id": "\\u0000", "hook_event_name": "UserPromptSubmit", "prompt": "\\u0000"}',
    "twice": b'{"session_id": "a", "session_id": "b", "hook_event_name": "Stop", "hook_event_name": []}',
    "wrong-types": b'{"session_id": [], "hook_event_name": {}, "cwd": 7, "transcript_path": [1]}',
    "not-utf-8": b'{"session_id": "\xff\xfe", "hook_event_name": "Stop"}',
    "one-long-line": b'{"session_id": "s", "prompt": "' + b"x" * 3_000_000 + b'"}',
    "bom": b"\xef\xbb\xbf" + b'{"session_id": "s", "hook_event_name": "Stop"}',
    "nan": b'{"session_id": NaN, "hook_event_name": Infinity}',
    "many-keys": b"{" + b",".join(b'"k%d":1' % n for n in range(50_000)) + b"}",
    "nothing": b"",
    "zeros": bytes(100_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_any_hostile_input_of_a_hook_is_survived(name: str, tmp_path: Path) -> None:
    """P4, I11: whatever a hook is given, it says nothing, ends with 0, and the store is sound and goes on."""
    work = project(tmp_path)
    give(work, HOSTILE[name])
    give(
        work, json.dumps({"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "Go"}).encode()
    )

    with Store.open(work / ".locus") as store:
        assert [one for one in store.verify("deep") if one.damage] == []
        assert any(one["event_type"] == "turn" for one in store.events())


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "link", "loop", "missing", "nul"])
def test_a_transcript_of_any_kind_keeps_no_hook_waiting(kind: str, tmp_path: Path) -> None:
    """P4: a hook whose transcript is a pipe, a device, a link or nothing is not held, and follows no link."""
    work = project(tmp_path)
    path = tmp_path / "transcript.jsonl"
    secret = tmp_path / "elsewhere.jsonl"
    call = {"id": "m", "model": "canary-of-elsewhere", "usage": {"input_tokens": 1}}
    secret.write_text(json.dumps({"type": "assistant", "message": call}) + "\n")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind in ("link", "loop"):
        path.symlink_to(secret if kind == "link" else path)
    payload = {"device": "/dev/zero", "nul": "a\x00b"}.get(kind, str(path))
    for name in ("UserPromptSubmit", "Stop", "SessionEnd"):
        payload = {"session_id": "s", "hook_event_name": name, "prompt": "Go", "transcript_path": payload}
        give(work, json.dumps({**payload, "cwd": str(work)}).encode())

    with Store.open(work / ".locus") as store:
        assert "canary-of-elsewhere" not in repr(list(store.events()))
        assert [one for one in store.verify("deep") if one.damage] == []


def give(work: Path, data: bytes) -> None:
    """One hook call, which is silent and ends well within its deadline and the time of a busy machine."""
    environment = {**os.environ, "LOCUS_NO_MAINTENANCE": "1"}
    started = time.monotonic()
    done = subprocess.run(
        [*HOOK, "claude-code"], input=data, capture_output=True, cwd=work, env=environment, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert time.monotonic() - started < 45
