"""The consent to a plan: only shown, carried out after a question, or at once (--dry-run, --yes, --token)."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

import eventlog

from .options import options
from .streams import can_ask


@dataclass(frozen=True, slots=True)
class Consent:
    """What the options say; without any of them a person is asked."""

    dry_run: bool = False
    yes: bool = False
    token: str | None = None

    def check_one(self) -> None:
        """Raises: UsageError for several of the options."""
        if (self.yes, self.token is not None, self.dry_run).count(True) > 1:
            raise click.UsageError("only one of --dry-run, --yes, --token")

    def check_plan(self, token: str, changed: str) -> None:
        """Raises: Refused, with the text `changed`, where --token names another plan than that of `token`."""
        if self.token and self.token != token:
            raise eventlog.Refused(changed)

    def ask(self, token: str, question: str) -> None:
        """Ask on a terminal, unless the options answer. Raises: Refused (nobody to ask), Abort (no)."""
        if self.yes or self.token:
            return
        if not can_ask():
            raise eventlog.Refused(
                f"nothing was changed: there is no terminal to ask on. --yes carries this plan out, or "
                f"--token {token}."
            )
        click.confirm(question, abort=True, err=True)


def with_consent(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its options --dry-run, --yes and --token as `consent`."""

    @functools.wraps(function)
    def command(*, dry_run: bool, yes: bool, token: str | None, **rest: Any) -> Any:
        return function(consent=Consent(dry_run, yes, token), **rest)

    return command


plan_options = options(
    click.option(
        "--into",
        metavar="DIR",
        type=click.Path(),
        help="Where. [default: the directory that holds the store]",
    ),
    click.option("--dry-run", is_flag=True, help="Show the plan and its token; change nothing."),
    click.option("--yes", is_flag=True, help="Do not ask."),
    click.option("--token", metavar="T", help="Carry out the plan that --dry-run showed, and no other."),
)
