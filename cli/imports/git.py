"""`locus import git`: each commit of the first-parent line becomes a turn."""

import os

import click

from eventlog.importers.git_history import GitImportReport, import_git

from ..access import open_store
from ..exits import PARTIAL, exit_with
from ..options import json_option
from ..output import count, document, one_line, path_words, put, say
from ..progress import Progress, seal_shown
from .withheld_text import say_withheld


@click.command("git")
@click.argument("repository", default=".", type=click.Path())
@click.option("--rev", default="HEAD", show_default=True, metavar="REV", help="Where the history ends.")
@click.option("--limit", "-n", type=click.IntRange(min=1), metavar="N", help="Only the newest N commits.")
@click.option("--all-parents", is_flag=True, help="Also the commits that merges brought to the line.")
@json_option
def command(repository: str, rev: str, limit: int | None, all_parents: bool, as_json: bool) -> None:
    """Record the history of a git repository as turns.

    Each commit of the first-parent line becomes a turn: its message is the intent, its changes are
    file events, its files a snapshot. Fifty commits are a session. Only reads REPOSITORY (default:
    here). Repeating it adds what is new; an import that was killed continues where it stopped. What
    could not be recorded is listed, and the exit code is 4.
    """
    with open_store(records=True) as store:
        with Progress("recording commits") as progress:
            path = os.path.abspath(repository)
            report = import_git(store, path, rev=rev, limit=limit, all_parents=all_parents, progress=progress)
        seal_shown(store)
    if as_json:
        put(document({"import": report}))
    else:
        _tell(report)
    if report.missing:
        exit_with(PARTIAL)


def _tell(report: GitImportReport) -> None:
    for path, reason in report.missing:
        put(f"not recorded: {path_words(path)}: {one_line(reason)}\n")
    if report.provisional:
        say(
            "This is a shallow clone: turns are counted from its oldest commit, and a full import will "
            "count again from the first."
        )
    if report.rewritten:
        turns = count(report.rewritten, "turn")
        say(f"{turns} known before: the commits were rewritten. `locus log --all` lists them too.")
    if report.recorded_again:
        say(
            f"{count(report.recorded_again, 'commit')} recorded again: without its parent, which an earlier "
            "clone lacked, all files counted as added. `locus log --all` lists that turn too."
        )
    if report.commits == 0:
        say(f"Nothing new: {count(report.skipped, 'commit')} known before.")
        return
    known_before = f" ({report.skipped:,} known before)" if report.skipped else ""
    say(
        f"Recorded {count(report.commits, 'commit')}{known_before} as turns of "
        f"{count(report.sessions, 'session')}: {count(report.events, 'event')}, "
        f"{count(report.blobs, 'new file content')}."
    )
    say_withheld(report.withheld)
    if report.other_parents:
        say(f"{count(report.other_parents, 'commit')} of merged branches left out; --all-parents has them.")
    say("Next: `locus log` lists the turns, `locus timeline last` shows the newest.")
