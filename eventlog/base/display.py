"""How recorded things are spelled in words: foreign text made harmless, times, an event in one line.

Recorded text is foreign, and goes to terminals and to models: control characters, which end a line or move a
cursor, and direction marks, which make text look like other text, are made visible. Pure functions.
"""

import datetime
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from eventlog.base.paths import path_bytes, quoted
from eventlog.base.types import TIME_MAX, TIME_MIN

_ALLOWED_IN_LINES = "\n\t"
# Characters that change the order or the appearance of the text after them.
_MARKS = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF}
_HASH_SHOWN = len("blake3:") + 12
_CALL_SHOWN = 160  # columns of what a tool was asked to do
_CALL_READ = 2000  # characters of it that are read
_LINE_BREAK = " ⏎ "  # two commands on two lines are not one
# The argument that shows what a tool does, the most informative first; agents spell it in different ways.
_TELLING_ARGS = (
    "command", "cmd", "file_path", "filePath", "absolute_path", "notebook_path", "target_file", "pattern",
    "glob_pattern", "query", "url", "path", "dir_path", "description", "prompt", "message",
)  # fmt: skip
_SEARCHES = ("pattern", "glob_pattern", "query")


# The title of a turn without a request.
NO_TITLE = "(no title)"
# The next step in a store without events.
HOW_TO_START = "`locus import git` records the git history, `locus hooks install` what agents do from now on."
# Shown for an unknown time.
UNKNOWN = "–"


def one_line(text: str, width: int = 0) -> str:
    """Foreign text as one harmless line, shortened to `width` columns when that is not 0."""
    clean = _clean(" ".join(text.split()), "")
    return fit(clean, width) if width else clean


def harmless(text: str) -> str:
    """Foreign text on one line, complete: unsafe characters are spelled out."""
    return _clean(text, "")


def path_words(text: str) -> str:
    """A path of an event on one harmless line, in a form that commands take as a PATH.

    A name with control characters or direction marks has git's quoted form, as in diffs.
    """
    if _clean(text, "") == text and not (text.startswith('"') and "\\" in text):
        return text
    try:
        return quoted(path_bytes(text)).decode("ascii")
    except ValueError:
        return _clean(text, "")  # of a file outside of the repository, or no path


def lines(text: str) -> str:
    """Foreign text with its line breaks and tabs, harmless otherwise."""
    return _clean(text, _ALLOWED_IN_LINES)


def fit(text: str, width: int) -> str:
    """`text`, cut with an ellipsis to at most `width` columns."""
    if columns(text) <= width:
        return text
    cut, used = [], 0
    for character in text:
        used += columns(character)
        if used > width - 1:
            break
        cut.append(character)
    return "".join(cut).rstrip() + "…"


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


def nothing_fits(missing: int, events: int, of: str = "Nothing") -> str:
    """The message that a search had no hits, and how much of the log it covered where that was not all."""
    if not events:
        return f"{of} fits, for nothing is recorded yet. {HOW_TO_START}"
    if not missing:
        return f"{of} fits."
    return (
        f"{of} fits among the newest {events - missing:,} of {events:,} events and the files that they name."
    )


def not_searched(missing: int, events: int) -> str:
    """The message that a search did not reach `missing` events, nor the contents that they name."""
    return f"Not searched yet: the files of, and words in, {missing:,} of {events:,} events"


def microseconds(value: object) -> int | None:
    """A time as microseconds since 1970, from what SQL or an event gives."""
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        delta = aware - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return delta // datetime.timedelta(microseconds=1)
    return value if isinstance(value, int) else None


def change(added: int | None, removed: int | None) -> str:
    """`+12 −3`; a question mark for an unknown count, nothing where both are unknown."""
    if added is None and removed is None:
        return ""
    plus, minus = ("?" if n is None else f"{n:,}" for n in (added, removed))
    return f"+{plus} −{minus}"


def event_words(event: Mapping[str, Any]) -> str:
    """What happened, in one line without a limit on its width."""
    payload = event.get("payload") or {}
    kind = event.get("event_type")
    if kind == "file":
        counts = change(event.get("lines_added"), event.get("lines_removed"))
        path = _path(event, payload) or _erased(payload)
        words = (one_line(str(event.get("operation") or "")), path, counts)
        return " ".join(filter(None, words))
    if kind in ("action", "tool_start", "mcp_action"):
        tool, asked = event.get("tool"), call_target(event.get("path"), payload.get("args"))
        if event.get("success") is False:
            tool = f"{tool or ''} failed{':' if asked else ''}"
        return _joined(tool, asked or _text(event, payload))
    if kind == "llm":
        read, written = event.get("prompt_tokens"), event.get("completion_tokens")
        return _joined(
            event.get("model"), None if read is None else f"{read} tokens in", _tokens_out(written)
        )
    if kind == "error":
        return _joined(event.get("error_type"), _text(event, payload))
    if kind == "snapshot":
        tree = event.get("tree_hash")
        return _joined(event.get("operation"), short_hash(tree) if tree else "no tree")
    if kind == "turn" and event.get("operation") == "end":
        outcome = payload.get("outcome")
        status = event.get("status") if event.get("status") != "completed" else None
        return _joined("end", status, _shortened(_first_line(outcome)) or _text(event, payload))
    return _joined(event.get("operation"), _text(event, payload))


def short_hash(text: str) -> str:
    """The beginning of a `blake3:…` hash, long enough to be unique in practice."""
    return text[:_HASH_SHOWN]


def _path(event: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    path = path_words(str(event.get("path") or ""))
    old = payload.get("old_path")
    return f"{path_words(str(old))} → {path}" if old else path


def call_target(path: str | None, args: object) -> str | None:
    """What a tool was asked to do: its command, path or pattern, else the beginning of its arguments."""
    if not isinstance(args, Mapping):
        return path_words(path) if path else _shortened(args)
    for name in _TELLING_ARGS:
        argument = args.get(name)
        if argument and isinstance(argument, (str, list)):
            where = args.get("path") or args.get("dir_path") if name in _SEARCHES else None
            if isinstance(argument, str) and path and f"/{argument}".endswith(f"/{path}"):
                return path_words(path)
            shown = _shortened(argument)
            return f"{shown} in {_shortened(where)}" if where else shown
    return path_words(path) if path else _shortened(args)


def _shortened(value: object) -> str | None:
    """A value on one harmless line: of a list the words, of a shell's call the command that it runs."""
    if not value:
        return None
    if isinstance(value, list):
        words = [word for word in value if isinstance(word, str)]
        is_shell = len(value) == len(words) == 3 and words[1] in ("-c", "-lc")
        value = words[2] if is_shell else " ".join(words) if len(words) == len(value) else value
    if not isinstance(value, str):
        import json

        value = json.dumps(value, ensure_ascii=False, default=str)
    parts = (part.strip() for part in value[:_CALL_READ].removeprefix("*** Begin Patch\n").splitlines())
    shown = one_line(_LINE_BREAK.join(part for part in parts if part), _CALL_SHOWN)
    return shown if len(value) <= _CALL_READ or shown.endswith("…") else f"{shown}…"


def _text(event: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    """The most telling text of an event of any type."""
    for value in (
        event.get("title"),
        *(payload.get(key) for key in ("intent_summary", "message", "decision", "description", "summary")),
    ):
        if (line := _first_line(value)) is not None:
            return line
    return _erased(payload)


def _erased(payload: Mapping[str, Any]) -> str | None:
    """What stands for a text or a path that an erasure took; None where none did."""
    return "(erased)" if isinstance(payload.get("erased"), str) else None


def _first_line(text: object) -> str | None:
    return text.strip().split("\n")[0] if isinstance(text, str) and text.strip() else None


def _tokens_out(written: int | None) -> str | None:
    return None if written is None else f"{written} out"


def _joined(*parts: object) -> str:
    return one_line(" ".join(str(part) for part in parts if part))


def _utc(us: int) -> datetime.datetime:
    within = min(max(us, TIME_MIN), TIME_MAX)  # older logs may hold any
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=within)


def _clean(text: str, allowed: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in allowed or not _is_unsafe(c) else _escape(c) for c in text)


def _is_unsafe(c: str) -> bool:
    return ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or ord(c) in _MARKS


def _escape(c: str) -> str:
    return f"\\x{ord(c):02x}" if ord(c) < 0x100 else f"\\u{ord(c):04x}"


def _columns_of(c: str) -> int:
    if unicodedata.combining(c) or unicodedata.category(c) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1


def unread(positions: Sequence[range]) -> str:
    """The warning that an answer lacks the events at these positions."""
    number = sum(map(len, positions))
    where = ", ".join(f"[{gap.start}, {gap.stop})" for gap in positions[:5])
    where += ", …" if len(positions) > 5 else ""
    return (
        f"{number:,} event{'s' if number > 1 else ''} could not be read and {'are' if number > 1 else 'is'} "
        f"missing from this answer: the log is damaged at positions {where}. "
        "`locus store verify` names the files; `locus store repair` settles it."
    )
