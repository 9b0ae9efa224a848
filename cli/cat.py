"""`locus cat`: the bytes of one recorded file."""

import click

from .access import open_store, put


@click.command("cat")
@click.argument("what", metavar="HASH|TURN:PATH")
@click.option(
    "--at", default="end", show_default=True, metavar="start|end|EVENT", help="Which moment of the turn."
)
@click.pass_context
def command(ctx: click.Context, what: str, at: str) -> None:
    """Write one recorded file to standard output.

    \b
    locus cat last:README.md          the file at the end of the newest turn
    locus cat git:1a2b3c4:src/app.py  the file as that commit left it
    locus cat blake3:5f0c             a content by its hash, or a unique beginning of it
    """
    turn, path = split(what)
    with open_store(ctx) as store:
        data = store.blob(path) if turn is None else store.file(turn, path, at)
    put(data)


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
        raise click.UsageError(f"{turn} is a turn; say which file of it: {turn}:PATH")
    return turn, path
