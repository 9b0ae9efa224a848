"""JSON on stdout: one document, or one object per line, always with a version.

The version is 1. Keys are only ever added under it. Times are ISO 8601 in UTC, an unknown value is
null, bytes are base64.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .access import unread

if TYPE_CHECKING:
    from eventlog.replay.certainty import Certainty

VERSION = 1


def document(fields: Mapping[str, Any]) -> bytes:
    """One indented document, ended by a newline."""
    import orjson

    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | _common()
    return _encoded({"version": VERSION, **fields, **_unread()}, option)


def line(fields: Mapping[str, Any]) -> bytes:
    """One object on one line."""
    import orjson

    return _encoded({"version": VERSION, **fields}, orjson.OPT_APPEND_NEWLINE | _common())


def _unread() -> "dict[str, Any]":
    """The positions that could not be read, as pairs; nothing where there are none."""
    positions = unread()
    return {"unread": [[span.start, span.stop] for span in positions]} if positions else {}


def _encoded(value: "dict[str, Any]", option: int) -> bytes:
    """The value as JSON; the invalid bytes of a file's name that is not UTF-8 are spelled out."""
    import orjson

    try:
        return orjson.dumps(value, default=_default, option=option)
    except TypeError:
        return orjson.dumps(_spelled(value), default=_default, option=option)


def _spelled(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_spelled(name): _spelled(item) for name, item in value.items()}
    return [_spelled(item) for item in value] if isinstance(value, (list, tuple)) else value


def rows(columns: list[str], values: list[tuple[Any, ...]]) -> bytes:
    """An array of row objects, one row a line. No version: the query determines the shape."""
    import orjson

    if not values:
        return b"[]\n"
    option = _common()
    lines = [
        orjson.dumps(dict(zip(columns, row, strict=True)), default=_default, option=option) for row in values
    ]
    return b"[" + b",\n ".join(lines) + b"]\n"


def row_lines(columns: list[str], values: list[tuple[Any, ...]]) -> bytes:
    """The row objects of `rows`, each on a line of its own."""
    import orjson

    option = _common() | orjson.OPT_APPEND_NEWLINE
    return b"".join(
        orjson.dumps(dict(zip(columns, row, strict=True)), default=_default, option=option) for row in values
    )


def compact(value: Any) -> str:
    """A nested value as JSON text on one line."""
    import orjson

    return orjson.dumps(value, default=_default, option=_common()).decode()


def _common() -> int:
    import orjson

    return orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS


def _default(value: Any) -> Any:
    """Encode types that orjson does not know: those of DuckDB beyond JSON's own."""
    import base64
    import datetime
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


def certainty_json(certainty: "Certainty") -> dict[str, Any]:
    """How well a moment is known (docs/certainty.md)."""
    paths = [{"path": path, "reason": reason} for path, reason in certainty.paths]
    return {"state": certainty.state, "why": certainty.why or None, "paths": paths}
