"""Histories of many processes on one store: the processes, what they write down, and the checker.

Run as a program, this module is one of the processes: a writer, a reader, or the one that seals. Each
writes down in a file of its own when an operation began and ended (CLOCK_MONOTONIC is the same for
all processes) and what it was answered. Nobody else's word is taken: `check` compares these reports with
the log as it is in the end, in time linear in both but for sorting, and names the law that is broken.

    python -m tests.history writer|reader|sealer|keeper|collector|packer|copier|eraser ROOT NAME SEED REPORT

Those after the sealer are in tests/history_contents.py. Events of theirs have no tag, and are in the log
that readers see; the checker asks only of tagged ones who sent them.
"""

import hashlib
import json
import os
import random
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eventlog.base.errors import Conflict
from eventlog.base.locks import MAINTAIN, acquire
from eventlog.log.compact import compact
from eventlog.log.numbering import INPUT_COLUMNS, NUMBERING_COLUMNS, Numbering
from eventlog.store import Store
from tests import history_contents as contents

Row = dict[str, Any]

# A sealer that waits this long for an appender while it holds the maintain lock gives up and says so.
HOLD_S = 20.0

# Sessions of those who keep contents begin with capitals, which ids that are derived have not.
_TURN_SUMS = """
    select max(last_position), count(*), sum(event_count) from turns
    where not regexp_matches(session_id, '^[KL]')
"""


@dataclass(frozen=True, slots=True)
class Append:
    """One call of `append`. Without an end its process died: what became of it is unknown."""

    name: str
    begin: int
    ids: tuple[str, ...]
    expect: int | None = None
    end: int | None = None
    base: int | None = None
    conflict: int | None = None  # the position that Conflict named

    @property
    def acked(self) -> bool:
        return self.base is not None

    @property
    def unknown(self) -> bool:
        return self.end is None

    @property
    def after(self) -> int:
        """The position after the batch."""
        assert self.base is not None
        return self.base + len(self.ids)


@dataclass(frozen=True, slots=True)
class Read:
    """A view that was opened and read to its end; `turns` is what SQL then answered (position, turns,
    events)."""

    reader: str
    begin: int
    end: int
    next_position: int
    digest: str
    turns: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """A time during which one process held the maintain lock."""

    begin: int
    end: int


@dataclass(slots=True)
class History:
    """All that was reported, and the log at the end: rows as `Store.events` gives them."""

    appends: list[Append] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    next_position: int = 0
    kept: dict[str, dict[str, str]] = field(default_factory=dict)  # turn → path → digest
    erased: list[str] = field(default_factory=list)  # texts
    broken: list[str] = field(default_factory=list)  # what was wrong with a replay at once


# -- the checker -----------------------------------------------------------------------------------


def check(history: History) -> list[str]:
    """What is wrong with a history, each line beginning with the law that it breaks."""
    return [
        *history.broken,
        *_check_places(history),
        *_check_batches(history),
        *_check_first_wins(history),
        *_check_expectations(history),
        *_check_real_time(history),
        *_check_reads(history),
        *_check_holds(history),
        *_check_numbering(history),
        *_check_erased(history),
    ]


def _check_places(history: History) -> Iterator[str]:
    """I1, I2, I7: which process acknowledged which position, and whether that is so."""
    owner: dict[int, str] = {}
    for op in history.appends:
        for position in range(op.base, op.after) if op.base is not None else ():
            if position in owner:
                yield f"I2: position {position} was given to {owner[position]} and to {op.name}"
            owner[position] = op.name
    known = {tag for op in history.appends for tag in _tags(op)}
    seen: set[str] = set()
    for row in history.rows:
        if (tag := _tag_of(row)) is not None and tag not in known:
            yield f"I7: {tag} at {row['position']} was sent by nobody"
        if row["event_id"] in seen:
            yield f"I7: event {row['event_id']} is visible twice"
        seen.add(row["event_id"])
    where = {row["event_id"] for row in history.rows}
    for op in history.appends:
        for event_id in op.ids if op.acked else ():
            if event_id not in where:
                yield f"I1: {op.name} was answered {op.base}, but {event_id} is not in the log"
    free = history.next_position - len(owner.keys() | {row["position"] for row in history.rows})
    if free > sum(len(op.ids) for op in history.appends if op.unknown):
        yield f"I2: {free} positions belong to nobody"
    if any(position >= history.next_position for position in owner):
        yield f"I1: the log ends at {history.next_position}, before an acknowledged event"


def _tags(op: Append) -> list[str]:
    return [f"{op.name} {i}" for i in range(len(op.ids))]


def _tag_of(row: Row) -> str | None:
    tag: str | None = row["payload"].get("tag")
    return tag


def _check_batches(history: History) -> Iterator[str]:
    """I1, I3: the rows of one append are side by side, where it was acknowledged; what lacks came earlier."""
    position_of = {row["event_id"]: row["position"] for row in history.rows}
    by_tag = {_tag_of(row): row["position"] for row in history.rows}
    for op in history.appends:
        found = {i: by_tag[tag] for i, tag in enumerate(_tags(op)) if tag in by_tag}
        bases = {position - i for i, position in found.items()} | (
            {op.base} if op.base is not None else set()
        )
        if len(bases) > 1:
            law = "I1" if op.acked and len({p - i for i, p in found.items()}) == 1 else "I3"
            yield f"{law}: the events of {op.name} are at {found}, its acknowledgement was {op.base}"
            continue
        for base in bases:
            for i, event_id in enumerate(op.ids):
                if i not in found and position_of.get(event_id, base + i) >= base + i:
                    yield f"I3: {op.name} at {base} lacks its event {i}"


def _check_first_wins(history: History) -> Iterator[str]:
    """I8: of several acknowledged appends of one id, none lies before the visible one."""
    row_of = {row["event_id"]: row for row in history.rows}
    for op in history.appends:
        for position, (event_id, tag) in enumerate(zip(op.ids, _tags(op), strict=True), op.base or 0):
            row = row_of.get(event_id) if op.acked else None
            if row is None:
                continue
            if row["position"] > position:
                yield f"I8: {event_id} is visible at {row['position']}, but {op.name} put it at {position}"
            elif row["position"] == position and _tag_of(row) != tag:
                yield f"I1: at {position} is {_tag_of(row)}, acknowledged was {tag}"
    lawful = {tag for op in history.appends if op.acked or op.unknown for tag in _tags(op)}
    for row in history.rows:
        if (tag := _tag_of(row)) is not None and tag not in lawful:
            yield f"I7: {tag} is visible though it was refused"


def _check_expectations(history: History) -> Iterator[str]:
    """I9: exactly where it was expected, or Conflict, and then nothing was written."""
    visible = {_tag_of(row) for row in history.rows}
    for op in history.appends:
        if op.expect is not None and op.acked and op.base != op.expect:
            yield f"I9: {op.name} expected {op.expect} and got {op.base}"
        if op.conflict is not None and op.conflict == op.expect:
            yield f"I9: {op.name} was refused though the log was at {op.expect}"
        if op.conflict is not None and visible & set(_tags(op)):
            yield f"I9: {op.name} was refused, but its events are there"


def _check_real_time(history: History) -> Iterator[str]:
    """I4, and what follows for readers: a later reader sees what was acknowledged, and ends after it."""
    acks = sorted((op for op in history.appends if op.acked), key=lambda op: op.end or 0)
    begun: list[tuple[int, str, int, str]] = [
        (op.begin, "I4", op.base if op.base is not None else op.conflict or 0, op.name)
        for op in history.appends
        if op.acked or op.conflict is not None
    ]
    begun += [(read.begin, "I6", read.next_position, f"a read of {read.reader}") for read in history.reads]
    highest, ended = (0, "nobody"), 0
    for begin, law, position, who in sorted(begun):
        while ended < len(acks) and (acks[ended].end or 0) < begin:
            highest = max(highest, (acks[ended].after, acks[ended].name))
            ended += 1
        if position < highest[0]:
            yield f"{law}: {who} is at {position}, though {highest[1]} had been answered {highest[0]}"


def _check_reads(history: History) -> Iterator[str]:
    """I5, I6, I21: each read is a prefix of the log as it ended; a later one is no shorter."""
    prefixes = list(digests(history.rows))
    positions = [row["position"] for row in history.rows]
    seen_at = _counts_below(positions, history.next_position)
    sums = dict(turn_sums(history.rows))
    for read in history.reads:
        if read.next_position > history.next_position:
            yield f"I5: {read.reader} saw {read.next_position} positions, the log has {history.next_position}"
        elif read.digest != prefixes[seen_at[read.next_position]]:
            yield f"I5: {read.reader} saw other events before {read.next_position} than the log has"
        if read.turns is not None and sums.get(read.turns[0]) != read.turns:
            yield f"I21: {read.reader} was answered {read.turns} of turns, which no prefix of the log gives"
    ends = sorted(history.reads, key=lambda read: read.end)
    longest, done = 0, 0
    for read in sorted(history.reads, key=lambda read: read.begin):
        while done < len(ends) and ends[done].end < read.begin:
            longest = max(longest, ends[done].next_position)
            done += 1
        if read.next_position < longest:
            yield f"I6: {read.reader} saw {read.next_position} positions after {longest} had been seen"


def _counts_below(positions: list[int], end: int) -> list[int]:
    """For each position up to `end`, how many of `positions` (ascending) lie before it."""
    counts, i = [], 0
    for position in range(end + 1):
        while i < len(positions) and positions[i] < position:
            i += 1
        counts.append(i)
    return counts


def _check_holds(history: History) -> Iterator[str]:
    """I33: while somebody held the maintain lock, an append began and was acknowledged."""
    acks = sorted((op.begin, op.end or 0) for op in history.appends if op.acked)
    for hold in history.holds:
        begun = bisect_right(acks, (hold.begin, sys.maxsize))
        if not any(end < hold.end for _, end in acks[begun : bisect_left(acks, (hold.end, 0))]):
            yield f"I33: nothing was appended while the maintain lock was held from {hold.begin}"


def _check_numbering(history: History) -> Iterator[str]:
    """I22: the numbers that readers see are those of one fold over the log as it ended."""
    columns = {name: [row[name] for row in history.rows] for name in INPUT_COLUMNS}
    columns |= {name: [None] * len(history.rows) for name in NUMBERING_COLUMNS}
    for name in ("session_id", "turn"):  # which the writers of untagged events give
        columns[name] = [row[name] if _tag_of(row) is None else None for row in history.rows]
    Numbering().number(columns)
    for i, row in enumerate(history.rows):
        wrong = {name: row[name] for name in NUMBERING_COLUMNS if row[name] != columns[name][i]}
        if wrong:
            yield f"I22: position {row['position']} says {wrong}"


def _check_erased(history: History) -> Iterator[str]:
    """I30: what was erased is in no event, though it was recorded again."""
    recorded = "\n".join(json.dumps(row["payload"]) for row in history.rows)
    yield from (f"I30: {text} was erased, and is there" for text in history.erased if text in recorded)


def digests(rows: Iterable[Row]) -> Iterator[str]:
    """A digest of each prefix of the rows, the empty one first; place columns and contents count."""
    hasher = hashlib.blake2b()
    yield hasher.hexdigest()
    for row in rows:
        listed = [row[name] for name in ("position", "event_id", *NUMBERING_COLUMNS)]
        hasher.update(json.dumps([*listed, _tag_of(row)]).encode())
        yield hasher.hexdigest()


def turn_sums(rows: Iterable[Row]) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """Last position → (it, number of turns, number of events in them) of each prefix of the tagged rows."""
    turns = set()
    for count, row in enumerate((row for row in rows if _tag_of(row) is not None), 1):
        turns.add((row["session_id"], row["turn"]))
        yield row["position"], (row["position"], len(turns), count)


# -- reports ---------------------------------------------------------------------------------------


def collect(directory: Path, store: Store) -> History:
    """The history that the reports in a directory tell, and the log of the store."""
    history = History()
    for path in sorted(directory.glob("*.jsonl")):
        begun: dict[str, Row] = {}
        for line in path.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                continue  # its process was killed while it wrote
            report = json.loads(line)
            if "read" in report:
                turns = report["turns"]
                history.reads.append(Read(**report["read"], turns=tuple(turns) if turns else None))
            elif "hold" in report:
                history.holds.append(Hold(*report["hold"]))
            elif "kept" in report:
                history.kept[report["kept"]] = report["files"]
            elif "erased" in report:
                history.erased.append(report["erased"])
            elif "broken" in report:
                history.broken.append(report["broken"])
            elif "name" not in report:
                continue
            else:
                begun[report["name"]] = begun.get(report["name"], {}) | report
        history.appends += [Append(**{**op, "ids": tuple(op["ids"])}) for op in begun.values()]
    with store.view() as view:
        history.next_position = view.next_position
    history.rows = list(store.events())
    return history


# -- the processes ---------------------------------------------------------------------------------


class Report:
    """A process's own file; what was written to it outlives SIGKILL."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, **words: Any) -> None:
        os.write(self._fd, json.dumps(words).encode() + b"\n")


def event_id(*key: object) -> str:
    return hashlib.blake2b(repr(key).encode(), digest_size=16).hexdigest()


def write(store: Store, name: str, choose: random.Random, report: Report) -> None:
    """Append batches, some with ids that other writers send too, some only where the log should end."""
    for n in range(1 << 30):
        ids = [event_id(name, n, i) for i in range(choose.randint(1, 5))]
        if choose.random() < 0.4:  # writers come to the same numbers at about the same time
            ids[choose.randrange(len(ids))] = event_id("shared", store.journal.next_position() // 20)
        expect = None
        if choose.random() < 0.3:
            expect = store.journal.next_position() + choose.choice((0, 0, 0, 1))
        op = f"{name}.{n}"
        report.write(name=op, begin=time.monotonic_ns(), ids=ids, expect=expect)
        try:
            base = store.append(
                [_event(name, f"{op} {i}", i, choose, id) for i, id in enumerate(ids)], expect_position=expect
            )[0]
            report.write(name=op, end=time.monotonic_ns(), base=base)
        except Conflict as conflict:
            report.write(name=op, end=time.monotonic_ns(), conflict=conflict.actual)
        if choose.random() < 0.02:
            store.journal.rotate()


def _event(name: str, tag: str, i: int, choose: random.Random, id: str) -> Row:
    return {
        "event_id": id,
        "event_type": choose.choice(("action", "decision", "intent")),
        "agent": "tester",
        "agent_session_id": choose.choice((name, "common")),
        "agent_turn_id": f"turn {choose.randrange(5)}",
        "payload": {"tag": tag, "filler": "x" * choose.randrange(2000)},
    }


def read(store: Store, name: str, report: Report) -> None:
    """Read the whole log again and again, and ask about turns."""
    while True:
        begin = time.monotonic_ns()
        with store.view() as view:
            rows = [{**row, "payload": json.loads(str(row["payload"]))} for row in view.iterate()]
            next_position = view.next_position
        *_, digest = digests(rows)
        payload = {"reader": name, "begin": begin, "end": time.monotonic_ns()}
        found = store.query(_TURN_SUMS).rows[0]
        turns = None if found[0] is None else [int(number) for number in found]
        report.write(read={**payload, "next_position": next_position, "digest": digest}, turns=turns)


def seal(store: Store, choose: random.Random, report: Report, writers: int) -> None:
    """Seal, merge, index, and now and then hold the maintain lock until others have appended."""
    while True:
        if choose.random() < 0.5:
            with acquire(store.fs, store.layout, MAINTAIN, timeout_s=contents.LOCK_TIMEOUT_S):
                begin = time.monotonic_ns()
                # Of each writer a batch of up to five may have begun before, one may not be acknowledged at
                # the end, and those of killed writers never are.
                wanted = store.journal.next_position() + 20 * max(4, writers)
                while store.journal.next_position() < wanted and time.monotonic_ns() - begin < HOLD_S * 1e9:
                    time.sleep(0.001)
                report.write(hold=[begin, time.monotonic_ns()])
        patience: dict[str, float] = {"lock_timeout_s": contents.LOCK_TIMEOUT_S}
        store.seal(rotate_active=choose.random() < 0.7, **patience)
        if choose.random() < 0.3:
            compact(store.files, everything=choose.random() < 0.5, **patience)
        if choose.random() < 0.5:
            store.reindex()


def main(role: str, root: str, name: str, seed: str, path: str, writers: str) -> None:
    report = Report(path)
    choose = random.Random(int(seed))
    with Store.open(root) as store:
        roles: dict[str, Callable[[], object]] = {
            "writer": lambda: write(store, name, choose, report),
            "reader": lambda: read(store, name, report),
            "sealer": lambda: seal(store, choose, report, int(writers)),
            "keeper": lambda: contents.keep(store, name, choose, report, Path(f"{path}.replayed")),
            "collector": lambda: contents.collect(store, report),
            "packer": lambda: contents.merge(store, choose, report),
            "eraser": lambda: contents.erase(store, name, report),
            "copier": lambda: contents.copy(store, name, report),
        }
        roles[role]()


if __name__ == "__main__":
    main(*sys.argv[1:])
