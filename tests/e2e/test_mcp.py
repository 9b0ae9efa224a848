"""`locus mcp` as `locus mcp install` writes it, asked by the true clients, and by the inspector."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from eventlog.mcp.tools import tools_for
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store

from .clients import CACHE, Client, _machine
from .conftest import FINDERS
from .desk import Desk, open_desk, prompt_of
from .gemini import find_gemini
from .scenarios import RECORDED
from .test_install import PLUGIN, trust

TOOLS = {tool.name for tool in tools_for("codex")}
# What a client calls our tool, where it offers it to the model at once.
OFFERED = {"gemini-cli": "mcp_locus_", "opencode": "locus_"}


@pytest.fixture(params=[*FINDERS, "gemini-cli"])
def client(request: pytest.FixtureRequest) -> Client:
    found = find_gemini() if request.param == "gemini-cli" else FINDERS[request.param]()
    if found is None:
        pytest.skip(f"{request.param} is not installed: scripts/e2e")
    return found


@pytest.fixture
def desk(client: Client, tmp_path: Path) -> Iterator[Desk]:
    """A project with a store that holds a decision, and no hooks."""
    with open_desk(client, tmp_path) as opened:
        record(opened.store)
        yield opened


def record(path: Path) -> None:
    with Store.init(path) as store:
        turn = Recorder(store, agent="another").start_turn("Make tea")
        turn.decision("Boil the water", reasoning=f"the {RECORDED} is there")
        turn.end()


def use_of(desk: Desk) -> list[bool]:
    """Of each answer of the model to its scenario, whether its request held what was recorded."""
    return [one.told for one in desk.served()]


def agree(desk: Desk) -> None:
    """What holds after the scenario: the model got the decision, and its answer was recorded."""
    assert use_of(desk) == [False, False, True, True]
    [event] = desk.events("discovery")
    assert event["agent"] == desk.client.agent
    assert event["payload"] == {"message": "The kiosk greets"}


@pytest.mark.parametrize("scope", ["project", "user"])
def test_the_tools_are_listed_and_called(desk: Desk, scope: str) -> None:
    """S3-20, docs/mcp.md: the client starts the server from its settings, offers its tools, and a model that
    calls them reads the record and adds to it; taken out, there are none."""
    agent = desk.client.agent
    if (agent, scope) == ("codex", "user"):
        pytest.skip("Codex says no roots, so that calls name the store: docs/mcp.md")
    if (agent, scope) == ("claude-code", "project"):
        # Somebody has to approve a project's servers, once.
        (desk.home.path / ".claude/settings.json").write_text('{"enableAllProjectMcpServers": true}')
    trust(desk)
    desk.locus("mcp", "install", "--scope", scope, "--agent", agent)
    if agent == "codex":
        # It asks the model at once, with what tools there are by then; a true model takes longer.
        config = desk.project / ".codex/config.toml"
        config.write_text(config.read_text() + "required = true\n")
    done = desk.run("tools")
    assert done.code == 0, done.err

    agree(desk)
    offered = set(desk.served()[-1].tools)
    if agent in OFFERED:
        assert {f"{OFFERED[agent]}{name}" for name in TOOLS} <= offered
    desk.locus("mcp", "uninstall", "--scope", scope, "--agent", agent)
    assert desk.run("tools").code == 0
    assert len(desk.events("discovery")) == 1


def test_the_plugin_brings_the_tools(desk: Desk) -> None:
    """As a plugin Claude Code starts the server as well, in whose project it is."""
    if desk.client.agent != "claude-code":
        pytest.skip("a plugin for Claude Code")

    def with_plugin(*given: object) -> list[str]:
        return [*desk.client.arguments(*given), "--plugin-dir", str(PLUGIN)]  # type: ignore[arg-type]

    done = replace(desk.client, arguments=with_plugin).run(desk.home, desk.project, prompt_of("tools"))
    assert done.code == 0, done.err
    listed = json.loads(next(line for line in done.out.splitlines() if '"mcp_servers"' in line))

    assert {one["name"].rpartition(":")[2]: one["status"] for one in listed["mcp_servers"]}["locus"] in (
        "connected", "pending",
    )  # fmt: skip


def test_the_inspector_lists_and_calls(tmp_path: Path) -> None:
    """The command line of the MCP inspector lists the tools, calls one and reads a resource."""
    inspector = CACHE / "inspector/node_modules"
    node = inspector / f"node-{sys.platform}-{_machine()}/bin/node"
    program = inspector / "@modelcontextprotocol/inspector/package.json"
    if not (node.exists() and program.exists()):
        pytest.skip("the inspector, or a node of 22.19 that it needs, is not installed: scripts/e2e")
    record(tmp_path / ".locus")
    locus = Path(sys.executable).with_name("locus")
    main = program.parent / json.loads(program.read_text())["bin"]["mcp-inspector"]

    def inspect(*arguments: str) -> dict[str, object]:
        done = subprocess.run(
            [
                str(node),
                str(main),
                "--cli",
                str(locus),
                "--store",
                str(tmp_path / ".locus"),
                "mcp",
                *arguments,
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        answer: dict[str, object] = json.loads(done.stdout)
        return answer

    tools = inspect("--method", "tools/list")["tools"]
    assert isinstance(tools, list) and {tool["name"] for tool in tools} == TOOLS
    reported = inspect("--method", "tools/call", "--tool-name", "decisions", "--tool-arg", "words=boil")
    assert RECORDED in json.dumps(reported) and not reported.get("isError")
    assert "locus://turn/" in json.dumps(inspect("--method", "resources/list"))
