"""`locus replay`: the files of a turn, byte for byte."""

import click

from .. import exits
from ..access import json_option, open_store, put, say
from ..jsonout import certainty_json, document
from ..progress import Progress
from ..text import count, ignored_text, one_line, size


@click.command("replay")
@click.argument("turn", metavar="TURN")
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@click.option(
    "--to", "target", required=True, metavar="DIR", type=click.Path(), help="Where to put the files."
)
@click.option(
    "--at", default="end", show_default=True, metavar="start|end|EVENT", help="Which moment of the turn."
)
@click.option(
    "--force", is_flag=True, help="Also into a directory that holds something; files there are replaced."
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    turn: str,
    paths: tuple[str, ...],
    target: str,
    at: str,
    force: bool,
    as_json: bool,
) -> None:
    """Put the files of a turn into a directory, byte for byte.

    Without PATHs all files. --at start is the state before the turn, --at EVENT the state just
    after that event. DIR is made when it is missing. Files that could not be reproduced, or are not
    known to be exact at that moment, are listed with the reason, and the exit code is 4, unless
    .locusignore left them out and no PATH names them. A submodule is the commit of another
    repository: it becomes an empty directory, and the commit is named.
    """
    from eventlog.worktree.entries import BY_CHOICE

    with open_store(ctx) as store, Progress("replaying"):
        ref = store.turn(turn)
        state = store.tree(ref, at)
        report = state.materialize(target, paths=paths, force=force)
    # Files of the turn that are missing: lost since, or never captured. Both make it partial.
    absent = [(_text(path), reason) for path, reason in (*report.missing, *report.skipped)]
    submodules = [(_text(path), commit) for path, commit in report.submodules]
    if as_json:
        put(
            document(
                {
                    "turn": ref.context_id,
                    "at": at,
                    "to": target,
                    "files": report.files,
                    "bytes": report.bytes,
                    "symlinks": report.symlinks,
                    "directories": report.dirs,
                    "ignored": state.ignored_count,
                    "certainty": certainty_json(state.certainty),
                    "missing": [{"path": path, "reason": reason} for path, reason in absent],
                    "submodules": [{"path": path, "commit": commit} for path, commit in submodules],
                }
            )
        )
    else:
        links = f", {count(report.symlinks, 'symlink')}" if report.symlinks else ""
        say(f"{ref.context_id} → {target}: {count(report.files, 'file')} ({size(report.bytes)}){links}")
        if not state.certainty.exact:
            put(f"{state.certainty.state}: {one_line(state.certainty.why)}\n")
        for path, reason in absent:
            if path == "." and reason == state.certainty.why:
                continue  # it was printed already
            put(f"not reproduced: {one_line(path)}: {one_line(reason)}\n")
        if state.ignored_count:
            put(f"{ignored_text(state.ignored_count)}\n")
        for path, commit in submodules:
            put(f"submodule, left empty: {one_line(path)} at {one_line(commit)}\n")
    named = {path.rstrip("/") for path in paths}
    if any(reason not in BY_CHOICE or path in named for path, reason in absent):
        ctx.exit(exits.PARTIAL)


def _text(path: bytes | str) -> str:
    from eventlog.base.paths import path_text

    return path_text(path) if isinstance(path, bytes) else path
