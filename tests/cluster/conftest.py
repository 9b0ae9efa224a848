"""A cluster of Spark on 127.0.0.1 by `scripts/cluster`, once for a session of tests, and an S3 server.

Without the extra `spark`, or without Java, every test of this room is skipped; `scripts/ci.d/46-cluster`
installs what is needed.
"""

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.cluster.processes import CLUSTER, wait_for_none
from tests.lake.conftest import (
    S3Server,
    _libraries,
    _own_environment,
    ended,
    locus,
    postgres,
    postgres_catalog,
    s3,
    s3_place,
    s3_settings,
    sqlite_catalog,
    started,
)

__all__ = [
    "S3Server",
    "_libraries",
    "_own_environment",
    "locus",
    "postgres",
    "postgres_catalog",
    "s3",
    "s3_place",
    "s3_settings",
    "sqlite_catalog",
]


# The quick compiler is enough for processes that live for seconds.
_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@pytest.fixture(scope="session", autouse=True)
def _spark() -> "Iterator[None]":
    """Without these nothing of this room can run."""
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    if not os.path.isdir("/proc/self"):
        pytest.skip("reads /proc")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", _JAVA_OPTIONS)
        yield


@pytest.fixture(scope="session")
def _cluster_once(_spark: None, s3_settings: "dict[str, str]") -> "Iterator[dict[str, str]]":
    """Two workers, which have the settings of the S3 server; afterwards no process of it is left."""
    process, settings = started(script=CLUSTER, environ=s3_settings)
    yield settings
    ended(process)
    wait_for_none(settings["SPARK_CONF_DIR"])
    assert not os.path.exists(settings["SPARK_CONF_DIR"])


@pytest.fixture
def cluster(_cluster_once: "dict[str, str]", monkeypatch: pytest.MonkeyPatch) -> "dict[str, str]":
    """The settings of the cluster, in the environment."""
    for name, value in _cluster_once.items():
        monkeypatch.setenv(name, value)
    return _cluster_once


@pytest.fixture(params=["local", "cluster"])
def master(request: pytest.FixtureRequest) -> str:
    """Spark in one process with two threads, and a master with two workers."""
    if request.param == "local":
        return "local[2]"
    address: str = request.getfixturevalue("cluster")["SPARK_MASTER"]
    return address
