"""The figures that a viewer shows: one answer of JSON values (docs/view.md)."""

import json
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pytest

from eventlog import Store
from eventlog.query import prices
from eventlog.reports import figures, usage
from eventlog.reports.scope import COMMITS, Scope
from tests.sql_demo import make_demo

MONDAY_US = 1_767_571_200_000_000  # 2026-01-05T00:00Z
HOUR_US = 3_600_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The store of docs/sql.md, with turns that began on a Monday, and commits at night."""
    with Store.open(make_demo(tmp_path_factory.mktemp("usage") / "sample")) as store:
        for n, (agent, hours) in enumerate((("codex", (9, 9, 23)), (COMMITS, (3, 3)))):
            of = {"session_id": f"weekday{n}", "agent": agent, "repo": "feedfeedfeed"}
            for turn, hour in enumerate(hours, 1):
                began = {"occurred_at": MONDAY_US + hour * HOUR_US, "operation": "start"}
                store.append([{**of, "turn": turn, "event_type": "turn", **began}])
        yield store


def test_it_is_json_and_agrees_with_stats(store: Store) -> None:
    """P8, P3: the total is that of `locus stats`, money as exact text, and every value is one of JSON."""
    with figures.asking(store) as query:
        answer = usage.usage(query, ("model",), prices.load())["model"]
        total = figures.total(query, prices.load())
    json.dumps(answer)

    assert answer["total"]["llm_calls"] == total.llm_calls
    assert answer["total"]["tokens"] == total.tokens
    assert answer["total"]["cost_usd"] == (None if total.cost_usd is None else f"{total.cost_usd:f}")
    assert {row["key"] for row in answer["rows"]} >= {"model-a"}


def test_hours_are_those_of_the_readers_clock_and_leave_commits_out(store: Store) -> None:
    """P7: turns are at the hour that the reader's clock showed, that weekday; commits are counted apart."""
    with figures.asking(store) as query:
        scope = Scope(since=MONDAY_US, until=MONDAY_US + 48 * HOUR_US)
        utc = usage.usage(query, ("day",), None, scope)["day"]
        berlin = usage.usage(query, ("day",), None, scope, ZoneInfo("Europe/Berlin"))["day"]

    assert {(d, h): n for d, row in enumerate(utc["hours"]) for h, n in enumerate(row) if n} == {
        (0, 9): 2,
        (0, 23): 1,
    }
    assert {(d, h): n for d, row in enumerate(berlin["hours"]) for h, n in enumerate(row) if n} == {
        (0, 10): 2,
        (1, 0): 1,
    }
    assert (utc["commits"], utc["total"]["turns"]) == (2, 5)


def test_projects_have_names_and_commits_can_be_left_out(store: Store) -> None:
    """P7: a project is a repository, labelled by its name; without commits agents are counted alone."""
    with figures.asking(store) as query:
        answer = usage.usage(query, ("project",), None)["project"]
        alone = usage.usage(query, ("agent",), None, Scope(commits=False))["agent"]

    assert {row["key"] for row in answer["rows"]} >= {"feedfeedfeed", store.repo_hash}
    assert {row["label"] for row in answer["rows"] if row["key"] == store.repo_hash} == {store.project_name}
    assert COMMITS not in {row["key"] for row in alone["rows"]} and alone["commits"]
    assert alone["choices"]["agent"] and COMMITS in alone["choices"]["agent"]
