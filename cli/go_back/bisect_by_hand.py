"""`locus bisect start`, `good`, `bad`, `skip`, `log`, `reset`: a search that a person answers."""

import math
import os
import shutil
import tempfile
from typing import Any

import click

import eventlog
from eventlog.base.locks import WORKTREE, acquire
from eventlog.replay import bisect_by_hand
from eventlog.replay.bisect import BAD, GOOD, SKIP, BisectState, states_of, trees_of
from eventlog.replay.bisect_by_hand import HandBisect
from eventlog.replay.compare import compare
from eventlog.restore.worktrees import worktree_of

from ..access import open_store
from ..exits import PARTIAL, exit_with
from ..options import json_option
from ..output import count, document, put, say
from .bisect import between, facts_of, inside_of, name_of, range_options, show_diff, show_found

_LOCK = f"{WORKTREE}bisect"
_LOCK_TIMEOUT_S = 10.0


@click.command("start")
@range_options
@click.option(
    "--to", "into", metavar="DIR", type=click.Path(), help="Where the files go. It must be new, or empty."
)
@json_option
def start(
    good: str | None,
    bad: str | None,
    session: str | None,
    want_all: bool,
    links: tuple[str, ...],
    into: str | None,
    deep: bool,
    as_json: bool,
) -> None:
    """Begin a search that you answer.

    Writes the files of the turn in the middle into a directory of their own. Look at them, then say
    `locus bisect good`, `bad` or `skip`: the next turn's files follow, until the turn is found.
    """
    with open_store() as store, acquire(store.fs, store.layout, _LOCK, timeout_s=_LOCK_TIMEOUT_S):
        under_way = bisect_by_hand.load(store.fs, store.layout)
        if under_way is not None:
            raise eventlog.Refused(
                f"a search is under way, in {under_way.directory}. Go on with `locus bisect good`, `bad` or "
                "`skip`, or end it with `locus bisect reset`."
            )
        states, left_out = states_of(
            store.query, session, commits=want_all, worktree=worktree_of(os.getcwd())
        )
        states = between(store, states, good, bad)
        if len(states) < 2:
            raise eventlog.NotFound(
                "there are fewer than two different states, so there is nothing to search"
            )
        directory = _new_directory(into)
        search = HandBisect(
            states, left_out, directory, os.lstat(directory).st_ino, into is None,
            [(name, os.path.abspath(name)) for name in links], deep=deep,
        )  # fmt: skip
        if not as_json:
            say(f"{count(len(states), 'state')}; {count(left_out, 'turn')} left out.")
            put(f"good  {name_of(states[0])}\nbad   {name_of(states[-1])}\n")
        _go_on(store, search, as_json)


def _new_directory(into: str | None) -> str:
    """A directory with nothing in it. Raises: Refused."""
    if into is None:
        return tempfile.mkdtemp(prefix="locus-bisect-")
    directory = os.path.abspath(into)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        if os.listdir(directory) or os.path.islink(directory):
            raise eventlog.Refused(f"{into} is not empty. --to takes a new directory, or an empty one.")
    except OSError as error:
        raise eventlog.Refused(
            f"{into}: {error.strerror}. --to takes a new directory, or an empty one."
        ) from error
    return directory


def _answer(verdict: str, turn: str | None, as_json: bool) -> None:
    with open_store() as store, acquire(store.fs, store.layout, _LOCK, timeout_s=_LOCK_TIMEOUT_S):
        search = bisect_by_hand.current(store.fs, store.layout)
        search.check_directory()
        testing = search.bisection.next
        if turn is not None:
            search.say(_index_of(store, search, turn), verdict)
        elif testing is None:
            pass  # it is found; say so once more
        elif search.stats is None:
            search.go_on(store.fs, store.layout, trees_of(store))
            raise eventlog.Refused(
                f"the files of {name_of(search.states[testing])} were not all there, so nothing was taken. "
                f"They are in {search.directory} now: look again, then answer."
            )
        else:
            search.say(testing, verdict)
        _go_on(store, search, as_json)


def _index_of(store: "eventlog.Store", search: HandBisect, turn: str) -> int:
    ref = store.turn(turn)
    for index, state in enumerate(search.states):
        if state.turn == ref and state.at == "end":
            return index
    raise eventlog.NotFound(
        f"the files at the end of {turn} are no state of this search. `locus bisect log` lists the verdicts."
    )


def _verb(verdict: str, text: str) -> click.Command:
    @click.command(verdict, help=text)
    @click.argument("turn", required=False, metavar="[TURN]")
    @json_option
    def command(turn: str | None, as_json: bool) -> None:
        _answer(verdict, turn, as_json)

    return command


_NAMED = "With TURN: at the end of that turn."
good = _verb(GOOD, f"Say that the tested files are good.\n\n{_NAMED}")
bad = _verb(BAD, f"Say that the tested files are bad.\n\n{_NAMED}")
skip = _verb(SKIP, f"Say that the tested files cannot be judged.\n\n{_NAMED}")


@click.command("log")
@json_option
def log(as_json: bool) -> None:
    """Show the answers so far, and how far the search has come."""
    with open_store() as store:
        search = bisect_by_hand.current(store.fs, store.layout)
        if not as_json:
            put(f"good  {name_of(search.states[0])}\nbad   {name_of(search.states[-1])}\n")
            put(
                "".join(
                    f"{verdict:<5} {name_of(search.states[index])}\n" for index, verdict in search.verdicts
                )
            )
        _show(store, search, as_json, None)


@click.command("reset")
def reset() -> None:
    """End the search, and remove the directory that it made."""
    with open_store() as store, acquire(store.fs, store.layout, _LOCK, timeout_s=_LOCK_TIMEOUT_S):
        search = bisect_by_hand.load(store.fs, store.layout)
        bisect_by_hand.forget(store.fs, store.layout)
        if search is None:
            say("No search is under way.")
        elif not search.is_there():
            say(f"The search is ended. {search.directory} is gone, or another directory now, and left alone.")
        elif search.is_ours:
            shutil.rmtree(search.directory, ignore_errors=True)
            say("The search is ended, and its directory is gone.")
        else:
            say(f"The search is ended. Its files are in {search.directory}.")


def _go_on(store: "eventlog.Store", search: HandBisect, as_json: bool) -> None:
    if search.deep and search.first_bad is not None and search.first_bad.at == "end":
        _go_inside(store, search, search.first_bad)
    written = search.go_on(store.fs, store.layout, trees_of(store))
    _show(store, search, as_json, written)


def _go_inside(store: "eventlog.Store", search: HandBisect, first_bad: BisectState) -> None:
    states = inside_of(store, first_bad.turn)
    at_end = store.tree(first_bad.turn, "end")
    last_is_end = bool(states) and not compare(store.tree(first_bad.turn, states[-1].at), at_end).changes
    search.go_inside(search.states.index(first_bad), states, last_is_end=last_is_end)


def _show(store: "eventlog.Store", search: HandBisect, as_json: bool, written: int | None) -> None:
    """How far the search has come: the state to look at, or what was found."""
    bisection = search.bisection
    candidates = [search.states[index] for index in bisection.candidates]
    first_bad = search.first_bad
    if as_json:
        put(document({"bisect": _as_json(store, search)}))
    elif bisection.next is None:
        show_found(store, first_bad, candidates)
        say("`locus bisect reset` ends the search.")
        if first_bad is not None and not first_bad.between:
            show_diff(first_bad)
    else:
        # The last candidate is known to be bad, so one less is open.
        steps = max(1, math.ceil(math.log2(len(candidates))))
        wrote = "" if written is None else f", {count(written, 'file')} written"
        put(f"test  {name_of(search.states[bisection.next])} in {search.directory}{wrote}\n")
        say(f"About {count(steps, 'step')} left. Then say `locus bisect good`, `bad` or `skip`.")
    if bisection.next is None and first_bad is None:
        exit_with(PARTIAL)


def _as_json(store: "eventlog.Store", search: HandBisect) -> dict[str, Any]:
    bisection = search.bisection
    candidates = [search.states[index] for index in bisection.candidates]
    testing = None if bisection.next is None else search.states[bisection.next]
    return {
        "found": None if search.first_bad is None else facts_of(store, search.first_bad),
        "testing": None if testing is None else {"turn": testing.turn.name, "at": testing.at},
        "directory": search.directory,
        "tried": [
            {"turn": search.states[index].turn.name, "at": search.states[index].at, "verdict": verdict}
            for index, verdict in search.verdicts
        ],
        "states": len(search.states),
        "left_out": search.left_out,
        "candidates": [{"turn": state.turn.name, "at": state.at} for state in candidates],
    }
