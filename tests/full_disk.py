"""A store on a file system that is really full, for tests: one of its own, in a mount namespace of its own.

`unshare --mount python -m tests.full_disk DIRECTORY KIND VERB ROOM…` does a verb of the command line where
ROOM bytes are left, reads meanwhile, makes room, does it again, and prints a line of JSON for each ROOM. KIND
is `tmpfs` or `ext4`.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from eventlog.base.errors import NotFound
from eventlog.blobs.tree import DIRECTORY, SKIPPED
from eventlog.query.lookup import TurnRef
from eventlog.replay.trees import TreeState
from eventlog.store import Store
from tests.cli.support import Ended, git, locus_process, make_history

SECRET = "tulip fox"
SIZE_MB = 32
Rows = list[list[str]]


class Disk:
    """DIRECTORY/disk, where a copy of DIRECTORY/template is put."""

    def __init__(self, directory: Path, kind: str) -> None:
        self.directory, self.kind = directory, kind
        self.root, self.template = directory / "disk", directory / "template"
        self.work = self.root / "work"
        self.filler = self.root / "filler"

    def mount(self) -> None:
        if self.kind == "tmpfs":
            what = ["-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs"]
        else:
            image = self.directory / "image"
            with image.open("wb") as file:
                file.truncate(SIZE_MB << 20)
            subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
            what = ["-o", "loop", str(image)]
        subprocess.run(["mount", *what, str(self.root)], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", str(self.root)], check=True)

    def fill(self, room: int) -> None:
        """Take all but `room` bytes, which are given back from the filler's end."""
        with self.filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while file.write(bytes(size)) == size:
                        pass
                except OSError:
                    pass
            os.fsync(file.fileno())
            file.truncate(max(0, file.tell() - room))

    def make_room(self) -> None:
        self.filler.unlink()

    def locus(self, *words: object, stdin: bytes = b"") -> Ended:
        return locus_process(*words, cwd=self.work, stdin=stdin, LOCUS_NO_MAINTENANCE="1")

    def hook(self, name: str, **fields: Any) -> Ended:
        """One hook of Claude Code as a process."""
        payload = {"session_id": "full-9", "prompt_id": "p-9", "cwd": str(self.work), "hook_event_name": name}
        environ = {**os.environ, "LOCUS_NO_MAINTENANCE": "1", "LOCUS_HOOK_PATIENCE": "20"}
        command = [sys.executable, "-m", "locus_cli.hook_entry", "claude-code"]
        stdin = json.dumps({**payload, **fields}).encode()
        done = subprocess.run(command, input=stdin, env=environ, cwd=self.work, capture_output=True)
        return Ended(done.returncode, done.stdout, done.stderr.decode())


def prepare(disk: Disk) -> None:
    """A repository whose store has three segments, a tail, packs, a released session, an index of words."""
    disk.root.mkdir(parents=True)
    make_history(disk.work)
    Store.init(disk.work / ".locus").close()
    disk.locus("import", "git")
    disk.locus("store", "seal")
    for number, text in enumerate(("one", SECRET, "three")):
        place = {"session_id": f"full-{number}", "prompt_id": f"p-{number}"}
        disk.hook("SessionStart", **place, source="startup")
        disk.hook("UserPromptSubmit", **place, prompt=f"Write {text}")
        (disk.work / f"file-{number}").write_bytes(
            text.encode() + b"\n" + os.urandom(400_000 if number == 0 else 30_000)
        )
        disk.hook("Stop", **place)
        if number == 0:
            disk.hook("UserPromptSubmit", **{**place, "prompt_id": "p-again"}, prompt="Take it away")
            (disk.work / "file-0").unlink()
            disk.hook("Stop", **{**place, "prompt_id": "p-again"})
        disk.hook("SessionEnd", **place)
        if number < 2:
            disk.locus("store", "seal")
    with Store.open(disk.work / ".locus") as store:
        [[session]] = store.query("select session_id from sessions where agent_session_id = 'full-0'").rows
    assert disk.locus("store", "archive", session).code == 0
    assert disk.locus("search", "Write", "--wait").code == 0
    assert disk.locus("store", "verify", "--deep").code == 0
    (disk.work / "later").write_text("committed later\n" + "x\n" * 5000)
    git(disk.work, "add", "later")
    git(disk.work, "commit", "-qm", "Later", at=9)
    shutil.move(disk.root, disk.template)
    disk.root.mkdir()


def events_of(disk: Disk) -> Rows:
    with Store.open(disk.work / ".locus") as store:
        return [[str(event["event_id"]), str(event["position"])] for event in store.events()]


def trees_of(disk: Disk) -> dict[str, str]:
    """A digest of the files at the end of each turn, but of the released session's."""
    found = {}
    with Store.open(disk.work / ".locus") as store:
        kept = "select session_id from sessions where agent_session_id is distinct from 'full-0'"
        for session, turn in store.query(
            f"select session_id, turn from turns where session_id in ({kept})"
        ).rows:
            state = store.tree(TurnRef(session, turn), "end")
            digest = hashlib.sha256(str(state.certainty).encode())
            for path, entry in state.walk():
                digest.update(path + b"\0")
                if entry.kind not in (DIRECTORY, SKIPPED):
                    digest.update(_bytes_of(state, entry.id))
            found[f"{session}_{turn}"] = digest.hexdigest()
    return found


def _bytes_of(state: TreeState, id: bytes) -> bytes:
    try:
        return bytes(state.blobs.get(id))
    except NotFound:
        return b"erased"


def damage(disk: Disk) -> None:
    """A copy elsewhere, and rot in a segment."""
    assert disk.locus("store", "backup", disk.directory / "copy").code == 0
    segment = min((disk.work / ".locus/log/segments").iterdir())
    data = bytearray(segment.read_bytes())
    data[len(data) // 3] ^= 4
    segment.write_bytes(data)


def hooks(disk: Disk) -> Ended:
    """A session of which every hook meets the full disk; each is silent and ends well."""
    for name, fields in (
        ("SessionStart", {"source": "startup"}),
        ("UserPromptSubmit", {"prompt": "Go on"}),
        ("Stop", {}),
        ("SessionEnd", {}),
    ):
        done = disk.hook(name, **fields)
        assert (done.code, done.out, done.err) == (0, b"", ""), (name, done)
    return done


VERBS: dict[str, tuple[object, ...]] = {
    "seal": ("store", "seal"),
    "compact": ("store", "compact", "--all"),
    "repack": ("store", "repack", "--all"),
    "gc": ("store", "gc", "--yes"),
    "erase": ("store", "erase", "--secret", "-", "--yes"),
    "backup": ("store", "backup", "../copy"),
    "salvage": ("store", "salvage", "../saved"),
    "repair": ("store", "repair", "--yes", "--from", "../../copy"),
    "rebuild": ("store", "rebuild"),
    "index": ("search", "Write", "--wait"),
    "import": ("import", "git"),
    "restore": ("restore", "last", "--yes"),
    "hook": (),
}


def prepared(disk: Disk, verb: str) -> None:
    shutil.copytree(disk.template, disk.root, symlinks=True, dirs_exist_ok=True)
    if verb == "repair":
        damage(disk)
    if verb == "index":
        for path in (disk.work / ".locus/index").iterdir():
            path.unlink()
    if verb == "restore":
        (disk.work / "file-2").write_bytes(os.urandom(50_000))  # which is saved before it is replaced


def done_at(disk: Disk, verb: str) -> Ended:
    if verb == "salvage":
        shutil.rmtree(disk.root / "saved", ignore_errors=True)  # it wants a new place each time
    return hooks(disk) if verb == "hook" else disk.locus(*VERBS[verb], stdin=SECRET.encode())


def attacked(disk: Disk, verb: str, room: int) -> dict[str, Any]:
    """What happened: the full disk's answer, what could be read, and how it ended with room again."""
    prepared(disk, verb)
    before = [] if verb == "repair" else events_of(disk)
    trees = {} if verb == "repair" else trees_of(disk)
    disk.fill(room)
    full = done_at(disk, verb)
    output = disk.locus("log")
    meanwhile = [] if verb == "repair" else events_of(disk)
    disk.make_room()
    again = done_at(disk, verb)
    verified = disk.locus("store", "verify", "--deep")
    shutil.rmtree(disk.directory / "copy", ignore_errors=True)
    after = trees_of(disk)
    return {
        "verb": verb, "room": room, "code": full.code, "err": full.err, "log": output.code,
        "lost": [row for row in before if row not in meanwhile or row not in events_of(disk)],
        "again": [again.code, again.err], "verified": [verified.code, verified.text[-300:]],
        "changed": [name for name, tree in trees.items() if after.get(name) != tree],
        "turns": len(after), "left": sorted(os.listdir(disk.work / ".locus/tmp")),
    }  # fmt: skip


def main(directory: str, kind: str, verb: str, *rooms: str) -> None:
    disk = Disk(Path(directory), kind)
    for room in rooms:
        disk.mount()
        try:
            print(json.dumps(attacked(disk, verb, int(room))), flush=True)
        finally:
            disk.unmount()


if __name__ == "__main__":
    main(*sys.argv[1:])
