"""The processes of a history that have to do with contents: recording, collecting, merging, copying,
erasing.

As those of tests/history.py they write down what they were answered, and run until they are killed. Sessions
whose ids begin with `K` are kept for ever, those with `L` are let go as soon as they have ended.
"""

import json
import random
import shutil
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventlog.base.errors import LockTimeout, Refused
from eventlog.base.types import Event
from eventlog.blobs.ids import to_text
from eventlog.erasure import erasure
from eventlog.maintenance.backup import backup
from eventlog.retention import collection, retention
from eventlog.store import Store
from tests.recorder.kept import DAY_S, record

if TYPE_CHECKING:
    from tests.history import Report

# Large enough that waiting for others on a busy machine is no failure.
LOCK_TIMEOUT_S = 60.0


def copy_of(root: "str | Path") -> Path:
    """Where the copy of the store is made."""
    return Path(root).parent / "backup"


def keep(store: Store, name: str, choose: random.Random, report: "Report", scratch: Path) -> None:
    """Record sessions, check now and then whether an older one is what it was, let some go."""
    done: list[tuple[str, dict[str, str]]] = []
    for n in range(1 << 30):
        gone = choose.random() < 0.3
        session = f"{'L' if gone else 'K'}{name}n{n}"
        reported = record(
            store, session, 1, size=choose.randrange(1, 4000), lock_timeout_s=LOCK_TIMEOUT_S, end=True
        )
        for turn, files in reported.items():
            digests = {path: digest(data) for path, data in files.items()}
            if not gone:
                report.write(kept=turn, files=digests)
                done.append((turn, digests))
        if gone:
            with suppress(LockTimeout):
                retention.archive(store, session, lock_timeout_s=LOCK_TIMEOUT_S)
        if done:
            turn, digests = choose.choice(done)
            for wrong in differs(store, turn, digests, scratch):
                report.write(broken=wrong)


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def differs(store: Store, turn: str, digests: dict[str, str], scratch: Path) -> list[str]:
    """I24: what is wrong with the replay of a kept turn, byte for byte."""
    shutil.rmtree(scratch, ignore_errors=True)
    missing = store.replay(turn, scratch).missing
    found = {
        str(path.relative_to(scratch)): digest(path.read_bytes())
        for path in scratch.rglob("*")
        if path.is_file()
    }
    if missing or found != digests:
        return [f"I24: {turn}: missing {missing}, found {sorted(found)}"]
    return []


def collect(store: Store, report: "Report") -> None:
    """Collect, and let the day of what is condemned be over."""
    while True:
        with suppress(Refused, LockTimeout):  # somebody else was quicker
            done = collection.collect(store, collection.plan(store), lock_timeout_s=LOCK_TIMEOUT_S)
            report.write(collected=len(done.condemned), swept=len(done.swept.unlinked))
        directory = Path(store.layout.directory("snapshots/condemned"))
        for path in directory.iterdir():
            since, _, rest = path.name.partition("-")
            with suppress(FileNotFoundError):
                path.rename(directory / f"{int(since) - DAY_S - 60}-{rest}")


def merge(store: Store, choose: random.Random, report: "Report") -> None:
    while True:
        with suppress(LockTimeout):
            done = store.repack(everything=choose.random() < 0.5, lock_timeout_s=LOCK_TIMEOUT_S)
            report.write(merged=len(done.condemned))
        store.blobs.build_idx()


def erase(store: Store, name: str, report: "Report") -> None:
    """Say what should not have been said, in an event and a content, take it out, and say it once more."""
    for n in range(1 << 30):
        word = f"tulip{name}fox{n}-Q7"
        with store.blobs.writer(lock_timeout_s=LOCK_TIMEOUT_S) as writer:
            content = to_text(writer.put(word.encode() * 9))
            writer.flush()
            store.append([_saying(word, blobs=[content])])
        with suppress(LockTimeout):
            erasure.resume(store, lock_timeout_s=LOCK_TIMEOUT_S)  # of one who was killed
            plan = erasure.plan_secret(store, word)
            erasure.erase(store, plan, lock_timeout_s=LOCK_TIMEOUT_S)
            store.append([_saying(word)])
            report.write(erased=word)


def _saying(secret: str, **columns: object) -> Event:
    return {"event_type": "action", "agent": "tester", "payload": {"x": f"it is {secret}!"}, **columns}


def copy(store: Store, name: str, report: "Report") -> None:
    """Bring the copy up to date, and read it: a read of the log that began with the backup."""
    from tests.history import digests

    while True:
        begin = time.monotonic_ns()
        with suppress(LockTimeout):
            backup(store, copy_of(store.layout.root), lock_timeout_s=LOCK_TIMEOUT_S)
            rows, end = rows_of_copy(store.layout.root)
            *_, recorded = digests(rows)
            payload = {"reader": name, "begin": begin, "end": time.monotonic_ns()}
            report.write(read={**payload, "next_position": end, "digest": recorded}, turns=None, copied=True)


def rows_of_copy(root: "str | Path") -> tuple[list[dict[str, Any]], int]:
    with Store.open(copy_of(root)) as store:
        findings = [finding for finding in store.verify("read") if finding.damage]
        assert findings == [], findings
        with store.view() as view:
            rows = [{**row, "payload": json.loads(str(row["payload"]))} for row in view.iterate()]
            return rows, view.next_position
