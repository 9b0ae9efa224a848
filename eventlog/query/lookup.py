"""Names of turns and events as people type them, looked up in the log (P8).

`query` is always the store's own: it runs a SELECT with parameters in safe mode.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from eventlog.base.errors import Ambiguous, NotFound, NoTree
from eventlog.projections.definitions import TURNS_NEWEST_FIRST

if TYPE_CHECKING:
    from eventlog.query.engine import Result

Query = Callable[[str, Sequence[Any]], "Result"]
P = ParamSpec("P")
T = TypeVar("T")

_HEX = frozenset("0123456789abcdef")
_NEWEST = f"order by {TURNS_NEWEST_FIRST} limit 1"
_ELIGIBLE = "happened_at is not null and rewritten is not true"


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


def names_a_turn(name: str) -> bool:
    """Whether `name` can be that of nothing but a turn."""
    return name == "last" or name.startswith(("last:", "turn:", "git:"))


# The turns of commits; of one that was recorded twice (docs/adapters.md, Git) the turn that counts.
_OF_COMMIT = """
where starts_with("commit", $1) and (rewritten is not true or "commit" not in
    (select "commit" from turns where rewritten is not true and "commit" is not null))
limit 5
"""

# Of a relation with `session_id` and `turn`: without what belongs to commits that no line reaches any more.
NOT_REWRITTEN = "(session_id, turn) not in (select (session_id, turn) from turns where rewritten)"


def rewritten_turns(query: Query, condition: str = "true", parameters: Sequence[Any] = ()) -> int:
    """How many turns are of commits that no line reaches any more, of those that fit a condition."""
    count: int = query(f"select count(*) from turns where rewritten and {condition}", parameters).rows[0][0]
    return count


def find_turn(query: Query, name: str) -> TurnRef:
    """The turn that `name` means: `turn:SID_TID`, `SID_TID`, a unique prefix, `git:COMMIT`, `last` or
    `last:AGENT`.

    `last` is the newest turn of an agent or a person, where there is none the newest commit. A turn of which
    nobody knows when it happened is none of them.
    Raises: NotFound, Ambiguous.
    """
    if name == "last":
        found = _turns(query, f"where agent is distinct from 'git' and {_ELIGIBLE} {_NEWEST}")
        found = found or _turns(query, f"where {_ELIGIBLE} {_NEWEST}")
    elif name.startswith("last:"):
        agent = name[len("last:") :]
        found = _turns(query, f"where agent = $1 and {_ELIGIBLE} {_NEWEST}", [agent])
    elif name.startswith("git:"):
        found = _turns_of_commit(query, name[len("git:") :].lower())
    else:
        found = _turns_by_prefix(query, name.removeprefix("turn:"))
    if not found and names_a_turn(name) and name.startswith("last"):
        raise NotFound(_why_no_last(query, name.removeprefix("last").removeprefix(":")))
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


def naming_one_with_files(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """A method of a store, whose error about a turn without a tree names the newest turn that has one."""

    @wraps(method)
    def named(store: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(store, *args, **kwargs)
        except NoTree as error:
            found = _turns(store.query, f"where end_tree is not null and rewritten is not true {_NEWEST}")
            one = f"{found[0].name} is the newest turn" if found else "there is no turn here"
            raise NoTree(f"{error}; {one} that has them. `locus log` lists turns.", error.known) from error

    return named


def _why_no_last(query: Query, agent: str) -> str:
    """Why there is no last turn, or none of `agent`, and which name would do."""
    rows = query("select coalesce(agent, ''), count(happened_at) from turns group by 1 order by 1", []).rows
    if not rows:
        return "this store has no turns yet. `locus import git .` records a history."
    if not agent or agent in (one for one, _ in rows):
        of = f" of {agent}" if agent else ""
        return f"nobody knows when the turns{of} happened, so none is the last. `locus log` lists them."
    names = ", ".join(f"last:{one}" for one, dated in rows if one and dated)
    there = f" There is {names}." if names else " `locus log` lists the turns."
    return f"no turn here is of an agent called {agent!r}.{there}"


def _turns(query: Query, condition: str, parameters: Sequence[Any] = ()) -> list[TurnRef]:
    rows = query(
        f"select session_id, turn, first_position, last_position + 1 from turns {condition}", parameters
    ).rows
    return [TurnRef(*row) for row in rows]


def _turns_of_commit(query: Query, commit: str) -> list[TurnRef]:
    if len(commit) < 4 or not _HEX.issuperset(commit):
        raise NotFound(f"{commit!r} is not a commit id (at least 4 hexadecimal digits)")
    return _turns(query, _OF_COMMIT, [commit])


def _turns_by_prefix(query: Query, name: str) -> list[TurnRef]:
    session, _, turn_id = name.partition("_")
    if turn_id.isascii() and turn_id.isdigit():
        exact = _turns(query, "where session_id = $1 and turn = $2", [session, int(turn_id)])
        if exact:
            return exact
    return _turns(
        query, "where starts_with(session_id || '_' || turn_id, $1) order by first_position limit 6", [name]
    )
