"""Stores to compare: of transcripts, hooks, git and programs, and clones that share sessions."""

import os
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


def go_on(stores: "list[Store]") -> None:
    """Append to some of them: new sessions, and better rows of calls that an untouched session has."""
    call = {"event_type": "llm", "model": "m", "message_id": "msg-1", "request_id": "req-1"}
    for number, store in enumerate(stores[-3:], 9_000_000):
        at = {"occurred_at": 1_770_000_000_000_000}
        store.append([event(10 * number, **call, **at, agent_session_id="one", completion_tokens=5)])
        store.append([event(10 * number + 1, **at, agent_session_id="two")])


def beat(stores: "list[Store]") -> None:
    """A better row of the call of `go_on`, in another session: the one that had it is not touched else."""
    call = {"event_type": "llm", "model": "m", "message_id": "msg-1", "request_id": "req-1"}
    for number, store in enumerate(stores[-3:], 9_000_000):
        at = {"occurred_at": 1_770_000_100_000_000}
        store.append([event(10 * number + 5, **call, **at, agent_session_id="three", completion_tokens=500)])


def publish_all(place: Place, stores: "list[Store]") -> None:
    for store in stores:
        done = run("--store", store.layout.root, "publish", place.uri, "--yes")
        assert done.returncode == 0, done.stderr
