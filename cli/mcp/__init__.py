"""`locus mcp`: the tools of Locus for coding agents, and the agents' settings for them."""

import click

from ..lazy import Entry, LazyGroup, Sections

SECTIONS: Sections = (
    (
        "Set up",
        (
            Entry("install", "mcp.install:install", "Have coding agents start `locus mcp`."),
            Entry(
                "uninstall", "mcp.install:uninstall", "Take `locus mcp` out of the agents' settings again."
            ),
        ),
    ),
)


@click.command(
    "mcp", cls=LazyGroup, sections=SECTIONS, subcommand_metavar="[VERB] …", invoke_without_command=True
)
@click.option(
    "--agent",
    "agent_id",
    default="claude-code",
    show_default=True,
    metavar="NAME",
    help="The agent that is served, where a call names none.",
)
@click.pass_context
def command(ctx: click.Context, agent_id: str) -> None:
    """Serve coding agents the record as tools (MCP), on standard input and output.

    Without a VERB it serves, which is for programs: an agent starts it, and ends it by closing its input.
    The store is --store or LOCUS_DIR, else the one of the client's roots, and never the one that serves
    the working directory.
    """
    if ctx.invoked_subcommand is not None:
        return
    from eventlog.mcp.server import serve

    serve(ctx.find_root().obj, agent_id)
