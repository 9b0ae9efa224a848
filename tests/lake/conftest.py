"""Places and catalogs: real servers on 127.0.0.1, by `scripts/lake-services`, once for a session of tests.

Without the extra `lake-tests` every test of this room is skipped; `scripts/ci.d/45-lake` installs it.
"""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from eventlog.lake.place import Place, open_place
from tests.cli.conftest import _own_environment, locus

__all__ = ["_own_environment", "locus"]

SERVICES = Path(__file__).resolve().parents[2] / "scripts/lake_services.py"
BUCKET = "lake"


class S3Server:
    """The S3 server of these tests: what it counted, and rules for it (scripts/lake_services.py)."""

    def __init__(self, address: str) -> None:
        self.address = address

    def counts(self) -> "dict[str, Any]":
        """`requests` by kind, and the bytes it `received` and `sent` since the last reset."""
        return self._ask("counts")

    def reset(self) -> None:
        """Count from zero again, forget the rules, and let go of a request that is held."""
        self._ask("reset", {})

    def deny(self, *kinds: str) -> None:
        """Refuse these kinds of requests, as without the right to them."""
        self._ask("rules", {"deny": kinds})

    def hold(self, number: int, *, of: str = "", on: str = "") -> None:
        """Neither do nor answer the request of that number from now on, 1 the next.

        Args: of: only those of this kind count; on: only those with this text in their path. With
        one of these all such requests after it are held, too.
        """
        self._ask("rules", {"hold": number, "of": of, "on": on})

    def resume(self) -> None:
        """Do the requests that are held."""
        self._ask("resume", {})

    def _ask(self, word: str, value: Any = None) -> Any:
        data = None if value is None else json.dumps(value).encode()
        with urlopen(Request(f"{self.address}/-/{word}", data=data), timeout=60) as answer:
            return json.load(answer)


@dataclass(frozen=True)
class Lake:
    """A place and the catalog of its tables."""

    place: Place
    catalog: str


@pytest.fixture(scope="session", autouse=True)
def _libraries() -> None:
    """Without them nothing of this room can run."""
    pytest.importorskip("obstore")
    pytest.importorskip("pyiceberg")


def started(
    *options: str, script: Path = SERVICES, environ: "dict[str, str] | None" = None
) -> "tuple[subprocess.Popen[str], dict[str, str]]":
    """Services in a process of their own, and their settings."""
    process = subprocess.Popen(
        [sys.executable, str(script), *options],
        stdout=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(environ or {})},
    )
    assert process.stdout is not None
    settings: dict[str, str] = {}
    for line in process.stdout:
        if line == "ready\n":
            return process, settings
        name, _, value = line.rstrip("\n").partition("=")
        settings[name] = value
    raise AssertionError(f"{script.name} ended with {process.wait()}")


def ended(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    process.wait(60)
    assert process.stdout is not None
    process.stdout.close()


@pytest.fixture(scope="session")
def s3_settings(_libraries: None) -> "Iterator[dict[str, str]]":
    """The environment in which `s3://lake/…` is the server of this session."""
    pytest.importorskip("moto")
    process, settings = started("--s3")
    yield settings
    ended(process)


@pytest.fixture(scope="session")
def postgres(_libraries: None) -> "Iterator[str]":
    """The address of an empty database server, as a catalog's URI has it."""
    pytest.importorskip("psycopg2")
    process, settings = started("--postgres")
    if "LAKE_POSTGRES" not in settings:
        ended(process)
        pytest.skip(settings["LAKE_POSTGRES_MISSING"])
    yield settings["LAKE_POSTGRES"]
    ended(process)


@pytest.fixture
def s3(s3_settings: "dict[str, str]", monkeypatch: pytest.MonkeyPatch) -> "Iterator[S3Server]":
    """The S3 server, named in the environment, counting from zero."""
    for name, value in s3_settings.items():
        monkeypatch.setenv(name, value)
    server = S3Server(s3_settings["AWS_ENDPOINT_URL"])
    server.reset()
    yield server
    server.reset()


@pytest.fixture
def file_place(_libraries: None, tmp_path: Path) -> Place:
    """A folder that machines share."""
    (tmp_path / "shared").mkdir()
    return open_place(f"file://{tmp_path}/shared")


@pytest.fixture
def s3_place(s3: S3Server) -> Place:
    """A part of a bucket that nobody used before."""
    return open_place(f"s3://{BUCKET}/{uuid.uuid4().hex}/team")


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest) -> Place:
    """A folder, and a part of a bucket."""
    opened: Place = request.getfixturevalue(f"{request.param}_place")
    return opened


@pytest.fixture
def lying_place(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A part of a bucket whose server ignores conditions, and says that all went well."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", os.environ["LAKE_LYING_ENDPOINT"])
    return open_place(f"s3://{BUCKET}/{uuid.uuid4().hex}")


@pytest.fixture
def sqlite_catalog(tmp_path: Path) -> str:
    """A catalog in a file."""
    return f"sqlite:///{tmp_path}/catalog.db"


@pytest.fixture
def postgres_catalog(postgres: str) -> str:
    """A database of its own on the server."""
    import psycopg2

    name = f"t{uuid.uuid4().hex}"
    connection = psycopg2.connect(postgres.replace("+psycopg2", ""))
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"create database {name}")
    connection.close()
    return postgres.removesuffix("postgres") + name


@pytest.fixture(params=["sqlite", "postgres"])
def catalog(request: pytest.FixtureRequest) -> str:
    """The URI of an empty catalog, of each kind."""
    uri: str = request.getfixturevalue(f"{request.param}_catalog")
    return uri


@pytest.fixture(params=["folder and file", "bucket and server"])
def lake(request: pytest.FixtureRequest) -> Lake:
    """A folder with a catalog in a file, and a part of a bucket with one in a database server."""
    names = ("file", "sqlite") if request.param == "folder and file" else ("s3", "postgres")
    return Lake(request.getfixturevalue(f"{names[0]}_place"), request.getfixturevalue(f"{names[1]}_catalog"))
