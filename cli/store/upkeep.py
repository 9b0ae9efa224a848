"""Verbs of `locus store` that rewrite what it holds, in fewer and faster files, or elsewhere."""

import click

import eventlog
from eventlog.maintenance import backup as copies
from eventlog.maintenance.backup import BackupReport

from ..access import open_store
from ..exits import exit_with
from ..options import json_option
from ..output import count, document, put, say, size
from ..progress import Progress


@click.command("seal")
@json_option
def seal(as_json: bool) -> None:
    """Turn the journals into sealed Parquet segments, and bring the index up to date.

    Changes no event and no number. Queries over sealed events are faster.
    """
    with open_store() as store, Progress("sealing"):
        report = store.seal()
        index = store.reindex()
    if as_json:
        put(document({"seal": report, "index": index}))
    elif not report.journals:
        say("Nothing to seal: every event is in a segment.")
    else:
        dropped = f", {count(report.dropped, 'repeated event')} left out" if report.dropped else ""
        say(f"Sealed {count(report.events, 'event')} into {count(len(report.segments), 'segment')}{dropped}.")
        if report.lost:
            say(f"{count(report.lost, 'event')} could not be read: `locus store verify` lists them.")


@click.command("compact")
@click.option("--all", "everything", is_flag=True, help="All segments, not only the newest small ones.")
@json_option
def compact(everything: bool, as_json: bool) -> None:
    """Merge neighbouring segments, so that queries open fewer files and the log takes less room.

    Changes no event and no number. The maintainer does this when eight or more have come together;
    the files that were merged go a minute later, when nobody reads them any more.
    """
    with open_store() as store, Progress("compacting"):
        report = store.compact(everything=everything)
    if as_json:
        put(document({"compact": report}))
        return
    if not report.segments:
        say("Nothing to merge: the segments are few, or large enough.")
    else:
        say(
            f"Merged {count(report.merged, 'segment')} into {len(report.segments)}: "
            f"{size(report.bytes_before)} became {size(report.bytes_after)}."
        )
    if report.removed:
        say(f"Removed {count(len(report.removed), 'file')} that an earlier merging replaced.")
    if report.waiting:
        say(
            f"{count(report.waiting, 'file')} that were merged stay for a minute, and while somebody reads "
            "them; the next maintenance removes them."
        )


@click.command("repack")
@click.option("--all", "everything", is_flag=True, help="Merge all packs, also those that pay little.")
@json_option
def repack(everything: bool, as_json: bool) -> None:
    """Merge packs of file contents into few that are smaller and read faster.

    Changes no content. The packs that were merged are kept aside for a day.
    """
    with open_store() as store, Progress("repacking"):
        report = store.repack(everything=everything)
    if as_json:
        put(document({"repack": report}))
    elif not report.condemned:
        say("Nothing to merge: there are few packs. --all merges them all the same.")
    else:
        merged = count(len(report.condemned), "pack")
        now = f" into one of {size(report.bytes_after)}" if report.pack else " that others made needless"
        say(f"Merged {merged} of {size(report.bytes_before)}{now}.")


@click.command("rebuild")
@json_option
def rebuild(as_json: bool) -> None:
    """Rebuild the index from the log.

    The index is derived: deleting it or rebuilding it changes no answer.
    """
    with open_store() as store, Progress("rebuilding"):
        index = store.rebuild()
    if as_json:
        put(document({"index": index}))
    elif index is None:
        say("Nothing is sealed yet, so there is nothing to index. `locus store seal` seals.")
    else:
        say(f"Rebuilt {index}.")


@click.command("backup")
@click.argument("dest", type=click.Path())
@click.option("--link", is_flag=True, help="Share packs and segments with the store, on the same disk.")
@click.option("--prune", is_flag=True, help="Remove from DEST what the store has dropped since.")
@click.option("--check", is_flag=True, help="Read all of DEST; copy again what does not verify.")
@json_option
def backup(dest: str, link: bool, prune: bool, check: bool, as_json: bool) -> None:
    """Copy the store to the directory DEST, or bring the copy there up to date.

    DEST is a store: `locus --store DEST` reads it. Others may work meanwhile; a backup that is
    killed leaves the copy before it, and is finished by repeating it. Never record into DEST. Exit
    code 12 when files of the store are damaged.
    """
    with open_store() as store, Progress("copying") as progress:
        report = copies.backup(store, dest, link=link, prune=prune, check=check, progress=progress)
    if as_json:
        put(document({"backup": report}))
    else:
        _tell_copied(report)
    if report.damaged:
        exit_with(eventlog.Corruption.exit_code)


def _tell_copied(report: BackupReport) -> None:
    for what in report.damaged:
        say(f"damaged: {what}")
    if report.repaired:
        say(f"{count(report.repaired, 'file')} of the copy did not verify; each was copied again.")
    shared = f", {count(report.linked, 'file')} shared" if report.linked else ""
    gone = f", {count(report.pruned, 'file')} removed" if report.pruned else ""
    say(
        f"{report.dest} holds the log up to position {report.next_position:,}: "
        f"{count(report.packs, 'pack')}, {count(report.segments, 'segment')} and "
        f"{count(report.journals, 'journal')} new ({size(report.bytes)} written{shared}{gone})."
    )
