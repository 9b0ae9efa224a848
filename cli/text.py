"""How values are spelled for people: times, sizes, counts, one-line text.

Pure functions. Recorded text is foreign: `one_line` and `lines` make control characters and
direction marks visible instead of handing them to the terminal.
"""

import datetime
import os
import sys
import unicodedata

_KEPT_IN_LINES = "\n\t"
# Characters that change the order or the look of the text after them.
_MARKS = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF}


def one_line(text: str, width: int = 0) -> str:
    """Foreign text as one harmless line, shortened to `width` columns when that is not 0."""
    clean = _clean(" ".join(text.split()), "")
    return fit(clean, width) if width else clean


def harmless(text: str) -> str:
    """Text of any origin on one line, nothing in it left out: what is unsafe is spelled out."""
    return _clean(text, "")


def lines(text: str) -> str:
    """Foreign text with its line breaks and tabs, harmless otherwise."""
    return _clean(text, _KEPT_IN_LINES)


def fit(text: str, width: int) -> str:
    """`text`, cut with an ellipsis to at most `width` columns."""
    if columns(text) <= width:
        return text
    kept, used = [], 0
    for c in text:
        used += columns(c)
        if used > width - 1:
            break
        kept.append(c)
    return "".join(kept).rstrip() + "…"


def columns(text: str) -> int:
    """How many terminal columns `text` takes."""
    if text.isascii():
        return len(text)
    return sum(_columns_of(c) for c in text)


def moment(us: int | None) -> str:
    """A time in microseconds since 1970 as `2026-01-31 13:05`, in UTC."""
    return "" if us is None else f"{_utc(us):%Y-%m-%d %H:%M}"


def moment_exact(us: int | None) -> str | None:
    """The same time to the microsecond, as ISO 8601."""
    return None if us is None else _utc(us).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def clock(us: int | None) -> str:
    """The time of day, `13:05:59`."""
    return "" if us is None else f"{_utc(us):%H:%M:%S}"


def microseconds(value: object) -> int | None:
    """A time as microseconds since 1970, from what SQL or an event gives."""
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        delta = aware - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return delta // datetime.timedelta(microseconds=1)
    return value if isinstance(value, int) else None


def size(size_bytes: int) -> str:
    """`0 B`, `12.3 kB`, `4.5 MB`: powers of a thousand, three digits."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    value = float(size_bytes)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.5 or unit == "TB":
            break
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 turn`, `1,234 turns`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def change(added: int | None, removed: int | None) -> str:
    """`+12 −3`; nothing where the counts are unknown."""
    return "" if added is None and removed is None else f"+{added or 0:,} −{removed or 0:,}"


def terminal_width() -> int:
    """Columns of the terminal that stdout is, 0 where it is none: then nothing is shortened."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    except (OSError, ValueError):  # a stdout that has no descriptor or no size
        return 0


def _utc(us: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=us)


def _clean(text: str, kept: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in kept or not _is_unsafe(c) else _escape(c) for c in text)


def _is_unsafe(c: str) -> bool:
    return ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or ord(c) in _MARKS


def _escape(c: str) -> str:
    return f"\\x{ord(c):02x}" if ord(c) < 0x100 else f"\\u{ord(c):04x}"


def _columns_of(c: str) -> int:
    if unicodedata.combining(c) or unicodedata.category(c) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1
