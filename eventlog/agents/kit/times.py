"""Times that transcripts write, as microseconds since 1970. Pure.

What lies outside of the years 1 to 9999 is no time: neither SQL nor Python could show it.
"""

from datetime import UTC, datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999


def time_of(value: object) -> int | None:
    """Of `YYYY-MM-DDThh:mm:ss[.fff]` with Z or an offset; without one it is the time of an unknown place.

    Equal to `agents.transcript.time_of` where that knows a time that exists.
    """
    if type(value) is not str:
        return None
    if len(value) < 20 or value[10] != "T" or not (value[-1] == "Z" or value[-6] in "+-"):
        return None
    try:
        since = datetime.fromisoformat(value) - _EPOCH
    except (ValueError, TypeError, OverflowError):
        return None
    microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return microseconds if _FIRST <= microseconds <= _LAST else None
