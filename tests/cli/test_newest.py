"""`last`, and what comes first in a list: the newest by when it happened, whatever was recorded last."""

import json
from pathlib import Path

import pytest

from eventlog import Recorder, Store
from tests.cli.support import Locus, git, locus_process


def _history(root: Path, count: int) -> None:
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    for number in range(1, count + 1):
        (root / "f").write_text(f"{number}\n")
        git(root, "add", "f")
        git(root, "commit", "-qm", f"c{number}", at=number)


def _said(root: Path, *arguments: str, locus: "Locus | None" = None) -> str:
    """What the command says on stdout: as a process of its own, or as `locus` runs it."""
    done = locus(*arguments) if locus is not None else locus_process(*arguments, cwd=root)
    assert done.code == 0, done.err
    return done.text


def _titles(root: Path, locus: "Locus | None" = None) -> "list[str]":
    return [json.loads(line)["title"] for line in _said(root, "log", "--json", locus=locus).splitlines()]


def test_an_import_of_older_commits_does_not_change_the_last(tmp_path: Path) -> None:
    """`last` and `log` go by when commits happened, also after a second, deeper import."""
    root = tmp_path / "r"
    _history(root, 3)
    _said(root, "init")
    _said(root, "import", "git", "--limit", "1")
    assert _said(root, "cat", "last:f") == "3\n"

    _said(root, "import", "git")

    assert _said(root, "cat", "last:f") == "3\n"
    assert _titles(root) == ["c3", "c2", "c1"]


def test_last_is_of_an_agent_and_commits_have_their_own(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer commit is not `last` but `last:git`; a verb that needs files names a turn that has them."""
    root = tmp_path / "r"
    _history(root, 2)
    monkeypatch.chdir(root)
    locus("init")
    with Store.open(root / ".locus") as store:
        recorder = Recorder(store, agent="probe")
        recorder.start_turn("Say hello").end(title="Hello")
    locus("import", "git")

    assert json.loads(locus("show", "last", "--json").text)["turn"]["title"] == "Hello"
    for name in ("last:git", "last:probe"):
        agent = json.loads(locus("show", name, "--json").text)["turn"]["agent"]
        assert agent == name.removeprefix("last:")
    assert locus("cat", "last:git:f").text == "2\n"

    unknown = locus("show", "last:nobody")
    assert unknown.code == 1 and "There is last:git, last:probe." in unknown.err
    newest = json.loads(locus("show", "last:git", "--json").text)["turn"]["context_id"].removeprefix("turn:")
    for verb in (("replay", "last", "--to", str(tmp_path / "x")), ("restore", "last"), ("diff", "last")):
        without = locus(*verb)
        assert without.code == 1 and f"{newest} is the newest turn that has them" in without.err


def test_what_nobody_knows_the_time_of_is_never_the_last(tmp_path: Path, locus: Locus, shop: Path) -> None:
    """P7: an undated session is listed, at the end, has no start and no end, and is closed."""
    step = {"action": "ls", "observation": "f\n", "response": "Look.", "thought": "Look."}
    asked = [{"role": "user", "content": "Fix the tests"}]
    transcript = {"trajectory": [step], "history": asked, "info": {}, "environment": "swe_main"}
    (tmp_path / "one.traj").write_text(json.dumps(transcript))
    locus("import", "swe-agent", str(tmp_path / "one.traj"))

    nothing = locus("timeline", "last")
    assert nothing.code == 1 and "it is not known when the turns happened" in nothing.err

    with Store.open(shop / ".locus") as store:
        Recorder(store, agent="probe").start_turn("Say hello").end()
    assert _titles(shop, locus)[0] == "Say hello"
    times = "select status, started_at, ended_at, last_at from sessions where agent = 'swe-agent'"
    (session,) = json.loads(locus("sql", "--format", "json", times).text)
    assert session == {"status": "closed", "started_at": None, "ended_at": None, "last_at": None}


def test_lines_of_a_transcript_have_the_times_that_they_hold(
    tmp_path: Path, locus: Locus, shop: Path
) -> None:
    """P7: a snapshot of former contents says when inside; a line without any time has none."""
    payload = {"sessionId": "5", "cwd": str(shop), "version": "2.1.0", "isSidechain": False}
    answer = {
        "id": "m",
        "model": "big",
        "content": [{"type": "text", "text": "Hello"}],
        "usage": {"output_tokens": 5},
    }
    lines = [
        {"type": "summary", "summary": "Greetings", "leafUuid": "b"},
        {"type": "file-history-snapshot", "snapshot": {"timestamp": "2026-02-22T10:00:00.000Z"}},
        {**payload, "type": "user", "uuid": "a", "timestamp": "2026-02-22T10:00:01.000Z",
         "message": {"role": "user", "content": "Say hello"}},
        {**payload, "type": "assistant", "uuid": "b", "parentUuid": "a", "message": answer, "requestId": "r",
         "timestamp": "2026-02-22T10:00:04.500Z"},
    ]  # fmt: skip
    (tmp_path / "5.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    locus("import", "claude-code", str(tmp_path / "5.jsonl"))

    def asked(query: str) -> "list[dict[str, object]]":
        found: list[dict[str, object]] = json.loads(locus("sql", "--format", "json", query).text)
        return found

    raw = asked(
        "select operation, epoch(occurred_at)::bigint as at from events where event_type = 'transcript'"
    )
    assert raw == [
        {"operation": "summary", "at": None},
        {"operation": "file-history-snapshot", "at": 1771754400},
    ]
    assert asked("select derived_ms from llm_calls") == [{"derived_ms": 3500}]
    listed = locus("log", "--events", "--type", "transcript").text.splitlines()
    assert [line.split()[1] for line in listed[1:]] == ["2026-02-22", "–"]
