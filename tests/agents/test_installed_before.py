"""Hooks that an earlier version installed go on recording after an upgrade in place, whatever it moved.

`tests/fixtures/installed/VERSION/` has what `locus hooks install` of that version wrote: the stub, and the
settings of each agent, `local` and `project`. `@PYTHON@`, `@SITE@` (where the packages were installed),
`@LIBRARY@` (where blake3 was) and `@SHARE@` (the stub's directory) stand for paths. docs/install.md lists the
names that must stay for them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import blake3
import pytest

from tests.cli.support import locus_process
from tests.setup.test_install import ROOT

FIXTURES = ROOT / "tests/fixtures/installed"
VERSIONS = sorted(path.name for path in FIXTURES.iterdir())
AGENTS = ("claude-code", "codex", "gemini-cli", "opencode")
PAGE = ROOT / "docs/install.md"
# What a later version might do. Each word is replaced where it is, in the names of files too.
EVERYTHING = {"eventlog": "engine", "maintainer": "upkeeper"}
SOME = {"live_place": "place_of_call", "jsontext": "json_words", "maintainer": "upkeeper"}


class Installation:
    """The packages as an installer lays them out, hooks of `version`, and a project with a store."""

    def __init__(self, directory: Path, version: str) -> None:
        self.site, self.share = directory / "site", directory / "share"
        self.project, self.home = directory / "kiosk", directory / "home"
        for path in (self.share, self.project, self.home, directory / "bin"):
            path.mkdir(parents=True)
        unwanted = shutil.ignore_patterns("__pycache__")
        for package, source in packages().items():
            shutil.copytree(ROOT / source, self.site / package, ignore=unwanted)
        assert locus_process("init", "--force", cwd=self.project, HOME=str(self.home)).code == 0
        self.version = version
        self.stub = self.share / "locus-hook.py"
        self.stub.write_text(self._of_here(FIXTURES / version / "locus-hook.py.txt"))
        self._write_program(directory / "bin/locus-hook")
        self.path = f"{directory / 'bin'}:{os.environ['PATH']}"
        self.calls = 0

    def _of_here(self, file: Path) -> str:
        text = file.read_text()
        library = Path(blake3.__file__).parent.parent
        for name, path in {
            "PYTHON": sys.executable,
            "SITE": str(self.site),
            "LIBRARY": str(library),
            "SHARE": str(self.share),
        }.items():
            text = text.replace(f"@{name}@", path)
        return text

    def _write_program(self, path: Path) -> None:
        """The console script, as an installer writes it with each version."""
        module, _, function = scripts()["locus-hook"].partition(":")
        lines = ["import sys", f"sys.path.insert(0, {str(self.site)!r})", f"from {module} import {function}"]
        path.write_text("\n".join([f"#!{sys.executable}", *lines, f"{function}()", ""]))
        path.chmod(0o755)

    def lines(self, level: str, agent: str) -> list[str]:
        """The command lines that an agent's settings start, each once."""
        name = {"claude-code": "claude", "gemini-cli": "gemini"}.get(agent, agent)
        (file,) = (FIXTURES / self.version / level).glob(f"{name}-*")
        text = self._of_here(file)
        if agent == "opencode":
            return [json.loads(line.partition("=")[2]) for line in text.splitlines() if "const LINE" in line]
        events = json.loads(text)["hooks"].values()
        return sorted({one["command"] for groups in events for group in groups for one in group["hooks"]})

    def make_modules(self, names: "dict[str, str] | None" = None) -> None:
        """Have the installed version make `locus-hook.modules`, as its maintenance does."""
        package, maintainer = ((names or {}).get(name, name) for name in ("eventlog", "maintainer"))
        modules = self.share / "locus-hook.modules"
        modules.touch()  # as if an earlier one stood here
        code = (
            f"import {package}; assert {package}.__file__.startswith({str(self.site)!r})\n"
            f"from locus_cli.{maintainer} import main; main({str(self.store)!r}, {str(self.stub)!r})"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], env={**self._environ(), "PYTHONPATH": str(self.site)},
            cwd=self.project, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert modules.stat().st_size

    @property
    def store(self) -> Path:
        return self.project / ".locus"

    def upgrade(self, words: "dict[str, str]") -> None:
        """Rename in place; a file that has none of the words is not touched, as an installer may do it."""
        found = re.compile(rf"\b({'|'.join(words) or '(?!)'})\b")
        for file in sorted(self.site.rglob("*.py")):
            text = file.read_text()
            renamed = found.sub(lambda match: words[match[1]], text)
            if renamed != text:
                file.unlink()
                file.write_text(renamed)
        for path in sorted(self.site.rglob("*"), reverse=True):
            if path.stem in words:
                path.rename(path.with_name(words[path.stem] + path.suffix))
        shutil.rmtree(self.site / "__pycache__", ignore_errors=True)

    def _environ(self) -> dict[str, str]:
        quiet = {"LOCUS_NO_MAINTENANCE": "1", "LOCUS_HOOK_PATIENCE": "20"}
        return {"PATH": self.path, "HOME": str(self.home), **quiet}

    def call(self, line: str) -> None:
        """Run a line as an agent does; it is silent, and ends well (P4)."""
        self.calls += 1
        payload = {
            "session_id": "s1", "cwd": str(self.project), "hook_event_name": "Notification",
            "message": f"call {self.calls}",
        }  # fmt: skip
        done = subprocess.run(
            ["/bin/sh", "-c", line], input=json.dumps(payload).encode(), capture_output=True,
            env=self._environ(), cwd=self.project, timeout=60,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def recorded(self) -> "list[tuple[str, str]]":
        """(agent, message) of what hooks recorded."""
        query = """select agent, payload->>'message' as message from events
            where event_type = 'hook' order by position"""
        done = locus_process("sql", "--json", query, cwd=self.project, HOME=str(self.home))
        assert done.code == 0, done.err
        return [(row["agent"], row["message"]) for row in json.loads(done.out)]

    def looked_for(self) -> "list[str]":
        """The files that modules of ours were looked for in, when the stub runs."""
        reported = json.dumps({"session_id": "s1", "cwd": str(self.project), "hook_event_name": "Stop"})
        done = subprocess.run(
            [sys.executable, "-v", "-IS", str(self.stub), "claude-code"], input=reported, capture_output=True,
            text=True, env=self._environ(), cwd=self.project, timeout=60,
        )  # fmt: skip
        lines = [line for line in done.stderr.splitlines() if line.startswith("# code object from")]
        return [line for line in lines if str(self.site) in line]


@pytest.fixture(params=VERSIONS)
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Installation:
    return Installation(tmp_path, request.param)


def packages() -> dict[str, str]:
    """Where the two packages are in the sources."""
    return {"eventlog": "eventlog", "locus_cli": "cli"}  # as setup.py says


def scripts() -> dict[str, str]:
    found: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    return found


@pytest.mark.parametrize("upgrade", [{}, SOME, EVERYTHING], ids=["as it is", "some", "everything"])
def test_hooks_of_an_earlier_version_go_on(installation: Installation, upgrade: "dict[str, str]") -> None:
    """P4, I34: after an upgrade in place that moved modules which the file beside the stub names, the lines
    in the settings of all four agents record, silently; the new version makes that file again for the old
    stub, which then looks for no module."""
    installation.make_modules()
    installation.upgrade(upgrade)
    expected = []
    for level in ("local", "project"):
        for agent in AGENTS:
            (line,) = installation.lines(level, agent)
            installation.call(line)
            expected.append((agent, f"call {installation.calls}"))
    assert installation.recorded() == expected

    if upgrade:
        assert installation.looked_for() != [], "what the old file names is gone, so modules are looked for"
        installation.make_modules(upgrade)
    assert installation.looked_for() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_the_names_that_old_hooks_need_are_there_and_listed(version: str) -> None:
    """What hooks of an earlier version need is what this one has, and docs/install.md says that it stays."""
    stub = (FIXTURES / version / "locus-hook.py.txt").read_text()
    frozen = {
        "locus_cli": 'package = type(sys)("locus_cli")',
        "hook_entry": "from locus_cli.hook_entry import main",
        "main": "\nmain()\n",
        "locus-hook.modules": "posix.open('@SHARE@/locus-hook.modules'",
        "65,536": "posix.read(fd, 65536)",
        "load(fd, groups, extensions)": 'names["load"](fd, groups, extensions)',
    }
    page = PAGE.read_text()
    (section,) = re.findall(r"(?ms)^## What must keep its name\n(.*?)(?=^## |\Z)", page)
    for name, text in frozen.items():
        assert text in stub and name in section, name
    for name in ("locus-hook", "locus-hook.py", *AGENTS):
        assert f"`{name}`" in section, name

    from eventlog.agents import opencode
    from eventlog.agents.opencode import plugin as opencode_plugin
    from eventlog.setup import launch, launch_loader, launch_modules

    assert scripts()["locus-hook"] == "locus_cli.hook_entry:main"
    assert (ROOT / packages()["locus_cli"] / "hook_entry.py").is_file()
    files = (launch.STUB, launch.PROGRAM, launch_modules.MODULES)
    assert files == ("locus-hook.py", "locus-hook", "locus-hook.modules")
    assert launch_modules.HEAD_SIZE <= 65_536
    assert launch_loader.load.__code__.co_varnames[:3] == ("fd", "groups", "extensions")
    plugin = (FIXTURES / version / "local/opencode-plugin-locus.js").read_text()
    assert set(opencode_plugin.events_in(plugin)) <= set(opencode.EVENTS)
