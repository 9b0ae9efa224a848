"""A session that hooks recorded, imported from its transcript: only what hooks do not see is added."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventlog.doctor import gaps
from eventlog.importers import importer, sources
from eventlog.store import Store
from tests.agents.test_captured_sessions import Played, fixtures

CLAUDE = [path for path in fixtures() if path.parent.name.startswith("claude-code")]
COUNTS = (
    "select count(*) from sessions",
    "select context_id, title, outcome, tool_calls, files_modified, end_tree from turns order by 1",
    "select tool_use_id, success from actions where tool_use_id is not null order by 1",
    "select message_id, prompt_tokens, completion_tokens from llm_calls order by all",
    "select path, operation, before_hash, after_hash from files order by position",
)


def place(fixture: Path, tmp_path: Path) -> tuple[Played, Path]:
    """A project with a recorded session, and its directory of transcripts."""
    played = Played(fixture, tmp_path)
    played.play()
    return played, tmp_path / "home/.claude/projects"


@pytest.mark.parametrize("fixture", CLAUDE, ids=lambda path: path.stem)
def test_importing_a_recorded_session_duplicates_nothing(fixture: Path, tmp_path: Path) -> None:
    """P3: turns, tool calls, model calls and files stay those that hooks reported."""
    played, transcripts = place(fixture, tmp_path)
    with Store.open(played.project / ".locus") as store:
        before = [store.query(sql).rows for sql in COUNTS]
        found = sources.named("claude-code", [str(transcripts)])
        report = importer.run(store, "claude-code", found)
        again = importer.run(store, "claude-code", found)

        assert [store.query(sql).rows for sql in COUNTS] == before
        assert (report.turns, report.calls, report.problems) == (0, 0, [])
        assert (again.events, again.unchanged) == (0, len(found))
        ids = [event["event_id"] for event in store.events()]
        assert len(ids) == len(set(ids))


def test_what_no_hook_reported_is_added_and_named_a_gap(tmp_path: Path) -> None:
    """P7: a text of the model and a refused call are in the turn that hooks recorded."""
    (fixture,) = (path for path in CLAUDE if path.stem == "work")
    played, transcripts = place(fixture, tmp_path)
    (path,) = transcripts.rglob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    (turn, *_) = (one["promptId"] for one in lines if "promptId" in one)
    shared: dict[str, Any] = {"sessionId": lines[0]["sessionId"], "promptId": turn, "isSidechain": False}
    call = {"type": "tool_use", "id": "toolu_unheard", "name": "Edit", "input": {"file_path": "a.py"}}
    refusal = {
        "type": "tool_result",
        "tool_use_id": "toolu_unheard",
        "is_error": True,
        "content": "No such text",
    }
    listed = [{"type": "text", "text": "I could not find it."}, call]
    lines += [
        {**shared, "type": "assistant", "uuid": "n1", "message": {"role": "assistant", "content": listed}},
        {**shared, "type": "user", "uuid": "n2", "message": {"role": "user", "content": [refusal]}},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    with Store.open(played.project / ".locus") as store:
        importer.run(store, "claude-code", sources.named("claude-code", [str(transcripts)]))

        (action,) = [
            e for e in store.events() if e["tool_use_id"] == "toolu_unheard" and e["event_type"] == "action"
        ]
        assert (action["agent_turn_id"], action["success"]) == (turn, False)
        assert action["turn"] == 1
        texts = [e["payload"]["text"] for e in store.events() if e["event_type"] == "message"]
        assert texts == ["I could not find it."]
        (note,) = [e for e in store.events() if e["event_type"] == "import"]
        assert note["payload"]["gaps"]["hooks_missed"] == 1


def test_doctor_names_the_gaps_and_what_is_not_imported(tmp_path: Path) -> None:
    """P7: sessions on disk that the log lacks, and afterwards calls that only one side reported."""
    (fixture,) = (path for path in CLAUDE if path.stem == "work")
    played, transcripts = place(fixture, tmp_path)
    home = tmp_path / "other-home"
    environ = {"HOME": str(home)}
    kept = home / ".claude/projects/shop"
    kept.mkdir(parents=True)
    (path,) = transcripts.rglob("*.jsonl")
    old = [{**json.loads(line), "cwd": str(played.project)} for line in path.read_text().splitlines()]
    (kept / path.name).write_text("".join(json.dumps(line) + "\n" for line in old))
    other = [{**line, "sessionId": "another"} for line in old]
    (kept / "another.jsonl").write_text("".join(json.dumps(line) + "\n" for line in other))

    with Store.open(played.project / ".locus") as store:
        asked = dict(gaps.checks(str(played.project), environ))
        (finding,) = asked["transcripts"](store)
        assert finding.what.startswith("1 of 2 transcripts of claude-code")
        assert list(asked["gaps"](store)) == []

        importer.run(store, "claude-code", sources.of_agent("claude-code", str(played.project), environ))

        (finding,) = asked["transcripts"](store)
        assert finding.level == "ok"
        assert finding.what.startswith("all 2 transcripts of claude-code")
        (kept / "another.jsonl").unlink()
        (finding,) = asked["transcripts"](store)
        assert finding.what.startswith(
            "the only transcript of claude-code in this repository has its session"
        )
        (finding,) = asked["gaps"](store)
        assert "reported by hooks and are not in the transcript" in finding.what
