"""The whole engine against a list and two dicts: any sequence of anything that Store and Recorder can do.

A hypothesis state machine over the public API. What must be true is in tests/model.py; the disk is
tests/twinfs.py, so that a process may end before any of its calls and the power may go with what was
not synced. Hypothesis enables a random subset of the rules in each run (swarm testing).

By default a few derandomised runs; `LOCUS_HUNT=<minutes>` goes on with fresh seeds for that long and
prints each, and `LOCUS_SEED=<seed>` repeats one.
"""

import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from eventlog.base.errors import Conflict, Corruption, InvalidEvent, NotFound, Refused
from eventlog.base.types import Event
from eventlog.blobs.ids import blob_id, from_text, to_text
from eventlog.blobs.tree import DIRECTORY, FILE
from eventlog.erasure import erasure
from eventlog.exports import jsonl, jsonl_import
from eventlog.log.reader import LogView
from eventlog.log.retained import retention_in
from eventlog.log.sweep import sweep
from eventlog.maintenance.backup import backup
from eventlog.maintenance.upkeep import maintain
from eventlog.projections.definitions import all_of
from eventlog.query.lookup import TurnRef
from eventlog.query.views import EXTRAS
from eventlog.recorder.recorder import Recorder, Turn
from eventlog.repair.repair import plan_repair, repair
from eventlog.retention import collection, retention
from eventlog.store import Store
from tests.model import Files, Model, WatchedStore
from tests.projections.logs import KEYS
from tests.projections.logs import events as any_event
from tests.projections.test_fold import differences
from tests.simfs import Choice, Effect
from tests.twinfs import Died, Disk

PATHS = ("a.txt", "b.bin", "dir/c.txt", "dir/deep/é.txt")
CONTENTS = st.sampled_from((b"", b"one\n", b"two\n" * 2000, bytes(range(256)))) | st.binary(max_size=40)
FILES = st.dictionaries(st.sampled_from(PATHS), CONTENTS, max_size=4)
SECRETS = ("tulipFox81zebra-Q7", "two words of Cobalt9", "velvet/1234", "ümläut-Ñ-8812")
# What tests/projections/test_calls.py tries.
DERIVED = frozenset[str]().union(*(EXTRAS[name][1] for name in ("acts", "decided", "resolved")))
_MARKED = re.compile(r"before \[REDACTED:erased:[0-9a-f]{8}\] behind")
EVENTS = st.lists(any_event(), min_size=1, max_size=5)


def some(odds: int) -> Choice:
    """A power cut that keeps each effect or not, and tears some writes."""
    choose = random.Random(odds)

    def choice(_index: int, effect: Effect) -> bool | int:
        if effect.kind == "write" and choose.random() < 0.2:
            return choose.randrange(len(effect.data) + 1)
        return choose.random() < 0.5

    return choice


class StoreMachine(RuleBasedStateMachine):
    """Rules for everything a user of the API can do, and for what may happen to the machine."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp(prefix="locus-model-")
        self.root = f"{self.directory}/disk/.locus"
        os.mkdir(f"{self.directory}/disk")
        self.model = Model()
        self.disk = Disk(f"{self.directory}/disk")
        self.views: list[tuple[LogView, int]] = []
        self.followed: list[Event] = []
        self.let_go: set[str] = set()  # sessions of which contents may have been collected
        self.erased: set[int] = set()  # of SECRETS
        self.perhaps: set[str] = set()  # contents of which nobody knows whether they were stored
        self.cut: Choice | None = None  # what a death takes with it: a power cut, or None for SIGKILL
        store = WatchedStore.init(
            self.root, project_name="p", repo_hash="0123456789ab", fs=self.disk.process()
        )
        store.close()
        self._boot()

    def _boot(self) -> None:
        """Two processes: what they share is the directory."""
        self.one = self._open()
        self.other = self._open()
        self._new_agent()

    def _open(self) -> WatchedStore:
        store = WatchedStore.open(self.root, fs=self.disk.process())
        assert isinstance(store, WatchedStore)
        store.model = self.model
        return store

    def _new_agent(self) -> None:
        self.recorder = Recorder(self.one, agent="tester", turn_limit=3)
        self.turn: Turn | None = None

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # else a rule has failed already
                self.everything_agrees()
        finally:
            for view, _ in self.views:
                with suppress(OSError):
                    view.close()
            for process in list(self.disk._processes):
                self.disk.kill(process)
            shutil.rmtree(self.directory)

    # -- deaths --------------------------------------------------------------------------------

    def attempt(self, act: Callable[[], object]) -> bool:
        """Do something that may end the first process; False when it did."""
        process = self.one.fs
        try:
            act()
        except Died:
            self._bury()
            return False
        finally:
            process.calls_left = None  # type: ignore[attr-defined]
        return True

    def _bury(self) -> None:
        powered = self.cut is None
        if self.cut is None:
            self.disk.kill(self.one.fs)  # type: ignore[arg-type]
        else:
            for view, _ in self.views:
                view._pin = -1
            self.views = []
            self.disk.cut_power(self.cut)
            self.other = self._open()
        self.one = self._open()
        self._new_agent()
        with self.one.view() as view:
            lost = [(lost.base, lost.end) for lost in view.damaged]
            self.model.after_death(view.next_position, lost, powered=powered)
        assert_same(self.followed, self.model.rows()[: len(self.followed)])

    @rule(calls=st.integers(0, 60), odds=st.none() | st.integers(0, 1000))
    def next_one_dies(self, calls: int, odds: int | None) -> None:
        self.one.fs.calls_left = calls  # type: ignore[attr-defined]
        self.cut = None if odds is None else some(odds)

    @rule(odds=st.integers(0, 1000))
    def power_cut(self, odds: int) -> None:
        self.cut = some(odds)
        self._bury()

    @rule(seconds=st.integers(-10_000_000, 10_000_000))
    def clock_jumps(self, seconds: int) -> None:
        self.disk.clock_ns += seconds * 1_000_000_000

    # -- writing -------------------------------------------------------------------------------

    @rule(events=EVENTS)
    def append(self, events: list[dict[str, Any]]) -> None:
        self.attempt(lambda: self.one.append(events))

    @rule(events=EVENTS)
    def other_appends(self, events: list[dict[str, Any]]) -> None:
        self.other.append(events)

    @rule(choose=st.integers(0, 10**6), count=st.integers(1, 3), changed=st.booleans())
    def append_again(self, choose: int, count: int, changed: bool) -> None:
        """I8: an id that is there already, with the same content or another."""
        known = [event for event in self.model.log if event is not None]
        if not known:
            return
        first = choose % len(known)
        again = [{**event} for event in known[first : first + count]]
        if changed:
            again = [{**event, "title": "changed", "turn": 77, "payload": {"x": 1}} for event in again]
        self.attempt(lambda: self.one.append(again))

    @rule(events=EVENTS, off=st.sampled_from((-1, 0, 0, 1, 1000)))
    def append_expecting(self, events: list[dict[str, Any]], off: int) -> None:
        """I9."""
        position = len(self.model.log)

        def act() -> None:
            try:
                self.one.append(events, expect_position=position + off)
                assert off == 0, "I9: a wrong expectation was taken"
            except Conflict as conflict:
                assert off != 0, f"I9: the right expectation was refused: {conflict}"

        self.attempt(act)

    @rule()
    def append_nonsense(self) -> None:
        """I3: one bad event, and nothing of its batch is there."""
        with pytest.raises(InvalidEvent):
            self.other.append([{"event_type": "action"}, {"event_type": "action", "event_id": "x"}])

    # -- recording -----------------------------------------------------------------------------

    @rule(files=FILES)
    def start_turn(self, files: Files) -> None:
        def act() -> None:
            self.turn = None
            self.turn = self.recorder.start_turn("Do something", tree_hash=self._put_tree(files))

        self.attempt(act)

    @precondition(lambda self: self.turn is not None)
    @rule(path=st.sampled_from(PATHS), content=st.none() | CONTENTS)
    def change_file(self, path: str, content: bytes | None) -> None:
        turn = self.turn
        assert turn is not None
        files = self.model.files(turn.ref.session_id, turn.ref.turn) or {}
        before = files.get(path)
        if before is None and content is None:
            return
        for data in (before, content):
            if data is not None:
                self.model.blobs[to_text(blob_id(data))] = data
        self.attempt(lambda: turn.file(path, before=before, after=content))

    @precondition(lambda self: self.turn is not None)
    @rule(files=FILES)
    def snapshot(self, files: Files) -> None:
        turn = self.turn
        assert turn is not None
        self.attempt(lambda: turn.snapshot_of(self._put_tree(files)))

    @precondition(lambda self: self.turn is not None)
    @rule(what=st.sampled_from(("action", "decision", "error", "llm", "feedback", "end")))
    def say(self, what: str) -> None:
        turn = self.turn
        assert turn is not None
        says: dict[str, Callable[[], object]] = {
            "action": lambda: turn.action("Bash", {"command": "ls"}, success=True),
            "decision": lambda: turn.decision("Use a list", "It is short", confidence=0.5),
            "error": lambda: turn.error("OSError", "no such file", resolved=False, file="a.txt"),
            "llm": lambda: turn.llm("m", prompt_tokens=3, completion_tokens=4, message_id="m1"),
            "feedback": lambda: turn.feedback("approval", "Good"),
            "end": lambda: turn.end(title="Done", outcome="it works"),
        }
        if self.attempt(says[what]):
            row = self.model.rows()[-1]
            assert (row["session_id"], row["turn"]) == (turn.ref.session_id, turn.ref.turn)
            assert row["position"] == len(self.model.log) - 1
            if what == "end":
                self.turn = None

    @rule()
    def end_session(self) -> None:
        def act() -> None:
            self.turn = None
            with suppress(NotFound):
                self.recorder.end_session("Over")

        self.attempt(act)

    # -- contents ------------------------------------------------------------------------------

    def _put_tree(self, files: Files) -> str:
        """Store the files and their directories; the root's hash, which the model knows by then."""
        with self.one.blobs.writer() as writer:
            root = self._put_directory(writer, files)
            writer.flush()
        for data in files.values():
            self.model.blobs[to_text(blob_id(data))] = data
        self.model.trees[root] = files
        return root

    def _put_directory(self, writer: Any, files: Files) -> str:
        below: dict[str, Files] = {}
        entries = []
        for path, data in files.items():
            name, slash, rest = path.partition("/")
            if slash:
                below.setdefault(name, {})[rest] = data
            else:
                entries.append((name.encode(), FILE, writer.put(data), len(data)))
        for name, inner in below.items():
            entries.append((name.encode(), DIRECTORY, from_text(self._put_directory(writer, inner)), 0))
        return to_text(writer.put_tree(entries))

    @rule(contents=st.lists(CONTENTS, min_size=1, max_size=4))
    def put(self, contents: list[bytes]) -> None:
        """I25: what is there already is stored no second time.

        A put that died may have stored its contents, although nobody was answered so.
        """
        given = {to_text(blob_id(data)) for data in contents}

        def act() -> None:
            with self.one.blobs.writer() as writer:
                ids = [to_text(writer.put(data)) for data in contents]
                name = writer.flush()
            assert name is not None or given <= self.model.blobs.keys() | self.perhaps, "nothing was stored"
            self.model.blobs.update(zip(ids, contents, strict=True))

        if not self.attempt(act):
            self.perhaps |= given

    @precondition(lambda self: self.model.blobs)
    @rule(choose=st.integers(0, 10**6), digits=st.integers(4, 64), with_prefix=st.booleans())
    def get(self, choose: int, digits: int, with_prefix: bool) -> None:
        """I24; a unique beginning names a content as its whole hash does."""
        name, data = sorted(self.model.blobs.items())[choose % len(self.model.blobs)]
        prefix = name.removeprefix("blake3:")[:digits]
        assert self.other.blob(f"blake3:{prefix}" if with_prefix else prefix) == data

    # -- keeping -------------------------------------------------------------------------------

    @rule(rotate=st.booleans())
    def seal(self, rotate: bool) -> None:
        self.attempt(lambda: self.one.seal(rotate_active=rotate))

    @rule()
    def other_seals(self) -> None:
        self.other.seal()

    @rule(everything=st.booleans())
    def compact(self, everything: bool) -> None:
        self.attempt(lambda: self.one.compact(everything=everything))

    @rule(everything=st.booleans())
    def repack(self, everything: bool) -> None:
        self.attempt(lambda: self.one.repack(everything=everything))

    @rule()
    def clean(self) -> None:
        """I18: what the dead left in `tmp/` goes, and nothing that is needed."""
        self.attempt(lambda: sweep(self.one.fs, self.one.layout, -1e12))

    @rule(
        choose=st.integers(0, 10**6),
        word=st.sampled_from(("release", "release", "hold", "pin", "unpin")),
        turn=st.none() | st.integers(1, 3),
    )
    def retain(self, choose: int, word: str, turn: int | None) -> None:
        """A word on a session or a turn; which sessions are released is folded by the model (`limits`)."""
        sessions = sorted({str(row["session_id"]) for row in self.model.rows() if row["session_id"]})
        if not sessions:
            return
        session = sessions[choose % len(sessions)]

        def act() -> None:
            with suppress(Refused):  # active, pinned
                if word in ("release", "hold"):
                    retention.archive(self.one, session, undo=word == "hold")
                else:
                    what = session if turn is None else TurnRef(session, turn)
                    retention.pin(self.one, what, undo=word == "unpin")

        self.attempt(act)
        with self.other.view() as view:
            assert retention_in(view).limits == self.model.limits()

    @rule()
    def collect(self) -> None:
        """I24, I29: all that goes is what no retained event names."""
        self.let_go |= self.model.limits().keys()

        def act() -> None:
            with suppress(Refused):  # what a power cut took is named, and cannot be read
                collection.collect(self.one, collection.plan(self.one))

        self.attempt(act)
        kept = self.model.kept()
        for name in [name for name in self.model.blobs if name not in kept]:
            del self.model.blobs[name]
            self.perhaps.add(name)

    @rule(number=st.integers(0, 3), count=st.integers(1, 2))
    def say_a_secret(self, number: int, count: int) -> None:
        """What was erased is not recorded again: it would be taken out, of which the model knows nothing."""
        if number not in self.erased:
            payload = {"event_type": "action", "payload": {"x": f"before {SECRETS[number]} behind"}}
            self.attempt(lambda: self.one.append([dict(payload) for _ in range(count)]))

    @rule(number=st.integers(0, 3), whole=st.booleans())
    def erase(self, number: int, whole: bool) -> None:
        """I14, I30: of the events that were meant the text is gone, and every other one is as it was.

        An erasure that dies is finished; it has erased all of them whole, or in part, or none.
        """
        secret = SECRETS[number]
        meant = [str(row["event_id"]) for row in self.model.rows() if secret in str(row["payload"])]
        if not meant:
            return
        while self.views:
            self.look_at_view(again=False)
        self.erased.add(number)
        done: list[bool] = []

        def act() -> None:
            plan = erasure.plan_events(self.one, meant) if whole else erasure.plan_secret(self.one, secret)
            done.append(not erasure.erase(self.one, plan).waiting)

        self.attempt(act)
        erasure.resume(self.one)
        assert not erasure.is_unfinished(self.one)
        found = [self.other.event(event_id) for event_id in meant]
        gone = [secret not in str(event["payload"]) for event in found]
        assert all(gone) or not (done or any(gone)), "I30: it is still there"
        if all(gone):
            for event_id, event in zip(meant, found, strict=True):
                payload = event["payload"]
                assert isinstance(payload, dict)
                assert payload.keys() == {"erased"} or _MARKED.fullmatch(payload["x"]), payload
                assert not done or (payload.keys() == {"erased"}) == whole
                self.model.replace(event_id, {"payload": payload, "redacted": True})
            changed = {row["position"]: row for row in self.model.rows()}
            self.followed = [changed[row["position"]] for row in self.followed]

    @rule()
    def back_up(self) -> None:
        """I6, I32: a copy opens, verifies and holds the whole log; the next one goes on with it."""
        done: list[int] = []
        if self.attempt(lambda: done.append(backup(self.one, f"{self.directory}/disk/copy").next_position)):
            with Store.open(f"{self.directory}/disk/copy") as copy:
                assert_same(list(copy.events()), self.model.rows())
                assert bool(copy.verify("read")) == self.model.has_lost
                for name, data in self.model.blobs.items():
                    assert copy.blob(name) == data

    @rule()
    def rotate(self) -> None:
        self.attempt(self.one.journal.rotate)

    @rule(fresh=st.booleans())
    def make_index(self, fresh: bool) -> None:
        self.attempt(self.one.rebuild if fresh else self.one.reindex)

    @rule(times=st.integers(1, 3))
    def maintain(self, times: int) -> None:
        for _ in range(times):
            if not self.attempt(self.one.journal.rotate):
                return
        self.attempt(lambda: maintain(self.one))

    @rule(names=st.sampled_from((("index",), ("snapshots/idx",), ("index", "snapshots/idx"))))
    def delete_derived(self, names: tuple[str, ...]) -> None:
        """I22: the rules after this one must not notice."""
        for name in names:
            self._each_derived(name, lambda path: self.other.fs.unlink(path))

    @rule(at=st.integers(0, 10**9), bit=st.integers(0, 7))
    def damage_derived(self, at: int, bit: int) -> None:
        """I11, I22: a changed byte in what is derived changes no answer."""
        for name in ("index", "snapshots/idx"):
            self._each_derived(name, lambda path: flip(path, at, bit))

    def _each_derived(self, name: str, act: Callable[[str], object]) -> None:
        directory = f"{self.root}/{name}"
        for file in self.other.fs.listdir(directory) if os.path.isdir(directory) else []:
            act(f"{directory}/{file}")

    # -- looking -------------------------------------------------------------------------------

    @invariant()
    def next_position(self) -> None:
        """I2, I6: also after deaths."""
        assert self.other.journal.next_position() == len(self.model.log)

    @rule(since=st.integers(0, 30), size=st.none() | st.integers(0, 30), types=st.booleans())
    def read(self, since: int, size: int | None, types: bool) -> None:
        until = None if size is None else since + size
        wanted = ("action", "llm", "turn") if types else None
        found = list(self.other.events(since, until, event_types=wanted))
        expected = [
            row
            for row in self.model.rows(until)
            if int(str(row["position"])) >= since and (wanted is None or row["event_type"] in wanted)
        ]
        assert_same(found, expected)

    @precondition(lambda self: len(self.views) < 3)
    @rule()
    def open_view(self) -> None:
        self.views.append((self.other.view(), len(self.model.log)))

    @precondition(lambda self: self.views)
    @rule(again=st.booleans())
    def look_at_view(self, again: bool) -> None:
        """I5, I6, I17: a pinned view shows what it showed, whatever happened since."""
        view, end = self.views.pop(0)
        rows = [{**row, "payload": json.loads(str(row["payload"]))} for row in view.iterate()]
        assert_same(rows, self.model.rows(end))
        assert view.next_position == end
        if again:
            self.views.append((view, end))
        else:
            view.close()

    @rule(since=st.integers(0, 20), durable=st.booleans())
    def follow(self, since: int, durable: bool) -> None:
        """Each event once, in order; and with `durable` what was given stays for ever (I5)."""
        if durable:
            since = int(str(self.followed[-1]["position"])) + 1 if self.followed else 0
        found = list(self.other.follow(since, timeout_s=0, durable=durable))
        if durable:
            self.followed += found
            self.model.all_durable()
            assert_same(self.followed, self.model.rows())
        else:
            assert_same(found, [row for row in self.model.rows() if int(str(row["position"])) >= since])

    @rule(contents=st.booleans())
    def export_and_import(self, contents: bool) -> None:
        """What comes out as lines of JSON makes a log with the same events and the same numbers."""
        path, root = f"{self.directory}/log.jsonl", f"{self.directory}/imported/.locus"
        os.mkdir(os.path.dirname(root))
        report = jsonl.export(self.other, path, contents=contents)
        assert bool(report.lost) == self.model.has_lost
        with Store.init(root, repo_hash=self.other.repo_hash) as imported:
            for _ in range(2):  # the second time changes nothing
                jsonl_import.load(imported, path)
                found = [{**row, "position": None} for row in imported.events()]
                expected = [{**row, "position": None} for row in self.model.rows()]
                assert found == expected
            for row in expected if contents else ():
                for name in {row["before_hash"], row["after_hash"]} & self.model.blobs.keys():
                    assert imported.blob(str(name)) == self.model.blobs[str(name)]
        os.unlink(path)
        shutil.rmtree(os.path.dirname(root))

    @rule(first=st.booleans())
    def projections(self, first: bool) -> None:
        """I19, I21: every projection is the plain fold of the log."""
        if first:
            self.attempt(lambda: self._fold_agrees(self.one))
        else:
            self._fold_agrees(self.other)

    def _fold_agrees(self, store: WatchedStore) -> None:
        own = {name: f"(SELECT {all_of(name, DERIVED)} FROM {name})" for name in KEYS}
        lists = ", ".join(f"(SELECT list(one) FROM {own[name]} AS one)" for name in KEYS)
        found = {}
        for name, rows in zip(KEYS, store.query(f"SELECT {lists}").rows[0], strict=True):
            key = KEYS[name]
            found[name] = {tuple(r[k] for k in key) if len(key) > 1 else r[key[0]]: r for r in rows or ()}
        wrong = differences(found, self.model.projections())
        assert not wrong, wrong

    @rule(choose=st.integers(0, 10**6))
    def timeline(self, choose: int) -> None:
        turns = sorted(self.model.projections()["turns"])
        if not turns:
            with pytest.raises(NotFound):
                self.other.turn("last")
            return
        session_id, turn = turns[choose % len(turns)]
        found = self.other.timeline(f"turn:{session_id}_{turn:03d}")
        assert_same(found, self.model.timeline(session_id, turn))

    @rule(choose=st.integers(0, 10**6))
    def one_event(self, choose: int) -> None:
        rows = self.model.rows()
        if rows:
            event_id = str(rows[choose % len(rows)]["event_id"])
            assert_same([self.other.event(event_id)], [rows[choose % len(rows)]])

    @rule(start=st.booleans())
    def replay(self, start: bool) -> None:
        """P1: what is replayed of a recorded turn is what the model's directory held."""
        for session_id, turn in self._turns()[-2:]:
            files = self.model.files(session_id, turn, start=start)
            if files is None:
                continue
            target = f"{self.directory}/replayed"
            report = self.other.replay(f"{session_id}_{turn:03d}", target, at="start" if start else "end")
            # Of a turn that nobody has seen the end of, all files are in doubt, and it says so.
            doubted = set() if start or self._was_looked_at(session_id, turn) else {b"."}
            assert {path for path, _ in report.missing} == doubted, report.missing
            assert files_in(target) == files
            shutil.rmtree(target)

    @rule(
        choose=st.integers(0, 10**6),
        before=FILES,
        calls=st.none() | st.integers(0, 40),
        undo=st.booleans(),
    )
    def restore(self, choose: int, before: Files, calls: int | None, undo: bool) -> None:
        """I12, P1: a directory becomes what the model says; killed in between, that or what it was."""
        turns = self._turns()
        files = self.model.files(*turns[choose % len(turns)]) if turns else None
        if files is None:
            return
        session_id, turn = turns[choose % len(turns)]
        target = f"{self.directory}/disk/work"
        os.mkdir(target)
        for path, data in before.items():
            os.makedirs(os.path.dirname(f"{target}/{path}"), exist_ok=True)
            with open(f"{target}/{path}", "wb") as file:
                file.write(data)
        done: list[object] = []

        def act() -> None:
            plan = self.one.restore_plan(f"{session_id}_{turn:03d}", into=target)
            done.append(self.one.restore(plan, force=True))

        self.cut = None  # what is in the directory was never synced
        self.one.fs.calls_left = calls  # type: ignore[attr-defined]
        self.attempt(act)
        self.one.recover_restore(undo=undo)
        found = files_in(target)
        if not self._was_looked_at(session_id, turn):
            files = before  # all of the turn is in doubt, and a restore leaves what is in doubt as it is
        assert {path: found.get(path) for path in files} == files or (
            not done and {path: found.get(path) for path in before} == before
        ), (found, files, before)
        shutil.rmtree(target)

    def _turns(self) -> list[tuple[str, int]]:
        """The turns that the recorder made, of sessions of which everything was kept."""
        known = self.model.projections()["turns"]
        return [k for k in known if k[0] not in self.let_go and self._recorded(k[0])]

    def _was_looked_at(self, session_id: str, turn: int) -> bool:
        return any(
            row["operation"] == "turn_end" and (row["session_id"], row["turn"]) == (session_id, turn)
            for row in self.model.rows()
        )

    def _recorded(self, session_id: str) -> bool:
        return session_id not in ("s1", "s2", "s3", "S_4") and any(
            row["agent"] == "tester" for row in self.model.rows() if row["session_id"] == session_id
        )

    @rule()
    def status(self) -> None:
        status = self.other.status()
        projections = self.model.projections()
        assert status.events == len(self.model.rows())
        assert (status.sessions, status.turns) == (len(projections["sessions"]), len(projections["turns"]))

    @rule(level=st.sampled_from(("quick", "read")))
    def verify(self, level: str) -> None:
        findings = self.other.verify(level)
        derived = (f"{self.root}/index/", f"{self.root}/snapshots/idx/")
        findings = [found for found in findings if not found.path.startswith(derived)]
        assert bool(findings) == self.model.has_lost, findings

    # -- damage of what is not derived, on a copy ------------------------------------------------

    @rule(choose=st.integers(0, 10**6), at=st.integers(0, 10**9), bit=st.integers(0, 7))
    def damage_a_copy(self, choose: int, at: int, bit: int) -> None:
        """I11: a changed byte of a sealed file or a pack is reported, or has no effect; no wrong data."""
        copy = f"{self.directory}/copy/.locus"
        shutil.copytree(self.root, copy)
        files = [
            f"{copy}/{room}/{name}"
            for room in ("log/segments", "log/manifest", "snapshots/packs")
            if os.path.isdir(f"{copy}/{room}")
            for name in sorted(os.listdir(f"{copy}/{room}"))
        ]
        try:
            if files:
                path = files[choose % len(files)]
                note(f"bit {bit} of byte {at} of {path}")
                flip(path, at, bit)
                self._damage_is_seen(copy, path)
        finally:
            shutil.rmtree(f"{self.directory}/copy")

    def _damage_is_seen(self, copy: str, path: str) -> None:
        with Store.open(copy) as store:
            try:
                assert_same(list(store.events()), self.model.rows())
            except Corruption:
                pass
            for name, data in self.model.blobs.items():
                try:
                    assert store.blob(name) == data
                except Corruption:
                    pass
            findings = store.verify("read")
            assert any(str(finding.path) == path for finding in findings), (path, findings)
            repair(store, plan_repair(store), accept_older=True)
        self._what_is_left_is_right(copy)

    def _what_is_left_is_right(self, copy: str) -> None:
        """I11, I32: after a repair nothing is found, and what can be read is what was written.

        Of an id that was appended again, the later event shows where the first one is lost.
        """
        written = {str(row["event_id"]): row for row in self.model.rows()}
        with Store.open(copy) as store:
            found = [finding for finding in store.verify("read") if finding.damage]
            assert all("/idx/" in finding.path or "/index/" in finding.path for finding in found), found
            events = list(store.events())
            left = {event["position"] for event in events}
            for event in events:
                row = written.get(str(event["event_id"]))
                reported = ("position", "event_type", "payload", "blobs", "title")
                if row is not None and event["position"] > row["position"] and row["position"] not in left:
                    continue
                assert row is None or all(event[name] == row[name] for name in reported), (event, row)
                assert row is not None or event["event_type"] == "maintenance", event
            for name, data in self.model.blobs.items():
                with suppress(NotFound):
                    assert store.blob(name) == data

    # -- the end -------------------------------------------------------------------------------

    def everything_agrees(self) -> None:
        """What every run ends with: all answers, again after sealing, again without derived files."""
        while self.views:
            self.look_at_view(again=False)
        self.read(0, None, types=False)
        self.projections(first=False)
        self.one.fs.calls_left = None  # type: ignore[attr-defined]
        self.one.seal()
        self.one.reindex()
        self.read(0, None, types=False)
        self.projections(first=True)
        self.delete_derived(("index", "snapshots/idx"))
        self.projections(first=False)
        for name, data in self.model.blobs.items():
            assert self.other.blob(name) == data
        self.verify("read")


def assert_same(found: list[Event], expected: list[Event]) -> None:
    """Equal lists of events; where not, one line for each cell that differs."""
    tables = ({"events": {row["position"]: row for row in rows}} for rows in (found, expected))
    wrong = differences(*tables)
    assert not wrong, wrong
    assert [row["position"] for row in found] == [row["position"] for row in expected]


def flip(path: str, at: int, bit: int) -> None:
    """Change one bit of a file."""
    with open(path, "r+b") as file:
        data = file.read().rstrip(b"\0")  # without a journal's room
        if data:
            file.seek(at % len(data))
            file.write(bytes([data[at % len(data)] ^ 1 << bit]))


def files_in(root: str) -> Files:
    """Path → content of every file below a directory."""
    found = {}
    for directory, _, names in os.walk(root):
        for name in names:
            path = f"{directory}/{name}"
            with open(path, "rb") as file:
                found[os.path.relpath(path, root)] = file.read()
    return found


RUN = settings(
    stateful_step_count=30,
    suppress_health_check=list(HealthCheck),
    deadline=None,
    database=None,
    report_multiple_bugs=False,
)


def test_any_history_reads_like_the_model() -> None:
    """I1–I9, I11, I12, I14, I17–I19, I21, I22, I24, I25, I29, I30, I32, P1: every answer is the model's."""
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(RUN, max_examples=5, phases=[Phase.generate], derandomize=True),
    )


def test_hunt_for_a_history_that_reads_otherwise(hunt_minutes: float) -> None:
    """I1–I9, I14, I19, I22, I24, I32: the same with fresh seeds, for as long as LOCUS_HUNT says."""
    if not hunt_minutes:
        pytest.skip("LOCUS_HUNT is not set")
    until = time.monotonic() + hunt_minutes * 60
    while time.monotonic() < until:
        number = int(os.environ.get("LOCUS_SEED", 0)) or random.randrange(2**32)
        print(f"seed {number}", flush=True)
        run_state_machine_as_test(seed(number)(StoreMachine), settings=settings(RUN, max_examples=10))
