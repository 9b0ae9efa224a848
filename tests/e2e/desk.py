"""A desk: one fictional project, one store, one true client, and the fake model it talks to.

What the end-to-end tests share. The store is read through the public `Store`; the disk is read by the
same eyes for the project and for a replay, so that the two can be compared.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventlog.base.types import Event
from eventlog.query.lookup import TurnRef
from eventlog.store import Store
from tests.cli.support import git

from .clients import Client, Ended, Home
from .fake_model import FakeModel, Served
from .record_hook import tree_of
from .scenarios import PROJECT, marked

Tree = dict[str, list[str]]


@dataclass(frozen=True)
class Desk:
    """Where one client works; everything below one temporary directory."""

    client: Client
    project: Path
    scratch: Path
    home: Home
    model: FakeModel

    @property
    def store(self) -> Path:
        return self.project / ".locus"

    def run(self, scenario: str, *, resume: str | None = None, fork: bool = False) -> Ended:
        """One prompt from its beginning to the client's end."""
        return self.client.run(self.home, self.project, prompt_of(scenario), resume=resume, fork=fork)

    def locus(self, *arguments: str, code: int = 0) -> str:
        """The command, as the person whose home this is gives it in the project; it ends with `code`."""
        done = subprocess.run(
            [sys.executable, "-m", "locus_cli", *arguments],
            cwd=self.project,
            env=self.home.environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def events(self, *types: str) -> list[Event]:
        with Store.open(self.store) as store:
            return list(store.events(event_types=types or None))

    def turns(self) -> list[TurnRef]:
        """Every turn that somebody began, in the order of their beginnings."""
        found: dict[TurnRef, None] = {}
        for event in self.events("turn"):
            if event.get("operation") == "start":
                found[TurnRef(str(event["session_id"]), int(str(event["turn"])))] = None
        return list(found)

    def session(self) -> str:
        """The client's own id of the session that it used last."""
        return [str(e["agent_session_id"]) for e in self.events("turn") if e.get("agent_session_id")][-1]

    def replayed(self, turn: TurnRef, name: str = "replayed") -> Tree:
        """The files of a turn, put into a directory of their own; nothing may be missing."""
        target = self.scratch / f"{name}-{turn.session_id}-{turn.turn}-{len(list(self.scratch.iterdir()))}"
        with Store.open(self.store) as store:
            report = store.replay(store.turn(turn.context_id), target)
        assert (report.missing, report.skipped) == ([], [])
        return tree_of(target)

    def unsure(self, turn: TurnRef, name: str) -> Any:
        """What `locus replay` says of a turn whose end is not exact; it ends with 4."""
        target = self.scratch / f"unsure-{name}"
        output = self.locus("replay", turn.context_id, "--to", str(target), "--json", code=4)
        return json.loads(output)["certainty"]

    def on_disk(self) -> Tree:
        """The project's files but for those that git ignores, as it does our settings and OpenCode's."""
        tree = tree_of(self.project)
        asked = "\0".join(tree).encode("utf-8", "surrogateescape")
        ignored = subprocess.run(
            ["git", "check-ignore", "-z", "--stdin"], input=asked, cwd=self.project, capture_output=True
        ).stdout
        hidden = set(ignored.decode("utf-8", "surrogateescape").split("\0"))
        return {path: entry for path, entry in tree.items() if path not in hidden}

    def prompts(self, *sources: str) -> list[object]:
        """What was asked of the client, by a person or by anybody."""
        found = [event for event in self.events("intent") if not sources or event["source"] in sources]
        payloads = [event["payload"] for event in found]
        return [payload["message"] for payload in payloads if isinstance(payload, dict)]

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        with Store.open(self.store) as store:
            return [tuple(row) for row in store.query(sql).rows]

    def served(self) -> list[Served]:
        """The answers that belong to a scenario and were no errors."""
        return [one for one in self.model.served if one.scenario is not None and one.status == 200]

    def noted(self) -> str:
        """What the hook program could not do."""
        path = self.store / "tmp/hook-errors.log"
        return path.read_text() if path.exists() else ""


def prompt_of(scenario: str) -> str:
    return marked(scenario, f"Please do the part called {scenario}.")


def make_project(directory: Path) -> None:
    """`PROJECT` as a git repository with one commit."""
    directory.mkdir()
    for path, (content, executable) in PROJECT.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o755 if executable else 0o644)
    git(directory, "init", "-q", "-b", "main")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "Open the kiosk")


def refuser(directory: Path) -> str:
    """The command line of a hook that refuses whatever speaks of REFUSE-ME before it is run."""
    program = directory / "refuse.sh"
    program.write_text(
        "#!/bin/sh\ninput=$(cat)\n"
        "case $input in *PreToolUse*REFUSE-ME* | *REFUSE-ME*PreToolUse*)\n"
        "    echo 'not here' >&2; exit 2 ;;\nesac\n"
    )
    program.chmod(0o755)
    return str(program)


def pid_of(path: Path) -> int:
    return int(path.read_text().split()[0])


def end_command(desk: Desk) -> None:
    """End the command of the scenario `wait`, which may outlive its client."""
    try:
        os.kill(pid_of(desk.scratch / "pid"), signal.SIGKILL)
    except ProcessLookupError:
        pass  # the client took it along


@contextmanager
def open_desk(client: Client, directory: Path) -> Iterator[Desk]:
    """Everything but the hooks: a project below `directory`, a home, a fake model that runs."""
    project, scratch = directory / "kiosk", directory / "scratch"
    make_project(project)
    scratch.mkdir()
    with FakeModel(project, scratch) as model:
        yield Desk(client, project, scratch, client.home(directory / "home", model.url), model)


def install_hooks(desk: Desk) -> None:
    """A store, and the hooks that record beside one that refuses what speaks of REFUSE-ME."""
    Store.init(desk.store).close()
    desk.client.write_hooks(desk.home, ["PreToolUse"], [refuser(desk.scratch)])
    desk.locus("hooks", "install", "--user", "--agent", desk.client.agent)
