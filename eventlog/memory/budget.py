"""A budget of tokens, and lines that are put into it: sections from the top, each as far as it fits.

The measure is an estimate that needs no tokenizer: 1.3 for each word between spaces (`tokens_of`). Lines are
bounded in their length by their writers, so that an endless word is not one token. Pure; on the hook
path.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def tokens_of(text: str) -> int:
    """An estimate: 1.3 for each word between spaces."""
    return int(len(text.split()) * 1.3)


def words_in(tokens: int) -> int:
    """The most words that are no more than so many tokens."""
    words = max(0, int((tokens + 1) / 1.3) + 1)
    while words and int(words * 1.3) > tokens:
        words -= 1
    return words


class Section:
    """A titled list of lines. `total` counts what there is, also where not every item has a line.

    One that is `whole` has all of its lines or none, and gets its place before the others get theirs.
    """

    __slots__ = ("is_whole", "kind", "lines", "title", "total")

    def __init__(
        self,
        kind: str,
        title: str,
        lines: "Sequence[str]",
        total: "int | None" = None,
        *,
        is_whole: bool = False,
    ) -> None:
        self.kind = kind  # in the plural, as in "3 decisions"; one word
        self.title = title
        self.lines = lines
        self.total = max(len(lines), total or 0)
        self.is_whole = is_whole


class Filled:
    """What came of it. `shown` and `left_out` count the items of each kind of section."""

    __slots__ = ("left_out", "shown", "text")

    def __init__(self, text: str, shown: "dict[str, int]", left_out: "dict[str, int]") -> None:
        self.text = text
        self.shown = shown
        self.left_out = left_out


def fill(head: "Sequence[str]", sections: "Sequence[Section]", tokens: int) -> Filled:
    """Text of at most `tokens`: the head, then sections in their order, then a line on what was left out.

    The first two lines of the head say what the text is: where they do not fit there is no text. A section
    ends at its first line that does not fit; those below it get what is left.
    """
    words = words_in(tokens)
    chosen = {section.kind: len(section.lines) for section in sections}
    if (
        any(section.total > len(section.lines) for section in sections)
        or _words(_text(head, sections, chosen, tokens)) > words
    ):
        chosen = _chosen(head, sections, words, tokens)
    left = {s.kind: s.total - chosen[s.kind] for s in sections if s.total > chosen[s.kind]}
    text = _text(head, sections, chosen, tokens)
    if _words(text) > words:  # not even the line on what is left out fits after the head
        text = "\n".join(head[:2]) + "\n"
        text = text if _words(text) <= words else ""
        chosen = dict.fromkeys(chosen, 0)
        left = {section.kind: section.total for section in sections if section.total}
    return Filled(text, chosen, left)


def _chosen(
    head: "Sequence[str]", sections: "Sequence[Section]", words: int, tokens: int
) -> "dict[str, int]":
    """How many lines of each section fit, with the line on what is left out at its longest."""
    chosen = dict.fromkeys((section.kind for section in sections), 0)
    everything = {section.kind: section.total for section in sections if section.total}
    used = _words("\n".join(head)) + _words(_left_line(everything, tokens))
    for section in sections:
        cost = _words(section.title) + sum(map(_words, section.lines))
        if section.is_whole and section.lines and used + cost <= words:
            used += cost
            chosen[section.kind] = len(section.lines)
    for section in sections:
        title = _words(section.title)
        for line in () if section.is_whole else section.lines:
            cost = _words(line) + (title if not chosen[section.kind] else 0)
            if used + cost > words:
                break
            used += cost
            chosen[section.kind] += 1
    return chosen


def _text(head: "Sequence[str]", sections: "Sequence[Section]", chosen: "dict[str, int]", tokens: int) -> str:
    parts = ["\n".join(head)]
    for section in sections:
        if chosen[section.kind]:
            title = (section.title,) if section.title else ()
            parts.append("\n".join((*title, *section.lines[: chosen[section.kind]])))
    left = {s.kind: s.total - chosen[s.kind] for s in sections if s.total > chosen[s.kind]}
    if left:
        parts.append(_left_line(left, tokens))
    return "\n\n".join(parts) + "\n"


def _left_line(left: "dict[str, int]", tokens: int) -> str:
    counts = ", ".join(f"{count:,} {kind}" for kind, count in left.items())
    return f"left out: {counts} (budget {tokens:,} tokens, counted as words × 1.3)" if left else ""


def _words(text: str) -> int:
    return len(text.split())
