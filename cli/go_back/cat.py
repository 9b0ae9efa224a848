"""`locus cat`: the bytes of one recorded file."""

from typing import TYPE_CHECKING

import click

from eventlog.base.errors import Refused

from .. import exits
from ..access import open_store, put, say
from ..text import one_line

if TYPE_CHECKING:
    from eventlog.store import Store


@click.command("cat")
@click.argument("what", metavar="HASH|TURN:PATH")
@click.option(
    "--at", default="end", show_default=True, metavar="start|end|EVENT", help="Which moment of the turn."
)
@click.option("--show-withheld", is_flag=True, help="Also write a content that holds a secret.")
@click.pass_context
def command(ctx: click.Context, what: str, at: str, show_withheld: bool) -> None:
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
    with open_store(ctx) as store:
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
        ctx.exit(exits.PARTIAL)


def _of_agent(store: "Store", turn: str, path: str) -> tuple[str, str]:
    """(turn, path), where `last:AGENT:PATH` may also be the path `AGENT:PATH` of the turn `last`."""
    agent, colon, rest = path.partition(":")
    if turn != "last" or not colon or not rest or "/" in agent:
        return turn, path
    matches = store.query("select 1 from turns where agent = $1 limit 1", [agent]).rows
    return (f"last:{agent}", rest) if matches else (turn, path)


def _refuse_withheld(store: "Store", what: str, data: bytes) -> None:
    from eventlog.blobs.ids import blob_id, to_text

    content_hash = to_text(blob_id(data))
    if content_hash in store.withheld():
        raise Refused(
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
