"""`locus import claude-code|codex|…`: the sessions that agents left on disk."""

import datetime
import os
from collections.abc import Sequence

import click

import eventlog
from eventlog.agents.kit.spec import AgentSpec
from eventlog.importers import importer, sources
from eventlog.importers.importer import ImportReport

from ..access import open_store
from ..exits import PARTIAL, exit_with
from ..options import json_option
from ..output import count, document, one_line, put, say
from ..progress import Progress, seal_shown
from .withheld_text import say_withheld

_SHOWN_MAX = 20
_PASSED_SHOWN_MAX = 3

_HELP = """Record the sessions that {agent} left on disk.

Without PATH: those of this repository, from where {agent} keeps them. A file or a directory that is
named is taken as it is, whatever directory its sessions ran in. Only reads there. Each model response
counts once, also when sessions were resumed, forked or recorded live. Repeating it adds what is new.
What could not be read is kept or named, and then the exit code is 4.
"""
_HELP_OF_FILES = """Record sessions of {agent} from files.

PATH is a transcript, or a directory of them. Only reads there. Repeating it adds what is new. What could
not be read is kept or named, and then the exit code is 4.
"""


def command_of(spec: AgentSpec) -> click.Command:
    """The command for one agent."""
    agent = spec.name
    is_found = spec.transcripts is not None and spec.transcripts.is_found

    def run(
        path: tuple[str, ...], since: datetime.datetime | None, all_projects: bool, as_json: bool
    ) -> None:
        if path and all_projects:
            raise click.UsageError("--all-projects is about the agent's own directory; leave PATH out")
        with open_store(records=True) as store:
            since_s = None if since is None else since.replace(tzinfo=datetime.UTC).timestamp()
            with Progress("importing sessions") as progress:
                report = _run(store, agent, path, since_s, all_projects, progress)
            seal_shown(store)
        if as_json:
            put(document({"import": report}))
        else:
            _tell(report)
        if report.is_partial:
            exit_with(PARTIAL)

    run.__doc__ = (_HELP if is_found else _HELP_OF_FILES).format(agent=agent)
    callback = json_option(run)
    callback = click.option(
        "--all-projects", is_flag=True, help="Also the sessions of other directories.", hidden=not is_found
    )(callback)
    callback = click.option(
        "--since",
        type=click.DateTime(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
        metavar="DATE",
        help="Only files that were changed since (UTC), such as 2026-11-01.",
    )(callback)
    callback = click.argument("path", nargs=-1, required=not is_found, type=click.Path())(callback)
    return click.command(spec.command_name)(callback)


def _run(
    store: "eventlog.Store",
    agent: str,
    paths: Sequence[str],
    since_s: float | None,
    all_projects: bool,
    progress: Progress,
) -> ImportReport:
    passed: list[sources.Passed] = []
    if paths:
        transcripts = sources.named(agent, paths, since_s=since_s, passed=passed)
    else:
        home = os.path.dirname(store.layout.root)
        transcripts = sources.of_agent(
            agent, home, os.environ, since_s=since_s, all_projects=all_projects, passed=passed
        )
    report = importer.run(store, agent, transcripts, progress=progress)
    report.passed[:0] = passed
    return report


def _tell(report: ImportReport) -> None:
    for path, reason in report.problems[:_SHOWN_MAX]:
        where = "" if path in reason else f"{one_line(path)}: "
        say(f"not imported: {where}{one_line(reason)}")
    if len(report.problems) > _SHOWN_MAX:
        say(f"… and {len(report.problems) - _SHOWN_MAX:,} more")
    _tell_passed(report)
    _tell_odd_lines(report)
    if not (report.sources or report.unchanged):
        if report.is_partial:
            return
        say("No transcripts of sessions in this repository; --all-projects takes those of other directories.")
        return
    if not report.facts:
        say(f"Nothing new: {count(report.unchanged + report.sources, 'transcript')} known before.")
        return
    say(
        f"Recorded {count(report.sessions, 'session')} with {count(report.turns, 'new turn')}: "
        f"{count(report.events, 'event')}, {count(report.calls, 'model call')}"
        + (f" ({report.copies:,} more were copies and count no second time)" if report.copies else "")
        + "."
    )
    if report.reused_ids:
        say(
            f"{count(report.reused_ids, 'event')} came under ids that others had before: "
            "they are kept under ids of their own."
        )
    if report.mismatches:
        say(
            f"{count(report.mismatches, 'file')} had other contents than the calls before explain: "
            "somebody changed them in between (`locus log --type mismatch`)."
        )
    say_withheld(report.withheld)
    say("Next: `locus log` lists the turns, `locus session ls` the sessions.")


def _tell_passed(report: ImportReport) -> None:
    """Report what was skipped: one line for each reason, with the first few paths, or sessions of a file."""
    by_reason: dict[tuple[bool, str], list[str]] = {}
    for skipped in report.passed:
        name, reason = skipped.path, skipped.reason
        if skipped.session is not None:
            name, reason = f"session {skipped.session}", f"of {skipped.path}: {reason}"
        by_reason.setdefault((skipped.failed, reason), []).append(name)
    for (failed, reason), paths in by_reason.items():
        shown = ", ".join(one_line(path) for path in paths[:_PASSED_SHOWN_MAX])
        more = f" and {len(paths) - _PASSED_SHOWN_MAX:,} more" if len(paths) > _PASSED_SHOWN_MAX else ""
        say(f"{'not imported' if failed else 'skipped'}: {shown}{more}: {one_line(reason)}")


def _tell_odd_lines(report: ImportReport) -> None:
    for number, what in (
        (report.malformed, "could not be understood"),
        (report.oversized, "above 64 MiB could not be read"),
    ):
        if number:
            say(
                f"{count(number, 'line')} {what}: kept as {'they are' if number > 1 else 'it is'}, "
                f'`locus sql "from malformed_lines"` lists them.'
            )
    if report.completed:
        say(f"{count(report.completed, 'line')} that had been only half written could be read now.")
