"""`locus undo` and `redo`: take back what a turn changed, and bring it back (docs/undo.md)."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

import eventlog
from eventlog import agents
from eventlog.base import config
from eventlog.base.paths import path_text
from eventlog.blobs.ids import to_text
from eventlog.query.lookup import find_session
from eventlog.recorder.placement import SESSION_ALIAS
from eventlog.restore.wanted import ways
from eventlog.undo.merge import MergeConflict
from eventlog.undo.plan import operations_of
from eventlog.undo.preview import StepPreview, previews
from eventlog.undo.take_back import UndoConflict

from .. import complete
from ..access import open_store
from ..consent import Consent, plan_options, with_consent
from ..exits import PARTIAL, REFUSED, exit_with
from ..options import json_option
from ..output import count, document, lines, moment_exact, one_line, put, say
from ..progress import Progress
from ..terminal import put_styled
from ..terminal import step as plan_step
from ..times import when
from .restore import check_whereabouts, name_of, reasons, text_of

if TYPE_CHECKING:
    from eventlog.memory.undo_notice import NoticedSession
    from eventlog.restore.journal import RestoreStep

# What is taken for the name of something that can be undone, and not for a path.
_NAMES = re.compile(r"(turn|session|event|action|git):.+|last(:.+)?|[0-9a-z]{4,}_[0-9]+")
# What may be a session, a turn or the beginning of one: where no file is called so, it is none.
_BEGINNING = re.compile(r"(sess-)?[0-9a-z]{1,8}_?")


class _WithPaths(click.Command):
    """A command whose arguments after `--` are paths."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta["paths"] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])


_diff_option = click.option(
    "--diff", "with_diff", is_flag=True, help="Also show the diff of what would change."
)
_TELL = click.option("--tell", is_flag=True, help="Tell the session at its next prompt what was done.")


@click.command("undo", cls=_WithPaths)
@click.argument("names", nargs=-1, metavar="[WHAT]… [--] [PATH]…", shell_complete=complete.turns_and_paths)
@click.option("--since", is_flag=True, help="The turn, and all later ones of its session.")
@click.option("--skip-conflicts", is_flag=True, help="Take back everything but the paths in conflict.")
@click.option(
    "--merge-markers", is_flag=True, help="Write both sides of lines in conflict into the file, marked."
)
@click.option("--force", is_flag=True, help="Also what a running turn has changed so far.")
@_diff_option
@click.option("--list", "as_list", is_flag=True, help="List what was undone and redone, newest first.")
@_TELL
@plan_options
@json_option
@with_consent
def undo(
    names: tuple[str, ...],
    since: bool,
    skip_conflicts: bool,
    merge_markers: bool,
    force: bool,
    as_list: bool,
    into: str | None,
    **how: Any,
) -> None:
    """Take back what an agent's turn changed, and keep what came later.

    WHAT is a turn, action:ID, event:ID, or a session for all of its turns; without it the newest turn of
    an agent that has ended and is not undone. With PATHs only these. Where the same lines were changed
    later there is a conflict, and nothing is written. What is replaced is saved first; `locus redo` brings
    it back.
    """
    if skip_conflicts and merge_markers:
        raise click.UsageError("only one of --skip-conflicts, --merge-markers")
    conflicts = "skip" if skip_conflicts else "markers" if merge_markers else "refuse"
    with open_store() as store:
        if as_list:
            _list(store, how["as_json"])
            return
        named = {name: _named(store, name) for name in names}
        what = list(filter(None, named.values()))
        strange = [name for name, meant in named.items() if meant is None and _BEGINNING.fullmatch(name)]
        given = [name for name in names if named[name] is None]
        paths = [_path(store, name) for name in (*given, *click.get_current_context().meta["paths"])]
        if since and len(what) != 1:
            raise click.UsageError("--since takes one turn")
        if into is None:
            check_whereabouts(store)

        def plan() -> "eventlog.UndoPlan":
            try:
                return store.undo_plan(
                    what or None,
                    paths=paths,
                    since=since,
                    into=into,
                    conflicts=conflicts,
                    force=force,
                    session=_asking_session(),
                )  # type: ignore[return-value]
            except eventlog.NotFound as error:
                if not strange:
                    raise
                either = f"No turn or session is called {' or '.join(map(repr, strange))} either."
                raise eventlog.NotFound(f"{error} {either}") from error

        _run(store, plan, **how)


def _named(store: "eventlog.Store", given: str) -> str | None:
    """The turn, call, event or session that an argument names; None for a path.

    A beginning of a turn's name or a session's id is one where neither the work tree nor the log has a file
    of that name. Raises: Ambiguous.
    """
    if _NAMES.fullmatch(given):
        return given
    if not _BEGINNING.fullmatch(given) or _is_file(store, given):
        return None
    try:
        if given.endswith("_"):
            return store.turn(given.removeprefix(SESSION_ALIAS)).context_id
        return f"session:{find_session(store.query, given)}"
    except eventlog.Ambiguous:
        raise
    except eventlog.NotFound:
        return None


def _is_file(store: "eventlog.Store", given: str) -> bool:
    """Whether a file or directory of the work tree or the log is called so."""
    from ..filters import is_known, names_of

    root = os.path.dirname(store.layout.root)
    names = names_of(store, given)
    return any(os.path.lexists(os.path.join(root, name)) or is_known(store, name) for name in names)


def _path(store: "eventlog.Store", given: str) -> str:
    from ..filters import names_of

    return names_of(store, given)[0]


def _asking_session() -> tuple[str, str] | None:
    """The session that this command is called from, if an agent calls it and names its session."""
    for spec in agents.specs():
        session = os.environ.get(spec.session_variable) if spec.session_variable else None
        if session:
            return spec.name, session
    return None


def _list(store: "eventlog.Store", as_json: bool) -> None:
    done = operations_of(store)
    shown = [operation for operation in reversed(done.done) if operation.kind in ("undo", "redo")]
    if as_json:
        rows = [
            {"event": o.id, "operation": o.kind, "of": list(o.of), "at": moment_exact(o.recorded_at),
             "into": o.target, "whole": o.whole, "taken_back": done.is_taken_back(o)}
            for o in shown
        ]  # fmt: skip
        put(document({"operations": rows}))
        return
    for operation in shown:
        state = " (taken back)" if done.is_taken_back(operation) else ""
        part = "" if operation.whole else " in part"
        at = when(operation.recorded_at)
        put(f"{at}  {operation.kind}{part}  {', '.join(operation.of)}  event:{operation.id}{state}\n")
    if not shown:
        say("Nothing was undone here.")


@click.command("redo")
@_diff_option
@_TELL
@plan_options
@json_option
@with_consent
def redo(into: str | None, **how: Any) -> None:
    """Bring back what the last undo took away.

    Again for the undo before it. New changes by an agent end this; what a person changed meanwhile is
    kept, or is a conflict.
    """
    with open_store() as store:

        def plan() -> "eventlog.UndoPlan":
            planned = store.redo_plan(into=into)
            if into is None:
                check_whereabouts(store)
            return planned

        _run(store, plan, **how)


_CONFLICTS_SHOWN, _LINES_SHOWN = 5, 3
_WORDS = {"exact": "", "merged": "merge", "marked": "markers", "already": "same"}
_ACTIONS = {"create": "create", "overwrite": "edit", "chmod": "mode", "retype": "replace", "delete": "delete"}


def _run(
    store: "eventlog.Store",
    plan_of: "Callable[[], eventlog.UndoPlan]",
    *,
    consent: Consent,
    with_diff: bool,
    as_json: bool,
    tell: bool,
) -> None:
    """Make the plan, show it, and carry it out with the user's consent."""
    consent.check_one()
    with Progress("comparing"):
        plan = plan_of()
    consent.check_plan(
        plan.token,
        "something was changed since that plan was made, or the question is another one; nothing was "
        "done. --dry-run shows the plan as it is now.",
    )
    later = (
        [_later_turns(store, plan, clash) for clash in plan.clashes] if plan.conflicts and not as_json else []
    )
    shown = list(_previews(store, plan)) if with_diff else []
    if not as_json:
        _show(store, plan, later)
        _show_diffs(shown)
    outcome = None
    if plan.conflicts:
        if as_json:
            put(document({plan.operation: _as_json(plan, None, shown)}))
        else:
            say(_way_out(plan, later))
        exit_with(REFUSED)
    if not consent.dry_run and plan.steps:
        consent.ask(plan.token, f"Change {count(len(_shown_steps(plan)), 'path')} in {plan.target}?")
        with Progress(plan.operation):
            outcome = store.restore(plan)
    noticed = _tell(store, plan, outcome, tell)
    if as_json:
        fields = {**_as_json(plan, outcome, shown), "tells": _readers(noticed)}
        put(document({plan.operation: fields}))
    else:
        say(_summary(plan, outcome, consent.dry_run))
        for session in noticed:
            say(
                f"Its session of {session.agent} is informed at its next prompt."
                if session.reads
                else f"{session.agent} reads nothing at a prompt, so its session is not informed."
            )
    if plan.partial:
        exit_with(PARTIAL)


def _tell(
    store: "eventlog.Store", plan: "eventlog.UndoPlan", outcome: "eventlog.RestoreOutcome | None", tell: bool
) -> "list[NoticedSession]":
    """Leave a line for the next prompt of the sessions concerned, where somebody asked for it."""
    if outcome is None or outcome.event is None:
        return []
    if not tell and not config.read(store.fs, store.layout).undo_tell:
        return []
    from eventlog.memory.undo_notice import leave_notices

    return leave_notices(store, plan, outcome.event)


def _readers(noticed: "list[NoticedSession]") -> list[dict[str, str]]:
    return [{"agent": session.agent, "session": session.session} for session in noticed if session.reads]


# -- showing -------------------------------------------------------------------------------------------


# The turn that changed the lines of a conflict since, or None, by the first line of each stretch.
Later = dict[int, str | None]


def _show(store: "eventlog.Store", plan: "eventlog.UndoPlan", later: list[Later]) -> None:
    for name, why in plan.passed_over:
        put_styled(f"passed over  {name}: {one_line(why)}\n", plan_step)
    for name in plan.of:
        put_styled(f"{plan.operation}  {_titled(store, name)}\n", plan_step)
    shown = set()
    for step in _shown_steps(plan):
        shown.add(step.path)
        how = _WORDS[plan.outcomes.get(step.path, "exact")]
        shown_path = step.path + b"/" if step.of_directories else step.path
        put_styled(f"  {how or _ACTIONS[step.action]:<9} {text_of(shown_path)}\n", plan_step)
    for path, how in sorted(plan.outcomes.items()):
        if how == "already" and path not in shown:
            put_styled(f"  {_WORDS[how]:<9} {text_of(path)}: taken back already\n", plan_step)
    for path, why in plan.skipped:
        put_styled(f"  left      {text_of(path)}: {one_line(why)}\n", plan_step)
    for path, why in plan.missing:
        put_styled(f"  left      {text_of(path)}: {one_line(why)}\n", plan_step)
    for path, why in plan.conflicts:
        put_styled(f"  CONFLICT  {text_of(path)}: {one_line(why)}\n", plan_step)
        for clash, turns in zip(plan.clashes, later, strict=True):
            if clash.path == path:
                _show_lines(store, clash, turns)


def _shown_steps(plan: "eventlog.UndoPlan") -> list["RestoreStep"]:
    """The steps of a plan without the directories that only follow from what is in them."""
    needed = {above for step in plan.steps if not step.of_directories for above in ways(step.path)[1:]}
    return [step for step in plan.steps if not step.of_directories or step.path not in needed]


def _previews(store: "eventlog.Store", plan: "eventlog.UndoPlan") -> Iterator[StepPreview]:
    holds_secret = store.redactor.kinds_in
    return previews(plan, store.blobs.get, store.withheld(), lambda data: bool(holds_secret(data)))


def _show_diffs(shown: Sequence[StepPreview]) -> None:
    for preview in shown:
        if preview.diff is None:
            put(f"# {text_of(preview.path)}: {one_line(preview.why or '')}\n")
        else:
            put(lines(preview.diff.decode("utf-8", "replace")))


def _titled(store: "eventlog.Store", name: str) -> str:
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
        parts = [f'"{one_line(title)}"' if title else "", who, when(started) if started else ""]
        return " · ".join([name, *filter(None, parts)])
    return name


def _later_turns(store: "eventlog.Store", plan: "eventlog.UndoPlan", clash: UndoConflict) -> Later:
    """The turns that changed the lines of a conflict since; empty where the file cannot be read."""
    from eventlog.undo.blame import VERSION  # a plan without a conflict needs none of it
    from eventlog.undo.blame_cache import kept_blame

    try:
        with open(os.path.join(os.fsencode(plan.target), clash.path), "rb") as file:
            lines = kept_blame(store, path_text(clash.path), file.read())
    except (eventlog.EventLogError, OSError):
        return {}  # the lines themselves are shown all the same
    later: Later = {}
    for stretch in clash.lines:
        later[stretch.line] = None
        for line in lines[stretch.line - 1 : stretch.line - 1 + max(1, len(stretch.ours))]:
            version = line.origin.version if line.origin.kind == VERSION else None
            if version is not None and f"turn:{version.turn_name}" not in plan.of:
                later[stretch.line] = version.turn_name
    return later


def _show_lines(store: "eventlog.Store", clash: UndoConflict, later: Later) -> None:
    """The lines of a conflict and what changed them since, unless one of the contents is withheld."""
    if _is_withheld(store, clash):
        put("            its lines are not shown: it holds, or may hold, a secret\n")
        return
    for stretch in clash.lines[:_CONFLICTS_SHOWN]:
        who = later.get(stretch.line) or "you, or a program that nobody saw"
        by = f", changed since by {who}" if stretch.line in later else ""
        put(f"            line {stretch.line}{by}\n")
        for side, texts in (("now", stretch.ours), ("after", stretch.base), ("before", stretch.theirs)):
            put(f"            {side:<7} {_excerpt(store, texts)}\n")
    if len(clash.lines) > _CONFLICTS_SHOWN:
        put(f"            and {count(len(clash.lines) - _CONFLICTS_SHOWN, 'more place')}\n")


def _excerpt(store: "eventlog.Store", lines: tuple[bytes, ...]) -> str:
    shown = [one_line(store.redactor.text(line.decode("utf-8", "replace").rstrip("\n"))) for line in lines]
    more = f" … {len(lines) - _LINES_SHOWN} more" if len(lines) > _LINES_SHOWN else ""
    return " / ".join(shown[:_LINES_SHOWN]) + more if lines else "(nothing)"


def _is_withheld(store: "eventlog.Store", clash: UndoConflict) -> bool:
    change = clash.change
    ids = {to_text(state.id) for state in (change.before, change.after) if state is not None}
    return not ids.isdisjoint(store.withheld())


def _way_out(plan: "eventlog.UndoPlan", later: list[Later]) -> str:
    """What a person can do with a conflict: undo the later turns too, do the rest, or get both sides."""
    if plan.operation == "undo":
        turns = sorted({turn for each in later for turn in each.values() if turn is not None})
        named = " ".join([*turns, *(name.removeprefix("turn:") for name in plan.of)])
        also = f"Undo what came later too: `locus undo {named}` · " if turns else ""
        lines = " · both sides in the file: --merge-markers" if any(c.lines for c in plan.clashes) else ""
        return f"Nothing was written. {also}The rest: --skip-conflicts{lines}."
    return "Nothing was written. Undo or move those first."


def _summary(plan: "eventlog.UndoPlan", outcome: "eventlog.RestoreOutcome | None", dry_run: bool) -> str:
    if not plan.steps:
        nothing = (
            "Nothing was changed."
            if plan.partial
            else "There is nothing to do: all of it is as it was before."
        )
        older = (
            " `locus log` lists older turns, `locus undo TURN` takes one back." if plan.passed_over else ""
        )
        return nothing + older
    if dry_run or outcome is None:
        return f"Nothing was changed. --token {plan.token} carries this plan out."
    other = "redo" if plan.operation == "undo" else "undo"
    done = {"merge": 0, "markers": 0, **dict.fromkeys(_ACTIONS.values(), 0)}
    for step in _shown_steps(plan):
        done[_WORDS[plan.outcomes.get(step.path, "exact")] or _ACTIONS[step.action]] += 1
    words = {"merge": "merged", "markers": "with markers", "create": "created", "edit": "edited",
             "mode": "made (not) executable", "replace": "replaced", "delete": "deleted"}  # fmt: skip
    parts = ", ".join(f"{number:,} {words[key]}" for key, number in done.items() if number)
    past = "Undone" if plan.operation == "undo" else "Redone"
    return f"{past}: {parts}. `locus {other}` {'brings' if other == 'redo' else 'takes'} it back."


def _as_json(
    plan: "eventlog.UndoPlan", outcome: "eventlog.RestoreOutcome | None", shown: Sequence[StepPreview] = ()
) -> dict[str, Any]:
    diffs = {
        preview.path: {"diff": preview.diff.decode("utf-8", "replace")}
        if preview.diff is not None
        else {"diff": None, "why_no_diff": preview.why}
        for preview in shown
    }
    return {
        "of": list(plan.of),
        "into": plan.target,
        "token": plan.token,
        "steps": [
            {
                "action": step.action,
                "path": name_of(step.path),
                "how": plan.outcomes.get(step.path, "exact"),
                **diffs.get(step.path, {}),
            }
            for step in _shown_steps(plan)
        ],
        "already": sorted(name_of(path) for path, how in plan.outcomes.items() if how == "already"),
        "skipped": reasons(plan.skipped),
        "missing": reasons(plan.missing),
        "conflicts": [
            {"path": name_of(path), "reason": why, "lines": _numbers(plan, path)}
            for path, why in plan.conflicts
        ],
        "passed_over": [{"turn": name, "reason": why} for name, why in plan.passed_over],
        "done": outcome is not None,
        "event": None if outcome is None else outcome.event,
    }


def _numbers(plan: "eventlog.UndoPlan", path: bytes) -> list[int]:
    """The first lines of the stretches in conflict; their text is not part of an answer."""
    stretches: list[MergeConflict] = [s for clash in plan.clashes if clash.path == path for s in clash.lines]
    return [stretch.line for stretch in stretches]
