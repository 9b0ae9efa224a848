"""Bit flips, cuts, zeros and rubbish in every kind of file of a store: reported, or without effect.

The store of these tests has every kind there is, a working directory beside it, and a restore into it that
was killed. A damaged copy is asked everything in a process of its own, which has a limit on memory and on
time. A question is answered right, or with one of our errors, or `verify` names the file; what was kept is
there afterwards; and nothing but our errors is raised. What a person wrote into config.toml may be anything.

By default one damage of some kinds is tried, chosen by LOCUS_SEED (1). LOCUS_HUNT=minutes tries any byte and
any cut of any file for so long, in an order that the seed gives; a failure names the file, the damage and
the seed.
"""

import json
import os
import random
import resource
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eventlog.base import config
from eventlog.base.errors import EventLogError
from eventlog.base.types import Event
from eventlog.erasure import erasure
from eventlog.gc.live_contents import live_ids
from eventlog.hooks import state
from eventlog.importers import source_stamps
from eventlog.log.sweep import sweep
from eventlog.maintenance.backup import backup
from eventlog.retention import collection, retention
from eventlog.store import Store
from eventlog.worktree.capture import capture
from tests.kills import in_child
from tests.recorder.kept import record, replayed

CANARY = "tulipFox81zebra-Q7"
KEPT, GONE = "aaaaaaaa", "bbbbbbbb"
WORKTREE = "0" * 16
TOLD, GROWN = [[7, 1000, 5_000_000]], [[7, 2000, 6_000_000]]  # a transcript when it was imported, and later
MEMORY_MAX = 4 << 30
TIME_S_MAX = 120

# Which kind a file is of, by its place; each must be there.
KINDS = (
    "STORE", "config.toml", "config.json", "redaction.key", "erased", "erased.copy", "log/journal",
    "log/acknowledged", "log/segments", "log/manifest", "log/quarantine", "index", "snapshots/packs",
    "snapshots/condemned", "snapshots/idx/0", "snapshots/idx/young", "snapshots/gc_generation",
    "snapshots/statcache", "live", "live/budget", "live/imports.json", "restore", "../copy/BACKUP",
)  # fmt: skip
_BY_DEFAULT = 3


@dataclass(frozen=True)
class Whole:
    """The undamaged store with all beside it, and what it answers. A restore knows where its target is, so
    copies are asked `here`, where the store was made."""

    directory: Path
    here: Path
    answers: dict[str, Any]
    files: list[str]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    directory = tmp_path_factory.mktemp("here")
    root, work = directory / ".locus", directory / "work"
    work.mkdir()
    for name in ("one", "two", "three"):
        (work / name).write_bytes(name.encode() * 50)
    with Store.init(root, project_name="p", repo_hash="9f86d081884c", force=True) as store:
        (root / "config.toml").write_text("[retention]\nmax_sessions = 500\n")
        record(store, KEPT)
        store.append([{"event_type": "action", "agent": "pi", "session_id": KEPT, "payload": {"x": CANARY}}])
        store.seal()
        record(store, GONE)
        erasure.erase(store, erasure.plan_secret(store, CANARY))
        store.seal()
        store.reindex()
        retention.archive(store, GONE)
        collection.collect(store, collection.plan(store))
        _tear(store)
        tree = _captured(store, work)
        place = {"agent": "pi", "session_id": KEPT, "turn": 3}
        store.append(
            [
                {"event_type": "turn", "operation": "start", **place},
                {
                    "event_type": "snapshot",
                    "operation": "turn_end",
                    "tree_hash": tree,
                    "blobs": [tree],
                    **place,
                },
            ]
        )
        store.journal.rotate()
        store.append([{"event_type": "action", "agent": "pi", "session_id": KEPT}])
        state.write_checkpoint(
            store.layout,
            WORKTREE,
            state.CaptureCheckpoint(
                bytes.fromhex(tree.removeprefix("blake3:")), "n", {"s": ["pi", "t", "", "1"]}
            ),
        )
        state.note_calls(store.layout, KEPT, [["named"], ["begun", "t"]])
        config.read(store.fs, store.layout)
        store.blobs.build_idx()
        for content in (b"young", b"younger"):
            with store.blobs.writer() as writer:
                writer.put(content)
                writer.flush()
        collection._note_budget(store)
        source_stamps.write(store.fs, store.layout, {"/chat.jsonl": TOLD})
        backup(store, directory / "copy")
    (work / "two").write_bytes(b"the day's work")
    number = 16
    while not (os.path.isdir(root / "restore") and os.listdir(root / "restore")):
        assert in_child(lambda: _restore(root, work), number)
        number += 4
    files = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and p.stat().st_size)
    files = [name for name in (*files, "../copy/BACKUP") if name.startswith(KINDS)]
    assert {kind for kind in KINDS if not any(name.startswith(kind) for name in files)} == set()
    template = tmp_path_factory.mktemp("whole") / "store"
    shutil.copytree(directory, template, symlinks=True)
    answers = asked(template, directory, None)
    assert not [answer for answer in answers["told"].values() if "error" in answer], answers
    assert answers["wrong"] == [], answers
    return Whole(template, directory, answers["told"], files)


def _tear(store: Store) -> None:
    """A frame that was cut short, and put aside by the next append."""
    path = Path(
        store.layout.journal(max(int(p.stem) for p in Path(store.layout.directory("log/journal")).iterdir()))
    )
    store.journal.close()
    with open(path, "r+b") as file:
        file.seek(len(file.read().rstrip(b"\0")))
        file.write(b"half a frame")
    store.append([{"event_type": "action", "agent": "pi", "session_id": KEPT}])


def _captured(store: Store, work: Path) -> str:
    with store.blobs.writer() as writer:
        found = capture(writer, str(work))
        writer.flush()
    return f"blake3:{found.root.hex()}"


def _restore(root: Path, work: Path) -> None:
    with Store.open(root) as store:
        store.restore(store.restore_plan(f"{KEPT}_003", into=work))


# -- questions ----------------------------------------------------------------------------------------


def _events(store: Store, _: Path) -> Any:
    return [[event["event_id"], event["payload"]] for event in store.events()]


def _replays(store: Store, directory: Path) -> Any:
    found = {}
    for turn in (1, 2):
        files = replayed(store, f"{KEPT}_{turn:03d}", directory / f"replayed {turn}")
        found[f"{turn}"] = {name: data.hex() for name, data in sorted(files.items())}
    return found


def _collect(store: Store, _: Path) -> Any:
    """What is live is what was live, so nothing else may go."""
    with store.view() as view:
        limits = {GONE: 1 << 62}
        live = live_ids(store.blobs, collection._roots(store, view, limits))
    collection.collect(store, collection.plan(store))
    return len(live) > 0


def _recover(store: Store, directory: Path) -> Any:
    """The working directory is wholly as before or as wanted, or the fault was reported."""
    store.recover_restore(undo=True)
    return sorted([path.name, path.read_text()] for path in (directory / "work").iterdir())


def _append(store: Store, _: Path) -> Any:
    event: Event = {"event_type": "action", "event_id": "f" * 32, "payload": {"x": "said"}}
    base = store.append([event])[0]
    return [row["event_id"] for row in store.events(base)] == ["f" * 32]


QUESTIONS: dict[str, Callable[[Store, Path], Any]] = {
    "events": _events,
    "replays": _replays,
    "turns": lambda store, _: store.query("select count(*) from turns").rows[0][0],
    "settings": lambda store, _: config.read(store.fs, store.layout).max_sessions,
    "told": lambda store, _: bool(state.read_checkpoint(store.layout, WORKTREE)),
    "calls": lambda store, _: bool(state.read_calls(store.layout, KEPT)),
    "recover": _recover,
    "capture": lambda store, directory: _captured(store, directory / "work"),
    "resume": lambda store, _: erasure.is_unfinished(erased(store)),
    "append": _append,
    "erased": lambda store, _: CANARY in store.redactor.text(f"again {CANARY}"),
    "collect": _collect,
    "seal": lambda store, _: store.seal() is None,
    "repack": lambda store, _: store.repack(everything=True) is None,
    "sweep": lambda store, _: bool(sweep(store.fs, store.layout)),
    "backup": lambda store, directory: backup(store, directory / "copy").next_position > 0,
    "budget": lambda store, _: collection._budget_was_tried(store) in (True, False),  # a day is what it costs
    "imports": lambda store, _: source_stamps.read(store.fs, store.layout).get("/chat.jsonl") == GROWN,
    "replays again": lambda store, directory: _replays(store, directory / "again"),
}


def erased(store: Store) -> Store:
    erasure.resume(store)
    return store


def asked(whole: Path, copy: Path, damage: "Callable[[Path], object] | None") -> dict[str, Any]:
    """What a damaged copy answers to everything; `wrong` is what nobody may meet."""
    for path in [*(copy / "work").iterdir(), *(path for path in copy.iterdir() if path.name != "work")]:
        path.unlink() if path.is_file() else shutil.rmtree(path)
    # The directory that is restored into is known by its inode.
    shutil.copytree(whole, copy, symlinks=True, dirs_exist_ok=True)
    if damage is not None:
        damage(copy / ".locus")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            signal.alarm(TIME_S_MAX)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_MAX,) * 2)
            with os.fdopen(writing, "w") as answer:
                json.dump(_ask(copy), answer)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    status = os.waitpid(pid, 0)[1]
    if not text:
        return {"told": {}, "wrong": [f"it ended without an answer, status {status}"], "named": []}
    found: dict[str, Any] = json.loads(text)
    return found


def _ask(copy: Path) -> dict[str, Any]:
    payload: dict[str, Any] = {}
    wrong: list[str] = []
    named: list[str] = []

    def ask(name: str, question: Callable[[], Any]) -> None:
        try:
            payload[name] = {"answer": question()}
        except EventLogError as error:
            payload[name] = {"error": f"{type(error).__name__}: {error}"}
        except Exception:
            wrong.append(f"{name}: {traceback.format_exc(limit=-4)}")

    def verify() -> None:
        with Store.open(copy / ".locus") as store:
            named.extend(finding.path for finding in store.verify("read"))

    try:
        verify()
    except EventLogError as error:
        if "STORE" not in str(error):
            wrong.append(f"verify: {error}")
        named.append(str(copy / ".locus/STORE"))
    except Exception:
        wrong.append(f"verify: {traceback.format_exc(limit=-4)}")
    for name, question in QUESTIONS.items():

        def answer(question: Callable[[Store, Path], Any] = question) -> Any:
            with Store.open(copy / ".locus") as store:
                (copy / "again").mkdir(exist_ok=True)
                return question(store, copy)

        ask(name, answer)
    return {"told": payload, "wrong": wrong, "named": named}


def problems_of(whole: Whole, name: str, data: bytes) -> list[str]:
    """Put these bytes in place of a file's, and ask."""
    found = asked(whole.directory, whole.here, lambda root: (root / name).write_bytes(data))
    problems = list(found["wrong"])
    for question, right in whole.answers.items():
        answer = found["told"].get(question, {"error": "none"})
        if answer == right or "error" in answer or found["named"]:
            continue
        if question == "settings" and name == "config.toml":
            continue
        if (
            question == "events"
            and name.startswith("log/journal")
            and answer["answer"] == right["answer"][: len(answer["answer"])]
        ):
            continue  # a journal that ends early is an append that was cut short
        problems.append(f"{question}: {json.dumps(answer)[:300]} and not {json.dumps(right)[:300]}")
    return problems


def damages_of(data: bytes, draw: random.Random) -> Iterator[tuple[str, bytes]]:
    """Without end. Of the zeros at the end, a journal's room, few are hit."""
    size = min(len(data), len(data.rstrip(b"\0")) + 8)
    while True:
        at, bit = draw.randrange(size), draw.randrange(8)
        yield f"bit {bit} of byte {at}", data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        cut = draw.randrange(size)
        yield f"cut at {cut}", data[:cut]
        yield f"zeros from {cut}", data[:cut] + bytes(size - cut)
        yield f"rubbish at {at}", data[:at] + draw.randbytes(16) + data[at + 16 :]
        yield "doubled", data + data


def _one_of_each(whole: Whole, draw: random.Random) -> Iterator[tuple[str, str, bytes]]:
    """A damage of a file of each kind, and so on."""
    sources = {}
    while True:
        for kind in draw.sample(KINDS, len(KINDS)):
            name = draw.choice([name for name in whole.files if name.startswith(kind)])
            if name not in sources:
                sources[name] = damages_of((whole.directory / ".locus" / name).read_bytes(), draw)
            for _ in range(draw.randrange(1, 4)):
                what, data = next(sources[name])
            yield name, what, data


def test_damage_of_any_kind_of_file_is_reported_or_has_no_effect(whole: Whole) -> None:
    """I11, I22, I24, I35: never a wrong answer, another error than ours, a hang, or memory without bound."""
    seed = int(os.environ.get("LOCUS_SEED", "1"))
    cases = _one_of_each(whole, random.Random(seed))
    for _ in range(_BY_DEFAULT):
        name, what, data = next(cases)
        assert problems_of(whole, name, data) == [], f"{name}: {what}, seed {seed}"


def test_hunt_with_damage_of_any_kind_of_file(whole: Whole, hunt_minutes: float) -> None:
    """I11, I22, I24, I35: the same for any byte and cut, as long as LOCUS_HUNT says."""
    if not hunt_minutes:
        pytest.skip("LOCUS_HUNT=minutes hunts")
    seed = int(os.environ.get("LOCUS_SEED", random.randrange(2**31)))
    until = time.monotonic() + hunt_minutes * 60
    done, failed = 0, []
    for name, what, data in _one_of_each(whole, random.Random(seed)):
        failed += [f"{name}: {what}: {problem}" for problem in problems_of(whole, name, data)]
        done += 1
        if time.monotonic() > until:
            break
    print(f"{done} damages, seed {seed}")
    assert failed == []
