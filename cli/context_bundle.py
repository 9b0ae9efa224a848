"""`locus context bundle`: what goes into a prompt."""

import click

from .access import json_option, open_store, put, say
from .context_access import contexts_of, phase_option, workstream_argument
from .jsonout import document


@click.command("bundle")
@workstream_argument
@phase_option
@click.option("--size", "size_max", type=click.IntRange(min=0), metavar="CHARS", help="Fewer characters.")
@click.option("--roles", is_flag=True, help="The rounds of the four roles, each with the same bundle.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, workstream: str, phase: str, size_max: int | None, roles: bool, as_json: bool
) -> None:
    """Print what goes into a prompt, within its budget.

    At most 2,200 characters for planning, 1,700 for implementation.
    """
    from eventlog.memory.shared_bundle import role_rounds
    from eventlog.memory.shared_nodes import bundle_here

    with open_store(ctx) as store:
        contexts = contexts_of(store)
        made, found = bundle_here(contexts, phase, workstream, size_max=size_max)
    if as_json:
        rounds = [{"role": role, "text": text} for role, text in role_rounds(made)] if roles else None
        put(document({"text": made.text, "left_out": made.left_out, "stale": found.stale, "rounds": rounds}))
    elif roles:
        put("\n\n".join(f"# {role}\n\n{text}" for role, text in role_rounds(made)) + "\n")
    else:
        put(f"{made.text}\n")
    if made.left_out:
        say("left out: " + ", ".join(f"{count} of {name}" for name, count in made.left_out.items()))
