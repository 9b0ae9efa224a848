"""The option that lists what rewritten commits left in the log too, and the sentence that says they are there."""

import click

from .access import say
from .text import count

all_option = click.option(
    "--all", "want_all", is_flag=True, help="Also commits that were rewritten: amended, rebased, dropped."
)


def say_left_out(turns: int) -> None:
    """Args: turns: how many of rewritten commits were left out."""
    if turns:
        say(f"Left out: {count(turns, 'turn')} of rewritten commits; --all has them too.")
