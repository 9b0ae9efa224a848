"""The answer `figures`: tokens, cost, calls and changes of a scope, in total and by something."""

from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from eventlog.query import prices
from eventlog.query.lookup import Query
from eventlog.reports import figures, usage, zones
from eventlog.reports.scope import COMMITS, Scope
from eventlog.view.parameters import BadParameter, Parameters
from eventlog.view.stores import Viewed

DIMENSIONS = (*(name for name in figures.DIMENSIONS if name != "repo"), "project")


def answer(viewed: Viewed, parameters: Parameters) -> dict[str, Any]:
    dimension = parameters.text("by") or "day"
    if dimension not in DIMENSIONS:
        raise BadParameter(f"by is {dimension[:40]!r}, and not one of {', '.join(DIMENSIONS)}")
    zone = _zone(parameters)
    with viewed.asking() as query:
        scope = Scope(
            since=_moment("since", parameters, zone),
            until=_moment("until", parameters, zone),
            agent=parameters.text("agent"),
            project=parameters.text("project"),
            person=parameters.text("person"),
            session=parameters.text("session"),
        )
        scope = with_commits(scope, query, _flag(parameters))
        return usage.usage(query, (dimension,), prices.load(), scope, zone)[dimension]


def with_commits(scope: Scope, query: Query, wanted: "bool | None" = None) -> Scope:
    """Commits of an imported history count where nothing else is recorded, or where they are wanted.

    They would drown what agents did.
    """
    if wanted is not None:
        return replace(scope, commits=wanted)
    agents = query(f"select 1 from sessions where agent is distinct from '{COMMITS}' limit 1", []).rows
    return replace(scope, commits=not agents)


def _flag(parameters: Parameters) -> "bool | None":
    return None if parameters.text("commits") is None else parameters.flag("commits")


def _zone(parameters: Parameters) -> tzinfo | None:
    name = parameters.text("tz") or "UTC"
    try:
        return None if name == "UTC" else zones.named(name)
    except ValueError as error:
        raise BadParameter(f"tz: {error}") from None


def _moment(name: str, parameters: Parameters, zone: tzinfo | None) -> int | None:
    """The beginning of a day by the zone's clock, or a moment of ISO 8601, in µs since 1970."""
    text = parameters.text(name)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return round(moment.replace(tzinfo=moment.tzinfo or zone or UTC).timestamp()) * 1_000_000
    except (ValueError, OverflowError):
        raise BadParameter(f"{name} is {text[:40]!r}, and no day such as 2026-01-31") from None
