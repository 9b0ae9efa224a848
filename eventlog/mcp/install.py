"""`locus mcp` in the agents' own settings: the location of an entry, and its insertion and removal.

A settings file belongs to its user. `setup/install.py` edits it as text, whole and under a lock; everything
that is not ours stays as it is. An entry named `locus` is *ours* when it starts a program called `locus`, or
this package, with the word `mcp`; any other of that name stays.
"""

import json
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from eventlog.base.errors import Refused
from eventlog.base.fs import FileSystem, read_file
from eventlog.setup import settings
from eventlog.setup.install import CLAUDE_CODE, CODEX, GEMINI_CLI, OPENCODE, Homes, edit_text
from eventlog.setup.settings_file import SettingsEdit

NAME = "locus"
# Their names on the command line, and in hooks.
AGENTS = {"claude-code": CLAUDE_CODE, "codex": CODEX, "gemini": GEMINI_CLI, "opencode": OPENCODE}
PROJECT, USER = "project", "user"
_FILE_SIZE_MAX = 8 << 20
_COMMENTED = (GEMINI_CLI, OPENCODE)
_ABOVE = {CLAUDE_CODE: "mcpServers", GEMINI_CLI: "mcpServers", OPENCODE: "mcp"}
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_TABLE = re.compile(r"[ \t]*\[[ \t]*mcp_servers[ \t]*\.[ \t]*\"?locus\"?[ \t]*(\.[^\]\n]*)?\][ \t]*(#.*)?$")


def settings_path(agent: str, scope: str, directory: str, homes: Homes, environ: Mapping[str, str]) -> str:
    """The file in which an agent lists its servers: for a project directory, or for the user."""
    if agent == CLAUDE_CODE:
        if scope == PROJECT:
            return f"{directory}/.mcp.json"
        # The file is beside ~/.claude, or in the agent's own directory if one is set.
        above = homes.claude if environ.get("CLAUDE_CONFIG_DIR") else os.path.dirname(homes.claude)
        return f"{above}/.claude.json"
    if agent == CODEX:
        return f"{homes.codex}/config.toml" if scope == USER else f"{directory}/.codex/config.toml"
    if agent == GEMINI_CLI:
        return f"{homes.gemini if scope == USER else f'{directory}/.gemini'}/settings.json"
    above = homes.opencode if scope == USER else directory
    with_comments = f"{above}/opencode.jsonc"
    return with_comments if os.path.exists(with_comments) else f"{above}/opencode.json"


def command_line(agent: str, scope: str, store: str | None) -> list[str]:
    """The command that the agent is to start.

    Others read a project's settings, on other machines: there it is a program on the PATH. Codex does not
    tell its servers the project, so its entry for one names the store.
    """
    there = os.path.join(os.path.dirname(sys.executable), NAME)
    if scope == PROJECT:
        program = [NAME]
    else:
        program = [there] if os.access(there, os.X_OK) else [sys.executable, "-m", "locus_cli"]
    named = ["--store", store] if agent == CODEX and scope == PROJECT and store is not None else []
    return [*program, *named, "mcp", "--agent", agent]


def install(
    fs: FileSystem, agent: str, path: str, line: Sequence[str], homes: Homes, *, dry_run: bool = False
) -> SettingsEdit:
    """Insert our entry, and replace an earlier one of ours.

    Raises: Refused (an entry of that name which is not ours; an invalid format), LockTimeout.
    """

    def make(text: str | None) -> str:
        return _with_table(text, path, line) if agent == CODEX else _with_member(text, path, agent, line)

    return edit_text(fs, agent, path, homes, make, dry_run=dry_run)


def uninstall(fs: FileSystem, agent: str, path: str, homes: Homes, *, dry_run: bool = False) -> SettingsEdit:
    """Remove our entry, and the file if it is then empty. Raises: as `install`."""

    def make(text: str | None) -> str | None:
        if text is None:
            return None
        return _without_table(text, path) if agent == CODEX else _without_member(text, path, agent)

    return edit_text(fs, agent, path, homes, make, dry_run=dry_run)


def is_ours(entry: object) -> bool:
    """Whether an entry starts our server."""
    if not isinstance(entry, Mapping):
        return False
    words = words_of(entry)
    starts = bool(words) and (os.path.basename(words[0]) == NAME or words[1:3] == ["-m", "locus_cli"])
    return starts and "mcp" in words


def words_of(entry: Mapping[str, object]) -> list[str]:
    """The command line of an entry."""
    command, arguments = entry.get("command"), entry.get("args")
    words = list(command) if isinstance(command, list) else [command]
    words += arguments if isinstance(arguments, list) else []
    return [word for word in words if isinstance(word, str)]


def entry_in(fs: FileSystem, agent: str, path: str) -> object:
    """The server called locus in a settings file, None without one. Raises: Refused, OSError."""
    try:
        text = read_file(fs, path, _FILE_SIZE_MAX).decode()
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise Refused(f"{path}: not UTF-8 ({error})") from error
    if settings.is_blank(text):
        return None
    if agent == CODEX:
        return _server_in(_read(text, path))
    return _value_at(_parsed(text, path, agent), (_ABOVE[agent], NAME))


# -- JSON ------------------------------------------------------------------------------------------


def _entry(agent: str, line: Sequence[str]) -> dict[str, Any]:
    if agent == OPENCODE:
        return {"type": "local", "command": list(line), "enabled": True}
    own = {"type": "stdio"} if agent == CLAUDE_CODE else {}
    return {**own, "command": line[0], "args": list(line[1:])}


def _with_member(text: str | None, path: str, agent: str, line: Sequence[str]) -> str:
    entry, keys = _entry(agent, line), (_ABOVE[agent], NAME)
    is_blank = text is None or settings.is_blank(text)
    if text is not None and not is_blank and _value_at(_parsed(text, path, agent), keys) == entry:
        return text
    base = None if text is None else _without_member(text, path, agent)
    if base is None or settings.is_blank(base):
        return json.dumps({keys[0]: {NAME: entry}}, indent=2, ensure_ascii=False) + "\n"
    edits = settings.member_put(base, _parsed(base, path, agent), keys, entry, path)
    return settings.apply(base, edits)[0]


def _without_member(text: str, path: str, agent: str) -> str | None:
    if settings.is_blank(text):
        return text
    root, keys = _parsed(text, path, agent), (_ABOVE[agent], NAME)
    entry = _value_at(root, keys)
    if entry is None:
        return text
    if not is_ours(entry):
        raise _not_ours(path)
    left = settings.apply(text, settings.member_cut(text, root, keys))[0]
    return None if settings.is_empty(left, path, comments=agent in _COMMENTED) else left


def _parsed(text: str, path: str, agent: str) -> settings.Value:
    return settings.parse(text, path, comments=agent in _COMMENTED)


def _value_at(root: settings.Value, keys: Sequence[str]) -> object:
    value: settings.Value | None = root
    for key in keys:
        value = None if value is None else value.member(key)
    return None if value is None else value.data


def _not_ours(path: str) -> Refused:
    return Refused(
        f"{path} has a server called {NAME} that is not ours. Rename it or take it out, then try again. "
        "Nothing was written."
    )


# -- TOML ------------------------------------------------------------------------------------------


def _with_table(text: str | None, path: str, line: Sequence[str]) -> str:
    entry = {"command": line[0], "args": list(line[1:])}
    if text is not None and _server_in(_read(text, path)) == entry:
        return text
    base = (None if text is None else _without_table(text, path)) or ""
    newline = "\r\n" if "\r\n" in base else "\n"
    words = (
        f"[mcp_servers.{NAME}]{newline}command = {_spelled(line[0])}{newline}"
        f"args = [{', '.join(map(_spelled, line[1:]))}]{newline}"
    )
    gap = "" if not base else newline if base.endswith("\n") else newline * 2
    after = f"{base}{gap}{words}"
    if _server_in(_read(after, path)) != entry:
        raise _by_hand(path, "`mcp_servers` is not made of tables. Put the server in")
    return after


def _without_table(text: str, path: str) -> str | None:
    document = _read(text, path)
    server = _server_in(document)
    if server is None:
        return text
    if not is_ours(server):
        raise _not_ours(path)
    lines: list[str] = []
    is_within = False
    for line in _LINES.findall(text):
        if line.lstrip(" \t").startswith("["):
            is_within = _TABLE.match(line.rstrip("\r\n")) is not None
            if is_within and lines and not lines[-1].strip():
                lines.pop()  # the blank line that was inserted before it
        if not is_within:
            lines.append(line)
    left = "".join(lines)
    servers = {name: server_entry for name, server_entry in document["mcp_servers"].items() if name != NAME}
    after = _read(left, path)
    if {"mcp_servers": {}, **after} != {**document, "mcp_servers": servers}:
        raise _by_hand(path, "the server is not a table of its own. Take it out")
    return left if left.strip() else None


def _read(text: str, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise Refused(f"{path}: not TOML ({error}). Correct the file. Nothing was written.") from error


def _by_hand(path: str, what: str) -> Refused:
    return Refused(f"{path}: {what} by hand. Nothing was written.")


def _server_in(document: Mapping[str, Any]) -> object:
    servers = document.get("mcp_servers")
    return servers.get(NAME) if isinstance(servers, dict) else None


def _spelled(text: str) -> str:
    """A basic string of TOML, which escapes as JSON does, and the character 7F too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
