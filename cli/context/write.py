"""`locus context write`: adds to what is known of a workstream."""

import json
from typing import IO

import click

from ..access import open_store, put, say
from .access import contexts_of, phase_option, workstream_argument


@click.command("write")
@workstream_argument
@click.argument("update", type=click.File("rb"), required=False)
@phase_option
@click.option("--tests-passed", is_flag=True, help="The tests pass at this state.")
@click.option("--diff-applied", is_flag=True, help="The change is in the working directory.")
@click.option("--rebuild", is_flag=True, help="Only write the files again, from the log.")
@click.pass_context
def command(
    ctx: click.Context,
    workstream: str,
    update: "IO[bytes] | None",
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
    from eventlog.base.errors import InvalidEvent
    from eventlog.memory.shared_nodes import ContextWriteNode

    if rebuild == (update is not None):
        raise click.UsageError("it takes either an UPDATE or --rebuild")
    with open_store(ctx, records=True) as store:
        contexts = contexts_of(store)
        if update is None:
            say(f"written: {contexts.rebuild(phase)}")
            return
        try:
            fields = json.loads(update.read())
        except (ValueError, RecursionError) as error:
            raise InvalidEvent(f"{update.name}: this is no JSON: {error}") from None
        if not isinstance(fields, dict):
            raise InvalidEvent(f"{update.name}: an update is a JSON object")
        verified = {"tests_passed": tests_passed, "diff_applied": diff_applied}
        change = {**fields, "verified": verified}
        ContextWriteNode(contexts, workstream, phase)({"context": {"shared_update": change}})
    put(f"{contexts.path(phase)}\n")
