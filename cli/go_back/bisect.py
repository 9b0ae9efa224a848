"""`locus bisect run`: find the turn that broke something (docs/bisect.md)."""

import os
import shutil
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Any

import click

from .. import exits
from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..lazy import Entry, LazyGroup, Sections
from ..text import count, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.replay.bisect import BisectState
    from eventlog.store import Store

_RUN = "Find the turn that broke something, with a command that says good or bad."
SECTIONS: Sections = (("Search", (Entry("run", "go_back.bisect:run", _RUN),)),)


@click.command("bisect", cls=LazyGroup, sections=SECTIONS, subcommand_metavar="VERB …")
def command() -> None:
    """Find the turn that broke something."""


_UNTESTABLE, _STOPS = 125, 128


@click.command("run", context_settings={"ignore_unknown_options": True})
@click.option("--good", metavar="TURN", help="A turn at whose end all is well. [default: the first state]")
@click.option("--bad", metavar="TURN", help="A turn at whose end it is broken. [default: the last state]")
@click.option("--session", metavar="SESSION", help="Only turns of this session.")
@click.option("--all", "want_all", is_flag=True, help="Also the turns of imported commits.")
@click.option("--deep", is_flag=True, help="Go on to the call inside the turn.")
@click.option("--fresh", is_flag=True, help="Begin each step with an empty directory.")
@click.option("--link", "links", multiple=True, metavar="NAME", help="Link this of yours into the directory.")
@click.option("--repeat", type=click.IntRange(min=1), default=1, metavar="N", help="Run CMD N times each.")
@click.option("--keep", "keeps", is_flag=True, help="Leave the directory there.")
@json_option
@click.argument("words", nargs=-1, required=True, metavar="CMD…", type=click.UNPROCESSED)
@click.pass_context
def run(
    ctx: click.Context,
    /,
    words: tuple[str, ...],
    repeat: int,
    keeps: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Find the turn that broke something, with a command that says good or bad.

    CMD runs on the files of recorded turns, in a directory of its own: exit code 0 is good, 125 cannot
    be tested, 128 and more stops, all else is bad. Ends with the turn, what was asked, and its diff.
    """
    from eventlog.base.errors import NotFound

    if shutil.which(words[0]) is None and not os.path.exists(words[0]):
        raise NotFound(f"{words[0]}: there is no such command")
    directory = tempfile.mkdtemp(prefix="locus-bisect-")
    try:
        with open_store(ctx) as store:
            search = _Search(store, directory, words, repeat, quiet=as_json, **how)
            first_bad = search.run()
            if as_json:
                put(document({"bisect": search.as_json(first_bad)}))
            else:
                search.show(first_bad)
        if first_bad is None:
            ctx.exit(exits.PARTIAL)
        if not (as_json or first_bad.between):
            from .diff import command as diff

            ctx.invoke(
                diff, turn=first_bad.turn.name, others=(), stat=False, name_only=False, binary=False,
                show_withheld=False, as_json=False,
            )  # fmt: skip
    finally:
        if keeps:
            say(f"The files are in {directory}.")
        else:
            shutil.rmtree(directory, ignore_errors=True)


class _Search:
    """One search: its states, its directory, and what was tried."""

    def __init__(
        self,
        store: "Store",
        directory: str,
        words: "Sequence[str]",
        repeat: int,
        *,
        quiet: bool,
        good: str | None,
        bad: str | None,
        session: str | None,
        want_all: bool,
        deep: bool,
        fresh: bool,
        links: "Sequence[str]",
    ) -> None:
        from eventlog.replay.bisect import Bench, states_of

        self.store = store
        self.words = list(words)
        self.repeat = repeat
        self.quiet = quiet
        self.deep = deep
        self.fresh = fresh
        states, self.left_out = states_of(store.query, session, commits=want_all)
        self.states = _between(store, states, good, bad)
        self.tried: list[tuple[BisectState, str]] = []
        self.candidates: list[BisectState] = []
        targets = [(name, os.path.abspath(name)) for name in links]
        self.bench: Bench = Bench(directory, store.tree, targets)

    def run(self) -> "BisectState | None":
        """The state that is the first bad one; None where what is left cannot be tested."""
        if not self.quiet:
            say(f"{count(len(self.states), 'state')}; {count(self.left_out, 'turn')} left out.")
        first_bad = self._first_bad(self.states)
        if first_bad is not None and self.deep and first_bad.at == "end":
            from eventlog.replay.bisect import BisectState, states_in

            which = {
                "session_id": first_bad.turn.session_id,
                "turn": first_bad.turn.turn,
                "event_types": ("file",),
            }
            columns = ("event_id", "operation", "cause")
            events = list(
                self.store.rows(first_bad.turn.since, first_bad.turn.until, columns=columns, **which)
            )
            inside = [BisectState(first_bad.turn, "start", ""), *states_in(first_bad.turn, events)]
            return self._first_bad(inside) or first_bad
        return first_bad

    def _first_bad(self, states: "list[BisectState]") -> "BisectState | None":
        from eventlog.replay.bisect import search

        left = range(0)
        for _, _, bisection in search(states, lambda index: self._test(states[index])):
            left = bisection.candidates
        self.candidates = [states[index] for index in left]
        return self.candidates[0] if len(self.candidates) == 1 else None

    def _test(self, state: "BisectState") -> str:
        from eventlog.base.errors import EventLogError

        self.bench.go_to(state, fresh=self.fresh)
        begun = time.monotonic()
        verdicts = {self._verdict(state) for _ in range(self.repeat)}
        if len(verdicts) > 1:
            raise EventLogError(f"{_name(state)} is {' and '.join(sorted(verdicts))}: the test is not stable")
        (verdict,) = verdicts
        self.tried.append((state, verdict))
        if not self.quiet:
            seconds = time.monotonic() - begun
            put(
                f"{verdict:<5} {_name(state)}  {seconds:.1f} s  {count(self.bench.written, 'file')} written\n"
            )
        return verdict

    def _verdict(self, state: "BisectState") -> str:
        from eventlog.base.errors import EventLogError
        from eventlog.replay.bisect import BAD, GOOD, SKIP

        done = subprocess.run(
            self.words, cwd=self.bench.directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        if done.returncode < 0 or done.returncode >= _STOPS:
            raise EventLogError(
                f"{_name(state)}: the command ended with {done.returncode}, which stops the search"
            )
        return GOOD if done.returncode == 0 else SKIP if done.returncode == _UNTESTABLE else BAD

    def show(self, first_bad: "BisectState | None") -> None:
        if first_bad is None:
            names = ", ".join(map(_name, self.candidates))
            say(f"What is left cannot be tested. One of these broke it: {names}.")
            return
        name = first_bad.turn.context_id
        if first_bad.between:
            put(f"It broke before {name}, after the turn before it: somebody changed files in between.\n")
        else:
            facts = self._facts(first_bad)
            put(f'{name} broke it: "{one_line(facts["title"] or facts["user_request"] or "")}"\n')
            if facts["call"]:
                put(f"  call {one_line(facts['call'])}\n")
        put(f"locus show {first_bad.turn.name} · locus undo {first_bad.turn.name}\n")

    def _facts(self, first_bad: "BisectState") -> dict[str, Any]:
        rows = self.store.query(
            "select title, user_request from turns where session_id = $1 and turn = $2",
            [first_bad.turn.session_id, first_bad.turn.turn],
        ).rows
        title, request = rows[0] if rows else (None, None)
        call = None
        if first_bad.at not in ("start", "end"):
            causes = self.store.query(
                "select a.tool || ' ' || coalesce(a.command, a.path, '') from files as f join actions as a "
                "on a.event_id = f.cause where f.event_id = $1",
                [first_bad.at],
            ).rows
            call = causes[0][0] if causes else None
        return {"title": title, "user_request": request, "call": call}

    def as_json(self, first_bad: "BisectState | None") -> dict[str, Any]:
        facts = None
        if first_bad is not None:
            facts = {
                "turn": first_bad.turn.name,
                "at": first_bad.at,
                "between": first_bad.between,
                **self._facts(first_bad),
            }
        return {
            "found": facts,
            "tried": [{"turn": s.turn.name, "at": s.at, "verdict": verdict} for s, verdict in self.tried],
            "states": len(self.states),
            "left_out": self.left_out,
            "candidates": [{"turn": s.turn.name, "at": s.at} for s in self.candidates],
        }


def _between(
    store: "Store", states: "list[BisectState]", good: str | None, bad: str | None
) -> "list[BisectState]":
    """The states from the end of one turn to that of another."""
    from eventlog.base.errors import NotFound

    ends = []
    for name, default in ((good, 0), (bad, len(states) - 1)):
        ref = None if name is None else store.turn(name)
        at = [i for i, s in enumerate(states) if s.turn == ref and s.at == "end"] if ref else [default]
        if not at:
            raise NotFound(f"the files at the end of {name} are not known exactly, or equal those before it")
        ends.append(at[0])
    if ends[0] >= ends[1] and (good or bad):
        raise NotFound("--good is not before --bad")
    return states[ends[0] : ends[1] + 1]


def _name(state: "BisectState") -> str:
    return state.turn.name if state.at == "end" else f"{state.turn.name} at {state.at}"
