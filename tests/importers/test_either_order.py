"""Hooks and an import of the same session, in either order: one set of turns, and nothing twice."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventlog.importers import importer, sources
from eventlog.store import Store
from tests.acceptance.door import unlike_the_door
from tests.agents import test_captured_sessions as captured
from tests.agents.test_captured_sessions import _add_lines
from tests.golden import make_stores
from tests.golden.stores import Place
from tests.importers import test_gemini_hooked as gemini

Json = dict[str, Any]
FOUR = {"claude-code", "codex", "gemini-cli", "opencode"}
CASES = [
    *(pytest.param(path, "chat", id=f"gemini-{path.stem}") for path in gemini.FIXTURES),
    *(
        pytest.param(path, "transcript", id=f"claude-{path.stem}")
        for path in captured.fixtures()
        if path.parent.name.startswith("claude-code")
    ),
]
ASKED = {
    "sessions": "select agent_session_id, title from sessions order by all",
    "turns": "select user_request, tool_calls from turns order by all",
    # Not its tool and success: hooks and files say these otherwise, and who tells a call first says them.
    "actions": "select agent, count(*) from actions group by all",
    "calls": "select message_id, prompt_tokens, completion_tokens from llm_calls order by all",
    "errors": "select agent, count(*) from events where event_type = 'error' group by all",
    "prompts": "select payload from events where event_type = 'intent' order by all",
    "words": "select event_id, operation from events where event_type = 'message' order by all",
    "starts": "select agent, count(*) from events where event_type = 'tool_start' group by all",
}


def lines_of(played: Any, word: str) -> dict[Path, list[Json]]:
    """All lines of the session's files, as they stood in the end."""
    found: dict[Path, list[Json]] = {}
    for step in played.steps:
        for path, lines in step.get(word, {}).items():
            found.setdefault(Path(path), []).extend(lines)
    return {path: lines for path, lines in found.items() if path.suffix == ".jsonl"}


def imported(project: Path, agent: str, files: list[Path]) -> importer.ImportReport:
    with Store.open(project / ".locus") as store:
        return importer.run(store, agent, sources.named(agent, [str(path) for path in files]))


def import_and_play(played: Any, agent: str, files: list[Path]) -> None:
    """Play a session, with an import between the making of its store and its first hook."""
    change = played._change

    def first(changes: Json) -> None:
        change(changes)
        if (played.project / ".locus").exists():
            played._change = change
            imported(played.project, agent, files)

    played._change = first
    played.play()


def answers(project: Path, *, place: Path) -> dict[str, list[str]]:
    with Store.open(project / ".locus") as store:
        payload = {}
        for name, sql in ASKED.items():
            rows = [[_lean(value) for value in row] for row in store.query(sql).rows]
            payload[name] = sorted(str(row).replace(str(place), "") for row in rows)
        return payload


def _lean(value: object) -> object:
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    payload = json.loads(value)
    return payload["message"]


@pytest.mark.parametrize(("fixture", "word"), CASES)
def test_hooks_and_an_import_tell_one_session_in_either_order(
    fixture: Path, word: str, tmp_path: Path
) -> None:
    """P3: sessions, turns, prompts, tool calls, model calls, words and errors are the same, whoever reported
    them first; who tells them again, after the other, adds nothing."""
    agent = "gemini-cli" if word == "chat" else "claude-code"
    found = []
    for first in ("hooks", "import"):
        place = tmp_path / first
        place.mkdir()
        played = (gemini.Played if word == "chat" else captured.Played)(fixture, place)
        files = lines_of(played, word)
        if first == "hooks":
            played.play()
            imported(played.project, agent, list(files))
        else:
            for path, lines in files.items():
                _add_lines(path, lines)
            for step in played.steps:
                step.pop(word, None)
            import_and_play(played, agent, list(files))
        found.append(answers(played.project, place=place))
        files_again = [path.rename(path.with_name(f"again-{path.name}")) for path in files]
        imported(played.project, agent, files_again)
        assert answers(played.project, place=place) == found[-1]

    for name in ASKED:
        assert found[0][name] == found[1][name], name


def test_four_agents_in_either_order(tmp_path: Path) -> None:
    """P3, S0-16, S1-30, S1-38, S1-52: the same of a session of each agent with hooks, and of its transcript,
    rollout, chat or export; and each event is what the one door for events of a turn makes."""
    found = []
    for make in (make_stores.hooks_first, make_stores.transcripts_first):
        place = Place(tmp_path / make.__name__)
        for directory in (place.project, place.directory / "home"):
            directory.mkdir(parents=True)
        make(place)
        found.append(answers(place.project, place=place.directory))
        place.imports()
        assert answers(place.project, place=place.directory) == found[-1]
        with Store.open(place.store) as store:
            assert unlike_the_door(store.events()) == []
            for view in ("turns", "actions", "llm_calls"):
                rows = store.query(f"select distinct agent from {view}").rows
                assert {agent for (agent,) in rows} == FOUR, view
    for name in ASKED:
        assert found[0][name] == found[1][name], name
