"""Files outside of the repository for a person at this machine: with directories instead of their ids.

Events name such a file by an id of its directory, which depends on this store's key (docs/transcripts.md). No
event or file maps ids to directories: the other directories in the log (of agents, and in their tool calls)
are tried until the id matches. An id without a match stays.
"""

import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

import eventlog
from eventlog.base.paths import OUTSIDE

if TYPE_CHECKING:
    from eventlog.secrets.outside_names import OutsideNames

_NAME = re.compile(r"root:[0-9a-f]{16}(?=/)")
_CALLS_MAX = 50
_TEXT_MAX = 1 << 20
_ROOTS_MAX = 200
_CWDS = "select distinct cwd from events where cwd is not null"
_CALLS = (
    "select call.payload, call.cwd from events file join events call on call.event_id = file.cause "
    "where file.event_type in ('file', 'mismatch') and starts_with(file.path, $1) limit $2"
)
_META = "locus.outside"


def local(text: str) -> str:
    """A text for people, with the directories of files outside of the repository where they are known."""
    if OUTSIDE not in text:
        return text
    context = click.get_current_context(silent=True)
    if context is None:
        return text
    directories: dict[str, str | None] = context.find_root().meta.setdefault(_META, {})
    new = {match for match in _NAME.findall(text) if match not in directories}
    if new and len(directories) < _ROOTS_MAX:
        directories |= dict.fromkeys(new)
        directories |= _directories(context, new)
    return _NAME.sub(lambda match: directories.get(match[0]) or match[0], text)


def forget(root: click.Context) -> None:
    """Another store is asked from now on. Args: root: the context of `locus`."""
    root.meta.pop(_META, None)


def _directories(context: click.Context, roots: set[str]) -> dict[str, str]:
    from eventlog.secrets.outside_names import OutsideNames

    try:
        with eventlog.Store.open(context.find_root().obj) as store:
            if not store.fs.exists(store.layout.redaction_key):
                return {}
            return _resolved(store, OutsideNames(store.fs, store.layout), roots)
    except eventlog.EventLogError:
        return {}  # it is a convenience; the command itself reports the error


def _resolved(store: "eventlog.Store", names: "OutsideNames", roots: set[str]) -> dict[str, str]:
    directories_by_root: dict[str, str] = {}
    tried: set[str] = set()

    def fit(directories: Iterable[str]) -> None:
        for directory in directories:
            if directory not in tried:
                tried.add(directory)
                root = names.root_of(directory)
                if root in roots:
                    directories_by_root[root] = directory.rstrip("/")

    for (cwd,) in store.query(_CWDS).rows:
        fit(_above(str(cwd)))
    for root in roots:
        if root not in directories_by_root:
            for payload, cwd in store.query(_CALLS, [f"{root}/", _CALLS_MAX]).rows:
                fit(_named(payload, cwd or ""))
                if root in directories_by_root:
                    break
    return directories_by_root


def _above(path: str) -> Iterator[str]:
    """A directory and those above it."""
    path = os.path.normpath(path.replace("\\", "/"))
    while path.strip("/"):
        yield path
        path = path.rpartition("/")[0]
    yield "/"


def _named(payload: object, cwd: str) -> Iterator[str]:
    """The directories of the paths that a tool call names."""
    from eventlog.base import jsontext
    from eventlog.base.paths import patch_paths

    waiting: list[object] = [jsontext.object_of(payload).get("args")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and len(value) <= _TEXT_MAX:
            for path in patch_paths(value) if "*** " in value else [value]:
                if "\n" not in path and "\0" not in path:
                    yield from list(_above(os.path.join(cwd, path)))[1:2]
