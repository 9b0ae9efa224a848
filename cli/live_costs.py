"""`live/costs`: the costs of the latest sessions and of the day, for status lines (docs/costs.md).

Maintenance writes it. Derived: without it costs are unknown until the next maintenance. Costs and prices are
those of SQL and `locus stats`; nothing is computed here. Any number of processes may write: a reader sees one
whole file. One thread.
"""

import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventlog.base.names import short
from eventlog.memory.files import read_json, replace_file
from eventlog.query import prices
from eventlog.reports import figures
from eventlog.reports.scope import Scope
from eventlog.reports.status_line import COSTS, FORMAT

if TYPE_CHECKING:
    from eventlog.query.lookup import Query
    from eventlog.store import Store

_SESSIONS_MAX = 256
_SESSIONS = (
    "select agent_session_id, sum(cost_usd), sum(unpriced_calls)::bigint from sessions "  # of all its parts
    "where agent_session_id is not null and llm_calls > 0 group by agent, agent_session_id "
    f"order by max(last_position) desc limit {_SESSIONS_MAX}"
)


def write(store: "Store", now_s: float) -> bool:
    """Bring the file up to date. Returns: whether it was written; never without the library of prices.

    Args: now_s: Unix time; "today" is the day that it falls on by this machine's clock. Raises: OSError.
    """
    price_list = prices.load()
    if price_list is None:
        return False
    path = Path(store.layout.live(COSTS))
    with figures.asking(store) as query:
        rests_on = {
            "day": time.strftime("%Y-%m-%d", time.localtime(now_s)),
            "position": query("select max(position) from events", []).rows[0][0],
            "prices": f"{price_list.source.library} {price_list.source.version}",
        }
        before = read_json(path)
        if isinstance(before, dict) and rests_on.items() <= before.items():
            return False
        costs = _costs(query, price_list, now_s)
    from eventlog.base import jsontext

    replace_file(path, jsontext.encode({"format": FORMAT, **rests_on, **costs}) + b"\n")
    return True


def _costs(query: "Query", price_list: prices.Prices, now_s: float) -> "dict[str, Any]":
    today = figures.total(query, price_list, Scope(since=_midnight_us(now_s)))
    sessions = query(_SESSIONS, []).rows
    return {
        "today": _cost(today.cost_usd if today.llm_calls else Decimal(0), today.unpriced_calls),
        "sessions": {short(name): _cost(cost, unpriced) for name, cost, unpriced in reversed(sessions)},
    }


def _cost(dollars: "Decimal | None", unpriced: "int | None") -> "list[str | int | None]":
    """[dollars as text, null where no call has a price; how many calls have none]"""
    return [None if dollars is None else f"{dollars:f}", unpriced or 0]


def _midnight_us(now_s: float) -> int:
    """When the day began by this machine's clock, in µs."""
    now = time.localtime(now_s)
    return int(time.mktime((now.tm_year, now.tm_mon, now.tm_mday, 0, 0, 0, 0, 0, -1))) * 1_000_000
