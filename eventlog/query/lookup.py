"""Names of turns and events as people type them, looked up in the log (P8).

`query` is always the store's own: it runs a SELECT with parameters in safe mode.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eventlog.errors import Ambiguous, NotFound

if TYPE_CHECKING:
    from eventlog.query.engine import Result

Query = Callable[[str, Sequence[Any]], "Result"]

_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class TurnRef:
    """A turn by its two numbers. `context_id` is its name in the log.

    `since` and `until` are where its events stood when it was looked up; they spare a reader the rest.
    """

    session_id: str
    turn: int
    since: int = field(default=0, compare=False)
    until: int | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return f"{self.session_id}_{self.turn:03d}"

    @property
    def context_id(self) -> str:
        return f"turn:{self.name}"


# Of a relation with `session_id` and `turn`: without what belongs to commits that no line reaches any more.
NOT_REWRITTEN = "(session_id, turn) not in (select (session_id, turn) from turns where rewritten)"


def rewritten_turns(query: Query, condition: str = "true", parameters: Sequence[Any] = ()) -> int:
    """How many turns are of commits that no line reaches any more, of those that fit a condition."""
    count: int = query(f"select count(*) from turns where rewritten and {condition}", parameters).rows[0][0]
    return count


def find_turn(query: Query, name: str) -> TurnRef:
    """The turn that `name` means: `turn:SID_TID`, `SID_TID`, a unique prefix, `git:COMMIT` or `last`.

    Raises: NotFound, Ambiguous.
    """
    if name == "last":
        found = _turns(query, "where rewritten is not true order by last_position desc limit 1")
        if not found:
            raise NotFound("this store has no turns yet. `locus import git .` records a history.")
    elif name.startswith("git:"):
        found = _turns_of_commit(query, name[len("git:") :].lower())
    else:
        found = _turns_by_prefix(query, name.removeprefix("turn:"))
    if not found:
        raise NotFound(f"no turn is called {name!r}. `locus log` lists the turns.")
    if len(found) > 1:
        some = ", ".join(ref.name for ref in found[:5])
        raise Ambiguous(f"{name!r} fits several turns: {some}. Give more of the name.")
    return found[0]


def find_event(query: Query, event_id: str) -> int:
    """The position of the event of that id, or of the one id that begins with it.

    Raises: NotFound, Ambiguous.
    """
    prefix = event_id.lower()
    if not prefix or not _HEX.issuperset(prefix):
        raise NotFound(f"{event_id!r} is not an event id (hexadecimal digits, or their beginning)")
    found = query(
        "select event_id, position from events where starts_with(event_id, $1) limit 5", [prefix]
    ).rows
    if not found:
        raise NotFound(f"no event's id begins with {event_id!r}. `locus log` lists events.")
    if len(found) > 1:
        raise Ambiguous(f"{event_id!r} fits several events: {', '.join(sorted(r[0] for r in found))}")
    return int(found[0][1])


def _turns(query: Query, condition: str, parameters: Sequence[Any] = ()) -> list[TurnRef]:
    rows = query(
        f"select session_id, turn, first_position, last_position + 1 from turns {condition}", parameters
    ).rows
    return [TurnRef(*row) for row in rows]


def _turns_of_commit(query: Query, commit: str) -> list[TurnRef]:
    if len(commit) < 4 or not _HEX.issuperset(commit):
        raise NotFound(f"{commit!r} is not a commit id (at least 4 hexadecimal digits)")
    return _turns(query, 'where starts_with("commit", $1) limit 5', [commit])


def _turns_by_prefix(query: Query, name: str) -> list[TurnRef]:
    session, _, turn_id = name.partition("_")
    if turn_id.isascii() and turn_id.isdigit():
        exact = _turns(query, "where session_id = $1 and turn = $2", [session, int(turn_id)])
        if exact:
            return exact
    return _turns(
        query, "where starts_with(session_id || '_' || turn_id, $1) order by first_position limit 6", [name]
    )
