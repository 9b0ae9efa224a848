"""`locus completion`: the script that teaches a shell to complete `locus`."""

import os

import click

from ..access import put

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str | None) -> None:
    """Print a completion script for your shell.

    \b
    bash:  locus completion bash >> ~/.bashrc
    zsh:   locus completion zsh >> ~/.zshrc
    fish:  locus completion fish > ~/.config/fish/completions/locus.fish
    """
    from click.shell_completion import get_completion_class

    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    maker = get_completion_class(name) if name in SHELLS else None
    if maker is None:
        raise click.UsageError("cannot tell which shell this is; say bash, zsh or fish", ctx)
    put(maker(ctx.find_root().command, {}, "locus", "_LOCUS_COMPLETE").source())
