"""Times for a reader: on a terminal in the reader's zone, recent ones as an age; elsewhere in UTC.

All tables and pages of commands take their times from here (docs/reading.md, On a terminal).
"""

import datetime
import sys
import time

from .output import clock as clock_utc
from .output import moment

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def when(us: int | None) -> str:
    """`3 min ago` or `2026-01-31 14:05` on a terminal; `2026-01-31 13:05`, in UTC, elsewhere."""
    if us is None or not sys.stdout.isatty():
        return moment(us)
    age_s = time.time() - us / 1e6
    if not 0 <= age_s < _DAY:
        return local(us)
    if age_s < _MINUTE:
        return "just now"
    return f"{age_s // _MINUTE:.0f} min ago" if age_s < _HOUR else f"{age_s // _HOUR:.0f} h ago"


def local(us: int | None) -> str:
    """The same, never as an age."""
    there = _there(us)
    return f"{there:%Y-%m-%d %H:%M}" if there is not None else moment(us)


def clock(us: int | None) -> str:
    """The time of day, to the second."""
    there = _there(us)
    return f"{there:%H:%M:%S}" if there is not None else clock_utc(us)


def with_zone(us: int | None) -> str:
    """The same as `when`, for a place without a heading that says the zone."""
    shown = when(us)
    if not shown or shown.endswith(("ago", "now")):
        return shown
    there = _there(us)
    return f"{shown} {there:%Z}" if there is not None else f"{shown} UTC"


def zone() -> str:
    """The zone of these times, for headings; with both names where clocks are changed (`CET/CEST`)."""
    if not sys.stdout.isatty():
        return "UTC"
    return "/".join(dict.fromkeys(time.tzname if time.daylight else time.tzname[:1]))


def _there(us: int | None) -> datetime.datetime | None:
    """A time in the zone of the machine, or of TZ; None without a terminal, or beyond what a clock shows."""
    if us is None or not sys.stdout.isatty():
        return None
    try:
        return datetime.datetime.fromtimestamp(us / 1e6).astimezone()
    except (OverflowError, OSError, ValueError):
        return None
