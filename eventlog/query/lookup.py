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
    """A turn: its session and its number. `context_id` is its name in the log.

    `since` and `until` bound the positions of its events at the time of the look-up, to limit a reader.
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
    """Whether `name` can only be that of a turn."""
    return name == "last" or name.startswith(("last:", "turn:", "git:"))


# The turns of commits; for a commit that was recorded twice (docs/adapters.md, Git), the turn that counts.
_OF_COMMIT = """
where starts_with("commit", $1) and (rewritten is not true or "commit" not in
    (select "commit" from turns where rewritten is not true and "commit" is not null))
limit 5
"""

# For a relation with `session_id` and `turn`: excludes commits that no line reaches any more.
NOT_REWRITTEN = "(session_id, turn) not in (select (session_id, turn) from turns where rewritten)"


def rewritten_turns(query: Query, condition: str = "true", parameters: Sequence[Any] = ()) -> int:
    """How many of the turns that meet a condition are commits that no line reaches any more."""
    count: int = query(f"select count(*) from turns where rewritten and {condition}", parameters).rows[0][0]
    return count


def find_turn(query: Query, name: str) -> TurnRef:
    """The turn that `name` means: `turn:SID_TID`, `SID_TID`, a unique prefix, `git:COMMIT`, `last` or
    `last:AGENT`.

    `last` is the newest turn of an agent or a person, or where there is none the newest commit. A turn of
    unknown time is never the last. Raises: NotFound, Ambiguous.
    """
    if name == "last":
        turns = turns_where(query, f"where agent is distinct from 'git' and {_ELIGIBLE} {_NEWEST}")
        turns = turns or turns_where(query, f"where {_ELIGIBLE} {_NEWEST}")
    elif name.startswith("last:"):
        agent = name[len("last:") :]
        turns = turns_where(query, f"where agent = $1 and {_ELIGIBLE} {_NEWEST}", [agent])
    elif name.startswith("git:"):
        turns = _turns_of_commit(query, name[len("git:") :].lower())
    else:
        turns = _turns_by_prefix(query, name.removeprefix("turn:"))
    if not turns and names_a_turn(name) and name.startswith("last"):
        raise NotFound(_why_no_last(query, name.removeprefix("last").removeprefix(":")))
    if not turns:
        raise NotFound(f"no turn is called {name!r}. `locus log` lists the turns.")
    if len(turns) > 1:
        names = ", ".join(ref.name for ref in turns[:5])
        raise Ambiguous(f"{name!r} fits several turns: {names}. Give more of the name.")
    return turns[0]


def find_session(query: Query, name: str) -> str:
    """The id of the session with this id, `session:ID` or `sess-ID`, or with the only id that begins so.

    Raises: NotFound, Ambiguous.
    """
    name = name.removeprefix("session:").removeprefix("sess-")
    rows = query(
        "select session_id from sessions where starts_with(session_id, $1) "
        "order by session_id = $1 desc limit 2",
        [name],
    ).rows
    if not rows:
        raise NotFound(f"no session is called {name!r}. `locus session ls --all` lists them.")
    if len(rows) > 1 and rows[0][0] != name:
        raise Ambiguous(f"{name!r} fits several sessions: {rows[0][0]}, {rows[1][0]}. Give more of it.")
    return str(rows[0][0])


def find_event(query: Query, event_id: str) -> int:
    """The position of the event with this id, or with the only id that begins with it.

    Raises: NotFound, Ambiguous.
    """
    prefix = event_id.lower()
    if not prefix or not _HEX.issuperset(prefix):
        raise NotFound(f"{event_id!r} is not an event id (hexadecimal digits, or their beginning)")
    rows = query(
        "select event_id, position from events where starts_with(event_id, $1) limit 5", [prefix]
    ).rows
    if not rows:
        raise NotFound(f"no event's id begins with {event_id!r}. `locus log` lists events.")
    if len(rows) > 1:
        raise Ambiguous(f"{event_id!r} fits several events: {', '.join(sorted(r[0] for r in rows))}")
    return int(rows[0][1])


def naming_one_with_files(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """A method of a store whose error about a turn without a tree names the newest turn with one."""

    @wraps(method)
    def named(store: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(store, *args, **kwargs)
        except NoTree as error:
            turns = turns_where(
                store.query, f"where end_tree is not null and rewritten is not true {_NEWEST}"
            )
            newest = f"{turns[0].name} is the newest turn" if turns else "there is no turn here"
            raise NoTree(f"{error}; {newest} that has them. `locus log` lists turns.", error.known) from error

    return named


def _why_no_last(query: Query, agent: str) -> str:
    """Why there is no last turn, or none of `agent`, and which name would work."""
    rows = query("select coalesce(agent, ''), count(happened_at) from turns group by 1 order by 1", []).rows
    if not rows:
        return "this store has no turns yet. `locus import git .` records a history."
    if not agent or agent in (name for name, _ in rows):
        of_agent = f" of {agent}" if agent else ""
        return (
            f"it is not known when the turns{of_agent} happened, so none is the last. `locus log` lists them."
        )
    names = ", ".join(f"last:{name}" for name, dated in rows if name and dated)
    hint = f" There is {names}." if names else " `locus log` lists the turns."
    return f"no turn here is of an agent called {agent!r}.{hint}"


def turns_where(query: Query, condition: str, parameters: Sequence[Any] = ()) -> list[TurnRef]:
    """The turns of the view `turns` under a `where` clause, which may order and limit them."""
    rows = query(
        f"select session_id, turn, first_position, last_position + 1 from turns {condition}", parameters
    ).rows
    return [TurnRef(*row) for row in rows]


def _turns_of_commit(query: Query, commit: str) -> list[TurnRef]:
    if len(commit) < 4 or not _HEX.issuperset(commit):
        raise NotFound(f"{commit!r} is not a commit id (at least 4 hexadecimal digits)")
    return turns_where(query, _OF_COMMIT, [commit])


def _turns_by_prefix(query: Query, name: str) -> list[TurnRef]:
    session, _, turn_id = name.partition("_")
    if turn_id.isascii() and turn_id.isdigit():
        exact = turns_where(query, "where session_id = $1 and turn = $2", [session, int(turn_id)])
        if exact:
            return exact
    return turns_where(
        query, "where starts_with(session_id || '_' || turn_id, $1) order by first_position limit 6", [name]
    )
