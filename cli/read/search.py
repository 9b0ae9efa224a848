"""`locus search`: words in events and file contents, the best matches first."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from eventlog.base.display import not_searched, nothing_fits

from .. import exits
from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..progress import Progress
from ..repopath import filter_of
from ..since import Since
from ..text import count, moment, moment_exact, one_line

if TYPE_CHECKING:
    from eventlog.search.find import Hit, SearchAnswer
    from eventlog.store import Store

F = TypeVar("F", bound=Callable[..., Any])

_EVENT_SHOWN = 12
_HASH_SHOWN = len("blake3:") + 16

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


def session_and_since(function: F) -> F:
    """--session, --since, of every command that takes words."""
    since = click.option(
        "--since", type=Since(), metavar="WHEN", help="A date, a time, or an age: 2026-01-31, 3d, 12h."
    )
    session = click.option(
        "--session",
        metavar="SESSION",
        help="Only this session, with all its parts: its id, or the beginning of it.",
    )
    return session(since(function))


def check_filters(
    store: "Store", session: "str | None", event_types: "Sequence[str]" = ()
) -> "tuple[str, ...] | None":
    """The ids of the sessions that a person names (`sessions.meant`), None without a name.

    Raises: NotFound for a session, or a type, that does not exist here.
    """
    from eventlog.base.errors import NotFound
    from eventlog.base.types import KIND_OF_TYPE
    from eventlog.recorder.sessions import meant

    only = None if session is None else meant(store, session)
    if any(name not in KIND_OF_TYPE for name in event_types):
        rows = store.query("select distinct event_type from events order by 1").rows
        present_types = [str(row[0]) for row in rows]
        for name in event_types:
            if name not in present_types and name not in KIND_OF_TYPE:
                raise NotFound(
                    f"no event is of the type {name!r}. Types here: {', '.join(present_types) or 'none'}."
                )
    return only


@click.command("search", cls=WordsCommand)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="WORDS…")
@click.option(
    "--type", "event_types", multiple=True, metavar="TYPE", help="Only events of this type; may be repeated."
)
@click.option("--path", metavar="PATH", help="Only this file, or what is below this directory.")
@session_and_since
@click.option(
    "--limit", "-n", type=click.IntRange(min=1, max=1000), default=10, show_default=True, metavar="N"
)
@click.option(
    "--model",
    metavar="DIR",
    type=click.Path(),
    help="Search by meaning too, with the model2vec model in this directory.",
)
@click.option("--wait", is_flag=True, help="Wait until everything is indexed, however long that takes.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
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
    from eventlog.search import find, meaning, query

    wanted = query.parse(" ".join(words))
    chosen = None if model is None else meaning.load(model)
    with open_store(ctx) as store, Progress("searching"):
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
    import shlex

    quoted = shlex.quote(f'"{one_line(typed.replace(chr(34), ""), 80)}"')
    return f"A word with a leading minus excludes matches with it. To search for it: locus search {quoted}"


def say_rest(answer: "SearchAnswer", limit: int) -> int | None:
    """Print the messages after the hits. Returns: exit code 4 where not everything was searched."""
    if not answer.hits:
        say(nothing_fits(answer.missing, answer.events))
    if answer.more:
        say(f"There are more; --limit N shows more than {limit}.")
    return say_partial(answer)


def say_partial(answer: "SearchAnswer | None") -> int | None:
    """Report what was not searched. Returns: the exit code for that; None where everything was."""
    if answer is None or not answer.missing:
        return None
    why = f" ({answer.why})" if answer.why else ""
    say(f"{not_searched(answer.missing, answer.events)}{why}. `locus search --wait` searches all.")
    return exits.PARTIAL


def _go_on(root: str) -> None:
    """Have the maintainer index the rest."""
    from ..maintainer import start

    try:
        start(root)
    except OSError:
        pass  # a store that may only be read; the missing part was reported


def hit_json(hit: "Hit") -> dict[str, Any]:
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


def _document(answer: "SearchAnswer") -> bytes:
    hits = [hit_json(hit) for hit in answer.hits]
    rest = {"not_indexed": answer.missing, "events": answer.events, "why": answer.why}
    return document({"hits": hits, "more": answer.more, **rest})


def go_on_with(hit: "Hit") -> str:
    """The command line that shows more of a hit."""
    if hit.is_content:
        return f"locus cat {(hit.after_hash or '')[:_HASH_SHOWN]}"
    return f"locus show {hit.event_id[:_EVENT_SHOWN]}"


def replay(turn_name: str | None) -> str | None:
    """The command line that puts the files of a hit's turn into a directory."""
    return None if turn_name is None else f"locus replay {turn_name} --to DIR"


def _shown(hit: "Hit") -> str:
    what = hit.path if hit.is_content else hit.title or " ".join(t for t in (hit.tool, hit.path) if t)
    kind = "content" if hit.is_content else hit.event_type
    versions = f" ({count(hit.versions, 'version')})" if hit.versions > 1 else ""
    head = "  ".join(
        part
        for part in (
            hit.turn_name or "-",
            hit.event_id[:_EVENT_SHOWN],
            moment(hit.at),
            kind,
            one_line(what or "", 100),
        )
        if part
    )
    commands = " · ".join(line for line in (go_on_with(hit), replay(hit.turn_name)) if line)
    return f"{head}{versions}\n    {marked(hit).rstrip()}\n    {commands}\n"


def marked(hit: "Hit") -> str:
    """The snippet on one harmless line, its words bold on a terminal and between « » elsewhere."""
    import sys

    if hit.snippet is None:
        return "(this content is not in the store any more)"
    left, right = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("«", "»")
    out, offset = [], 0
    for start, end in hit.marks:
        out += [_clean(hit.snippet[offset:start]), left, _clean(hit.snippet[start:end]), right]
        offset = end
    return "".join((*out, _clean(hit.snippet[offset:])))


def _clean(text: str) -> str:
    from ..text import lines

    return lines(text).replace("\n", " ").replace("\t", " ")
