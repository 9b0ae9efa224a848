"""The verbs of `locus context` about workstreams: what sessions and tools share of one."""

import json
import os
from typing import IO, Any

import click

import eventlog
from eventlog.base.repository import git_root
from eventlog.memory.shared_bundle import Bundle, role_rounds
from eventlog.memory.shared_entry import PHASES
from eventlog.memory.shared_nodes import is_enabled
from eventlog.memory.shared_state import staleness, state_of

from ..access import open_store
from ..exits import exit_with
from ..options import json_option
from ..output import document, one_line, put, say, table

phase_option = click.option(
    "--phase",
    type=click.Choice(["planning", "implementation"]),
    default="planning",
    show_default=True,
    help="Which of the two; they are kept apart.",
)
workstream_argument = click.argument("workstream", metavar="WORKSTREAM")


def contexts_of(store: "eventlog.Store", *, whatever: bool = False) -> "eventlog.ContextStore":
    """The shared context of the repository around the working directory. Raises: Refused when it is off."""
    contexts = eventlog.ContextStore(store, git_root(os.getcwd()) or os.path.dirname(store.layout.root))
    if not whatever and not is_enabled(contexts):
        raise eventlog.Refused(
            f"context is not shared here. To share it, set `shared = true` under [context] in "
            f"{store.layout.config_file}, or SHARED_CONTEXT_ENABLED=true."
        )
    return contexts


@click.command("status")
@json_option
def status(as_json: bool) -> None:
    """Show whether context is shared, and what there is."""
    with open_store() as store:
        contexts = contexts_of(store, whatever=True)
        enabled = is_enabled(contexts)
        rows: list[dict[str, Any]] = []
        cells: list[list[str]] = []
        problems: list[str] = []
        state = state_of(contexts.root)
        for phase in PHASES if enabled else ():
            loaded = contexts.load(phase)
            problems += loaded.problems
            for key, entry in sorted(loaded.entries.items()):
                drift = staleness(contexts.root, entry, state)
                row = {"phase": phase, **key.as_dict(), "updated_at": entry.get("updated_at")}
                rows.append({**row, "stale": drift.stale, "reasons": list(drift.reasons)})
                state_text = "; ".join(drift.reasons) or "fresh"
                texts = [phase, key.workstream_id, key.branch, str(entry.get("updated_at") or ""), state_text]
                cells.append([one_line(text) for text in texts])
    if as_json:
        put(document({"enabled": enabled, "entries": rows, "problems": problems}))
        return
    say("Context is shared." if enabled else "Context is not shared: [context] shared = true would have it.")
    if cells:
        put(table(["phase", "workstream", "branch", "updated", "state"], cells, width=0))
    for problem in problems:
        say(problem)


@click.command("load")
@workstream_argument
@phase_option
def load(workstream: str, phase: str) -> None:
    """Show what is known of a workstream, and whether it still holds.

    That is the entry of WORKSTREAM on this branch, as JSON. What somebody else committed since is taken
    into the log.
    """

    with open_store() as store:
        state = eventlog.ContextLoadNode(contexts_of(store), workstream, phase, with_bundle=False)({})
    loaded = state["context"][phase]
    shown = {name: loaded[name] for name in ("entry", "stale", "reasons", "scan_again")}
    put(document({"phase": phase, **shown, "cli_sessions": state["plan"]["metadata"]["cli_sessions"]}))
    for problem in loaded["problems"]:
        say(problem)


@click.command("bundle")
@workstream_argument
@phase_option
@click.option("--size", "size_max", type=click.IntRange(min=0), metavar="CHARS", help="Fewer characters.")
@click.option("--roles", is_flag=True, help="The rounds of the four roles, each with the same bundle.")
@json_option
def bundle(workstream: str, phase: str, size_max: int | None, roles: bool, as_json: bool) -> None:
    """Print what goes into a prompt, within its budget.

    At most 2,200 characters for planning, 1,700 for implementation. What earlier sessions decided and did is
    in it where it bears on the feature request.
    """
    with open_store() as store:
        made = eventlog.ContextLoadNode(contexts_of(store), workstream, phase, size_max)({})["context"][phase]
    text, left_out = made["bundle"], made["left_out"]
    rounds = role_rounds(Bundle(text, left_out)) if roles else []
    if as_json:
        texts = [{"role": role, "text": instruction} for role, instruction in rounds]
        fields = {"text": text, "left_out": left_out, "stale": made["stale"], "rounds": texts or None}
        put(document(fields))
    elif roles:
        put("\n\n".join(f"# {role}\n\n{instruction}" for role, instruction in rounds) + "\n")
    else:
        put(f"{text}\n")
    if left_out:
        say("left out: " + ", ".join(f"{count} of {name}" for name, count in left_out.items()))


@click.command("validate")
@workstream_argument
@phase_option
@json_option
def validate(workstream: str, phase: str, as_json: bool) -> None:
    """See whether what is known still holds and is shown.

    The entry of WORKSTREAM must fit the repository, and its claims must have evidence; exit code 3 otherwise.
    """

    with open_store() as store:
        node = eventlog.ValidationNode(contexts_of(store), workstream, phase, with_bundle=False)
        validation = node({})["context"]["validation"]
    if as_json:
        names = ("ok", "stale", "scan_again", "doubts", "evidence")
        put(document({name: validation[name] for name in names}))
    else:
        for reason in validation["stale"]:
            say(f"stale: {reason}")
        for status, path in validation["changed"]:
            put(f"{status} {path}\n")
        for doubt in validation["doubts"]:
            say(f"no evidence: {doubt['claim']}: {doubt['why']}")
        if validation["ok"]:
            say("It holds.")
    if not validation["ok"]:
        exit_with(eventlog.Refused.exit_code)


@click.command("write")
@workstream_argument
@click.argument("update", type=click.File("rb"), required=False)
@phase_option
@click.option("--tests-passed", is_flag=True, help="The tests pass at this state.")
@click.option("--diff-applied", is_flag=True, help="The change is in the working directory.")
@click.option("--rebuild", is_flag=True, help="Only write the files again, from the log.")
def write(
    workstream: str,
    update: IO[bytes] | None,
    phase: str,
    tests_passed: bool,
    diff_applied: bool,
    rebuild: bool,
) -> None:
    """Add to what is known of a workstream.

    UPDATE is a JSON file, or - for stdin. Its fields are those of docs/shared-context.md: keys that are
    absent change nothing. A summary needs --tests-passed and --diff-applied; a claim that something is done
    needs evidence (exit code 3).
    """

    if rebuild == (update is not None):
        raise click.UsageError("it takes either an UPDATE or --rebuild")
    with open_store(records=True) as store:
        contexts = contexts_of(store)
        if update is None:
            say(f"written: {contexts.rebuild(phase)}")
            return
        try:
            fields = json.loads(update.read())
        except (ValueError, RecursionError) as error:
            raise eventlog.InvalidEvent(f"{update.name}: this is no JSON: {error}") from None
        if not isinstance(fields, dict):
            raise eventlog.InvalidEvent(f"{update.name}: an update is a JSON object")
        verified = {"tests_passed": tests_passed, "diff_applied": diff_applied}
        change = {**fields, "verified": verified}
        eventlog.ContextWriteNode(contexts, workstream, phase)({"context": {"shared_update": change}})
    put(f"{contexts.path(phase)}\n")
