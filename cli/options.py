"""The options that several verbs have in common."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from . import complete

F = TypeVar("F", bound=Callable[..., Any])

_AGO = re.compile(r"(\d{1,6})\s*(m|h|d|w)")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Since(click.ParamType[int]):
    """Microseconds since 1970 from `2026-01-31`, `2026-01-31T13:05+01:00`, `90m`, `12h`, `3d`, `2w`.

    A date or time without a zone is UTC.
    """

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        import datetime

        text = str(value).strip()
        ago = _AGO.fullmatch(text)
        try:
            if ago:
                delta = datetime.timedelta(**{_UNITS[ago[2]]: int(ago[1])})
                moment = datetime.datetime.now(datetime.UTC) - delta
            else:
                moment = datetime.datetime.fromisoformat(text)
                moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
            epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            return (moment - epoch) // datetime.timedelta(microseconds=1)
        except (ValueError, OverflowError):
            self.fail(
                f"{text!r} is neither a date such as 2026-01-31 nor an age such as 3d or 12h", param, ctx
            )


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/cli.md has its shape).")
force_option = click.option("--force", is_flag=True, help="Replace FILE if it exists.")
session_option = click.option(
    "--session",
    metavar="SESSION",
    shell_complete=complete.sessions,
    help="Only this session, with all its parts: its id, or the beginning of it.",
)
since_option = click.option(
    "--since", type=Since(), metavar="WHEN", help="A date, a time, or an age: 2026-01-31, 3d, 12h."
)
until_option = click.option("--until", type=Since(), metavar="WHEN", help="Only what came before then.")
rewritten_option = click.option(
    "--all", "want_all", is_flag=True, help="Also commits that were amended, rebased or dropped."
)


def limit_option(default: int = 20, most: int | None = None) -> Callable[[F], F]:
    """How many are shown, at most."""
    return click.option(
        "--limit", "-n", type=click.IntRange(1, most), default=default, show_default=True, metavar="N"
    )


def options(*listed: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in the order in which help lists them."""

    def decorate(function: F) -> F:
        for option in reversed(listed):
            function = option(function)
        return function

    return decorate
