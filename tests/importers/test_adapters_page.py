"""The agent that docs/adapters.md shows is one that works, by its folder alone."""

import json
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from eventlog.importers import importer, sources
from eventlog.store import Store

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/adapters.md"

LINES = [
    {"run": "r7", "by": "human", "say": "add a price", "at": "2026-11-20T10:00:00Z", "in": "/home/dev/shop"},
    {"run": "r7", "say": "I write it.", "tokens": {"read": 50, "wrote": 4}, "mood": "calm"},
    {
        "run": "r7",
        "do": {"tool": "write", "path": "/home/dev/shop/a.py", "content": "1\n"},
        "gave": "written",
    },
    {"run": "r7", "sneeze": True},
]
# As the installed program, of a Python that is no virtual environment, so that nothing is written beside it.
LOCUS = (
    "import sys; sys.prefix = sys.base_prefix; from locus_cli.main import run; sys.exit(run(sys.argv[1:]))"
)


def files_of_page() -> dict[str, str]:
    """The files of the folder that the page shows, by name."""
    _, _, section = PAGE.read_text().partition("## How to add an agent")
    files = dict(re.findall(r"^`tinker/(\w+\.py)`.*?\n```python\n(.*?)```", section, re.M | re.S))
    assert files.keys() == {"__init__.py", "hooks.py", "consent.py", "transcript.py"}
    return files


def test_the_adapter_in_the_documentation_imports_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: the worked example as it is on the page takes in a session once, file and odd line too."""
    files = files_of_page()
    assert 30 <= len(files["transcript.py"].splitlines()) < 100
    for name in ("__init__.py", "transcript.py"):
        module = types.ModuleType(
            f"eventlog.agents.tinker.{name.removesuffix('.py')}".removesuffix(".__init__")
        )
        exec(compile(files[name], str(PAGE), "exec"), module.__dict__)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    path = tmp_path / "r7.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))

    with Store.init(tmp_path / ".locus") as store:
        for expected in (True, False):
            report = importer.run(store, "tinker", sources.named("tinker", [str(path)]))
            assert (report.problems, bool(report.events)) == ([], expected)
            (tmp_path / ".locus/live/imports.json").unlink(missing_ok=True)

        assert [tuple(r) for r in store.query("select user_request, outcome from turns").rows] == [
            ("add a price", "I write it.")
        ]
        assert [
            tuple(r) for r in store.query("select prompt_tokens, completion_tokens from llm_calls").rows
        ] == [(50, 4)]
        ((name, content),) = store.query("select path, after_hash from files").rows
        assert (name, store.blob(content)) == ("a.py", b"1\n")
        recorded = repr([event["payload"] for event in store.events()])
        assert "calm" in recorded and "sneeze" in recorded


class Installation:
    """The packages as an installer lays them out, with one folder more, and a project."""

    def __init__(self, directory: Path) -> None:
        self.site, self.home, self.project = directory / "site", directory / "home", directory / "kiosk"
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "eventlog", self.site / "eventlog", ignore=unwanted)
        shutil.copytree(ROOT / "cli", self.site / "locus_cli", ignore=unwanted)
        folder = self.site / "eventlog/agents/tinker"
        folder.mkdir()
        for name, text in files_of_page().items():
            (folder / name).write_text(text)
        for path in (self.home / ".tinker", self.project):
            path.mkdir(parents=True)
        subprocess.run(["git", "init", "-q"], cwd=self.project, check=True)
        kept = {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
        self.environ = {
            **kept,
            "HOME": str(self.home),
            "PYTHONPATH": str(self.site),
            "XDG_DATA_HOME": str(directory / "data"),
            "XDG_STATE_HOME": str(directory / "state"),
            "LOCUS_NO_MAINTENANCE": "1",
        }

    def locus(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-c", LOCUS, *arguments],
            cwd=self.project,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def hook(self, event: str, **fields: str) -> None:
        """One call of the command that is in the agent's settings."""
        hooks = json.loads((self.project / ".tinker/hooks.json").read_text())["hooks"]
        ((group,),) = [hooks[event]]
        payload = {"event": event, "run": "r1", "step": "s1", "in": str(self.project), **fields}
        environ = {name: text for name, text in self.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            ["/bin/sh", "-c", group["hooks"][0]["command"]],
            input=json.dumps(payload).encode(),
            cwd=self.project,
            env={**environ, "LOCUS_HOOK_PATIENCE": "20"},
            capture_output=True,
            timeout=120,
        )
        assert (done.returncode, done.stdout) == (0, b"")


def test_an_agent_is_added_by_its_folder_alone(tmp_path: Path) -> None:
    """The folder of the page in an installed copy: hooks, doctor, MCP and import know the agent, and their
    help names it, without a change of any other file."""
    here = Installation(tmp_path)
    here.locus("init")

    assert "tinker" in here.locus("hooks", "install", "--help")
    assert "tinker" in here.locus("import", "--help")
    assert "Tinker asks about hooks when it starts" in here.locus("hooks", "install", "--agent", "tinker")
    here.hook("SessionStart")
    here.hook("UserPromptSubmit", say="add a price")
    (here.project / "price.txt").write_text("3\n")
    here.hook("Stop")
    assert "add a price" in here.locus("log")
    rows = here.locus("sql", "--json", "select agent, status from turns where agent = 'tinker'")
    assert '"completed"' in rows and "price.txt" in here.locus("sql", "select path from files")

    assert "3 hooks in" in here.locus("doctor")
    (here.home / ".tinker/no-hooks").write_text("")
    assert "Tinker runs no hooks" in here.locus("doctor", code=1)
    (here.home / ".tinker/no-hooks").unlink()

    here.locus("mcp", "install", "--agent", "tinker")
    entry = json.loads((here.project / ".tinker/servers.json").read_text())["servers"]["locus"]
    assert entry["args"][-2:] == ["--agent", "tinker"]
    here.locus("mcp", "uninstall", "--agent", "tinker")

    logs = here.home / ".tinker/logs"
    logs.mkdir()
    lines = [{**line, "in": str(here.project)} for line in LINES]
    (logs / "r7.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "Recorded 1 session with 1 new turn" in here.locus("import", "tinker")

    here.locus("hooks", "uninstall", "--agent", "tinker")
    assert not (here.project / ".tinker/hooks.json").exists()
