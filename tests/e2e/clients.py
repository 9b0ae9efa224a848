"""Codex, Claude Code and OpenCode as processes: where they are installed, how they are started and stopped.

Each runs with an environment of its own and nothing else of ours: its own HOME, telemetry and updates
off, the fake model as the only address it knows. Every run is bounded and ends with its whole process
group.
"""

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from eventlog.agents.opencode import plugin

CODEX_VERSION = "0.169.0"
CLAUDE_VERSION = "2.1.330"
OPENCODE_VERSION = "1.18.33"
RUN_S_MAX = 60

CACHE = Path(os.environ.get("LOCUS_E2E_CACHE") or Path.home() / ".cache/locus-e2e")


@dataclass(frozen=True)
class Ended:
    """How a run ended, and what it printed."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Home:
    """A client's own home: its settings, its sessions, nothing of the person who runs the tests."""

    path: Path
    model_url: str
    variables: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.path),
            "LANG": "C.UTF-8",
            "HTTP_PROXY": self.model_url,
            "HTTPS_PROXY": self.model_url,
            "NO_PROXY": "127.0.0.1",
            **self.variables,
        }


@dataclass(frozen=True)
class Client:
    """One coding agent: `agent` is its name for `locus-hook`, `settings` its file of hooks below the home."""

    agent: str
    version: str
    binary: Path
    configure: Callable[[Home], dict[str, str]]
    arguments: Callable[[Path, str, str | None, bool], list[str]]
    settings: str

    @property
    def name(self) -> str:
        return f"{self.agent}-{self.version}"

    def home(self, path: Path, model_url: str) -> Home:
        path.mkdir()
        bare = Home(path, model_url)
        return Home(path, model_url, self.configure(bare))

    def write_hooks(self, home: Home, events: Sequence[str], commands: list[str]) -> None:
        """Have `events` run `commands`, one after the other or at once as the client pleases."""
        if self.agent == "opencode":
            _write_plugins(home.path / self.settings, events, commands)
            return
        handlers = [{"type": "command", "command": command, "timeout": 10} for command in commands]
        hooks = {event: [{"hooks": handlers}] for event in events}
        path = home.path / self.settings
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"hooks": hooks}, indent=1))

    @contextmanager
    def started(
        self, home: Home, project: Path, prompt: str, *, resume: str | None = None, fork: bool = False
    ) -> "Iterator[subprocess.Popen[str]]":
        """The client at work. When left, its process group is gone."""
        # OpenCode may end while it looks for a package, and the next one waits a minute for that lock.
        shutil.rmtree(home.path / ".local/state/opencode/locks", ignore_errors=True)
        with subprocess.Popen(
            [str(self.binary), *home.options, *self.arguments(project, prompt, resume, fork)],
            cwd=project,
            env=home.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # it ended by itself, as it should

    def run(
        self, home: Home, project: Path, prompt: str, *, resume: str | None = None, fork: bool = False
    ) -> Ended:
        """Run one prompt to its end."""
        with self.started(home, project, prompt, resume=resume, fork=fork) as process:
            return ended(process)


def ended(process: "subprocess.Popen[str]") -> Ended:
    out, err = process.communicate(timeout=RUN_S_MAX)
    return Ended(process.returncode, out, err)


def wait_for(path: Path, seconds: float = 45) -> None:
    """Until somebody made `path` and wrote into it."""
    until = time.monotonic() + seconds
    while not (path.exists() and path.stat().st_size):
        assert time.monotonic() < until, f"{path} did not appear within {seconds} s"
        time.sleep(0.02)


def find_codex() -> Client | None:
    binary = next(CACHE.glob("codex/node_modules/@openai/codex*/vendor/*/bin/codex"), None)
    if binary is None:
        return None
    return Client("codex", CODEX_VERSION, binary, _configure_codex, _codex_arguments, ".codex/hooks.json")


def find_claude_code() -> Client | None:
    name = f"claude-code-{sys.platform}-{_machine()}"
    binary = CACHE / "claude-code/node_modules/@anthropic-ai" / name / "claude"
    if not binary.exists():
        return None
    return Client(
        "claude-code",
        CLAUDE_VERSION,
        binary,
        _configure_claude,
        _claude_arguments,
        ".claude/settings.json",
    )


def find_opencode() -> Client | None:
    name = f"opencode-{sys.platform}-{_machine()}"
    binary = CACHE / "opencode/node_modules" / name / "bin/opencode"
    if not binary.exists():
        return None
    settings = ".config/opencode/plugin/locus.js"
    return Client("opencode", OPENCODE_VERSION, binary, _configure_opencode, _opencode_arguments, settings)


def _machine() -> str:
    return {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _configure_codex(home: Home) -> dict[str, str]:
    directory = home.path / ".codex"
    directory.mkdir()
    (directory / "config.toml").write_text(
        f"""\
model = "gpt-5.5-codex"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
web_search = "disabled"
[analytics]
enabled = false
[features]
multi_agent_v2 = true
plugins = false
apps = false
[model_providers.fake]
name = "fake"
base_url = "{home.model_url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 0
stream_max_retries = 0
"""
    )
    return {"CODEX_HOME": str(directory), "FAKE_KEY": "none"}


def _codex_arguments(project: Path, prompt: str, resume: str | None, fork: bool) -> list[str]:
    options = [
        "--json", "--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust",
        "--skip-git-repo-check",
    ]  # fmt: skip
    if resume is not None:
        return ["exec", "-C", str(project), "fork" if fork else "resume", *options, resume, prompt]
    return ["exec", *options, "-C", str(project), prompt]


def _configure_claude(home: Home) -> dict[str, str]:
    (home.path / ".claude").mkdir()
    (home.path / "tmp").mkdir()
    return {
        "IS_SANDBOX": "1",
        "ANTHROPIC_BASE_URL": home.model_url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_TMPDIR": str(home.path / "tmp"),
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }


def _claude_arguments(project: Path, prompt: str, resume: str | None, fork: bool) -> list[str]:
    options = ["--permission-mode", "bypassPermissions", "--output-format", "stream-json", "--verbose"]
    if resume is not None:
        options += ["--resume", resume, *(["--fork-session"] if fork else [])]
    return ["-p", prompt, *options]


def _configure_opencode(home: Home) -> dict[str, str]:
    directory = home.path / ".config/opencode"
    directory.mkdir(parents=True)
    limit = {"context": 100_000, "output": 32_000}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "fake",
        "options": {"baseURL": f"{home.model_url}/v1", "apiKey": "none"},
        "models": {"fake-model": {"name": "fake", "limit": limit}},
    }
    allowed = ("edit", "bash", "webfetch", "external_directory", "task", "doom_loop")
    payload = {
        "$schema": "https://opencode.ai/config.json",  # it would write that in
        "model": "fake/fake-model",
        "small_model": "fake/fake-model",
        "autoupdate": False,
        "share": "disabled",
        "permission": dict.fromkeys(allowed, "allow"),
        "provider": {"fake": provider},
    }
    (directory / "opencode.json").write_text(json.dumps(payload))
    return {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "npm_config_offline": "true",  # it looks for a package for plugins, and goes on without
        "npm_config_fetch_retries": "0",
    }


def _opencode_arguments(_project: Path, prompt: str, resume: str | None, fork: bool) -> list[str]:
    options = [] if resume is None else ["--session", resume, *(["--fork"] if fork else [])]
    return ["run", "--format", "json", *options, *prompt.split(" ")]  # it would quote what holds a space


# Runs a command before each tool, and refuses the tool when that ends with 2.
_REFUSING = """\
import { spawnSync } from "node:child_process"
export const Refuse = async () => ({
  "tool.execute.before": async (input, output) => {
    const said = JSON.stringify({ hook_event_name: "PreToolUse", ...input, args: output.args })
    if (spawnSync("/bin/sh", ["-c", COMMAND], { input: said }).status === 2) throw new Error("not here")
  },
})
"""


def _write_plugins(settings: Path, events: Sequence[str], commands: list[str]) -> None:
    """A plugin for each command: one that refuses, or ours with another program."""
    settings.parent.mkdir(parents=True, exist_ok=True)
    for number, command in enumerate(commands):
        if "refuse" in command:
            text = f"const COMMAND = {json.dumps(command)}\n{_REFUSING}"
        else:
            text = plugin.text(command, tuple(events))
        (settings.parent / f"other-{number}.js").write_text(text)
