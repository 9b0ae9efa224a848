"""How values are written for people: `eventlog/base/display.py`, and sizes, counts, the terminal.

Pure functions.
"""

import os
import sys

from eventlog.base.display import NO_TITLE as NO_TITLE
from eventlog.base.display import UNKNOWN as UNKNOWN
from eventlog.base.display import change as change
from eventlog.base.display import clock as clock
from eventlog.base.display import columns as columns
from eventlog.base.display import fit as fit
from eventlog.base.display import harmless as harmless
from eventlog.base.display import lines as lines
from eventlog.base.display import microseconds as microseconds
from eventlog.base.display import moment as moment
from eventlog.base.display import moment_exact as moment_exact
from eventlog.base.display import one_line as one_line
from eventlog.base.display import short_hash as short_hash


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


def terminal_width() -> int:
    """The columns of the terminal on stdout, 0 where there is none: then nothing is shortened."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    except (OSError, ValueError):  # a stdout that has no descriptor or no size
        return 0


def ignored_text(number: int) -> str:
    """The message of a replay or a restore about entries that git ignored."""
    entries = "1 entry" if number == 1 else f"{number:,} entries"
    return f"ignored: {entries} that git ignored then, not recorded (a directory counts as one)"
