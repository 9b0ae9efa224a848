"""What the tests of exports share: stores with a known log, and logs of all kinds."""

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from eventlog.base.types import Event
from eventlog.recorder import lifecycle
from eventlog.secrets import admission
from eventlog.store import Store
from tests.conftest import closed_later

REPO = "abc123def456"
SID = "a1b2c3d4"
AT = 1_770_000_000_000_000  # 2026-02-02T02:40:00Z

Texts = st.text(st.characters(codec="utf-8"), max_size=12)


def new_store(place: Path, repo_hash: str = REPO) -> Store:
    place.mkdir(parents=True, exist_ok=True)
    return closed_later(Store.init(place / ".locus", project_name="My Project", repo_hash=repo_hash))


def raw(store: Store) -> list[Event]:
    """Every visible event with every column, the payload as the log's own text."""
    with store.view() as view:
        return list(view.iterate())


def small_log() -> list[Event]:
    """A session of two turns with one event of each type; ids and times are fixed."""
    numbers = iter(range(1, 100))

    def fixed(**columns: Any) -> dict[str, Any]:
        n = next(numbers)
        return {"event_id": f"{n:032x}", "occurred_at": AT + n * 1_000_000, "repo": REPO, **columns}

    def timeline(event_type: str, payload: dict[str, Any], **columns: Any) -> Event:
        return lifecycle.timeline_event(event_type, SID, 1, payload, **fixed(**columns))

    return [
        lifecycle.sessions_master(REPO, "My Project", **{k: v for k, v in fixed().items() if k != "repo"}),
        lifecycle.session_start(
            SID,
            "fix-jwt-refresh",
            "Fix the JWT refresh bug",
            REPO,
            **{k: v for k, v in fixed().items() if k != "repo"},
        ),
        lifecycle.turn_start(SID, 1, "Fix the JWT refresh bug", **fixed()),
        lifecycle.snapshot(
            SID,
            1,
            "turn_start",
            "blake3:" + "1" * 64,
            git_head="f" * 40,
            git_branch="main",
            git_dirty=["a.py"],
            git_staged=[],
            tracked_files=7,
            **fixed(),
        ),
        lifecycle.intent(SID, 1, "Fix the JWT refresh bug", **fixed()),
        timeline(
            "action",
            {"tool": "pytest", "args": {"args": ["-q"]}, "result": {"exit": 1}},
            tool="pytest",
            duration_ms=1200,
            success=False,
        ),
        lifecycle.file(
            SID,
            1,
            "auth.py",
            "edit",
            before_hash="blake3:" + "2" * 64,
            after_hash="blake3:" + "3" * 64,
            payload={"description": "refresh earlier", "after_size": 9},
            lines_added=2,
            lines_removed=1,
            **fixed(),
        ),
        timeline(
            "decision",
            {"decision": "Refresh early", "reasoning": "clock skew", "confidence": 0.8,
             "alternatives_considered": ["retry"]},
        ),
        timeline(
            "error",
            {"error_type": "TestFailure", "message": "1 failed", "resolved": True, "command": "pytest"},
            error_type="TestFailure",
            resolved=True,
        ),
        timeline(
            "llm",
            {"stop_reason": "end_turn"},
            model="m-1",
            message_id="msg-1",
            prompt_tokens=100,
            completion_tokens=20,
            duration_ms=900,
        ),
        timeline("feedback", {"type": "approval", "message": "good", "sentiment": "positive"}),
        lifecycle.turn_end(
            SID,
            1,
            "Refresh fixed",
            user_request="Fix the JWT refresh bug",
            outcome="tests pass",
            actions_taken=["ran the tests"],
            decisions=["Refresh early"],
            **fixed(),
        ),
        lifecycle.turn_start(SID, 2, "é" * 900, **fixed()),
        lifecycle.session_end(
            SID, "fix-jwt-refresh", REPO, summary="JWT refresh repaired", turn_count=2,
            **{k: v for k, v in fixed().items() if k != "repo"},
        ),
    ]  # fmt: skip


_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=True)
    | st.text(max_size=8)  # lone surrogates and NUL among them
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
_HASHES = st.sampled_from(["blake3:" + c * 64 for c in "0123456789abcdef"])


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


any_event: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "event_id": st.integers(0, 40).map(lambda n: f"{n:032x}"),  # few: some come twice
        "event_type": st.sampled_from(["action", "file", "llm", "note", "turn", "session", "sessions"]),
        "payload": st.dictionaries(st.text(max_size=4), _values, max_size=3),
    },
    optional={
        "session_id": _maybe(st.sampled_from(["s0000001", "s0000002"])),
        "turn": _maybe(st.sampled_from([1, 2, 7, 2**52])),
        "seq": _maybe(st.integers(0, 3)),
        "context_id": _maybe(st.text(max_size=6)),
        "extends": _maybe(st.lists(st.text(max_size=5), max_size=2)),
        "related_to": _maybe(st.lists(Texts, max_size=2)),
        "agent": _maybe(st.sampled_from(["claude-code", "codex"])),
        "agent_session_id": _maybe(st.sampled_from(["x", "y"])),
        "agent_turn_id": _maybe(st.sampled_from(["t1", "t2"])),
        "message_id": _maybe(st.sampled_from(["m1", "m2"])),
        "operation": _maybe(st.sampled_from(["start", "end"])),
        "repo": _maybe(st.sampled_from([REPO, "ffff00000000"])),
        "path": _maybe(st.text(max_size=8).filter(lambda text: admission.fault("path", text) is None)),
        "title": _maybe(Texts),
        "occurred_at": _maybe(st.integers(-(10**15), 10**16)),
        "recorded_at": st.integers(0, 10**16),
        "redacted": _maybe(st.booleans()),
        "schema_version": _maybe(st.integers(1, 3)),
        "prompt_tokens": _maybe(st.integers(0, 2**53 - 1)),
        "success": _maybe(st.booleans()),
        "after_hash": _maybe(_HASHES),
        "blobs": _maybe(st.lists(_HASHES, max_size=2)),
    },
)
