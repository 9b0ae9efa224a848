"""Every crash of every small program: what the log promises holds after each.

Goal: I1, I2, I3, I5, I7, I9, I10, I12 and the boot rule at every instant. Method: a program is a few
operations from the table below. Before each call of its *last* operation (earlier ones are the
last of a shorter program) the simulated machine is copied, and each copy ends in every way that
`crash_choices` knows, and as a killed process. The survivor is opened, appended to and read; while
it recovers it is stopped again before every call; and after it has acknowledged, the power goes once
more. What an oracle outside the store knows to be acknowledged must be there each time.

The protocol's steps are then taken away one by one (the mutants): each must be noticed.
"""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from blake3 import blake3

from eventlog.base.errors import Conflict, Corruption, LockTimeout, NotDurable, Unsupported
from eventlog.base.fs import write_all
from eventlog.base.layout import JOURNAL_DIR, MANIFEST_DIR, QUARANTINE_DIR, Layout
from eventlog.log.frame import HEADER_SIZE, boot_digest, decode_header
from eventlog.log.journal import Journal
from eventlog.log.journal_reading import JournalScan, live_journals, scan_journal
from eventlog.log.line import encode_line
from eventlog.log.reader import open_view
from tests.conftest import STORE_ID, files_of
from tests.simfs import Call, Fault, SimFS, crash_choices, fail_nth, keep_all, sim_store

Lines = tuple[bytes, ...]
JournalMaker = Callable[[SimFS, Layout], Journal]


class Died(BaseException):
    """A process ends in the middle of an operation; the machine goes on."""


class Oracle:
    """What is known outside the store: batches acknowledged with their positions, and batches tried.

    `rotten` are positions whose bytes were destroyed on the disk: nothing is there since, or the same.
    """

    def __init__(
        self,
        acked: tuple[tuple[int, Lines], ...] = (),
        tried: tuple[Lines, ...] = (),
        rotten: frozenset[int] = frozenset(),
    ) -> None:
        self.acked = acked
        self.tried = tried
        self.rotten = rotten

    def key(self) -> bytes:
        return blake3(repr((self.acked, self.tried, sorted(self.rotten))).encode()).digest()

    def trying(self, lines: Lines) -> "Oracle":
        return Oracle(self.acked, (*self.tried, lines), self.rotten)

    def acknowledging(self, base: int, lines: Lines) -> "Oracle":
        tried = tuple(batch for batch in self.tried if batch != lines)
        return Oracle((*self.acked, (base, lines)), tried, self.rotten)

    def without(self, positions: range) -> "Oracle":
        return Oracle(self.acked, self.tried, self.rotten | frozenset(positions))


class World:
    """A machine, the processes on it, and the oracle that watches them."""

    def __init__(self, make: JournalMaker, fs: SimFS, layout: Layout, *, one_process: bool = False) -> None:
        self.fs = fs
        self.layout = layout
        self.files = files_of(fs, layout)
        self.oracle = Oracle()
        self._make = make
        self._kept = make(fs, layout) if one_process else None
        self._event_count = 0

    def journal(self) -> Journal:
        """The one process's journal, or that of a process that has just started."""
        return self._kept or self.new_process()

    def new_process(self) -> Journal:
        return self._make(self.fs, self.layout)

    def append(self, count: int) -> None:
        lines = tuple(self._line() for _ in range(count))
        self.oracle = self.oracle.trying(lines)
        base = self.journal().append(list(lines))
        self.oracle = self.oracle.acknowledging(base, lines)

    def _line(self) -> bytes:
        self._event_count += 1
        event_id = f"{self._event_count:032x}"
        event = {"event_id": event_id, "event_type": "action", "event_kind": "action", "source": "executor"}
        return encode_line({**event, "payload": {"text": event_id * (self._event_count % 3)}})


def _append_small(world: World) -> None:
    world.append(1)


def _append_batch(world: World) -> None:
    world.append(3)


def _rotate(world: World) -> None:
    """Always another process, as the sealer is: a kept descriptor must notice."""
    world.new_process().rotate()


def _append_and_die(world: World) -> None:
    """Another process writes a batch and is killed before its sync."""
    watch = world.fs.before

    def die_at_sync(call: Call) -> None:
        if watch is not None:
            watch(call)
        if call.name == "fdatasync" and call.index > first_write[0]:
            raise Died
        if call.name == "pwrite":
            first_write[0] = call.index

    first_write = [1 << 60]
    kept, world._kept = world._kept, None
    world.fs.before = die_at_sync
    try:
        world.append(1)
    except Died:
        pass
    finally:
        world.fs.before = watch
        world._kept = kept


def _seal(world: World) -> None:
    from eventlog.log.seal import seal

    seal(world.files, world.journal())


OPERATIONS: dict[str, Callable[[World], None]] = {
    "append": _append_small,
    "batch": _append_batch,
    "rotate": _rotate,
    "die": _append_and_die,
    "seal": _seal,
}
JOURNAL_OPERATIONS = ("append", "batch", "rotate", "die")


def _plain(fs: SimFS, layout: Layout) -> Journal:
    return Journal(files_of(fs, layout))


class Moment:
    """A copy of the machine as it was before a call, and what the oracle knew then."""

    def __init__(self, label: str, fs: SimFS, oracle: Oracle, call: Call | None) -> None:
        self.label = label
        self.fs = fs
        self.oracle = oracle
        self.call = call


class Moments(list[Moment]):
    """While entered, remembers the moment before each call by which something has changed."""

    def __init__(self, world: World, label: str) -> None:
        super().__init__()
        self._world = world
        self._label = label
        self._last: tuple[int, Oracle] | None = None

    def __enter__(self) -> "Moments":
        self._world.fs.before = self._remember
        return self

    def __exit__(self, *exc: object) -> None:
        self._world.fs.before = None
        self._remember(None)

    def _remember(self, call: Call | None) -> None:
        now = (self._world.fs.change_count, self._world.oracle)
        if now != self._last or (call is not None and call.name == "pwrite"):
            self._last = now
            label = f"{self._label} before {call!r}" if call else f"{self._label} after its end"
            self.append(Moment(label, self._world.fs.copy(), self._world.oracle, call))


class Explorer:
    """Runs programs, ends them everywhere, and checks every survivor once."""

    def __init__(
        self, make: JournalMaker = _plain, new_fs: Callable[[], SimFS] = SimFS, *, one_process: bool = False
    ) -> None:
        self.make = make
        self.new_fs = new_fs
        self.one_process = one_process
        self.checked = 0
        self._seen: set[bytes] = set()

    def explore(self, program: tuple[str, ...], *, recovery: bool = True) -> None:
        """Check every end of the last operation of `program`; with `recovery`, every end of recovery too."""
        fs, layout = sim_store(self.new_fs())
        world = World(self.make, fs, layout, one_process=self.one_process)
        for name in program[:-1]:
            OPERATIONS[name](world)
        with Moments(world, str(program)) as moments:
            OPERATIONS[program[-1]](world)
        for moment in moments:
            for how, survivor, powered in _ends(moment):
                key = blake3(survivor.state_key() + moment.oracle.key()).digest()
                if key not in self._seen and self.knows(moment.label, survivor, layout, moment.oracle):
                    self._seen.add(key)
                    self._check(f"{moment.label}, {how}", survivor, layout, moment.oracle, powered, recovery)

    def knows(self, label: str, machine: SimFS, layout: Layout, oracle: Oracle) -> bool:
        """Whether a survivor can know what is asked of it."""
        return True

    def _check(
        self, label: str, machine: SimFS, layout: Layout, oracle: Oracle, powered: bool, recovery: bool
    ) -> None:
        """Recover `machine` and check it; where it kept its power (`powered`) not all is durable yet."""
        first = Reading(machine, layout)
        _check_oracle(label, first.log, oracle)
        probe = World(self.make, machine, layout, one_process=True)
        probe._event_count = 1000
        probe.oracle = oracle
        if recovery:
            with Moments(probe, f"{label}, then recovering") as moments:
                probe.append(1)
        else:
            probe.append(1)
            moments = Moments(probe, "")
        now = self._check_recovered(label, machine, layout, probe.oracle, first)
        self._check_conflict(label, probe, layout, now)
        for moment in moments:
            self._check_again(moment, layout, first, powered)

    def _check_again(self, moment: "Moment", layout: Layout, first: "Reading", powered: bool) -> None:
        """A machine that stopped while it recovered recovers again, to the same end (I12)."""
        for how, survivor, still_powered in _ends(moment):
            key = blake3(survivor.state_key() + moment.oracle.key() + first.key).digest()
            if key in self._seen or not self.knows(moment.label, survivor, layout, moment.oracle):
                continue
            self._seen.add(key)
            label = f"{moment.label}, {how}"
            # What a process saw before a power cut may go with it, unless it was on the disk already.
            known = first if still_powered or not powered else None
            _check_oracle(label, Reading(survivor, layout).log, moment.oracle)
            probe = World(self.make, survivor, layout, one_process=True)
            probe._event_count = 2000
            probe.oracle = moment.oracle
            probe.append(1)
            self._check_recovered(label, survivor, layout, probe.oracle, known)

    def _check_recovered(
        self, label: str, machine: SimFS, layout: Layout, oracle: Oracle, first: "Reading | None"
    ) -> "Reading":
        self.checked += 1
        now = Reading(machine, layout)
        _check_oracle(label, now.log, oracle)
        _check_chain(label, now, oracle)
        if first is not None:
            for position, event_id in first.log.items():
                assert now.log.get(position) == event_id, f"I5, {label}: position {position} changed"
            _check_bytes(label, first, now)
        return now

    def _check_conflict(self, label: str, probe: World, layout: Layout, now: "Reading") -> None:
        """I9: a wrong expectation changes nothing, the right one is taken. `now`: what was read before."""
        journal = probe.journal()
        position = journal.next_position()
        tree = probe.fs.tree()
        with pytest.raises(Conflict):
            journal.append([b"x"], expect_position=position + 1)
        assert tree == probe.fs.tree(), f"I9, {label}"
        if tree != now.tree:
            now = Reading(probe.fs, layout)
        newest = max(now.log, default=-1) + 1
        assert position == newest, f"I9, {label}: next position {position}, log ends at {newest}"


class Reading:
    """All that a reader, and an auditor of bytes, sees of a store at one moment."""

    def __init__(self, fs: SimFS, layout: Layout) -> None:
        tree = self.tree = fs.tree()
        self.boot = boot_digest(fs.boot_id())
        prefix = layout.directory(JOURNAL_DIR)
        # Without the room at the end, which whoever writes next gives back or fills.
        self.journals = {
            p: d.rstrip(b"\0") for p, d in tree.items() if d is not None and p.startswith(prefix)
        }
        quarantine = layout.directory(QUARANTINE_DIR)
        self.quarantined = [(p, d) for p, d in tree.items() if d is not None and p.startswith(quarantine)]
        self.scans = [
            scan_journal(fs, layout.journal(number), store_id=STORE_ID, number=number)
            for number in live_journals(files_of(fs, layout))
        ]
        self.sealed_end, self.log = _read_sealed(fs, layout)
        with open_view(files_of(fs, layout)) as view:
            self.damaged = view.damaged
        self.tail = [
            scan
            for scan in self.scans
            if scan.end > self.sealed_end or (not scan.frames and scan.base >= self.sealed_end)
        ]
        for position, event_id in _read_tail(self.tail):
            if position >= self.sealed_end:
                assert position not in self.log, f"I2: position {position} twice"
                self.log[position] = event_id

    @property
    def key(self) -> bytes:
        return blake3(
            repr((self.boot, sorted(self.journals.items()), sorted(self.quarantined))).encode()
        ).digest()


def _read_sealed(fs: SimFS, layout: Layout) -> tuple[int, dict[int, str]]:
    if not fs.listdir(layout.directory(MANIFEST_DIR)):
        return 0, {}
    with open_view(files_of(fs, layout)) as view:
        end = view.manifest.next_position
        rows: Any = view.iterate(0, end, columns=("position", "event_id"))
        return end, {row["position"]: row["event_id"] for row in rows}


def _read_tail(scans: list[JournalScan]) -> Iterator[tuple[int, str]]:
    for scan in scans:
        for frame in scan.frames:
            for index, line in enumerate(frame.lines):
                yield frame.base + index, _event_id(line)


def _event_id(line: bytes) -> str:
    return line[len(b'{"event_id":"') :][:32].decode()


def _check_oracle(label: str, log: dict[int, str], oracle: Oracle) -> None:
    positions: dict[str, int] = {}
    for position, event_id in log.items():
        assert event_id not in positions, f"I7, {label}: event {event_id} twice"
        positions[event_id] = position
    for base, lines in oracle.acked:
        for index, line in enumerate(lines):
            found = log.get(base + index)
            if base + index in oracle.rotten and found is None:
                continue
            assert found == _event_id(line), f"I1, {label}: acknowledged position {base + index} has {found}"
    for lines in oracle.tried:
        found_at = [positions.get(_event_id(line)) for line in lines]
        if any(place is not None for place in found_at):
            first = found_at[0]
            assert first is not None, f"I3, {label}: part of a batch"
            assert found_at == list(range(first, first + len(lines))), f"I3, {label}: batch at {found_at}"


def _check_chain(label: str, now: Reading, oracle: Oracle) -> None:
    """I2: journals continue each other; the only positions missing are those that a scan names.

    Nothing acknowledged is after such a hole: its sync would have made the hole's bytes durable.
    """
    previous: JournalScan | None = None
    for scan in now.scans:
        is_left = scan is not now.scans[-1] and (scan.claimed > scan.end or scan.damaged or oracle.rotten)
        assert scan.torn is None or is_left, f"I12, {label}: {scan.path} still has a torn tail"
        if previous is not None:
            given = {*range(previous.end, previous.claimed), *oracle.rotten}
            gap = set(range(previous.end, scan.base))
            fits = scan.base >= previous.end and gap <= given
            assert fits, f"I2, I13, {label}: {scan.path} begins at {scan.base}"
            assert oracle.rotten or scan.header.prev == previous.digest, (
                f"I2, {label}: {scan.path} follows another file"
            )
        previous = scan
    if now.tail and now.tail[0].replaces is None:
        assert now.tail[0].base == now.sealed_end, f"I13, {label}: gap after the segments"
    named = {p for lost in now.damaged for p in range(lost.base, lost.end)}
    missing = set(range(max(now.log, default=-1) + 1)) - set(now.log)
    assert missing <= named, f"I2, {label}: positions {sorted(missing - named)} are missing"
    for scan in now.tail:
        holes = [d.end for d in scan.damaged if not oracle.rotten.issuperset(range(d.base, d.end))]
        for base, _ in oracle.acked:
            assert not (holes and holes[0] <= base < scan.end), f"I2, {label}: {base} is after a hole"


def _check_bytes(label: str, first: Reading, now: Reading) -> None:
    """I10: recovery keeps or quarantines every byte. Boot rule: journals of another boot never grow."""
    for path, data in first.journals.items():
        after = now.journals.get(path)
        if after is None:
            continue  # sealed since
        kept = len(data)
        while not after.startswith(data[:kept]):
            kept -= 1
        prefix = f"/{path.rpartition('/')[2].removesuffix('.evj')}@"
        for place, content in now.quarantined:
            if prefix in place and place.endswith(".bin"):
                offset = int(place.partition("@")[2].partition("-")[0])
                if data[offset:] == content:
                    kept = min(kept, offset)
                    data = data[:offset]
        assert after.startswith(data), f"I10, {label}: bytes of {path} from {kept} on are gone"
        if len(data) >= HEADER_SIZE and decode_header(data).boot != now.boot:
            assert len(after) <= len(first.journals[path]), f"boot rule, {label}: {path} grew in another boot"


def _ends(moment: Moment) -> Iterator[tuple[str, SimFS, bool]]:
    """Every way a machine can end at a moment: how, the survivor, and whether it kept its power."""
    fs, call = moment.fs, moment.call
    for how, choice in crash_choices(fs.pending):
        yield f"power cut: {how}", fs.crash(choice), False
    yield "killed", fs.kill(), True
    if call is not None and call.name == "pwrite":
        fd, data, offset = call.args
        assert isinstance(fd, int) and isinstance(data, bytes) and isinstance(offset, int)
        used = len(data.rstrip(b"\0"))
        for size in sorted({1, used // 2, used - 1, used, len(data) - 1} - {-1, 0, len(data)}):
            torn = fs.copy()
            torn.pwrite(fd, data[:size], offset)
            yield f"killed after {size} bytes of it", torn.kill(), True
            torn = torn.crash(keep_all)
            yield f"power cut after {size} bytes of it", torn, False


def _programs(names: tuple[str, ...], size: int) -> Iterator[tuple[str, ...]]:
    for count in range(1, size + 1):
        yield from product(names, repeat=count)


def test_every_crash_of_an_operation_and_of_its_recovery() -> None:
    """After any end of one operation, and of the recovery from it, I1, I2, I3, I5, I7, I9, I10, I12 hold."""
    explorer = Explorer()
    for name in JOURNAL_OPERATIONS:
        explorer.explore((name,))
    assert explorer.checked > 500


@pytest.mark.parametrize("one_process", [False, True], ids=["process per operation", "one process"])
def test_every_crash_of_three_operations(one_process: bool) -> None:
    """After any end of up to three operations, seals included, I1…I3, I5, I7, I9, I10, I13 hold."""
    explorer = Explorer(one_process=one_process)
    for program in _programs(JOURNAL_OPERATIONS if one_process else tuple(OPERATIONS), 3):
        explorer.explore(program, recovery=False)
    assert explorer.checked > (500 if one_process else 3000)


def test_hunt_every_crash_of_the_recovery_of_three_operations(hunt_minutes: float) -> None:
    """In a hunt, the recovery from every end of two or three operations is ended everywhere too (I12)."""
    if not hunt_minutes:
        pytest.skip("a hunt: LOCUS_HUNT=<minutes>")
    until = time.monotonic() + hunt_minutes * 60
    explorer = Explorer()
    for program in _programs(tuple(OPERATIONS), 3):
        if time.monotonic() < until:
            explorer.explore(program)


# Two processes: whatever the other does between two calls of ours.

INTERLUDES = ("append", "rotate", "die", "rotate and append")


def _interlude(world: World, name: str) -> None:
    """What another process does while ours is between two calls; nothing when ours holds the lock."""
    other = World(lambda fs, layout: Journal(files_of(fs, layout), lock_timeout_s=0), world.fs, world.layout)
    other._event_count = 500
    other.oracle = world.oracle
    failures: list[BaseException] = []

    def run() -> None:
        try:
            for part in name.split(" and "):
                OPERATIONS[part](other)
        except (LockTimeout, NotDurable):
            pass  # its batch stays among the tried
        except BaseException as error:
            failures.append(error)

    # A thread of its own, because a thread that holds the append lock may not ask for it.
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    world.oracle = other.oracle


def _append_with_interlude(
    world: World, name: str, at: int, fault: Callable[[Call], Fault | None] | None = None
) -> bool:
    """Append while another process acts before our call `at`; False when there are fewer calls."""
    journal = world.journal()
    first = world.fs.call_count
    came = [False]

    def act(call: Call) -> None:
        if call.index == first + at:
            came[0] = True
            _interlude(world, name)

    lines = (world._line(),)
    world.oracle = world.oracle.trying(lines)
    world.fs.before, world.fs.fault = act, fault
    try:
        base = journal.append(list(lines))
    except NotDurable:
        assert fault is not None
    else:
        world.oracle = world.oracle.acknowledging(base, lines)
    world.fs.before = world.fs.fault = None
    return came[0]


def _check_interludes(explorer: Explorer, name: str, *, faulty: bool) -> None:
    at, came = 0, True
    while came:
        fs, layout = sim_store(explorer.new_fs())
        world = World(explorer.make, fs, layout, one_process=True)
        world.append(1)
        fault = fail_nth(0, errno.EIO, name="fdatasync") if faulty else None
        came = _append_with_interlude(world, name, at, fault)
        world.append(2)
        moment = Moment(f"{name} before call {at} of an append", fs, world.oracle, None)
        for how, survivor, powered in _ends(moment):
            explorer._check(f"{moment.label}, {how}", survivor, layout, world.oracle, powered, False)
        at += 1
    assert at > 5


@pytest.mark.parametrize("name", INTERLUDES)
def test_another_process_acts_between_any_two_calls_of_an_append(name: str) -> None:
    """I1, I2, I4, I7: what another process does between two calls of an append costs neither its batch."""
    _check_interludes(Explorer(), name, faulty=False)


@pytest.mark.parametrize("name", INTERLUDES)
def test_another_process_acts_while_a_sync_fails(name: str) -> None:
    """§4.5: a failed sync is copied forward whatever others did since, rotation and appends included."""
    _check_interludes(Explorer(), name, faulty=True)


# Failing syncs: every sync of a program fails once, in turn.


def _check_failed_syncs(explorer: Explorer, program: tuple[str, ...]) -> None:
    n, failed = 0, True
    while failed:
        fs, layout = sim_store(explorer.new_fs())
        world = World(explorer.make, fs, layout, one_process=True)
        world.append(1)
        fault = fail_nth(n, errno.EIO, name="fdatasync")
        came = [False]

        def noted(
            call: Call,
            fault: Callable[[Call], Fault | None] = fault,
            came: list[bool] = came,
        ) -> Fault | None:
            result = fault(call)
            came[0] = came[0] or result is not None
            return result

        fs.fault = noted
        for name in program:
            try:
                OPERATIONS[name](world)
            except NotDurable:
                pass  # not acknowledged: it stays among the tried
        fs.fault = None
        world.append(1)
        failed = came[0]
        for how, survivor, powered in _ends(Moment("", fs, world.oracle, None)):
            label = f"{program} with failing sync {n}, {how}"
            explorer._check(label, survivor, layout, world.oracle, powered, False)
        n += 1


@pytest.mark.parametrize("program", list(_programs(JOURNAL_OPERATIONS, 2)), ids=" ".join)
def test_every_sync_of_a_program_fails_once(program: tuple[str, ...]) -> None:
    """I1, I2, I7: pages that a failed sync lost are saved before anything after them is acknowledged."""
    _check_failed_syncs(Explorer(), program)


# Mutants: each takes one step of the protocol away, and one of the checks above must notice.


class _NoAppendSync(SimFS):
    def fdatasync(self, fd: int) -> None:
        pass


class _NoFileSync(SimFS):
    def fsync(self, fd: int) -> None:
        pass


class _NoDirectorySync(SimFS):
    def fsync_dir(self, path: str) -> None:
        pass


class _NoSyncBeforeRotation(Journal):
    def _sync_closed(self, fd: int) -> None:
        pass


class _NoBootRule(Journal):
    def _boot_digest(self) -> bytes:
        return boot_digest(b"always the same")


class _NoQuarantine(Journal):
    def _quarantine(self, active: object, offset: int, size: int, is_known: bool) -> None:
        pass


class _QuarantineNotDurable(Journal):
    def _store_quarantined(self, name: str, data: bytes) -> None:
        fd = self._fs.open(self._layout.quarantine(name), os.O_WRONLY | os.O_CREAT)
        write_all(self._fs, fd, data)
        self._fs.close(fd)


class _NoSyncOfFoundName(Journal):
    def _sync_name(self) -> None:
        pass


class _TrustsKeptDescriptor(Journal):
    def _stat_if_newest(self, active: Any) -> os.stat_result:
        return self._fs.fstat(active.fd)


class _SyncsInsideNothing(Journal):
    """A failed sync is reported, but nothing is copied forward."""

    def _copy_forward(self, number: int) -> None:
        raise OSError(errno.EIO, "not copied")

    def _mark_suspect(self, active: object) -> None:
        pass


def _mutant(kind: type[Journal]) -> JournalMaker:
    return lambda fs, layout: kind(files_of(fs, layout))


CRASH_MUTANTS: dict[str, tuple[JournalMaker, Callable[[], SimFS], tuple[str, ...]]] = {
    "appends are not synced": (_plain, _NoAppendSync, ("append",)),
    "new journals are not synced": (_plain, _NoFileSync, ("append",)),
    "directories are not synced": (_plain, _NoDirectorySync, ("append",)),
    "the old journal is not synced before rotation": (
        _mutant(_NoSyncBeforeRotation),
        SimFS,
        ("die", "rotate"),
    ),
    "the boot rule is dropped": (_mutant(_NoBootRule), SimFS, ("append",)),
    "torn tails are not quarantined": (_mutant(_NoQuarantine), SimFS, ("append", "append")),
    "the tail is cut before its quarantine is durable": (
        _mutant(_QuarantineNotDurable),
        SimFS,
        ("append", "append"),
    ),
    "the name of a found journal is not synced": (_mutant(_NoSyncOfFoundName), SimFS, ("append",)),
    "a kept descriptor is trusted": (_mutant(_TrustsKeptDescriptor), SimFS, ("append", "rotate", "append")),
}


@pytest.mark.parametrize("name", CRASH_MUTANTS)
def test_a_missing_step_is_noticed(name: str) -> None:
    """Without any one step of the protocol the crash search goes red: the search can fail."""
    make, new_fs, program = CRASH_MUTANTS[name]
    explorer = Explorer(make, new_fs, one_process=True)
    with pytest.raises((AssertionError, Corruption, Unsupported)):
        for size in range(1, len(program) + 1):
            explorer.explore(program[:size])


def test_a_failed_sync_without_copy_is_noticed() -> None:
    """Without the copy forward, what a failed sync lost tears a hole that the search finds (I1, I2)."""
    with pytest.raises(AssertionError):
        _check_failed_syncs(Explorer(_mutant(_SyncsInsideNothing)), ("append", "append"))
