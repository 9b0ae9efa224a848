"""`locus context validate`: whether what is known still holds and is shown."""

import click

from ..access import json_option, open_store, put, say
from ..jsonout import document
from .access import contexts_of, phase_option, workstream_argument


@click.command("validate")
@workstream_argument
@phase_option
@json_option
@click.pass_context
def command(ctx: click.Context, workstream: str, phase: str, as_json: bool) -> None:
    """See whether what is known still holds and is shown.

    The entry of WORKSTREAM must fit the repository, and its claims must have evidence; exit code 3 otherwise.
    """
    from eventlog.base.errors import Refused
    from eventlog.memory.shared_nodes import ValidationNode

    with open_store(ctx) as store:
        node = ValidationNode(contexts_of(store), workstream, phase, with_bundle=False)
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
        ctx.exit(Refused.exit_code)
