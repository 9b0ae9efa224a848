"""`locus replay` and `locus cat`: recorded files, into a directory or to standard output."""

import click

import eventlog
from eventlog.blobs.ids import blob_id, to_text

from .. import complete
from ..access import open_store
from ..exits import PARTIAL, exit_with
from ..options import json_option
from ..output import one_line, put, say
from ..progress import Progress
from ..replayed import show_replayed


@click.command("replay")
@click.argument("turn", metavar="TURN", shell_complete=complete.turns)
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
def replay(turn: str, paths: tuple[str, ...], target: str, at: str, force: bool, as_json: bool) -> None:
    """Put the files of a turn into a directory, byte for byte.

    Without PATHs all files. --at start is the state before the turn, --at EVENT the state just
    after that event. DIR is made when it is missing. Files that could not be reproduced, or are not
    known to be exact at that moment, are listed with the reason, and the exit code is 4, unless
    .locusignore left them out and no PATH names them. A submodule is the commit of another
    repository: it becomes an empty directory, and the commit is named.
    """
    with open_store() as store, Progress("replaying"):
        ref = store.turn(turn)
        state = store.tree(ref, at)
        report = state.materialize(target, paths=paths, force=force)
    show_replayed(state, report, {"turn": ref.context_id, "at": at, "to": target}, paths, as_json=as_json)


@click.command("cat")
@click.argument("what", metavar="HASH|TURN:PATH", shell_complete=complete.contents)
@click.option(
    "--at", default="end", show_default=True, metavar="start|end|EVENT", help="Which moment of the turn."
)
@click.option("--show-withheld", is_flag=True, help="Also write a content that holds a secret.")
def cat(what: str, at: str, show_withheld: bool) -> None:
    """Write one recorded file to standard output.

    A content that holds a secret is withheld: it is written only with --show-withheld, and else
    refused with exit code 3. Where the file is not known to be exact at that moment, the reason is
    reported on stderr, and the exit code is 4.

    \b
    locus cat last:README.md          the file at the end of the newest turn
    locus cat git:1a2b3c4:src/app.py  the file as that commit left it
    locus cat blake3:5f0c             a content by its hash, or a unique beginning of it
    """
    turn, path = split(what)
    with open_store() as store:
        doubt = None
        if turn is None:
            data = store.blob(path)
        else:
            turn, path = _of_agent(store, turn, path)
            state = store.files_at(turn, at)
            data, doubt = state.file(path), state.certainty.doubt(path)
        if not show_withheld:
            _refuse_withheld(store, what, data)
    put(data)
    if doubt is not None:
        say(f"not known to be exact: {one_line(what)}: {one_line(doubt)}")
        exit_with(PARTIAL)


def _of_agent(store: "eventlog.Store", turn: str, path: str) -> tuple[str, str]:
    """(turn, path), where `last:AGENT:PATH` may also be the path `AGENT:PATH` of the turn `last`."""
    agent, colon, rest = path.partition(":")
    if turn != "last" or not colon or not rest or "/" in agent:
        return turn, path
    matches = store.query("select 1 from turns where agent = $1 limit 1", [agent]).rows
    return (f"last:{agent}", rest) if matches else (turn, path)


def _refuse_withheld(store: "eventlog.Store", what: str, data: bytes) -> None:
    content_hash = to_text(blob_id(data))
    if content_hash in store.withheld():
        raise eventlog.Refused(
            f"{what} {store.why_withheld(content_hash)}, so its content is withheld. --show-withheld writes "
            "it all the same; `locus replay` reproduces it without showing it."
        )


def split(what: str) -> tuple[str | None, str]:
    """(turn, path) of `TURN:PATH`, (None, hash) of a hash."""
    kind, _, rest = what.partition(":")
    if kind == "blake3" or (kind == what and what != "last" and "_" not in what):
        return None, what
    if kind in ("turn", "git"):
        name, _, path = rest.partition(":")
        turn = f"{kind}:{name}"
    else:
        turn, path = kind, rest
    if not path:
        raise click.UsageError(f"{turn} is a turn; name a file of it: {turn}:PATH")
    return turn, path
