"""`locus search`, `locus decisions`, `locus errors`: on a recorded history and a recorded conversation."""

import json
import shlex
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.locks import SEARCH, acquire
from eventlog.recorder.recorder import Recorder
from eventlog.search import find
from eventlog.store import Store
from tests.cli.support import Locus, Recorded
from tests.maintenance.support import make_store
from tests.search.test_partial import long_log


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A conversation in which one thing was decided, one error stayed open, and two were resolved."""
    root = tmp_path_factory.mktemp("spoken") / ".locus"
    with Store.init(root, repo_hash="0123456789ab", project_name="sample", force=True) as store:
        recorder = Recorder(store, agent="script")
        turn = recorder.start_turn("Make the parser faster")
        turn.decision(
            "Rewrite the tokenizer", "the parser is quadratic", alternatives_considered=["cache it"]
        )
        turn.error("Timeout", "parser took 9 s", tool="bash", command="pytest -k parser", resolved=False)
        turn.error("TypeError", "int is not str", file="src/parse.py", tool="Edit", resolved=False)
        turn.error("NameError", "no name", resolved=True, resolution="imported it")
        store.append([{**_action("bash", True, "2031-01-01"), "session_id": turn.ref.session_id, "turn": 1}])
        turn.file("src/parse.py", before=b"def slowTokenizer(): pass\n", after=b"def fastTokenizer(): pass\n")
        turn.end(title="Parser rewritten", outcome="twice as fast")
        recorder.end_session("Repaired the parser")
    yield root


def _action(tool: str, success: bool, at: str) -> dict[str, object]:
    import datetime

    when = datetime.datetime.fromisoformat(f"{at}T00:00:00+00:00")
    return {
        "event_type": "action",
        "tool": tool,
        "success": success,
        "occurred_at": int(when.timestamp()) * 1_000_000,
        "payload": {"command": "pytest -k parser", "output": "3 passed"},
    }


def ask(locus: Locus, store: Path, *arguments: str) -> Any:
    ended = locus("--store", store, *arguments, "--json")
    assert ended.code == 0, ended.err
    answer = json.loads(ended.text)
    assert answer["version"] == 1
    return answer


def test_n_is_the_limit_as_everywhere(spoken: Path, locus: Locus) -> None:
    """P8: `-n 1` limits what `search`, `errors` and `decisions` list, and is no word that they look for."""
    assert len(ask(locus, spoken, "search", "parser", "-n", "1")["hits"]) == 1
    assert len(ask(locus, spoken, "errors", "-n", "1")["errors"]) == 1
    assert len(ask(locus, spoken, "decisions", "-n", "1")["decisions"]) == 1


def test_search_shows_places_and_how_to_go_on(spoken: Path, locus: Locus) -> None:
    """S1-60, P8: each hit has its turn, its words marked, and a command that works."""
    ended = locus("--store", spoken, "search", "fast_tokenizer")

    assert ended.code == 0
    assert "def «fastTokenizer»(): pass" in ended.text
    reported = next(line.strip() for line in ended.text.splitlines() if "locus cat " in line)
    show, replay = reported.split(" · ")
    shown = locus("--store", spoken, *show.split()[1:])
    assert replay.startswith("locus replay ") and replay.endswith("_001 --to DIR")
    assert shown.out == b"def fastTokenizer(): pass\n"
    assert "Nothing fits." in locus("--store", spoken, "search", "kubernetes").err


def test_what_a_leading_minus_does_is_reported_when_nothing_fits(spoken: Path, locus: Locus) -> None:
    """P8: `-k` of a command line leaves out; the advice is a search that finds it."""
    output = locus("--store", spoken, "search", "pytest", "-k", "parser").err
    assert output.startswith("Nothing fits.\n") and "leading minus excludes" in output
    advised = shlex.split(output.rpartition("To search for it: ")[2])
    assert "«pytest -k parser»" in locus("--store", spoken, *advised[1:]).text
    assert "minus" not in locus("--store", spoken, "search", "kubernetes").err


def test_search_as_json(spoken: Path, locus: Locus) -> None:
    """P8: hits with ids, marks and the next command."""
    reported = ask(locus, spoken, "search", "rewrite", "token*", "--type", "decision")
    (hit,) = reported["hits"]

    assert (reported["not_indexed"], reported["more"], hit["event_type"]) == (0, False, "decision")
    assert [hit["snippet"][a:b] for a, b in hit["marks"]] == ["Rewrite", "tokenizer"]
    assert locus("--store", spoken, *hit["next"].split()[1:]).code == 0


def test_contents_of_a_git_history_are_searched(recorded: Recorded, locus: Locus) -> None:
    """S1-60: file versions of an import are found by their text, with how many versions fit."""
    (hit,) = ask(locus, recorded.store, "search", "zwei", "print")["hits"]
    (old,) = ask(locus, recorded.store, "search", "print", "two")["hits"]
    shown = locus(*hit["next"].split()[1:])

    assert (hit["path"], hit["is_content"]) == ("src/app.py", True)
    assert shown.out == b"print('one')\nprint('zwei')\nprint('three')\n"
    assert old["turn_id"] == "001"


@pytest.mark.parametrize("words", ["?!", '"open', "-only", "x" * 3_000])
def test_a_wrong_query_is_one_line(spoken: Path, locus: Locus, words: str) -> None:
    """P8: exit code 1, one line, nothing of SQL."""
    ended = locus("--store", spoken, "search", words)

    assert ended.code == 1 and ended.out == b""
    assert len(ended.err.splitlines()) == 1 and "sql" not in ended.err.lower()


def test_a_minus_leaves_a_word_out(spoken: Path, locus: Locus) -> None:
    """S1-53, P8: words that begin with a minus are no options but -h and -n, whatever letter follows."""
    everything = ask(locus, spoken, "search", "parser")["hits"]
    without = ask(locus, spoken, "search", "parser", "-hash", "-ny", "-quadratic")["hits"]

    assert len(without) == len(everything) - 1
    assert locus("--store", spoken, "search", "parser", "--nonsense").code == 2


def test_decisions_with_their_reasons(spoken: Path, locus: Locus) -> None:
    """S1-55, S1-56: what was decided, why, and instead of what; also by words."""
    (one,) = ask(locus, spoken, "decisions")["decisions"]
    text = locus("--store", spoken, "decisions", "tokenizer").text

    assert one["reasoning"] == "the parser is quadratic"
    assert "because the parser is quadratic" in text and "instead of cache it" in text
    assert ask(locus, spoken, "decisions", "kubernetes")["decisions"] == []


def test_errors_are_open_or_resolved(spoken: Path, locus: Locus) -> None:
    """S1-56, P7: stated by the log, seen in what worked later, else open; with the time it took."""
    reported = ask(locus, spoken, "errors")
    by_type = {row["error_type"]: row for row in reported["errors"]}

    assert reported["summary"]["open"] == 1 and reported["summary"]["resolved"] == 2
    assert {kind: row["resolved"] for kind, row in by_type.items()} == {
        "Timeout": "seen", "TypeError": None, "NameError": "told",
    }  # fmt: skip
    assert by_type["Timeout"]["took_us"] > 0 and by_type["NameError"]["took_us"] is None
    assert by_type["NameError"]["resolution"] == "imported it"
    (still,) = ask(locus, spoken, "errors", "--open")["errors"]
    assert still["path"] == "src/parse.py"
    ended = locus("--store", spoken, "errors", "parser")
    assert "1 error: 0 open, 1 resolved" in ended.err and "Timeout" in ended.text


def test_the_size_of_the_index_is_shown(spoken: Path, locus: Locus) -> None:
    """P6: `store du` counts it."""
    locus("--store", spoken, "search", "parser")
    rows = ask(locus, spoken, "store", "du")["du"]["rows"]

    assert {"search index"} <= {row["name"] for row in rows}


def test_a_store_that_may_only_be_read_is_searched(spoken: Path, locus: Locus, tmp_path: Path) -> None:
    """P8: without permission to write, the answer comes from memory."""
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(spoken), str(copy)], check=True)
    for path in (copy / "index").iterdir():
        path.unlink()
    (copy / "index").chmod(0o500)
    (copy / "locks").chmod(0o500)
    try:
        assert len(ask(locus, copy, "search", "tokenizer")["hits"]) >= 2
    finally:
        (copy / "index").chmod(0o700)
        (copy / "locks").chmod(0o700)


@pytest.mark.slow
def test_no_absence_is_reported_of_what_was_not_searched(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I22, P7: beside who indexes, words, JSON, decisions and the exit code say what is left."""
    monkeypatch.setattr(find, "WAIT_S", 0.0)
    at = tmp_path / ".locus"
    with make_store(at) as store, ThreadPoolExecutor(1) as another:
        long_log(store)
        lock = another.submit(acquire, store.fs, store.layout, SEARCH).result()
        nothing = locus("--store", at, "search", "early")
        as_json = locus("--store", at, "search", "early", "--json")
        decisions = locus("--store", at, "decisions", "early")
        another.submit(lock.release).result()

    assert nothing.code == as_json.code == decisions.code == 4
    assert "Nothing fits among the newest" in nothing.err and "of 1,200 events" in nothing.err
    assert "Nothing fits." not in nothing.err and "Not searched yet" in nothing.err
    assert "No decision fits among the newest" in decisions.err
    document = json.loads(as_json.text)
    assert 0 < document["not_indexed"] < document["events"] == 1_200
    assert locus("--store", at, "search", "early", "--wait").code == 0
