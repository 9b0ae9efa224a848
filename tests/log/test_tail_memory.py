"""A store's memory of the tail: the same events as without it, and nothing is read twice."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.log import rows
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store
from tests.log.journal_bytes import Counting

STEPS = ("append", "append", "again", "many", "other", "rotate", "seal", "tear", "flip", "ask", "ask")


def events(*numbers: int) -> "list[dict[str, Any]]":
    return [
        {"event_type": "turn" if n % 3 == 0 else "action", "operation": "start" if n % 3 == 0 else None,
         "agent": "script", "agent_session_id": f"s{n % 4}", "event_id": f"{n:032x}", "payload": {"n": n}}
        for n in numbers
    ]  # fmt: skip


def newest_journal(store: Store) -> str:
    directory = store.layout.directory("log/journal")
    return f"{directory}/{max(os.listdir(directory))}"


class Life:
    """One store that remembers, and others that come and go."""

    def __init__(self, root: Path) -> None:
        self.store = Store.init(root / ".locus", force=True)
        self.count = 0

    def step(self, name: str) -> None:
        if name == "append":
            self._append(self.store, 1)
        elif name == "again":  # an id that was there before
            self.store.append(events(self.count // 2))
        elif name == "many":
            self._append(self.store, 7)
        elif name == "other":
            with Store.open(self.store.layout.root) as other:
                self._append(other, 2)
        elif name == "rotate":
            self.store.journal.rotate()
        elif name == "seal":
            self.store.seal()
        elif name == "tear":  # what a writer leaves that dies in the middle of a frame
            with open(newest_journal(self.store), "ab") as file:
                file.write(b"\x89EV1" + b"\xff" * 40)
        elif name == "flip" and self.count:
            self._flip()

    def _append(self, store: Store, number: int) -> None:
        store.append(events(*range(self.count, self.count + number)))
        self.count += number

    def _flip(self) -> None:
        """Rot, met by a store that has read nothing yet: one that has goes on giving what it read."""
        path = newest_journal(self.store)
        with open(path, "r+b") as file:
            file.seek(200)
            byte = file.read(1)
            if byte not in (b"", b"\0"):
                file.seek(200)
                file.write(bytes([byte[0] ^ 1]))
        self.store.close()
        self.store = Store.open(self.store.layout.root)

    def seen(self, store: Store) -> "tuple[list[Any], Any]":
        try:
            with store.view() as view:
                rows = [dict(row) for row in view.tail]
                assert rows == list(view.iterate(view.manifest.next_position))
                assert [row["position"] for row in rows] == view.tail_table()["position"].to_pylist()
                return list(view.iterate()), (view.next_position, view.tail_count_raw, view.damaged)
        except Exception as error:
            return [], type(error).__name__


@given(st.lists(st.sampled_from(STEPS), max_size=14))
def test_a_memory_changes_no_answer(steps: list[str]) -> None:
    """I6, I8, I22: whatever happens between, a store that remembers gives what a fresh one reads."""
    with tempfile.TemporaryDirectory() as place:
        life = Life(Path(place))
        try:
            for step in [*steps, "ask"]:
                try:
                    life.step(step)
                except Exception:  # a damaged log refuses some steps
                    continue
                if step == "ask":
                    with Store.open(life.store.layout.root) as fresh:
                        assert life.seen(life.store) == life.seen(fresh)
        finally:
            life.store.close()


@pytest.mark.parametrize("kept", [200, 12_000])
def test_a_turn_begins_without_reading_the_tail_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    """S1-23: a recorder's next turn decodes only what was appended since, however long the tail is."""
    fs = Counting()
    decoded = []
    original = rows.row_of

    def counting(line: bytes, position: int, *rest: Any) -> Any:
        decoded.append(position)
        return original(line, position, *rest)

    with Store.init(tmp_path / ".locus", force=True) as store:
        store.append(events(*range(kept)))
    with Store.open(tmp_path / ".locus", fs=fs) as store:
        recorder = Recorder(store, agent="script")
        recorder.start_turn("The first").end()
        monkeypatch.setattr(rows, "row_of", counting)
        fs.bytes = 0
        turn = recorder.start_turn("The second")

        assert turn.ref.turn == 2
        assert len(decoded) <= 8 and min(decoded) >= kept
        assert fs.bytes < 1_000_000  # the room after the journal, and a fifth of what 12,000 events take


def test_an_older_view_keeps_what_it_saw(tmp_path: Path) -> None:
    """I6: a view that was opened before others made the memory grow ends where it ended."""
    with Store.init(tmp_path / ".locus", force=True) as store:
        store.append(events(0, 1))
        with store.view() as older:
            store.append(events(2, 3))
            assert len(list(store.events())) == 4
            assert [row["position"] for row in older.iterate()] == [0, 1]
            assert older.next_position == 2
