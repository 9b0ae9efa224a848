"""What `locus undo` and `locus redo` share: their options, carrying a plan out, and showing it."""

import os
from typing import TYPE_CHECKING, Any

import click

from .. import exits
from ..access import json_option, put, say
from ..jsonout import document
from ..progress import Progress
from ..text import count, moment, one_line
from .restore import ask, name_of, reasons, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog.restore.run import RestoreOutcome
    from eventlog.store import Store
    from eventlog.undo.merge import MergeConflict
    from eventlog.undo.plan import UndoPlan
    from eventlog.undo.take_back import UndoConflict

_CONFLICTS_SHOWN, _LINES_SHOWN = 5, 3
_WORDS = {"exact": "", "merged": "merge", "marked": "markers", "already": "same"}
_ACTIONS = {"create": "create", "overwrite": "edit", "chmod": "mode", "retype": "replace", "delete": "delete"}


def plan_options(function: "Callable[..., Any]") -> "Callable[..., Any]":
    """The options that undo and redo share, as those of `restore`."""
    for option in (
        json_option,
        click.option("--token", metavar="T", help="Carry out the plan that --dry-run showed, and no other."),
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Show the plan and its token; change nothing."),
        click.option(
            "--into",
            metavar="DIR",
            type=click.Path(),
            help="Where. [default: the directory the store stands in]",
        ),
    ):
        function = option(function)
    return function


def run(
    ctx: click.Context,
    store: "Store",
    plan_of: "Callable[[], UndoPlan]",
    *,
    dry_run: bool,
    yes: bool,
    token: str | None,
    as_json: bool,
) -> None:
    from eventlog.base.errors import Refused

    if (yes, token is not None, dry_run).count(True) > 1:
        raise click.UsageError("only one of --dry-run, --yes, --token")
    with Progress("comparing"):
        plan = plan_of()
    if token and token != plan.token:
        raise Refused(
            "something was changed since that plan was made, or the question is another one; nothing was "
            "done. --dry-run shows the plan as it is now."
        )
    later = (
        [_later_turns(store, plan, clash) for clash in plan.clashes] if plan.conflicts and not as_json else []
    )
    if not as_json:
        _show(store, plan, later)
    outcome = None
    if plan.conflicts:
        if as_json:
            put(document({plan.operation: _as_json(plan, None)}))
        else:
            say(_way_out(plan, later))
        ctx.exit(exits.REFUSED)
    if not dry_run and plan.steps:
        if not (yes or token):
            ask(plan)
        with Progress(plan.operation):
            outcome = store.restore(plan)
    if as_json:
        put(document({plan.operation: _as_json(plan, outcome)}))
    else:
        say(_summary(plan, outcome, dry_run))
    if plan.partial:
        ctx.exit(exits.PARTIAL)


# -- showing -------------------------------------------------------------------------------------------


# Who changed the lines of a conflict since, by the first line of each stretch: a turn, or None.
Later = dict[int, str | None]


def _show(store: "Store", plan: "UndoPlan", later: "list[Later]") -> None:
    for name in plan.of:
        put(f"{plan.operation}  {_titled(store, name)}\n")
    shown = set()
    for step in plan.steps:
        state = step.after or step.before
        if state is not None and state.kind == b"d":
            continue  # a directory follows from what is in it
        shown.add(step.path)
        how = _WORDS[plan.outcomes.get(step.path, "exact")]
        put(f"  {how or _ACTIONS[step.action]:<9} {text_of(step.path)}\n")
    for path, how in sorted(plan.outcomes.items()):
        if how == "already" and path not in shown:
            put(f"  {_WORDS[how]:<9} {text_of(path)}: taken back already\n")
    for path, why in plan.skipped:
        put(f"  left      {text_of(path)}: {one_line(why)}\n")
    for path, why in plan.missing:
        put(f"  left      {text_of(path)}: {one_line(why)}\n")
    for path, why in plan.conflicts:
        put(f"  CONFLICT  {text_of(path)}: {one_line(why)}\n")
        for clash, turns in zip(plan.clashes, later, strict=True):
            if clash.path == path:
                _show_lines(store, clash, turns)


def _titled(store: "Store", name: str) -> str:
    """A turn with its title, agent and time; anything else by its name."""
    if not name.startswith("turn:"):
        return name
    ref = store.turn(name)
    rows = store.query(
        "select title, agent, model, epoch_us(started_at) from turns where session_id = $1 and turn = $2",
        [ref.session_id, ref.turn],
    ).rows
    for title, agent, model, started in rows:
        who = ", ".join(part for part in (agent, model) if part)
        parts = [f'"{one_line(title)}"' if title else "", who, moment(started) if started else ""]
        return " · ".join([name, *filter(None, parts)])
    return name


def _later_turns(store: "Store", plan: "UndoPlan", clash: "UndoConflict") -> Later:
    """Who changed the lines of a conflict since; empty where the file or its versions cannot be read."""
    from eventlog.base.errors import EventLogError
    from eventlog.base.paths import path_text
    from eventlog.undo.blame import VERSION, blame

    try:
        with open(os.path.join(os.fsencode(plan.target), clash.path), "rb") as file:
            lines = blame(store, path_text(clash.path), file.read())
    except (EventLogError, OSError):
        return {}  # the lines themselves are shown all the same
    later: Later = {}
    for stretch in clash.lines:
        later[stretch.line] = None
        for line in lines[stretch.line - 1 : stretch.line - 1 + max(1, len(stretch.ours))]:
            version = line.origin.version if line.origin.kind == VERSION else None
            if version is not None and f"turn:{version.turn_name}" not in plan.of:
                later[stretch.line] = version.turn_name
    return later


def _show_lines(store: "Store", clash: "UndoConflict", later: Later) -> None:
    """The lines of a conflict and who changed them since, unless one of the contents is withheld."""
    if _is_withheld(store, clash):
        put("            its lines are not shown: it holds, or may hold, a secret\n")
        return
    for stretch in clash.lines[:_CONFLICTS_SHOWN]:
        who = later.get(stretch.line) or "you, or a program that nobody saw"
        by = f", changed since by {who}" if stretch.line in later else ""
        put(f"            line {stretch.line}{by}\n")
        for side, lines in (("now", stretch.ours), ("after", stretch.base), ("before", stretch.theirs)):
            put(f"            {side:<7} {_excerpt(store, lines)}\n")
    if len(clash.lines) > _CONFLICTS_SHOWN:
        put(f"            and {count(len(clash.lines) - _CONFLICTS_SHOWN, 'more place')}\n")


def _excerpt(store: "Store", lines: tuple[bytes, ...]) -> str:
    shown = [one_line(store.redactor.text(line.decode("utf-8", "replace").rstrip("\n"))) for line in lines]
    more = f" … {len(lines) - _LINES_SHOWN} more" if len(lines) > _LINES_SHOWN else ""
    return " / ".join(shown[:_LINES_SHOWN]) + more if lines else "(nothing)"


def _is_withheld(store: "Store", clash: "UndoConflict") -> bool:
    from eventlog.blobs.ids import to_text

    change = clash.change
    ids = {to_text(state.id) for state in (change.before, change.after) if state is not None}
    return not ids.isdisjoint(store.withheld())


def _way_out(plan: "UndoPlan", later: "list[Later]") -> str:
    """What a person can do with a conflict: undo the later turns too, do the rest, or get both sides."""
    if plan.operation == "undo":
        turns = sorted({turn for each in later for turn in each.values() if turn is not None})
        named = " ".join([*turns, *(name.removeprefix("turn:") for name in plan.of)])
        also = f"Undo what came later too: `locus undo {named}` · " if turns else ""
        lines = " · both sides in the file: --merge-markers" if any(c.lines for c in plan.clashes) else ""
        return f"Nothing was written. {also}The rest: --skip-conflicts{lines}."
    return "Nothing was written. Undo or move those first."


def _summary(plan: "UndoPlan", outcome: "RestoreOutcome | None", dry_run: bool) -> str:
    if not plan.steps:
        return (
            "There is nothing to do: all of it is as it was before."
            if not plan.partial
            else "Nothing was changed."
        )
    if dry_run or outcome is None:
        return f"Nothing was changed. --token {plan.token} carries this plan out."
    other = "redo" if plan.operation == "undo" else "undo"
    done = {"merge": 0, "markers": 0, **dict.fromkeys(_ACTIONS.values(), 0)}
    for step in plan.steps:
        if not any(state is not None and state.kind == b"d" for state in (step.before, step.after)):
            done[_WORDS[plan.outcomes.get(step.path, "exact")] or _ACTIONS[step.action]] += 1
    words = {"merge": "merged", "markers": "with markers", "create": "created", "edit": "edited",
             "mode": "made (not) executable", "replace": "replaced", "delete": "deleted"}  # fmt: skip
    parts = ", ".join(f"{number:,} {words[key]}" for key, number in done.items() if number)
    past = "Undone" if plan.operation == "undo" else "Redone"
    return f"{past}: {parts}. `locus {other}` {'brings' if other == 'redo' else 'takes'} it back."


def _as_json(plan: "UndoPlan", outcome: "RestoreOutcome | None") -> dict[str, Any]:
    return {
        "of": list(plan.of),
        "into": plan.target,
        "token": plan.token,
        "steps": [
            {"action": step.action, "path": name_of(step.path), "how": plan.outcomes.get(step.path, "exact")}
            for step in plan.steps
        ],
        "already": sorted(name_of(path) for path, how in plan.outcomes.items() if how == "already"),
        "skipped": reasons(plan.skipped),
        "missing": reasons(plan.missing),
        "conflicts": [
            {"path": name_of(path), "reason": why, "lines": _numbers(plan, path)}
            for path, why in plan.conflicts
        ],
        "done": outcome is not None,
        "event": None if outcome is None else outcome.event,
    }


def _numbers(plan: "UndoPlan", path: bytes) -> list[int]:
    """The first lines of the stretches in conflict; their text is not part of an answer."""
    stretches: list[MergeConflict] = [s for clash in plan.clashes if clash.path == path for s in clash.lines]
    return [stretch.line for stretch in stretches]
