"""Sessions of the true Gemini CLI, played to the hook program while the same files change, then imported.

The fixtures are made by tests/e2e/record_gemini.py.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from eventlog.importers import importer, sources
from eventlog.store import Store
from tests.agents.test_captured_sessions import _add_lines, _make, strings, visible
from tests.cli.hook_support import run_hook
from tests.e2e.record_hook import tree_of
from tests.importers.test_hook_matching import COUNTS
from tests.worktree.support import git

FIXTURES = sorted((Path(__file__).parent.parent / "fixtures/gemini-cli").glob("*.jsonl"))
LOOKS = ("BeforeAgent", "AfterTool", "AfterAgent")


class Played:
    """One fixture, played into a new project."""

    def __init__(self, fixture: Path, directory: Path) -> None:
        self.project = directory / "kiosk"
        text = fixture.read_text(encoding="utf-8").replace("@PROJECT@", str(self.project))
        for name in ("SCRATCH", "HOME", "BELOW"):
            text = text.replace(f"@{name}@", str(directory / name.lower()))
        self.head, *self.steps = (json.loads(line) for line in text.splitlines())
        self.trees: list[dict[str, list[str]]] = []  # at the end of each turn
        self.is_open = False
        self.chats = directory / "home/.gemini/tmp/kiosk/chats"

    def play(self, unheard: Sequence[str] = ()) -> None:
        """Args: unheard: hooks that are lost, but for the first of each."""
        lost = Counter[str]()
        self.project.mkdir()
        git(self.project, "init", "-q", "-b", "main")
        self._change(self.steps[0].pop("changes"))
        Store.init(self.project / ".locus").close()
        for step in self.steps:
            self._change(step.get("changes", {}))
            for path, lines in step.get("chat", {}).items():
                _add_lines(Path(path), lines)
            call = step.get("call")
            if call is not None:
                name = call["hook_event_name"]
                lost[name] += name in unheard
                if lost[name] > 1:
                    continue
                run_hook(json.dumps(call).encode(), "gemini-cli", self.project)
                self._look(name)

    def _change(self, changes: dict[str, Any]) -> None:
        for path, entry in changes.items():
            file = self.project / path
            if entry is None or os.path.lexists(file):
                file.unlink()
            if entry is not None:
                _make(file, *entry)

    def _look(self, name: str) -> None:
        if name == "BeforeAgent":
            if self.is_open:  # the turn before was broken off, and is closed with what is here now
                self.trees[-1] = visible(tree_of(self.project))
            self.trees.append({})
        self.is_open = name not in ("AfterAgent", "SessionEnd") and (self.is_open or name == "BeforeAgent")
        if name in LOOKS:
            self.trees[-1] = visible(tree_of(self.project))


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.stem)
def test_a_captured_session_is_recorded_whole_and_once(fixture: Path, tmp_path: Path) -> None:
    """P1, P3, P4: the calls of a true client give every turn's files byte for byte, each prompt, tool call
    and model call once; the chats that it wrote add texts, and nothing that is known."""
    played = Played(fixture, tmp_path)
    played.play()
    with Store.open(played.project / ".locus") as store:
        events: list[dict[str, Any]] = [dict(event) for event in store.events()]
        starts = [e for e in events if e["event_type"] == "turn" and e.get("operation") == "start"]
        replays = []
        for start in starts:
            turn = store.turn(str(start["context_id"]))
            whole = store.replay(turn, tmp_path / turn.name)
            # Gemini CLI tells no end of a turn that was broken off: the next capture closes it, and names
            # what it found.
            closed = [one for one in store.timeline(turn) if "closed_by" in cast(Any, one["payload"])]
            named = [path for path, _ in whole.missing]
            assert (named, whole.skipped) == ([b"half.txt"] if closed else [], [])
            replays.append(tree_of(tmp_path / turn.name))
        before = [store.query(sql).rows for sql in COUNTS]
        found = sources.named("gemini-cli", [str(played.chats)])
        report = importer.run(store, "gemini-cli", found)
        after = [store.query(sql).rows for sql in COUNTS]
        actions = store.query("select count(*) from actions").rows
        tokens = store.query("select prompt_tokens, completion_tokens from llm_calls order by all").rows
        again = importer.run(store, "gemini-cli", found)
        texts = store.query("select count(*) from events where event_type = 'message'").rows

    log = played.project / ".locus/tmp/hook-errors.log"
    head = played.head
    assert not log.exists()
    assert replays == played.trees
    assert [start["payload"]["user_message"] for start in starts] == head["prompts"]
    assert [tuple(row) for row in before[0]] == [(head["sessions"],)]
    assert [list(row) for row in tokens] == head["tokens"]
    # A tool that was killed has no end: nobody tells it.
    killed = sum("[scenario:wait]" in prompt for prompt in head["prompts"])
    assert [tuple(row) for row in actions] == [(head["tool_calls"] - killed,)]
    assert after == before
    assert (report.turns, report.calls, report.problems) == (0, 0, [])
    assert texts[0][0] >= len(head["tokens"]) - killed
    assert again.events == 0


def test_captured_prompts_that_are_lost_make_no_turn_look_certain(tmp_path: Path) -> None:
    """P1, P7: the calls of a true client, of whose prompts only the first was heard: the end of the first
    turn is not recorded as certain, and each end that names another prompt is that of a turn of its own."""
    (fixture,) = (one for one in FIXTURES if one.stem == "work")
    played = Played(fixture, tmp_path)
    played.play(unheard=("BeforeAgent",))
    with Store.open(played.project / ".locus") as store:
        ends = [e for e in store.events(event_types=("turn",)) if e["operation"] == "end"]
        states = {
            int(str(e["turn"])): store.certainty(f"{e['session_id']}_{e['turn']:03d}").state for e in ends
        }
        asked = [cast(Any, e["payload"]).get("prompt") for e in ends if e["status"] == "completed"]
        last = store.replay(f"{ends[-1]['session_id']}_003", tmp_path / "last")
    # The last two prompts are the same words: nothing tells them apart.
    assert states == {1: "unfinished", 2: "unfinished", 3: "exact"}
    _, shell, more, *_ = played.head["prompts"]
    assert asked == [None, shell, more, None]
    assert last.missing == [] and tree_of(tmp_path / "last") == visible(tree_of(played.project))


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.stem)
def test_a_fixture_holds_no_machine_and_no_long_text(fixture: Path) -> None:
    """P5: what a client tells its model is long; none of it is kept, and nobody's directories."""
    found = list(strings([json.loads(line) for line in fixture.read_text(encoding="utf-8").splitlines()]))

    assert max(map(len, found)) <= 700
    homes = re.compile(r"(?<![@\w])/(home|root|Users|tmp|private|var)/")
    assert [text for text in found if homes.search(text)] == []
