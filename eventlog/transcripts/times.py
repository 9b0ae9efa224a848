"""Times that transcripts write, as microseconds since 1970. Pure.

What lies outside of the years 1 to 9999 is no time: neither SQL nor Python could show it.
"""

from datetime import UTC, datetime

from eventlog.agents import transcript

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999


def time_of(value: object) -> int | None:
    """Of `YYYY-MM-DDThh:mm:ss[.fff]` with Z or an offset; None for anything else.

    As `agents.transcript.time_of`, but faster. A time without an offset is one of an unknown place.
    """
    if type(value) is not str:
        return None
    if len(value) == 24 and value[23] == "Z" and value[10] == "T" and value[4] == value[7] == "-":
        try:
            since = datetime.fromisoformat(value) - _EPOCH
        except ValueError:
            return None
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if len(value) > 5 and value[-6] in "+-" and value[-3] == ":":
        try:
            since = datetime.fromisoformat(value) - _EPOCH
        except (ValueError, OverflowError):
            return None
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    found = transcript.time_of(value)
    return found if found is None or _FIRST <= found <= _LAST else None
