"""Parts of one session in several stores, by real hooks and imports: they meet in the wide tables."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlog.agents.kit.lines import FileSource
from eventlog.importers import importer
from eventlog.lake.place import Place
from eventlog.store import Store
from tests.cli.hook_support import Agent, Codex, project
from tests.lake.conftest import Lake
from tests.lake.publishing import new_store
from tests.lake.test_wide_tables import fold, make_tables, publish_all
from tests.lake.wide_lakes import assert_wide_right, rows_of


@pytest.fixture
def file_lake(file_place: Place, sqlite_catalog: str) -> Lake:
    """A folder with a catalog in a file."""
    return Lake(file_place, sqlite_catalog)


def publish_and_fold(lake: Lake, *stores: Store) -> None:
    publish_all(lake.place, stores)
    make_tables(lake)
    assert not fold(lake)["left"]
    assert_wide_right(lake)


# -- live ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Agent, Codex])
def test_parts_of_a_session_in_two_repositories_meet(
    kind: "Callable[..., Agent]", tmp_path: Path, file_lake: Lake
) -> None:
    """An agent works on two repositories in one session, in two of its four turns on both: these meet by its
    own ids, and the turn that only the other repository has comes after those of the home."""
    works = []
    for name in ("front", "back"):
        (tmp_path / name).mkdir()
        works.append(project(tmp_path / name))
    front = kind(works[0])
    back = kind(works[1], front.session)
    front.start()
    for number, agents in enumerate([(front,), (back,), (front, back), (front, back)]):
        turn = agents[0].prompt(f"Work number {number}")
        for agent in agents:
            agent.turn = turn
            agent.bash(f"echo {number} > made{number}.txt")
        for agent in agents:
            agent.stop("Done.")
    stores = [Store.open(work / ".locus") for work in works]
    publish_and_fold(file_lake, *stores)

    rows = rows_of(file_lake, "sessions", "turns", "wide_turns", "wide_sessions")
    (session,) = rows["wide_sessions"]
    home, other = sorted(rows["sessions"], key=lambda row: -row["events"])
    assert session["store_id"] == home["store_id"]
    assert session["stores"] == sorted([home["store_id"], other["store_id"]])
    assert (session["turn_count"], session["last_turn"]) == (4, "004")
    found = {row["turn"]: row for row in rows["wide_turns"]}
    for row in rows["turns"]:
        if row["store_id"] == home["store_id"]:
            assert found[row["turn"]]["user_request"] == row["user_request"]
    assert [len(found[turn]["stores"]) for turn in (1, 2, 3, 4)] == [1, 2, 2, 1]
    assert found[4]["stores"] == [other["store_id"]] == [found[4]["store_id"]]
    assert (found[4]["turn_id"], found[4]["context_id"]) == ("004", f"turn:{session['session_id']}_004")
    assert sum(row["tool_calls"] for row in found.values()) == 6
    for store in stores:
        store.close()


# -- imported --------------------------------------------------------------------------------------

PARENT = "0b5f3c1e-7a44-4c1d-9a3b-1f2e3d4c5b6a"
FORK = "5d1c2b3a-9e8f-4a7b-8c6d-0e1f2a3b4c5d"


def lines_of(session: str, *numbers: int) -> "list[dict[str, Any]]":
    """A prompt and its answer for each of these turns, with ids as true ones are."""
    lines = []
    for number in numbers:
        payload = {
            "sessionId": session,
            "cwd": "/home/dev/shop",
            "version": "2.1.330",
            "timestamp": f"2026-11-20T10:{number:02d}:00.000Z",
        }
        asked, answered = (f"{kind}0f3c1e-7a44-4c1d-9a3b-1f2e3d4c{number:04x}" for kind in ("1b", "2b"))
        prompt = {"role": "user", "content": f"request {number}"}
        lines.append(
            payload | {"type": "user", "uuid": asked, "promptId": f"3{asked[1:]}", "message": prompt}
        )
        usage = {"input_tokens": 1000, "output_tokens": 10 + number}
        answer = {
            "role": "assistant",
            "id": f"msg_01Ab{number:03d}x",
            "model": "claude-opus-5",
            "usage": usage,
        }
        answer["content"] = [{"type": "text", "text": f"answer {number}"}]
        line = {
            "type": "assistant",
            "uuid": answered,
            "parentUuid": asked,
            "requestId": f"req_01Ab{number:03d}",
        }
        lines.append(payload | line | {"message": answer})
    return lines


def imported(directory: Path, *transcripts: "list[dict[str, Any]]") -> Store:
    """A store with these transcripts."""
    store = new_store(directory)
    for number, lines in enumerate(transcripts):
        path = directory / f"{number}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        importer.run(store, "claude-code", [FileSource("claude-code", [str(path)])])
    return store


def test_a_clone_with_the_beginning_of_sessions_changes_no_row(tmp_path: Path, file_lake: Lake) -> None:
    """The rows are those of the whole sessions. Only `stores` names the clone, too, and its own words of the
    end, which come last, have a position."""
    whole = imported(tmp_path / "whole", lines_of(PARENT, 1, 2, 3), lines_of(FORK, 7, 8))
    clone = imported(tmp_path / "clone", lines_of(PARENT, 1), lines_of(FORK, 7, 8)[:3])
    publish_and_fold(file_lake, whole, clone)

    home, other = (store.identity.store_id.hex() for store in (whole, clone))
    rows = rows_of(file_lake, "turns", "sessions", "wide_turns", "wide_sessions")
    stores = {(row["session_id"], row["turn"]): row["stores"] for row in rows["wide_turns"]}
    assert sorted(map(len, stores.values())) == [1, 1, 2, 2, 2]
    assert all(row["stores"] == sorted([home, other]) for row in rows["wide_sessions"])
    for name in ("turns", "sessions"):
        of_home = [row for row in rows[name] if row["store_id"] == home]
        assert without_last(rows[f"wide_{name}"]) == without_last(of_home)


def without_last(rows: "list[dict[str, Any]]") -> "list[str]":
    left_out = ("stores", "last_position")
    return sorted(repr({k: v for k, v in row.items() if k not in left_out}) for row in rows)


def test_a_fork_whose_parent_another_store_has_keeps_its_own_turns(tmp_path: Path, file_lake: Lake) -> None:
    """The copied turns belong to the parent, as in a store that has both, and count once; the fork's own
    keep their numbers."""
    parent = imported(tmp_path / "parent", lines_of(PARENT, 1, 2))
    fork = imported(tmp_path / "fork", lines_of(FORK, 1, 2, 3, 4, 5))
    publish_and_fold(file_lake, parent, fork)
    both = imported(tmp_path / "both", lines_of(PARENT, 1, 2), lines_of(FORK, 1, 2, 3, 4, 5))

    sql = "SELECT title, session_id, turn, llm_calls, tokens_used FROM turns WHERE llm_calls > 0"
    rows = rows_of(file_lake, "wide_turns", "wide_sessions", "wide_calls")
    names = ("title", "session_id", "turn", "llm_calls", "tokens_used")
    found = [tuple(row[name] for name in names) for row in rows["wide_turns"]]
    assert sorted(found) == sorted(tuple(row) for row in both.query(sql).rows)
    assert [turn for _, _, turn, *_ in sorted(found)] == [1, 2, 3, 4, 5]
    assert sorted(row["turn_count"] for row in rows["wide_sessions"]) == [2, 3]
    assert sum(row["tokens_used"] for row in rows["wide_sessions"]) == 5 * 1000 + 11 + 12 + 13 + 14 + 15
    assert len(rows["wide_calls"]) == 5


def test_an_answer_that_grew_counts_with_its_last_figures(tmp_path: Path, file_lake: Lake) -> None:
    """A store that imported earlier has fewer tokens of the same answer: they count nowhere."""
    early, late = lines_of(PARENT, 1), lines_of(PARENT, 1)
    late[1]["message"]["usage"]["output_tokens"] = 500
    stores = imported(tmp_path / "a", early), imported(tmp_path / "b", late)
    publish_and_fold(file_lake, *stores)

    (call,) = rows_of(file_lake, "wide_calls")["wide_calls"]
    assert call["completion_tokens"] == 500 and len(call["stores"]) == 2
    (session,) = rows_of(file_lake, "wide_sessions")["wide_sessions"]
    assert (session["llm_calls"], session["tokens_used"]) == (1, 1500)
