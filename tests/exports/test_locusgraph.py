"""Batches for LocusGraph: what the records say, and which positions a batch covers."""

import base64
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.errors import EventLogError, NotDurable, Refused
from eventlog.base.fs import FileSystem
from eventlog.base.types import Event
from eventlog.blobs.ids import blob_id, to_text
from eventlog.exports import jsonl, withheld
from eventlog.exports.locusgraph import locusgraph, wire
from eventlog.exports.locusgraph.locusgraph import CONSUMER, ExportReport
from eventlog.log import upcast
from eventlog.recorder import lifecycle
from eventlog.recorder.ledger import Consumer
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store
from tests.exports.stores import AT, REPO, SID, any_event, new_store, small_log
from tests.older import append_as_before

HUNT = float(os.environ.get("LOCUS_HUNT", "0"))
SESSION = f"session:fix-jwt-refresh_{SID}"
TURN = f"turn:{SID}_001"
CATEGORIES = frozenset(wire.CATEGORIES.values())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = new_store(tmp_path / "one")
    append_as_before(made, small_log())
    return made


def export(store: Store, path: Path, **options: Any) -> tuple[ExportReport, list[dict[str, Any]]]:
    """The report, and the records with their payloads parsed."""
    report, records = export_all(store, path, **options)
    return report, [one for one in records if one["context_id"] not in CATEGORIES]


def export_all(store: Store, path: Path, **options: Any) -> tuple[ExportReport, list[dict[str, Any]]]:
    """The same with the anchors of categories."""
    options.setdefault("include", frozenset(("all",)))
    chosen = ("payload_bytes_max", "diffs", "include")
    records = locusgraph.RecordOptions(**{name: options.pop(name) for name in chosen if name in options})
    report = locusgraph.export(store, str(path), records, **options)
    if report.path is None:
        return report, []
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    for record in records:
        record["payload"] = json.loads(record["payload_json"])
    return report, records


def ids(records: Sequence[dict[str, Any]]) -> list[str]:
    return [record["context_id"] for record in records]


def test_the_fields_of_a_record(store: Store, tmp_path: Path) -> None:
    """Each line has the fields of a store request, in their order, and no other."""
    export(store, tmp_path / "out")
    for line in (tmp_path / "out").read_bytes().splitlines():
        record = json.loads(line)
        assert list(record) == [
            "graph_id",
            "event_kind",
            "context_id",
            "source",
            "payload_json",
            "related_to",
            "extends",
            "reinforces",
            "contradicts",
            "timestamp",
        ]
        assert record["graph_id"] == "locus-agent"
        if record["context_id"] not in CATEGORIES and not record["context_id"].startswith("knowledge:"):
            assert record["timestamp"].isdigit() and len(record["timestamp"]) == 10


def test_parents_come_first(store: Store, tmp_path: Path) -> None:
    """S1-51: project, master, sessions, turns, events; what a record extends comes before it."""
    _, records = export(store, tmp_path / "out")

    assert ids(records) == [
        f"knowledge:my_project_{REPO}",
        f"{REPO}:sessions",
        SESSION,
        TURN,
        f"turn:{SID}_002",
        f"snapshot:{SID}_001_001",
        f"intent:{SID}_001_002",
        f"action:{SID}_001_003",
        f"file:{SID}_001_004",
        f"decision:{SID}_001_005",
        f"error:{SID}_001_006",
        f"llm:{SID}_001_007",
        f"feedback:{SID}_001_008",
    ]
    seen: set[str] = set()
    for record in records:
        assert set(record["extends"]) <= seen
        seen.add(record["context_id"])


def test_a_master(store: Store, tmp_path: Path) -> None:
    """S0-19, S0-20: the master is a fact from system, extends the project, kind and data in its payload."""
    _, records = export(store, tmp_path / "out")
    master = records[1]

    assert (master["event_kind"], master["source"]) == ("fact", "system")
    assert master["extends"] == [f"knowledge:my_project_{REPO}"]
    assert master["payload"] == {
        "kind": "sessions_master",
        "data": {"active_session": None, "total_sessions": 1},
    }


def test_a_session_that_ended(store: Store, tmp_path: Path) -> None:
    """S0-10, S0-11, S0-12, S0-20, S1-18, S1-49: the final state under the id of its start."""
    _, records = export(store, tmp_path / "out")
    session = records[2]

    assert (session["event_kind"], session["source"]) == ("fact", "system")
    assert session["extends"] == [f"{REPO}:sessions"]
    assert session["timestamp"] == str(AT // 1_000_000 + 14)
    assert session["payload"] == {
        "kind": "session_end",
        "data": {
            "title": "Fix the JWT refresh bug",
            "slug": "fix-jwt-refresh",
            "session_id": SID,
            "started_at": "2026-02-02T02:40:02Z",
            "status": "closed",
            "turn_count": 2,
            "last_turn": f"turn:{SID}_002",
            "totals": {
                "events": 8,
                "tool_calls": 1,
                "llm_calls": 1,
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "files_modified": ["auth.py"],
                "errors": 1,
                "errors_resolved": 1,
            },
            "ended_at": "2026-02-02T02:40:14Z",
            "end_reason": "explicit",
            "summary": "JWT refresh repaired",
        },
    }


def test_a_session_that_goes_on(store: Store, tmp_path: Path) -> None:
    """S0-10, S0-11, S0-20: an active session is a session_start with what it came to so far."""
    fresh = new_store(tmp_path / "fresh")
    append_as_before(fresh, small_log()[:2])
    _, records = export(fresh, tmp_path / "out")
    payload = records[2]["payload"]

    assert payload["kind"] == "session_start"
    assert payload["data"]["status"] == "active" and payload["data"]["turn_count"] == 0
    assert payload["data"]["totals"] == {
        "events": 0,
        "tool_calls": 0,
        "llm_calls": 0,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "files_modified": [],
        "errors": 0,
        "errors_resolved": 0,
    }
    assert records[1]["payload"]["data"] == {"active_session": SESSION, "total_sessions": 1}


def test_a_turn_that_ended(store: Store, tmp_path: Path) -> None:
    """S0-8, S0-15, S0-20, S1-47: an observation from the agent with the summary, extending its session."""
    _, records = export(store, tmp_path / "out")
    turn = records[3]

    assert (turn["event_kind"], turn["source"], turn["extends"]) == ("observation", "agent", [SESSION])
    assert turn["payload"] == {
        "kind": "turn_end",
        "data": {
            "turn_id": "001",
            "sequence": 1,
            "status": "completed",
            "started_at": "2026-02-02T02:40:03Z",
            "completed_at": "2026-02-02T02:40:12Z",
            "title": "Refresh fixed",
            "user_request": "Fix the JWT refresh bug",
            "actions_taken": ["ran the tests"],
            "outcome": "tests pass",
            "decisions": ["Refresh early"],
            "files_read": [],
            "files_modified": ["auth.py"],
            "event_count": 8,
            "tokens_used": 120,
            "files_certainty": "unfinished",  # no snapshot was made at its end
        },
    }


def test_a_turn_that_goes_on(store: Store, tmp_path: Path) -> None:
    """S0-14, S0-20, S1-23: an observation from system; the message is cut to 1000 bytes, here only."""
    _, records = export(store, tmp_path / "out")
    turn = records[4]

    assert (turn["event_kind"], turn["source"], turn["extends"]) == ("observation", "system", [SESSION])
    assert turn["payload"] == {
        "kind": "turn_start",
        "data": {
            "turn_id": "002",
            "sequence": 2,
            "status": "active",
            "started_at": "2026-02-02T02:40:13Z",
            "user_message": "é" * 500,
        },
    }
    assert store.query("select len(user_request) from turns where turn = 2").rows == [(900,)]


def test_a_snapshot(store: Store, tmp_path: Path) -> None:
    """S0-17, S0-18, S0-20, S1-36: a fact from system with what git reported, extending its turn."""
    _, records = export(store, tmp_path / "out")
    snapshot = records[5]

    assert (snapshot["event_kind"], snapshot["source"], snapshot["extends"]) == ("fact", "system", [TURN])
    assert snapshot["payload"] == {
        "kind": "codebase_snapshot",
        "data": {
            "git_head": "f" * 40,
            "git_branch": "main",
            "git_dirty": ["a.py"],
            "git_staged": [],
            "tracked_files": 7,
            "snapshot_type": "turn_start",
            "seq": 1,
            "tree_hash": "blake3:" + "1" * 64,
        },
    }


def test_events_of_a_turn(store: Store, tmp_path: Path) -> None:
    """S0-13, S0-16, S1-12, S1-29…S1-35, S1-52: kind, source, keys and category of each type."""
    _, records = export(store, tmp_path / "out")
    found = {
        record["context_id"].partition(":")[0]: (
            record["event_kind"],
            record["source"],
            record["related_to"],
            record["payload"],
        )
        for record in records[6:]
    }

    assert all(record["extends"] == [TURN] for record in records[5:])
    assert found == {
        "intent": ("observation", "user", [], {"message": "Fix the JWT refresh bug", "seq": 2}),
        "action": (
            "action",
            "executor",
            [],
            {
                "tool": "pytest",
                "args": {"args": ["-q"]},
                "result": {"exit": 1},
                "seq": 3,
                "duration_ms": 1200,
                "success": False,
            },
        ),
        "file": (
            "action",
            "executor",
            ["action:editor"],
            {
                "description": "refresh earlier",
                "after_size": 9,
                "seq": 4,
                "path": "auth.py",
                "operation": "edit",
                "before_hash": "blake3:" + "2" * 64,
                "after_hash": "blake3:" + "3" * 64,
                "lines_added": 2,
                "lines_removed": 1,
                "diff": None,
            },
        ),
        "decision": (
            "decision",
            "agent",
            ["decision:decisions"],
            {
                "title": "Refresh early",
                "decision": "Refresh early",
                "reasoning": "clock skew",
                "confidence": 0.8,
                "alternatives_considered": ["retry"],
                "seq": 5,
            },
        ),
        "error": (
            "observation",
            "system",
            ["observation:errors"],
            {
                "error_type": "TestFailure",
                "message": "1 failed",
                "resolved": True,
                "command": "pytest",
                "seq": 6,
            },
        ),
        "llm": (
            "action",
            "system",
            [],
            {
                "stop_reason": "end_turn",
                "seq": 7,
                "model": "m-1",
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "duration_ms": 900,
            },
        ),
        "feedback": (
            "feedback",
            "user",
            [],
            {"type": "approval", "message": "good", "sentiment": "positive", "seq": 8},
        ),
    }


def test_a_file_event_has_its_diff(tmp_path: Path) -> None:
    """S1-31: the diff is made from the two contents, and can be left out."""
    store = new_store(tmp_path / "one")
    recorder = Recorder(store, agent="script")
    recorder.start_turn("Do it").file("a.py", before=b"one\n", after=b"two\n")
    _, records = export(store, tmp_path / "a")
    _, without = export(store, tmp_path / "b", since=0, diffs=False)

    assert records[-1]["payload"]["diff"].endswith("@@ -1 +1 @@\n-one\n+two\n")
    assert "diff" not in without[-1]["payload"]


def test_an_event_outside_of_sessions_has_a_context_too(tmp_path: Path) -> None:
    """S0-23: any type of event goes out, always under a context id, so that a retry stores it once."""
    store = new_store(tmp_path / "one")
    store.append([{"event_type": "mcp_action", "event_id": "ab" * 16, "payload": {"n": 1}}])
    _, records = export(store, tmp_path / "out")

    assert ids(records) == ["mcp_action:" + "ab" * 16]


def test_decisions_that_shared_a_context_leave_one_by_one(tmp_path: Path) -> None:
    """S0-16, S1-8, S1-55: earlier versions gave what agents recorded over MCP the context of its category;
    on the wire each has its place in its turn, or an id of its own, and every reading call finds each."""
    with Store.init(tmp_path / ".locus") as store:
        payload: Event = {
            "event_type": "decision",
            "context_id": "decision:decisions",
            "payload": {"decision": "x"},
        }
        of_turn: Event = {
            **payload,
            "session_id": "abcd1234",
            "turn": 1,
            "extends": ["observation:user_intent"],
        }
        store.append([of_turn, of_turn, payload])
        assert store.query("select count(*) from decisions").rows == [(3,)]
        _, records = export(store, tmp_path / "out")
        sent = [record for record in records if record["context_id"].startswith("decision:")]
        alone = list(store.events())[2]["event_id"]
    assert [one["context_id"] for one in sent] == [
        "decision:abcd1234_001_001", "decision:abcd1234_001_002", f"decision:{alone}",
    ]  # fmt: skip
    assert "turn:abcd1234_001" in sent[0]["extends"] + sent[0]["related_to"]


def test_the_project_is_the_one_that_the_master_extends(tmp_path: Path) -> None:
    """S0-19: a master that was given an anchor of its own has that one above it."""
    store = new_store(tmp_path / "one")
    store.append([{**lifecycle.sessions_master(REPO, "P"), "extends": ["knowledge:mine"]}, *small_log()[1:2]])
    _, records = export(store, tmp_path / "out")

    assert ids(records)[:2] == ["knowledge:mine", f"{REPO}:sessions"]
    assert records[1]["extends"] == ["knowledge:mine"]


def test_odd_times_are_exported_all_the_same(tmp_path: Path) -> None:
    """P7: a time that no calendar of Python holds, or none at all, stops no export."""
    store = new_store(tmp_path / "one")
    far = lifecycle.turn_start(SID, 1, "a\0b", repo=REPO, occurred_at=2**62)
    append_as_before(store, [far, {"event_type": "note", "session_id": SID, "occurred_at": -(2**62)}])
    _, records = export(store, tmp_path / "out")

    assert records[-2]["payload"]["data"]["started_at"] == "148108-07-06T14:00:27.387904Z"
    assert records[-2]["payload"]["data"]["user_message"] == "a\0b"
    assert records[-1]["timestamp"] == str(-(2**62) // 1_000_000)


def test_caps_hold_for_every_record(tmp_path: Path) -> None:
    """P1: payloads of at most 64 KiB, ids of 256, links of 50 and 100; what was cut is counted and named."""
    store = new_store(tmp_path / "one")
    recorder = Recorder(store, agent="script")
    turn = recorder.start_turn("x" * 200_000)
    turn.action("shell", {"command": "é" * 100_000}, {"lines": list(range(100_000))})
    turn.event("note", {"deep": json.loads("[" * 300 + "]" * 300), "t": "y" * 70_000})
    turn.event(
        "note", {}, extends=[f"turn:x_{n}" for n in range(70)], related_to=[f"a:{n}" for n in range(70)]
    )
    turn.event("n" * 400, {"keys": {f"k{n}": n for n in range(20_000)}})
    turn.end(title="t", files_modified=[f"dir/{n}.py" for n in range(9_000)])
    report, records = export(store, tmp_path / "out")

    assert report.payloads_cut == 6 and report.links_left_out == 90
    for record in records:
        assert len(record["payload_json"].encode()) <= 65_536
        assert len(record["context_id"]) <= 256 and ":" in record["context_id"]
        assert (
            sum(len(record[name]) for name in ("related_to", "extends", "reinforces", "contradicts")) <= 100
        )
    event_id = store.query("select event_id from events where event_type = 'action'").rows[0][0]
    action = next(r for r in records if r["context_id"].startswith("action:"))
    assert f"whole in event {event_id}" in action["payload"]["args"]["command"]
    assert "items" in action["payload"]["result"]["lines"][-1]


def test_the_same_log_gives_the_same_bytes(store: Store, tmp_path: Path) -> None:
    """P2: a batch of the same range has the same bytes, from the tail, from segments, from an index."""
    export(store, tmp_path / "a")
    first = (tmp_path / "a").read_bytes()
    store.seal()
    export(store, tmp_path / "b", since=0)
    store.rebuild()
    export(store, tmp_path / "c", since=0)

    assert (tmp_path / "b").read_bytes() == first
    assert (tmp_path / "c").read_bytes() == first


def test_the_next_batch_has_only_what_changed(store: Store, tmp_path: Path) -> None:
    """I36: the next batch holds the new events, and the final state of the contexts they touch."""
    export(store, tmp_path / "a")
    late = {"repo": REPO, "occurred_at": AT + 60_000_000}
    store.append([lifecycle.intent(SID, 2, "more", **late)])
    report, records = export(store, tmp_path / "b")

    assert (report.since, report.until) == (14, 16)
    anchors = [f"knowledge:my_project_{REPO}", f"{REPO}:sessions", SESSION, f"turn:{SID}_002"]
    assert ids(records) == [*anchors, f"intent:{SID}_002_001"]
    assert records[2]["timestamp"] == str(AT // 1_000_000 + 60)
    assert Consumer(store, CONSUMER).position == 16


def test_nothing_new_makes_no_file(store: Store, tmp_path: Path) -> None:
    """I36: where nothing is new there is no file, and the log does not grow by the asking."""
    export(store, tmp_path / "a")
    before = store.journal.next_position()
    report, _ = export(store, tmp_path / "b")

    assert report.total == 0 and report.path is None
    assert not (tmp_path / "b").exists()
    assert store.journal.next_position() == before


def test_a_call_that_is_counted_elsewhere_now_changes_both_turns(store: Store, tmp_path: Path) -> None:
    """P3: when a later line of one model call takes its place, the turn that lost it is written again."""
    export(store, tmp_path / "a")
    store.append(
        [
            lifecycle.timeline_event(
                "llm",
                "b2c3d4e5",
                1,
                {},
                repo=REPO,
                message_id="msg-1",
                completion_tokens=500,
                prompt_tokens=9,
            )
        ]
    )
    _, records = export(store, tmp_path / "b")
    tokens = {
        record["context_id"]: record["payload"]["data"]["tokens_used"]
        for record in records
        if record["payload"].get("kind") == "turn_end"
    }

    assert tokens == {TURN: 0}
    assert SESSION in ids(records) and f"turn:{SID}_002" not in ids(records)


def test_an_error_that_another_session_resolves_changes_its_own(store: Store, tmp_path: Path) -> None:
    """I36, S1-48: the totals of a session go out again when another one says that its error is resolved."""
    broken = lifecycle.timeline_event("error", SID, 1, {"message": "no"}, repo=REPO, context_id="error:mine")
    store.append([broken])
    export(store, tmp_path / "a")
    linked = {"repo": REPO, "resolved": True, "related_to": ["error:mine"]}
    store.append([lifecycle.timeline_event("error", "b2c3d4e5", 1, {"message": "mended"}, **linked)])
    _, records = export(store, tmp_path / "b")
    totals = {
        record["context_id"]: record["payload"]["data"]["totals"]
        for record in records
        if record["payload"].get("kind") in ("session_start", "session_end")
    }

    assert (totals[SESSION]["errors"], totals[SESSION]["errors_resolved"]) == (2, 2)


def test_a_name_that_came_later_is_a_title(tmp_path: Path) -> None:
    """I37: a session whose first turn came before its name keeps its id."""
    store = new_store(tmp_path / "one")
    store.append([lifecycle.turn_start(SID, 1, "hello", repo=REPO)])
    _, first = export(store, tmp_path / "a")
    store.append([lifecycle.session_start(SID, "greeting", "Greeting", REPO)])
    _, second = export(store, tmp_path / "b")
    session = f"session:session-{SID}_{SID}"

    assert first[-1]["extends"] == [session]
    (named,) = [one for one in second if one["context_id"].startswith("session:")]
    assert (named["context_id"], json.loads(named["payload_json"])["data"]["title"]) == (session, "Greeting")


def test_since_and_the_ledger(store: Store, tmp_path: Path) -> None:
    """I36: an export that would leave positions out does not move the ledger; one that repeats does."""
    skipped, _ = export(store, tmp_path / "a", since=5)
    assert skipped.advanced is False and Consumer(store, CONSUMER).position == 0

    whole, _ = export(store, tmp_path / "b", since=0)
    assert whole.advanced is True and Consumer(store, CONSUMER).position == 14

    again, records = export(store, tmp_path / "c", since=0)
    assert again.records == whole.records and len(records) == 13
    assert Consumer(store, CONSUMER).position == 15


class _Racing(FileSystem):
    """Another process exports once, at the moment when this one reads its first segment."""

    def __init__(self, place: Path) -> None:
        self._place: Path | None = place

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        if path.endswith(".parquet") and self._place is not None:
            place, self._place = self._place, None
            with Store.open(place / "one/.locus") as other:
                other.append([{"event_type": "note"}])
                assert locusgraph.export(other, str(place / "other")).advanced
        return super().open(path, flags, mode)


def test_the_slower_of_two_exports_repeats(store: Store, tmp_path: Path) -> None:
    """I36: when another export went further meanwhile, the ledger stays there and both files are whole."""
    store.seal()
    time.sleep(0.06)
    store.query("SELECT max(title) FROM events")  # no question opens the segment to compare it any more
    with Store.open(tmp_path / "one/.locus", fs=_Racing(tmp_path)) as slow:
        report, records = export(slow, tmp_path / "slow")

    assert (report.until, report.advanced, len(records)) == (14, False, 13)
    assert len((tmp_path / "other").read_bytes().splitlines()) == 19
    assert Consumer(store, CONSUMER).position == 15


def test_a_dry_run_counts_and_changes_nothing(store: Store, tmp_path: Path) -> None:
    """P8: a dry run says what the export would write, and writes neither file nor ledger."""
    dry = locusgraph.export(store, str(tmp_path / "a"), dry_run=True)
    before = store.journal.next_position()
    wet, _ = export(store, tmp_path / "a")

    assert (dry.records, dry.bytes, dry.until) == (wet.records, wet.bytes, before)
    assert dry.path is None and not dry.advanced


def test_an_existing_file_is_refused(store: Store, tmp_path: Path) -> None:
    """P8: a file that exists stays and the ledger with it, unless force is given."""
    (tmp_path / "a").write_text("precious")
    with pytest.raises(Refused, match="--force"):
        locusgraph.export(store, str(tmp_path / "a"))
    assert (tmp_path / "a").read_text() == "precious"
    assert Consumer(store, CONSUMER).position == 0

    assert locusgraph.export(store, str(tmp_path / "a"), force=True).advanced


def test_a_failed_export_leaves_no_file(store: Store, tmp_path: Path) -> None:
    """I36: without the file the ledger does not move: a directory that cannot be written, or is not there."""
    with pytest.raises(EventLogError, match="make it first"):
        locusgraph.export(store, str(tmp_path / "none/a"))
    with pytest.raises(EventLogError, match="File name too long"):
        locusgraph.export(store, str(tmp_path / ("a" * 300)))

    assert Consumer(store, CONSUMER).position == 0


def test_older_events_go_out_in_the_present_version(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I23: records show events as the present version would have written them; lines of JSON keep them."""

    def step(event: Event) -> Event:
        payload = event["payload"]
        assert isinstance(payload, dict)
        return {**event, "payload": {**payload, "renamed": True}}

    monkeypatch.setitem(upcast.STEPS, 1, step)
    _, records = export(store, tmp_path / "a")
    jsonl.export(store, str(tmp_path / "b"))

    assert records[6]["payload"]["renamed"] is True
    assert b"renamed" not in (tmp_path / "b").read_bytes()


def test_withheld_contents_stay(tmp_path: Path) -> None:
    """P5: what is withheld leaves in no export: neither as a content nor in a diff."""
    store = new_store(tmp_path / "one")
    content = b"password = '" + b"0pen5esame" + b"'\n"
    turn = Recorder(store, agent="script").start_turn("Do it")
    turn.file("a.py", before=None, after=content)
    turn.file("b.py", before=None, after=b"plain")
    after = to_text(blob_id(content))
    _, records = export(store, tmp_path / "b", since=0)
    report = jsonl.export(store, str(tmp_path / "c"), contents=True)

    assert [record["payload"]["diff"] is None for record in records[-2:]] == [True, False]
    assert report.missing == [(after, withheld.WITHHELD)]
    assert base64.b64encode(content)[:20] not in (tmp_path / "c").read_bytes()
    assert "withheld" not in [record["context_id"].split(":")[0] for record in records]


_unnamed = any_event.map(lambda e: {k: v for k, v in e.items() if k not in ("context_id", "extends")})


@settings(max_examples=5 if HUNT == 0 else int(HUNT * 50))
@given(
    batches=st.lists(st.lists(_unnamed, min_size=1, max_size=6), min_size=1, max_size=4),
    seals=st.sets(st.integers(0, 3)),
)
def test_batches_together_say_what_one_export_says(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[dict[str, Any]]], seals: set[int]
) -> None:
    """P2, I36: batch by batch, the last record of each context is the one that a whole export gives."""
    place = tmp_path_factory.mktemp("batches")
    store = new_store(place)
    payload: dict[str, dict[str, Any]] = {}
    events: list[str] = []
    for number, batch in enumerate(batches):
        append_as_before(store, batch)
        if number in seals:
            store.seal()
        report, records = export(store, place / f"{number}.out")
        payload |= {record["context_id"]: record for record in records}
        events += ids(records[len(records) - report.records.get("events", 0) :])
    report, whole = export(store, place / "whole.out", since=0)

    expected = {record["context_id"]: record for record in whole}
    # A project that got another name later was exported under the first one, too, and so was a session
    # whose later events name another repository.
    for context_id in payload.keys() - expected.keys():
        kind, _, rest = context_id.partition(":")
        moved = {known.partition(":")[2] for known in expected if not known.startswith(f"{kind}:")}
        assert kind == "knowledge" or rest in moved
    for context_id, record in expected.items():
        del record["timestamp"], payload[context_id]["timestamp"]
        assert payload[context_id] == record
    assert events == ids(whole[len(whole) - report.records.get("events", 0) :])
    store.close()


def test_events_that_may_not_last_are_not_exported(store: Store, tmp_path: Path) -> None:
    """I5: what a batch holds is synced first; when that fails there is no file and the ledger stays."""

    class NoSync(FileSystem):
        def fdatasync(self, fd: int) -> None:
            raise OSError(5, "Input/output error")

    with (
        Store.open(store.layout.root, fs=NoSync()) as failing,
        pytest.raises(NotDurable, match="may not last"),
    ):
        locusgraph.export(failing, str(tmp_path / "batch"))

    assert not (tmp_path / "batch").exists()
    assert Consumer(store, CONSUMER).position == 0
