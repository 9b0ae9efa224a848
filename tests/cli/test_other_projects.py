"""What `locus import --all-projects` adds of other projects is in no briefing of this one."""

import json
from pathlib import Path

import pytest

from eventlog.mcp.call import ToolCall
from eventlog.mcp.tools import tools_for
from eventlog.memory import briefing_of_log
from eventlog.memory.facts import FactsFold, empty
from eventlog.store import Store
from tests.cli.elsewhere_support import ANSWER, import_elsewhere
from tests.cli.hook_support import Agent, project
from tests.cli.support import Locus, git


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a turn that hooks recorded."""
    root = project(tmp_path)
    monkeypatch.chdir(root)
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    for name in ("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_SESSION_ID"):
        monkeypatch.delenv(name, raising=False)
    agent = Agent(root)
    agent.start()
    agent.prompt("Count in German")
    agent.edit("src/app.py", "one", "eins")
    agent.bash("false")
    agent.stop("Counted")
    agent.finish()
    return root


def briefed(locus: Locus) -> str:
    return locus("briefing", "--focus", "zeppelin German").text


def test_a_briefing_has_facts_of_its_project_alone(work: Path, tmp_path: Path, locus: Locus) -> None:
    """P2, S3-21: turns, errors, files, codes and counts are of this project; what was imported from another
    is in no part, nor in the context for a message. One imported by its name is this project's."""
    before = briefed(locus)
    import_elsewhere(work, tmp_path / "home")
    after = briefed(locus)
    assert "zeppelin" not in after.replace("zeppelin German", "") and "(gone)" not in after
    assert "Counted" in after and "recorded: 1 session and 1 turn" in after
    assert before.split("\n## ")[1:-1] == after.split("\n## ")[1:-1]
    assert "zeppelin" not in locus("codes").text
    status = json.loads(locus("status", "--json").text)["status"]
    assert (status["sessions"], status["project_sessions"], status["project_turns"]) == (2, 1, 1)
    assert "2 (1 of this project)" in locus("status").text

    for said in (
        locus("context", "for", "zeppelin German", "--json").text,
        call(work, "context", message="zeppelin German"),
        call(work, "briefing"),
    ):
        assert "painted" not in said and "no paint" not in said and "Counted" in said
    assert "no paint" in locus("search", "zeppelin").text
    import_elsewhere(work, tmp_path / "here", ran_in=str(work))
    assert "zeppelin.txt" in briefed(locus)
    assert ANSWER in locus("context", "for", "zeppelin").text


def test_the_hook_s_briefing_has_facts_of_its_project_alone(work: Path, tmp_path: Path) -> None:
    """P2, S3-21: also what the hook folds of the journal, without an index."""
    import_elsewhere(work, tmp_path / "home")
    with Store.open(work / ".locus") as store:
        fold = FactsFold(empty(store.project_name, store.repo_hash))
        for event in store.rows():
            fold.take(int(event["position"]), event, event["payload"] or {})
        folded, gathered = fold.end(), briefing_of_log.gather(store)
    for facts in (folded, gathered):
        assert [turn["text"] for turn in facts["turns"]] == ["Count in German"]
        assert [file["path"] for file in facts["files"]] == ["src/app.py"]
        assert "zeppelin" not in json.dumps(facts)


def test_a_history_of_git_is_this_project_s(work: Path, tmp_path: Path, locus: Locus) -> None:
    """P2: `locus import git PATH` names a history; it counts, whatever its first commit."""
    repository = tmp_path / "history"
    repository.mkdir()
    git(repository, "init", "-q")
    (repository / "balloon.txt").write_text("red")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "Paint the balloon")
    assert locus("import", "git", str(repository)).code == 0
    assert "balloon.txt" in briefed(locus)
    assert "balloon" in locus("context", "for", "balloon").text


def call(work: Path, tool: str, **arguments: object) -> str:
    tools = {tool.name: tool for tool in tools_for("claude-code")}
    return str(ToolCall.of(tools[tool], arguments).answer(str(work / ".locus"))["text"])
