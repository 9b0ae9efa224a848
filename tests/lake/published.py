"""Stores recorded by a program, and what they publish."""

import os
import stat
from pathlib import Path

from eventlog import Recorder, Store
from eventlog.lake.place import Place
from tests.cli.support import Locus


def recorded(work: Path, *states: "dict[str, bytes | None]", store: "Store | None" = None) -> Store:
    """A store beside `work`, with a turn for each state: files to write, None for one to remove."""
    store = store or Store.init(work.parent / f"{work.name}-store")
    with Recorder(store, agent="script").start_session("Files") as session:
        for number, files in enumerate(states):
            with session.start_turn(f"State {number}", root=work) as turn:
                for name, content in files.items():
                    put(work, name, content)
                turn.snapshot(work)
                turn.end()
    return store


def put(work: Path, name: str, content: "bytes | None") -> None:
    path = work / name
    if content is None:
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def publish_contents(locus: Locus, store: Store, place: Place) -> None:
    """`locus publish` with contents."""
    config = Path(store.layout.config_file)
    text = config.read_text() if config.exists() else ""
    if "[publish]" not in text:
        config.write_text(f"{text}\n[publish]\ncontents = true\n")
    done = locus("--store", store.layout.root, "publish", place.uri, "--yes")
    assert done.code == 0, done.err + done.text


def listing(directory: Path) -> "dict[str, tuple[int, bytes]]":
    """Every name below a directory with its mode and its content; of a symlink the target."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            content = os.fsencode(os.readlink(path))
        else:
            content = b"" if path.is_dir() else path.read_bytes()
        found[os.fsdecode(path.relative_to(directory))] = stat.S_IMODE(status.st_mode), content
    return found


class CountedPlace(Place):
    """A place that notes which parts of packs are read."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.uri, place._client)
        self.ends: list[str] = []
        self.ranges: list[tuple[str, int, int]] = []

    def read_end(self, name: str, length: int) -> bytes:
        if name.endswith(".evp"):
            self.ends.append(name)
        return super().read_end(name, length)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        if name.endswith(".evp"):
            self.ranges.append((name, start, length))
        return super().read_range(name, start, length)
