"""The figures of a store, or of a lake, as a page of one file (docs/view.md). One thread."""

from collections.abc import Mapping
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

from eventlog.query.lookup import Query
from eventlog.query.prices import Prices
from eventlog.reports import usage
from eventlog.reports.scope import COMMITS, Scope
from eventlog.view import answers, spines
from eventlog.view.cleaning import Cleaner
from eventlog.view.counted import DIMENSIONS
from eventlog.view.document import Key, Recording, key

if TYPE_CHECKING:
    from eventlog.view.stores import ViewedStores

SESSIONS_MAX = 500
LISTED_MAX = 100  # sessions whose turns are listed

_NEXT = "`locus view` and `locus show` show it, where it was recorded."
# All but the dimension: a page has one scope, by one clock.
_OF_FIGURES = tuple(name for name in answers.OF_FIGURES if name != "by")


def report(
    name: str,
    query: Query,
    prices: "Prices | None",
    scope: Scope,
    zone: "tzinfo | None",
    cleaner: Cleaner,
    stores: "ViewedStores | None" = None,
) -> Recording:
    """The page of a scope. Args: name: of the project or the place; stores: None for a lake, which has
    figures alone."""
    recorded: dict[Key, Mapping[str, Any]] = {}

    def add(what: str, answer: "Mapping[str, Any]", **parameters: str) -> None:
        recorded[key(what, **parameters)] = cleaner.answer({"v": answers.VERSION, **answer})

    for dimension, figures in usage.usage(query, DIMENSIONS, prices, scope, zone).items():
        add("figures", figures, by=dimension)
    add(
        "stores", {"stores": [{"name": name, "project": name, "repo_hash": None, "path": None}], "zone": None}
    )
    sections = ["Cost"]
    if stores is not None:
        sections = ["Cost", "Sessions", "Errors", "Decisions"]
        sessions = _sessions(stores, scope)
        add("sessions", sessions)
        for session in sessions["sessions"][:LISTED_MAX]:
            of = session["session_id"]
            add("spine", spines.of_turns(stores.named(None), of), session=of)
        for what in ("errors", "decisions"):
            add(what, _of_sessions(answers.answer(stores, f"/api/{what}", {}), sessions))
    ignored = {"figures": _OF_FIGURES, "errors": ("open", "session"), "decisions": ("session",)}
    return Recording(f"{name} – report", "/cost", sections, recorded, ignored, _plain(name, recorded), _NEXT)


def _sessions(stores: "ViewedStores", scope: Scope) -> "dict[str, Any]":
    """The answer `sessions` of those that a scope concerns, the newest first."""
    answer = answers.answer(stores, "/api/sessions", {"limit": str(SESSIONS_MAX)})
    rows = [row | {"resume": None, "doing": None} for row in answer["sessions"] if _is_in(row, scope)]
    return {**answer, "sessions": rows, "more": False}


def _is_in(row: "Mapping[str, Any]", scope: Scope) -> bool:
    began, last = row["started_at"], row["last_at"]
    return (
        scope.agent in (None, row["agent"])
        and scope.person in (None, row["person"])
        and (scope.commits or row["agent"] != COMMITS)
        and (scope.since is None or (last is not None and last >= scope.since))
        and (scope.until is None or (began is not None and began < scope.until))
    )


def _of_sessions(answer: "Mapping[str, Any]", sessions: "Mapping[str, Any]") -> "dict[str, Any]":
    """The rows of those sessions alone."""
    ids = {session["session_id"] for session in sessions["sessions"]}
    return {**answer, "rows": [row for row in answer["rows"] if row.get("session_id") in ids]}


def _plain(name: str, recorded: "Mapping[Key, Mapping[str, Any]]") -> "list[tuple[str, str]]":
    """What a reader without scripts sees: the totals."""
    total = recorded[key("figures", by="day")]["total"]
    lines = (f"{figure}: {value}" for figure, value in total.items() if value is not None)
    return [(name, "\n".join(lines))]
