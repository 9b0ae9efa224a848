"""What calls cost: the same in SQL, in `locus stats` and in exports, and in the library's own words."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog import Store
from eventlog.exports import database
from eventlog.query import prices as of_library
from eventlog.reports import figures, zones
from tests.golden.stores import names, unpack
from tests.reports.test_figures import made_up, price_of

pytest.importorskip("genai_prices")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store.init(tmp_path_factory.mktemp("costs") / ".locus", force=True)
    events = [{**one, "event_id": f"{n:032x}"} for n, one in enumerate(made_up(11))]
    store.append(events[: len(events) // 2])
    store.seal()
    store.append(events[len(events) // 2 :])
    return store


def test_each_call_costs_what_the_library_says(store: Store) -> None:
    """P3, P7: of every call that counts, to the last place; null where the library has no price."""
    payload = {str(event["event_id"]): dict(event) for event in store.events()}
    rows = store.query("select event_id, cost_usd from llm_calls").rows
    known = [cost for _, cost in rows if cost is not None]

    assert len(known) > 50 and len(known) < len(rows)
    assert dict(rows) == {event_id: price_of(payload[event_id]) for event_id, _ in rows}


def check_agreement(store: Store) -> Decimal | None:
    """The total: `stats` and every view of SQL say the same, in total and by session."""
    known = of_library.load()
    with figures.asking(store) as query:
        reported = figures.figures_by(query, (None, "session", "model", "month"), known, rewritten=True)
    total = reported[None][0].cost_usd
    of_sessions = dict(store.query("select session_id, cost_usd from sessions").rows)
    for row in reported["session"]:
        assert of_sessions.get(row.key) == row.cost_usd or row.key is None
    for dimension in ("model", "month"):
        assert sum(row.cost_usd or 0 for row in reported[dimension]) == (total or 0)
    assert store.query("select sum(cost_usd) from llm_calls").rows == [(total,)]
    for view in ("turns", "sessions"):
        unpriced = f"select sum(unpriced_calls) from {view}"
        assert store.query(unpriced).rows[0][0] in (reported[None][0].unpriced_calls, None)
    return total


def test_stats_and_sql_agree(store: Store) -> None:
    """P3: in the tail, in segments, with an index and without."""
    assert check_agreement(store)
    store.seal()
    store.reindex()
    assert check_agreement(store)


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_stats_and_sql_agree_of_stores_of_earlier_revisions(name: str, tmp_path: Path) -> None:
    """P3: also of stores that were made by earlier revisions."""
    with Store.open(unpack(name, tmp_path).store) as store:
        check_agreement(store)


def test_an_export_has_cost_and_prices(store: Store, tmp_path: Path) -> None:
    """What is exported is what SQL says, with the version of the prices beside it."""
    database.export(store, str(tmp_path / "made.duckdb"))
    with duckdb.connect(str(tmp_path / "made.duckdb"), read_only=True) as con:
        for view in ("llm_calls", "turns", "sessions"):
            ask = f"select sum(cost_usd) from {view}"
            assert con.execute(ask).fetchall() == store.query(ask).rows
        found = con.execute("select distinct source from prices").fetchall()
    known = of_library.load()
    assert known is not None and found == [(f"genai-prices {known.source.version}",)]


def test_only_a_question_of_cost_loads_prices(store: Store) -> None:
    """A statement that means no cost does not import the library."""
    probe = (
        "import sys; from eventlog import Store; store = Store.open(sys.argv[1])\n"
        "for sql in sys.argv[2:]: store.query(sql); print('genai_prices' in sys.modules)"
    )
    asked = ["select count(*), sum(tokens_used) from turns", "select sum(cost_usd) from turns"]
    done = subprocess.run(
        [sys.executable, "-c", probe, store.layout.root, *asked], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]


def test_without_the_library_cost_is_unknown(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """P7: null, and every call is unpriced; nothing fails."""
    monkeypatch.setattr(of_library, "load", lambda: None)
    with Store.open(store.layout.root) as store:  # no connection of earlier questions
        counts = "select count(cost_usd) from llm_calls union all select count(*) from prices"
        assert store.query(counts).rows == [(0,), (0,)]
        ask = "select sum(unpriced_calls) = sum(llm_calls), count(cost_usd) from sessions"
        assert store.query(ask).rows == [(True, 0)]


def test_windows_are_five_hours_from_the_first_call(tmp_path: Path) -> None:
    """A window begins with the full hour of a call that no earlier window has, and no call is left out."""
    hour = 3_600_000_000
    begun = 1_780_000_000_000_000 // hour * hour
    at = [begun + 30 * 60_000_000, begun + 5 * hour - 1, begun + 5 * hour, begun + 11 * hour]
    with Store.init(tmp_path / ".locus", force=True) as store:
        call = {"event_type": "llm", "agent": "probe", "prompt_tokens": 10, "completion_tokens": 1}
        store.append([{**call, "message_id": f"m{n}", "occurred_at": us} for n, us in enumerate(at)])
        with figures.asking(store) as query:
            rows = figures.by(query, "window", None)
    starts = [f"{datetime.fromtimestamp((begun + n * hour) / 1e6, UTC):%Y-%m-%dT%H:%MZ}" for n in (0, 5, 11)]
    assert [(row.key, row.llm_calls) for row in rows] == list(zip(starts, (2, 1, 1), strict=True))


@given(
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"]),
    times=st.lists(st.integers(1_500_000_000, 1_900_000_000), min_size=1, max_size=20),
)
def test_the_clock_of_a_reader_is_that_of_python(zone: str, times: list[int]) -> None:
    """Whatever the zone does to its clocks."""
    local = zones.local(ZoneInfo(zone), min(times) * 1_000_000, max(times) * 1_000_000)
    asked = "strftime(make_timestamp({}), '%Y-%m-%d %H:%M')".format(local("make_timestamptz(us)"))
    with duckdb.connect() as con:
        found = con.execute(
            f"select {asked} from (select unnest(?::bigint[]) as us)", [[t * 1_000_000 for t in times]]
        ).fetchall()
    assert found == [(f"{datetime.fromtimestamp(t, ZoneInfo(zone)):%Y-%m-%d %H:%M}",) for t in times]


def test_a_zone_that_does_not_exist_is_refused(store: Store) -> None:
    """One line, exit code 2."""
    command = [sys.executable, "-m", "locus_cli", "--store", store.layout.root, "stats", "--json"]
    wrong = subprocess.run([*command, "--tz", "Mars/Phobos"], capture_output=True, text=True, check=False)
    right = subprocess.run(
        [*command, "--by", "week", "--tz", "Asia/Kolkata"], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2 and "no time zone" in wrong.stderr
    assert json.loads(right.stdout)["stats"]["rows"]
