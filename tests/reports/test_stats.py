"""`locus stats`: what it prints."""

import json
from collections.abc import Iterator

import pytest

from eventlog import Store
from eventlog.query import prices
from eventlog.reports.figures import DIMENSIONS, Figures
from locus_cli.main import run
from locus_cli.output import bars
from locus_cli.read import stats
from tests.older import append_as_before
from tests.sql_demo import make_demo

AT = 1_780_000_000_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The store of docs/sql.md, with a priced call, times that no calendar has, and hostile names."""
    with Store.open(make_demo(tmp_path_factory.mktemp("stats") / "sample")) as store:
        of = {"session_id": "pricedxx", "turn": 1, "agent": "codex", "event_type": "llm"}
        counts = {"prompt_tokens": 1000, "completion_tokens": 10, "model": "claude-opus-4-1"}
        append_as_before(
            store,
            [
                {**of, **counts, "message_id": "p1", "occurred_at": AT},
                {**of, **counts, "message_id": "p2", "occurred_at": 300_000_000_000_000_000},
                {**of, **counts, "message_id": "p3", "occurred_at": -100_000_000_000_000_000},
                {**of, "event_type": "action", "tool": "\x1b[31mred\u202e", "occurred_at": AT},
            ],
        )
        yield store.layout.root


def test_json_has_every_figure(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """P8: one document with total, rows and where prices come from; figures that are not known are null."""
    assert run(["--store", store, "stats", "--by", "model", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    rows = {row["key"]: row for row in answer["stats"]["rows"]}

    assert (answer["version"], answer["more"], answer["stats"]["by"]) == (1, False, "model")
    assert answer["stats"]["prices"]["library"] == "genai-prices"
    assert answer["stats"]["total"]["llm_calls"] == 5
    # 1,000 tokens at 15 dollars for a million, 10 at 75; a call outside of all calendars has no price.
    assert rows["claude-opus-4-1"]["cost_usd"] == pytest.approx(0.01575)
    assert (rows["claude-opus-4-1"]["unpriced_calls"], rows["model-a"]["cost_usd"]) == (2, None)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_a_table_of_each_dimension(store: str, dimension: str, capsys: pytest.CaptureFixture[str]) -> None:
    """P8: rows on stdout, words on stderr, and nothing that a terminal would obey (P5)."""
    assert run(["--store", store, "stats", "--by", dimension]) == 0
    output = capsys.readouterr()

    assert output.out.startswith(dimension.upper()) and len(output.out.splitlines()) >= 2
    assert not {"\x1b", "\u202e"} & set(output.out)
    assert ("genai-prices" in output.err) == (dimension not in ("tool", "path"))


def test_a_plot_has_a_bar_for_each_row(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """P8: bars of what the rows know, as many as the limit lets, and it is stated that there are more."""
    assert run(["--store", store, "stats", "--by", "tool", "--plot", "--limit", "3"]) == 0
    output = capsys.readouterr()

    assert output.out.splitlines()[0] == "tool calls by tool"
    assert [line.split()[-1] for line in output.out.splitlines()[1:]] == ["2", "1", "1"]
    assert not {"\x1b", "\u202e"} & set(output.out)
    assert "There are more" in output.err


def test_totals_in_words(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """P7: calls that do not say how they ended are counted; what has no price is stated with its share."""
    assert run(["--store", store, "stats"]) == 0
    output = capsys.readouterr()
    assert "5 (3 worked, 1 failed, 1 unknown)" in output.out
    # 4,520 of models that nobody knows and 2,020 of times that nobody knows, of 7,550.
    assert "4 calls with 86.6 % of the tokens have no price" in output.err
    assert run(["--store", store, "stats", "--since", "2026-05-01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stats"]["since"] == "2026-05-01T00:00:00.000000Z"


def test_unknown_lines_are_not_zero(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """P7: next to the sum of lines is the number of changes without a known sum, also where it is 0."""
    known = Figures(file_changes=31, files=23, lines_added=0, lines_removed=7, lines_unknown=24)
    assert dict(stats._total(known))["changes"] == "31 in 23 files, +0 −7 lines, unknown for 24 of 31"
    assert stats.lines_of(known) == "+0 −7, 24 unknown"
    unknown = Figures(file_changes=2, files=1, lines_unknown=2)
    assert dict(stats._total(unknown))["changes"] == "2 in 1 file, lines unknown"
    assert run(["--store", store, "stats", "--json"]) == 0
    assert "lines_unknown" in json.loads(capsys.readouterr().out)["stats"]["total"]


def test_bars_are_as_long_as_what_they_show() -> None:
    """P8: bars fill the width, in proportion; more than nothing is seen, unknown has no bar."""
    lines = bars([("a", 100, "100"), ("bb", 50, "50"), ("c", 0.001, "0"), ("d", None, "")], 40).splitlines()

    assert [line.count("█") for line in lines] == [31, 15, 0, 0]
    assert [len(line) for line in lines[:1]] == [39] and "▏" in lines[2] and lines[3] == "d"
    assert bars([], 40) == ""


def test_small_amounts_keep_their_digits() -> None:
    """P7: a tenth of a cent is not shown as nothing."""
    from decimal import Decimal

    assert [stats.dollars(Decimal(text)) for text in ("0", "0.0012", "0.5", "1234.567")] == [
        "$0.00", "$0.0012", "$0.50", "$1,234.57"
    ]  # fmt: skip


@pytest.mark.parametrize("command", ["log", "show last --fields", "status", "session ls", "doctor"])
def test_commands_that_tell_no_cost_load_no_prices(
    store: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: the library of prices takes longer to load than these commands take."""
    monkeypatch.setattr(prices, "load", lambda: pytest.fail("prices were loaded"))

    assert run(["--store", store, *command.split()]) in (0, 1)


def test_a_scope_narrows_every_figure(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """P3: agent, project, person and both ends of a span choose what is counted."""
    wanted = ["--agent", "codex", "--since", "2026-05-01", "--until", "2026-06-10"]
    assert run(["--store", store, "stats", *wanted, "--json"]) == 0
    stats_of_span = json.loads(capsys.readouterr().out)["stats"]

    assert run(["--store", store, "stats", "--by", "agent", "--no-commits", "--json"]) == 0
    agents = {row["key"] for row in json.loads(capsys.readouterr().out)["stats"]["rows"]}
    assert "codex" in agents and "git" not in agents
    assert stats_of_span["total"]["llm_calls"] == 1  # of three, one at a time that a calendar has
    assert (stats_of_span["agent"], stats_of_span["until"]) == ("codex", "2026-06-10T00:00:00.000000Z")


@pytest.mark.parametrize("option", ["--agent", "--project", "--person"])
def test_an_unknown_name_is_no_count_of_zero(
    store: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """P7: a name that nothing has is refused, with the names that there are."""
    assert run(["--store", store, "stats", option, "codx"]) == 2
    message = capsys.readouterr().err

    assert "'codx'" in message and "there are: " in message
