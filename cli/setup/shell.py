"""`locus statusline` and `locus completion`: for the status bar of an agent, and for a shell."""

import os

import click
from click.shell_completion import get_completion_class

from .. import complete as complete  # which knows bash better than click does
from ..access import store_option
from ..output import put


@click.command("statusline")
def statusline() -> None:
    """Print a line for the status bar of a coding agent.

    Reads the JSON that Claude Code passes to its status line from stdin, and shows whether this session is
    recorded, the costs of the session and of today as maintenance last counted them ("–" where unknown),
    and what needs attention: turns to close (`locus doctor` does), errors of hooks. Always exits 0.
    `locus hooks install --statusline` sets it up.
    """
    from ..statusline_entry import text

    given = store_option()
    put(text({**os.environ, **({"LOCUS_DIR": given} if given else {})}) + "\n")


SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str | None) -> None:
    """Print a completion script for your shell.

    \b
    bash:  locus completion bash >> ~/.bashrc
    zsh:   locus completion zsh >> ~/.zshrc
    fish:  locus completion fish > ~/.config/fish/completions/locus.fish
    """
    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    maker = get_completion_class(name) if name in SHELLS else None
    if maker is None:
        raise click.UsageError("cannot tell which shell this is; say bash, zsh or fish", ctx)
    put(maker(ctx.find_root().command, {}, "locus", "_LOCUS_COMPLETE").source())
