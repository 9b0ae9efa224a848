"""What would be wrong for ever is refused when it is appended, at every door; older logs are settled."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog import Hooks, InvalidEvent, Recorder, Store
from eventlog.base.layout import CONDEMNED_DIR, condemned_name
from eventlog.base.locks import GC
from eventlog.blobs.ids import blob_id, to_text
from eventlog.exports import jsonl, jsonl_import
from eventlog.importers.batch import ImportBatch
from locus_cli.main import run
from tests.cli.hook_support import Agent
from tests.older import append_as_before

NOWHERE = to_text(blob_id(b"nobody stored this"))
OUTSIDE = ("/etc/passwd", "..", "a/../../b", "a\0b", "", '"\\057etc"', '"\\056\\056/x"')

# As long together as hashes are, in lists that are checked as one text.
ODD_HASHES = (
    [NOWHERE.upper()], [NOWHERE[:-1] + "\u0661"], [NOWHERE[:-1] + "\udc80"], [NOWHERE[1:] + "b"],
    ["blake3:" * 10 + "a"], [NOWHERE[:-1], NOWHERE + "0"],
    [NOWHERE[:7] * 2 + NOWHERE[14:]], [NOWHERE.replace(":", "b")],
)  # fmt: skip

# What no event may say: columns, then payloads of a type.
WRONG: "list[tuple[str, object]]" = [
    ("after_hash", "junk"),
    ("after_hash", "blake3:00"),
    ("before_hash", NOWHERE.upper()),
    ("tree_hash", "turn_end"),
    ("tree_hash", "sha256:00"),
    ("blobs", ["sha256:00"]),
    *(("blobs", [NOWHERE, *odd]) for odd in ODD_HASHES),
    ("prompt_tokens", -1),
    ("duration_ms", -5),
    ("lines_added", 2**53),
    ("turn", -1),
    ("turn", 2**63 - 1),
    ("seq", -1),
    ("occurred_at", 2**62),
    ("recorded_at", -(2**62)),
    *(("path", path) for path in OUTSIDE),
]
WRONG_IN_FILES: "list[tuple[str, object]]" = [
    ("old_path", "../x"),
    ("after_size", -1),
    ("after_size", "big"),
    ("deferred", "junk"),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.init(tmp_path / ".locus") as opened:
        yield opened


def wrong(event_type: str = "file") -> "Iterator[tuple[str, dict[str, Any]]]":
    """(what the error names, an event)."""
    for name, value in WRONG:
        yield f"column {name}", {"event_type": event_type, name: value}
    for key, value in WRONG_IN_FILES:
        yield f"payload.{key}", {"event_type": "file", "payload": {key: value}}
    yield "payload.confidence", {"event_type": "decision", "payload": {"confidence": 7}}


def test_an_append_refuses_what_would_be_wrong_for_ever(store: Store) -> None:
    """I38, S1-42: hashes that are none, numbers and times out of range, paths that leave the root; with
    the number of the event, its field, the value and what to give; nothing of the append is written."""
    for named, event in wrong():
        with pytest.raises(InvalidEvent, match="event 2 of the append: ") as caught:
            store.append([{"event_type": "note"}, event])
        assert f"{named} must be " in str(caught.value) and "not" in str(caught.value)
    good = [{"event_type": "note", "tree_hash": f"blake3:{n:064x}"} for n in range(9)]
    for text in (f"blake3:{1:063x}G", f"blake3:{171:064X}", f"blake3:{1:063x} ", f"{1:063x}blake3:0", "x"):
        with pytest.raises(InvalidEvent, match="event 5 of the append: column tree_hash must be "):
            store.append([*good[:4], {**good[4], "tree_hash": text}, *good[5:]])
    assert store.journal.next_position() == 0


def test_what_is_right_is_accepted(store: Store) -> None:
    """I38: edges of the ranges, foreign hashes with a name, odd names and files outside by their id."""
    edges = [{"occurred_at": 0}, {"occurred_at": -(10**15)}, {"prompt_tokens": 2**53 - 1}, {"turn": 0}]
    paths = [
        "a..b/...",
        "caf\u00e9",
        '"caf\\351"',
        "root:0123456789abcdef/a.py",
        "src/",
        ".git/config",
        "a\\b",
    ]
    events = [*edges, *({"path": one} for one in paths), {"after_hash": "sha256:00ff"}]
    assert len(store.append([{"event_type": "note", **one} for one in events])) == len(events)


def test_a_content_that_is_not_there_is_refused(store: Store) -> None:
    """I24, I38, S1-41: an event names contents and trees that the store holds, each as what it is."""
    with store.blobs.writer() as writer:
        content, tree = writer.put(b"x"), writer.put_tree([])
        for early in (content, tree):  # an id is good after the flush alone
            with pytest.raises(InvalidEvent, match="which is not in this store"):
                store.append([{"event_type": "note", "blobs": [to_text(early)]}])
        writer.flush()
    for column in ("before_hash", "after_hash", "tree_hash"):
        with pytest.raises(InvalidEvent, match=f"event 1 of the append: column {column} names {NOWHERE}"):
            store.append([{"event_type": "note", column: NOWHERE}])
    foreign = {"event_type": "note", "after_hash": "sha256:00ff"}
    with pytest.raises(InvalidEvent, match=f"event 2 of the append: column after_hash names {NOWHERE}"):
        store.append([foreign, {"event_type": "note", "after_hash": NOWHERE}])
    with pytest.raises(InvalidEvent, match="a tree, not a file's content"):
        store.append([{"event_type": "note", "after_hash": to_text(tree)}])
    with pytest.raises(InvalidEvent, match="a file's content, not a tree"):
        store.append([{"event_type": "note", "tree_hash": to_text(content)}])
    assert store.append([{"event_type": "note", "after_hash": to_text(content), "tree_hash": to_text(tree)}])


def test_contents_are_looked_up_where_a_hash_is_given_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I38: an event without a hash of ours asks nothing of the contents and takes no lock of theirs."""
    monkeypatch.setattr(store.blobs, "writer", None)
    monkeypatch.setattr(store.blobs, "locations", None)
    monkeypatch.setattr(store, "_holder", None)
    store.append([{"event_type": "action", "path": "a", "turn": 1, "payload": {"x": 1}}])
    store.append([{"event_type": "note", "after_hash": "sha256:00ff", "before_hash": "md5:00ff"}])
    monkeypatch.undo()


def test_a_recorder_is_refused_and_its_turn_goes_on(store: Store) -> None:
    """I38: each method of a turn says what is wrong; an error about a file elsewhere is in its payload."""
    turn = Recorder(store, agent="script").start_turn("Do it")
    doors: "list[Callable[[], object]]" = [
        lambda: turn.file("/abs/x", before=None, after=b"1"),
        lambda: turn.decision("d", confidence=7),
        lambda: turn.llm("m", prompt_tokens=-1),
        lambda: turn.snapshot_of("turn_end"),
        lambda: turn.snapshot_of(NOWHERE),
        lambda: turn.event("note", {}, tree_hash="junk"),
    ]
    for door in doors:
        with pytest.raises(InvalidEvent, match="event 1 of the append"):
            door()
    turn.error("E", "boom", file="/usr/lib/x.py")
    last = store.timeline(turn.ref)[-1]
    assert (last["path"], last["payload"]["file"]) == (None, "/usr/lib/x.py")


def test_a_turn_that_has_ended_takes_feedback_alone(store: Store) -> None:
    """I38, S1-47: whoever ended a turn adds nothing to what it did; a person's word about it comes later, and
    what becomes known later has a door of its own."""
    recorder = Recorder(store, agent="script")
    turn = recorder.start_turn("Do it")
    turn.end()
    doors: "list[Callable[[], object]]" = [
        lambda: turn.action("Bash", {}),
        lambda: turn.file("a", before=None, after=b"1"),
        lambda: turn.snapshot("."),
        lambda: turn.snapshot_of(NOWHERE),
        turn.end,
    ]
    before = store.journal.next_position()
    for door in doors:
        with pytest.raises(InvalidEvent, match=f"turn {turn.ref.name} has ended"):
            door()
    assert store.journal.next_position() == before
    with recorder.start_session("Again"), recorder.start_turn("Do more") as left:
        recorder.end_session()
        with pytest.raises(InvalidEvent, match=f"turn {left.ref.name} has ended"):
            left.action("Bash", {})
    turn.feedback("approval", "good")
    late = {**turn.placed(), "event_type": "llm", "session_id": turn.ref.session_id, "turn": turn.ref.turn}
    recorder.append([late])
    assert [e["event_type"] for e in store.timeline(turn.ref)][-2:] == ["feedback", "llm"]


def test_hooks_of_a_runtime_lose_nothing(store: Store) -> None:
    """P4, I38, S0-21: fire-and-forget calls keep the event, and in its payload what no column can hold;
    strict ones raise."""
    hooks = Hooks(store, agent="script")
    given: "dict[str, Any]" = {"path": "/abs", "tree_hash": "junk", "prompt_tokens": -1}
    with pytest.raises(InvalidEvent, match=r"column (path|tree_hash|prompt_tokens) must be"):
        hooks.strict.store_turn_start("a1b2c3d4", "session:x_a1b2c3d4", 1, "hello", **given)
    hooks.store_turn_start("a1b2c3d4", "session:x_a1b2c3d4", 1, "hello", **given)

    (event,) = store.events()
    assert (event["path"], event["tree_hash"], event["prompt_tokens"]) == (None, None, None)
    assert event["payload"]["refused"] == given and event["payload"]["user_message"] == "hello"


def test_a_hook_of_an_agent_loses_nothing(tmp_path: Path) -> None:
    """P4, I38: whatever an agent's hook says, it ends with 0, and appends what an append accepts."""
    work = tmp_path / "work"
    work.mkdir()
    Store.init(work / ".locus").close()
    (work / "a.py").write_text("1\n")
    agent = Agent(work)
    agent.prompt("go")
    for path in (*OUTSIDE, str(work / "a.py")):
        given = {"file_path": path, "content": "x"}
        call = {"tool_name": "Write", "tool_input": given, "tool_use_id": agent.begin("Write", given)}
        agent.say("PostToolUse", tool_response={"filePath": path}, duration_ms=-5, **call)
    much = {"input_tokens": 2**53 - 1, "cache_read_input_tokens": 2**53 - 1, "output_tokens": 1}
    answer = {"id": "msg_01abcdefghijklmnopqrstuv", "model": "m", "usage": much}
    payload = {"type": "assistant", "sessionId": agent.session, "promptId": agent.turn, "message": answer}
    agent.transcript.write_text(json.dumps(payload) + "\n")
    agent.stop()
    with Store.open(work / ".locus") as store:
        assert len([e for e in store.events() if e["event_type"] == "action"]) == len(OUTSIDE) + 1
        (call,) = (e for e in store.events() if e["event_type"] == "llm")
        assert (call["prompt_tokens"], call["cache_read_tokens"]) == (None, 2**53 - 1)
        assert call["payload"]["refused"] == {"prompt_tokens": 2 * (2**53 - 1)}
        assert store.verify("deep") == []


def test_an_import_loses_nothing(store: Store) -> None:
    """P4, I38: of what an agent left behind that no column can hold nothing is lost: its payload has it."""
    batch = ImportBatch(store, bytes_max=1 << 20, events_max=100)
    batch.add({"event_type": "llm", "prompt_tokens": -7, "model": "m", "payload": {"a": 1}})
    batch.add({"event_type": "file", "path": "x", "payload": {"old_path": "/etc/b"}})
    batch.commit()

    call, file = store.events()
    assert (call["prompt_tokens"], call["payload"]) == (None, {"a": 1, "refused": {"prompt_tokens": -7}})
    assert (file["path"], file["payload"]) == ("x", {"refused": {"old_path": "/etc/b"}})


def test_an_exported_log_is_refused_or_taken_with_its_word(tmp_path: Path, store: Store) -> None:
    """I38: `import jsonl` stops at a line that an append refuses and names it; with --salvage the event is
    kept, and what no column can hold is in its payload. Contents may be absent: exports leave them out."""
    append_as_before(store, [{"event_type": "note", "event_id": f"{1:032x}", "after_hash": NOWHERE}])
    bad = {"event_type": "file", "event_id": f"{2:032x}", "path": "/abs", "payload": {"after_size": -1}}
    append_as_before(store, [bad, {"event_type": "note"}])
    file = str(tmp_path / "log.jsonl")
    jsonl.export(store, file)

    (tmp_path / "other").mkdir()
    with Store.init(tmp_path / "other/.locus") as other:
        with pytest.raises(InvalidEvent, match=r"line 3: payload\.after_size must be a number"):
            jsonl_import.load(other, file)
        report = jsonl_import.load(other, file, salvage=True)
        assert [number for number, _ in report.skipped] == [3]
        event = other.event(f"{2:032x}")
        assert (event["path"], event["payload"]) == (None, {"refused": {"after_size": -1, "path": "/abs"}})
        assert other.event(f"{1:032x}")["after_hash"] == NOWHERE
        assert len(list(other.events())) == 3


def test_mcp_refuses_a_path_that_leaves_the_root(store: Store) -> None:
    """I38: what an agent posts over MCP goes through the same gate."""
    from eventlog.mcp.write import post_event

    with pytest.raises(InvalidEvent, match="column path must be"):
        post_event(store, "mutation", "changed it", "script", None, "../../etc/passwd", None)


def test_what_was_accepted_before_is_read_named_and_settled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """I38, P7: older logs with such events are read as before, `verify --deep` names each, `repair --accept`
    settles it; replaying and comparing such a turn ends with an answer or an error of ours."""
    store = Store.init(tmp_path / ".locus")
    turn = Recorder(store, agent="script").start_turn("Do it")
    place = {"session_id": turn.ref.session_id, "turn": turn.ref.turn, "agent": "script"}
    events = [one for _, one in wrong() if one.get("turn") is None]
    first = append_as_before(store, [{**one, **place} for one in events])
    turn.end()
    found = " ".join(one.what for one in store.verify("deep"))
    for name, value in WRONG:
        if name not in ("turn", "blobs") and not str(value).startswith("blake3:"):
            assert f"whose {name} is not " in found
    for key in ("after_size", "confidence", "deferred", "old_path"):
        assert f"whose payload.{key} is not " in found
    assert [e["position"] for e in store.events(first, first + len(events))]
    store.seal()
    store.close()

    monkeypatch.chdir(tmp_path)
    for command in (("replay", "last", "--to", "out"), ("diff", "last"), ("timeline", "last")):
        run(list(command))
        output = capsys.readouterr()
        assert "bug in Locus" not in output.err and "Traceback" not in output.err, command
    assert run(["store", "verify", "--deep"]) == 12
    assert run(["store", "repair", "--yes", "--accept"]) in (0, 4)
    assert run(["store", "verify", "--deep"]) == 0
    assert "Accepted" in capsys.readouterr().out


def test_what_is_about_to_go_is_stored_again(store: Store) -> None:
    """I24: a content that only a pack has which waits for its deletion is stored again before an event names
    it, and a caller that holds the lock of collections is not waited for."""
    with store.blobs.writer() as writer:
        content = writer.put(b"kept one day")
        writer.flush()
    (name,) = store.blobs.pack_names
    gone = f"{store.layout.directory(CONDEMNED_DIR)}/{condemned_name(1_700_000_000, name)}"
    os.rename(store.layout.pack(name), gone)
    store.append([{"event_type": "note", "after_hash": to_text(content)}])
    os.unlink(gone)
    with Store.open(store.layout.root) as fresh, fresh.blobs.writer():
        assert fresh.blob(to_text(content)) == b"kept one day"
        fresh.append([{"event_type": "note", "after_hash": to_text(content)}])


def test_what_was_found_once_is_not_looked_up_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """P8, I38: the next events that name a content need no lookup, also beside packs that were added."""
    with store.blobs.writer() as writer:
        content = to_text(writer.put(b"named again and again"))
        writer.flush()
    store.append([{"event_type": "note", "after_hash": content}])
    with Store.open(store.layout.root) as other, other.blobs.writer() as writer:
        writer.put(b"more")
        writer.flush()
    monkeypatch.setattr(store.blobs, "locations", None)
    store.append([{"event_type": "note", "before_hash": content, "blobs": [content]}])


@pytest.mark.parametrize("is_listed", [False, True])
def test_what_was_found_once_is_looked_up_again_when_a_pack_went(store: Store, is_listed: bool) -> None:
    """I24: a content that somebody collected is not named because it was there before."""
    with store.blobs.writer() as writer:
        content = to_text(writer.put(b"to be collected"))
        writer.flush()
    store.append([{"event_type": "note", "after_hash": content}])
    (name,) = store.blobs.pack_names
    os.unlink(store.layout.pack(name))
    if is_listed:
        store.blobs.refresh()
    with pytest.raises(InvalidEvent, match="which is not in this store"):
        store.append([{"event_type": "note", "after_hash": content}])


def test_nobody_collects_until_the_events_are_durable(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """I24: the lock of collections is held, shared, from the lookup until the journal has the events."""
    with store.blobs.writer() as writer:
        content = to_text(writer.put(b"kept"))
        writer.flush()
    taken: "list[tuple[bool, bool]]" = []
    append = store.journal.append

    def appending(*given: Any, **named: Any) -> int:
        held = [_is_held(store, fcntl.LOCK_EX), _is_held(store, fcntl.LOCK_SH)]
        taken.append((held[0], held[1]))
        return append(*given, **named)

    monkeypatch.setattr(store.journal, "append", appending)
    for _ in range(2):
        store.append([{"event_type": "note", "after_hash": content}])

    assert taken == [(True, False)] * 2
    assert not _is_held(store, fcntl.LOCK_EX)


def _is_held(store: Store, how: int) -> bool:
    with open(store.layout.lock(GC), "r+b") as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
