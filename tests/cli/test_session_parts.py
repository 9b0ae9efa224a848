"""An agent's conversation that is longer than the turn limit, through the doors that agents and people
use."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.names import next_session_id, session_id_of
from eventlog.store import Store
from tests.agents.claude_support import Teller, text, write
from tests.cli.hook_support import Agent, events, here, project, replayed
from tests.cli.support import Locus

PLACES = (
    "select coalesce(tool_use_id, event_type || user_request), session_id, turn, context_id from events "
    "join (select session_id, turn, user_request from turns) using (session_id, turn) "
    "where event_type in ('action', 'intent') order by all"
)
PARTS = "select session_id, turn_count, status, end_reason, extends[-1], title from sessions order by all"


def limited(place: Path, locus: Locus, limit: int = 2) -> Path:
    """A repository whose store has a turn limit, made as a person makes it."""
    work = project(place)
    shutil.rmtree(work / ".locus")
    assert locus("--store", work / ".locus", "init", "--turn-limit", str(limit)).code == 0
    return work


class Session:
    """One conversation, turn by turn, as hooks hear it and as its transcript has it."""

    def __init__(self, work: Path, session: str) -> None:
        self.agent = Agent(work, session)
        self.teller = Teller(session, cwd=str(work))
        self.lines: list[dict[str, Any]] = []
        self.turns = 0
        self.heard = False

    def turn(self, *, hooks: bool = True, transcript: bool = True) -> None:
        n = self.turns = self.turns + 1
        turn, call, words = f"prompt-{n}", f"toolu_01Ab{n}", f"Step number {n} of the plan"
        file, code = f"step{n}.py", f"n = {n}\n"
        if transcript:
            args = {"file_path": str(self.agent.work / file), "content": code}
            self.lines += [
                self.teller.user(words, promptId=turn),
                *self.teller.call(f"msg_{n}", call, "Write", args, "Done", promptId=turn),
                self.teller.answer(f"msg_{n}b", text("Done.")),
            ]
        if hooks:
            if not self.heard:
                self.heard = True
                self.agent.start()
            self.agent.turn = turn
            self.agent.say("UserPromptSubmit", prompt=words)
            (self.agent.work / file).write_text(code)
            args = {"file_path": str(self.agent.work / file), "content": code}
            self.agent.end(call, "Write", args, {"type": "create", "filePath": file, "content": code})
            self.agent.stop()

    def told(self, locus: Locus) -> None:
        """Import what the transcript has."""
        write(self.agent.transcript, self.lines)
        done = locus("--store", self.agent.work / ".locus", "import", "claude-code", self.agent.transcript)
        assert done.code == 0, done.err


def rows(work: Path, sql: str) -> list[tuple[Any, ...]]:
    with Store.open(work / ".locus") as store:
        return [tuple(row) for row in store.query(sql).rows]


@pytest.mark.parametrize("order", ["hooks-import", "import-hooks", "by-turns"])
def test_hooks_and_imports_give_a_turn_the_same_part(order: str, tmp_path: Path, locus: Locus) -> None:
    """S1-58: the n-th turn of an agent's session belongs to part ⌈n / limit⌉, whichever door tells it
    first; its tool calls are where it is, and each part extends the one before."""
    work = limited(tmp_path, locus)
    one = Session(work, "long-one")
    for n in range(1, 4):
        one.turn(hooks=order == "hooks-import" or (order == "by-turns" and n != 2))
        if order == "by-turns":
            one.told(locus)
    one.told(locus)
    if order == "import-hooks":
        one.turns = 0
        for _ in range(3):
            one.turn(transcript=False)
    first = session_id_of("claude-code", "long-one")
    second = next_session_id("claude-code", first)

    places = {(row[0], row[1], row[2]) for row in rows(work, PLACES)}
    assert places == {
        (name, session, turn)
        for n, session, turn in ((1, first, 1), (2, first, 2), (3, second, 1))
        for name in (f"toolu_01Ab{n}", f"intentStep number {n} of the plan")
    }
    named = f"session:step-number-1-plan_{first}"
    state = ("closed", None) if order == "import-hooks" else ("closed", "rollover")
    found = {row[0]: row[1:] for row in rows(work, PARTS)}
    assert found[first][:3] == (2, *state)
    assert found[second][0] == 1
    assert found[second][3:] == (named, "Step number 1 of the plan")


def test_a_filter_on_a_session_takes_all_its_parts(tmp_path: Path, locus: Locus) -> None:
    """S1-58: by the id of any part the whole conversation, by a context id that part; a turn after the
    limit is replayed exactly, and ending any part ends the one that is active."""
    work = limited(tmp_path, locus, 1)
    agent = Agent(work, "long-two")
    agent.start()
    for n in (1, 2):
        agent.prompt(f"Step number {n}")
        agent.write("new.py", f"x = {n}\n")
        agent.stop()
    files = here(work)
    first = session_id_of("claude-code", "long-two")
    second = next_session_id("claude-code", first)

    def shown(*words: str) -> set[str]:
        done = locus("--store", work / ".locus", *words)
        assert done.code == 0, done.err
        return {one for one in (f"{first}_001", f"{second}_001") if one in done.text}

    both = {f"{first}_001", f"{second}_001"}
    for words in (("session", "show"), ("show",), ("log", "--session"), ("search", "step", "--session")):
        assert shown(*words, first if words[0] == "show" else second) == both, words
    for words in (("session", "show"), ("log", "--session")):
        assert shown(*words, f"session:session-{second}_{second}") == {f"{second}_001"}
    last = [event for event in events(work, "turn") if event["operation"] == "end"][-1]
    assert (last["session_id"], replayed(work, last, tmp_path / "last")) == (second, files)
    written = locus(
        "--store", work / ".locus", "export", "atif", "--to", tmp_path / "both", "--session", first
    )
    assert written.code == 0 and len((tmp_path / "both").read_text().splitlines()) == 2
    ended = locus("--store", work / ".locus", "session", "end", first)
    assert ended.text.strip().endswith(second)
    assert rows(work, "select active_session from sessions_master") == [(None,)]


def test_one_answer_to_which_session_is_active(tmp_path: Path, locus: Locus) -> None:
    """S1-57, S3-32: of a session whose agent was killed SQL, the master, `session ls` and `who` say the
    same: it is over when the next one of its agent began, and with an idle limit when nothing happens any
    more."""
    work = limited(tmp_path, locus, 0)
    killed, later = Agent(work), Agent(work)
    for one, words in ((killed, "Never ended"), (later, "Begun afterwards")):
        one.start()
        one.prompt(words)
    of = {one: session_id_of("claude-code", one.session) for one in (killed, later)}
    ask = "select session_id, status, end_reason from sessions where status is not null order by started_at"

    def truths() -> set[str]:
        """Which sessions are active, as each says it."""
        (master,) = rows(work, "select active_session, active_sessions from sessions_master")
        named = {} if master[0] is None else {master[0].rpartition("_")[2]}
        sql = {row[0] for row in rows(work, ask) if row[1] == "active"}
        listed = {line.split()[0].removeprefix("sess-") for line in ls().splitlines()[1:]}
        who = json.loads(locus("--store", work / ".locus", "who", "--json").text)["sessions"]
        assert set(named) == sql == listed == {one["id"].removeprefix("sess-") for one in who}
        assert master[1] == len(sql)
        return sql

    def ls() -> str:
        return locus("--store", work / ".locus", "session", "ls").text

    assert truths() == {of[later]}
    assert rows(work, ask)[0][1:] == ("closed", "superseded")
    (work / ".locus/config.toml").write_text("[sessions]\nidle_hours = 1\n")
    assert truths() == {of[later]}
    with Store.open(work / ".locus") as store:
        old = store.fs.time_ns() // 1000 - 2 * 3_600_000_000
        columns = {"agent": "codex", "agent_session_id": "left", "occurred_at": old}
        store.append([{"event_type": "session", "operation": "start", "payload": {"hook_us": 1}, **columns}])
    assert truths() == {of[later]}
    assert (session_id_of("codex", "left"), "closed", "idle") in rows(work, ask)


def test_the_master_extends_its_project(tmp_path: Path, locus: Locus) -> None:
    """S1-17, S1-5: whoever makes the master, it extends the anchor of its project; so does one that an
    earlier hook wrote without the link."""
    work = project(tmp_path)
    Agent(work).start()
    (master,) = events(work, "sessions")
    link = f"knowledge:work_{master['repo']}"
    assert master["extends"] == [link]
    with Store.open(work / ".locus") as store:
        columns = {"repo": "0" * 12, "title": "old", "operation": "start"}
        store.append([{"event_type": "sessions", "payload": {}, **columns}])
    assert rows(work, "select extends from sessions_master order by repo") == [
        (["knowledge:old_000000000000"],),
        ([link],),
    ]
