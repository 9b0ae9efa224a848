"""`locus view --lake`: what stores published to a place, in a browser (docs/view.md, "A lake").

Through the command as a process and what it answers over HTTP.
"""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from eventlog.base import jsontext
from eventlog.base.errors import Corruption, QueryError
from eventlog.lake import one_machine, question
from eventlog.lake.place import Place
from eventlog.query.engine import Limits
from eventlog.view.answers import OF_EVENTS, ROUTES
from locus_cli.lake import asking
from tests.lake.shared_sessions import AT, STORES, event, publish_rows, publish_team
from tests.lake.small import answer, run
from tests.mcp.support import bytes_below

FAILED = "the kettle is cold"


@dataclass(frozen=True)
class Running:
    """A viewer in a process of its own, and the address that it printed."""

    url: str

    def ask(self, path: str, parameters: "Mapping[str, str] | None" = None) -> "tuple[int, dict[str, Any]]":
        """The status and the JSON of an answer."""
        address = urlsplit(self.url)
        connection = HTTPConnection(address.netloc, timeout=60)
        token = address.fragment.removeprefix("t=")
        query = f"?{urlencode(parameters)}" if parameters else ""
        connection.request("GET", f"{path}{query}", headers={"Authorization": f"Bearer {token}"})
        reply = connection.getresponse()
        value = jsontext.decode(reply.read())
        connection.close()
        return reply.status, value

    def answer(self, path: str, /, **parameters: str) -> "dict[str, Any]":
        """The answer to a question, which must be one."""
        status, value = self.ask(path, parameters)
        assert status == 200, value
        return value


@contextmanager
def viewing(uri: str, *options: str, scratch: "Path | None" = None) -> "Iterator[Running]":
    """`locus view --lake`, ended by an interrupt, as by Ctrl-C."""
    environ = {**os.environ, **({} if scratch is None else {"TMPDIR": str(scratch)})}
    command = [sys.executable, "-m", "locus_cli", "view", "--print-url", "--lake", uri, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            url = process.stdout.readline().decode().strip()
            assert url, process.stderr.read()
            yield Running(url)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0, process.stderr.read()
        finally:
            process.kill()


def publish_all(place: Place) -> None:
    """Three stores: a team that shares sessions, and one with an error and a decision."""
    publish_team(place)
    at = {"occurred_at": AT + 60_000_000}
    spent = {"model": "claude-sonnet-4-5", "prompt_tokens": 1_000, "completion_tokens": 100}
    rows = [
        event(9000, "session", "session9", operation="start"),
        event(9001, "turn", "session9", 1, operation="start", title="Boil water"),
        event(9002, "error", "session9", 1, payload={"message": FAILED}, **at),
        event(9003, "decision", "session9", 1, title="Use a pot", payload={"decision": "Use a pot"}, **at),
        event(9004, "llm", "session9", 1, message_id="msg_9", **spent, **at),
    ]
    publish_rows(place, STORES[2], rows)


@pytest.fixture
def lake(file_place: Place) -> Place:
    publish_all(file_place)
    return file_place


@pytest.fixture
def running(lake: Place) -> "Iterator[Running]":
    with viewing(lake.uri) as viewer:
        yield viewer


def test_the_frame_knows_which_pages_a_lake_has(lake: Place, running: Running) -> None:
    """It begins with the cost; `/api/stores` names the pages that there are, and the place."""
    assert urlsplit(running.url).path == "/cost"
    answered = running.answer("/api/stores")
    assert answered["stores"] == [
        {
            "name": "shared",
            "project": "shared",
            "repo_hash": None,
            "path": None,
            "lake": lake.uri,
            "pages": ["Sessions", "Cost", "Errors", "Decisions", "SQL"],
        }
    ]


@pytest.mark.parametrize("by", ["person", "model", "session", "week"])
def test_figures_are_those_of_stats(lake: Place, running: Running, by: str) -> None:
    """P3: shared sessions count once; every figure is that of `locus stats --lake`."""
    stats = answer("stats", "--lake", lake.uri, "--by", by)["stats"]
    shown = running.answer("/api/figures", by=by)
    assert stats["total"]["sessions"] == 5 and stats["total"]["llm_calls"] == 9
    assert exact(shown["total"], stats["total"]) == exact(stats["total"])
    assert [exact(row, stats["rows"][0]) for row in shown["rows"]] == [exact(row) for row in stats["rows"]]


def exact(figures: "dict[str, Any]", names: "Iterable[str] | None" = None) -> "dict[str, Any]":
    """The figures of these names, money as decimals: the page has it as text, the command as numbers."""
    chosen = {name: figures[name] for name in names or figures}
    is_money = {name for name, value in chosen.items() if name.endswith("_usd") and value is not None}
    return {name: Decimal(str(value)) if name in is_money else value for name, value in chosen.items()}


def test_sessions_errors_and_decisions_are_listed(lake: Place, running: Running) -> None:
    """P7: as SQL has them; what each machine alone knows is null."""
    rows = answer("sql", "--lake", lake.uri, "select session_id, turn_count, person, status from sessions")
    shown = running.answer("/api/sessions")
    listed = {row["session_id"]: row for row in shown["sessions"]}
    assert {id: (row["turns"], row["person"], row["status"]) for id, row in listed.items()} == {
        row["session_id"]: (row["turn_count"], row["person"], row["status"]) for row in rows
    }
    assert len(listed) == 5
    for row in listed.values():
        assert (row["active"], row["doing"], row["resume"]) == (None, None, None)
    ben = "Ben <ben@example.org>"
    chosen = running.answer("/api/sessions", person=ben)["sessions"]
    assert {row["session_id"] for row in chosen} == {id for id, row in listed.items() if row["person"] == ben}
    (error,) = running.answer("/api/errors", session="session9")["rows"]
    assert (error["message"], error["turn"], error["session_id"]) == (FAILED, "session9_001", "session9")
    (decision,) = running.answer("/api/decisions")["rows"]
    assert (decision["decision"], decision["turn"]) == ("Use a pot", "session9_001")


def test_sql_answers_within_its_walls(lake: Place, running: Running) -> None:
    """P5: rows as `locus sql --lake` has them; what is no plain SELECT, and what reads files, is refused."""
    text = "select session_id, store_id, turn_count from sessions order by all"
    shown = running.answer("/api/sql", q=text)
    assert [column["name"] for column in shown["columns"]] == ["session_id", "store_id", "turn_count"]
    asked = answer("sql", "--lake", lake.uri, text)
    assert shown["rows"] == [list(row.values()) for row in asked]
    many = running.answer("/api/sql", q="select * from range(10000)")
    assert (len(many["rows"]), many["cut"]) == (2000, 2000)
    secret = Path(lake.uri.removeprefix("file://")) / "secret"
    secret.write_text("a secret")
    for statement in (
        "drop table turns",
        f"select * from read_text('{secret}')",
        f"select * from read_parquet('{secret.parent}/**')",
        f"copy (select 1) to '{secret.parent}/written'",
        "attach 'x' as y",
    ):
        status, value = running.ask("/api/sql", {"q": statement})
        assert status in (400, 413) and "a secret" not in str(value), statement
    status, value = running.ask("/api/sql", {"q": "select file_at('a', 'last')"})
    assert status == 413 and "locus lake replay" in value["error"]["what"]


def test_sql_runs_in_a_process_of_its_own(lake: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """P5, P7: the kernel ends what DuckDB cannot; the child asks in what was read, and says the same."""
    monkeypatch.setattr(asking, "store_option", lambda: None)
    limits = Limits(timeout_s=0.2, memory_bytes=256 << 20)
    with asking.viewed_lake(lake.uri, 100) as viewed:
        with monkeypatch.context() as patch:
            patch.setattr(one_machine, "run", lambda *_: pytest.fail("asked in this process"))
            assert viewed.ask("select count(*) from sessions").rows == [(5,)]
            with pytest.raises(QueryError, match=r"did not end within 0\.2 s"):
                viewed.ask("select levenshtein(repeat('a', 1000000), repeat('b', 1000000))", limits=limits)
            with pytest.raises(QueryError, match=r"(?i)memory"):
                viewed.ask("select length(repeat('x', 2000000000))", limits=limits)
        for view in ("turns order by all", "events order by position", "llm_calls order by all"):
            assert viewed.ask(f"from {view}") == viewed.query(f"from {view}", [])


def test_what_a_lake_cannot_answer_is_refused_in_words(lake: Place, running: Running) -> None:
    """P7: what there is, and what to do next; for every other path of a store, and for what is live."""
    for path in (*(ROUTES.keys() - OF_EVENTS.keys()), "/api/content/blake3:00", "/api/live"):
        status, value = running.ask(path)
        assert status == 404, path
        assert lake.uri in value["error"]["what"] and "no files, turns or search" in value["error"]["what"]
        assert f"`locus lake replay {lake.uri} TURN --to DIR`" in value["error"]["next"]
    status, value = running.ask("/api/none")
    assert status == 404 and "there is no answer" in value["error"]["what"]
    assert running.ask("/api/figures", {"by": "weather"})[0] == 400


def test_a_tour_writes_nothing_to_the_place_and_leaves_nothing(lake: Place, tmp_path: Path) -> None:
    """P5: not one byte of the place changes; what was read is gone after the end."""
    place, scratch = Path(lake.uri.removeprefix("file://")), tmp_path / "scratch"
    scratch.mkdir()
    before = bytes_below(place)
    with viewing(lake.uri, scratch=scratch) as viewer:
        (directory,) = scratch.glob("locus-ask-*")
        assert directory.stat().st_mode & 0o777 == 0o700
        for path in OF_EVENTS:
            viewer.answer(path, **({"q": "select 1"} if path == "/api/sql" else {}))
        viewer.ask("/api/spine")
    assert bytes_below(place) == before
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ("last", 2, "without WHAT"),
        ("--all-stores", 2, "without WHAT and --all-stores"),
        ("--lake-events 1", 3, "--lake-events"),
    ],
)
def test_what_does_not_go_together_is_refused(lake: Place, options: str, code: int, words: str) -> None:
    """P7: a usage error, or that of the other commands that ask a lake."""
    done = run("view", "--no-browser", "--lake", lake.uri, *shlex.split(options))
    assert done.returncode == code and words in done.stderr, done.stderr


def test_a_place_where_nobody_published_is_named(file_place: Place) -> None:
    """P7: it says what to do."""
    done = run("view", "--no-browser", "--lake", file_place.uri)
    assert done.returncode == 1 and f"locus publish {file_place.uri}" in done.stderr


def test_what_was_read_and_is_damaged_is_named(lake: Place, tmp_path: Path) -> None:
    """P7: from the other process, too, the error is one of damage, with its words."""
    here = tmp_path / "here"
    here.mkdir()
    log = one_machine.opened(lake, str(here))
    for path in here.rglob("*.parquet"):
        path.write_bytes(b"not a segment")
    with pytest.raises(Corruption, match="segment"):
        question.ask(log, "select * from events")
