"""Derived files that nobody reads any more, swept by maintenance."""

import os
import subprocess
import sys
from pathlib import Path

from eventlog import Store
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.base.names import short
from eventlog.hooks import state, sweep
from eventlog.hooks.state import CaptureCheckpoint


def test_notes_of_sessions_whose_process_is_gone_are_swept_after_a_day(layout: Layout) -> None:
    """I22, S1-61: notes a day old go unless a living process has a turn of the session; nothing else goes."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    turns = {
        "lives": ["codex", "t", str(os.getpid()), "1"],
        "died": ["codex", "t", str(dead.pid), "1"],
        "unknown": ["codex", "t", "", "1"],
    }
    state.write_checkpoint(layout, "0" * 16, CaptureCheckpoint(None, "n", turns))
    for session in (*turns, "ended", "young"):
        state.note_calls(layout, session, [["named"]])
    live = Path(layout.directory("live"))
    for name in ("mine.calls", "notes.txt", "maintained", "ab" * 8 + ".running"):
        (live / name).write_bytes(b"x")
    for path in live.iterdir():
        if path != Path(layout.live(f"{short('young')}.calls")):
            os.utime(path, (0, 0))

    went = sweep.sweep(REAL, layout)

    assert set(went) == {layout.live(f"{short(name)}.calls") for name in ("died", "unknown", "ended")}
    left = {path.name for path in live.iterdir()}
    assert left == {
        f"{'0' * 16}.told", "mine.calls", "notes.txt", "maintained", f"{'ab' * 8}.running",
        f"{short('lives')}.calls", f"{short('young')}.calls",
    }  # fmt: skip
    assert state.read_calls(layout, "lives").named and not state.read_calls(layout, "ended").named
    assert sweep.sweep(REAL, layout) == []


def test_a_store_without_notes_is_swept_too(layout: Layout) -> None:
    """I22: nothing to sweep is no failure."""
    os.rmdir(layout.directory("live"))
    assert sweep.sweep(REAL, layout) == []


def test_the_maintainer_sweeps(tmp_path: Path) -> None:
    """I22: the process that hooks start in the background removes the notes of old sessions."""
    with Store.init(str(tmp_path / ".locus")) as store:
        layout = store.layout
    state.note_calls(layout, "ended", [["named"]])
    (notes,) = Path(layout.directory("live")).glob("*.calls")
    os.utime(notes, (0, 0))

    subprocess.run([sys.executable, "-m", "locus_cli.maintainer", layout.root], check=True)

    assert not notes.exists()
