"""The reader's clock in SQL, with the zones of Python's `zoneinfo` and not DuckDB's own. Pure."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo

_STEP = timedelta(hours=12)
# Before and after these times a clock keeps its offset.
_FIRST_US, _LAST_US = 0, 4_102_444_800_000_000


def named(name: str) -> tzinfo:
    """The zone of that name: `local`, `UTC`, or one of the tz database. Raises: ValueError."""
    if name == "local":
        return datetime.now().astimezone().tzinfo or UTC if not _local_name() else ZoneInfo(_local_name())
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{name!r} is no time zone; such as Europe/Berlin, UTC, or local") from error


def _local_name() -> str:
    """The name of the machine's zone; empty where only its offset is known."""
    import os

    name = os.environ.get("TZ", "").removeprefix(":")
    link = os.path.realpath("/etc/localtime")
    name = name or (link.partition("/zoneinfo/")[2] if "/zoneinfo/" in link else "")
    try:
        ZoneInfo(name or "?")
    except (OSError, ValueError, KeyError):
        return ""
    return name


def local(zone: tzinfo, first_us: int, last_us: int) -> Callable[[str], str]:
    """A function from an SQL time to the µs of a clock in `zone`, from `first_us` to `last_us`."""
    offsets = list(_offsets(zone, first_us, last_us))
    before = offsets[0][1]
    changes = [(time, now - old) for (_, old), (time, now) in pairwise(offsets)]

    def shown(time: str) -> str:
        steps = "".join(f" + if(epoch_us({time}) >= {since}, {change}, 0)" for since, change in changes)
        return f"(epoch_us({time}) + {before}{steps})"

    return shown


def _offsets(zone: tzinfo, first_us: int, last_us: int) -> Iterator[tuple[int, int]]:
    """(since, offset) of the zone, both in µs: the first one, then each change."""
    first, last = (min(max(us, _FIRST_US), _LAST_US) / 1e6 for us in (first_us, last_us))
    at, end = datetime.fromtimestamp(first, UTC) - _STEP, datetime.fromtimestamp(last, UTC) + _STEP
    offset = _offset(zone, at)
    yield 0, offset
    while at < end:
        then = at + _STEP
        if (now := _offset(zone, then)) != offset:
            yield _changed_at(zone, at, then), now
            offset = now
        at = then


def _changed_at(zone: tzinfo, before: datetime, after: datetime) -> int:
    """The second at which the offset changes between two times, in µs."""
    old = _offset(zone, before)
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) / 2
        before, after = (middle, after) if _offset(zone, middle) == old else (before, middle)
    return round(after.timestamp()) * 1_000_000


def _offset(zone: tzinfo, moment: datetime) -> int:
    offset = moment.astimezone(zone).utcoffset() or timedelta()
    return round(offset.total_seconds() * 1e6)
