"""The options of verbs that count: what is counted, and by whose clock days begin."""

from collections.abc import Callable
from datetime import tzinfo
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from eventlog.reports import usage, zones
from eventlog.reports.scope import Scope

from .. import complete
from ..exits import usage_error
from ..options import options, since_option, until_option
from ..output import one_line

if TYPE_CHECKING:
    from eventlog.query.lookup import Query

_SHOWN = 12  # names in the message about one that is not there

_narrowing: Callable[[Any], Any] = options(
    since_option,
    until_option,
    click.option(
        "--agent", metavar="AGENT", shell_complete=complete.agents, help="Only this agent, such as codex."
    ),
    click.option("--project", metavar="PROJECT", help="Only this project: its name, or its hash."),
    click.option("--person", metavar="PERSON", help="Only this person, as `stats --by person` shows them."),
    click.option("--no-commits", "no_commits", is_flag=True, help="Without commits of an imported history."),
    click.option(
        "--tz", "zone", default="UTC", show_default=True, metavar="ZONE",
        help="Whose days, weeks and months: Europe/Berlin, or local for this machine's.",
    ),
)  # fmt: skip


def scope_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the function `scope`, and `clock`: the zone whose days count, None for UTC."""

    @wraps(function)
    def with_scope(
        *, since: int | None, until: int | None, agent: str | None, project: str | None, person: str | None,
        no_commits: bool, zone: str, **rest: Any,
    ) -> Any:  # fmt: skip
        scope = Scope(since, until, agent, project, person, commits=not no_commits)
        return function(scope=scope, clock=_clock(zone), **rest)

    narrowed: Callable[..., Any] = _narrowing(with_scope)
    return narrowed


def _clock(zone: str) -> tzinfo | None:
    try:
        return None if zone == "UTC" else zones.named(zone)
    except ValueError as error:
        raise usage_error(f"{error}.") from None


def refuse_unknown(scope: Scope, query: "Query") -> None:
    """Refuse an agent, project or person that the log does not have: all counts would be 0 and look true."""
    if not (scope.agent or scope.project or scope.person):
        return
    for name, values in usage.choices(query).items():
        wanted = getattr(scope, name)
        if wanted is not None and wanted not in values and not _is_repository(name, wanted, query):
            shown = ", ".join(one_line(value) for value in values[:_SHOWN]) or "none"
            raise usage_error(f"no {name} {one_line(wanted)!r} is recorded here; there are: {shown}")


def _is_repository(name: str, wanted: str, query: "Query") -> bool:
    if name != "project":
        return False
    return bool(query("select 1 from sessions_master where repo = $1", [wanted]).rows)
