"""Counts, sums and costs of a log, against a recount in plain Python."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from eventlog import Store
from eventlog.query.prices import Prices, TokenSums, load
from eventlog.reports import figures
from eventlog.reports.figures import Figures
from eventlog.reports.scope import Scope

genai_prices = pytest.importorskip("genai_prices")

DAY_US = 86_400_000_000
AT = 1_780_000_000_000_000
MODELS = ("claude-sonnet-4-5-20250929", "claude-opus-4-1", "gpt-5-codex", "gemini-2.5-pro", "own-model", None)
REPOS = ("abc123def456", "0123456789ab")
Told = dict[str, Any]


def made_up(seed: int) -> Iterator[Told]:
    """Sessions of two agents with turns, tools, errors, changes of files, and calls reported several
    times."""
    dice = random.Random(seed)
    for n in range(9):
        agent, repo = dice.choice(("codex", "claude-code")), dice.choice(REPOS)
        session = {"session_id": f"s000000{n}", "agent": agent, "repo": repo}
        for turn in range(1, 6):
            at = AT + dice.randrange(4 * DAY_US)
            of = {**session, "turn": turn}
            begun = {**of, "event_type": "turn", "operation": "start", "occurred_at": at}
            yield begun
            for _ in range(dice.randrange(20)):
                at += dice.randrange(1, 2_000_000_000)
                reported = one_of(dice)
                # Calls are close together, so that many of one model are priced at once.
                when = (
                    at
                    if reported["event_type"] != "llm"
                    else AT + dice.randrange(2) * DAY_US + dice.randrange(999)
                )
                yield {**of, "occurred_at": dice.choice((when, None)), "recorded_at": when, **reported}
            if dice.random() < 0.7:
                yield {**begun, "operation": "end", "status": "completed", "occurred_at": at}


def one_of(dice: random.Random) -> Told:
    kind = dice.choice(("action", "mcp_action", "error", "file", "file", "decision", *["llm"] * 6))
    if kind in ("action", "mcp_action"):
        payload = {
            "success": dice.choice((True, False, None)),
            "duration_ms": dice.choice((None, 5, 70, 900)),
        }
        return {"event_type": kind, "tool": dice.choice(("Bash", "Edit", None)), **payload}
    if kind == "error":
        return {"event_type": kind, "tool": dice.choice(("Bash", None)), "resolved": dice.random() < 0.5}
    if kind == "file":
        change = {
            "operation": dice.choice(("add", "edit", "delete", "read")),
            "path": f"f{dice.randrange(4)}",
        }
        return {"event_type": kind, **change, "lines_added": dice.choice((None, 3)), "lines_removed": 1}
    if kind == "decision":
        return {"event_type": kind, "title": "so"}
    prompt = dice.choice((None, 900, 150_000, 230_000, 400_000, 400_000))
    too_much = (prompt or 0) + 1 if dice.random() < 0.2 else 10
    write = dice.choice((None, 0, (prompt or 0) // 4))
    return {
        "event_type": kind,
        "model": dice.choice(MODELS),
        "message_id": dice.choice((None, f"m{dice.randrange(200)}")),
        "prompt_tokens": prompt,
        "completion_tokens": dice.choice((None, 1, 700, 900, 20)),
        "cache_read_tokens": dice.choice((None, 0, (prompt or 0) // 2, too_much)),
        "cache_write_tokens": write,
        "cache_write_1h_tokens": dice.choice((None, 0, write)) if write else None,
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Part sealed, part tail."""
    with Store.init(tmp_path_factory.mktemp("figures") / ".locus", repo_hash=REPOS[0]) as store:
        events = list(made_up(7))
        store.append(events[:60])
        store.seal()
        store.append(events[60:])
        yield store


@pytest.fixture(scope="module")
def prices() -> Prices:
    found = load()
    assert found is not None
    return found


def at(event: Told) -> int:
    found = event["occurred_at"]
    return int(event["recorded_at"] if found is None else found)


def tokens(call: Told) -> tuple[int, int]:
    """The more completion tokens the better, then the more prompt tokens."""
    written, read = call["completion_tokens"], call["prompt_tokens"]
    return -1 if written is None else int(written), -1 if read is None else int(read)


def day(us: int) -> str:
    return f"{datetime.fromtimestamp(us // 1_000_000, UTC):%Y-%m-%d}"


def price_of(call: Told) -> Decimal | None:
    """What the library says of this one call, by itself."""
    read, write = call["cache_read_tokens"] or 0, call["cache_write_tokens"] or 0
    hour, prompt = call["cache_write_1h_tokens"] or 0, call["prompt_tokens"]
    if prompt is None or call["completion_tokens"] is None or read + write > prompt or hour > write:
        return None
    usage = genai_prices.Usage(
        input_tokens=prompt, output_tokens=call["completion_tokens"], cache_read_tokens=read,
        cache_write_tokens=write, cache_write_1h_tokens=hour,
    )  # fmt: skip
    when = datetime.fromtimestamp(at(call) / 1e6, UTC)
    try:
        found = genai_prices.calc_price(usage, call["model"] or "", genai_request_timestamp=when)
    except LookupError:
        return None
    return Decimal(found.total_price)


def uncached(call: Told) -> Told:
    """The call as it would have been without a cache."""
    return {**call, "cache_read_tokens": 0, "cache_write_tokens": 0, "cache_write_1h_tokens": 0}


def is_in(scope: Scope, event: Told) -> bool:
    return (
        (scope.since is None or at(event) >= scope.since)
        and (scope.until is None or at(event) < scope.until)
        and scope.agent in (None, event["agent"])
        and scope.project in (None, event["repo"])
        and scope.session in (None, event["session_id"])
    )


def recount(store: Store, key: Callable[[Told], Any], scope: Scope = Scope()) -> dict[Any, Told]:  # noqa: B008
    """The figures by a key of events, from the raw events."""
    found: dict[Any, Any] = defaultdict(Counter)
    sessions: dict[Any, list[Any]] = defaultdict(list)
    spans: dict[Any, list[int]] = defaultdict(list)
    tools: dict[Any, list[int]] = defaultdict(list)
    files: dict[Any, list[str]] = defaultdict(list)
    best: dict[Any, Told] = {}
    begun: dict[Any, Told] = {}
    ended: dict[Any, Told] = {}
    for item in store.events():
        event: Told = dict(item)
        kind = event["event_type"]
        if kind == "llm":
            alone = event["event_id"] if event["message_id"] is None else ""
            call = event["agent"], event["message_id"], alone
            if call not in best or tokens(event) > tokens(best[call]):
                best[call] = event
        turn = event["session_id"], event["turn"]
        if kind == "turn":
            (begun if event["operation"] == "start" else ended)[turn] = event
        if not is_in(scope, event):
            continue
        sessions[key(event)].append(event["session_id"])
        count = found[key(event)]
        if kind in ("action", "mcp_action"):
            count["tool_calls"] += 1
            count["tool_succeeded"] += event["success"] is True
            count["tool_failed"] += event["success"] is False
            count["tool_unknown"] += event["success"] is None
            tools[key(event)] += [event["duration_ms"]] if event["duration_ms"] is not None else []
        if kind == "error":
            count["errors"] += 1
            count["errors_open"] += not event["resolved"]
        if kind == "file" and event["operation"] != "read":
            count["file_changes"] += 1
            files[key(event)].append(event["path"])
            count["lines_removed"] += event["lines_removed"]
            count["lines_added"] += event["lines_added"] or 0
            count["lines_unknown"] += event["lines_added"] is None
    for turn, event in begun.items():
        if is_in(scope, event):
            found[key(event)]["turns"] += 1
            if turn in ended and at(ended[turn]) > at(event):
                spans[key(event)].append(at(ended[turn]) - at(event))
    for one in best.values():
        if not is_in(scope, one):
            continue
        count = found[key(one)]
        count["llm_calls"] += 1
        for name in ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_1h_tokens"):
            count[name] += one[name] or 0
        cost = price_of(one)
        if cost is None:
            count["unpriced_calls"] += 1
            count["unpriced_tokens"] += (one["prompt_tokens"] or 0) + (one["completion_tokens"] or 0)
        else:
            count["cost_usd"] += cost
            count["saved_usd"] += (price_of(uncached(one)) or 0) - cost
    for name, count in found.items():
        count["sessions"] = len(set(sessions[name]))
        count["files"] = len(set(files[name]))
        if spans[name]:
            count["turn_median_us"] = round(median(spans[name]))
        if tools[name]:
            count["tool_median_ms"], count["tool_total_ms"] = round(median(tools[name])), sum(tools[name])
    return found


def differences(row: Figures, want: Told, names: frozenset[str]) -> dict[str, tuple[Any, Any]]:
    payload = {name: n for name, n in row.described().items() if name in names}
    return {name: (n, want[name]) for name, n in payload.items() if (n or 0) != (want[name] or 0)}


ALL = frozenset(Figures().described()) - {
    "key", "label", "resolve_median_us", "reasoning_tokens", "cache_write_tokens"
}  # fmt: skip
OF_CALLS = frozenset(
    ("llm_calls", "prompt_tokens", "completion_tokens", "cost_usd", "unpriced_calls", "unpriced_tokens")
)


@pytest.mark.parametrize(
    "scope",
    [
        Scope(),
        Scope(since=AT + DAY_US),
        Scope(until=AT + DAY_US),
        Scope(since=AT + DAY_US, until=AT + 2 * DAY_US),
        Scope(agent="codex"),
        Scope(session="s0000001"),
    ],
    ids=str,
)
def test_totals_are_those_of_a_recount(store: Store, prices: Prices, scope: Scope) -> None:
    """P3: counts, sums, medians, cost and what caches saved equal those counted event by event, each call
    priced alone, of any scope."""
    want = recount(store, lambda event: None, scope)[None]
    with figures.asking(store) as query:
        total = figures.total(query, prices, scope)

    assert differences(total, want, ALL) == {}
    assert total.cost_usd and total.unpriced_calls and total.llm_calls and total.errors_open
    assert total.saved_usd


@pytest.mark.parametrize("scope", [Scope(project="nobody's"), Scope(person="nobody"), Scope(agent="' or '")])
def test_a_scope_that_nothing_meets_counts_nothing(store: Store, prices: Prices, scope: Scope) -> None:
    """P7: what a scope names is a value, never SQL; where nothing meets it, counts are 0 and sums unknown."""
    with figures.asking(store) as query:
        total = figures.total(query, prices, scope)

    assert (total.sessions, total.turns, total.llm_calls, total.errors, total.file_changes) == (0, 0, 0, 0, 0)
    assert (total.cost_usd, total.tokens) == (None, None)


@pytest.mark.parametrize(
    ("dimension", "key"),
    [
        ("day", lambda event: day(at(event))),
        ("session", lambda event: event["session_id"]),
        ("agent", lambda event: event["agent"]),
        ("repo", lambda event: event["repo"]),
    ],
)
def test_rows_are_those_of_a_recount(
    store: Store, prices: Prices, dimension: str, key: Callable[[Told], Any]
) -> None:
    """P3: so is every row by day, session, agent and repository, and no row is missing."""
    want = recount(store, key)
    with figures.asking(store) as query:
        rows = figures.by(query, dimension, prices)

    assert {row.key: differences(row, want[row.key], ALL) for row in rows} == {one: {} for one in want}


def test_models_tools_and_paths_know_what_concerns_them(store: Store, prices: Prices) -> None:
    """P7: by model there are calls and cost, by tool calls of tools, by path changes; the rest is unknown."""
    with figures.asking(store) as query:
        models = figures.by(query, "model", prices)
        tools = figures.by(query, "tool", prices)
        paths = figures.by(query, "path", prices)
    called = recount(store, lambda event: event["model"])
    used = recount(store, lambda event: event["tool"])
    changed = recount(store, lambda event: event["path"])

    assert {row.key for row in models} == set(MODELS)
    assert [row.key for row in models if differences(row, called[row.key], OF_CALLS)] == []
    assert all(row.turns is None and row.tool_calls is None and row.errors is None for row in models)
    names = frozenset(("tool_calls", "tool_failed", "tool_unknown", "errors", "tool_median_ms"))
    assert [row.key for row in tools if differences(row, used[row.key], names)] == []
    assert {row.key for row in paths} == {"f0", "f1", "f2", "f3"}
    assert [
        row.key for row in paths if differences(row, changed[row.key], frozenset(("file_changes",)))
    ] == []
    assert all(row.llm_calls is None and row.cost_usd is None for row in (*tools, *paths))


def test_an_unknown_model_has_no_price(store: Store, prices: Prices) -> None:
    """P7: what the library does not know costs null, not 0, and its tokens are reported as unpriced."""
    with figures.asking(store) as query:
        rows = {row.key: row for row in figures.by(query, "model", prices)}

    for model in ("own-model", None):
        assert rows[model].cost_usd is None
        assert rows[model].unpriced_calls == rows[model].llm_calls
        assert rows[model].unpriced_tokens == rows[model].tokens


def test_cache_writes_are_priced_by_how_long_they_last(prices: Prices) -> None:
    """P7: reads, five-minute writes and one-hour writes have prices of their own, from the library."""
    model, at_us = "claude-opus-4-1", AT
    cost = {
        name: prices.cost(model, at_us, 1_000_000, TokenSums(1_000_000, 0, *counts))
        for name, counts in {
            "input": (0, 0, 0), "read": (1_000_000, 0, 0), "short": (0, 1_000_000, 0),
            "long": (0, 1_000_000, 1_000_000),
        }.items()
    }  # fmt: skip

    assert cost == {"input": 15, "read": Decimal("1.5"), "short": Decimal("18.75"), "long": 30}
    assert prices.source.library == "genai-prices" and prices.source.version


def test_all_figures_come_of_one_connection(store: Store, prices: Prices, connections: list[object]) -> None:
    """I21: statistics ask many questions about one moment of the log, and fold it once."""
    with figures.asking(store) as query:
        figures.figures_by(query, (None, "day", "model", "tool", "session"), prices)
        figures.rewritten_turns_in(query)

    assert len(connections) == 1


def test_without_prices_all_else_is_counted(store: Store, prices: Prices) -> None:
    """P7: without the library there is no cost, and nothing is called unpriced or free."""
    with figures.asking(store) as query:
        with_prices, without = figures.total(query, prices), figures.total(query, None)

    assert (without.cost_usd, without.unpriced_calls, without.unpriced_tokens) == (None, None, None)
    assert (without.llm_calls, without.tokens) == (with_prices.llm_calls, with_prices.tokens)


def test_an_empty_log_has_counts_of_zero(tmp_path: Path, prices: Prices) -> None:
    """P7: nothing recorded is 0 turns and an unknown number of tokens."""
    with Store.init(tmp_path / ".locus") as store, figures.asking(store) as query:
        reported = figures.figures_by(query, (None, *figures.DIMENSIONS), prices)
    (total,) = reported.pop(None)
    assert not any(reported.values())

    assert (total.sessions, total.turns, total.llm_calls, total.errors) == (0, 0, 0, 0)
    assert (total.prompt_tokens, total.cost_usd, total.turn_median_us) == (None, None, None)
