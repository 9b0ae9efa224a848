"""The command that the viewer shows for a conversation, typed into a terminal: the agent goes on with it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.store import Store
from tests.view.support import serving

from .clients import Client
from .conftest import FINDERS
from .desk import Desk, open_desk, prompt_of
from .gemini import find_gemini
from .scenarios import SCENARIOS
from .terminal import typed

LAST_WORDS = SCENARIOS["create"][-1].text
ALL = {**FINDERS, "gemini-cli": find_gemini}


@pytest.fixture(params=list(ALL))
def client(request: pytest.FixtureRequest) -> Client:
    found = ALL[request.param]()
    if found is None:
        pytest.skip(f"{request.param} is not installed: scripts/e2e")
    return found


@pytest.fixture
def desk(client: Client, tmp_path: Path) -> Iterator[Desk]:
    with open_desk(client, tmp_path) as opened:
        Store.init(opened.store).close()
        opened.locus("hooks", "install", "--user", "--agent", client.agent)
        yield opened  # in a terminal some look for updates, which their proxy, the fake model, refuses


@pytest.mark.parametrize("begun", [".", "lib"])
def test_the_command_shown_goes_on_with_the_conversation(desk: Desk, begun: str) -> None:
    """The next request to the model has the earlier prompt, and the next turn is one of the same session.
    Also where the conversation began in another directory."""
    done = desk.client.run(desk.home, desk.project / begun, prompt_of("create"))
    assert done.code == 0, done.err
    (session,) = shown(desk)
    assert session["resume"].startswith("cd ") == (begun != ".")
    welcome(desk)
    programs = desk.scratch / "bin"
    programs.mkdir()
    (programs / session["resume"].rpartition("&& ")[2].split()[0]).symlink_to(desk.client.binary)
    environment = desk.home.environment()
    environment["PATH"] = f"{programs}:{environment['PATH']}"

    with typed(session["resume"], desk.project, environment) as terminal:
        if desk.client.agent == "codex":  # hooks that no person announced to it
            terminal.until(lambda: "Trust all" in terminal.text(), "a question")
            terminal.rest()  # it drops what was typed before, and ends where there is no end of that
            terminal.press("\x1b[B\r", lambda: LAST_WORDS in terminal.text(), "the earlier conversation")
        terminal.until(lambda: LAST_WORDS in terminal.text(), "the earlier conversation")
        terminal.rest()
        terminal.type(prompt_of("idle"))
        terminal.press("\r", lambda: goes_on(desk), "a request with both prompts")
        terminal.until(lambda: len(desk.turns()) == 2, "a second turn")

    assert [one["session_id"] for one in shown(desk)] == [session["session_id"]]


def shown(desk: Desk) -> list[dict[str, str]]:
    with serving({desk.project.name: desk.store}) as served:
        sessions: list[dict[str, str]] = served.answer("/api/sessions")["sessions"]
        return sessions


def goes_on(desk: Desk) -> bool:
    """Whether the model was asked with the earlier prompt and the new one; side questions have but one."""
    return any({"create", "idle"} <= set(served.asked) for served in desk.served())


def welcome(desk: Desk) -> None:
    """What agents ask a person once, answered before: whether to trust this directory, to use this key."""
    if desk.client.agent == "claude-code":
        path = desk.home.path / ".claude.json"
        answer = json.loads(path.read_text()) if path.exists() else {}
        answer |= {"hasCompletedOnboarding": True, "theme": "dark", "bypassPermissionsModeAccepted": True}
        answer["customApiKeyResponses"] = {"approved": ["none"], "rejected": []}
        for project in (desk.project, desk.project / "lib"):
            answer.setdefault("projects", {}).setdefault(str(project), {})["hasTrustDialogAccepted"] = True
        path.write_text(json.dumps(answer))
    if desk.client.agent == "codex":
        config = desk.home.path / ".codex/config.toml"
        config.write_text(config.read_text() + f'[projects."{desk.project}"]\ntrust_level = "trusted"\n')
