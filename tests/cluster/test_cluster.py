"""`scripts/cluster`: what it starts, and that nothing of it stays."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.cluster.processes import CLUSTER, processes_with, wait_for_none
from tests.lake.conftest import ended, started


def test_a_cluster_ends_with_the_process_that_started_it() -> None:
    """After a kill -9 of `scripts/cluster` no process of Spark is left."""
    process, settings = started("--workers", "1", script=CLUSTER)
    conf = settings["SPARK_CONF_DIR"]
    try:
        assert len(processes_with(conf)) == 2, "a master and a worker"
        assert os.stat(os.path.dirname(conf)).st_mode & 0o077 == 0, "the secret of the cluster is there"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    wait_for_none(conf)
    shutil.rmtree(os.path.dirname(conf))
    ended(process)


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--help"], 0), (["--workers", "two"], 2), (["--wrong"], 2)]
)
def test_a_wrong_option_is_answered_with_what_would_be_right(arguments: "list[str]", code: int) -> None:
    """The usage is printed, and nothing is started."""
    done = subprocess.run(
        [sys.executable, str(CLUSTER), *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code
    assert "--workers N" in done.stdout


def test_without_java_the_reason_is_reported() -> None:
    """No directory is made, and the message names what to install."""
    environ = {**os.environ, "JAVA_HOME": "/nowhere"}
    done = subprocess.run(
        [sys.executable, str(CLUSTER), "true"], env=environ, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "Java 17" in done.stderr
