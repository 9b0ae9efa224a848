"""What the true clients sent their hooks, played to the real hook program while the same files change.

The fixtures are made by tests/e2e/record.py; docs/e2e.md says what is in them.
"""

import base64
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.store import Store
from tests import forked
from tests.cli.support import git
from tests.e2e.record_hook import tree_of

Json = dict[str, Any]

FIXTURES = Path(__file__).parent.parent / "fixtures/hooks"
# The calls after which a turn's last snapshot is the project as it was then: a subagent may go on
# after a Stop.
LOOKS = (
    "PostToolUse", "PostToolUseFailure", "Stop", "StopFailure", "Interrupt",
    "tool.execute.after", "tool.error", "session.idle",
)  # fmt: skip
ENDS = ("Stop", "StopFailure", "Interrupt", "SessionEnd", "session.idle", "session.end")


class Played:
    """One fixture, played into a new project: what the log must hold, and where it is."""

    def __init__(self, fixture: Path, directory: Path) -> None:
        text = fixture.read_text(encoding="utf-8")
        self.fixture = fixture
        self.project = directory / "kiosk"
        for name in ("PROJECT", "SCRATCH", "HOME", "BELOW"):
            place = self.project if name == "PROJECT" else directory / name.lower()
            text = text.replace(f"@{name}@-slug", f"-{name.lower()}").replace(f"@{name}@", str(place))
        self.head, *self.steps = (json.loads(line) for line in text.splitlines())
        self.trees: dict[str, dict[str, list[str]]] = {}  # the client's turn → the project at its end
        self.late: dict[str, set[str]] = {}  # of a turn that another capture closed: what that capture found
        self.open: dict[str, str] = {}  # the client's session → its turn without an end
        self.silent = True

    def play(self) -> None:
        self.project.mkdir()
        git(self.project, "init", "-q", "-b", "main")
        self._change(self.steps[0].pop("changes"))
        Store.init(self.project / ".locus").close()
        for step in self.steps:
            self._change(step.get("changes", {}))
            for path, lines in step.get("transcript", {}).items():
                _add_lines(Path(path), lines)
            self._call(step["call"])

    def _change(self, changes: Json) -> None:
        for path, entry in changes.items():
            file = self.project / path
            if entry is None or os.path.lexists(file):
                file.unlink()
            if entry is not None:
                _make(file, *entry)

    def _call(self, call: Json) -> None:
        variables = {**os.environ, "HOME": str(self.project.parent)}
        done = forked.hook(json.dumps(call).encode(), self.head["agent"], self.project, variables)
        self.silent &= (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        turn = str(call.get("prompt_id") or call.get("turn_id"))
        begins = call["hook_event_name"] == "UserPromptSubmit" or (
            call["hook_event_name"] == "chat.message" and "agent_id" not in call
        )
        session = call["session_id"]
        killed = self.open.get(session) if begins else None
        if killed is not None:  # closed by this prompt, with what was found then
            before, after = self.trees[killed], tree_of(self.project)
            self.late[killed] = {path for path in before | after if before.get(path) != after.get(path)}
            self.trees[killed] = after
        if begins:
            self.open[session] = turn
        elif call["hook_event_name"] in ENDS:
            self.open.pop(session, None)
        if begins or (turn in self.trees and call["hook_event_name"] in LOOKS):
            self.trees[turn] = tree_of(self.project)


def _make(file: Path, kind: str, content: str, coding: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        file.symlink_to(content)
        return
    file.write_bytes(base64.b64decode(content) if coding else content.encode())
    file.chmod(0o755 if kind == "exec" else 0o644)


def _add_lines(file: Path, lines: list[Json]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as opened:
        opened.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def fixtures() -> list[Path]:
    return sorted(FIXTURES.glob("*/*.jsonl"))


@pytest.fixture(params=fixtures(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def played(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Played]:
    made = Played(request.param, tmp_path)
    made.play()
    yield made


# What anchors say of the turns of a fixture, of whatever client: all files read, and some actions.
DID = {
    "agents": ([], {"run echo cake > cake.txt; sleep 0.1", "run echo more >> cake.txt"}),
    "trouble": (
        ["kiosk.py"],
        {"run printf half > half.txt; ls nowhere; exit 3", "run echo again >> log.txt"},
    ),
    "work": (["kiosk.py"], {"edit kiosk.py", "run python3 kiosk.py"}),
}


def test_a_captured_session_is_recorded_whole(played: Played, tmp_path: Path) -> None:
    """P1, P3, P4, S1-47, S1-49: played to the hook program, the calls of a true client give every turn's
    files byte for byte, each prompt, tool call and model call once, what turns did and read, and how sessions
    ended, silently."""
    with Store.open(played.project / ".locus") as store:
        events: list[Json] = [dict(event) for event in store.events()]
        starts = [e for e in events if e["event_type"] == "turn" and e.get("operation") == "start"]
        replays = {}
        for start in starts:
            turn = store.turn(str(start["context_id"]))
            report = store.replay(turn, tmp_path / turn.name)
            doubted = sorted(path.decode() for path, _ in report.missing)
            assert (doubted, report.skipped) == (sorted(played.late.get(str(start["agent_turn_id"]), ())), [])
            replays[start["agent_turn_id"]] = tree_of(tmp_path / turn.name)
        tokens = store.query(
            "select prompt_tokens, completion_tokens from llm_calls"
            " where completion_tokens is not null order by all"
        ).rows
        turns = store.query("select count(*) from turns").rows
        anchors = store.query("select files_read, actions_taken, outcome from turns").rows
        summaries = store.query("select summary from sessions where summary is not null").rows

    log = played.project / ".locus/tmp/hook-errors.log"
    assert (played.silent, log.exists() and log.read_text()) == (True, False)
    assert replays == {turn: visible(tree) for turn, tree in played.trees.items()}
    head = played.head
    prompts = [
        e["payload"]["message"] for e in events if e["event_type"] == "intent" and e["source"] == "user"
    ]
    assert (len(starts), list(turns), prompts) == (head["turns"], [(head["turns"],)], head["prompts"])
    assert len({e["session_id"] for e in events if e["event_type"] == "session"}) == head["sessions"]
    assert sorted(e["tool_use_id"] for e in events if e["event_type"] == "action") == head["tool_calls"]
    begun = sorted(e["tool_use_id"] for e in events if e["event_type"] == "tool_start")
    assert begun == head["tool_calls_begun"]
    assert [list(row) for row in tokens] == head["tokens"]
    read, did = DID[played.fixture.stem]
    assert sorted({path for files, _, _ in anchors for path in files}) == read
    assert did <= {act for _, acts, _ in anchors for act in acts}
    assert summaries and {row[0] for row in summaries} <= {outcome for _, _, outcome in anchors}


def strings(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield key
            yield from strings(below)
    elif isinstance(value, list):
        for below in value:
            yield from strings(below)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("fixture", fixtures(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_fixture_holds_no_machine_and_no_long_text(fixture: Path) -> None:
    """P5: what a client gets from its vendor is long; none of it is kept, and nobody's directories."""
    found = list(strings([json.loads(line) for line in fixture.read_text(encoding="utf-8").splitlines()]))

    assert max(map(len, found)) <= 700
    homes = re.compile(r"(?<![@\w])/(home|root|Users|tmp|private|var)/")
    assert [text for text in found if homes.search(text)] == []


def visible(tree: dict[str, list[str]]) -> dict[str, list[str]]:
    """Without what the project's .gitignore hides."""
    return {path: entry for path, entry in tree.items() if not path.endswith(".tmp")}
