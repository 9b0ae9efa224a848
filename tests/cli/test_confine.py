"""The last wall around a question of a stranger: the process that asks can be ended, whatever it does (F11).

Through what ships: `locus sql` as a process, the tool of `locus mcp`, `eventlog.question`. Every bomb must
end as an error of one line; what ends it is asserted, when is a matter of benchmarks.
"""

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from eventlog import Store, question
from eventlog.base.errors import Corruption, QueryError, Refused
from eventlog.mcp import sql as mcp_sql
from eventlog.query import confined
from eventlog.query.engine import Limits
from locus_cli import confine
from locus_cli.main import run
from tests.cli.support import locus_process
from tests.cli.test_bad_input import flip
from tests.maintenance.support import event, make_store

MIB = 1 << 20
FORTY = "WITH t0 AS (SELECT 1 a)" + "".join(
    f", t{n} AS (SELECT * FROM t{n - 1}, t{n - 1} b)" for n in range(1, 21)
)

# Steps that DuckDB does not interrupt, or plans that do not end.
LONG = {
    "levenshtein": "select levenshtein(repeat('a', 1000000), repeat('b', 1000000))",
    "damerau": "select damerau_levenshtein(repeat('a', 20000), repeat('b', 20000))",
    "columns": f"{FORTY} select 1 from t20",
    "recursion": "with recursive r as (select 1 n union all select n + 1 from r) select count(*) from r",
    "cross": "select count(*) from range(10000000) a, range(10000000) b where a.range + b.range < 0",
    "nested": "select count(*) from range(9999999) a, range(9999999) b where hash(a.range + b.range) = 1",
    "sort": "select max(x) from (select hash(range) x from range(100000000000) order by 1)",
    "regexp": "select count(*) from range(9999999) "
    "where regexp_matches(repeat('ab', 9999) || range, '(a?b?){90}c')",
    "jaro": "select max(jaro_similarity(repeat('a', 90000 + x::int), repeat('b', 9000))) "
    "from range(99999) t(x)",
    "lists": "select sum(len(list_sort(list_reverse(range(1000000 + x))))) from range(100000) t(x)",
}
# Values beyond all memory.
LARGE = {
    "repeat": "select length(repeat('x', 4000000000))",
    "format": "select length(format('{:>2000000000}', 'x'))",
    "lpad": "select length(lpad('x', 2000000000, 'y'))",
    "md5": "select md5(repeat('a', 3000000000))",
    "split": "select len(split(repeat('a,', 100000000), ','))",
    "range": "select list_aggregate(range(500000000), 'sum')",
    "map": "select cardinality(map_from_entries([(x, x) for x in range(10000000)]))",
    "string_agg": "select length(string_agg(repeat('x', 1000), '')) from range(100000000)",
    "list": "select len(list(repeat('x', 1000))) from range(100000000)",
    "blob": "select octet_length(encode(repeat('x', 3000000000)))",
    "replace": "select length(replace(repeat('x', 10000000), 'x', repeat('y', 1000)))",
    "json": "select length(to_json(range(100000000))::varchar)",
    "hex": "select length(hex(repeat('x', 1500000000)))",
    "rpad": "select length(rpad('x', 1900000000, 'y'))",
    "concat": "select length(concat(repeat('x', 1500000000), repeat('y', 1500000000)))",
    "translate": "select length(translate(repeat('x', 2000000000), 'x', 'y'))",
    "group": "select count(*) from (select repeat(range::varchar, 100) x from range(100000000) group by 1)",
    "window": "select max(s) from (select string_agg(range::varchar, '') over () s from range(10000000))",
    "printf": "select length(printf('%2000000000d', 1))",
    "struct": "select len([{'a': x, 'b': repeat('z', 1000)} for x in range(10000000)])",
}
# Why a question ended: interrupted, its process ended by the clock, memory refused.
SAID = ("stopped after ", "did not end within ", "emory")
# What the first wall refuses before anything is read.
REFUSED = {
    "file": "select * from '/etc/passwd.csv'",
    "parquet": "from '/tmp/x.parquet'",
    "glob": "select * from 'data/*.json'",
    "url": "select * from 'http://127.0.0.1/x.csv'",
    "dotted": 'select * from "events.csv"',
    "settings": "select * from pg_catalog.pg_settings",
    "duckdb_settings": "select * from duckdb_settings",
    "setting": "select current_setting('secret_directory')",
    "databases": "select path from duckdb_databases",
    "functions": "select * from duckdb_settings()",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("confined") / ".locus"
    Store.init(made).close()
    return made


def test_there_are_forty_bombs() -> None:
    """F11: ten that take time, twenty that take memory, ten that read what is no view."""
    assert (len(LONG), len(LARGE), len(REFUSED)) == (10, 20, 10)


@pytest.mark.parametrize("name", LONG)
def test_a_question_without_end_is_ended(root: Path, name: str) -> None:
    """F11, P8: an interrupt ends it, or its process is ended; code 1, one line, no answer."""
    ended = locus_process(
        "--store", root, "sql", "--timeout", "0.2", "--memory", 256 * MIB, LONG[name], cwd=root, starts=True
    )

    assert (ended.code, ended.out) == (1, b""), ended
    assert ended.err.startswith("locus: ") and ended.err.count("\n") == 1
    assert any(words in ended.err for words in SAID), ended.err


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit a process's data")
@pytest.mark.parametrize("name", LARGE)
def test_a_value_beyond_all_memory_is_an_error(root: Path, name: str) -> None:
    """F11: the kernel refuses memory that DuckDB does not count; else the clock ends the question."""
    ended = locus_process(
        "--store", root, "sql", "--timeout", "1", "--memory", 256 * MIB, LARGE[name], cwd=root, starts=True
    )

    assert (ended.code, ended.out) == (1, b""), ended
    assert ended.err.startswith("locus: ") and ended.err.count("\n") == 1
    assert any(words in ended.err for words in SAID), ended.err


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_view_is_refused(root: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """F10: files in FROM and settings that tell paths do not reach DuckDB; code 3, one line, no answer."""
    code = run(["--store", str(root), "sql", REFUSED[name]])
    output = capsys.readouterr()

    assert (code, output.out) == (Refused.exit_code, "")
    assert output.err.startswith("locus: ") and output.err.count("\n") == 1


@pytest.mark.parametrize("by", ["Python", "the tool"])
def test_the_other_doors_have_the_same_walls(root: Path, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """F11: Python's door for strangers and MCP end what does not end and what takes all memory."""
    monkeypatch.setattr(mcp_sql, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(mcp_sql, "_MEMORY_BYTES", 256 * MIB)

    def ask(store: Store, sql: str) -> object:
        if by == "the tool":
            return "".join(mcp_sql.ask(store, sql))
        return question.ask(store, sql, limits=Limits(timeout_s=0.2, memory_bytes=256 * MIB)).rows

    with Store.open(root) as store:
        with pytest.raises(QueryError, match=r"did not end within 0\.2 s"):
            ask(store, LONG["levenshtein"])
        with pytest.raises(QueryError, match=r"(?i)memory"):
            ask(store, LARGE["repeat"])
        with pytest.raises(Refused):
            ask(store, REFUSED["file"])
        assert "1" in str(ask(store, "select 1"))
    assert question._running == set()


class InThisProcess:
    """Instead of a process: what the child of `question.ask` would do, here."""

    def __init__(self, command: list[str], **_: object) -> None:
        assert command == [sys.executable, "-P", "-m", "eventlog.question"]
        self.returncode = 0

    def communicate(self, data: bytes, timeout: float | None) -> tuple[bytes, bytes]:
        out = io.TextIOWrapper(io.BytesIO())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
            patch.setattr(sys, "stdout", out)
            self.returncode = question.main()
        return out.buffer.getvalue(), b""  # type: ignore[attr-defined]

    def kill(self) -> None: ...
    def __enter__(self) -> "InThisProcess":
        return self

    def __exit__(self, *_: object) -> None: ...


def test_all_doors_ask_within_the_same_walls(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F11: the command, MCP and Python confine their child by one module, ask in it, and nowhere else.

    So what one bomb of each kind shows of a door, the forty of the command show of all.
    """
    seen: list[object] = []
    sql, limits = "select 42", Limits(timeout_s=mcp_sql.TIMEOUT_S, memory_bytes=mcp_sql._MEMORY_BYTES)
    really_ask = Store.query

    @contextmanager
    def within(timeout_s: float | None) -> Iterator[None]:
        seen.append(("at most", timeout_s))
        yield
        seen.append("its end")

    def ask(store: Store, sql: str, *rest: Any, limits: Limits, **more: Any) -> Any:
        seen.append((sql, limits.memory_bytes, limits.timeout_s))
        return really_ask(store, sql, *rest, limits=limits, **more)

    monkeypatch.setattr(confined, "enter", lambda memory, parent: seen.append((memory, parent)))
    monkeypatch.setattr(confined, "within", within)
    monkeypatch.setattr(Store, "query", ask)
    monkeypatch.setattr(question.subprocess, "Popen", InThisProcess)
    monkeypatch.setattr(confine, "is_own_process", True)
    monkeypatch.setattr(os, "fork", lambda: 0)
    listed = ["--timeout", str(limits.timeout_s), "--memory", str(limits.memory_bytes)]
    doors = []
    with Store.open(root) as store:
        for door in (
            lambda: run(["--store", str(root), "sql", *listed, sql]) or capsys.readouterr().out,
            lambda: "".join(mcp_sql.ask(store, sql)),
            lambda: question.ask(store, sql, limits=limits).rows,
        ):
            assert "42" in str(door())
            doors.append((seen[0], set(seen[1:-1]), seen[-1]))  # the command asks in a thread
            seen.clear()

    memory, time_s = limits.memory_bytes, limits.timeout_s
    asked = {("at most", time_s), (sql, memory, time_s)}
    assert doors == 3 * [((memory, os.getpid()), asked, "its end")]


def test_an_answer_from_the_other_process_is_the_same(root: Path) -> None:
    """P8: `question.ask` gives what `Store.query` gives, with parameters of each kind."""
    sql = (
        "select 1::hugeint, 1.5::decimal(9, 2), 'x', null, true, 'ya'::blob, to_days(2), date '2026-01-02', "
        "uuid '00000000-0000-0000-0000-000000000001', time '03:04', make_timestamptz(5), [1, 2], {'a': 1}, "
        "map {'k': 1.0}, $a, $b, $c"
    )
    parameters = {"a": "text", "b": b"\0\xff", "c": None}
    with Store.open(root) as store:
        assert question.ask(store, sql, parameters) == store.query(sql, parameters)
        assert question.ask(store, "select ?", [1.5]).rows == [(1.5,)]


def test_damage_is_named_by_the_other_process(tmp_path: Path) -> None:
    """P8: an error that is made of more than its words comes back as what it was, with all of it."""
    with make_store(tmp_path / ".locus") as store:
        store.append([event(1)])
        store.seal()
        (path,) = Path(store.layout.root).rglob("*.parquet")
        flip(path, -20)
    with Store.open(tmp_path / ".locus") as store, pytest.raises(Corruption) as failed:
        store.query("select * from events")
    with Store.open(tmp_path / ".locus") as store, pytest.raises(Corruption) as apart:
        question.ask(store, "select * from events")
    assert (str(apart.value), vars(apart.value)) == (str(failed.value), vars(failed.value))


def test_nothing_is_left_behind_a_killed_command(root: Path) -> None:
    """F11: with `locus sql` killed, the process that asks ends by itself."""
    command = [sys.executable, "-m", "locus_cli", "--store", str(root), "sql", LONG["cross"]]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if not children.parent.exists():
            process.kill()
            pytest.skip("no /proc here")
        child = 0
        while not child:
            child = int((children.read_text().split() or ["0"])[0])
        process.kill()
    while alive(child):
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_ctrl_c_reaches_the_question(root: Path) -> None:
    """P8: 130 and one line, though two processes hear of it."""
    command = [sys.executable, "-m", "locus_cli", "--store", str(root), "sql", LONG["cross"]]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while children.exists() and not children.read_text():
            time.sleep(0.01)
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr is not None
        reported = process.stderr.read()
    assert (process.returncode, reported.lstrip("\n")) == (130, "locus: interrupted\n")
