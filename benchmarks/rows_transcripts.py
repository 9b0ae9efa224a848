"""What it costs to take in the transcripts that agents left, and what they take up then."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count

from benchmarks.frame import BYTES_UNIT, TIME_UNIT, Bench, NotRunnable, Row, Sides
from benchmarks.process import seconds_of
from benchmarks.transcripts import write_transcripts
from eventlog import Store
from eventlog.agents import formats
from eventlog.agents.kit.lines import FileSource
from eventlog.importers import importer, sources
from eventlog.importers.known_sessions import LogFacts

_ZSTD_LEVEL = 3
_MANY_SESSIONS = 70  # 51 MB

Found = dict[str, list[FileSource]]  # agent → its sources


def rows() -> list[Row]:
    return [
        Row(
            name="import-transcripts",
            work="import of 51 MB of transcripts into an empty store, in process, on one core",
            anchor="json.loads over the same lines",
            unit=TIME_UNIT,
            durability="ours syncs packs and journal",
            prepare=lambda bench: _first(bench, cores=1),
        ),
        Row(
            name="import-transcripts-two",
            work="the same where two cores may be used",
            anchor="json.loads over the same lines",
            unit=TIME_UNIT,
            durability="ours syncs packs and journal",
            prepare=lambda bench: _first(bench, cores=2),
        ),
        Row(
            name="import-again",
            work="a second import of the same files",
            anchor="the first",
            unit=TIME_UNIT,
            durability="ours writes nothing then",
            prepare=_again,
        ),
        Row(
            name="transcript-bytes",
            work="segments and packs of the imported transcripts, sealed",
            anchor=f"each transcript by zstd -{_ZSTD_LEVEL}",
            unit=BYTES_UNIT,
            durability="–",
            prepare=_bytes,
        ),
    ]


def _transcripts(bench: Bench) -> Found:
    """Those of `--transcripts`, a directory for each agent; else synthetic ones."""

    def build() -> Found:
        if bench.transcripts is None:
            directory = bench.new_directory("transcripts")
            paths = write_transcripts(directory, bench.seed, sessions=bench.pick(12, 120), turns=12)
            return {"claude-code": [FileSource("claude-code", [path]) for path in paths]}
        found = {}
        for agent in formats.AGENTS:
            directory = os.path.join(bench.transcripts, agent)
            if os.path.isdir(directory):
                found[agent] = sources.named(agent, [directory])
        if not found:
            raise NotRunnable(f"{bench.transcripts} has no directory that is called as an agent is")
        return found

    found: Found = bench.shared("transcripts", build)
    return found


def _many_transcripts(bench: Bench) -> Found:
    """Those of `--transcripts`; else synthetic ones of 50 MB at both scales."""
    if bench.transcripts is not None:
        return _transcripts(bench)

    def build() -> Found:
        directory = bench.new_directory("many-transcripts")
        paths = write_transcripts(directory, bench.seed, sessions=_MANY_SESSIONS, turns=12)
        return {"claude-code": [FileSource("claude-code", [path]) for path in paths]}

    found: Found = bench.shared("many-transcripts", build)
    return found


@contextmanager
def _on_cores(count: int) -> Iterator[None]:
    """Run on at most so many cores within, where the system can be asked to."""
    if not hasattr(os, "sched_setaffinity"):
        raise NotRunnable("this system does not keep a process to some cores")
    before = os.sched_getaffinity(0)
    if len(before) < count:
        raise NotRunnable(f"needs {count} cores")
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _run(store: Store, found: Found) -> None:
    facts = cache(lambda: LogFacts(store))
    for agent, of_agent in found.items():
        report = importer.run(store, agent, of_agent, facts=facts)
        if report.problems:
            raise RuntimeError(f"not imported: {report.problems[0]}")


def _parts(found: Found) -> list[str]:
    return [part for of_agent in found.values() for source in of_agent for part in source.parts]


def _parse_all(paths: list[str]) -> None:
    """One pass over all lines; a file that is one document is parsed as one."""
    for path in paths:
        with open(path, "rb") as file:
            try:
                for line in file:
                    json.loads(line)
            except ValueError:
                file.seek(0)
                json.loads(file.read())


@contextmanager
def _first(bench: Bench, *, cores: int) -> Iterator[Sides]:
    found = _many_transcripts(bench)
    paths = [path for path in _parts(found) if _is_text(path)]
    numbers = count()
    with bench.scratch("import-transcripts") as directory, _on_cores(cores):

        def ours() -> float:
            with Store.init(f"{directory}/{next(numbers)}") as store:
                return seconds_of(lambda: _run(store, found))

        yield Sides(
            ours=ours,
            anchor=lambda: seconds_of(lambda: _parse_all(paths)),
            size=_size_of(paths),
            rounds=bench.pick(3, 9),
        )


@contextmanager
def _again(bench: Bench) -> Iterator[Sides]:
    found = _transcripts(bench)
    numbers = count()
    with bench.scratch("import-again") as directory:
        done = Store.init(f"{directory}/done")
        _run(done, found)

        def first() -> float:
            with Store.init(f"{directory}/{next(numbers)}") as store:
                return seconds_of(lambda: _run(store, found))

        def again() -> float:
            with Store.open(f"{directory}/done") as store:
                return seconds_of(lambda: _run(store, found))

        try:
            yield Sides(ours=again, anchor=first, size=_size_of(_parts(found)), rounds=bench.pick(5, 7))
        finally:
            done.close()


@contextmanager
def _bytes(bench: Bench) -> Iterator[Sides]:
    import pyarrow as pa

    found = _transcripts(bench)
    codec = pa.Codec("zstd", compression_level=_ZSTD_LEVEL)
    with bench.scratch("transcript-bytes") as directory:
        with Store.init(f"{directory}/store") as store:
            _run(store, found)
            store.seal()
            kept = {
                name: _bytes_below(f"{directory}/store/{name}")
                for name in ("log/segments", "snapshots/packs")
            }
        sizes = []
        for path in _parts(found):
            with open(path, "rb") as file:
                sizes.append(len(codec.compress(file.read(), asbytes=True)))
        yield Sides(
            ours=lambda: float(sum(kept.values())),
            anchor=lambda: float(sum(sizes)),
            size=_size_of(_parts(found)),
            facts={f"bytes of {name}": float(size) for name, size in kept.items()},
            rounds=1,
            warm_up=False,
        )


def _bytes_below(directory: str) -> int:
    return sum(os.path.getsize(os.path.join(directory, name)) for name in os.listdir(directory))


def _is_text(path: str) -> bool:
    with open(path, "rb") as file:
        return not file.read(16).startswith(b"SQLite format 3")


def _size_of(paths: list[str]) -> str:
    return f"{sum(map(os.path.getsize, paths)) / 1e6:.1f} MB in {len(paths)} files"
