"""Where a question is wrong: DuckDB's two lines with a caret as a line and a column."""

import re

_MARK = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^+[ \n]*")
_NAMED = re.compile(r"(?:column|with name|named|Function with name) \"?(\w+)\"?")


def placed(message: str, text: str) -> str:
    """The message with `(line L, column C)` in the place of the excerpt with its caret.

    DuckDB cuts long lines short, marks the cut by dots, and leaves out what stands in front of a statement;
    so the excerpt is looked for in the line itself.
    """
    found = _MARK.search(message)
    if found is None:
        return _named(message, text)
    number, excerpt, caret = int(found[1]), found[2], len(found[3]) - len(f"LINE {found[1]}: ")
    lines = text.split("\n")
    shown = excerpt.removeprefix("...").removesuffix("...")
    dots = 3 if excerpt.startswith("...") else 0
    start = lines[number - 1].find(shown) if number <= len(lines) else -1
    at = caret - dots + start if start >= 0 else -1
    where = f"line {number}" + (f", column {at + 1}" if at >= 0 else "")
    return f"{message[: found.start()]} ({where}){message[found.end() :] and ' ' + message[found.end() :]}"


def _named(message: str, text: str) -> str:
    """The same where DuckDB names what it does not know, and not where: its place, if it has one."""
    name = _NAMED.search(message)
    places = [] if name is None else list(re.finditer(rf"\b{re.escape(name[1])}\b", text))
    if len(places) != 1:
        return message
    before = text[: places[0].start()]
    first, *rest = message.split("\n")
    where = f"(line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))})"
    return "\n".join([f"{first} {where}", *rest])
