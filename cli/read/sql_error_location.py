"""The location of an error in a question: from DuckDB's two lines with a caret to a line and a column."""

import re

_MARK = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^+[ \n]*")
_NAMED = re.compile(r"(?:column|with name|named|Function with name) \"?(\w+)\"?")


def with_location(message: str, text: str) -> str:
    """The message with `(line L, column C)` instead of the excerpt with its caret.

    DuckDB cuts long lines short, marks the cut with dots, and leaves out the text before a statement; so the
    excerpt is searched in the line itself.
    """
    match = _MARK.search(message)
    if match is None:
        return _named(message, text)
    number, excerpt, caret = int(match[1]), match[2], len(match[3]) - len(f"LINE {match[1]}: ")
    lines = text.split("\n")
    shown = excerpt.removeprefix("...").removesuffix("...")
    dots = 3 if excerpt.startswith("...") else 0
    start = lines[number - 1].find(shown) if number <= len(lines) else -1
    column = caret - dots + start if start >= 0 else -1
    where = f"line {number}" + (f", column {column + 1}" if column >= 0 else "")
    return f"{message[: match.start()]} ({where}){message[match.end() :] and ' ' + message[match.end() :]}"


def _named(message: str, text: str) -> str:
    """The same where DuckDB names an unknown word without its location: added if it occurs once."""
    name = _NAMED.search(message)
    occurrences = [] if name is None else list(re.finditer(rf"\b{re.escape(name[1])}\b", text))
    if len(occurrences) != 1:
        return message
    before = text[: occurrences[0].start()]
    first, *rest = message.split("\n")
    where = f"(line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))})"
    return "\n".join([f"{first} {where}", *rest])
