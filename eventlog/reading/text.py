"""Pages as lines of text for a terminal, with the style of each part by name (docs/reading.md).

Recorded texts are foreign: here their control characters become visible. What prints them gives the styles
colours, or none.
"""

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os.path import commonpath

from eventlog.base.display import change, columns, fit, harmless, microseconds, moment, one_line, path_words
from eventlog.reading.page import (
    CHANGES_SHOWN,
    THINKING,
    USER,
    Block,
    CallBlock,
    ChangesBlock,
    NoteBlock,
    ShownChange,
    TurnPage,
    WordsBlock,
)
from eventlog.reading.styles import ADDED, DIM, FAILED, HUNK, PLAIN, PROMPT, REMOVED, RULE, TOOL, Line, Span
from eventlog.reports.number_text import cents

RESULT_LINES, DIFF_LINES = 3, 20
_LONG_MS = 1_000  # a call that took so long says how long
_INDENT = "  "
_RULE, _PROMPT, _DONE, _FAILED, _BESIDE, _SUBAGENT = "━❯●✗±│"


def _in_utc(us: int) -> str:
    return f"{moment(us)} UTC"


@dataclass(frozen=True, slots=True)
class TextRenderer:
    """Renders pages.

    Args: width: columns of the terminal, 0 for no limit; whole: with complete results; when: spells times.
    """

    width: int = 0
    whole: bool = False
    when: Callable[[int], str] = _in_utc

    def page(self, page: TurnPage) -> Iterator[Line]:
        """The lines of a turn. All but its rule are dim where it was taken back."""
        yield self._rule(page)
        if page.uncertain:
            yield ((DIM, f"{_INDENT}files: {one_line(page.uncertain)}"),)
        for block in page.blocks:
            within = getattr(block, "subagent_id", None) is not None
            for line in self._block(page, block):
                shown = ((DIM, f"{_INDENT}{_SUBAGENT} "), *line) if within else line
                yield _dimmed(shown) if page.undone_at is not None else shown
        yield ()

    def _rule(self, page: TurnPage) -> Line:
        parts = [page.turn.name, *_figures(page, self.when)]
        text = f"{_RULE * 2} {' · '.join(parts)} "
        undone = "" if page.undone_at is None else f" undone {self.when(page.undone_at)}"
        filling = _RULE * max(2, min(self.width or 80, 100) - columns(text) - columns(undone))
        return ((RULE, text + filling), (FAILED, undone)) if undone else ((RULE, text + filling),)

    def _block(self, page: TurnPage, block: Block) -> Iterator[Line]:
        if isinstance(block, WordsBlock):
            yield from self._words(block)
        elif isinstance(block, CallBlock):
            yield from self._call(block)
        elif isinstance(block, ChangesBlock):
            if page.anchor["agent"] != "git":  # no call made the changes of a commit
                yield ((TOOL, f"{_INDENT}{_BESIDE} "), (PLAIN, "changed outside any recorded call"))
            yield from self._changes(block.changes)
        else:
            assert isinstance(block, NoteBlock)
            yield ((DIM, f"{_INDENT}{one_line(block.text)}"),)

    def _words(self, words: WordsBlock) -> Iterator[Line]:
        style = {USER: PROMPT, THINKING: DIM}.get(words.author, PLAIN)
        sign = f"{_PROMPT} " if words.author == USER else _INDENT
        room = max(40, self.width - 6) if self.width else 0
        wrapped = [part for text in _lines(words.text) for part in _wrapped(text, room)]
        for number, text in enumerate(wrapped):
            yield ((style, (sign if number == 0 else _INDENT) + text),)

    def _call(self, call: CallBlock) -> Iterator[Line]:
        failed = call.success is False
        head: list[Span] = [
            (FAILED if failed else TOOL, f"{_INDENT}{_FAILED if failed else _DONE} "),
            (TOOL, one_line(call.tool)),
            (PLAIN, f" {call.target}" if call.target else ""),
        ]
        if call.duration_ms is not None and call.duration_ms >= _LONG_MS:
            head.append((DIM, f"  {_duration(call.duration_ms)}"))
        if not call.ended:
            head.append((DIM, "  no end was recorded"))
        only = call.changes[0] if len(call.changes) == 1 else None
        if only is not None and call.target.endswith(path_words(only.path)):
            yield (*head, *_counts(only))
            yield from self._diff(only)
        else:
            yield tuple(head)
            yield from self._changes(call.changes)
        if failed or not call.changes or self.whole:
            yield from self._folded(call.result, FAILED if failed else DIM)

    def _folded(self, text: str, style: str) -> Iterator[Line]:
        shown = _lines(text)
        limit = len(shown) if self.whole else RESULT_LINES
        for number, line in enumerate(shown[:limit]):
            more = len(shown) - limit
            last = number == limit - 1 and more > 0
            yield from self._within(style, line, f"  … {more:,} more line{'s' * (more > 1)}" if last else "")

    def _within(self, style: str, text: str, more: str = "") -> Iterator[Line]:
        """A line of a result, cut at the terminal's edge unless everything is wanted."""
        room = 0 if self.whole or not self.width else max(20, self.width - 4 - len(more))
        yield ((style, _INDENT * 2 + (fit(text, room) if room else text)), (DIM, more))

    # -- changes -----------------------------------------------------------------------------------

    def _changes(self, changes: "tuple[ShownChange, ...]") -> Iterator[Line]:
        if len(changes) > CHANGES_SHOWN and not self.whole:
            for operation in sorted({change.operation for change in changes}):
                yield _summary(operation, [each for each in changes if each.operation == operation])
            return
        for each in changes:
            old = f"{path_words(each.old_path)} → " if each.old_path else ""
            head: list[Span] = [(PLAIN, f"{_INDENT * 2}{each.operation} {old}{path_words(each.path)}")]
            yield tuple(head + _counts(each))
            yield from self._diff(each)

    def _diff(self, change: ShownChange) -> Iterator[Line]:
        if change.withheld:
            yield ((DIM, f"{_INDENT * 2}its text is withheld"),)
        shown = [line for line in _lines(change.diff or "") if not line.startswith(("--- ", "+++ "))]
        limit = len(shown) if self.whole else DIFF_LINES
        for line in shown[:limit]:
            style = {"+": ADDED, "-": REMOVED, "@": HUNK}.get(line[:1], PLAIN)
            yield ((style, _INDENT * 2 + line),)
        if len(shown) > limit:
            yield ((DIM, f"{_INDENT * 2}… {len(shown) - limit:,} more lines"),)


def _figures(page: TurnPage, when: Callable[[int], str]) -> Iterator[str]:
    """What the rule of a turn says after its name; nothing of what is unknown."""
    anchor = page.anchor
    started = microseconds(anchor["started_at"])
    if started is not None:
        yield when(started)
    if anchor["agent"]:
        yield one_line(" ".join([anchor["agent"], *(anchor["models"] or ())]))
    if (anchor["duration_ms"] or 0) >= _LONG_MS:
        yield _duration(anchor["duration_ms"])
    if page.status != "completed":
        yield one_line(page.status)
    for name, word in (("tool_calls", "call"), ("errors", "error")):
        if anchor[name]:
            yield f"{anchor[name]:,} {word}{'s' * (anchor[name] > 1)}"
    if anchor["cost_usd"]:
        yield f"{'at least ' * bool(anchor['unpriced_calls'])}{cents(anchor['cost_usd'])}"


def _duration(ms: int) -> str:
    seconds = round(ms / 1000)
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h {seconds // 60 % 60} min"


def _counts(changed: ShownChange) -> "list[Span]":
    if not changed.lines_added and not changed.lines_removed and changed.lines_added is not None:
        return []
    counts = change(changed.lines_added, changed.lines_removed)
    return [(DIM, f"  {counts}")] if counts else []


def _summary(operation: str, changes: "list[ShownChange]") -> Line:
    """Many changes of one kind in a line: how many, below which folder, and their lines if all are known."""
    below = commonpath([each.path for each in changes]) if len(changes) > 1 else ""
    if below in {each.path for each in changes}:
        below = below.rpartition("/")[0]
    if not below:
        tops = Counter(each.path.partition("/")[0] for each in changes)
        below = ", ".join(f"{name}" for name, _ in tops.most_common(3)) + (", …" if len(tops) > 3 else "")
        where = f" in {harmless(below)}"
    else:
        where = f" below {harmless(below)}/"
    known = [each.lines_added for each in changes if each.lines_added is not None]
    counts = f"  +{sum(known):,}" if len(known) == len(changes) and any(known) else ""
    return ((PLAIN, f"{_INDENT * 2}{operation} {len(changes):,} files{where}"), (DIM, counts))


def _lines(text: str) -> "list[str]":
    return [harmless(line.expandtabs(4).rstrip()) for line in text.strip("\n").split("\n")] if text else []


def _wrapped(text: str, room: int) -> "list[str]":
    """A paragraph in lines of at most so many columns, each with the indent of the first; 0 for no limit."""
    if not room or columns(text) <= room:
        return [text]
    indent = text[: len(text) - len(text.lstrip())][: room // 2]
    return textwrap.wrap(
        text, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [text]


def _dimmed(line: Line) -> Line:
    return tuple((DIM, text) for _, text in line)
