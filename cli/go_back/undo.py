"""`locus undo` and `redo`: take back what a turn changed, and bring it back (docs/undo.md)."""

import os
import re
from typing import TYPE_CHECKING, Any

import click

from ..access import open_store, put, say
from ..jsonout import document
from ..text import moment
from .restore import check_whereabouts
from .undo_plan import plan_options, run

if TYPE_CHECKING:
    from eventlog.store import Store
    from eventlog.undo.plan import UndoPlan

# What is taken for the name of something that can be undone, and not for a path.
_NAMES = re.compile(r"(turn|session|event|action|git):.+|last(:.+)?|[0-9a-z]{4,}_[0-9]+")


class _WithPaths(click.Command):
    """A command whose arguments after `--` are paths."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta["paths"] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])


@click.command("undo", cls=_WithPaths)
@click.argument("names", nargs=-1, metavar="[WHAT]… [--] [PATH]…")
@click.option("--since", is_flag=True, help="The turn, and all later ones of its session.")
@click.option("--skip-conflicts", is_flag=True, help="Take back everything but the paths in conflict.")
@click.option(
    "--merge-markers", is_flag=True, help="Write both sides of lines in conflict into the file, marked."
)
@click.option("--force", is_flag=True, help="Also what a running turn has changed so far.")
@click.option("--list", "as_list", is_flag=True, help="List what was undone and redone, newest first.")
@plan_options
@click.pass_context
def undo(
    ctx: click.Context,
    /,
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

    WHAT is a turn, action:ID, event:ID or session:ID; without it the newest turn of an agent that has
    ended and is not undone. With PATHs only these. Where the same lines were changed later there is a
    conflict, and nothing is written. What is replaced is saved first; `locus redo` brings it back.
    """
    if skip_conflicts and merge_markers:
        raise click.UsageError("only one of --skip-conflicts, --merge-markers")
    conflicts = "skip" if skip_conflicts else "markers" if merge_markers else "refuse"
    with open_store(ctx) as store:
        if as_list:
            _list(store, how["as_json"])
            return
        what = [name for name in names if _NAMES.fullmatch(name)]
        paths = [_path(store, name) for name in (*names, *ctx.meta["paths"]) if name not in what]
        if since and len(what) != 1:
            raise click.UsageError("--since takes one turn")
        if into is None:
            check_whereabouts(store)

        def plan() -> "UndoPlan":
            return store.undo_plan(
                what or None,
                paths=paths,
                since=since,
                into=into,
                conflicts=conflicts,
                force=force,
                session=_asking_session(),
            )  # type: ignore[return-value]

        run(ctx, store, plan, **how)


def _path(store: "Store", given: str) -> str:
    from ..repopath import names_of

    return names_of(store, given)[0]


def _asking_session() -> tuple[str, str] | None:
    """The session that this command is called from, if an agent calls it and names its session."""
    from eventlog import agents

    for spec in agents.specs():
        session = os.environ.get(spec.session_variable) if spec.session_variable else None
        if session:
            return spec.name, session
    return None


def _list(store: "Store", as_json: bool) -> None:
    from eventlog.undo.plan import operations_of

    done = operations_of(store)
    shown = [operation for operation in reversed(done.done) if operation.kind in ("undo", "redo")]
    if as_json:
        rows = [
            {"event": o.id, "operation": o.kind, "of": list(o.of), "at": o.recorded_at, "into": o.target,
             "whole": o.whole, "taken_back": done.is_taken_back(o)}
            for o in shown
        ]  # fmt: skip
        put(document({"operations": rows}))
        return
    for operation in shown:
        state = " (taken back)" if done.is_taken_back(operation) else ""
        part = "" if operation.whole else " in part"
        at = moment(operation.recorded_at)
        put(f"{at}  {operation.kind}{part}  {', '.join(operation.of)}  event:{operation.id}{state}\n")
    if not shown:
        say("Nothing was undone here.")


@click.command("redo")
@plan_options
@click.pass_context
def redo(ctx: click.Context, /, into: str | None, **how: Any) -> None:
    """Bring back what the last undo took away.

    Again for the undo before it. An agent's new turn ends this; what a person changed meanwhile is
    kept, or is a conflict.
    """
    with open_store(ctx) as store:
        run(ctx, store, lambda: store.redo_plan(into=into), **how)
