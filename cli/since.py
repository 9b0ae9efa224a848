"""The values of `--since`: a date, a time, or an age."""

import datetime
import re

import click

_AGO = re.compile(r"(\d{1,6})\s*(m|h|d|w)")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Since(click.ParamType[int]):
    """Microseconds since 1970 from `2026-01-31`, `2026-01-31T13:05+01:00`, `90m`, `12h`, `3d`, `2w`.

    A date or time without a zone is UTC.
    """

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
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
