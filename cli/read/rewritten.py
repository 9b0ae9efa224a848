"""The option that lists rewritten commits too, and the message about their number."""

import click

from ..access import say
from ..text import count

all_option = click.option(
    "--all", "want_all", is_flag=True, help="Also commits that were amended, rebased or dropped."
)


def say_left_out(turns: int) -> None:
    """Args: turns: how many of rewritten commits were left out."""
    if turns:
        say(f"Left out: {count(turns, 'turn')} of rewritten commits; --all has them too.")
