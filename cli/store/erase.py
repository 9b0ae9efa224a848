"""`locus store erase`: take a secret, or whole events, out of the past."""

import os
import sys
from typing import Any

import click

import eventlog
from eventlog.erasure import erasure
from eventlog.erasure.erasure import Erased, ErasurePlan

from ..access import open_store
from ..exits import PARTIAL, exit_with
from ..filters import as_recorded, filter_of
from ..options import json_option
from ..output import count, document, put, say
from ..progress import Progress


@click.command("erase")
@click.option("--event", "events", multiple=True, metavar="ID", help="Erase this event; may be repeated.")
@click.option("--session", metavar="SID", help="Erase all events of this session.")
@click.option("--path", metavar="PATH", help="Erase every recorded content of this file or folder.")
@click.option("--secret", metavar="TEXT", help="Take out this text, or /EXPRESSION/; - reads it from stdin.")
@click.option("--reason", default="", help="Why; kept in the log. Leave the secret out of it.")
@click.option("--dry-run", is_flag=True, help="Only show what would go; the default without --yes.")
@click.option("--yes", is_flag=True, help="Do it.")
@click.option("--resume", is_flag=True, help="Finish an erasure that was cut short.")
@json_option
def command(
    events: tuple[str, ...],
    session: str | None,
    path: str | None,
    secret: str | None,
    reason: str,
    dry_run: bool,
    yes: bool,
    resume: bool,
    as_json: bool,
) -> None:
    """Take a secret, or whole events, out of the past.

    Prints what would go and what cannot be reached; --yes does it. Texts and contents go; the events'
    positions, times and figures stay. There is no way back. First revoke the secret where it was issued.
    Pass it with `--secret -`: others can see a command line. Exit code 4 while readers still keep old
    files open: maintenance finishes it, or --resume.
    """
    targets = [bool(events), session is not None, path is not None, secret is not None, resume]
    if sum(targets) != 1:
        raise click.UsageError("say what to erase: one of --event, --session, --path, --secret, or --resume")
    if dry_run and yes:
        raise click.UsageError("--dry-run and --yes exclude each other")
    with open_store() as store:
        if resume:
            _tell_done(erasure.resume(store), as_json)
            return
        with Progress("looking"):
            plan = _plan(store, events, session, path, secret)
        if not yes or plan.is_empty:
            _show(plan, as_json)
            if yes and erasure.renew_rule(store, plan):
                say("The rule that keeps it out had an older form, and is faster from now on.")
            if not (plan.is_empty or as_json):
                say("Nothing was changed. The same command with --yes erases it; there is no way back.")
            return
        _show(plan, False)
        with Progress("erasing"):
            done = erasure.erase(store, plan, reason=reason)
    _tell_done(done, as_json)


def _plan(
    store: "eventlog.Store",
    events: tuple[str, ...],
    session: str | None,
    path: str | None,
    secret: str | None,
) -> ErasurePlan:
    if events:
        return erasure.plan_events(store, events)
    if session is not None:
        return erasure.plan_session(store, session)
    if path is not None:
        return erasure.plan_path(
            store, (filter_of(store, path) if os.path.isabs(path) else None) or as_recorded(path)
        )
    if secret == "-":
        secret = sys.stdin.read().rstrip("\r\n")
    return erasure.plan_secret(store, secret or "")


def _show(plan: ErasurePlan, as_json: bool) -> None:
    if as_json:
        put(document({"plan": _fields(plan)}))
        return
    if plan.is_empty:
        say("Nothing of it is in the store.")
        return
    what = "Texts" if plan.by == "secret" else "All texts"
    say(f"{what} of {count(len(plan.events), 'event')} and {count(len(plan.contents), 'content')} go.")
    if plan.shared:
        shared = count(plan.shared, "content")
        say(f"{shared} stay, because other events need them: --path or --secret erases them.")
    if plan.trees:
        say(f"Of these {plan.trees} are lists of names: in a replay these files have other names.")
    if plan.sessions:
        names = "its" if len(plan.sessions) == 1 else "their"
        say(
            f"{count(len(plan.sessions), 'session')} called by {names} first words will be called `erased`, "
            "also in other events that contain the name."
        )
    say(f"Rewritten: {count(plan.segments, 'segment')} and {count(plan.packs, 'pack')}.")
    say("Not reached:")
    for sentence in plan.not_reached:
        say(f"  {sentence}")


def _fields(plan: ErasurePlan) -> dict[str, Any]:
    """The plan without what is to be erased."""
    return {
        "by": plan.by,
        "events": sorted(plan.events),
        "contents": sorted(f"blake3:{id.hex()}" for id in plan.contents),
        "trees": plan.trees,
        "shared": plan.shared,
        "sessions": list(plan.sessions),
        "segments": plan.segments,
        "packs": plan.packs,
        "quarantined": plan.quarantined,
        "not_reached": list(plan.not_reached),
    }


def _tell_done(done: Erased, as_json: bool) -> None:
    if as_json:
        put(document({"erased": done}))
    elif not done.erasures and not done.waiting:
        say("No erasure is unfinished.")
    else:
        texts, contents = count(done.events - done.named, "event"), count(done.contents, "content")
        say(f"Erased: texts of {texts} and {contents} are gone.")
        if done.named:
            say(f"{count(done.named, 'other event')} changed only in names of sessions or trees.")
    if done.waiting:
        say("Readers still have old files open. They go when these end: `locus store erase --resume`.")
        exit_with(PARTIAL)
