"""What `locus export locusgraph --server` lets out, and what it says while it sends and afterwards."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.exports.local_paths import MARK
from eventlog.exports.locusgraph.deliveries import RefusedRecord
from eventlog.exports.locusgraph.endpoint import KEY_VARIABLE
from eventlog.store import Store
from tests.cli.test_export_send import Locus, to
from tests.exports import locusgraph_server as its
from tests.exports.locusgraph_server import KEY, FakeClock, Graph, Server
from tests.exports.stores import AT, REPO, SID, new_store, small_log
from tests.exports.test_send import sender
from tests.older import append_as_before


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with new_store(tmp_path / "project") as store:
        append_as_before(store, small_log())
        yield store


@pytest.fixture
def locus(
    tmp_path: Path, store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Locus:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    monkeypatch.delenv("LOCUSGRAPH_GRAPH_ID", raising=False)
    return Locus(tmp_path / "project", capsys)


def in_turn(event_type: str, payload: dict[str, Any], **columns: Any) -> dict[str, Any]:
    return {
        "event_type": event_type, "session_id": SID, "turn": 1, "repo": REPO, "occurred_at": AT,
        "payload": payload, **columns,
    }  # fmt: skip


def test_only_the_types_of_the_seeds(locus: Locus, store: Store) -> None:
    """S1-38, P5: housekeeping stays here, is counted, and goes when it is asked for; so does `--to`."""
    store.append(
        [in_turn("transcript", {"line": 1}), in_turn("import", {"path": "/x/y"}), in_turn("llm_copy", {})]
    )
    with Server(Graph()) as server, Server(Graph()) as other:
        code, _, err = locus(*to(server))
        assert (
            code == 0 and "3 events of the log's own housekeeping (1 import, 1 llm_copy, 1 transcript)" in err
        )
        assert not any(c.startswith(("transcript:", "import:")) for c in server.graph.memories)
        assert "0 events behind" in locus(*to(server, "--status"))[1]
        assert locus(*to(other, "--include", "transcript"))[0] == 0
        assert sum(c.startswith(("transcript:", "import:")) for c in other.graph.memories) == 1


def test_no_path_of_this_machine_leaves(locus: Locus, store: Store, tmp_path: Path) -> None:
    """P5: paths in a project become relative, others a mark, whatever field they are in; no `hook_us`."""
    root, home = str(tmp_path / "project"), os.path.expanduser("~")
    store.append(
        [
            in_turn(
                "action",
                {
                    "args": {"file_path": f"{root}/src/a.py", "command": f"cd {root} && cat {home}/.netrc"},
                    "result": {
                        "uri": f"file://{root}/src/a.py",
                        "out": f"at\n{root}/src/b.py:3\n/srv/x/y.py:1",
                    },
                    "cwd": root,
                    "transcript_path": f"{home}/.claude/t.jsonl",
                    "url": "https://example.org/home/page",
                    "hook_us": 1234,
                },
                cwd=f"{root}/src",
                title=f"Read {root}/src/a.py",
            )
        ]
    )
    with Server(Graph()) as server:
        assert locus(*to(server))[0] == 0
        body = b"".join(server.graph.bodies).decode()
        for trace in (str(tmp_path), home + "/", "hook_us", "file://", "/srv/x"):
            assert trace not in body, trace
        (sent,) = [
            m.item["payload"]
            for m in server.graph.memories.values()
            if "transcript_path" in m.item["payload"]
        ]
        assert sent["args"] == {"file_path": "src/a.py", "command": f"cd . && cat {MARK}"}
        assert sent["result"] == {"uri": "src/a.py", "out": f"at\nsrc/b.py:3\n{MARK}"}
        assert (sent["cwd"], sent["title"]) == (".", "Read src/a.py")
        assert sent["url"] == "https://example.org/home/page"


def test_anchors_of_categories_go_once(locus: Locus, store: Store) -> None:
    """S1-52, I37: what events relate to is there, before them, and is not sent a second time."""
    with Server(Graph()) as server:
        locus(*to(server))
        store.append([in_turn("error", {"message": "again"}, related_to=["errors"])])
        locus(*to(server))
        sent = [item["context_id"] for b in server.graph.bodies for item in json.loads(b)["events"]]
        related = {link for m in server.graph.memories.values() for link in m.item.get("related_to", ())}
        assert related and related <= set(server.graph.memories)
        assert sent.count("observation:errors") == sent.count("action:editor") == 1


def test_what_fails_for_the_moment_is_tried_by_the_next_export(locus: Locus, store: Store) -> None:
    """I36, I37: an item's number says that it may pass; a child waits for its parent; nobody asks again."""
    bad = [its.failing(0, error="nope", code=503) for _ in range(4)]
    with Server(Graph()) as server:
        sender(store, server, limit=2)  # project and master
        server.plan = bad
        report = sender(store, server)
        session = f"session:fix-jwt-refresh_{SID}"
        assert session not in server.graph.memories and server.graph.orphans == []
        assert report.failures[0].context_id == session and report.failures[0].passing
        assert report.failures[0].reason == "503: nope" and all(one.passing for one in report.failures)
        output = locus(*to(server, "--status"))[1]
        assert f"{session}: 503: nope" in output and "the next export sends again" in output

        code, _, err = locus(*to(server))
        assert code == 0 and "Refused" not in err and session in server.graph.memories
        assert server.graph.orphans == [] and "0 events behind" in locus(*to(server, "--status"))[1]
        assert json.loads(locus(*to(server, "--status", "--json"))[1])["servers"][0]["failed"] == []


def test_what_needs_a_person_is_listed_by_name(locus: Locus) -> None:
    """P7: a permanent refusal is reported by its context, and is not tried again by itself."""
    with Server(Graph()) as server:
        server.graph.refuse = lambda item: "not admitted" if item["context_id"].startswith("llm:") else None
        first = locus(*to(server))
        calls = len(server.graph.bodies)
        second = locus(*to(server))
        assert first[0] == 4 and f"Refused: llm:{SID}_001_007: not admitted" in first[2]
        assert second[0] == 0 and len(server.graph.bodies) == calls
        assert f"refused   llm:{SID}_001_007: not admitted" in locus(*to(server, "--status"))[1]


def test_pauses_grow() -> None:
    """I36: what fails again and again is tried at once twice, then after growing pauses, at most an hour."""
    pauses = [RefusedRecord("k", "events", 1, "503", tries, 100).next_at - 100 for tries in range(1, 16)]
    assert pauses[:6] == [0, 0, 0, 30, 60, 120] and pauses[-1] == 3_600 and pauses == sorted(pauses)


def test_a_pause_is_kept(store: Store) -> None:
    """I36: an export that comes before a pause is over leaves the record for a later one."""
    with Server(Graph()) as server:
        clock = FakeClock()
        server.graph.refuse = lambda item: "try again" if item["context_id"].startswith("llm:") else None
        for _ in range(4):
            sender(store, server, clock)
        calls = len(server.graph.bodies)
        sender(store, server, clock)
        assert len(server.graph.bodies) == calls
        server.graph.refuse = lambda item: None
        clock.passed += 31
        assert sender(store, server, clock).answers == {"created": 1}


def test_trouble_is_reported_at_once_and_nothing_is_called_sent(tmp_path: Path, store: Store) -> None:
    """P7, P8: the first fault of a call is reported at once, and kept; what was not taken is not sent."""
    with Server(Graph(), [its.status(500)] * 1_000) as server:
        command = [sys.executable, "-m", "locus_cli", "--store", store.layout.root, *to(server)]
        process = subprocess.Popen(
            list(map(str, command)), env={**os.environ, KEY_VARIABLE: KEY}, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        with process, process.stderr:
            first = process.stderr.readline()
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
            process.wait()
        assert "it answers 500; trying again in 1 s, for 15 min more" in first
        assert "Sent" not in rest and "took nothing" in rest
        output = subprocess.run(
            [*map(str, command), "--status"], capture_output=True, text=True, check=True, env=os.environ
        )
        assert "ended by" in output.stdout and "it answers 500" in output.stdout


def test_sessions_that_are_left_out_are_named(locus: Locus, store: Store, tmp_path: Path) -> None:
    """P7: every export of sessions says which ones it leaves out, and why."""
    store.append([{"event_type": "session", "operation": "start", "session_id": "waits000", "repo": REPO}])
    with Server(Graph()) as server:
        for code, _, err in (
            locus(*to(server)),
            locus("export", "locusgraph", "--to", tmp_path / "records"),
            locus("export", "otlp", "--to", tmp_path / "spans"),
            locus("export", "atif", "--to", tmp_path / "trajectories"),
        ):
            assert code == 0 and "Left out: 1 session." in err and "  waits000: " in err


def test_how_far_it_is(locus: Locus, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: while it sends, the records done of all are reported, with the rate and the time left."""
    from locus_cli import progress

    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(progress.Progress, "__call__", lambda _, done, total: seen.append((done, total)))
    with Server(Graph()) as server:
        assert locus(*to(server))[0] == 0
    assert seen[-1][0] == 19 and all(done <= total for done, total in seen) and seen[0][1] >= 12
    shown = progress.line("sending records", 1_200, 3_600, 30.0, with_rate=True)
    assert shown == "sending records: 1,200 of 3,600 (33 %), 40/s, 60 s left"
