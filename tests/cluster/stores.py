"""Stores to compare: of transcripts, hooks, git and programs, and clones that share sessions."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import workload
from eventlog.lake.place import Place
from eventlog.lake.policy import Policy
from eventlog.store import Store
from tests.golden import stores as golden
from tests.lake.publishing import new_store, set_policy
from tests.lake.small import run
from tests.maintenance.support import event

# All that the fold reads leaves.
WIDE = Policy(texts=True, paths=True, people="full")
_GOLDEN = ("transcripts-first", "hooks-first", "git", "erased", "api")
_EVENTS = 3_000
# A directory with one for each agent, in which are the sessions that `locus import AGENT` reads.
CORPUS = os.environ.get("LOCUS_CORPUS", "")


@contextmanager
def made(directory: Path) -> "Iterator[list[Store]]":
    """Stores below a directory; the last two have copies of the sessions of the first."""
    stores = [Store.open(golden.unpack(name, directory / name).store) for name in _GOLDEN]
    stores.append(_generated(directory / "generated"))
    stores += [_imported(agent, directory / f"corpus-{agent.name}") for agent in _agents()]
    stores += _clones(stores[0], directory)
    for store in stores:
        set_policy(store, WIDE)
    yield stores
    for store in stores:
        store.close()


def _generated(directory: Path) -> Store:
    store = new_store(directory)
    store.append(workload.with_stored_contents(store, workload.generate(7, _EVENTS)))
    return store


def _agents() -> "list[Path]":
    return sorted(path for path in Path(CORPUS).iterdir() if path.is_dir()) if CORPUS else []


def _imported(agent: Path, directory: Path) -> Store:
    store = new_store(directory)
    files = sorted(str(path) for path in agent.rglob("*") if path.is_file())
    done = run("--store", store.layout.root, "import", agent.name.removesuffix("-cli"), *files)
    assert done.returncode in (0, 4), done.stderr
    return store


def _clones(store: Store, directory: Path) -> "Iterator[Store]":
    """Two stores with copies of the events of one, in other logs."""
    lines = directory / "events.jsonl"
    done = run("--store", store.layout.root, "export", "jsonl", "--contents", "--to", lines)
    assert done.returncode == 0, done.stderr
    for name in ("clone", "another clone"):
        clone = new_store(directory / name)
        done = run("--store", clone.layout.root, "import", "jsonl", lines)
        assert done.returncode == 0, done.stderr
        yield clone


def go_on(stores: "list[Store]") -> str:
    """Append two sessions to the last three; one of them has a call of a model, whose id is given back."""
    message = uuid.uuid4().hex
    for store in stores[-3:]:
        _append(store, f"one-{message}", event_type="llm", message_id=message, completion_tokens=5)
        _append(store, f"two-{message}")
    return message


def beat(stores: "list[Store]", message: str) -> None:
    """Append a better row of that call, in a session of its own: nothing else touches the one that had it."""
    for store in stores[-3:]:
        _append(store, f"three-{message}", event_type="llm", message_id=message, completion_tokens=500)


def _append(store: Store, session: str, **columns: object) -> None:
    at = 1_770_000_000_000_000
    store.append([event(uuid.uuid4().int, agent_session_id=session, model="m", occurred_at=at, **columns)])


def publish_all(place: Place, stores: "list[Store]") -> None:
    for store in stores:
        done = run("--store", store.layout.root, "publish", place.uri, "--yes")
        assert done.returncode == 0, done.stderr
