"""`locus bisect` and its verb `run`: find the turn that broke something (docs/bisect.md)."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import click

import eventlog
from eventlog.replay.bisect import BAD, GOOD, SKIP, Bench, BisectState, search, states_in, states_of, trees_of
from eventlog.restore.worktrees import worktree_of

from ..access import open_store
from ..exits import PARTIAL, exit_with
from ..lazy import Entry, LazyGroup, Sections
from ..options import json_option, options
from ..output import count, document, one_line, put, say

_RUN = "Find the turn that broke something, with a command that says good or bad."
SECTIONS: Sections = (
    "Search",
    Entry("run", "go_back.bisect:run", _RUN),
    "By hand",
    Entry("start", "go_back.bisect_by_hand:start", "Begin a search that you answer."),
    Entry("good", "go_back.bisect_by_hand:good", "Say that the tested files are good."),
    Entry("bad", "go_back.bisect_by_hand:bad", "Say that the tested files are bad."),
    Entry("skip", "go_back.bisect_by_hand:skip", "Say that the tested files cannot be judged."),
    Entry("log", "go_back.bisect_by_hand:log", "Show the answers so far, and how far the search has come."),
    Entry("reset", "go_back.bisect_by_hand:reset", "End the search, and remove the directory that it made."),
)


@click.command("bisect", cls=LazyGroup, sections=SECTIONS, subcommand_metavar="VERB …")
def command() -> None:
    """Find the turn that broke something."""


_UNTESTABLE, _STOPS = 125, 128

range_options = options(
    click.option(
        "--good", metavar="TURN", help="A turn at whose end all is well. [default: the first state]"
    ),
    click.option("--bad", metavar="TURN", help="A turn at whose end it is broken. [default: the last state]"),
    click.option("--session", metavar="SESSION", help="Only turns of this session."),
    click.option("--all", "want_all", is_flag=True, help="Also the turns of imported commits."),
    click.option(
        "--link", "links", multiple=True, metavar="NAME", help="Link this of yours into the directory."
    ),
    click.option("--deep", is_flag=True, help="Go on to the call inside the turn."),
)


@click.command("run", context_settings={"ignore_unknown_options": True})
@range_options
@click.option("--fresh", is_flag=True, help="Begin each step with an empty directory.")
@click.option("--repeat", type=click.IntRange(min=1), default=1, metavar="N", help="Run CMD N times each.")
@click.option("--keep", "keeps", is_flag=True, help="Leave the directory there.")
@json_option
@click.argument("words", nargs=-1, required=True, metavar="CMD…", type=click.UNPROCESSED)
def run(
    words: tuple[str, ...],
    repeat: int,
    good: str | None,
    bad: str | None,
    session: str | None,
    want_all: bool,
    links: tuple[str, ...],
    deep: bool,
    fresh: bool,
    keeps: bool,
    as_json: bool,
) -> None:
    """Find the turn that broke something, with a command that says good or bad.

    CMD runs on the files of recorded turns, in a directory of its own: exit code 0 is good, 125 cannot
    be tested, 128 and more stops, all else is bad. Ends with the turn, what was asked, and its diff.
    """

    if shutil.which(words[0]) is None and not os.path.exists(words[0]):
        raise eventlog.NotFound(f"{words[0]}: there is no such command")
    directory = tempfile.mkdtemp(prefix="locus-bisect-")
    try:
        with open_store() as store:
            states, left_out = states_of(
                store.query, session, commits=want_all, worktree=worktree_of(os.getcwd())
            )
            states = between(store, states, good, bad)
            targets = [(name, os.path.abspath(name)) for name in links]
            bench = Bench(directory, trees_of(store), targets)
            trial = _Trial(bench, words, repeat, fresh=fresh)
            search = _Search(store, states, left_out, trial, quiet=as_json, deep=deep)
            first_bad = search.run()
            if as_json:
                put(document({"bisect": search.as_json(first_bad)}))
            else:
                show_found(store, first_bad, search.candidates)
        if first_bad is None:
            exit_with(PARTIAL)
        if not (as_json or first_bad.between):
            show_diff(first_bad)
    finally:
        if keeps:
            say(f"The files are in {directory}.")
        else:
            shutil.rmtree(directory, ignore_errors=True)


class _Trial:
    """The command that says good or bad, in the directory that has the files of a state."""

    def __init__(self, bench: Bench, words: Sequence[str], repeat: int, *, fresh: bool) -> None:
        self.bench = bench
        self.words = list(words)
        self.repeat = repeat
        self.fresh = fresh

    def go_to(self, state: BisectState) -> None:
        self.bench.go_to(state, fresh=self.fresh)

    def verdict(self, state: BisectState) -> str:
        """What it says of the files there. Raises: EventLogError where it stops, or is not stable."""
        verdicts = {self._verdict(state) for _ in range(self.repeat)}
        if len(verdicts) > 1:
            raise eventlog.EventLogError(
                f"{name_of(state)} is {' and '.join(sorted(verdicts))}: the test is not stable"
            )
        (verdict,) = verdicts
        return verdict

    def _verdict(self, state: BisectState) -> str:
        done = subprocess.run(
            self.words, cwd=self.bench.directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        if done.returncode < 0 or done.returncode >= _STOPS:
            raise eventlog.EventLogError(
                f"{name_of(state)}: the command ended with {done.returncode}, which stops the search"
            )
        return GOOD if done.returncode == 0 else SKIP if done.returncode == _UNTESTABLE else BAD


class _Search:
    """One search: its states, and what was tried."""

    def __init__(
        self,
        store: "eventlog.Store",
        states: list[BisectState],
        left_out: int,
        trial: _Trial,
        *,
        quiet: bool,
        deep: bool,
    ) -> None:
        self.store = store
        self.states = states
        self.left_out = left_out
        self.trial = trial
        self.quiet = quiet
        self.deep = deep
        self.tried: list[tuple[BisectState, str]] = []
        self.candidates: list[BisectState] = []

    def run(self) -> BisectState | None:
        """The state that is the first bad one; None where what is left cannot be tested."""
        if not self.quiet:
            say(f"{count(len(self.states), 'state')}; {count(self.left_out, 'turn')} left out.")
        first_bad = self._first_bad(self.states)
        if first_bad is not None and self.deep and first_bad.at == "end":
            inside = [BisectState(first_bad.turn, "start", ""), *inside_of(self.store, first_bad.turn)]
            return self._first_bad(inside) or first_bad
        return first_bad

    def _first_bad(self, states: list[BisectState]) -> BisectState | None:
        left = range(0)
        for _, _, bisection in search(states, lambda index: self._test(states[index])):
            left = bisection.candidates
        self.candidates = [states[index] for index in left]
        return self.candidates[0] if len(self.candidates) == 1 else None

    def _test(self, state: BisectState) -> str:
        self.trial.go_to(state)
        begun = time.monotonic()
        verdict = self.trial.verdict(state)
        self.tried.append((state, verdict))
        if not self.quiet:
            seconds = time.monotonic() - begun
            wrote = count(self.trial.bench.written, "file")
            put(f"{verdict:<5} {name_of(state)}  {seconds:.1f} s  {wrote} written\n")
        return verdict

    def as_json(self, first_bad: BisectState | None) -> dict[str, Any]:
        return {
            "found": None if first_bad is None else facts_of(self.store, first_bad),
            "tried": [{"turn": s.turn.name, "at": s.at, "verdict": verdict} for s, verdict in self.tried],
            "states": len(self.states),
            "left_out": self.left_out,
            "candidates": [{"turn": s.turn.name, "at": s.at} for s in self.candidates],
        }


def show_found(
    store: "eventlog.Store", first_bad: BisectState | None, candidates: Sequence[BisectState]
) -> None:
    """Say which turn broke it; without one what it may be."""
    if first_bad is None:
        names = ", ".join(map(name_of, candidates))
        say(f"What is left cannot be tested. One of these broke it: {names}.")
        return
    name = first_bad.turn.context_id
    if first_bad.between:
        put(f"It broke before {name}, after the turn before it: somebody changed files in between.\n")
    else:
        facts = facts_of(store, first_bad)
        put(f'{name} broke it: "{one_line(facts["title"] or facts["user_request"] or "")}"\n')
        if facts["call"]:
            put(f"  call {one_line(facts['call'])}\n")
    put(f"locus show {first_bad.turn.name} · locus undo {first_bad.turn.name}\n")


def show_diff(first_bad: BisectState) -> None:
    """The diff of the turn that was found."""
    from .diff import command as diff

    click.get_current_context().invoke(
        diff, turn=first_bad.turn.name, others=(), stat=False, name_only=False, binary=False,
        show_withheld=False, as_json=False,
    )  # fmt: skip


def facts_of(store: "eventlog.Store", state: BisectState) -> dict[str, Any]:
    """What is known of a state that was found, for `--json` too."""
    rows = store.query(
        "select title, user_request from turns where session_id = $1 and turn = $2",
        [state.turn.session_id, state.turn.turn],
    ).rows
    title, request = rows[0] if rows else (None, None)
    call = None
    if state.at not in ("start", "end"):
        causes = store.query(
            "select a.tool || ' ' || coalesce(a.command, a.path, '') from files as f join actions as a "
            "on a.event_id = f.cause where f.event_id = $1",
            [state.at],
        ).rows
        call = causes[0][0] if causes else None
    return {
        "turn": state.turn.name,
        "at": state.at,
        "between": state.between,
        "title": title,
        "user_request": request,
        "call": call,
    }


def between(
    store: "eventlog.Store", states: list[BisectState], good: str | None, bad: str | None
) -> list[BisectState]:
    """The states from the end of one turn to that of another."""
    ends = []
    for name, default in ((good, 0), (bad, len(states) - 1)):
        ref = None if name is None else store.turn(name)
        at = [i for i, s in enumerate(states) if s.turn == ref and s.at == "end"] if ref else [default]
        if not at:
            raise eventlog.NotFound(
                f"the files at the end of {name} are not known exactly, or equal those before it"
            )
        ends.append(at[0])
    if ends[0] >= ends[1] and (good or bad):
        raise eventlog.NotFound("--good is not before --bad")
    return states[ends[0] : ends[1] + 1]


def inside_of(store: "eventlog.Store", turn: "eventlog.TurnRef") -> list[BisectState]:
    """The states inside a turn, after each call that changed files, as far as they are known exactly."""
    which = {"session_id": turn.session_id, "turn": turn.turn, "event_types": ("file",)}
    columns = ("event_id", "operation", "cause")
    events = list(store.rows(turn.since, turn.until, columns=columns, **which))
    return [state for state in states_in(turn, events) if store.certainty(turn, state.at).exact]


def name_of(state: BisectState) -> str:
    return state.turn.name if state.at == "end" else f"{state.turn.name} at {state.at}"
