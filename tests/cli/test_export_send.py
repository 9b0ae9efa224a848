"""`locus export locusgraph --server`: the options, what is stated, exit codes, signals."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.exports.locusgraph.courier import UNREACHED_S
from eventlog.exports.locusgraph.endpoint import KEY_VARIABLE
from eventlog.store import Store
from locus_cli import main as entry
from tests.exports import locusgraph_server as its
from tests.exports.locusgraph_server import GRAPH, KEY, Graph, Server
from tests.exports.stores import new_store, small_log
from tests.older import append_as_before


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("cli-send")
    with new_store(place) as store:
        append_as_before(store, small_log())
    yield place


class Locus:
    """`locus` in this process."""

    def __init__(self, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._place = place
        self._capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = entry.run(["--store", str(self._place / ".locus"), *map(str, arguments)])
        out, err = self._capsys.readouterr()
        return code, out, err


@pytest.fixture
def locus(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Locus:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    monkeypatch.delenv("LOCUSGRAPH_GRAPH_ID", raising=False)
    return Locus(place, capsys)


def to(server: Server, *more: object) -> list[object]:
    return ["export", "locusgraph", "--server", server.url, "--graph", GRAPH, *more]


def test_sending_and_asking_how_far_it_is(locus: Locus) -> None:
    """S1-51, P8: what was sent and answered is stated on stderr; `--status` has the position and what to
    do."""
    with Server(Graph()) as server:
        planned = locus(*to(server, "--dry-run", "--batch", 5))
        sent = locus(*to(server, "--batch", 5))
        again = locus(*to(server))
        output = locus(*to(server, "--status"))
        fields = json.loads(locus(*to(server, "--status", "--json"))[1])["servers"][0]
        every = json.loads(locus("export", "locusgraph", "--status", "--json")[1])["servers"]

        assert planned[0] == 0 and planned[1] == "" and "Would send 7 calls" in planned[2]
        assert sent[0] == 0 and sent[1] == ""
        assert (
            "Sent 19 records (1 knowledge, 1 master, 1 sessions, 2 turns, 6 categories, 8 events;" in sent[2]
        )
        assert "19 created" in sent[2] and len(server.graph.memories) == 19
        assert again[0] == 0 and "Nothing new for 'team-graph'" in again[2]
        assert "0 events behind" in output[1] and "nothing to do" in output[1]
        assert fields["position"] >= 14 and fields["behind"] == 0 and fields["answers"] == {"created": 19}
        assert fields["failed"] == [] and fields["last_error"] is None
        assert fields in every


def test_what_was_refused_is_reported(locus: Locus) -> None:
    """P7, P8: refused records end in exit code 4, are in `--status`, and `--retry-failed` sends them."""
    with Server(Graph()) as server:
        server.graph.refuse = lambda item: "no llm here" if item["context_id"].startswith("llm") else None
        sent = locus(*to(server))
        output = locus(*to(server, "--status"))
        server.graph.refuse = lambda item: None
        retried = locus(*to(server, "--retry-failed", "--json"))

        assert sent[0] == 4 and "Refused: llm:a1b2c3d4_001_007: no llm here" in sent[2]
        assert "no llm here (1)" in output[1] and "--retry-failed" in output[1]
        assert retried[0] == 0 and json.loads(retried[1])["export"]["answers"] == {"created": 1}


def test_errors_say_what_to_do(locus: Locus, monkeypatch: pytest.MonkeyPatch) -> None:
    """P5, P8: no key, a wrong key, a server that is none: one line, no secret, the ledger as it was."""
    with Server(Graph(), [its.HTML]) as server:
        html = locus(*to(server))
        monkeypatch.setenv(KEY_VARIABLE, "another-key-1")
        wrong = locus(*to(server))
        output = locus(*to(server, "--status"))
        monkeypatch.delenv(KEY_VARIABLE)
        none = locus(*to(server))

        assert html[0] == 1 and "no JSON object" in html[2]
        assert wrong[0] == 1 and "rejects the key" in wrong[2] and "another-key-1" not in wrong[2]
        assert "ended by" in output[1] and "rejects the key" in output[1] and "another-key-1" not in output[1]
        assert none[0] == 3 and KEY_VARIABLE in none[2]
        assert server.graph.memories == {}


def test_nobody_listens(locus: Locus) -> None:
    """P8, I36: an address where nobody listens ends the export in seconds, with the reason."""
    with Server(Graph()) as gone:
        pass
    began = time.monotonic()
    code, out, err = locus(*to(gone, "--all"))
    assert (code, out) == (1, "") and time.monotonic() - began < 30
    address = gone.url.removeprefix("http://")
    assert f"could not be sent to: nobody listens at {address} (connection refused)." in err
    assert "Check --server, and that the service runs; then export again." in err
    assert "no answer in time" not in err and "min more" not in err
    state = json.loads(locus(*to(gone, "--status", "--json"))[1])["servers"][0]
    assert state["position"] == 0 and "nobody listens" in state["last_error"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--to", "a", "--server", "https://h.example"],
        ["--to", "a", "--follow"],
        ["--to", "a", "--status"],
        ["--server", "https://h.example", "--force"],
        ["--server", "https://h.example", "--follow", "--dry-run"],
        ["--server", "https://h.example", "--retry-failed", "--all"],
        ["--server", "https://h.example", "--all", "--since", "3"],
    ],
)
def test_options_that_do_not_go_together(locus: Locus, arguments: list[str]) -> None:
    """P8: what makes no sense is a usage error before anything is sent."""
    code, _, err = locus("export", "locusgraph", *arguments)
    assert code == 2 and "See `locus export locusgraph --help`" in err


def test_without_the_library(locus: Locus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, sending says what to install; so does counting, which tries that out."""
    monkeypatch.setitem(sys.modules, "urllib3", None)
    with Server(Graph()) as server:
        code, _, err = locus(*to(server))
        assert code == 1 and "pip install 'locus-eventlog[http]'" in err
        assert locus(*to(server, "--dry-run"))[::2] == (code, err)


def test_following_waits_for_a_service_that_starts_later(place: Path) -> None:
    """I36: `--follow` says that nobody listens, and sends once somebody does."""
    with Server(Graph()) as gone:
        pass
    command = [sys.executable, "-m", "locus_cli", "--store", place / ".locus", *to(gone, "--follow")]
    process = subprocess.Popen(
        list(map(str, command)), env={**os.environ, KEY_VARIABLE: KEY}, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    with process, process.stderr:
        said = process.stderr.readline()
        time.sleep(1.5 * UNREACHED_S)
        with Server(Graph(), port=int(gone.url.rpartition(":")[2])) as server:
            sent = process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            rest = process.stderr.read()
            assert process.wait() == 0, rest
    assert "nobody listens at" in said and "more" not in said
    assert "so far, up to position" in sent and len(server.graph.memories) >= 19


def test_sigterm_ends_following(place: Path) -> None:
    """I36: SIGTERM ends `--follow` cleanly, with exit code 0 and everything that was answered noted."""
    with Server(Graph()) as server, Store.open(place / ".locus") as store:
        command = [sys.executable, "-m", "locus_cli", "--store", place / ".locus", *to(server, "--follow")]
        process = subprocess.Popen(
            list(map(str, command)), env={**os.environ, KEY_VARIABLE: KEY}, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        with process, process.stderr:
            reported: Any = process.stderr.readline()
            store.append([{"event_type": "feedback", "payload": {"late": 1}}])
            ends_at = time.monotonic() + 30
            while len(server.graph.memories) < 20 and time.monotonic() < ends_at:
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            rest = process.stderr.read()
            assert process.wait() == 0, rest
        assert "Sent 19 records so far" in reported and "Stopped; everything before" in rest
        assert len(server.graph.memories) == 20
