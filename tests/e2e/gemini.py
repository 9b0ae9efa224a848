"""Gemini CLI as a process, in a home of its own. Its hooks name neither turns nor tool calls."""

import json
from pathlib import Path

from .clients import CACHE, Client, Home

VERSION = "0.61.0"
SETTINGS = {
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "model": {"name": "gemini-2.5-flash"},
}


def find_gemini() -> Client | None:
    binary = CACHE / "gemini-cli/node_modules/.bin/gemini"
    if not binary.exists():
        return None
    return Client("gemini-cli", VERSION, binary, _configure, _arguments, ".gemini/settings.json")


def refuse(home: Home, settings: str, scratch: Path) -> None:
    """Settings with comments, and a hook of somebody else's that refuses what speaks of REFUSE-ME."""
    program = scratch / "refuse.sh"
    program.write_text("#!/bin/sh\ncase $(cat) in *REFUSE-ME*) echo 'not here' >&2; exit 2 ;; esac\n")
    program.chmod(0o755)
    hooks = {"BeforeTool": [{"hooks": [{"type": "command", "command": str(program)}]}]}
    text = json.dumps({**SETTINGS, "hooks": hooks}, indent=2)
    (home.path / settings).write_text(f"// mine\n{text}\n")


def _configure(home: Home) -> dict[str, str]:
    (home.path / ".gemini").mkdir()
    (home.path / ".gemini/settings.json").write_text(json.dumps(SETTINGS))
    return {
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": home.model_url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_CLI_NO_RELAUNCH": "true",  # else a signal meets its parent
    }


def _arguments(_project: Path, prompt: str, resume: str | None, fork: bool) -> list[str]:
    options = ["--yolo", "--output-format", "json"]
    return [*options, *(["--resume", resume] if resume is not None else []), "-p", prompt]
