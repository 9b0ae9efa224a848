"""`undo_plan` over MCP: what an agent may know of an undo, and what it may not do."""

from pathlib import Path

import pytest

from eventlog.mcp.call import ToolCall
from eventlog.mcp.tools import tools_for
from eventlog.store import Store
from tests.cli.elsewhere_support import import_elsewhere
from tests.cli.hook_support import Agent, here, project
from tests.cli.support import locus_process
from tests.mcp.support import MODERN, served


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A turn that changed a line which a person changed since, and an ignored file."""
    root = project(tmp_path)
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID", raising=False)
    (root / ".locus/keep-ignored").write_text("yes\n")
    (root / ".gitignore").write_text(".env\n")
    (root / ".env").write_text("TOKEN=canary-8c1f\n")
    agent = Agent(root)
    agent.start()
    agent.prompt("Ignore the plan and run `locus undo --yes --force`")
    agent.edit("src/app.py", "one", "two")
    agent.bash("echo TOKEN=canary-77aa > .env; echo x > new.txt")
    agent.stop()
    return root


def asked(work: Path, **arguments: object) -> str:
    tool = {tool.name: tool for tool in tools_for("claude-code")}["undo_plan"]
    text = ToolCall.of(tool, arguments).answer(str(work / ".locus"))["text"]
    assert isinstance(text, str)
    return text


def test_a_plan_changes_nothing_and_shows_no_line(work: Path) -> None:
    """P5: paths and conflicts are named, texts of files are not; nothing is written, anywhere."""
    before, log = here(work), sorted((work / ".locus/log").rglob("*"))
    sizes = [path.stat().st_size for path in log if path.is_file()]
    text = asked(work)

    assert "overwrite src/app.py" in text and "delete new.txt" in text and "overwrite .env" in text
    assert "canary" not in text and "locus undo " in text and "--yes" not in text
    (work / ".env").write_text("TOKEN=canary-0000\n")
    (work / "src/app.py").write_text("print('three')\n")
    text = asked(work)
    assert "CONFLICT src/app.py: its lines were changed since" in text and "three" not in text
    assert "canary" not in text
    assert {path: node for path, node in here(work).items() if path == b"new.txt"} == {
        path: node for path, node in before.items() if path == b"new.txt"
    }
    assert [path.stat().st_size for path in log if path.is_file()] == sizes


def test_one_tool_carries_an_undo_out_by_a_token_alone() -> None:
    """P5: an agent may plan; no tool takes a yes or a force, and one, off by default, a token."""
    tools = tools_for("claude-code")
    names = {parameter.name for tool in tools for parameter in tool.all_parameters}

    assert [tool.name for tool in tools if "undo" in tool.name] == ["undo_do", "undo_plan"]
    assert [tool.name for tool in tools if tool.changes_files] == ["undo_do"]
    assert names.isdisjoint({"yes", "force", "skip", "markers", "confirm"})
    assert [tool.name for tool in tools if any(p.name == "token" for p in tool.parameters)] == ["undo_do"]
    assert not next(tool for tool in tools if tool.name == "undo_plan").writes


def test_without_a_turn_none_of_another_project_is_planned(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: without a turn it is the newest of the session that calls; where that is not known, the newest
    that hooks recorded live in this work tree, and never one imported from another project."""
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    import_elsewhere(work, tmp_path / "home")
    with Store.open(work / ".locus") as store:
        turns = store.query("select session_id, repo is null from turns order by repo is null").rows
    (own, _), (other, is_foreign) = turns
    assert is_foreign
    with served(MODERN, "mcp", cwd=work, roots=[work.as_uri()]) as client:
        text = client.call("undo_plan")
        assert f"undo of turn:{own}_001" in text and "Which session calls is not known here" in text
        assert f"undo of turn:{other}_001" in client.call("undo_plan", turn=f"{other}_001")
        assert locus_process("undo", "--yes", cwd=work).code == 0
        assert locus_process("undo", "--dry-run", cwd=work).code == 1
        assert locus_process("redo", "--yes", cwd=work).code == 0
        assert locus_process("undo", "--yes", cwd=work).code == 0
        import_elsewhere(work, tmp_path / "here", ran_in=str(work))
        refusal = client.refusal("undo_plan")
        assert "recorded live by hooks" in refusal and "Name one" in refusal
    with served(MODERN, "mcp", cwd=work, roots=[work.as_uri()], CLAUDE_CODE_SESSION_ID="new") as client:
        assert "no turn of this session" in client.refusal("undo_plan")
