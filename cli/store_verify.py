"""`locus store verify`: look for damage."""

import click

from eventlog.base.errors import Corruption

from .access import json_option, open_store, put, say
from .jsonout import document
from .progress import Progress
from .text import count

_CLEAN = {
    "quick": "No damage found; --read checks every byte.",
    "read": "No damage found.",
    "deep": "No damage found.",
}
_NEXT = (
    "`locus store repair` shows what can be repaired and what that loses; its --accept notes the rest as "
    "known, and `locus store rebuild` makes the index anew."
)


@click.command("verify")
@click.option("--quick", "level", flag_value="quick", default=True, help="Names, sizes, chains. [default]")
@click.option("--read", "level", flag_value="read", help="Every byte against its digest.")
@click.option(
    "--deep", "level", flag_value="deep", help="Also every event, number, reference, and the index."
)
@json_option
@click.pass_context
def command(ctx: click.Context, level: str, as_json: bool) -> None:
    """Look for damage. Exit code 12 when there is any; changes nothing."""
    with open_store(ctx) as store, Progress("verifying") as progress:
        findings = store.verify(level, progress)
    if as_json:
        put(document({"level": level, "findings": [finding.figures() for finding in findings]}))
    for finding in () if as_json else findings:
        put(f"{finding}\n")
    damage = sum(finding.damage for finding in findings)
    if damage:
        say(f"{count(damage, 'finding')}. The files are as they were found. {_NEXT}")
        ctx.exit(Corruption.exit_code)
    if not as_json:
        say(_CLEAN[level])
