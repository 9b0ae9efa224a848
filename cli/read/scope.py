"""The options of verbs that count: what is counted, and by whose clock days begin."""

from collections.abc import Callable
from datetime import tzinfo
from functools import wraps
from typing import Any

import click

from eventlog.reports import zones
from eventlog.reports.scope import Scope

from .. import complete
from ..exits import usage_error
from ..options import options, since_option, until_option

_narrowing: Callable[[Any], Any] = options(
    since_option,
    until_option,
    click.option(
        "--agent", metavar="AGENT", shell_complete=complete.agents, help="Only this agent, such as codex."
    ),
    click.option("--project", metavar="PROJECT", help="Only this project: its name, or its repository's hash."),
    click.option("--person", metavar="PERSON", help="Only this person, as `stats --by person` shows them."),
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
        zone: str, **rest: Any,
    ) -> Any:  # fmt: skip
        scope = Scope(since, until, agent, project, person)
        return function(scope=scope, clock=_clock(zone), **rest)

    return _narrowing(with_scope)


def _clock(zone: str) -> tzinfo | None:
    try:
        return None if zone == "UTC" else zones.named(zone)
    except ValueError as error:
        raise usage_error(f"{error}.") from None
