"""How answers leave the command line: as text, tables, JSON, CSV, Markdown, Parquet and Arrow.

Data goes to stdout, messages to stderr. Values for people are spelled by `eventlog/base/display.py`; here are
sizes, counts, and what a terminal needs. Each cell of a table is one harmless line, where files outside of
the repository have their local names.

JSON is one document, or one object per line, always with a version. The version is 1. Keys are only ever
added under it. Times are ISO 8601 in UTC, an unknown value is null, bytes are base64.
"""

import datetime
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import eventlog
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
from eventlog.base.display import path_words as path_words
from eventlog.base.display import short_hash as short_hash

from .outside import local
from .streams import naming_stdout as naming_stdout
from .streams import put as put
from .streams import say as say
from .streams import unread

VERSION = 1
FORMATS = ("table", "json", "jsonl", "csv", "markdown", "parquet", "arrow")
BINARY = ("parquet", "arrow")
_GAP = "  "
_NARROW = 8  # columns of a cut text, at least
_FREE_MIN = 12  # columns that a text has, at least, while another column can be left out
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_BAR_NAME_MAX = 40
_BAR_WIDTH_MIN = 10


# -- values -------------------------------------------------------------------------------------------


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


def duration(us: int) -> str:
    """`320 ms`, `12 s`, `4 min`, `3.2 h`, `2.5 d`."""
    seconds = us / 1e6
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for unit, span, until in (("s", 1, 120), ("min", 60, 7_200), ("h", 3_600, 172_800)):
        if seconds < until:
            digits = 1 if seconds / span < 10 and unit == "h" else 0
            return f"{seconds / span:.{digits}f} {unit}"
    return f"{seconds / 86_400:.1f} d"


def say_left_out(turns: int) -> None:
    """Args: turns: how many of rewritten commits were left out."""
    if turns:
        say(f"Left out: {count(turns, 'turn')} of rewritten commits; --all has them too.")


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


# -- tables -------------------------------------------------------------------------------------------


def table(
    heads: Sequence[str],
    cells: Iterable[Sequence[str]],
    *,
    right: Sequence[int] = (),
    free: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    width: int | None = None,
) -> str:
    """The table as text, with a head line. `right` lists the columns that are right-aligned.

    `width` is by default the terminal's; 0 means that nothing is shortened. In a narrower one the columns in
    `drop` are left out, the first of them first, and a last line says which. Then those in `free`, by default
    the last, are cut. Both name columns by their heads, without what is in parentheses. All other columns
    stay whole, however narrow the terminal is.
    """
    rows = [tuple(heads), *(tuple(harmless(local(cell)) for cell in row) for row in cells)]
    names = [head.split(" (")[0] for head in heads]
    widths = _widths(rows)
    cut = [i for i, name in enumerate(names) if (name in free if free is not None else i == len(heads) - 1)]
    cut = [i for i in cut if i not in right]
    shown = list(range(len(heads)))
    gone = []
    if width := terminal_width() if width is None else width:
        least = [min(wide, _FREE_MIN) if i in cut else wide for i, wide in enumerate(widths)]
        droppable = [names.index(name) for name in drop if name in names]
        while droppable and sum(least[i] for i in shown) + len(_GAP) * (len(shown) - 1) > width:
            gone.append(droppable.pop(0))
            shown.remove(gone[-1])
        widths = _shrink(widths, shown, width - len(_GAP) * (len(shown) - 1), cut)
    text = "".join(_line(row, shown, widths, right) for row in rows)
    if gone:
        left_out = ", ".join(names[i] for i in sorted(gone))
        text += f"(left out, the terminal is too narrow: {left_out})\n"
    return text


def _minimum_width(widths: Sequence[int], cut: Sequence[int]) -> int:
    """The narrowest terminal on which a table with these columns can be shown."""
    narrow = [min(wide, _NARROW) if i in cut else wide for i, wide in enumerate(widths)]
    return sum(narrow) + len(_GAP) * (len(narrow) - 1)


def pairs(rows: Iterable[tuple[str, str]], *, indent: str = "") -> str:
    """Names and values, one pair a line, the values aligned. Pairs without a value are left out."""
    shown = [(name, harmless(local(value))) for name, value in rows if value]
    wide = max((columns(name) for name, _ in shown), default=0)
    return "".join(f"{indent}{_padded(name, wide, False)}{_GAP}{value}\n" for name, value in shown)


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(columns(row[i]) for row in rows) for i in range(len(rows[0]))]


def _shrink(widths: list[int], shown: Sequence[int], room: int, cut: Sequence[int]) -> list[int]:
    """Column widths with which the columns `shown` fit into `room`, where cutting those in `cut` suffices."""
    shrunk = list(widths)
    while (excess := sum(shrunk[i] for i in shown) - room) > 0:
        candidates = [i for i in cut if i in shown and shrunk[i] > _NARROW]
        if not candidates:
            return shrunk
        widest = max(candidates, key=lambda i: shrunk[i])
        others = max((shrunk[i] for i in candidates if i != widest), default=_NARROW)
        # Down to the next widest at once; from there on, column by column.
        target = max(others if others < shrunk[widest] else shrunk[widest] - 1, _NARROW)
        shrunk[widest] = max(target, shrunk[widest] - excess)
    return shrunk


def _line(row: Sequence[str], shown: Sequence[int], widths: Sequence[int], right: Sequence[int]) -> str:
    cells = [_padded(fit(row[i], widths[i]), widths[i], i in right) for i in shown]
    return _GAP.join(cells).rstrip() + "\n"


def _padded(cell: str, width: int, to_the_right: bool) -> str:
    space = " " * (width - columns(cell))
    return space + cell if to_the_right else cell + space


def bars(rows: Sequence[tuple[str, float | None, str]], width: int = 0) -> str:
    """One line for each (name, size, value as text); no bar where the size is unknown."""
    import shutil

    width = width or min(shutil.get_terminal_size((100, 24)).columns, 160)
    names = [fit(harmless(name), _BAR_NAME_MAX) for name, _, _ in rows]
    wide = max(map(columns, names), default=0)
    values = max((columns(value) for _, _, value in rows), default=0)
    room = max(width - wide - values - 4, _BAR_WIDTH_MIN)
    largest = max((size for _, size, _ in rows if size is not None), default=0)
    lines = []
    for name, (_, size, value) in zip(names, rows, strict=True):
        bar = _bar(size / largest, room) if size and largest else ""
        lines.append(f"{name}{' ' * (wide - columns(name))}  {bar} {value}".rstrip() + "\n")
    return "".join(lines)


def _bar(share: float, room: int) -> str:
    """A bar, with at least a sliver for a share above zero."""
    whole, eighths = divmod(max(round(share * room * 8), 1), 8)
    return "█" * whole + _EIGHTHS[eighths].strip()


# -- JSON ---------------------------------------------------------------------------------------------


def document(fields: Mapping[str, Any]) -> bytes:
    """One indented document, ended by a newline."""
    import orjson

    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | _json_option()
    return _json({"version": VERSION, **fields, **_unread()}, option)


def json_line(fields: Mapping[str, Any]) -> bytes:
    """One object on one line."""
    import orjson

    return _json({"version": VERSION, **fields}, orjson.OPT_APPEND_NEWLINE | _json_option())


def _unread() -> "dict[str, Any]":
    """The positions that could not be read, as pairs; nothing where there are none."""
    positions = unread()
    return {"unread": [[span.start, span.stop] for span in positions]} if positions else {}


def _json(value: "dict[str, Any]", option: int) -> bytes:
    """The value as JSON; the invalid bytes of a file's name that is not UTF-8 are spelled out."""
    import orjson

    try:
        return orjson.dumps(value, default=_json_value, option=option)
    except TypeError:
        return orjson.dumps(_spelled(value), default=_json_value, option=option)


def _spelled(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_spelled(name): _spelled(item) for name, item in value.items()}
    import dataclasses

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _spelled(dataclasses.asdict(value))
    return [_spelled(item) for item in value] if isinstance(value, (list, tuple)) else value


def compact_json(value: Any) -> str:
    """A nested value as JSON text on one line."""
    import orjson

    return orjson.dumps(value, default=_json_value, option=_json_option()).decode()


def _json_option() -> int:
    import orjson

    return orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS


def _json_value(value: Any) -> Any:
    """Encode types that orjson does not know: those of DuckDB beyond JSON's own."""
    import base64
    import decimal

    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, int):  # beyond 64 bits
        return str(value)
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    return str(value)


def certainty_json(certainty: "eventlog.Certainty") -> dict[str, Any]:
    """How well a moment is known (docs/certainty.md)."""
    paths = [{"path": path, "reason": reason} for path, reason in certainty.paths]
    return {"state": certainty.state, "why": certainty.why or None, "paths": paths}


# -- answers of SQL -----------------------------------------------------------------------------------


def encoded(answer: Any, form: str, *, to_file: bool) -> bytes:
    """An answer of SQL in one of `FORMATS`: an Arrow table for those of `BINARY`, a `Result` for others."""
    if form in BINARY:
        return _arrow(answer, form, to_file)
    if form in ("json", "jsonl"):
        return _json_rows(answer, one_array=form == "json")
    if form == "table":
        text = result_table(answer, 0 if to_file else terminal_width())
    else:
        text = _csv(answer) if form == "csv" else _markdown(answer)
    return text.encode("utf-8", "surrogateescape")


def _arrow(table: Any, form: str, to_file: bool) -> bytes:
    """Parquet or Arrow: in a file Arrow's seekable file format, on a pipe its stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    if form == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, sink, compression="zstd")
    else:
        begin = pa.ipc.new_file if to_file else pa.ipc.new_stream
        with begin(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _json_rows(result: "eventlog.Result", *, one_array: bool) -> bytes:
    """A row object a line. No version: the query determines the shape."""
    import orjson

    option = _json_option()
    rows = [
        orjson.dumps(dict(zip(result.columns, row, strict=True)), default=_json_value, option=option)
        for row in result.rows
    ]
    if one_array:
        return b"[" + b",\n ".join(rows) + b"]\n"
    return b"".join(row + b"\n" for row in rows)


def _csv(result: "eventlog.Result") -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows([["" if value is None else _field(value) for value in row] for row in result.rows])
    return text.getvalue()


def _field(value: Any) -> str:
    """A value in CSV. Each type has one spelling, so that a column can be parsed by its first row."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, datetime.timedelta):
        return str(value.total_seconds())
    if isinstance(value, bytes):
        import base64

        return base64.b64encode(value).decode("ascii")
    return _plain(value)


def _markdown(result: "eventlog.Result") -> str:
    def line(cells: list[str]) -> str:
        escaped = [cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for cell in cells]
        return f"| {' | '.join(escaped)} |\n"

    numeric = [_is_numeric([row[i] for row in result.rows]) for i in range(len(result.columns))]
    marks = "|".join("---:" if is_number else "---" for is_number in numeric)
    rows = [line(["" if v is None else _cell(v) for v in row]) for row in result.rows]
    return line([_cell(name) for name in result.columns]) + f"|{marks}|\n" + "".join(rows)


def result_table(result: "eventlog.Result", room: int) -> str:
    """A table; on a too narrow terminal, each row as lines of names and values."""
    cells = [[_cell(value) for value in row] for row in result.rows]
    right = [i for i in range(len(result.columns)) if _is_numeric([row[i] for row in result.rows])]
    heads = list(result.columns)
    cut = [i for i in range(len(heads)) if i not in right and _is_free([row[i] for row in result.rows])]
    if room and cells and _minimum_width(_widths([heads, *cells]), cut) > room:
        shown = "\n".join(pairs(zip(heads, row, strict=True)) for row in cells) + "\n"
    else:
        shown = table(heads, cells, right=right, free=[heads[i].split(" (")[0] for i in cut], width=room)
    return shown + f"({count(len(cells), 'row')})\n"


def _is_free(values: list[Any]) -> bool:
    """Whether the values are texts of several words, nested or binary; names and times are not."""
    return any(
        " " in value if isinstance(value, str) else isinstance(value, (list, dict, bytes)) for value in values
    )


def _is_numeric(values: list[Any]) -> bool:
    import decimal

    present = [v for v in values if v is not None]
    numbers = (int, float, decimal.Decimal)
    return bool(present) and all(isinstance(v, numbers) and not isinstance(v, bool) for v in present)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    import decimal

    if isinstance(value, decimal.Decimal):  # without the trailing zeros of its type
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return one_line(_plain(value))


def _plain(value: Any) -> str:
    """A value as one text: times in UTC without a zone, nested values as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ").removesuffix("+00:00")
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (list, dict, bytes)):
        return compact_json(value)
    return str(value)
