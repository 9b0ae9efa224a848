"""`locus briefing`: what the next session should know, each line with its source."""

import click

from eventlog.memory import briefing, briefing_of_log, intent

from ..access import open_store
from ..options import json_option
from ..output import document, lines, put, say
from ..session.text import agent_option


@click.command("briefing")
@agent_option
@click.option("--focus", metavar="TEXT", help="What it is about. [default: the agent's active session]")
@click.option("--scope", metavar="PATH", multiple=True, help="A file or folder it is about; repeatable.")
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    metavar="TOKENS",
    help="How long it may be, in words × 1.3.",
)
@json_option
def command(agent: str, focus: str | None, scope: tuple[str, ...], budget: int, as_json: bool) -> None:
    """Show what a new session should know, from what is recorded.

    Warnings, active sessions, the last turns, open decisions, files and codes; each line names the event
    it comes from, and each claim about a file says what became of the file since. Without --focus and
    --scope it is about what the active session of the agent is about.
    """
    for path in scope:
        if "${" in path:
            raise click.UsageError(f"--scope {path}: a variable that was not filled in")
    reader = briefing.BriefingReader(agent, focus, intent.scope_of(scope) or ())
    with open_store() as store:
        made = briefing_of_log.brief(store, reader, intent.now_us(store), budget)
    if as_json:
        put(document(briefing.fields(made, budget)))
        return
    put(lines(made.text))
    if not made.text:
        say(f"Nothing fits into {budget:,} tokens.")
