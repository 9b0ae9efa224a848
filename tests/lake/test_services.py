"""The servers that tests of lakes use: they do what the tests rely on, and leave nothing."""

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from eventlog.base.errors import Refused
from eventlog.lake.place import Place, open_place
from tests.lake.conftest import SERVICES, S3Server, ended, started


def test_of_all_that_create_an_object_one_does(place: Place) -> None:
    """Sixteen threads create the same name ten times: one of them each time, and its bytes stay."""
    with ThreadPoolExecutor(16) as threads:
        for number in range(10):
            name = f"race/{number}"
            made = list(threads.map(lambda who, name=name: place.create(name, b"%d" % who), range(16)))
            assert made.count(True) == 1
            assert place.read(name) == b"%d" % made.index(True)


def test_a_lying_server_says_that_all_went_well(lying_place: Place) -> None:
    """The server that drops conditions lets a second creation succeed, and the first bytes are gone."""
    assert lying_place.create("name", b"first")
    assert lying_place.create("name", b"second")
    assert lying_place.read("name") == b"second"


def test_the_server_counts_and_denies(s3_place: Place, s3: S3Server) -> None:
    """Requests are counted by kind with their bytes, and a rule of the test refuses a kind."""
    s3_place.create("a/b", b"x" * 1000)
    s3_place.read("a/b")
    s3_place.list("a")
    counts = s3.counts()
    assert counts["requests"] == {"PUT": 1, "GET": 1, "LIST": 1}
    assert counts["received"] >= 1000 and counts["sent"] > 1000
    s3.deny("DELETE")
    with pytest.raises(Refused, match="rights"):
        s3_place.delete("a/b")
    assert s3_place.read("a/b")


def test_a_request_can_be_held(s3_place: Place, s3: S3Server) -> None:
    """A held request is neither done nor answered until the test says so."""
    s3.hold(1)
    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(s3_place.create, "a", b"x")
        until = time.monotonic() + 60
        while not s3.counts()["held"] and time.monotonic() < until:
            time.sleep(0.01)
        assert not held.done()
        s3.reset()
        assert isinstance(held.exception(60), Refused)
    assert s3_place.list("") == []


def test_a_request_of_one_kind_can_be_held_and_resumed(s3_place: Place, s3: S3Server) -> None:
    """Requests of other kinds, and on other objects, are done meanwhile; the held one in the end."""
    s3.hold(1, of="PUT", on="/data/")
    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(s3_place.create, "data/a", b"x")
        until = time.monotonic() + 60
        while not s3.counts()["held"] and time.monotonic() < until:
            time.sleep(0.01)
        assert s3_place.create("other", b"y") and s3_place.list("data") == [] and not held.done()
        s3.resume()
        assert held.result(60)
    assert s3_place.read("data/a") == b"x"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
def test_services_end_with_the_process_that_started_them(postgres: str) -> None:
    """After a kill -9 of the process that runs them no server is left; after SIGTERM no file, too."""
    for number in (signal.SIGKILL, signal.SIGTERM):
        process, settings = started()
        port = settings["LAKE_POSTGRES"].rpartition(":")[2].partition("/")[0]
        (server,) = command_lines_with(f"\0-p\0{port}\0")
        directory = Path(server.split("\0")[2]).parent
        assert directory.exists()
        process.send_signal(number)
        process.wait(60)
        until = time.monotonic() + 60
        while command_lines_with(f"\0-p\0{port}\0") and time.monotonic() < until:
            time.sleep(0.05)
        assert not command_lines_with(f"\0-p\0{port}\0")
        assert directory.exists() == (number == signal.SIGKILL)
        shutil.rmtree(directory, ignore_errors=True)
        ended(process)


def command_lines_with(arguments: str) -> "list[str]":
    """The command lines of processes that have these arguments."""
    lines = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline", encoding="utf-8", errors="replace") as file:
                line = file.read()
        except OSError:  # it is gone already
            continue
        if arguments in line:
            lines.append(line)
    return lines


def test_a_command_runs_with_the_settings(_libraries: None) -> None:
    """`scripts/lake-services --s3 COMMAND` runs it with the servers' names, and ends with its exit code."""
    pytest.importorskip("moto")
    command = ["sh", "-c", 'echo "$AWS_ENDPOINT_URL"; exit 7']
    done = subprocess.run([sys.executable, str(SERVICES), "--s3", *command], capture_output=True, text=True)
    assert done.returncode == 7
    assert done.stdout.startswith("http://127.0.0.1:")


def test_a_place_that_is_not_there_is_named(_libraries: None) -> None:
    """A wrong place is refused with what would be right."""
    with pytest.raises(Refused, match="s3://BUCKET/PREFIX or file:///DIRECTORY"):
        open_place("ftp://nowhere/lake")
