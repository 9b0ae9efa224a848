"""`locus restore`: the files of a turn back into the working directory, planned, and all or nothing."""

import os
from typing import Any

import click

import eventlog
from eventlog.base.paths import path_text
from eventlog.checkout.parallel import Listed

from .. import complete
from ..access import open_store
from ..consent import Consent, plan_options, with_consent
from ..exits import PARTIAL, exit_with
from ..options import json_option
from ..output import certainty_json, count, document, ignored_text, one_line, path_words, put, say
from ..progress import Progress
from ..terminal import put_styled
from ..terminal import step as plan_step
from ..times import with_zone

_KEPT_SHOWN = 20
_EVENT_SHOWN = 12
_DONE = {"create": "created", "overwrite": "overwritten", "chmod": "made (not) executable",
         "retype": "replaced by another kind", "delete": "deleted"}  # fmt: skip


@click.command("restore")
@click.argument("turn", metavar="[TURN]", required=False, shell_complete=complete.turns)
@click.argument("paths", nargs=-1, metavar="[PATH]…", shell_complete=complete.paths)
@click.option(
    "--at", default="end", show_default=True, metavar="start|end|EVENT", help="Which moment of the turn."
)
@plan_options
@click.option(
    "--force", is_flag=True, help="Leave what is in conflict as it is; with --token, also a newer plan."
)
@click.option(
    "--delete/--no-delete", default=True, help="Delete files that were recorded after that moment. [default]"
)
@click.option(
    "--undo",
    is_flag=True,
    help="Undo the last restore, be it an undo; with --recover, take back the one that was killed.",
)
@click.option("--recover", is_flag=True, help="Finish a restore that was killed.")
@json_option
@with_consent
def command(
    turn: str | None,
    paths: tuple[str, ...],
    at: str,
    into: str | None,
    consent: Consent,
    force: bool,
    delete: bool,
    undo: bool,
    recover: bool,
    as_json: bool,
) -> None:
    """Put the files of a turn back into the working directory.

    Without PATHs all files. The present files are compared first, and the plan is shown: on a terminal
    you are asked, a script passes --yes, or --token T of an earlier --dry-run. Files are saved before
    they are replaced; --undo (or event:ID instead of TURN) brings them back, and a second --undo undoes
    the first. It happens whole or not at all; after a kill or a power cut --recover finishes it.

    Only files that were recorded after that moment are deleted, and none that git ignores but the
    journal of a database that is restored. Other files, .git and .locus stay as they are. What could
    not be restored is listed with its reason, and the exit code is 4, unless .locusignore left it out,
    or it was ignored and too large to be kept, and no PATH names it. A path whose state at that moment
    is not known is left alone. A database that a process has open is a conflict.
    """
    if recover:
        if turn is not None or consent != Consent() or force or into is not None:
            raise click.UsageError("--recover goes with nothing but --undo")
        _recover(undo, as_json)
        return
    if (turn is None) == (not undo):
        raise click.UsageError("say which TURN, or --undo" if turn is None else "--undo takes no TURN")
    if paths and (undo or str(turn).startswith("event:")):
        raise click.UsageError("a restore is undone whole, without PATHs")
    consent.check_one()
    with open_store() as store:
        with Progress("comparing"):
            plan = _plan(store, turn, paths, at, into, delete)
        if not force:
            consent.check_plan(
                plan.token,
                "something was changed since that plan was made, or the question is another one; nothing "
                "was done. --dry-run shows the plan as it is now, --force carries that out.",
            )
        if not as_json:
            if plan.undo_of is not None:
                put_styled(f"undo      {_undone(store, plan.undo_of)}\n", plan_step)
            _show(plan)
        outcome = None
        if not consent.dry_run:
            # With a conflict there is nothing to ask: it refuses.
            if plan.steps and (force or not plan.conflicts):
                consent.ask(plan.token, f"Change {count(len(plan.steps), 'path')} in {plan.target}?")
            with Progress("restoring"):
                outcome = store.restore(plan, force=force)
    if as_json:
        put(document({"restore": _as_json(plan, outcome)}))
    elif outcome is None:
        say(_what_now(plan))
    else:
        say(_summary(plan, outcome))
    if plan.partial:
        exit_with(PARTIAL)


def _plan(
    store: "eventlog.Store", turn: str | None, paths: tuple[str, ...], at: str, into: str | None, delete: bool
) -> "eventlog.RestorePlan":
    if turn is None or turn.startswith("event:"):
        what = "restore" if turn is None else f"restore:{turn.removeprefix('event:')}"
        plan = store.undo_plan(what, into=into)
        if into is None:
            check_whereabouts(store)
        return plan
    if into is None:
        check_whereabouts(store)
    return store.restore_plan(turn, paths=paths, at=at, into=into, delete=delete)


def check_whereabouts(store: "eventlog.Store") -> None:
    """Refuse to change a directory other than the user's, unless it was named."""
    target = os.path.realpath(os.path.dirname(store.layout.root))
    here = os.path.realpath(os.getcwd())
    if os.path.commonpath((target, here)) != target:
        raise eventlog.Refused(
            f"the store {store.layout.root} belongs to {target}, and you are in {here}. "
            "Go there, or name the directory to restore into with --into."
        )


def _recover(undo: bool, as_json: bool) -> None:
    with open_store() as store:
        outcomes = store.recover_restore(undo=undo)
    left = [entry for outcome in outcomes for entry in outcome.left]
    if as_json:
        put(document({"recovered": [_outcome_json(outcome) for outcome in outcomes]}))
    else:
        for outcome in outcomes:
            how = "taken back: everything is as it was" if outcome.undone else "finished"
            say(f"The restore of {outcome.target} is {how}.")
            for path, why in outcome.left:
                put(f"left: {text_of(path)}: {one_line(why)}\n")
        if not outcomes:
            say("There is no restore to recover.")
    if left:
        exit_with(PARTIAL)


def _undone(store: "eventlog.Store", event_id: str) -> str:
    """Which restore an undo is about, and of when."""
    rows = store.query("select title, epoch_us(recorded_at) from events where event_id = $1", [event_id]).rows
    parts = [f"event:{event_id[:_EVENT_SHOWN]}"]
    for title, recorded in rows:
        parts = [one_line(title or "a restore"), with_zone(recorded), *parts]
    return " · ".join(parts)


def _show(plan: "eventlog.RestorePlan") -> None:
    if plan.redo:
        say(
            "The restore that this undoes was an undo itself. `locus log --type restore` "
            "lists earlier ones: event:ID undoes that one."
        )
    for step in plan.steps:
        state = step.after or step.before
        end = "/" if state is not None and state.kind == b"d" else ""
        put_styled(f"{step.action:<9} {text_of(step.path)}{end}\n", plan_step)
    for path, why in plan.kept[:_KEPT_SHOWN]:
        put_styled(f"keep      {text_of(path)}: {one_line(why)}\n", plan_step)
    if len(plan.kept) > _KEPT_SHOWN:
        put_styled(f"keep      and {len(plan.kept) - _KEPT_SHOWN:,} more (--json lists all)\n", plan_step)
    for path, commit in plan.submodules:
        put_styled(f"submodule {text_of(path)} at {one_line(commit)}: left alone\n", plan_step)
    if not plan.certainty.exact:
        certainty = plan.certainty
        put_styled(f"{certainty.state}: {one_line(certainty.why)}\n", plan_step)
        if certainty.doubt(".") is not None:
            put_styled(
                "nothing is touched; --at with a snapshot of `locus timeline` brings back that one\n",
                plan_step,
            )
    if plan.ignored_count:
        put_styled(f"{ignored_text(plan.ignored_count)}\n", plan_step)
    for path, why in plan.missing:
        put_styled(f"not restored: {text_of(path)}: {one_line(why)}\n", plan_step)
    for path, why in plan.conflicts:
        put_styled(f"conflict: {text_of(path)}: {one_line(why)}\n", plan_step)


def _what_now(plan: "eventlog.RestorePlan") -> str:
    """The next step after a plan that was only shown."""
    if plan.steps:
        return f"Nothing was changed. --token {plan.token} carries this plan out."
    if plan.conflicts:
        return "Nothing was changed. Nothing can be restored while these conflicts are there."
    return _nothing(plan)


def _nothing(plan: "eventlog.RestorePlan") -> str:
    """The message where a plan has no step: all is as wanted, and what would change something."""
    nothing = "There is nothing to do, and nothing was changed"
    if plan.undo_of is not None:
        return f"{nothing}: all is as it was before that restore."
    return (
        f"{nothing}: the files are those of {plan.turn} at {plan.at}. `locus undo` takes back what the "
        "newest turn changed, `--at start` brings back the files from before it."
    )


def _summary(plan: "eventlog.RestorePlan", outcome: "eventlog.RestoreOutcome") -> str:
    if outcome.event is None:
        return _nothing(plan)
    done = ", ".join(f"{number:,} {_DONE[action]}" for action, number in plan.counts.items() if number)
    again = "undoes this undo" if plan.undo_of and not plan.redo else "takes it back"
    return f"Restored: {done}. `locus restore --undo` {again}."


def _as_json(plan: "eventlog.RestorePlan", outcome: "eventlog.RestoreOutcome | None") -> dict[str, Any]:
    return {
        "turn": plan.turn,
        "at": plan.at,
        "into": plan.target,
        "tree": plan.tree,
        "undo_of": plan.undo_of,
        "token": plan.token,
        "steps": [{"action": step.action, "path": name_of(step.path)} for step in plan.steps],
        "counts": plan.counts,
        "unchanged": plan.unchanged,
        "kept": reasons(plan.kept),
        "missing": reasons(plan.missing),
        "ignored": plan.ignored_count,
        "certainty": certainty_json(plan.certainty),
        "conflicts": reasons(plan.conflicts),
        "submodules": [{"path": name_of(path), "commit": commit} for path, commit in plan.submodules],
        "done": outcome is not None,
        "event": None if outcome is None else outcome.event,
    }


def _outcome_json(outcome: "eventlog.RestoreOutcome") -> dict[str, Any]:
    return {
        "event": outcome.event,
        "into": outcome.target,
        "undone": outcome.undone,
        "left": reasons(outcome.left),
    }


def reasons(listed: Listed) -> list[dict[str, str]]:
    return [{"path": name_of(path), "reason": why} for path, why in listed]


def text_of(path: bytes) -> str:
    return path_words(name_of(path))


def name_of(path: bytes) -> str:
    return path_text(path)
