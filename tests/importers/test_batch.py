"""What an import writes together: contents first, then the events that name them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.errors import LockTimeout, NotFound
from eventlog.base.locks import GC, acquire
from eventlog.base.types import Event
from eventlog.blobs.ids import to_text
from eventlog.importers.batch import ImportBatch
from eventlog.store import Store
from tests.blobs.support import as_process
from tests.maintenance.support import make_store
from tests.secrets_made import made
from tests.simfs import SimFS, keep_all, keep_none


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.init(tmp_path / ".locus") as found:
        yield found


def is_free(store: Store) -> bool:
    """Whether a collector would get its lock, as another thread sees it."""

    def took() -> bool:
        try:
            acquire(store.fs, store.layout, GC, exclusive=True, timeout_s=0.0).release()
        except LockTimeout:
            return False
        return True

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(took).result()


def naming(id: bytes, number: int, **payload: Any) -> Event:
    return {
        "event_id": f"{number:032x}",
        "event_type": "file",
        "path": "a",
        "blobs": [to_text(id)],
        "payload": payload,
    }


def test_contents_are_durable_with_the_events_that_name_them(store: Store) -> None:
    """I24: nothing is written before the commit, and after it every id resolves; a content is stored once."""
    batch = ImportBatch(store, bytes_max=1000, events_max=3)
    ids = [batch.put(data, b"path") for data in (b"one", b"two", b"one")]
    for number, id in enumerate(ids):
        assert not batch.is_full
        batch.add(naming(id, number))
    assert batch.is_full and not list(store.events())
    with pytest.raises(NotFound):
        store.blobs.get(ids[0])

    batch.commit()

    assert [store.blobs.get(id) for id in ids] == [b"one", b"two", b"one"]
    assert [event["blobs"] for event in store.events()] == [[to_text(id)] for id in ids]
    assert (batch.blobs_stored, batch.events_appended, batch.is_full) == (2, 3, False)


def test_no_crash_leaves_an_event_without_its_content() -> None:
    """I24: wherever the machine stops in a commit, what the events in the log name is there."""
    fs = SimFS()
    store = make_store("/store", fs)
    fs.settle()
    ends: list[SimFS] = []
    fs.before = lambda _: ends.extend((fs.crash(keep_none), fs.crash(keep_all), fs.kill()))
    batch = ImportBatch(store, bytes_max=1000, events_max=3)
    batch.add(naming(batch.put(b"content", b"path"), 1))
    batch.commit()
    fs.before = None

    def looked_at() -> int:
        found = 0
        for end in [*ends, fs.crash(keep_none)]:
            with Store.open("/store", fs=end) as after:
                for event in after.events():
                    assert after.blob(str(event["blobs"][0])) == b"content"
                    found += 1
        return found

    assert as_process(looked_at) > 0
    store.close()


def test_what_is_not_committed_is_dropped(store: Store) -> None:
    """I24: a batch that is closed leaves no event, content or lock behind."""
    batch = ImportBatch(store, bytes_max=10, events_max=3)
    batch.add(naming(batch.put(b"x" * 15), 1))
    batch.put(b"y" * 15)  # more than twice what fills it: into a pack, under the lock
    assert not is_free(store)

    batch.close()

    assert is_free(store)
    batch.commit()
    assert not list(store.events())


def test_large_texts_become_contents_once_they_were_redacted(store: Store) -> None:
    """P5: what is moved out of an event is what the gate left of it, and no secret is among the contents."""
    secret = made()["npm"]
    batch = ImportBatch(store, bytes_max=1 << 20, events_max=10)
    text = f"{'so it goes. ' * 3000}{secret}{' and on' * 3000}"
    batch.add({"event_id": "0" * 32, "event_type": "action", "payload": {"result": text}}, len(text))
    batch.add({"event_id": "1" * 32, "event_type": "action", "payload": {"result": text[:20]}}, 20)

    batch.commit()

    events: list[Any] = list(store.events())
    large, small = events
    content = store.blob(large["payload"]["in_blobs"]["result"]["blob"])
    assert secret.encode() not in content and b"[REDACTED:npm-token:" in content
    assert large["redacted"] and not small["redacted"] and not store.withheld()
