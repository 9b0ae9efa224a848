"""Lines of a text as pieces, each with the class of its token as Pygments names it. Pure.

The pieces of all lines, joined, are the text: whatever a lexer leaves out or changes, it is shown plain then.
A lexer takes some 2 ms for a kilobyte, so a reader who steps gets the colours of the first lines alone.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pygments.lexer import Lexer

# Characters of a text that are coloured at once (two or three screens), and when a reader waits for it.
AT_ONCE_MAX = 6 << 10
LATER_MAX = 1 << 20

# Lines of [class, text]; the class is empty for plain text.
Lines = list[list[list[str]]]


def plain(text: str) -> Lines:
    """The lines without colours. A line feed at the end begins no line."""
    return [[["", line]] if line else [] for line in _lines(text)]


def coloured(text: str, path: str, most: int) -> tuple[Lines, bool]:
    """The lines in the colours of the language that the path means, and whether these are all that there are.

    Lines after the first `most` characters are plain; all of them, where the path means no language.
    """
    lexer = _lexer(path)
    if lexer is None:
        return plain(text), True
    lines, size = _tokens(lexer, text, most)
    if size < len(text) or text.endswith("\n"):
        lines.pop()  # not all of it, or none
    as_it_is = plain(text)
    count = len(lines)
    if _joined(lines) != _joined(as_it_is[:count]):
        return as_it_is, True
    return lines + as_it_is[count:], count == len(as_it_is)


def _tokens(lexer: "Lexer", text: str, most: int) -> tuple[Lines, int]:
    """The lines of the first tokens, and how many characters these have: `most` at least, where there are."""
    from pygments.token import STANDARD_TYPES

    lines: Lines = [[]]
    size = 0
    for _, token, value in lexer.get_tokens_unprocessed(text):
        size += len(value)
        while token not in STANDARD_TYPES and token.parent is not None:
            token = token.parent
        _add(lines, STANDARD_TYPES.get(token, ""), value)
        if size >= most:
            break
    return lines, size


def _add(lines: Lines, name: str, value: str) -> None:
    first, *rest = value.split("\n")
    for number, part in enumerate((first, *rest)):
        if number:
            lines.append([])
        line = lines[-1]
        if not part:
            continue
        if line and line[-1][0] == name:
            line[-1][1] += part
        else:
            line.append([name, part])


def _joined(lines: Lines) -> list[str]:
    return ["".join(piece for _, piece in line) for line in lines]


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _lexer(path: str) -> "Lexer | None":
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        return get_lexer_for_filename(path.rpartition("/")[2])
    except ClassNotFound:
        return None
