"""`locus store verify`: look for damage."""

import click

from eventlog.errors import Corruption

from .access import json_option, open_store, put, say
from .jsonout import document
from .progress import Progress
from .text import count


@click.command("verify")
@click.option("--quick", "level", flag_value="quick", default=True, help="Names, sizes, chains. [default]")
@click.option("--read", "level", flag_value="read", help="Every byte against its digest.")
@json_option
@click.pass_context
def command(ctx: click.Context, level: str, as_json: bool) -> None:
    """Look for damage. Exit code 12 when there is any; changes nothing."""
    with open_store(ctx, maintained=False) as store, Progress("verifying"):
        findings = store.verify(level)
    if as_json:
        found = [{"path": f.path, "what": f.what, "offset": f.offset} for f in findings]
        put(document({"level": level, "findings": found}))
    for finding in () if as_json else findings:
        where = finding.path if finding.offset is None else f"{finding.path} at byte {finding.offset}"
        put(f"{where}: {finding.what}\n")
    if findings:
        say(f"{count(len(findings), 'finding')}. The files are as they were found.")
        ctx.exit(Corruption.exit_code)
    if not as_json:
        say("No damage found." if level == "read" else "No damage found; --read checks every byte.")
