"""`locus search`: words in events and file contents, the best matches first."""

import shlex
import sys
from typing import Any

import click

from eventlog.base.display import nothing_fits
from eventlog.search import find, meaning, query
from eventlog.search.find import Hit, SearchAnswer

from ..access import open_store
from ..all_stores import in_all_stores
from ..filters import check_filters, filter_of
from ..options import json_option, limit_option, session_option, since_option
from ..output import count, document, fit, lines, moment_exact, one_line, path_words, put, say
from ..progress import Progress
from ..times import when
from .words import WordsCommand, replay, say_partial

_EVENT_SHOWN = 12
_HASH_SHOWN = len("blake3:") + 16


@click.command("search", cls=WordsCommand)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="WORDS…")
@click.option(
    "--type", "event_types", multiple=True, metavar="TYPE", help="Only events of this type; may be repeated."
)
@click.option("--path", metavar="PATH", help="Only this file, or what is below this directory.")
@session_option
@since_option
@limit_option(10, most=1000)
@click.option(
    "--model",
    metavar="DIR",
    type=click.Path(),
    help="Search by meaning too, with the model2vec model in this directory.",
)
@click.option("--wait", is_flag=True, help="Wait until everything is indexed, however long that takes.")
@json_option
@in_all_stores
def command(
    words: tuple[str, ...],
    event_types: tuple[str, ...],
    path: str | None,
    session: str | None,
    since: int | None,
    limit: int,
    model: str | None,
    wait: bool,
    as_json: bool,
) -> int | None:
    """Find words in events and in recorded file contents, the best matches first.

    All WORDS must be there; case, accents and signs between them do not matter. A word of several
    parts (snake_case, camelCase, a path) matches as a whole and by its parts.

    \b
    locus search retry timeout          both words
    locus search '"missing key"'        the words next to each other
    locus search 'auth*' -test          words that begin so, without another word
    locus search --type decision cache  only decisions

    Each match comes with the command that puts its files into a directory, or prints the file. The
    first search makes an index; it reports how much is not covered yet, and goes on in the background.
    """
    wanted = query.parse(" ".join(words))
    chosen = None if model is None else meaning.load(model)
    with open_store() as store, Progress("searching"):
        only = check_filters(store, session, event_types)
        filters = find.Filters(event_types, filter_of(store, path), only, since)
        answer = find.search(
            store, wanted, filters, limit=limit, seconds=None if wait else find.WAIT_S, model=chosen
        )
        if answer.missing:
            _go_on(store.layout.root)
    if as_json:
        put(_document(answer))
    else:
        put("\n".join(map(_shown, answer.hits)))
    ended = say_rest(answer, limit)
    if not answer.hits and any(term.is_unwanted for term in wanted.terms):
        say(_how_to_quote(" ".join(words)))
    return ended


def _how_to_quote(typed: str) -> str:
    """A hint for a word that begins with a minus."""
    quoted = shlex.quote(f'"{one_line(typed.replace(chr(34), ""), 80)}"')
    return f"A word with a leading minus excludes matches with it. To search for it: locus search {quoted}"


def say_rest(answer: SearchAnswer, limit: int) -> int | None:
    """Print the messages after the hits. Returns: exit code 4 where not everything was searched."""
    if not answer.hits:
        say(nothing_fits(answer.missing, answer.events))
    if answer.more:
        say(f"There are more; --limit N shows more than {limit}.")
    return say_partial(answer)


def _go_on(root: str) -> None:
    """Have the maintainer index the rest."""
    from ..maintainer import start

    try:
        start(root)
    except OSError:
        pass  # a store that may only be read; the missing part was reported


def hit_json(hit: Hit) -> dict[str, Any]:
    names = (
        "event_id", "position", "event_type", "session_id", "turn", "turn_id", "title", "tool", "path",
        "operation", "error_type", "after_hash", "is_content", "versions", "score", "snippet",
    )  # fmt: skip
    fields = {name: getattr(hit, name) for name in names}
    return {
        **fields,
        "at": moment_exact(hit.at),
        "marks": hit.marks,
        "next": go_on_with(hit),
        "replay": replay(hit.turn_name),
    }


def _document(answer: SearchAnswer) -> bytes:
    hits = [hit_json(hit) for hit in answer.hits]
    rest = {"not_indexed": answer.missing, "events": answer.events, "why": answer.why}
    return document({"hits": hits, "more": answer.more, **rest})


def go_on_with(hit: Hit) -> str:
    """The command line that shows more of a hit."""
    if hit.is_content:
        return f"locus cat {(hit.after_hash or '')[:_HASH_SHOWN]}"
    return f"locus show {hit.event_id[:_EVENT_SHOWN]}"


def _shown(hit: Hit) -> str:
    path = path_words(hit.path or "")
    what = path if hit.is_content else fit(one_line(hit.title or f"{hit.tool or ''} {path}"), 100)
    kind = "content" if hit.is_content else hit.event_type
    versions = f" ({count(hit.versions, 'version')})" if hit.versions > 1 else ""
    head = "  ".join(
        part
        for part in (
            hit.turn_name or "-",
            hit.event_id[:_EVENT_SHOWN],
            when(hit.at),
            kind,
            what,
        )
        if part
    )
    commands = " · ".join(line for line in (go_on_with(hit), replay(hit.turn_name)) if line)
    return f"{head}{versions}\n    {marked(hit).rstrip()}\n    {commands}\n"


def marked(hit: Hit) -> str:
    """The snippet on one harmless line, its words bold on a terminal and between « » elsewhere."""
    if hit.snippet is None:
        return "(this content is not in the store any more)"
    left, right = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("«", "»")
    out, offset = [], 0
    for start, end in hit.marks:
        out += [_clean(hit.snippet[offset:start]), left, _clean(hit.snippet[start:end]), right]
        offset = end
    return "".join((*out, _clean(hit.snippet[offset:])))


def _clean(text: str) -> str:
    return lines(text).replace("\n", " ").replace("\t", " ")
