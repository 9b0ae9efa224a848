"""Maintenance of the log: sealing journals, building the index from scratch, bringing it up to date."""

from __future__ import annotations

import json
import os
import shutil
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from glob import glob

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from benchmarks.frame import RATE_UNIT, TIME_UNIT, Bench, Row, Sides
from benchmarks.process import locus, run, seconds_of
from benchmarks.repository import make_repository
from benchmarks.stores import fill, sealed_store
from benchmarks.workload import Blocks
from eventlog import Store
from eventlog.exports import jsonl, jsonl_import
from eventlog.log.segment import FILE_SCHEMA, WRITE_OPTIONS

_NEW_EVENTS = 1_000


def rows() -> list[Row]:
    return [
        Row(
            name="seal",
            work="journals → verified Parquet, listed in a manifest",
            anchor="pyarrow writing the decoded table, same options",
            unit=RATE_UNIT,
            durability="both: the Parquet file synced; ours also its name, the manifest and the journals",
            prepare=_seal,
        ),
        Row(
            name="rebuild",
            work="rebuild of all projections",
            anchor="one bare DuckDB aggregate of the same columns, written to a database file",
            unit=RATE_UNIT,
            durability="both: database file checkpointed and synced",
            prepare=_rebuild,
            of_log=True,
        ),
        Row(
            name="index-incremental",
            work="index after 1,000 new events",
            anchor="our full rebuild of the same index",
            unit=TIME_UNIT,
            durability="both: database file checkpointed and synced",
            prepare=_index_incremental,
            of_log=True,
        ),
        Row(
            name="verify-read",
            work="verify --read of a store, in process",
            anchor="decompressing the same files and hashing the raw bytes with BLAKE3",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=_verify_read,
        ),
        Row(
            name="import-jsonl",
            work="import of our own JSON lines into an empty store, in process",
            anchor="json.loads over the same lines",
            unit=TIME_UNIT,
            durability="ours syncs every batch, the anchor keeps nothing",
            prepare=_import_jsonl,
        ),
    ]


@contextmanager
def _seal(bench: Bench) -> Iterator[Sides]:
    events = bench.pick(60_000, 300_000)
    with bench.scratch("seal") as directory:
        full = f"{directory}/full"
        with Store.init(full) as store:
            fill(store, Blocks(bench.seed, events).lines(), events)
        tables = _decoded(full, f"{directory}/decoded")
        yield Sides(
            ours=lambda: events / _seal_ours(full, f"{directory}/store"),
            anchor=lambda: events / _write_tables(tables, f"{directory}/table.parquet"),
            size=f"{events:,} events in {len(tables)} segment{'s' if len(tables) > 1 else ''}",
        )


def _seal_ours(full: str, path: str) -> float:
    shutil.copytree(full, path)
    os.sync()  # the copy's own dirty pages are not the sealer's work
    try:
        with Store.open(path) as store:
            start = time.perf_counter()
            store.seal()
            return time.perf_counter() - start
    finally:
        shutil.rmtree(path)


def _decoded(full: str, path: str) -> list[pa.Table]:
    """The events of the store as the tables that its segments hold, decoded and in memory."""
    shutil.copytree(full, path)
    with Store.open(path) as store:
        store.seal()
        with store.view() as view:
            tables = [pq.read_table(name, schema=FILE_SCHEMA) for name in view.segment_paths]
    shutil.rmtree(path)
    return [table.combine_chunks() for table in tables]


def _write_tables(tables: list[pa.Table], path: str) -> float:
    start = time.perf_counter()
    for table in tables:
        pq.write_table(table, path, **WRITE_OPTIONS)
        _sync(path)
    return time.perf_counter() - start


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


@contextmanager
def _rebuild(bench: Bench) -> Iterator[Sides]:
    source = sealed_store(bench)
    with source.copy(bench, "rebuild") as path, Store.open(path) as store:
        with store.view() as view:
            segments = list(view.segment_paths)
        yield Sides(
            ours=lambda: source.events / seconds_of(store.rebuild),
            anchor=lambda: source.events / _bare_aggregate(segments, f"{path}/../bare.duckdb"),
            size=f"{source.events:,} events in {source.segments} segments",
        )


def _bare_aggregate(segments: list[str], path: str) -> float:
    """What a person would write to get totals of each turn out of the columns that projections read.

    One pass and one table: no model call counted once, no keys from payloads, no sessions, no master.
    """
    start = time.perf_counter()
    connection = duckdb.connect(path)
    connection.execute(BARE, [segments])
    connection.execute("CHECKPOINT")
    connection.close()
    _sync(path)
    took = time.perf_counter() - start
    os.unlink(path)
    return took


BARE = """
    CREATE TABLE totals AS
    SELECT session_id, turn,
        max(agent) AS agent, max(agent_session_id) AS agent_session_id, max(repo) AS repo,
        max(branch) AS branch, max("commit") AS "commit", max(title) AS title, max(status) AS status,
        max(context_id) AS context_id, max(tree_hash) AS tree_hash, max(model) AS model,
        count(*) FILTER (event_type NOT IN ('session', 'turn', 'sessions')) AS events,
        count(*) FILTER (event_type = 'action') AS tool_calls,
        count(*) FILTER (event_type = 'error') AS errors,
        count(*) FILTER (resolved) AS errors_resolved,
        count(message_id) AS messages, count(request_id) AS requests,
        sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens,
        sum(reasoning_tokens) AS reasoning_tokens, sum(cache_read_tokens) AS cache_read_tokens,
        sum(cache_write_tokens) AS cache_write_tokens,
        sum(cache_write_1h_tokens) AS cache_write_1h_tokens, sum(duration_ms) AS duration_ms,
        list_distinct(list(path) FILTER (event_type = 'file' AND operation <> 'read')) AS files_modified,
        min(occurred_at) AS started_at, max(occurred_at) AS ended_at,
        min(position) AS first_position, max(position) AS last_position
    FROM read_parquet($1)
    GROUP BY session_id, turn
"""


@contextmanager
def _index_incremental(bench: Bench) -> Iterator[Sides]:
    source = sealed_store(bench)
    with source.copy(bench, "index") as path, Store.open(path) as store:
        store.rebuild()

        def after_new_events() -> float:
            store.journal.append(source.next_lines(_NEW_EVENTS))
            store.seal()
            os.sync()
            return seconds_of(store.reindex)

        yield Sides(
            ours=after_new_events,
            anchor=lambda: seconds_of(store.rebuild),
            size=f"{_NEW_EVENTS:,} events after {source.events:,}, sealed before the clock starts",
        )


@contextmanager
def _verify_read(bench: Bench) -> Iterator[Sides]:
    """A store of packs and segments: an imported history beside as many synthetic events."""
    events = bench.pick(60_000, 600_000)
    with bench.scratch("verify") as directory:
        repository, path = f"{directory}/project.git", f"{directory}/store"
        make_repository(repository, bench.seed, commits=bench.pick(400, 2_000), files=bench.pick(300, 1_500))
        Store.init(path).close()
        run([*locus(), "--store", path, "import", "git", repository])
        with Store.open(path) as store:
            fill(store, Blocks(bench.seed).lines(), events)
            store.seal()
            store.rebuild()
            with store.view() as view:
                segments = list(view.segment_paths)
            packs = sorted(glob(f"{path}/snapshots/packs/*.evp"))
            yield Sides(
                ours=lambda: seconds_of(lambda: _sound(store)),
                anchor=lambda: seconds_of(lambda: _hash_raw(segments, packs)),
                size=f"{len(segments)} segments, {len(packs)} packs, "
                f"{sum(map(os.path.getsize, [*segments, *packs])):,} bytes",
            )


def _sound(store: Store) -> None:
    findings = store.verify("read")
    if findings:
        raise RuntimeError(f"a store that was just made is damaged: {findings[0]}")


def _hash_raw(segments: list[str], packs: list[str]) -> None:
    """What cannot be left out: every byte read, decompressed and hashed once, on all cores."""
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        list(pool.map(_hash_segment, segments))
        list(pool.map(_hash_pack, packs))


def _hash_segment(path: str) -> None:
    digest = blake3()
    for column in pq.read_table(path).columns:
        for chunk in column.chunks:
            for buffer in chunk.buffers():
                if buffer is not None:
                    digest.update(buffer)
    digest.digest()


def _hash_pack(path: str) -> None:
    """Groups follow the header without gaps, each after its own head (docs/design.md §11.2)."""
    with open(path, "rb") as file:
        data = file.read()
    groups = int.from_bytes(data[-48:-44], "little")
    at = 24
    for _ in range(groups):
        codec = data[at]
        raw_size, stored_size = (int.from_bytes(data[at + i : at + i + 4], "little") for i in (4, 8))
        stored = memoryview(data)[at + 12 : at + 12 + stored_size]
        if codec == 1:
            raw = zlib.decompress(stored)
        elif codec == 2:
            raw = pa.Codec("zstd").decompress(stored, raw_size)
        else:
            raw = bytes(stored)
        blake3(raw).digest()
        at += 12 + stored_size


@contextmanager
def _import_jsonl(bench: Bench) -> Iterator[Sides]:
    events = bench.pick(60_000, 300_000)
    with bench.scratch("jsonl") as directory:
        file = f"{directory}/events.jsonl"
        with Store.init(f"{directory}/source") as source:
            fill(source, Blocks(bench.seed, events).lines(), events)
            source.seal()
            jsonl.export(source, file)
        yield Sides(
            ours=lambda: _seconds_of_import(file, f"{directory}/target"),
            anchor=lambda: seconds_of(lambda: _loads(file)),
            size=f"{events:,} events, {os.path.getsize(file):,} bytes",
        )


def _seconds_of_import(file: str, path: str) -> float:
    with Store.init(path) as store:
        try:
            return seconds_of(lambda: jsonl_import.load(store, file))
        finally:
            shutil.rmtree(path)


def _loads(path: str) -> None:
    with open(path, "rb") as file:
        for line in file:
            json.loads(line)
