"""A process that does one thing and says the highest resident memory that took, in MB.

    python -m benchmarks.resident import STORE REPOSITORY
    python -m benchmarks.resident seal STORE COUNT SEED
    python -m benchmarks.resident rebuild STORE
    python -m benchmarks.resident append STORE COUNT SEED
    python -m benchmarks.resident query STORE
    python -m benchmarks.resident export STORE FORM DIRECTORY

`import` runs the installed command, whose children (git) do not count. `seal` fills a new store with COUNT
events and seals it, `append` appends COUNT events one by one. `query` asks the twelve questions of
docs/sql.md. `export` makes every record for LocusGraph (FORM locusgraph), but neither a file nor a call;
lines of JSON (jsonl), which it throws away; or files (parquet, duckdb) in DIRECTORY.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable


def main() -> None:
    work, path, *rest = sys.argv[1:]
    works: dict[str, Callable[..., float]] = {
        "import": import_git,
        "seal": seal,
        "rebuild": rebuild,
        "append": append,
        "query": query,
        "export": export,
    }
    print(works[work](path, *rest))


def import_git(path: str, repository: str) -> float:
    from benchmarks.process import environment, locus

    run = [*locus(), "--store", path, "init"], [*locus(), "--store", path, "import", "git", repository]
    subprocess.run(run[0], check=True, env=environment(), stdout=subprocess.DEVNULL)
    process = subprocess.Popen(run[1], env=environment(), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{run[1]} ended with code {process.returncode}")
    return usage.ru_maxrss * 1024 / 1e6


def seal(path: str, count: str, seed: str) -> float:
    from benchmarks.stores import fill
    from benchmarks.workload import Blocks
    from eventlog import Store

    with Store.init(path) as store:
        fill(store, Blocks(int(seed), 5_000).lines(), int(count))
        store.seal()
    return highest_mb()


def rebuild(path: str) -> float:
    from eventlog import Store

    with Store.open(path) as store:
        store.rebuild()
    return highest_mb()


def append(path: str, count: str, seed: str) -> float:
    from benchmarks.workload import generate, with_stored_contents
    from eventlog import Store

    with Store.open(path) as store:
        for event in with_stored_contents(store, generate(int(seed), int(count))):
            event["event_id"] = "4e50" + str(event["event_id"])[4:]
            store.append([event])
    return highest_mb()


def query(path: str) -> float:
    from benchmarks.rows_sql import twelve
    from eventlog import Store

    with Store.open(path) as store:
        for question in twelve():
            store.query(question)
    return highest_mb()


def export(path: str, form: str, directory: str) -> float:
    from eventlog import Store
    from eventlog.exports import database, jsonl, parquet
    from eventlog.exports.locusgraph import locusgraph

    with Store.open(path) as store:
        if form == "locusgraph":
            locusgraph.export(
                store, f"{directory}/never", locusgraph.RecordOptions(diffs=False), since=0, dry_run=True
            )
        elif form == "jsonl":
            with open(os.devnull, "wb") as file:
                jsonl.write(store, file)
        elif form == "parquet":
            parquet.export(store, f"{directory}/parquet")
        else:
            database.export(store, f"{directory}/log.duckdb")
    return highest_mb()


def highest_mb() -> float:
    """The highest resident memory of this process (proc(5)); getrusage counts what its maker had, too."""
    with open("/proc/self/status", encoding="ascii") as file:
        found = re.search(r"VmHWM:\s+(\d+) kB", file.read())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


if __name__ == "__main__":
    main()
