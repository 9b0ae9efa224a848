"""The runner of Spark: results, errors in the words of the task, and what is sent to workers."""

import os
import socket
import sys
from pathlib import Path

import pytest

from eventlog.base.errors import EventLogError, NotFound, Refused, Unsupported
from eventlog.lake.folding import spark
from eventlog.lake.place import open_place
from tests.cli.support import Ended, Locus
from tests.cluster.processes import processes_with

# Spark's own library for Python leaves sockets to the collector of garbage.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

_GATEWAY = "org.apache.spark.deploy.SparkSubmit"


def test_what_tasks_make_and_how_they_fail(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results come in the order of the tasks. An error of ours is raised as it is in this process, any
    other with its own words and without a trace of Java, a lost process with what Spark knows; and the runner
    runs on after each. No credentials of this process are known to Spark or to a worker of another machine.
    """
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the driver")
    before = {process.number for process in processes_with(_GATEWAY)}
    with spark.runner(master) as run:
        assert list(run(str.upper, [])) == []
        assert run._context is None, "nothing is started for nothing"
        assert list(run(str.upper, ["a", "b", "c"])) == ["A", "B", "C"]
        with pytest.raises(Refused, match=r"ftp://nowhere is no place to publish to\. Name s3"):
            list(run(open_place, ["ftp://nowhere"]))  # type: ignore[list-item]
        with pytest.raises(EventLogError) as error:
            list(run(int, ["x"]))
        reason = "ValueError: invalid literal for int() with base 10: 'x'"
        assert str(error.value) == f"Spark at {master} ended the work: {reason}. Mend that, and run it again."
        if master.startswith("local"):  # a cluster tries it four times
            with pytest.raises(EventLogError, match="Python worker exited unexpectedly"):
                list(run(os._exit, [9]))
        key = next(run(os.getenv, ["AWS_SECRET_ACCESS_KEY"]))
        assert (key == "of the driver") == master.startswith("local")
        assert "of the driver" not in str(run._context.getConf().getAll())
    assert {process.number for process in processes_with(_GATEWAY)} <= before


def test_a_worker_without_the_package_is_named(
    cluster: "dict[str, str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what is missing, where, and what to install."""
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    monkeypatch.setenv("PYSPARK_PYTHON", str(base))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with (
        spark.runner(cluster["SPARK_MASTER"]) as run,
        pytest.raises(EventLogError, match=r"lack a package.*No module named '\w+'.*PYSPARK_PYTHON"),
    ):
        list(run(str.upper, ["a"]))


def test_a_worker_with_another_fold_is_refused() -> None:
    """I19: What a worker of another version would write under its names is never made."""
    outcome = spark._Guarded(str.upper, "another")("a")
    assert isinstance(outcome, spark._Failure)
    assert isinstance(outcome.error(), Unsupported)
    assert "another version" in str(outcome.error())


def test_no_master_is_named_at_once(locus: Locus, tmp_path: Path) -> None:
    """Where nobody listens, `locus lake fold` ends before Spark starts, with the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{free.getsockname()[1]}"
        done = fold(locus, tmp_path, master)
    assert done.code == NotFound.exit_code
    assert f"nobody answers at {master}" in done.err


def test_without_java_or_pyspark_the_reason_is_reported(
    locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is named with how to install it."""
    with monkeypatch.context() as patch:
        patch.setenv("JAVA_HOME", "/nowhere")
        assert "Spark needs Java 17 or newer, and /nowhere/bin/java is not there" in fold(locus, tmp_path).err
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert "pip install 'locus-eventlog[spark]'" in fold(locus, tmp_path).err


def fold(locus: Locus, directory: Path, master: str = "local[1]") -> Ended:
    return locus("lake", "fold", f"file://{directory}", "--catalog", "sqlite:////none", "--master", master)
