"""The one context id of a session, also for what was recorded before it had its name (docs/locusgraph.md).

Until its first prompt a session has no name, so the numbering of the log calls it by a provisional id. The
name is the context id of its first `session` event that says another one. Here the provisional id becomes
the settled one wherever it is, for SQL and for readers of single events. The log itself, and the fold
that numbers it, stay as they are. Pure; one thread, one view.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from eventlog.base.types import Event
from eventlog.log.numbering import default_context
from eventlog.projections.definitions import default_context as default_context_sql

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog.log.reader import LogView

COLUMNS = frozenset(("context_id", "extends"))  # where a provisional id may be
READ = frozenset(("position", "event_type", "session_id", "context_id"))  # what tells the settled one

_BEGINS = default_context("")[: -len("_")]  # of every provisional id
_ASKED_MAX = 16  # a caller that meets more sessions reads many events anyway


class Settled:
    """Provisional ids → settled ones, as a view of the log has them; it is read when one is met."""

    def __init__(
        self,
        view: "LogView",
        name_of: "Callable[[str], str | None] | None" = None,
        names: "SettledNames | None" = None,
    ) -> None:
        """Args: name_of: the settled id of a session, asked for a few before all are read from the log;
        names: has all of them, as they were read before."""
        self._view = view
        self._all_names = names
        self._name_of = name_of if names is None else None
        self._asked: dict[str, str] = {}

    def __call__(self, context_id: str) -> str:
        if not context_id.startswith(_BEGINS):
            return context_id
        if self._name_of is not None and len(self._asked) < _ASKED_MAX:
            return self._of_one(context_id, self._name_of)
        return self._names.get(context_id, context_id)

    def _of_one(self, context_id: str, name_of: "Callable[[str], str | None]") -> str:
        if context_id not in self._asked:
            session_id = context_id[(len(_BEGINS) + len(context_id)) // 2 + 1 :]
            if default_context(session_id) != context_id:  # an id that a name spells in other letters
                return self._names.get(context_id, context_id)
            self._asked[context_id] = name_of(session_id) or context_id
        return self._asked[context_id]

    def event(self, event: Event) -> Event:
        """The event, changed in place where it holds a provisional id."""
        context_id, extends = event.get("context_id"), event.get("extends")
        if isinstance(context_id, str):
            event["context_id"] = self(context_id)
        if isinstance(extends, list):
            event["extends"] = [self(link) for link in extends]
        return event

    @cached_property
    def _names(self) -> dict[str, str]:
        return (self._all_names or SettledNames()).of(self._view)


class SettledNames:
    """Settled ids by provisional ones: a fold that goes on with a log that grows. One thread."""

    def __init__(self) -> None:
        self._manifest = self._until = -1
        self._names: dict[str, str] = {}

    def of(self, view: "LogView") -> dict[str, str]:
        """Those in this view; no answer for an earlier one may be in use any more."""
        if view.manifest.number != self._manifest or view.next_position < self._until:
            self._manifest, self._until = view.manifest.number, 0
            self._names.clear()
        since, self._until = self._until, view.next_position
        rows = view.iterate(since, event_types=("session",), columns=("session_id", "context_id"))
        for row in rows if since < self._until else ():
            session_id, context_id = row["session_id"], row["context_id"]
            if isinstance(session_id, str) and isinstance(context_id, str):
                provisional = default_context(session_id)
                if context_id != provisional:
                    self._names.setdefault(provisional, context_id)
        return self._names


def events(raw: str) -> str:
    """A query that gives the events of the query `raw` with settled ids; DuckDB's text."""
    provisional = default_context_sql("session_id")
    return f"""
        SELECT event.* REPLACE (
            CASE WHEN event.event_type = 'session' AND event.context_id = name.provisional
                THEN name.settled ELSE event.context_id END AS context_id,
            CASE WHEN list_contains(event.extends, name.provisional)
                THEN list_transform(event.extends,
                    lambda link: CASE WHEN link = name.provisional THEN name.settled ELSE link END)
                ELSE event.extends END AS extends)
        FROM ({raw}) AS event LEFT JOIN (
            SELECT session_id, any_value({provisional}) AS provisional,
                arg_min(context_id, position) AS settled
            FROM ({raw}) WHERE event_type = 'session' AND context_id <> {provisional}
            GROUP BY session_id) AS name ON name.session_id = event.session_id"""
