"""What the verbs that take words share: a word to leave out, the search, and what it did not cover."""

from typing import TYPE_CHECKING

import click

import eventlog
from eventlog.base.display import not_searched

from ..exits import PARTIAL
from ..output import say

if TYPE_CHECKING:
    from eventlog.search.find import SearchAnswer

_MINUS = "\ue002"  # a character that is in no word
_SHORT = ("-h", "-n")


class WordsCommand(click.Command):
    """A command in which `-word` leaves a word out. Its only short options are `-h` and `-n`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = [
            _MINUS + arg[1:]
            if arg.startswith("-") and not arg.startswith("--") and arg not in _SHORT
            else arg
            for arg in args
        ]
        rest = super().parse_args(ctx, args)
        words = ctx.params.get("words") or ()
        ctx.params["words"] = tuple(word.replace(_MINUS, "-") for word in words)
        return rest


def chosen(
    store: "eventlog.Store",
    words: tuple[str, ...],
    event_type: str,
    path: str | None,
    sessions: tuple[str, ...] | None,
    since: int | None,
    limit: int,
) -> "tuple[list[int] | None, SearchAnswer | None]":
    """The positions that match words, the best first, and the answer of the search; None: all."""
    if not words:
        return None, None
    from eventlog.search import find, query

    filters = find.Filters((event_type,), path, sessions, since)
    wanted = query.parse(" ".join(words))
    answer = find.search(store, wanted, filters, limit=limit, seconds=find.WAIT_S)
    return [hit.position for hit in answer.hits], answer


def say_partial(answer: "SearchAnswer | None") -> int | None:
    """Report what was not searched. Returns: the exit code for that; None where everything was."""
    if answer is None or not answer.missing:
        return None
    why = f" ({answer.why})" if answer.why else ""
    say(f"{not_searched(answer.missing, answer.events)}{why}. `locus search --wait` searches all.")
    return PARTIAL


def replay(turn_name: str | None) -> str | None:
    """The command line that puts the files of a hit's turn into a directory."""
    return None if turn_name is None else f"locus replay {turn_name} --to DIR"
