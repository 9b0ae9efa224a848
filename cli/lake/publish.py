"""`locus publish`: copy what is new in a store to a place that machines share."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

import eventlog

from ..access import open_store
from ..exits import PARTIAL, exit_with
from ..options import json_option
from ..output import count, document, moment, put, say, size, table
from ..progress import Progress
from ..streams import can_ask

if TYPE_CHECKING:
    from eventlog.lake.place import Place
    from eventlog.lake.policy import Policy
    from eventlog.lake.publish import PublishPlan, PublishReport

_SHOWN = 20

# What each setting of `[publish]` covers.
_CLASSES = {
    "texts": "prompts, answers, tools' arguments and results, titles, branches, commit subjects",
    "contents": "contents of files",
    "paths": "paths in the repository",
    "people": "who worked, and on which host",
}


@click.command("publish")
@click.argument("to", metavar="TO")
@click.option("--dry-run", is_flag=True, help="Show what would leave; change nothing, here or there.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--again", is_flag=True, help="Compare all that is there, and make again what was lost.")
@click.option("--catalog", metavar="URI", help="Bring the tables of this catalog up to date, too.")
@json_option
def command(to: str, dry_run: bool, yes: bool, again: bool, catalog: str | None, as_json: bool) -> None:
    """Copy what is new to a bucket or folder that machines share.

    TO is s3://BUCKET/PREFIX or file:///DIRECTORY. What leaves is set under [publish] in .locus/config.toml:
    by default no texts and no contents. The first publish, and the first after more may leave, shows what
    leaves and asks. It can be repeated at any time, by several machines at once, and stopped anywhere.
    Exit code 4 where something is left to do. docs/lake.md has the rest.
    """
    if dry_run and yes:
        raise click.UsageError("--dry-run and --yes exclude each other")
    from eventlog.lake import publish as publishing
    from eventlog.lake.place import open_place
    from eventlog.lake.policy import Policy

    place = open_place(to)
    with open_store() as store:
        policy = Policy.of(store.fs, store.layout)
        if dry_run:
            with Progress("comparing"):
                plan = publishing.plan(store, place, policy)
            put(document({"plan": asdict(plan)}) if as_json else _plan_text(plan))
            return
        try:
            with Progress("publishing"):
                report = publishing.publish(store, place, policy, agreed=yes, again=again)
        except publishing.NotAgreedError:
            with Progress("comparing"):
                plan = publishing.plan(store, place, policy)
            _ask(plan)
            with Progress("publishing"):
                report = publishing.publish(store, place, policy, agreed=True, again=again)
    not_committed = _commit(place, catalog) if catalog is not None else ""
    if as_json:
        committed = None if catalog is None else not not_committed
        put(document({"published": {**asdict(report), "committed": committed}}))
    _tell(report, policy, as_json)
    if not_committed:
        say(not_committed)
    elif report.tables and report.rewritten:
        say(_after_rewrite(catalog))
    elif report.tables and catalog is None:
        say("The tables there do not have it yet: run `locus lake commit`, or ask somebody who may.")
    if report.left or report.missing or not_committed:
        exit_with(PARTIAL)


def _after_rewrite(catalog: "str | None") -> str:
    """What is still to be done where tables were made of files that were rewritten."""
    if catalog is None:
        return (
            "The tables there, also those of projections, still have what was taken out: run "
            "`locus lake maintain` with the catalog, or ask somebody who may."
        )
    return (
        "Older snapshots of the tables there, also of projections, still reach what was taken out: run "
        "`locus lake maintain` with the catalog, or ask somebody who may. "
        "`locus lake fold` makes the rest again."
    )


def _ask(plan: "PublishPlan") -> None:
    """Show the plan and ask. Raises: Refused (nobody to ask), Abort (no)."""
    say(_plan_text(plan).rstrip("\n"))
    if not can_ask():
        raise eventlog.Refused(
            "nothing was published: there is no terminal to ask on. --yes publishes what is shown above."
        )
    click.confirm("Publish it?", abort=True, err=True)


def _plan_text(plan: "PublishPlan") -> str:
    if plan.base == plan.end and not plan.narrowed:
        return f"Nothing is new since the last publication to {plan.to}.\n"
    span = "" if plan.first_at is None else f", from {moment(plan.first_at)} to {moment(plan.last_at)} UTC"
    events = count(sum(plan.events.values()), "event")
    reason = {"first": "This is the first publication there.", "widened": "More may leave than before."}
    lines = [f"To {plan.to}: {events}{span}. {reason.get(plan.asks, '')}".rstrip(), ""]
    policy = asdict(plan.policy)
    lines.append(table(("CLASS", "LEAVES", "WHAT"), _class_rows(policy)))
    lines.append(table(("TYPE", "EVENTS"), [(name, f"{n:,}") for name, n in plan.events.items()], right=(1,)))
    if plan.policy.contents:
        lines.append(f"{count(plan.contents, 'content')} of {size(plan.contents_bytes)} leave.")
    if plan.withheld:
        lines.append(f"{count(plan.withheld, 'content')} that may hold secrets, or were erased, never leave.")
    if plan.narrowed:
        lines.append(
            f"{count(plan.narrowed, 'file')} there have more than may leave now: they are rewritten. Tables "
            "there, also of projections, lose their rows with `locus lake maintain`."
        )
    lines.append("Copies that others take of it, and versions that a bucket keeps, cannot be called back.")
    lines.append("What leaves is set under [publish] in .locus/config.toml.")
    return "\n".join(lines) + "\n"


def _class_rows(policy: "dict[str, Any]") -> "list[tuple[str, str, str]]":
    words = {True: "yes", False: "no"}
    return [(name, words.get(policy[name], str(policy[name])), what) for name, what in _CLASSES.items()]


def _commit(place: "Place", uri: str) -> str:
    """Bring the tables up to date; why that was not done, or not in all, or nothing."""
    try:
        from eventlog.lake import tables
    except ImportError as error:
        raise eventlog.Unsupported(f"this version of Locus makes no tables ({error})") from error
    try:
        left = tables.commit(place, uri).left
    except eventlog.EventLogError as error:
        return f"The tables were not brought up to date: {error} Then run `locus lake commit`."
    if left:
        lines = "".join(f"\n  {line}" for line in left)
        return f"Not taken out of all tables:{lines}\nHave somebody with the right run `locus lake maintain`."
    return ""


def _tell(report: "PublishReport", policy: "Policy", as_json: bool) -> None:
    if report.rewritten or report.packs_rewritten:
        files = count(report.rewritten, "file")
        packs = count(report.packs_rewritten, "pack")
        say(f"Rewritten: {files} and {packs}.")
    if report.left:
        say(f"Not deleted, as the storage refuses it: {count(len(report.left), 'object')}")
        for name in report.left[:_SHOWN]:
            say(f"  {report.to}/{name}")
        if len(report.left) > _SHOWN:
            say(f"  … and {len(report.left) - _SHOWN:,} more; --json has all.")
        say("Have somebody with the right delete them: `locus lake maintain`.")
    if report.missing:
        say(
            f"{count(report.missing, 'content')} cannot be read here and did not leave: `locus store verify`."
        )
    if as_json:
        return
    if report.end == report.base:
        say(f"Nothing new for {report.to}: it has all events up to position {report.end:,}.")
        return
    span = f"positions {report.base:,} to {report.end:,}"
    contents = "" if not policy.contents else f", {count(report.packs, 'pack')} ({size(report.packs_bytes)})"
    files = f"{count(report.files, 'file')} ({size(report.bytes)}){contents}"
    say(f"Published {span} to {report.to}: {files}.")
