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

from eventlog import agents
from eventlog.agents.kit.spec import ARGUMENTS, COMMAND_LINE, PROGRAM, TOML, AgentSpec, ServerSpec
from eventlog.base.errors import Refused
from eventlog.base.fs import FileSystem, read_file
from eventlog.setup import settings
from eventlog.setup.install import Homes, edit_text
from eventlog.setup.settings_file import SettingsEdit

NAME = "locus"
PROJECT, USER = "project", "user"
_FILE_SIZE_MAX = 8 << 20
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_TABLE = r"[ \t]*\[[ \t]*%s[ \t]*\.[ \t]*\"?locus\"?[ \t]*(\.[^\]\n]*)?\][ \t]*(#.*)?$"


def spec_of(agent: str) -> tuple[AgentSpec, ServerSpec]:
    """What is known of an agent whose settings can name a server."""
    spec = agents.spec_of(agent)
    assert spec is not None and spec.server is not None, f"{agent} starts servers"
    return spec, spec.server


def settings_path(agent: str, scope: str, directory: str, homes: Homes, environ: Mapping[str, str]) -> str:
    """The file in which an agent looks for servers: of a project directory, or of the user."""
    spec, server = spec_of(agent)
    if scope == PROJECT:
        return _first_there(directory, server.files)
    home = homes.agents[agent]
    if server.is_beside_home and not (spec.home is not None and environ.get(spec.home.variable)):
        home = os.path.dirname(home)
    return _first_there(home, server.user_files)


def _first_there(directory: str, names: Sequence[str]) -> str:
    """The first of these files that exists, else the last."""
    paths = [f"{directory}/{name}" for name in names]
    return next(filter(os.path.exists, paths), paths[-1])


def command_line(agent: str, scope: str, store: str | None) -> list[str]:
    """The command that the agent is to start.

    Others read a project's settings, on other machines: there it is a program on the PATH. The entry for a
    project names the store where the agent tells its servers nothing of the project.
    """
    there = os.path.join(os.path.dirname(sys.executable), NAME)
    if scope == PROJECT:
        program = [NAME]
    else:
        program = [there] if os.access(there, os.X_OK) else [sys.executable, "-m", "locus_cli"]
    is_named = scope == PROJECT and spec_of(agent)[1].needs_store
    named = ["--store", store] if is_named and store is not None else []
    return [*program, *named, "mcp", "--agent", agent]


def install(
    fs: FileSystem, agent: str, path: str, line: Sequence[str], homes: Homes, *, dry_run: bool = False
) -> SettingsEdit:
    """Insert our entry, and replace an earlier one of ours.

    Raises: Refused (an entry of that name which is not ours; an invalid format), LockTimeout.
    """

    def make(text: str | None) -> str:
        server = spec_of(agent)[1]
        change = _with_table if server.format == TOML else _with_member
        return change(text, path, server, line)

    return edit_text(fs, agent, path, homes, make, dry_run=dry_run)


def uninstall(fs: FileSystem, agent: str, path: str, homes: Homes, *, dry_run: bool = False) -> SettingsEdit:
    """Remove our entry, and the file if it is then empty. Raises: as `install`."""

    def make(text: str | None) -> str | None:
        if text is None:
            return None
        server = spec_of(agent)[1]
        return (_without_table if server.format == TOML else _without_member)(text, path, server)

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
    server = spec_of(agent)[1]
    if server.format == TOML:
        return _server_in(_read(text, path), server)
    return _value_at(_parsed(text, path, server), (server.key, NAME))


# -- JSON ------------------------------------------------------------------------------------------


def _entry(server: ServerSpec, line: Sequence[str]) -> dict[str, Any]:
    values = {PROGRAM: line[0], ARGUMENTS: list(line[1:]), COMMAND_LINE: list(line)}
    return {key: values.get(value, value) if isinstance(value, str) else value for key, value in server.entry}


def _with_member(text: str | None, path: str, server: ServerSpec, line: Sequence[str]) -> str:
    entry, keys = _entry(server, line), (server.key, NAME)
    is_blank = text is None or settings.is_blank(text)
    if text is not None and not is_blank and _value_at(_parsed(text, path, server), keys) == entry:
        return text
    base = None if text is None else _without_member(text, path, server)
    if base is None or settings.is_blank(base):
        return json.dumps({server.key: {NAME: entry}}, indent=2, ensure_ascii=False) + "\n"
    edits = settings.member_put(base, _parsed(base, path, server), keys, entry, path)
    return settings.apply(base, edits)[0]


def _without_member(text: str, path: str, server: ServerSpec) -> str | None:
    if settings.is_blank(text):
        return text
    root, keys = _parsed(text, path, server), (server.key, NAME)
    member = _value_at(root, keys)
    if member is None:
        return text
    if not is_ours(member):
        raise _not_ours(path)
    left = settings.apply(text, settings.member_cut(text, root, *keys))[0]
    return None if settings.is_empty(left, path, comments=server.has_comments) else left


def _parsed(text: str, path: str, server: ServerSpec) -> settings.Value:
    return settings.parse(text, path, comments=server.has_comments)


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


def _with_table(text: str | None, path: str, server: ServerSpec, line: Sequence[str]) -> str:
    entry = _entry(server, line)
    if text is not None and _server_in(_read(text, path), server) == entry:
        return text
    base = (None if text is None else _without_table(text, path, server)) or ""
    newline = "\r\n" if "\r\n" in base else "\n"
    fields = (f"{key} = {_spelled(value)}{newline}" for key, value in entry.items())
    words = f"[{server.key}.{NAME}]{newline}{''.join(fields)}"
    gap = "" if not base else newline if base.endswith("\n") else newline * 2
    after = f"{base}{gap}{words}"
    if _server_in(_read(after, path), server) != entry:
        raise _by_hand(path, f"`{server.key}` is not made of tables. Put the server in")
    return after


def _without_table(text: str, path: str, server: ServerSpec) -> str | None:
    before = _read(text, path)
    entry = _server_in(before, server)
    if entry is None:
        return text
    if not is_ours(entry):
        raise _not_ours(path)
    table = re.compile(_TABLE % re.escape(server.key))
    rest: list[str] = []
    is_within = False
    for line in _LINES.findall(text):
        if line.lstrip(" \t").startswith("["):
            is_within = table.match(line.rstrip("\r\n")) is not None
            if is_within and rest and not rest[-1].strip():
                rest.pop()  # the blank line that was put before it
        if not is_within:
            rest.append(line)
    left = "".join(rest)
    others = {name: other for name, other in before[server.key].items() if name != NAME}
    after = _read(left, path)
    if {server.key: {}, **after} != {**before, server.key: others}:
        raise _by_hand(path, "the server is not a table of its own. Take it out")
    return left if left.strip() else None


def _read(text: str, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise Refused(f"{path}: not TOML ({error}). Correct the file. Nothing was written.") from error


def _by_hand(path: str, what: str) -> Refused:
    return Refused(f"{path}: {what} by hand. Nothing was written.")


def _server_in(document: Mapping[str, Any], server: ServerSpec) -> object:
    servers = document.get(server.key)
    return servers.get(NAME) if isinstance(servers, dict) else None


def _spelled(value: object) -> str:
    """A value of TOML: a basic string, which escapes as JSON does, and the character 7F too; or a list."""
    if isinstance(value, list):
        return f"[{', '.join(map(_spelled, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
