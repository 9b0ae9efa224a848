"""What the next session learns of the one before: its codes, and what bears on a workstream."""

import json

import pytest

from tests.acceptance.project import Project, new_project
from tests.cli.hook_support import Agent


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A session that decided something, failed and left things to do; then another one begins."""
    project = new_project(tmp_path_factory.mktemp("pending"), ("src/a.py", "x = 1\n"))
    (project.store / "config.toml").write_text(
        "[context]\nshared = true\n[briefing]\nat_start = true\n", "utf-8"
    )
    project.must(
        "session", "start", "--focus", "login", "--scope", "src/", "--description", "all of it",
        "--agent", "claude-code",
    )  # fmt: skip
    agent = Agent(project.root, environ=project.environment())
    project.hook("claude-code", "SessionStart", source="startup", session_id=agent.session)
    agent.prompt("Add a login")
    agent.write("src/login.py", "def login():\n    return 1\n")
    agent.bash("python3 -c \"raise AssertionError('no token')\"")
    todos = [{"content": "store the token", "status": "pending"}]
    call = agent.begin("TodoWrite", {"todos": todos})
    agent.end(call, "TodoWrite", {"todos": todos}, {})
    with project.mcp() as server:
        server.call("store_decision", summary="Login uses OAuth", reasoning="the guests have accounts")
        server.call("store_decision", summary="Tea is served warm", reasoning="it is winter")
    agent.stop()
    agent.finish()
    return project


@pytest.fixture(scope="module")
def briefing(project: Project) -> str:
    """What the next session of Claude Code is given when it begins."""
    output = project.hook("claude-code", "SessionStart", source="startup", session_id="next")
    return str(json.loads(output)["hookSpecificOutput"]["additionalContext"])


def test_a_bundle_retrieves_what_earlier_sessions_decided(project: Project) -> None:
    """S2-16, S2-24, S2-33, S2-35: a decision of another session that bears on the feature request is in
    the bundle, with where it is from; one that does not is left out."""
    update = {"feature_request": "Add a login with OAuth"}
    project.must("context", "write", "login", "-", stdin=json.dumps(update).encode())
    bundle = project.must("context", "bundle", "login")
    part = bundle.partition("## Found in earlier sessions\n")[2]
    assert "Login uses OAuth" in part and "Tea is served warm" not in part


def test_the_next_session_is_given_all_codes(briefing: str, project: Project) -> None:
    """S4-1, S4-31, S4-33, S4-35, S4-48: files, functions, decisions, blockers, next actions of the very last
    session, as pure lines, without anybody's command in between."""
    lines = briefing.splitlines()
    for code in ("impl:login.py", "impl:login", "next:store-the-token"):
        assert code in lines
    assert any(line.startswith("dec:Login-uses-OAuth") for line in lines)
    assert set(project.must("codes").splitlines()) <= set(lines)


def test_a_failure_is_named_by_what_failed(project: Project) -> None:
    """S4-9: the blocker of a failed command says what failed and how, not that it failed."""
    [blocker] = [line for line in project.must("codes").splitlines() if line.startswith("block:")]
    assert "pytest" in blocker or "AssertionError" in blocker
    assert "Exit-code-1" not in blocker
