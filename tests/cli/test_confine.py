"""The last wall around a question in SQL: what DuckDB does not stop, the process does (F11)."""

import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from eventlog.errors import QueryError
from eventlog.store import Store
from locus_cli.confine import confined
from tests.cli.support import Locus, Recorded

ASK = """
import sys
from eventlog.query.engine import Limits
from eventlog.store import Store
from locus_cli import confine
confine.GRACE_S = 0.5
limits = Limits(timeout_s=float(sys.argv[2]), memory_bytes=256 << 20, threads=1)
walls = confine.confined(limits.memory_bytes, limits.timeout_s, more_bytes=1 << 30)
with Store.open(sys.argv[1]) as store, walls:
    try:
        store.query(sys.stdin.read(), limits=limits)
    except Exception as error:
        print(type(error).__name__)
"""


def ask(root: Path, text: str, timeout_s: float) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", ASK, str(root), str(timeout_s)]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("confined") / ".locus"
    Store.init(made).close()
    return made


@pytest.mark.parametrize(
    "text",
    [
        "SELECT levenshtein(repeat('a', 200000), repeat('b', 200000))",
        "SELECT current_setting(repeat('x', 1000000))",
        "WITH t0 AS (SELECT 1 a)"
        + "".join(f", t{n} AS (SELECT * FROM t{n - 1}, t{n - 1} b)" for n in range(1, 21))
        + " SELECT 1 FROM t20",
    ],
    ids=["one-long-step", "a-name-to-guess", "columns-without-end"],
)
def test_a_question_that_cannot_be_interrupted_ends_with_the_process(root: Path, text: str) -> None:
    """F11, P8: where DuckDB looks at no interrupt, the process ends with 1 and one line."""
    ended = ask(root, text, 0.5)

    assert ended.returncode == 1 and ended.stdout in ("", "QueryError\n")
    assert "could not be interrupted" in ended.stderr and ended.stderr.count("\n") == 1
    with Store.open(root) as store:
        assert store.verify("deep") == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit a process's data")
@pytest.mark.parametrize(
    "text",
    [
        "SELECT length(repeat('x', 2000000000))",
        "SELECT length(format('{:2000000000}', 1))",
    ],
)
def test_a_single_value_beyond_all_memory_is_an_error(root: Path, text: str) -> None:
    """F11: memory that DuckDB does not count is refused by the system, and the question ends as an error."""
    ended = ask(root, text, 20)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "QueryError\n", "")


def test_a_question_leaves_the_process_as_it_was(recorded: Recorded, locus: Locus) -> None:
    """P8: what a question was confined to holds for it alone."""
    before = resource.getrlimit(resource.RLIMIT_DATA), threading.active_count()
    assert locus("sql", "select count(*) from events").code == 0
    with pytest.raises(QueryError, match="more than 5 GB of memory"), confined(2 << 30, 300.0):
        raise MemoryError

    assert resource.getrlimit(resource.RLIMIT_DATA) == before[0]
