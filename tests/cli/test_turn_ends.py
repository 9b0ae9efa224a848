"""The end of a turn is that of its last capture, or what may differ is named: calls after it, ends that only
the session's end tells, captures that fail (P1)."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from eventlog.base import activity
from eventlog.base.layout import Layout
from eventlog.store import Store
from tests.cli.dead_support import AGENTS, Client
from tests.cli.hook_support import events, notes
from tests.cli.support import Locus


@pytest.fixture
def clients(work: Path) -> Iterator[Any]:
    """Starts agents, which end with the test."""
    started: list[Client] = []

    def start(name: str, session: str = "") -> Client:
        client = Client(name, work, session)
        client.start()
        started.append(client)
        return client

    yield start
    for client in started:
        client.kill()


@contextmanager
def contents_refused(work: Path) -> Iterator[None]:
    """Meanwhile no content can be stored, so that each capture fails."""
    packs = work / ".locus/snapshots/packs"
    aside = packs.with_name("away")
    packs.rename(aside)
    packs.write_text("in the way")
    yield
    packs.unlink()
    aside.rename(packs)


def first_turn(work: Path, client: Client) -> str:
    (id,) = {e["session_id"] for e in events(work) if e["agent_session_id"] == client.session}
    return f"{id}_001"


def end_of(work: Path, client: Client) -> tuple[str, list[str]]:
    """The state of the end of the client's first turn, and the paths that are not exact; in SQL the same."""
    turn = first_turn(work, client)
    with Store.open(work / ".locus") as store:
        known = store.certainty(turn)
        sql = f"select end_certainty from turns where session_id = '{turn[:-4]}' and turn = 1"
        ((in_sql,),) = store.query(sql).rows
        files = {path.decode() for path, _ in store.tree(turn).walk()}
    assert in_sql == ("unfinished" if known.state == "running" else known.state)
    stands = {path.name for path in work.iterdir() if path.name not in (".git", ".locus")}
    here = {one for one in files if "/" not in one}
    if known.exact:
        assert here == stands
    return known.state, [path for path, _ in known.paths]


# -- calls after the end ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", AGENTS)
def test_a_tool_that_begins_after_the_end_of_its_turn_resumes_it(name: str, work: Path, clients: Any) -> None:
    """P1, P7: what begins after the Stop of its turn may change files, so that end is no longer the turn's:
    the turn is under way until the next Stop, which is its end."""
    client = clients(name)
    client.prompt()
    client.shell("a.txt")
    client.stop()
    assert end_of(work, client) == ("exact", [])

    call = client.begin("make b.txt")
    (work / "b.txt").write_text("b")
    assert end_of(work, client) == ("running", ["."])
    client.end(call)
    assert end_of(work, client) == ("running", ["."])
    client.stop()
    assert end_of(work, client) == ("exact", [])
    listed = [(e["operation"], e["status"]) for e in events(work, "turn")]
    assert listed == [("start", "active"), ("end", "completed"), ("resume", "active"), ("end", "completed")]
    assert {e["turn"] for e in events(work, "file")} == {1}
    assert notes(work) == ""


@pytest.mark.parametrize("is_whole", (True, False))
def test_a_turn_that_dies_after_it_was_resumed_is_closed(is_whole: bool, work: Path, clients: Any) -> None:
    """P1: a killed agent's turn is closed, also where it had ended before, whether or not that capture was
    whole; what the last call left is named."""
    client = clients("claude-code")
    client.prompt()
    if is_whole:
        client.stop()
    else:
        with contents_refused(work):
            (work / "x.txt").write_text("x")
            client.stop()
    client.begin("make half.txt")
    (work / "half.txt").write_text("half")
    client.kill()
    assert end_of(work, client) == ("unfinished", ["."])
    clients("codex")
    state, paths = end_of(work, client)
    assert (state, "half.txt" in paths) == ("unfinished", True)
    ends = [e["status"] for e in events(work, "turn") if e["operation"] == "end"]
    assert ends == ["completed", "interrupted"]


@pytest.mark.parametrize("name", ("claude-code", "opencode"))
def test_a_turn_that_was_closed_and_went_on_is_closed_again(name: str, work: Path, clients: Any) -> None:
    """P1, I8: what was taken for the process of a turn is gone, but the turn goes on, and dies: its second
    closing is another event than the first, and names what changed since."""
    client = clients(name)
    client.prompt()
    turn = client.turn
    client.kill()
    clients("claude-code")
    assert end_of(work, client) == ("unfinished", [])
    again = Client(name, work, client.session)
    again.start("resume")
    again.turn = turn
    again.begin("make half.txt")
    (work / "half.txt").write_text("half")
    assert end_of(work, client)[1] == ["."]
    again.kill()
    assert end_of(work, client) == ("unfinished", ["."])
    clients("claude-code")
    assert end_of(work, client) == ("unfinished", ["half.txt"])
    ends = [e["payload"].get("closed_by") for e in events(work, "turn") if e["operation"] == "end"]
    assert ends == ["hook", "hook"]


def test_a_capture_after_the_end_tells_what_is_there(work: Path, clients: Any) -> None:
    """P1: a late call's capture finds what others changed since the end of its turn, though they reported
    it: the tree is in the log, so the turn ends as that capture saw it."""
    client, other = clients("codex"), clients("claude-code")
    client.prompt()
    call = client.begin("make a.txt")
    client.stop()
    other.prompt()
    other.shell("b.txt")
    client.end(call)
    assert end_of(work, client) == ("exact", [])
    other.shell("c.txt")
    call = client.begin("true")
    client.end(call)
    client.stop()
    assert end_of(work, client) == ("exact", [])


def test_a_capture_after_the_end_that_fails_is_reported(work: Path, clients: Any) -> None:
    """P1: where the capture after a late call fails, the turn does not end as its Stop saw it."""
    client = clients("codex")
    client.prompt()
    call = client.begin("make a.txt")
    client.stop()
    (work / "a.txt").write_bytes(b"a")
    with contents_refused(work):
        client.end(call)
    assert end_of(work, client) == ("failed", ["."])


# -- ends that nobody reported -------------------------------------------------------------------------


@pytest.mark.parametrize("name", AGENTS)
def test_the_end_of_a_session_is_not_the_end_of_its_turn(name: str, work: Path, clients: Any) -> None:
    """P1: a turn without a Stop ended at some time before its session: what changed since its last capture is
    named, and nothing else."""
    client = clients(name)
    client.prompt()
    client.shell("a.txt")
    (work / "by_hand.txt").write_text("x")
    client.say("finish", reason="exit")
    assert end_of(work, client) == ("unfinished", ["by_hand.txt"])
    (end,) = [e for e in events(work, "turn") if e["operation"] == "end"]
    reported = end["payload"]
    assert (end["status"], reported["reason"], reported["closed_by"]) == (
        "interrupted",
        "session ended",
        "hook",
    )
    mine = [e["event_type"] for e in events(work) if e["agent_session_id"] == client.session]
    assert mine[-3:] == ["snapshot", "turn", "session"]
    assert activity.open_turns(Layout(str(work / ".locus"))) == []


def test_others_at_work_before_the_end_of_a_session_are_reported(work: Path, clients: Any) -> None:
    """P1: where another session's capture has found changes since the turn's last, no path of it is known."""
    client, other = clients("claude-code"), clients("codex")
    client.prompt()
    client.shell("a.txt")
    other.prompt()
    other.shell("b.txt")
    client.say("finish", reason="exit")
    assert end_of(work, client) == ("unfinished", ["."])


def test_a_capture_at_the_start_of_a_session_is_none_of_its_turn(work: Path, clients: Any) -> None:
    """P1: a session that is started again while its turn is under way captures, but not in that turn: what
    this capture found may have come after the turn's end."""
    client = clients("claude-code")
    client.prompt()
    (work / "by_hand.txt").write_text("x")
    other = clients("codex")
    other.prompt()
    other.kill()
    (work / "by_hand_too.txt").write_text("x")
    client.say("start", source="resume")  # it closes the other's turn
    client.prompt()
    client.stop()
    assert end_of(work, client) == ("unfinished", ["."])


@pytest.mark.parametrize("name", AGENTS)
def test_a_turn_whose_first_capture_failed_is_under_way(name: str, work: Path, clients: Any) -> None:
    """P1, P7: a prompt whose capture fails has begun a turn all the same: it runs, and when its agent is
    killed while idle, the next session closes it."""
    client = clients(name)
    (work / "x.txt").write_text("x")
    with contents_refused(work):
        client.prompt()
    (turn,) = activity.open_turns(Layout(str(work / ".locus")))
    assert turn.session == client.session
    client.kill()
    clients("codex")
    ends = [e["status"] for e in events(work, "turn") if e["operation"] == "end"]
    assert ends == ["interrupted"]
    assert end_of(work, client) == ("unfinished", ["x.txt"])


def test_a_turn_without_any_tree_says_how_it_is(
    work: Path, clients: Any, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: a turn that runs, and in which no capture was finished, is answered like all else that is not
    known: its state, why, what to do, and exit code 4."""
    clients("codex").kill()  # so that the directory was captured
    client = clients("claude-code")
    client.turn = "unheard"
    client.begin("make a.txt")
    turn = first_turn(work, client)
    monkeypatch.chdir(work)
    for verb in (
        ("replay", turn, "--to", work.parent / "out"),
        ("replay", turn, "a.txt", "--to", work.parent / "out"),
        ("cat", f"{turn}:a.txt"),
        ("restore", turn, "--dry-run"),
        ("diff", turn),
    ):
        output = locus(*verb)
        assert output.code == 4, (verb, output)
        assert "running: the turn is still running" in output.err and "locus log" in output.err
    error = json.loads(locus("replay", turn, "--to", work.parent / "out", "--json").err)["error"]
    assert (error["kind"], error["exit_code"]) == ("NoTree", 4)
    assert json.loads(locus("timeline", turn, "--json").out)["certainty"]["end"]["state"] == "running"


def test_the_start_of_a_turn_whose_first_capture_failed_is_a_later_one(work: Path, clients: Any) -> None:
    """P1: the start that no capture saw is answered with the first tree of the turn; no path of it is
    sure."""
    client = clients("codex")
    (work / "x.txt").write_text("x")
    with contents_refused(work):
        client.prompt()
    client.stop()
    with Store.open(work / ".locus") as store:
        state = store.tree(first_turn(work, client), "start")
    assert (state.certainty.state, state.certainty.doubt(".") is not None) == ("failed", True)
    assert b"x.txt" in {path for path, _ in state.walk()}


@pytest.mark.parametrize("at", ("begin", "end", "stop"))
def test_a_turn_whose_prompt_was_not_heard_ends_the_one_before_it(at: str, work: Path, clients: Any) -> None:
    """P1, P7: neither the Stop of the first turn nor the prompt of the second was heard: the first call of
    the second says that the first is over, and the second is closed when it dies."""
    client = clients("claude-code")
    client.prompt()
    client.shell("a.txt")
    (work / "by_hand.txt").write_text("x")
    client.turn = "unheard"
    if at == "begin":
        client.begin("make half.txt")
    elif at == "end":
        client.end(("unheard call", "make half.txt"))
    else:
        client.stop()
    first, second = (f"{first_turn(work, client)[:-1]}{number}" for number in (1, 2))
    (end,) = [e for e in events(work, "turn") if e["status"] == "interrupted"]
    assert (end["turn"], end["payload"]["reason"]) == (1, "superseded by a later prompt")
    with Store.open(work / ".locus") as store:
        known = store.certainty(first)
    assert (known.state, [path for path, _ in known.paths]) == (
        "unfinished", ["."] if at == "begin" else ["by_hand.txt"],
    )  # fmt: skip
    if at == "stop":
        assert activity.open_turns(Layout(str(work / ".locus"))) == []
        return
    (work / "half.txt").write_text("half")
    client.kill()
    with Store.open(work / ".locus") as store:
        known = store.certainty(second)
        sql = (
            f"select start_certainty, end_certainty from turns where session_id = '{first[:-4]}' and turn = 2"
        )
        assert store.query(sql).rows == [("failed", "unfinished")]
    assert (known.state, [path for path, _ in known.paths]) == ("unfinished", ["."])
    clients("codex")
    with Store.open(work / ".locus") as store:
        known = store.certainty(second)
    state = known.state, [path for path, _ in known.paths]
    assert state == ("unfinished", ["by_hand.txt", "half.txt"] if at == "begin" else ["half.txt"])
    assert [e["status"] for e in events(work, "turn") if e["turn"] == 2] == ["interrupted"]


def test_no_turn_ends_before_it_began(work: Path, clients: Any) -> None:
    """P7: where the notes of a session are older than its turn, the turn ends no earlier than it began."""
    client = clients("opencode")
    client.prompt()
    (calls,) = (work / ".locus/live").glob("*.calls")
    lines = [line for line in calls.read_text().splitlines() if not line.startswith("begun")]
    calls.write_text("".join(f"{line}\n" for line in lines))
    os.utime(calls, (1_700_000_000, 1_700_000_000))
    client.kill()
    clients("codex")
    start, end = events(work, "turn")
    assert start["occurred_at"] <= end["occurred_at"]


def ascends(found: list[dict[str, Any]]) -> bool:
    times = [event["occurred_at"] for event in found]
    return None not in times and times == sorted(times)


def timed(work: Path, client: Client) -> list[dict[str, Any]]:
    """Beginnings and ends of the client's turns and calls, then the end of its session."""
    mine = [e for e in events(work) if e["agent_session_id"] == client.session]
    of_turn = [e for e in mine if e["event_type"] in ("turn", "tool_start", "action")]
    return [*of_turn, *(e for e in mine if (e["event_type"], e["operation"]) == ("session", "end"))]


@pytest.mark.parametrize("closer", ("hook", "doctor"))
@pytest.mark.parametrize("name", AGENTS)
def test_a_dead_call_ends_no_earlier_than_it_began(
    name: str, closer: str, work: Path, clients: Any, locus: Locus
) -> None:
    """P7: a hook that begins a tool may leave the notes of its session as old as the prompt, and the file
    system's clock may be late. The call ends no earlier than it began, and is shown once, as what it ran."""
    client = clients(name)
    client.prompt()
    client.begin("make half.txt")
    (calls,) = (work / ".locus/live").glob("*.calls")
    os.utime(calls, (1_700_000_000, 1_700_000_000))
    (work / "half.txt").write_text("half")
    client.kill()
    if closer == "hook":
        clients("codex")
    else:
        locus("--store", work / ".locus", "doctor")
    found = timed(work, client)
    assert [(e["event_type"], e["operation"]) for e in found] == [
        ("turn", "start"), ("tool_start", None), ("action", None), ("turn", "end"), ("session", "end"),
    ]  # fmt: skip
    assert ascends(found)
    page = locus("--store", work / ".locus", "show", first_turn(work, client)).out.decode()
    (call,) = [line for line in page.splitlines() if "●" in line]
    assert "make half.txt" in call
    assert "no end was recorded" not in page


def test_a_turn_without_a_capture_ends_no_earlier_than_its_last_call_began(work: Path, clients: Any) -> None:
    """P7: the first call of a later turn ends the turn before it, at the time of its last call at least."""
    client = clients("claude-code")
    client.prompt()
    client.begin("make a.txt")
    (calls,) = (work / ".locus/live").glob("*.calls")
    os.utime(calls, (1_700_000_000, 1_700_000_000))
    client.turn = "unheard"
    client.begin("make b.txt")
    first = [e for e in timed(work, client) if e["turn"] == 1]
    assert [e["event_type"] for e in first] == ["turn", "tool_start", "turn"]
    assert ascends(first)


def test_the_end_of_a_dead_turn_has_the_clock_of_its_beginning(
    work: Path, clients: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: hooks whose clock is an hour ahead of the file system's leave no turn that ends before it began."""
    ahead = work.parent / "ahead"
    ahead.mkdir()
    (ahead / "sitecustomize.py").write_text(
        "import time\nreal = time.time_ns\ntime.time_ns = lambda: real() + 3600 * 10**9\n"
    )
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ahead), os.environ.get("PYTHONPATH")])))
        client = clients("codex")
        client.prompt()
    client.kill()
    clients("codex")
    start, end, session = timed(work, client)
    assert (start["operation"], end["operation"], session["operation"]) == ("start", "end", "end")
    assert start["occurred_at"] > time.time_ns() // 1000 + 3000 * 10**6
    assert ascends([start, end, session])


def test_a_turn_that_died_before_any_capture_was_finished_is_interrupted(
    work: Path, clients: Any, locus: Locus
) -> None:
    """P1, P7: it is no turn that records no files: running while its process lives, then unfinished."""
    client = clients("claude-code")
    with contents_refused(work):
        client.prompt()
    turn = first_turn(work, client)
    with Store.open(work / ".locus") as store:
        assert store.certainty(turn).state == "running"
    client.kill()
    with Store.open(work / ".locus") as store:
        states = store.certainty(turn, "start").state, store.certainty(turn).state
        assert states == ("failed", "unfinished")
        assert store.query("select start_certainty, end_certainty from turns").rows == [states]
    for verb in ("log", "show", "timeline"):
        arguments = () if verb == "log" else (turn,)
        assert (
            "interrupted, not closed yet" in locus("--store", work / ".locus", verb, *arguments).out.decode()
        )
    client.start()
