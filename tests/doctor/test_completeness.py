"""The completeness statement: a fold of what a session's events say (P7)."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.errors import NotFound
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import FILE, SKIPPED
from eventlog.doctor.completeness import Skipped, completeness
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store
from tests.conftest import closed_later, examples
from tests.older import append_as_before

SESSION = "a1b2c3d4"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return closed_later(Store.init(tmp_path / ".locus"))


def event(event_type: str, **columns: Any) -> dict[str, Any]:
    return {"event_type": event_type, "event_kind": "action", "source": "agent", "agent": "claude-code",
            "session_id": SESSION, "turn": None if event_type == "session" else 1, **columns}  # fmt: skip


def start(id: str, **columns: Any) -> dict[str, Any]:
    return event("tool_start", tool_use_id=id, tool="Bash", payload={"hook_us": 9}, **columns)


def action(id: str | None, **columns: Any) -> dict[str, Any]:
    payload = {"hook_us": 9, **columns.pop("payload", {})}
    return event("action", tool_use_id=id, tool="Bash", success=True, payload=payload, **columns)


def test_every_call_is_counted_once(store: Store) -> None:
    """P7: a call that three events name is one; one without an outcome is named; a partial capture counts."""
    store.append([
        event("session", operation="start"),
        start("t1"), action("t1"), action("t1", payload={"capture": {"state": "baseline"}}),
        start("t2"),
        action("t3", payload={"capture": {"state": "partial", "pending": 4}}),
        action(None),
        action("t4", payload={"capture": {"state": "busy"}}),
    ])  # fmt: skip
    reported = completeness(store, SESSION)

    assert (reported.tool_calls, reported.captured, reported.without_outcome, reported.partial) == (
        5,
        4,
        ("t2",),
        2,
    )
    assert (reported.ended, reported.skipped, reported.is_complete) == (False, None, False)
    assert str(reported) == ("captured 4 of 5 tool calls, 2 captures partial, files unknown: no snapshot")


def test_calls_of_a_batch_and_of_raw_hooks_count(store: Store) -> None:
    """P7: a call that only a batch lists, or only a hook that was kept raw, is seen and captured."""
    calls = [{"tool_use_id": "t1"}, {"tool_use_id": "t2"}, {"tool_name": "no id"}, "odd"]
    store.append([
        event("hook", operation="PreToolUse", tool_use_id="t1"),
        event("hook", operation="PostToolBatch", payload={"tool_calls": calls}),
        event("hook", operation="PreToolUse", tool_use_id="t3"),
        event("hook", operation="PostToolUse", tool_use_id="t4"),
        event("session", operation="end"),
    ])  # fmt: skip
    reported = completeness(store, SESSION)

    assert (reported.tool_calls, reported.captured, reported.without_outcome, reported.ended) == (
        4,
        3,
        ("t3",),
        True,
    )


def test_the_last_snapshot_says_what_was_skipped(store: Store) -> None:
    """P7, P1: what the last snapshot leaves out is listed with its reason; earlier ones do not count."""
    with store.blobs.writer() as writer:
        why = writer.put(b"larger than 1 GB")
        data = writer.put(b"x")
        inner = writer.put_tree([(b"big.bin", SKIPPED, why, 10**9)])
        root = writer.put_tree([(b"a", FILE, data, 1), (b"out", b"d", inner, 0), (b"z", SKIPPED, why, 9)])
        writer.flush()
        store.append([
            event("snapshot", operation="turn_end", tree_hash=to_text(root), payload={"hook_us": 1}),
        ])  # fmt: skip
        reported = completeness(store, SESSION)
        whole = writer.put_tree([(b"a", FILE, data, 1)])
        writer.flush()
        append_as_before(store, [event("snapshot", operation="turn_end", tree_hash=to_text(whole))])

    reason = "larger than 1 GB"
    assert reported.skipped == (Skipped("out/big.bin", reason), Skipped("z", reason))
    assert str(reported) == (
        "captured 0 of 0 tool calls, 2 files skipped: out/big.bin (larger than 1 GB), z (larger than 1 GB)"
    )
    after = completeness(store, SESSION)
    assert after.skipped == () and after.is_complete


def test_what_nobody_reported_is_unknown(store: Store) -> None:
    """P7: a session of which nothing could tell of tools has no count, not a count of zero."""
    recorder = Recorder(store, agent="script")
    turn = recorder.start_turn("Hello")
    [(session_id,)] = store.query("select session_id from sessions").rows
    reported = completeness(store, session_id)
    assert (reported.tool_calls, reported.captured, reported.partial, reported.skipped) == (
        None,
        None,
        None,
        None,
    )
    assert str(reported) == "tool calls unknown, files unknown: no snapshot"

    turn.action("pytest", {}, {"exit": 0}, success=True)
    assert completeness(store, session_id).tool_calls == 1
    with pytest.raises(NotFound):
        completeness(store, "nobody00")


def test_a_tree_that_cannot_be_read_is_unknown(store: Store, tmp_path: Path) -> None:
    """P7: a snapshot whose tree is lost makes the skipped files unknown, and the statement goes on."""
    append_as_before(store, [event("snapshot", operation="turn_end", tree_hash="blake3:" + "0" * 64)])
    assert completeness(store, SESSION).skipped is None


def test_turns_without_known_files_are_named(store: Store) -> None:
    """P1, P7: a turn whose last capture failed and one that nobody ended are named with the reason; a whole
    one, and a session that no hook reported, are not."""
    tree = {"tree_hash": "blake3:" + "0" * 64, "success": True, "payload": {"hook_us": 1}}
    failed = {"success": False, "payload": {"capture": {"state": "failed"}, "hook_us": 1}}
    for turn, look, ends in ((1, tree, True), (2, failed, True), (3, tree, False)):
        append_as_before(store, [event("snapshot", operation="turn_start", **{**tree, "turn": turn})])
        operation = "turn_end" if ends else "tool"
        append_as_before(store, [event("snapshot", operation=operation, **{**look, "turn": turn})])
        if ends:
            store.append([event("turn", operation="end", turn=turn)])
    append_as_before(
        store, [event("snapshot", operation="tool", session_id="b1b2c3d4", tree_hash=tree["tree_hash"])]
    )
    reported = completeness(store, SESSION)

    assert [(one.turn, one.state) for one in reported.unsure_turns] == [
        (f"{SESSION}_002", "failed"), (f"{SESSION}_003", "unfinished")
    ]  # fmt: skip
    assert all(one.why for one in reported.unsure_turns) and not reported.is_complete
    assert "the files at the end of 2 turns unknown" in str(reported)
    assert completeness(store, "b1b2c3d4").unsure_turns == ()


@pytest.mark.slow
@settings(max_examples=examples(15, 500))
@given(
    st.lists(
        st.tuples(st.sampled_from(["start", "action", "open", "batch"]), st.sampled_from("abcdef")),
        max_size=12,
    ),
    st.integers(0, 12),
)
def test_sealing_and_repetition_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[str, str]], sealed: int
) -> None:
    """P2, I14: the statement is a fold of the log: sealed or not, reported twice or once, it is the same."""
    made = {
        "start": start,
        "action": action,
        "open": lambda id: event("action", tool_use_id=id, payload={"hook_us": 9}),
        "batch": lambda id: event(
            "hook", operation="PostToolBatch", payload={"tool_calls": [{"tool_use_id": id}]}
        ),
    }
    with Store.init(tmp_path_factory.mktemp("any") / ".locus") as store:
        store.append([event("session", operation="start", payload={"hook_us": 1})])
        for i, (kind, id) in enumerate(told * 2):
            store.append([made[kind](id)])
            if i == sealed:
                store.seal()
        reported = completeness(store, SESSION)

    ids = {id for _, id in told}
    captured = {id for kind, id in told if kind in ("action", "batch")}
    assert (reported.tool_calls, reported.captured) == (len(ids), len(captured))
    assert set(reported.without_outcome) == ids - captured
