"""What each model call costs, by list prices (docs/costs.md).

The library gives the price of one token of each kind, once for each model, each half hour in which the log
has a call of it, and each size of prompt with a price of its own; SQL does the rest, exactly. A call without
a price, of an unknown model say, has none, which is not a price of 0 (P7). Nothing is stored.
"""

from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb

from eventlog.projections import definitions as d
from eventlog.query.added import CALL_COSTS, SCHEMA

if TYPE_CHECKING:
    from eventlog.query.prices import Prices

COLUMNS: d.Columns = (
    ("model", "VARCHAR", "the model, as calls name it"),
    ("priced_as", "VARCHAR", "provider/model under which its price is found"),
    ("since", d.TIME, "the half hour of the calls: some prices change by the time of day"),
    ("size", "BIGINT", "how many of the thresholds of sizes the prompts are above, from 0"),
    ("input", "DECIMAL(18,15)", "US dollars for a token that was read, outside of any cache"),
    ("cache_read", "DECIMAL(18,15)", "for one that was read from a cache"),
    ("cache_write", "DECIMAL(18,15)", "for one that was written into a cache"),
    ("cache_write_1h", "DECIMAL(18,15)", "for one that was written into a cache that lasts an hour"),
    ("output", "DECIMAL(18,15)", "for a token that the model wrote"),
    ("source", "VARCHAR", "where the price comes from: a library and its version"),
)
TABLE = f"{SCHEMA}.prices"

# Whether a provider can have billed the counts of a call; null columns of the cache count as 0.
_BILLABLE = (
    "prompt_tokens >= 0 AND completion_tokens >= 0 AND coalesce(cache_read_tokens, 0) >= 0 "
    "AND coalesce(cache_write_1h_tokens, 0) >= 0 "
    "AND coalesce(cache_write_tokens, 0) >= coalesce(cache_write_1h_tokens, 0) "
    "AND coalesce(cache_read_tokens, 0) + coalesce(cache_write_tokens, 0) <= prompt_tokens"
)
# Tokens of a call, each kind by itself, with the column that has its price.
_BILLED = (
    ("input", "prompt_tokens - coalesce(cache_read_tokens, 0) - coalesce(cache_write_tokens, 0)"),
    ("cache_read", "coalesce(cache_read_tokens, 0)"),
    ("cache_write", "coalesce(cache_write_tokens, 0) - coalesce(cache_write_1h_tokens, 0)"),
    ("cache_write_1h", "coalesce(cache_write_1h_tokens, 0)"),
    ("output", "completion_tokens"),
)  # fmt: skip
# Kinds of tokens that would have been plain input without a cache.
_CACHED = ("cache_read", "cache_write", "cache_write_1h")
# One token of each kind, as `prices.Tokens` counts them.
_ONE_TOKEN = {
    "input": (1, 0, 0, 0, 0),
    "cache_read": (1, 0, 1, 0, 0),
    "cache_write": (1, 0, 0, 1, 0),
    "cache_write_1h": (1, 0, 0, 1, 1),
    "output": (0, 1, 0, 0, 0),
}  # fmt: skip
_PRICE = "DECIMAL(18,15)"
_COST = "DECIMAL(38,12)"
_COST_COLUMNS = f"position BIGINT, session_id VARCHAR, turn BIGINT, cost_usd {_COST}, saved_usd {_COST}"
_Row = tuple["str | Decimal | int | None", ...]


def bind(con: duckdb.DuckDBPyConnection) -> None:
    """Make the tables of prices and of what calls cost, of the views `plain.llm_calls` and `events`.

    Without the library there are no prices, and the cost of every call is unknown.
    """
    from eventlog.query import prices as of_library

    slot_us = of_library.SLOT_US
    # The library takes longer to load than most questions take: skip it for a log of commits, say.
    calls = f"SELECT 1 FROM {SCHEMA}.llm_calls"
    any_model = con.execute(f"{calls} WHERE model IS NOT NULL LIMIT 1").fetchone()
    if any_model is None and con.execute(f"{calls} LIMIT 1").fetchone() is None:
        _add_prices(con, [])
        con.execute(f"CREATE TABLE {CALL_COSTS} ({_COST_COLUMNS})")  # to plan what follows takes longer
        return
    prices = of_library.load() if any_model else None
    sizes = " + ".join(f"(prompt_tokens > {n:d})::BIGINT" for n in prices.thresholds) if prices else ""
    # A call of unknown time has the price of the day on which it was recorded.
    con.execute(
        f"CREATE TABLE {CALL_COSTS}_asked AS SELECT position, c.session_id, c.turn, c.model, "
        f"epoch_us(coalesce(c.occurred_at, e.recorded_at)) // {slot_us} AS slot, {sizes or '0'} AS size, "
        f"prompt_tokens, {', '.join(f'{tokens} AS {kind}' for kind, tokens in _BILLED)}, "
        f"coalesce({_BILLABLE}, false) AS billable FROM {SCHEMA}.llm_calls AS c "
        "JOIN (SELECT position, recorded_at FROM events WHERE event_type = 'llm') AS e USING (position)"
    )
    _add_prices(con, [] if prices is None else _rows(con, prices))
    cost = " + ".join(_amount(kind, f"p.{kind}") for kind, _ in _BILLED)
    saved = " + ".join(_amount(kind, f"(p.input - p.{kind})") for kind in _CACHED)
    con.execute(
        f"CREATE TABLE {CALL_COSTS} AS SELECT position, session_id, turn, "
        f"({cost})::{_COST} AS cost_usd, ({saved})::{_COST} AS saved_usd "
        f"FROM {CALL_COSTS}_asked AS a LEFT JOIN {TABLE} AS p "
        f"ON billable AND p.model = a.model AND p.size = a.size AND epoch_us(p.since) = a.slot * {slot_us}"
    )
    con.execute(f"DROP TABLE {CALL_COSTS}_asked")


def _amount(kind: str, price: str) -> str:
    """SQL for tokens of a kind at a price, which need not be known where there are none."""
    return f"CASE WHEN a.{kind} = 0 THEN 0 ELSE a.{kind} * {price} END"


def _rows(con: duckdb.DuckDBPyConnection, prices: "Prices") -> "list[_Row]":
    """The prices that the calls need, each asked once for a half hour."""
    from eventlog.query.prices import SLOT_US, TokenSums

    wanted = con.execute(
        f"SELECT model, slot, size, max(prompt_tokens) FROM {CALL_COSTS}_asked "
        "WHERE billable AND model IS NOT NULL AND slot IS NOT NULL GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    rows: list[_Row] = []
    source = f"{prices.source.library} {prices.source.version}"
    for model, slot, size, largest in wanted:
        known_as = prices.known_as(model)
        if known_as is not None:
            at_us = slot * SLOT_US
            costs = [prices.cost(model, at_us, largest, TokenSums(*tokens)) for tokens in _ONE_TOKEN.values()]
            rows.append((model, known_as, at_us, size, *costs, source))
    return rows


def _add_prices(con: duckdb.DuckDBPyConnection, rows: "list[_Row]") -> None:
    con.execute(f"CREATE TABLE {TABLE} ({', '.join(f'{name} {kind}' for name, kind, _ in COLUMNS)})")
    if not rows:
        return
    kinds = ["VARCHAR", "VARCHAR", "BIGINT", "BIGINT", *[_PRICE] * len(_ONE_TOKEN), "VARCHAR"]
    selects = [f"unnest(?::{kind}[])" for kind in kinds]
    selects[2] = f"make_timestamptz({selects[2]})"
    columns = [
        [str(v) if isinstance(v, Decimal) else v for v in column] for column in zip(*rows, strict=True)
    ]
    con.execute(f"INSERT INTO {TABLE} SELECT {', '.join(selects)}", columns)
