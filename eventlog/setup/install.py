"""Our hooks in the settings of agents: where they go, which events they want, in and out again.

A settings file belongs to its user. It is edited in place as text (`settings.py`), replaced whole by a
synced sibling and a rename, with its mode and owner, never when somebody changed it meanwhile. What takes
our edit back is kept as a *receipt*: offsets and lengths, and the white space they replaced, never other
content, keyed by the digest of the file as we left it. So while nobody else edits the file, `uninstall`
gives the very bytes that were there before; afterwards only our own entries go.

Any number of processes may call this at once: one lock of the user's serialises them.
"""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eventlog import agents
from eventlog.agents.kit.spec import AgentSpec, SettingsSpec
from eventlog.base.errors import Refused
from eventlog.base.fs import FileSystem, read_file, translate_os_errors
from eventlog.setup import receipts, settings, settings_file
from eventlog.setup.receipts import EditReceipt
from eventlog.setup.settings import Edit, Handler
from eventlog.setup.settings_file import SettingsEdit

LOCAL, PROJECT, USER = "local", "project", "user"
LEVELS = (LOCAL, PROJECT, USER)

# A hook gives up by itself after five seconds; this is for one that cannot. Agents would wait for minutes.
_TIMEOUT_S = 10
_SETTINGS_SIZE_MAX = 8 << 20


@dataclass(frozen=True, slots=True)
class Homes:
    """Where the user keeps things; `of` reads the environment."""

    agents: Mapping[str, str]  # by name, those that keep settings
    state: str  # receipts
    data: str  # the stub, where there is no virtual environment

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Homes":
        home = environ.get("HOME") or os.path.expanduser("~")

        def directory(variable: str, default: str) -> str:
            return os.path.abspath(environ.get(variable) or os.path.join(home, default))

        of_agents = {
            spec.name: os.path.join(directory(own.variable, own.default), own.folder).rstrip("/")
            for spec in agents.specs()
            if (own := spec.home) is not None
        }
        state, data = directory("XDG_STATE_HOME", ".local/state"), directory("XDG_DATA_HOME", ".local/share")
        return cls(of_agents, state, data)


@dataclass(frozen=True, slots=True)
class Registered:
    """What one settings file says of our hooks. `problem` is why it could not be read, None when it was."""

    agent: str
    level: str
    path: str
    exists: bool
    events: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    disabled: str | None = None  # the setting that switches hooks off
    is_older: bool = False  # another version of Locus made the file
    status_line: str | None = None  # the command of a status line of ours
    problem: str | None = None


def spec_of(agent: str) -> tuple[AgentSpec, SettingsSpec]:
    """What is known of an agent whose hooks can be installed."""
    spec = agents.spec_of(agent)
    assert spec is not None and spec.settings is not None, f"{agent} has hooks"
    return spec, spec.settings


def settings_path(agent: str, level: str, directory: str, homes: Homes) -> str:
    """The settings file of an agent: of a project directory, shared or not, or of the user.

    Most agents have one file for a project, whichever is asked for; that of some is a plugin of ours.
    """
    spec, settings_spec = spec_of(agent)
    if level == USER:
        return f"{homes.agents[agent]}/{settings_spec.file}"
    name = settings_spec.local_file if level == LOCAL else None
    return f"{directory}/{spec.folder}/{name or settings_spec.file}"


def agents_here(directory: str, homes: Homes, search_path: str | None) -> list[str]:
    """The agents that this user or this project has: a program, a home, or a directory in the project."""
    return [
        spec.name
        for spec in agents.installable()
        if os.path.isdir(homes.agents[spec.name])
        or os.path.isdir(f"{directory}/{spec.folder}")
        or (spec.program is not None and shutil.which(spec.program, path=search_path))
    ]


def handlers(agent: str, line: str) -> dict[str, Handler]:
    """For every event that the adapter of `agent` wants, what is to run."""
    _, settings_spec = spec_of(agent)
    less_s = dict(settings_spec.timeouts_s)
    return {
        event: {
            "type": "command",
            "command": line,
            "timeout": less_s.get(event, _TIMEOUT_S) * settings_spec.timeout_unit,
        }
        for event in settings_spec.events
    }


def install(
    fs: FileSystem,
    agent: str,
    path: str,
    wanted: Mapping[str, Handler],
    homes: Homes,
    *,
    shown: Handler | None = None,
    dry_run: bool = False,
) -> SettingsEdit:
    """Register exactly `wanted` in the settings file at `path`; entries of ours from before give place.

    Args: shown: the status line to set; without one, a status line of ours stays and no other is touched.
    Raises: Refused (not the JSON it should be, changed meanwhile, or it has a status line of somebody else),
        LockTimeout, EventLogError.
    """
    plugin = _plugin(agent)
    if plugin is not None:
        return _edit(fs, agent, path, homes, dry_run, lambda file: file.with_plugin(plugin, wanted))
    return _edit(fs, agent, path, homes, dry_run, lambda file: file.with_hooks(wanted, shown))


def uninstall(fs: FileSystem, agent: str, path: str, homes: Homes, *, dry_run: bool = False) -> SettingsEdit:
    """Take our hooks out again, and forget that they were ever put in. Raises: as `install`."""
    plugin = _plugin(agent)
    if plugin is not None:
        return _edit(fs, agent, path, homes, dry_run, lambda file: file.without_plugin(plugin), is_end=True)
    return _edit(fs, agent, path, homes, dry_run, lambda file: file.without_hooks(), is_end=True)


def was_installed(fs: FileSystem, path: str, homes: Homes) -> bool:
    """Whether we put hooks into the settings file at `path` and nobody asked to take them out since."""
    return bool(receipts.of_path(fs, receipts.directory(homes.state), path))


def had_status_line(fs: FileSystem, path: str, homes: Homes) -> bool:
    """Whether we set a status line in the settings file at `path` and nobody asked to take it out since."""
    return receipts.had_status_line(fs, receipts.directory(homes.state), path)


def edit_text(
    fs: FileSystem,
    agent: str,
    path: str,
    homes: Homes,
    make: Callable[[str | None], str | None],
    *,
    dry_run: bool = False,
) -> SettingsEdit:
    """Make of the text of a settings file what `make` gives; None is a file that is not there.

    In the way of `install`: under the user's lock, replaced whole, never when somebody changed it meanwhile.
    Raises: as `install`, and what `make` raises.
    """

    def planned() -> SettingsEdit:
        file = os.path.realpath(path)
        before = settings_file.read(fs, path, file)
        after = make(None if before is None else _text(before, path))
        return SettingsEdit(agent, path, file, before, None if after is None else after.encode())

    with translate_os_errors(path, "edit the settings"):
        if dry_run:
            return planned()
        with settings_file.locked(fs, receipts.directory(homes.state)):
            change = planned()
            settings_file.carry_out(fs, change)
            return change


def registered_in(fs: FileSystem, agent: str, level: str, path: str) -> Registered:
    """What the settings file at `path` says of our hooks; never raises for what is in it."""
    try:
        data = read_file(fs, path, _SETTINGS_SIZE_MAX)
        text = _text(data, path)
        plugin = _plugin(agent)
        if plugin is not None:
            return _registered_by_plugin(agent, plugin, level, path, text)
        if settings.is_blank(text):
            return Registered(agent, level, path, True)
        root = settings.parse(text, path, comments=spec_of(agent)[1].has_comments)
    except (FileNotFoundError, NotADirectoryError):
        return Registered(agent, level, path, False)
    except OSError as error:
        return Registered(agent, level, path, True, problem=f"{path}: {error.strerror}")
    except (Refused, ValueError) as error:
        return Registered(agent, level, path, True, problem=str(error))
    ours = settings.ours_in(root)
    events = tuple(dict.fromkeys(own.event for own in ours))
    shown = settings.status_line(root)
    return Registered(
        agent,
        level,
        path,
        True,
        events=events,
        missing=tuple(event for event in spec_of(agent)[1].events if event not in events) if events else (),
        lines=tuple(dict.fromkeys(_line_of(own.handler) for own in ours)),
        disabled=_disabled(root.data, ours),
        status_line=str(shown["command"]) if settings.is_our_status_line(shown) else None,
    )


def _plugin(agent: str) -> Any:
    """The module that makes the agent's plugin; None where settings hold the hooks."""
    name = spec_of(agent)[1].plugin
    return None if name is None else agents.loaded(name)


def _registered_by_plugin(agent: str, plugin: Any, level: str, path: str, text: str) -> Registered:
    if not plugin.is_ours(text):
        return Registered(agent, level, path, True)
    events, line = plugin.events_in(text), plugin.line_in(text)
    missing = tuple(event for event in spec_of(agent)[1].events if event not in events)
    problem = plugin.edited(path) if plugin.is_edited(text) else None
    lines = () if line is None else (line,)
    older = line is not None and text != plugin.text(line, events)
    return Registered(agent, level, path, True, events, missing, lines, problem=problem, is_older=older)


def _disabled(data: Mapping[str, Any], ours: Sequence[settings.Ours]) -> str | None:
    """The setting that keeps our hooks from running."""
    if data.get("disableAllHooks") is True:
        return "disableAllHooks"
    switches = data.get("hooksConfig")
    if isinstance(switches, dict) and switches.get("enabled") is False:
        return "hooksConfig.enabled false"
    off = switches.get("disabled") if isinstance(switches, dict) else None
    if isinstance(off, list) and any(own.handler.get("command") in off for own in ours):
        return "hooksConfig.disabled with our command"
    return None


# -- one file ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Edited:
    """What is to become of a file, and what takes it back."""

    after: str | None
    receipt: EditReceipt | None = None


@dataclass(frozen=True, slots=True)
class _File:
    """A settings file as it is; `text` is None when it is not there."""

    path: str
    text: str | None
    comments: bool  # its agent reads them
    receipt: EditReceipt | None  # of exactly these bytes
    created: bool  # by us, as any receipt says
    made_directory: bool

    def is_blank(self) -> bool:
        return self.text is None or settings.is_blank(self.text)

    def parsed(self) -> settings.Value:
        return self._parse(self.text or "")

    def _parse(self, text: str) -> settings.Value:
        return settings.parse(text, self.path, comments=self.comments)

    def with_hooks(self, wanted: Mapping[str, Handler], shown: Handler | None) -> _Edited:
        if not self.is_blank():
            root = self.parsed()
            there = settings.status_line(root)
            if shown is not None and there is not None and not settings.is_our_status_line(there):
                raise Refused(
                    f"{self.path} has a `statusLine` of its own. Remove it there, or leave --statusline out."
                )
            if shown is None and settings.is_our_status_line(there):
                shown = there
            if settings.holds_exactly(root, wanted) and (shown is None or there == shown):
                return _Edited(self.text)
        base = self.without_hooks().after
        made_directory = self.made_directory or not os.path.isdir(os.path.dirname(self.path))
        if base is None:
            receipt = EditReceipt(None, True, made_directory, shown is not None)
            return _Edited(settings.created(wanted, shown), receipt)
        if settings.is_blank(base):
            edits = [Edit(0, len(base), settings.created(wanted, shown))]
        else:
            edits = settings.insertion(base, self._parse(base), wanted, shown)
        after, back = settings.apply(base, edits)
        return _Edited(after, EditReceipt(tuple(back), self.created, made_directory, shown is not None))

    def with_plugin(self, plugin: Any, wanted: Mapping[str, Handler]) -> _Edited:
        after = plugin.put_in(self.path, self.text, wanted)
        made_directory = self.made_directory or not os.path.isdir(os.path.dirname(self.path))
        return _Edited(after, None if after == self.text else EditReceipt(None, True, made_directory))

    def without_plugin(self, plugin: Any) -> _Edited:
        return _Edited(plugin.taken_out(self.path, self.text))

    def without_hooks(self) -> _Edited:
        if self.text is None or self.is_blank():
            return _Edited(self.text)
        root = self.parsed()
        if not settings.is_in(root):
            return _Edited(self.text)
        edits: Sequence[Edit] | None
        edits = settings.removal(self.text, root) if self.receipt is None else self.receipt.edits
        if edits is None:  # there was no file
            return _Edited(None)
        left = settings.apply(self.text, edits)[0]
        is_empty = self.created and settings.is_empty(left, self.path, comments=self.comments)
        return _Edited(None if is_empty else left)


def _edit(
    fs: FileSystem, agent: str, path: str, homes: Homes, dry_run: bool, make: Any, *, is_end: bool = False
) -> SettingsEdit:
    """Args: is_end: nothing of ours is to be in the file from now on, whether it was there or not."""
    with translate_os_errors(path, "edit the settings"):
        if dry_run:
            return _planned(fs, agent, path, homes, make)[0]
        directory = receipts.directory(homes.state)
        with settings_file.locked(fs, directory):
            change, edited, made_directory = _planned(fs, agent, path, homes, make)
            if change.kind != "unchanged":
                _carry_out(fs, change, edited.receipt, directory, made_directory)
            if is_end:
                receipts.forget_path(fs, directory, path)
            return change


def _planned(
    fs: FileSystem, agent: str, path: str, homes: Homes, make: Any
) -> tuple[SettingsEdit, _Edited, bool]:
    file = os.path.realpath(path)
    before = settings_file.read(fs, path, file)
    known = receipts.of_file(fs, receipts.directory(homes.state), file)
    try:
        settings_before = _File(
            path,
            None if before is None else _text(before, path),
            spec_of(agent)[1].has_comments,
            known.get(receipts.digest(before)) if before is not None else None,
            any(receipt.created for receipt in known.values()),
            any(receipt.made_directory for receipt in known.values()),
        )
        edited: _Edited = make(settings_before)
    except Refused as error:  # code that only reads raises it, too
        raise Refused(f"{error} Nothing was written.") from error
    after = None if edited.after is None else edited.after.encode()
    return SettingsEdit(agent, path, file, before, after), edited, settings_before.made_directory


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(f"{path}: not UTF-8 at byte {error.start}. Save it as UTF-8.") from error


def _line_of(handler: Handler) -> str:
    arguments = handler.get("args")
    words = [str(handler.get("command")), *(map(str, arguments) if isinstance(arguments, list) else ())]
    return " ".join(words)


def _carry_out(
    fs: FileSystem, change: SettingsEdit, receipt: EditReceipt | None, directory: str, made_directory: bool
) -> None:
    """The receipt first: a crash leaves one that fits no file, which harms nobody."""
    if receipt is not None and change.after is not None:
        receipts.write(fs, directory, change.path, change.file, change.after, receipt)
    settings_file.carry_out(fs, change, made_directory=made_directory)
    receipts.forget(fs, directory, change.file, change.after if receipt is not None else None)
