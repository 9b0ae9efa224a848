"""Continuity codes from one session to the next, through hooks, `locus mcp`, `locus codes` and the files.

One story: an agent works in a kiosk's repository, a person adds what is next, the codes are exported beside
those of other programs, and the next session begins. What the format's own classes do is in
tests/memory/test_codes.py.
"""

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from eventlog import SessionCleanupManager
from tests.acceptance.project import Json, Project, new_project
from tests.cli.hook_support import Agent
from tests.cli.support import Ended

STORED: Json = {
    "session_id": "20260121-143022",
    "project": "hydra",
    "files": ["impl:proxy.go", "impl:supervisor.go"],
    "functions": ["impl:supervisor.Process", "impl:config.Load"],
    "decisions": ["dec:split-proxy-3-files", "dec:plan-splits-before-writing"],
    "blockers": ["block:race:test-failure-line-712"],
    "next_actions": ["next:add-mutex-to-process-struct", "next:rerun-race-detector"],
}
INJECTED = """proj:hydra
impl:proxy.go
impl:supervisor.go
impl:supervisor.Process
impl:config.Load
dec:split-proxy-3-files
dec:plan-splits-before-writing
block:race:test-failure-line-712
next:add-mutex-to-process-struct
next:rerun-race-detector
"""
FIELDS = [
    "session_id", "project", "timestamp", "files", "functions", "decisions", "blockers", "next_actions",
]  # fmt: skip
BLOCKERS = ["block:need:the-analyzer", "block:race:test-failure-line-712"]
TODOS = [
    {"content": "split proxy", "status": "completed"},
    {"content": "add mutex to process struct", "status": "in_progress"},
    {"content": "rerun race detector", "status": "pending"},
]


@dataclass
class Story:
    base: Path
    lines: list[str] = field(default_factory=list)
    said: Json = field(default_factory=dict)
    file: Json = field(default_factory=dict)
    text: str = ""
    again: list[str] = field(default_factory=list)
    of_others: dict[str, Ended] = field(default_factory=dict)
    of_next: list[str] = field(default_factory=list)
    complete: Ended | None = None
    files_at_the_end: set[str] = field(default_factory=set)
    archived: Json = field(default_factory=dict)
    cleaned: int = -1
    large: list[str] = field(default_factory=list)
    large_said: Ended | None = None


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The whole of it, once."""
    place = tmp_path_factory.mktemp("codes")
    project = new_project(place, ("README.md", "# Kiosk\n"))
    reported = Story(place / "base")
    (project.store / "config.toml").write_text(f'[memory]\ncodes_base = "{reported.base}"\n', "utf-8")
    agent = _work(project)
    reported.lines = project.must("codes").splitlines()
    reported.said = project.asked("codes", "--json")
    exported = project.locus("codes", "--export")
    reported.text = reported.base.joinpath("memory/sessions/active-kiosk.json").read_text("utf-8")
    reported.file = json.loads(reported.text)
    reported.again = exported.text.splitlines()
    _others(project, reported)
    agent.finish()
    Agent(project.root, environ=project.environment()).start()
    reported.of_next = project.must("codes").splitlines()
    _fill(project, reported)
    project.must("codes", "--complete", "--export")
    reported.complete = project.locus("codes")
    reported.files_at_the_end = {path.name for path in reported.base.glob("memory/sessions/active-*")}
    return reported


def _work(project: Project) -> Agent:
    """A session of Claude Code with two edits, tests, a list of things to do, and what it and others say."""
    agent = Agent(project.root, environ=project.environment())
    agent.start()
    agent.prompt("Split the proxy")
    agent.write("cmd/proxy.go", "package main\n\nfunc (s *S) Process() {}\n\nfunc Load() {}\n")
    agent.write("web/app.py", "async def render(a):\n    return a\n")
    agent.bash("true # go test ./...")
    agent.bash("sh run_tests.sh")  # which is not there
    call = agent.begin("TodoWrite", {"todos": TODOS})
    agent.end(call, "TodoWrite", {"todos": TODOS}, {})
    with project.mcp() as server:
        for _ in range(2):
            server.call("store_decision", summary="split proxy", reasoning="3 files")
        server.call("store_error", context="race", message="test failure line 712")
    agent.stop()
    project.must(
        "codes", "--next", "write it down", "--decision", "no llm=pure data",
        "--blocker", "need:the analyzer", "--done", "test:clustering",
    )  # fmt: skip
    return agent


def _others(project: Project, told: Story) -> None:
    """Files of other programs in the same directory: one that counts, two that expired, a broken one."""
    directory = told.base / "memory/sessions"
    now = datetime.now(UTC)
    for name, days in (("hydra", 1), ("old", -1), ("older", -8)):
        expires = (now + timedelta(days=days)).isoformat()
        data = {**STORED, "project": name, "session_id": f"of-{name}", "metadata": {"expires_at": expires}}
        (directory / f"active-{name}.json").write_text(json.dumps(data), "utf-8")
    (directory / "active-broken.json").write_text('{"session_id": ', "utf-8")
    for name in ("hydra", "old", "broken", "new-project"):
        told.of_others[name] = project.locus("codes", "--project", name)
    told.archived = json.loads((directory / "archive/of-old.json").read_text("utf-8"))
    told.cleaned = SessionCleanupManager(told.base).cleanup_expired()


def _fill(project: Project, told: Story) -> None:
    """A session that touches twenty files and leaves ten decisions and five blockers."""
    agent = Agent(project.root, environ=project.environment())
    agent.start()
    agent.prompt("Make parts")
    agent.bash("for n in $(seq 20); do echo $n > part_$n.txt; done")
    agent.stop()
    more: list[object] = []
    for number in range(10):
        more += ["--decision", f"part {number}=small"]
    for number in range(5):
        more += ["--blocker", f"need:part {number}"]
    ended = project.locus("codes", *more)
    assert ended.code == 0, ended.err
    told.large, told.large_said = ended.text.splitlines(), ended


def test_a_session_leaves_its_codes(story: Story) -> None:
    """S4-1, S4-5, S4-8…S4-11, S4-20, S4-23, S4-24: project, files, functions, decisions, blockers, next
    actions, in this order, one line each and nothing else."""
    [failure] = [line for line in story.lines if line.startswith("block:") and line not in BLOCKERS]
    assert [line for line in story.lines if line != failure] == [
        "proj:kiosk",
        "impl:proxy.go",
        "impl:app.py",
        "impl:Process",
        "impl:Load",
        "impl:render",
        "dec:split-proxy-3-files",
        "dec:no-llm-pure-data",
        *BLOCKERS,
        "next:add-mutex-to-process-struct",
        "next:rerun-race-detector",
        "next:write-it-down",
    ]
    assert all(re.fullmatch(r"(proj|impl|dec|block|next):\S+", line) for line in story.lines)


def test_the_file_has_the_stored_format(story: Story) -> None:
    """S4-2, S4-4, S4-5, S4-13, S4-16: one active file of the project, with the fields in their order, the id
    of a session by its beginning, and a week to live."""
    assert list(story.file)[: len(FIELDS)] == FIELDS and "metadata" in story.file
    assert re.fullmatch(r"\d{8}-\d{6}", story.file["session_id"])
    assert story.file["project"] == "kiosk"
    lists = [code for name in FIELDS[3:] for code in story.file[name]]
    assert lists == story.lines[1:]
    assert all(code.startswith("next:") for code in story.file["next_actions"])
    assert story.file["timestamp"].endswith("Z") and story.text.startswith('{\n  "session_id": "')
    began, ends = (
        datetime.fromisoformat(text)
        for text in (story.file["timestamp"], story.file["metadata"]["expires_at"])
    )
    assert ends - began == timedelta(days=7)


def test_what_is_done_is_kept(story: Story) -> None:
    """S4-6, S4-12, S4-25: tests that ran and did not fail, things that were done, each once."""
    assert (
        story.file["completed"] == ["test:true", "split-proxy", "test:clustering"] == story.said["completed"]
    )
    assert story.lines.count("dec:split-proxy-3-files") == 1


def test_the_command_says_what_the_file_has(story: Story) -> None:
    """S4-3, S4-21, S4-38: codes, their tokens by the estimate, the session, and when they expire."""
    assert story.said["codes"] == story.lines == story.again
    assert story.said["tokens"] == int(len(story.lines) * 1.3)
    assert {name: story.said[name] for name in FIELDS} == {name: story.file[name] for name in FIELDS}
    assert story.said["metadata"] == story.file["metadata"]


def test_the_stored_example_is_injected_line_by_line(story: Story) -> None:
    """S4-20, S4-31, S4-44, S4-47: what another program stored comes out as the ten lines, of its project
    alone."""
    assert story.of_others["hydra"].code == 0
    assert story.of_others["hydra"].text == INJECTED


def test_what_expired_or_is_broken_is_nothing(story: Story) -> None:
    """S4-15, S4-17, S4-18, S4-19, S4-39, S4-41, S4-43: no codes and no crash, the expired in the archive."""
    for name in ("old", "broken", "new-project"):
        ended = story.of_others[name]
        assert (ended.code, ended.text, ended.err) == (
            1, "", f"locus: no codes of project '{name}' that still count\n",
        )  # fmt: skip
    assert story.archived["archived_at"]
    stored = {**STORED, "project": "old", "session_id": "of-old"}
    assert {name: story.archived[name] for name in STORED} == stored


def test_cleaning_up(story: Story) -> None:
    """S4-28, S4-29, S4-45: what expired goes to the archive and is counted, what is broken is put aside."""
    assert story.cleaned == 1  # the other one had gone when it was asked for
    archive = {path.name for path in (story.base / "memory/sessions/archive").iterdir()}
    assert archive == {"of-old.json", "of-older.json", "unreadable-active-broken.json"}


def test_the_next_session_begins_with_them(story: Story) -> None:
    """S4-1, S4-31, S4-35: a session that did nothing yet hides nothing of what was left to it."""
    assert story.of_next == story.lines


def test_nothing_is_cut_off(story: Story) -> None:
    """S4-34, S4-35, S4-40, S4-42: twenty files, ten decisions, five blockers, below 1,500 tokens."""
    assert [sum(line.startswith(kind) for line in story.large) for kind in ("impl:", "dec:", "block:")] == [
        20, 10, 5,
    ]  # fmt: skip
    assert story.large_said is not None and "tokens" not in story.large_said.err


def test_complete_means_gone(story: Story) -> None:
    """S4-22, S4-48: what is complete leaves neither codes nor the active file; other projects keep theirs."""
    assert story.complete is not None and (story.complete.code, story.complete.text) == (0, "")
    assert story.files_at_the_end == {"active-hydra.json"}
