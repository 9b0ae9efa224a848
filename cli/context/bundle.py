"""`locus context bundle`: what goes into a prompt."""

import click

from ..access import json_option, open_store, put, say
from ..jsonout import document
from .access import contexts_of, phase_option, workstream_argument


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

    At most 2,200 characters for planning, 1,700 for implementation. What earlier sessions decided and did is
    in it where it bears on the feature request.
    """
    from eventlog.memory.shared_bundle import Bundle, role_rounds
    from eventlog.memory.shared_nodes import ContextLoadNode

    with open_store(ctx) as store:
        made = ContextLoadNode(contexts_of(store), workstream, phase, size_max)({})["context"][phase]
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
