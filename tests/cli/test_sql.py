"""`locus sql`: where a question comes from, its parameters, forms and limits, and several stores."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventlog import Store, multi_store
from eventlog.base.errors import NoStore, QueryError
from locus_cli.read.sql_error_location import with_location
from tests.cli.support import Locus, Recorded

ENDLESS = "select count(*) from range(10000000) a, range(10000000) b where a.range + b.range < 0"
ASK = "select turn, title from turns order by turn limit 2"


def test_a_question_loads_what_it_needs(recorded: Recorded) -> None:
    """S1-56, P8: who counts events at a prompt waits for DuckDB, not for what other questions need."""
    program = [os.path.join(os.path.dirname(sys.executable), "locus"), "--store", str(recorded.store)]
    ran = subprocess.run(
        [*program, "sql", "select count(*) from events"],
        env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}

    assert "duckdb" in loaded
    assert not loaded & {
        "pyarrow", "numpy", "subprocess", "eventlog.query.prices", "eventlog.replay.deferred",
        "eventlog.replay.linediff", "eventlog.replay.edited_tree", "eventlog.worktree.git",
    }  # fmt: skip


def test_a_question_comes_from_an_argument_a_file_or_stdin(
    recorded: Recorded, locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1-56: the same answer wherever the question is given; none, or two, is a usage error."""
    (tmp_path / "q.sql").write_text(f"-- a comment\n{ASK};\n")
    answer = locus("sql", ASK, "--json").out
    from_file = locus("sql", "-f", tmp_path / "q.sql", "--json").out
    monkeypatch.setattr(sys, "stdin", io.StringIO(ASK))
    from_stdin = locus("sql", "-f", "-", "--json").out

    assert [row["turn"] for row in json.loads(answer)] == [1, 2]
    assert answer == from_file == from_stdin
    assert locus("sql").code == 2 and "give a question" in locus("sql").err
    both = locus("sql", ASK, "-f", "x")
    assert both.code == 2 and "not both" in both.err
    assert locus("sql", "-f", tmp_path / "missing.sql").code == 1


def test_an_answer_replaces_no_file_by_itself(recorded: Recorded, locus: Locus, tmp_path: Path) -> None:
    """P8: a FILE that exists is replaced with --force only, as exports do it; a limit names its option."""
    kept = tmp_path / "kept.csv"
    kept.write_text("mine\n")
    refused = locus("sql", ASK, "--format", "csv", "--to", kept)
    assert (refused.code, kept.read_text()) == (3, "mine\n") and "--force" in refused.err
    assert locus("sql", ASK, "--format", "csv", "--to", kept, "--force").code == 0
    assert kept.read_text().startswith("turn,title\n1,")
    assert "--rows N" in locus("sql", ASK, "--rows", 1).err
    assert "--timeout SECONDS" in locus("sql", ENDLESS, "--timeout", 0.05).err


def test_parameters_have_types(recorded: Recorded, locus: Locus) -> None:
    """Values are numbers, booleans and null where they look like it, unless a type says otherwise."""
    given = {
        "a": "7",
        "b": "0.5",
        "c": "true",
        "d": "null",
        "e": "007",
        "f:text": "7",
        "g:int": "007",
        "h": "x=y",
    }
    arguments = [word for name, value in given.items() for word in ("-p", f"{name}={value}")]
    asked = ", ".join(f"${name.partition(':')[0]} as {name.partition(':')[0]}" for name in given)
    found = json.loads(locus("sql", f"select {asked}", *arguments, "--json").out)
    since = locus(
        "sql",
        "-p",
        "t:time=2026-03-01T12:03",
        "select count(*) as n from turns where started_at >= $t",
        "--json",
    )

    assert found == [{"a": 7, "b": 0.5, "c": True, "d": None, "e": "007", "f": "7", "g": 7, "h": "x=y"}]
    assert json.loads(since.out) == [{"n": 2}]
    for wrong in ("x", "=1", "a b=1", "n:int=x", "n:bool=yes", "n:what=1", "n:time=soon"):
        assert locus("sql", "select 1", "-p", wrong).code == 2, wrong
    assert locus("sql", "select $n").code == 1


def test_csv_has_one_spelling_of_a_kind(recorded: Recorded, locus: Locus) -> None:
    """S1-56: each time has a T and six digits, intervals are seconds as in JSON, blobs plain base64."""
    ask = (
        "select make_timestamptz(x) as at, make_timestamp(x) as local, to_days(x // 1000000) as long, "
        "'ya'::blob as bytes from (values (0), (1500000)) t(x)"
    )
    assert locus("sql", ask, "--format", "csv").text.splitlines()[1:] == [
        "1970-01-01T00:00:00.000000Z,1970-01-01T00:00:00.000000,0.0,eWE=",
        "1970-01-01T00:00:01.500000Z,1970-01-01T00:00:01.500000,86400.0,eWE=",
    ]


NUMBERS = (
    "select * from (values (1, 0.5::decimal(38,12), 100::decimal(9,2)), (2, 0, -1.25), (3, null, 0.01)) "
    "as t(n, a, b)"
)


def test_tables_show_no_filling_zeros(recorded: Recorded, locus: Locus) -> None:
    """A number with many places is shown with those it has, to the right; JSON and CSV have its value."""
    table = locus("--store", recorded.store, "sql", NUMBERS).text.splitlines()
    assert [line.split() for line in table[1:4]] == [
        ["1", "0.5", "100"],
        ["2", "0", "-1.25"],
        ["3", "-", "0.01"],
    ]
    assert len({len(line) for line in table[:4]}) == 1
    marked = locus("--store", recorded.store, "sql", NUMBERS, "--format", "markdown").text.splitlines()
    assert marked[1:3] == ["|---:|---:|---:|", "| 1 | 0.5 | 100 |"]
    csv = locus("--store", recorded.store, "sql", NUMBERS, "--format", "csv").text.splitlines()
    assert csv[1] == "1,0.500000000000,100.00"


def test_every_form_says_the_same(recorded: Recorded, locus: Locus, tmp_path: Path) -> None:
    """S1-56: table, JSON, lines of JSON, CSV, Markdown, Parquet and Arrow have the same rows."""
    rows = json.loads(locus("sql", ASK, "--json").out)
    for form in ("parquet", "arrow"):
        assert locus("sql", ASK, "--format", form, "--to", tmp_path / form).code == 0
    lines = locus("sql", ASK, "--format", "jsonl").text.splitlines()
    markdown = locus("sql", "select 'a|b' as \"x|y\", 1 as n", "--format", "markdown").text

    assert [json.loads(line) for line in lines] == rows
    assert pq.read_table(tmp_path / "parquet").to_pylist() == rows
    assert pa.ipc.open_file(tmp_path / "arrow").read_all().to_pylist() == rows
    assert locus("sql", ASK, "--format", "csv").text.splitlines()[0] == "turn,title"
    streamed = locus("sql", ASK, "--format", "arrow").out
    assert pa.ipc.open_stream(streamed).read_all().to_pylist() == rows
    assert markdown == "| x\\|y | n |\n|---|---:|\n| a\\|b | 1 |\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["select *\nfrom turns wher x"], "line 2"),
        (["select 1,\n  nonsense from turns"], "(line 2, column 3)"),
        (["select * from range(10)", "--rows", "9"], "more than 9 rows"),
        (["select repeat('x', 1000)", "--bytes", "999"], "more than 999"),
        ([ENDLESS, "--timeout", "0.2"], "stopped after 0.2 s"),
        (["select * from turns; select 1"], "one SELECT at a time"),
    ],
)  # fmt: skip
def test_a_question_that_cannot_be_answered(
    arguments: list[str], said: str, recorded: Recorded, locus: Locus
) -> None:
    """Wrong SQL says where it is wrong; an answer that is too large or takes too long says so."""
    ended = locus("sql", *arguments)

    assert ended.code in (1, 3) and ended.out == b""
    assert said in ended.err and ended.err.count("\n") == 1


def test_a_place_in_a_long_line_is_found() -> None:
    """DuckDB shows a piece of a long line; the column is that of the line itself."""
    line = "select " + ", ".join(f"column_{i}" for i in range(40)) + " from turns"
    shown = "LINE 1: ...column_37, column_38, column_39 from turns"
    at = shown.index("column_39")
    message = f"Parser Error: near\n\n{shown}\n{' ' * at}^"
    column = line.index("column_39") + 1

    assert with_location(message, line) == f"Parser Error: near (line 1, column {column})"
    assert with_location("no place here", line) == "no place here"


def test_an_interrupt_ends_at_once(recorded: Recorded) -> None:
    """Ctrl-C while a question is worked on ends the process with 130, whatever DuckDB does meanwhile."""
    started = subprocess.Popen(
        [sys.executable, "-c", "import signal, sys\n"
         "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
         "from locus_cli.main import main\nprint('ready', flush=True)\nmain(['sql', sys.argv[1]])", ENDLESS],
        cwd=recorded.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert started.stdout is not None and started.stdout.readline() == b"ready\n"
    time.sleep(1.5)
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=20)

    assert started.returncode == 130 and b"interrupted" in err


def test_several_stores_are_asked_at_once(recorded: Recorded, locus: Locus, tmp_path: Path) -> None:
    """S1-53: every view has the rows of all stores with the store's name, and each row finds its files."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("a\n")
    assert locus("--store", other / ".locus", "init", "--name", "second").code == 0
    shutil.copytree(recorded.store, other / ".copied")
    both = ("--store", recorded.store, "--store", other / ".locus")
    twins = ("--store", recorded.store, "--store", other / ".copied")

    def asked(question: str, *stores: object) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(locus("sql", question, *stores, "--json").out)
        return found

    counts = " union all ".join(f"select count(*) as n from {view}" for view in ("events", "turns", "files"))
    alone = asked(counts)
    (name,) = asked("select store, count(*) as n from events group by all", *both)
    (turn,) = asked("select context_id as t from turns order by turn limit 1")
    texts = "select distinct store, file_at(path, turn_name) as t from file_versions where path = 'README.md'"
    tree = f"select path from tree_at('{turn['t']}')"

    assert asked(counts, *both) == alone and name["n"] == alone[0]["n"]
    assert asked(texts, *both) == [{"store": name["store"], "t": "# Sample\n"}]
    assert asked(f"select distinct store from timeline('{turn['t']}')", *both) == [{"store": name["store"]}]
    assert asked(tree, *both) == asked(tree)
    assert asked(counts, *twins) == [{"n": 2 * int(str(row["n"]))} for row in alone]
    assert "several stores" in locus("sql", "select file_at('README.md', 'last')", *twins).err
    assert locus("sql", "drop table turns", *both).code == 3


def test_all_stores_are_those_that_were_made(
    recorded: Recorded, locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--all-stores` asks what `locus init` noted, and the store here; one that has gone is passed over."""
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        assert locus("--store", tmp_path / name / ".locus", "init").code == 0
        assert locus("--store", tmp_path / name / ".locus", "init").code == 0
    shutil.rmtree(tmp_path / "two")
    (tmp_path / "three/.locus/STORE").write_text("{}")
    listed = multi_store.known(os.environ)
    ended = locus("sql", "select distinct store from sessions_master", "--all-stores", "--json")
    events = locus("sql", "select store, count(*) as n from events group by all", "--all-stores", "--json")

    assert [Path(path).parent.name for path in listed] == ["one", "two", "three"]
    assert ended.code == events.code == 0
    assert [row["store"] for row in json.loads(events.out)] == [
        json.loads(locus("status", "--json").out)["status"]["project_name"]
    ]
    assert "left out" in ended.err and "three" in ended.err
    monkeypatch.chdir("/")
    shutil.rmtree(tmp_path / "one")
    (tmp_path / "three/.locus/STORE").unlink()
    with pytest.raises(NoStore), multi_store.opened((), every=True):
        pass


def test_a_store_that_is_used_is_noted(locus: Locus, tmp_path: Path) -> None:
    """S1-53: `--all-stores` asks a moved store once something was recorded into it; reading notes none."""
    (tmp_path / "old").mkdir()
    assert locus("--store", tmp_path / "old/.locus", "init").code == 0
    Path(str(multi_store.list_path(os.environ))).unlink()
    (tmp_path / "old").rename(tmp_path / "new")
    store, other = tmp_path / "new/.locus", tmp_path / "kept/.locus"
    shutil.copytree(store, other)

    assert locus("--store", store, "log").code == 0 and multi_store.known(os.environ) == []
    for _ in range(2):
        assert locus("--store", store, "session", "start", "look at it").code == 0
        assert multi_store.known(os.environ) == [str(store)]
    main = "import sys; from locus_cli.maintainer import main; main(sys.argv[1])"
    subprocess.run([sys.executable, "-c", main, str(other)], check=True)
    assert multi_store.known(os.environ) == [str(store), str(other)]


def test_a_list_of_stores_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    """Whatever is in the list, or keeps it from being written, fails nothing."""
    (tmp_path / "locus").mkdir()
    (tmp_path / "locus/stores").write_bytes(b'/a\n"broken\n/a\n"\\303\\050"\n/cut')
    environ = {"XDG_DATA_HOME": str(tmp_path)}

    assert multi_store.known(environ) == ["/a", os.fsdecode(b"\303(")]
    multi_store.remember("/b", {})
    multi_store.remember("/b", {"XDG_DATA_HOME": "/proc/nowhere"})
    assert multi_store.known({}) == []


_WRONG = "cast(title as int)"


@pytest.mark.parametrize("front", ["", "\n\n", "-- a comment\n/* and\nmore */ ", "  ", "explain analyze "])
@pytest.mark.parametrize(
    "question",
    [
        "select cast(title as int) from turns",
        "select started_at,\n  cast(title as int),\n  title\nfrom turns",
        "with a as (\nselect cast(title as int) as b from turns)\nselect b\nfrom a",
        "select 1\nunion all\nselect cast(title as int) from turns order by\n1",
        "select 'a line that is longer than what DuckDB shows of one, so it is cut', cast(title as int), "
        "'and goes on behind the place for as long as before it' from turns",
        "select title,\nno_such_column,\ntitle from turns",
        "select title,\nfrom turns\nwhere where",
    ],
)
@pytest.mark.parametrize("stores", [1, 2])
def test_a_wrong_place_is_one_in_the_question(
    front: str, question: str, stores: int, recorded: Recorded, locus: Locus
) -> None:
    """Where DuckDB finds a fault while it parses, binds or runs, it is named by line and column of what was
    asked, whatever is in front and whatever is put around it; MCP and Python get the same line."""
    text = front + question
    wrong = next(one for one in (_WRONG, "no_such_column", "where where") if one in text)
    at = text.index(wrong) + (len("where ") if wrong == "where where" else 0)
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    asked = ("--store", str(recorded.store)) * (stores - 1)

    ended = locus("sql", text, *asked)

    assert ended.code == 1
    assert f"(line {line}, column {column})" in ended.err
    if stores > 1:
        return  # what follows asks one store
    with Store.open(recorded.store) as store, pytest.raises(QueryError) as raised:
        store.query(text)
    assert f"LINE {line}: " in str(raised.value) or "LINE" not in str(raised.value)
