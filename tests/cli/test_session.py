"""`locus session …` on a real store."""

import json
import re
from pathlib import Path

import pytest

from eventlog.memory import intent
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store
from tests.cli.support import Ended, Locus, locus_process


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus) -> Path:
    """A store without events, and the working directory beside it."""
    monkeypatch.delenv("LOCUS_AGENT", raising=False)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    assert locus("init").code == 0
    return tmp_path / "project"


def session_id(ended: Ended) -> str:
    assert ended.code == 0, ended.err
    context_id = ended.text.strip()
    assert context_id.startswith("session:")
    return context_id.rpartition("_")[2]


def listed(locus: Locus, *options: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in locus("session", "ls", "--json", *options).text.splitlines()]


def test_a_session_begins_and_ends(empty: Path, locus: Locus) -> None:
    """S1-18, S1-49, P7, P8: its context id is the output; what happened and is known is stated beside it."""
    started = locus("session", "start", "Fix the JWT refresh bug")
    sid = session_id(started)
    ended = locus("session", "end", "--summary", "Repaired")

    assert started.text == f"session:fix-jwt-refresh-bug_{sid}\n"
    assert (ended.code, ended.text) == (0, started.text)
    assert "Ended: tool calls unknown" in ended.err
    (session,) = listed(locus, "--all")
    assert (session["status"], session["summary"], session["end_reason"], session["agent"]) == (
        "closed",
        "Repaired",
        "explicit",
        "person",
    )
    assert listed(locus) == []


def test_a_start_without_a_message_goes_on(empty: Path, locus: Locus) -> None:
    """S1-20: with an active session nothing new begins."""
    sid = session_id(locus("session", "start", "Fix the JWT refresh bug"))
    again = locus("session", "start")

    assert session_id(again) == sid
    assert "Going on with “Fix the JWT refresh bug”: 0 turns so far." in again.err
    assert len(listed(locus, "--all")) == 1


def test_a_start_without_anything_offers_the_recent_ones(empty: Path, locus: Locus) -> None:
    """S1-21: without an active session and a message the recent ones are listed, with how to go on."""
    nothing = locus("session", "start")
    sid = session_id(locus("session", "start", "Fix the JWT refresh bug"))
    locus("session", "end")
    offered = locus("session", "start")

    assert (nothing.code, nothing.text) == (1, "")
    assert "nothing was started" in nothing.err and "locus session start " in nothing.err
    assert "--resume" not in nothing.err
    assert (offered.code, offered.text) == (1, "")
    assert "Fix the JWT refresh bug" in offered.err
    assert f"locus session start --resume {sid}" in offered.err
    assert [s["status"] for s in listed(locus, "--all")] == ["closed"]


def test_an_ended_session_can_be_gone_on_with(empty: Path, locus: Locus) -> None:
    """S1-20, S1-21: --resume opens it again, under its name; the active one of the agent ends."""
    first = session_id(locus("session", "start", "Fix the JWT refresh bug"))
    second = session_id(locus("session", "start", "Speed up the parser"))
    resumed = locus("session", "start", "--resume", f"sess-{first}")

    assert session_id(resumed) == first
    assert "Ended session:speed-parser" in resumed.err
    by_id = {s["session_id"]: s for s in listed(locus, "--all")}
    assert (by_id[first]["status"], by_id[second]["status"]) == ("active", "closed")
    assert by_id[first]["title"] == "Fix the JWT refresh bug"
    assert by_id[first]["context_id"] == f"session:fix-jwt-refresh-bug_{first}"


def test_states_are_the_same_words_and_numbers_everywhere(empty: Path, locus: Locus) -> None:
    """P7: status counts as active what ls lists; an end asked for is `ended`, another one says its reason."""
    locus("session", "start", "one")
    locus("session", "start", "two")
    locus("session", "start", "three", "--agent", "codex")
    locus("session", "end")
    with Store.open(empty / ".locus") as store:
        for number in (1, 2):
            where = {"agent": "pi", "agent_session_id": f"s{number}", "repo": store.repo_hash}
            store.append(
                [{"event_type": "session", "operation": "start", **where, "payload": {"hook_us": 9}}]
            )

    states = re.findall(r"\d  (active|ended(?: \(\w+\))?)", locus("session", "ls", "--all").text)
    assert sorted(states) == ["active", "active", "ended", "ended (superseded)", "ended (superseded)"]
    listed = locus("session", "ls").text.splitlines()[1:]
    assert len(listed) == 2 == json.loads(locus("status", "--json").out)["status"]["active_sessions"]
    assert "5 (2 active)" in locus("status").text


def test_a_new_session_ends_the_active_one_of_its_agent(empty: Path, locus: Locus) -> None:
    """S1-22, S3-32: a message or --new begins another; sessions of other agents stay."""
    first = session_id(locus("session", "start", "Fix the JWT refresh bug"))
    other = session_id(locus("session", "start", "--agent", "robot", "Look after the tests"))
    second = locus("session", "start", "--new")
    third = locus("session", "start", "Speed up the parser", "--title", "Parser")

    assert f"Ended session:fix-jwt-refresh-bug_{first}" in second.err
    assert session_id(second) != first
    assert {(s["session_id"], s["title"]) for s in listed(locus)} == {
        (other, "Look after the tests"),
        (session_id(third), "Parser"),
    }
    assert [s["session_id"] for s in listed(locus, "--agent", "robot")] == [other]


def test_the_agent_may_come_from_the_environment(empty: Path) -> None:
    """S1-20: LOCUS_AGENT names whose session is meant, for every process that a program starts."""
    begun = locus_process("session", "start", "Work", cwd=empty, LOCUS_AGENT="robot")
    again = locus_process("session", "start", cwd=empty, LOCUS_AGENT="robot")
    mine = locus_process("session", "start", cwd=empty)

    assert (begun.code, again.code, mine.code) == (0, 0, 1)
    assert begun.out == again.out


def test_a_recorder_works_in_the_session_that_was_started(empty: Path, locus: Locus) -> None:
    """S1-20, S1-57: a program of the same agent goes on in it; its turns show."""
    sid = session_id(locus("session", "start", "--agent", "script", "Fix the JWT refresh bug"))
    with Store.open(empty / ".locus") as store:
        Recorder(store, agent="script").start_turn("The first step of many")
    shown = locus("session", "show", sid)
    document = json.loads(locus("session", "show", f"sess-{sid}", "--json").text)

    assert f"{sid}_001" in shown.text and "The first step of many" in shown.text
    assert document["session"]["session_id"] == sid
    assert [turn["turn"] for turn in document["turns"]] == [1]
    assert locus("show", f"sess-{sid}", "--fields").text == shown.text
    assert "Fix the JWT refresh bug" in locus("session", "ls").text


def test_the_only_active_session_is_meant(empty: Path, locus: Locus) -> None:
    """S1-57, P8: `session end` and `show` without a name are about the agent's session that is open here; of
    several one has to be named, and nothing ends."""
    first = session_id(locus("session", "start", "--agent", "codex", "Fix the tests"))
    assert first in locus("session", "show").text
    second = session_id(locus("session", "start", "--agent", "claude-code", "Write the docs"))
    refused = locus("session", "end")
    assert (refused.code, f"sess-{first} of codex" in refused.err) == (1, True)
    assert locus("session", "end", "--agent", "claude-code").code == 0
    assert first in locus("session", "end").text and second != first
    assert "No active session" in locus("session", "end").err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("end",), 1, "No active session for agent 'person'."),
        (("show",), 1, "No active session for agent 'person'."),
        (("end", "zzzzzzzz"), 1, "Session not found: zzzzzzzz. `locus session ls --all` lists them.\n"),
        (("show", "zzzzzzzz"), 1, "Session not found: zzzzzzzz. `locus session ls --all` lists them.\n"),
        (("start", "--scope", "src"), 2, "--focus"),
        (("start", "m", "--focus", "m"), 2, "--focus"),
        (("start", "m", "--scope", "${PWD}"), 2, "--scope"),
        (("start", "--resume", "zzzzzzzz"), 1, "no session is called"),
        (("start", "message", "--resume", "x"), 2, "--resume"),
        (("start", "--new", "--resume", "x"), 2, "--resume"),
    ],
)
def test_what_cannot_be_done_says_so(
    empty: Path, locus: Locus, arguments: tuple[str, ...], code: int, words: str
) -> None:
    """P8, S3-13, S3-15: one clear line, nothing on stdout, nothing recorded."""
    ended = locus("session", *arguments)

    assert (ended.code, ended.text) == (code, "")
    assert words in ended.err
    assert listed(locus, "--all") == []


def test_a_session_ends_once(empty: Path, locus: Locus) -> None:
    """S1-49, P8: ending it again by its id is refused and changes nothing."""
    sid = session_id(locus("session", "start", "Fix the JWT refresh bug"))
    first = locus("session", "end", sid, "--summary", "one")
    second = locus("session", "end", sid, "--summary", "two")

    assert (first.code, second.code, second.text) == (0, 1, "")
    assert f"Session {sid} is already ended." in second.err
    assert [s["summary"] for s in listed(locus, "--all")] == ["one"]


def test_recorded_text_is_harmless_on_a_terminal(empty: Path, locus: Locus) -> None:
    """P8: control characters of a title are shown, not obeyed."""
    session_id(locus("session", "start", "red \x1b[31m alert"))

    assert "\x1b" not in locus("session", "ls").text
    assert "\x1b" not in locus("session", "start").err


def test_a_session_says_what_it_is_about(empty: Path, locus: Locus) -> None:
    """S3-12, S3-14, S3-15, S3-39: focus, scope and description; by its alias, or the one that is active."""
    started = locus(
        "session", "start", "--focus", "auth", "--scope", "src/", "--scope", "b", "--description", "why"
    )
    sid = session_id(started)
    assert f"Began sess-{sid}, a session of person." in started.err
    (reported,) = listed(locus)

    assert (reported["id"], reported["focus"], reported["scope"], reported["description"]) == (
        f"sess-{sid}",
        "auth",
        ["src/", "b"],
        "why",
    )
    assert f"sess-{sid}" in locus("session", "ls").text and "auth [src/, b]" in locus("session", "ls").text
    shown = locus("session", "show")
    assert shown.text == locus("session", "show", f"sess-{sid}").text
    assert "focus" in shown.text and "src/, b" in shown.text
    document = json.loads(locus("session", "show", "--json").text)
    assert (document["intent"]["id"], document["intent"]["focus"]) == (f"sess-{sid}", "auth")


def test_sessions_that_ended_are_not_listed(empty: Path, locus: Locus) -> None:
    """S3-8, S3-13, S3-14: an agent's active session ends, and only --all shows it again."""
    locus("session", "start", "Make tea", "--agent", "one")
    locus("session", "start", "Make coffee", "--agent", "two")
    ended = locus("session", "end", "--agent", "two")

    assert ended.code == 0 and "make-coffee" in ended.text
    assert [item["focus"] for item in listed(locus)] == ["Make tea"]
    assert {item["focus"] for item in listed(locus, "--all")} == {"Make tea", "Make coffee"}


def test_every_session_command_ends_what_is_stale(empty: Path, locus: Locus) -> None:
    """S3-29: start, end, ls and show end sessions that nobody ended within 24 hours; so does `who`."""
    for number, words in enumerate((("start", "new"), ("end",), ("ls",), ("show",), ("who",))):
        with Store.open(empty / ".locus") as store:
            store.append(
                [
                    {
                        "event_type": "session",
                        "operation": "start",
                        "status": "active",
                        "agent": f"agent-{number}",
                        "session_id": f"crashed{number}",
                        "repo": store.repo_hash,
                        "occurred_at": 1_000,
                        "payload": {},
                    }
                ]
            )
        locus(*(words if words == ("who",) else ("session", *words)))
        with Store.open(empty / ".locus") as store:
            found = store.query(
                "select status, end_reason, epoch_us(ended_at) from sessions where session_id = $1",
                [f"crashed{number}"],
            )
        assert found.rows == [("closed", "stale", 1_000 + 24 * 3_600_000_000)], words


def test_who_is_at_work(empty: Path, locus: Locus) -> None:
    """S3-38, P8: sessions, their files and where they meet, for people and as JSON."""
    assert "Nobody is at work here." in locus("who").err
    ids = [session_id(locus("session", "start", "--agent", name, "--focus", "auth")) for name in ("a", "b")]
    with Store.open(empty / ".locus") as store:
        for sid in ids:
            store.append(
                [
                    {
                        "event_type": "file",
                        "operation": "edit",
                        "session_id": sid,
                        "path": "x\x1b.py",
                        "payload": {},
                    }
                ]
            )
    shown = locus("who")
    document = json.loads(locus("who", "--json").text)

    assert shown.code == 0 and "\x1b" not in shown.text
    assert f"sess-{ids[0]}  a  since" in shown.text and "Overlaps" in shown.text
    assert shown.text.partition("Overlaps")[0].count('"x\\033.py"  changed') == 2
    assert [one["id"] for one in document["sessions"]] == [f"sess-{sid}" for sid in reversed(ids)]
    assert [(one["first"], one["second"]) for one in document["overlaps"]] == [
        (f"sess-{ids[0]}", f"sess-{ids[1]}")
    ]


def test_the_next_session_is_briefed(empty: Path, locus: Locus) -> None:
    """S3-24, S3-27, S3-28, P8: `locus briefing` as text and as JSON, within its budget."""
    sid = session_id(locus("session", "start", "--focus", "auth", "--scope", "src/"))
    shown, document = locus("briefing"), json.loads(locus("briefing", "--json").text)

    assert "Briefing scoped to session: auth [src/]\n" in shown.text
    assert f'[sess-{sid}] person: "auth" (src/) — started 0m ago\n' in shown.text
    assert (document["text"], document["scoped_by"]) == (shown.text, f"sess-{sid}")
    assert 0 < document["tokens"] <= document["budget"] == 1000
    output = locus("briefing", "--focus", "the parser", "--scope", "lib", "--agent", "nobody")
    assert "Briefing scoped to: the parser [lib]\n" in output.text
    nothing = locus("briefing", "--budget", "0")
    assert (nothing.code, nothing.text) == (0, "") and "Nothing fits into 0 tokens." in nothing.err
    assert locus("briefing", "--scope", "${PWD}").code == 2


def test_status_asks_for_the_active_sessions_only_where_there_are_some(
    empty: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: `status` is no dearer than `log`, which does not ask for them."""
    asked: list[object] = []
    monkeypatch.setattr(intent, "listed_without_stale", lambda *which: asked.append(which) or [])
    assert json.loads(locus("status", "--json").out)["status"]["active_sessions"] == 0
    assert not asked

    locus("session", "start", "Fix it")
    locus("status")
    assert len(asked) == 1
