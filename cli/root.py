"""The root command `locus`: its groups, its verbs, its global option."""

import click

from .lazy import Entry, LazyGroup, Sections

SECTIONS: Sections = (
    "Set up",
    Entry("init", "setup.init", "Make a store for this repository."),
    Entry("status", "setup.status", "Show what the store holds."),
    Entry("doctor", "setup.doctor", "See whether everything works, and what to do where it does not."),
    Entry("hooks", "hooks", "Have coding agents tell Locus what they do."),
    Entry("person", "setup.person", "Show or set who is recorded as working here, and on which host."),
    Entry("statusline", "setup.shell:statusline", "Print a line for the status bar of a coding agent."),
    Entry("mcp", "mcp", "Serve coding agents the record as tools (MCP)."),
    Entry("completion", "setup.shell:completion", "Print a completion script for your shell."),
    "Record",
    Entry("import", "imports", "Record a history that exists elsewhere."),
    Entry("session", "session", "Begin, end and list sessions."),
    "Look",
    Entry(
        "view",
        "read.view",
        "Show what is recorded in a browser: a slider over the turns, and all files as they were.",
    ),
    Entry("log", "read.log", "List turns or events, newest first."),
    Entry("show", "read.show", "Show one turn or session to read, or one event or context."),
    Entry("timeline", "read.timeline", "Show everything that happened in a turn, in order."),
    Entry("history", "read.history", "List the versions of one file, newest first."),
    Entry("blame", "read.blame", "Show which turn wrote each line of a file, and why."),
    Entry("compare", "read.compare", "Compare two turns or sessions: the request, what it took, the files."),
    Entry("search", "read.search", "Find words in events and in recorded file contents."),
    Entry(
        "who",
        "read.who",
        "Show the active sessions: since when, on what, which files each touched, who meets whom.",
    ),
    Entry("decisions", "read.decisions:decisions", "List what was decided and why."),
    Entry(
        "errors",
        "read.decisions:errors",
        "List what failed, newest first, and whether and when it was resolved.",
    ),
    Entry("stats", "read.stats", "Count sessions, turns, tool calls, errors, tokens, and what they cost."),
    Entry("report", "read.report", "Write a page of figures and charts to open in a browser."),
    "Go back",
    Entry("replay", "go_back.replay:replay", "Put the files of a turn into a directory, byte for byte."),
    Entry("undo", "go_back.undo:undo", "Take back what an agent's turn changed, and keep what came later."),
    Entry("redo", "go_back.undo:redo", "Bring back what the last undo took away."),
    Entry("recover", "go_back.recover", "Find the recorded states of a file, and bring one back."),
    Entry("bisect", "go_back.bisect", "Find the turn that broke something."),
    Entry("restore", "go_back.restore", "Put the files of a turn back into the working directory."),
    Entry("cat", "go_back.replay:cat", "Write one recorded file to standard output."),
    Entry("diff", "go_back.diff", "Show what changed in a turn, or between two."),
    "Remember",
    Entry("briefing", "context.briefing", "Show what a new session should know, from what is recorded."),
    Entry("codes", "context.codes", "Show what the last session did and left to do, a short line each."),
    Entry("context", "context", "Give a model what it should know, and share what is known of a workstream."),
    "Ask",
    Entry("sql", "read.sql", "Ask a question in SQL."),
    "Send",
    Entry("export", "export", "Write what is recorded to files for other programs."),
    Entry("share", "read.share", "Write a session as one page, to open in a browser or to send to somebody."),
    Entry("publish", "lake.publish", "Copy what is new to a bucket or folder that machines share."),
    Entry(
        "lake",
        "lake",
        "Make tables of what stores published to one place, keep it in order, and replay turns.",
    ),
    "Keep",
    Entry("store", "store", "Seal, rebuild, verify, backup, gc, erase, and more."),
)

EPILOG = (
    "A turn is named by turn:SID_TID, SID_TID, a unique beginning of it, git:COMMIT, or last.\n\n"
    "Exit codes: 0 ok, 1 error, 2 usage, 3 refused, 4 partial, 10 no store, 11 locked, 12 corruption."
)


class PipeClosedError(Exception):
    """The reader of our output stopped reading. Not an OSError, which click would handle its own way."""


class _Root(LazyGroup):
    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise PipeClosedError from error


def _version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from eventlog import __version__

        click.echo(f"locus {__version__}")
        ctx.exit()


@click.command(
    "locus",
    cls=_Root,
    sections=SECTIONS,
    epilog=EPILOG,
    subcommand_metavar="COMMAND …",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--store",
    metavar="DIR",
    type=click.Path(),
    help="The store: a .locus directory. [default: LOCUS_DIR, or .locus here or in a directory above]",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version."
)
@click.pass_context
def cli(ctx: click.Context, store: str | None) -> None:
    """The flight recorder of coding agents: record, look, go back, ask."""
    ctx.obj = store
