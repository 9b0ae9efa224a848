"""`locus lake replay`: a turn of a store that published, from the objects in a place alone."""

import click

from ..options import json_option
from ..progress import Progress
from ..replayed import show_replayed


@click.command("replay")
@click.argument("to", metavar="TO")
@click.argument("turn", metavar="TURN")
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@click.option(
    "--to", "target", required=True, metavar="DIR", type=click.Path(), help="Where to put the files."
)
@click.option("--store", metavar="ID", help="Only this store: its id, or the beginning of it.")
@click.option(
    "--at", default="end", show_default=True, metavar="start|end|EVENT", help="Which moment of the turn."
)
@click.option(
    "--force", is_flag=True, help="Also into a directory that holds something; files there are replaced."
)
@json_option
def command(
    to: str, turn: str, paths: tuple[str, ...], target: str, store: str | None, at: str, force: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Put the files of a published turn into a directory, byte for byte.

    TO is the place that the store published to: s3://BUCKET/PREFIX or file:///DIRECTORY. The store
    itself is not needed, nor are tables. TURN, PATHs and --at are those of `locus replay`. Where
    several stores know TURN, --store says which is meant.

    Files whose contents were not published, are withheld, were erased or are damaged are listed with
    the reason, and the exit code is 4. What only git held is read from the clone around the current
    directory, if there is one.
    """
    from eventlog.lake.place import open_place
    from eventlog.lake.replay import find_published_turn, published_tree

    with Progress("replaying"):
        published = find_published_turn(open_place(to), turn, store)
        with published_tree(published, at) as state:
            report = state.materialize(target, paths=paths, force=force)
    named = {
        "store": published.log.store_id,
        "turn": published.ref.context_id,
        "at": at,
        "to": target,
    }
    show_replayed(state, report, named, paths, as_json=as_json)
