"""What the acceptance suites of shared context, sessions and codes share: a project, and the doors to it.

Every door is a process: `locus`, `locus-hook`, `locus mcp` behind the official client. A story walks through
them once; its tests look at what came out.
"""

import json
import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventlog.store import Store
from tests import forked
from tests.cli.support import GIT_ENVIRONMENT, Ended, git
from tests.mcp.support import LEGACY, Served, served

Json = dict[str, Any]


@dataclass(frozen=True)
class Project:
    """A repository at `root`, whose user has an own home beside it."""

    root: Path

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        home = str(self.root.parent / "home")
        return {
            **kept,
            **GIT_ENVIRONMENT,
            "HOME": home,
            "LOCUS_NO_MAINTENANCE": "1",
            "COLUMNS": "120",
            **more,
        }

    def locus(self, *arguments: object, stdin: bytes = b"", **environment: str) -> Ended:
        done = forked.locus(
            [str(one) for one in arguments], stdin, self.root, self.environment(**environment)
        )
        return Ended(done.returncode, done.stdout, done.stderr.decode("utf-8", "backslashreplace"))

    def must(self, *arguments: object, stdin: bytes = b"", **environment: str) -> str:
        """What a command prints that ends well."""
        ended = self.locus(*arguments, stdin=stdin, **environment)
        assert ended.code == 0, ended.err
        return ended.text

    def asked(self, *arguments: object) -> Any:
        """What a command prints as JSON, whatever its exit code."""
        return json.loads(self.locus(*arguments).text)

    def hook(self, agent: str, name: str, **fields: Any) -> str:
        """What one hook of an agent prints, which must end well and without a word of error."""
        call = {"cwd": str(self.root), "hook_event_name": name, **fields}
        done = forked.hook(
            json.dumps(call).encode(), agent, self.root, self.environment(LOCUS_HOOK_PATIENCE="20")
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()

    def mcp(self, agent: str = "claude-code") -> AbstractContextManager[Served]:
        """The server started for this project's store, and the SDK's client to it."""
        arguments = ("--store", str(self.store), "mcp", "--agent", agent)
        return served(LEGACY, *arguments, cwd=self.root)

    def events(self, *types: str) -> list[Json]:
        with Store.open(self.store) as store:
            return [dict(event) for event in store.events(event_types=types or None)]

    def git(self, *arguments: str) -> str:
        return git(self.root, *arguments)

    @property
    def store(self) -> Path:
        return self.root / ".locus"


def new_project(place: Path, *files: tuple[str, str]) -> Project:
    """A repository with these files in one commit, and a store made by `locus init`."""
    project = Project(place / "kiosk")
    for path, text in files:
        target = project.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "Open the kiosk")
    project.must("init")
    return project
