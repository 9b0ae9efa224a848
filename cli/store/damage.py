"""`locus store verify`, `repair` and `salvage`: what is damaged, and what can be done."""

import os

import click

import eventlog
from eventlog.base import identity
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.repair import store_file
from eventlog.repair.plan import RepairPlan
from eventlog.repair.repair import RepairReport
from eventlog.repair.salvage import SalvageReport

from ..access import open_store, store_option
from ..exits import PARTIAL, exit_with, usage_error
from ..options import json_option
from ..output import count, document, one_line, put, say
from ..progress import Progress

_CLEAN = {
    "quick": "No damage found; --read checks every byte.",
    "read": "No damage found.",
    "deep": "No damage found.",
}
_NEXT = (
    "`locus store repair` shows what can be repaired and what that loses; its --accept notes the rest as "
    "known, and `locus store rebuild` rebuilds the index."
)


@click.command("verify")
@click.option("--quick", "level", flag_value="quick", default=True, help="Names, sizes, chains. [default]")
@click.option("--read", "level", flag_value="read", help="Every byte against its digest.")
@click.option(
    "--deep", "level", flag_value="deep", help="Also every event, number, reference, and the index."
)
@json_option
def verify(level: str, as_json: bool) -> None:
    """Look for damage. Exit code 12 when there is any; changes nothing."""
    with open_store() as store, Progress("verifying") as progress:
        findings = store.verify(level, progress)
    if as_json:
        put(document({"level": level, "findings": [finding.figures() for finding in findings]}))
    for finding in () if as_json else findings:
        put(f"{finding}\n")
    damage = sum(finding.damage for finding in findings)
    if damage:
        say(f"{count(damage, 'finding')}. The files are as they were found. {_NEXT}")
        exit_with(eventlog.Corruption.exit_code)
    if not as_json:
        say(_CLEAN[level])


@click.command("repair")
@click.option("--dry-run", is_flag=True, help="Only show the plan. [default without --yes]")
@click.option("--yes", is_flag=True, help="Carry the plan out.")
@click.option("--accept-older", is_flag=True, help="Go back to the manifest before a broken newest one.")
@click.option("--from", "copy", metavar="COPY", type=click.Path(exists=True, file_okay=False),
              help="Bring back what is undamaged in this backup.")  # fmt: skip
@click.option("--accept", is_flag=True, help="Note damage that cannot be repaired as known in the log.")
@json_option
def repair(
    dry_run: bool, yes: bool, accept_older: bool, copy: str | None, accept: bool, as_json: bool
) -> None:
    """Set aside what does not verify, so that the store is usable again.

    Shows what is wrong, what would be done and what that loses; --yes does it. Nothing is deleted:
    damaged files go to log/quarantine, and their readable parts stay. With --accept, damage beyond
    repair, as `store verify --deep` names it, is noted as known, and verify reports it as known. Exit
    code 12 while something is damaged.
    """
    from eventlog.repair.repair import RepairReport, plan_repair, repair

    if dry_run and yes:
        raise usage_error("--dry-run and --yes contradict each other")
    report: RepairReport | None = None
    _write_store_file(yes, as_json)
    with open_store() as store:
        with Progress("looking"):
            plan = plan_repair(store, copy=copy, accept=accept)
        if not as_json:
            _show(plan)
        if yes and plan.steps:
            with Progress("repairing"):
                report = repair(store, plan, copy=copy, accept_older=accept_older, accept=accept)
    if as_json:
        done = report.figures() if report is not None else None
        put(document({"plan": plan, "repair": done}))
    else:
        _tell_repaired(plan, report)
    if report.remaining if report is not None else plan.steps:
        exit_with(eventlog.Corruption.exit_code)


def _write_store_file(yes: bool, as_json: bool) -> None:
    """Put an unusable STORE file back: without it a store cannot be opened."""
    root = store_option() or identity.find(os.getcwd(), os.environ) or identity.STORE_DIRECTORY
    layout = Layout(os.path.abspath(root))
    why = store_file.why_unusable(REAL, layout)
    if why is None:
        return
    who = store_file.proven(REAL, layout)
    then = f"it is rewritten, as the log proves it: store {who.store_id.hex()}, repository {who.repo_hash}"
    if not yes:
        if as_json:
            step = {"kind": "store", "path": layout.store_file, "what": why, "then": then}
            put(document({"plan": {"steps": [step]}, "repair": None}))
        else:
            put(f"{layout.store_file}: {why}; {then}.\n")
            say("Nothing was changed. `locus store repair --yes` does this, and then checks the rest.")
        exit_with(eventlog.Corruption.exit_code)
    store_file.put_back(REAL, layout, who)
    say(f"{layout.store_file}: {why}; {then}.")


def _show(plan: RepairPlan) -> None:
    for step in plan.steps:
        put(f"{step.path}: {step.what}; {step.then}.\n")
    for base, end in plan.taken:
        put(f"from the copy: the events at positions {base} to {end - 1}\n")
    if plan.taken_contents:
        put(f"from the copy: {count(plan.taken_contents, 'content')}\n")
    for base, end in plan.lost:
        put(f"lost: the events at positions {base} to {end - 1}\n")
    if plan.lost_contents:
        put(f"lost: {count(plan.lost_contents, 'content')}\n")
    for base, end in plan.held:
        put(f"in the copy, and not taken: the events at positions {base} to {end - 1}: {plan.held_why}\n")
    for turn in plan.turns:
        put(f"a replay will miss something: {turn}\n")


def _tell_repaired(plan: RepairPlan, report: RepairReport | None) -> None:
    if not plan.steps:
        say("Nothing to repair.")
        return
    if report is None:
        if plan.older is not None:
            say(f"{plan.older} To agree to that, add --accept-older.")
        say("Nothing was changed. `locus store repair --yes` does this.")
        return
    for finding in report.remaining:
        say(f"remains: {finding}")
    say(f"{count(len(report.moved), 'file')} set aside in log/quarantine.")
    if report.accepted:
        say(f"{count(len(report.accepted), 'finding')} noted in the log as known.")


_SHOWN = 20


@click.command("salvage")
@click.argument("dest", type=click.Path())
@json_option
def salvage(dest: str, as_json: bool) -> None:
    """Write everything that verifies into a new store at DEST.

    For a store that no longer opens, also one without STORE or manifests (name its directory with
    --store). The store itself is not changed. Exit code 4 when something was left behind.
    """
    from eventlog.repair.salvage import salvage

    root = store_option() or identity.find(os.getcwd(), os.environ)
    if root is None:
        raise eventlog.NoStore(
            "no Locus store here or above; `--store DIR` names the directory that is to be saved."
        )
    with Progress("saving") as progress:
        report = salvage(root, dest, progress=progress)
    if as_json:
        put(document({"salvage": report}))
    else:
        _tell_saved(report)
    if report.skipped or report.gaps:
        exit_with(PARTIAL)


def _tell_saved(report: SalvageReport) -> None:
    for path, what in report.skipped[:_SHOWN]:
        say(f"left behind: {path}: {one_line(what)}")
    if len(report.skipped) > _SHOWN:
        say(f"left behind: {len(report.skipped) - _SHOWN} more; --json lists all")
    for base, end in report.gaps[:_SHOWN]:
        say(f"not found: the events at positions {base} to {end - 1}")
    if report.ledger_left_out:
        say(f"left out: {count(report.ledger_left_out, 'note')} of consumers' positions, which have moved")
    say(f"Saved {count(report.events, 'event')} and {count(report.contents, 'content')} to {report.dest}.")
