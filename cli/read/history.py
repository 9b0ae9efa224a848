"""`locus history`: every recorded version of one file."""

import os
from dataclasses import asdict
from typing import Any

import click

import eventlog
from eventlog.blobs.ids import from_text
from eventlog.query.lookup import rewritten_turns

from .. import complete
from ..access import open_store
from ..all_stores import in_all_stores
from ..exits import PARTIAL, exit_with
from ..filters import names_of, outside_names
from ..options import json_option, limit_option, rewritten_option
from ..output import (
    change,
    json_line,
    moment_exact,
    one_line,
    path_words,
    put,
    say,
    say_left_out,
    short_hash,
    table,
)
from ..times import when, zone

_CHANGES_FILE = "list_contains(files_modified, $1)"


@click.command("history")
@click.argument("path", metavar="PATH", shell_complete=complete.paths)
@limit_option()
@rewritten_option
@json_option
@in_all_stores
def command(path: str, limit: int, want_all: bool, as_json: bool) -> None:
    """List the versions of one file, newest first.

    Renames are followed back: the versions under the old name belong to the file. Each version is
    the content of a hash, which `locus cat` prints. With --json one object per line. Where the file
    is not known at the end of one of the turns, stderr reports it, and the exit code is 4.
    """
    with open_store() as store:
        # One more than is shown, to know whether there are more.
        versions = _find(store, path, limit + 1, want_all)
        shown = versions[:limit]
        gone = _gone(store, shown)
        left_out = 0 if want_all else rewritten_turns(store.query, _CHANGES_FILE, [versions[0].path])
    if as_json:
        for version in shown:
            put(json_line(_record(version)))
    else:
        put(_table(shown))
    if len(versions) > limit:
        say(f"There are more; --limit N shows more than {limit}.")
    say_left_out(left_out)
    for hash, fate in gone.items():
        say(f"{short_hash(hash)} is not in the store any more: {fate}")
    doubts = {version.turn_name: version.doubt for version in shown if version.doubt is not None}
    for turn, doubt in doubts.items():
        say(f"not known at the end of {turn}: {one_line(doubt)}")
    if doubts:
        exit_with(PARTIAL)


def _find(store: "eventlog.Store", path: str, limit: int, want_all: bool) -> "list[eventlog.FileVersion]":
    outside: "eventlog.NotFound | None" = None
    try:
        names = names_of(store, path)
    except eventlog.NotFound as error:
        outside, names = error, outside_names(store, os.path.abspath(path))
    for name in names:
        versions = store.history(name, limit=limit, rewritten=want_all)
        if versions:
            return versions
    if outside is not None:
        raise outside
    raise eventlog.NotFound(
        f"no event changes {' or '.join(names)}. `locus log --path {names[0]}` lists what "
        f"happened there and below, `locus recover {names[0]}` its states in recorded trees."
    )


def _gone(store: "eventlog.Store", versions: "list[eventlog.FileVersion]") -> dict[str, str]:
    """Contents of the versions that were collected, each with what became of it."""
    fates = {}
    for version in versions:
        try:
            if version.after_hash and not store.blobs.contains(from_text(version.after_hash)):
                store.fates.asked = {version.session_id or ""}
                fates[version.after_hash] = store.fates()
        except eventlog.InvalidEvent:
            continue  # a hash of another kind
    return {hash: fate for hash, fate in fates.items() if fate is not None}


def _table(versions: "list[eventlog.FileVersion]") -> str:
    cells = [
        (
            version.turn_name or "",
            when(version.at),
            version.operation or "",
            change(version.lines_added, version.lines_removed),
            short_hash(version.after_hash) if version.after_hash else "",
            " → ".join(path_words(path) for path in (version.old_path, version.path) if path is not None),
            one_line(version.title or version.user_request or ""),
        )
        for version in versions
    ]
    heads = ("TURN", f"WHEN ({zone()})", "CHANGE", "LINES", "CONTENT", "PATH", "TITLE")
    return table(heads, cells, right=(3,), drop=("PATH", "LINES", "CONTENT", "CHANGE", "WHEN"))


def _record(version: "eventlog.FileVersion") -> dict[str, Any]:
    """A version for JSON: the fields by their names, also the turn's name, the time as ISO 8601."""
    fields = asdict(version)
    name = version.turn_name
    return {**fields, "at": moment_exact(version.at), "context_id": None if name is None else f"turn:{name}"}
