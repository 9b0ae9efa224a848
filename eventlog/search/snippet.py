"""The piece of a text around the terms of a query. Pure."""

from collections.abc import Sequence

WIDTH = 220
_BEFORE = 60

Span = tuple[int, int]


def cut(text: str, marks: "Sequence[tuple[int, int, int]]", width: int = WIDTH) -> "tuple[str, list[Span]]":
    """The window with the most different terms, on one line, and the marks in it."""
    start = _best(marks, width)
    start = 0 if start <= _BEFORE else _word_start(text, start - _BEFORE)
    end = min(len(text), start + width)
    out: list[str] = ["…"] if start else []
    size = len(out)
    spans: list[Span] = []
    offset = start
    for first, last, _ in marks:
        if first < offset or last > end:
            continue
        size += _put(out, text[offset:first])
        began = size
        size += _put(out, text[first:last])
        spans.append((began, size))
        offset = last
    _put(out, text[offset:end])
    if end < len(text):
        out.append("…")
    return "".join(out), spans


def _best(marks: "Sequence[tuple[int, int, int]]", width: int) -> int:
    """Where the window with the most different terms begins; the first of equals."""
    best, best_count = (marks[0][0] if marks else 0), 0
    for index, (start, _, _) in enumerate(marks[:2_000]):
        terms = set()
        for _, last, number in marks[index : index + 40]:
            if last > start + width - _BEFORE:
                break
            terms.add(number)
        if len(terms) > best_count:
            best, best_count = start, len(terms)
    return best


def _word_start(text: str, offset: int) -> int:
    space = text.find(" ", offset, offset + 20)
    return offset if space < 0 else space + 1


def _put(out: "list[str]", text: str) -> int:
    """Append a text with each run of white space as one space. Returns: the length of what was appended."""
    line = " ".join(text.split())
    if text[:1].isspace() and line and out and not out[-1].endswith((" ", "…")):
        line = f" {line}"
    if text[-1:].isspace() and (line or (out and not out[-1].endswith(" "))):
        line = f"{line} "
    out.append(line)
    return len(line)
