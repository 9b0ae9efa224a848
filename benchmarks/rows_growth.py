"""What a verb costs as the log grows: the same command in a log and in one of a tenth of its events.

Both logs are as maintenance leaves them, sealed, merged and indexed, and end with a few sessions that nobody
sealed. In the middle of each is the same imported history, of which verbs name a commit and a file, and
a turn of an agent. So the answers have the same size.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from benchmarks.frame import TIME_UNIT, Bench, Row, Sides
from benchmarks.process import git, locus, run, seconds, seconds_of
from benchmarks.repository import make_repository
from benchmarks.stores import fill
from benchmarks.workload import MARK, Blocks, generate, with_stored_contents
from eventlog import Store
from eventlog.exports import atif, jsonl, otlp
from eventlog.log.line import encode_line

_TIMES = 10
_TAIL_EVENTS = 500
_FILLED_EVENTS = 500_000
_NEWER_US = 366 * 86_400_000_000  # what was recorded last is newer than all blocks, which repeat their times
_NEWER_MARK = "0" * 4 + "f" * 8

# What a verb is given: it names a turn, a file or a session, and is to cost the same in any log.
_NAMED: dict[str, Sequence[str]] = {
    "show": ("show", "{turn}"),
    "timeline": ("timeline", "{turn}"),
    "session-show": ("session", "show", "{session}"),
    "history": ("history", "{path}"),
    "blame": ("blame", "{path}"),
    "cat": ("cat", "git:{commit}:{path}"),
    "diff": ("diff", "git:{commit}"),
    "replay": ("replay", "git:{commit}", "--force", "--to", "{into}"),
}
# Those that list or count, which may cost as much as the log is large.
_OF_ALL: dict[str, Sequence[str]] = {
    "log": ("log",),
    "status": ("status",),
    "session-ls": ("session", "ls"),
    "decisions": ("decisions",),
    "stats": ("stats",),
    "show-event": ("show", "{event}"),
}


def rows() -> list[Row]:
    return [
        *(_row(f"grow-{name}", partial(_verb, words=words), words) for name, words in _NAMED.items()),
        *(_row(f"grow-{name}", partial(_verb, words=words), words) for name, words in _OF_ALL.items()),
        Row(
            name="status",
            work="locus status, whole process, in a large log",
            anchor="locus log in the same",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=_status,
        ),
        *(
            Row(
                name=f"export-{name}",
                work=f"locus export {name} of a whole log, in process",
                anchor="locus export jsonl of the same",
                unit=TIME_UNIT,
                durability="neither syncs",
                prepare=partial(_export, form=form),
                of_log=True,
            )
            for name, form in (("atif", atif.documents), ("otlp", otlp.requests))
        ),
    ]


def _row(name: str, prepare: Callable[[Bench], Any], words: Sequence[str]) -> Row:
    shown = " ".join(words).format(
        turn="TURN", session="SESSION", path="FILE", commit="COMMIT", into="DIR", event="EVENT"
    )
    return Row(
        name=name,
        work=f"locus {shown}, whole process",
        anchor="the same in a log of a tenth of the events",
        unit=TIME_UNIT,
        durability="neither writes to its log",
        prepare=prepare,
    )


@dataclass(frozen=True, slots=True)
class GrownStore:
    """A large log, a working tree of the history in it, and what the verbs name."""

    path: str
    tree: str
    events: int
    names: dict[str, str]

    def seconds(self, words: Sequence[str]) -> float:
        return seconds([*locus(), "--store", self.path, *self._named(words)], cwd=self.tree)

    def _named(self, words: Sequence[str]) -> list[str]:
        return [word.format(**self.names, into=f"{self.path}/../into") for word in words]


@contextmanager
def _verb(bench: Bench, words: Sequence[str]) -> Iterator[Sides]:
    smaller, larger = grown(bench, bench.log_events // _TIMES), grown(bench, bench.log_events)
    yield Sides(
        ours=lambda: larger.seconds(words),
        anchor=lambda: smaller.seconds(words),
        size=f"{larger.events:,} and {smaller.events:,} events",
        times_larger=_TIMES,
    )


@contextmanager
def _status(bench: Bench) -> Iterator[Sides]:
    store = grown(bench, bench.log_events)
    yield Sides(
        ours=lambda: store.seconds(["status"]),
        anchor=lambda: store.seconds(["log"]),
        size=f"{store.events:,} events",
    )


@contextmanager
def _export(bench: Bench, form: Callable[[Store], Iterator[Any]]) -> Iterator[Sides]:
    events = bench.log_events // (10 if bench.small else 3)
    source = grown(bench, events)
    with bench.scratch("export") as directory, Store.open(source.path) as store:
        yield Sides(
            ours=lambda: seconds_of(lambda: sum(1 for _ in form(store))),
            anchor=lambda: seconds_of(lambda: jsonl.export(store, f"{directory}/events.jsonl", force=True)),
            size=f"{events:,} events",
            rounds=bench.pick(2, 3),
            warm_up=False,
        )


def grown(bench: Bench, events: int) -> GrownStore:
    found = bench.shared(f"grown store of {events}", lambda: _grown(bench, events))
    assert isinstance(found, GrownStore)
    return found


def _grown(bench: Bench, events: int) -> GrownStore:
    directory = bench.new_directory("grown")
    repository, tree, path = f"{directory}/project.git", f"{directory}/project", f"{directory}/project/.locus"
    make_repository(repository, bench.seed, commits=40, files=200, packed=True)
    run([git(), "clone", "-q", repository, tree])
    with Store.init(path) as store:
        lines = Blocks(bench.seed, contents=store).lines()
        _fill(store, lines, events // 2)
        run([*locus(), "--store", path, "import", "git", tree])
        _fill(store, lines, events - events // 2)
        newer = _newer_lines(store, bench.seed)
        store.journal.append(list(islice(newer, _TAIL_EVENTS)))
        store.seal()
        store.compact(everything=True)
        store.reindex()
        store.journal.append(list(newer))
        names = _names(store)
    for words in (*_NAMED.values(), ("log",)):  # whatever a first command appends, checks or keeps
        GrownStore(path, tree, events, names).seconds(words)
    shutil.rmtree(f"{directory}/into", ignore_errors=True)
    return GrownStore(path, tree, events, names)


def _fill(store: Store, lines: Iterator[bytes], events: int) -> None:
    for base in range(0, events, _FILLED_EVENTS):
        fill(store, lines, min(_FILLED_EVENTS, events - base))
        store.seal()


def _newer_lines(store: Store, seed: int) -> Iterator[bytes]:
    """What came last: twice _TAIL_EVENTS, of which the later half stays unsealed."""
    for event in with_stored_contents(store, generate(seed + 1, 2 * _TAIL_EVENTS)):
        times = {name: event[name] + _NEWER_US for name in ("occurred_at", "recorded_at")}  # type: ignore[operator]
        yield encode_line({**event, **times}).replace(MARK.encode(), _NEWER_MARK.encode())


def _names(store: Store) -> dict[str, str]:
    """A turn in the middle, its session, one of its events; a commit, and a file that it changed."""
    commits = store.query(
        "select \"commit\", files_modified[1] from turns where agent = 'git' order by first_position"
    ).rows
    commit, path = commits[len(commits) // 2]
    turn, session, position = store.query(
        "select context_id, session_id, first_position from turns where agent <> 'git' "
        "order by first_position limit 1 offset (select count(*) // 2 from turns)"
    ).rows[0]
    event = next(iter(store.events(position, position + 1)))["event_id"]
    return {"turn": turn, "session": session, "event": str(event), "commit": commit, "path": path}
