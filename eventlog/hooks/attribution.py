"""Whose change it was: one decision table.

On disk, a change that a person made between two captures and one that a tool made are alike. Three facts
separate them: which call captured, which calls were under way or ended without a capture, and which files
edit tools name. The event of a change never contradicts itself: its turn is that of its causes, or it has
none. What cannot be known stays unknown (P7). Pure. On the hook path.
"""

from eventlog.agents.kit.tools import ANY, EDITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.hooks.state import Running

    TurnKey = tuple[str, str, str]  # agent, the agent's ids of session and turn

PROBABLE = "probable"

# When it was captured: before a command, after a tool of that kind, at the end of a turn, or at any other
# moment.
BEFORE_COMMAND, AFTER_EDIT, AFTER_COMMAND, AFTER_WAIT, TURN_ENDS, BETWEEN = (
    "before a command", "after an edit", "after a command", "after a wait", "turn ends", "between",
)  # fmt: skip

# How many calls may have made it, and of whom.
NO_CALL, UNCAPTURED, ONE_CALL, ONE_TURN, MORE_TURNS = (
    "none", "one of the turn, ended without a look", "one", "several of one turn", "of several turns",
)  # fmt: skip

# Whose it is: of the call that captured; of the one call that may have made it; of the turn of all these
# calls; of the turn that ends; of no call and no turn, with and without calls that may have made it.
CAPTURING_CALL, THAT_CALL, THEIR_TURN, THIS_TURN, UNKNOWN, NOBODY = (
    "looker", "that call", "their turn", "this turn", "unknown", "nobody",
)  # fmt: skip

TABLE: "dict[str, dict[str, tuple[str, str | None]]]" = {
    BEFORE_COMMAND: {
        NO_CALL: (THIS_TURN, PROBABLE), UNCAPTURED: (THAT_CALL, None), ONE_CALL: (THAT_CALL, None),
        ONE_TURN: (THEIR_TURN, None), MORE_TURNS: (UNKNOWN, None),
    },
    AFTER_EDIT: {
        NO_CALL: (CAPTURING_CALL, None), UNCAPTURED: (THAT_CALL, None), ONE_CALL: (THAT_CALL, None),
        ONE_TURN: (THEIR_TURN, None), MORE_TURNS: (UNKNOWN, None),
    },
    AFTER_COMMAND: {
        NO_CALL: (CAPTURING_CALL, None), UNCAPTURED: (THAT_CALL, None), ONE_CALL: (THAT_CALL, None),
        ONE_TURN: (THEIR_TURN, None), MORE_TURNS: (UNKNOWN, None),
    },
    AFTER_WAIT: {
        NO_CALL: (THIS_TURN, PROBABLE), UNCAPTURED: (THAT_CALL, None), ONE_CALL: (THAT_CALL, None),
        ONE_TURN: (THEIR_TURN, None), MORE_TURNS: (UNKNOWN, None),
    },
    TURN_ENDS: {
        NO_CALL: (THIS_TURN, PROBABLE), UNCAPTURED: (THAT_CALL, None), ONE_CALL: (THAT_CALL, PROBABLE),
        ONE_TURN: (THEIR_TURN, PROBABLE), MORE_TURNS: (UNKNOWN, None),
    },
    BETWEEN: {
        NO_CALL: (NOBODY, None), UNCAPTURED: (THAT_CALL, PROBABLE), ONE_CALL: (THAT_CALL, PROBABLE),
        ONE_TURN: (THEIR_TURN, PROBABLE), MORE_TURNS: (UNKNOWN, None),
    },
}  # fmt: skip


class CaptureOrigin:
    """The source of a capture: its moment (a row of `TABLE`), its action, its turn (None outside any)."""

    __slots__ = ("cause", "moment", "turn_key")

    def __init__(self, moment: str, cause: "str | None", turn_key: "TurnKey | None") -> None:
        self.moment = moment
        self.cause = cause
        self.turn_key = turn_key


class Attribution:
    """`cause` is the action that made the change, `causes` are those of which one may have made it,
    `turn_key` is the turn that it counts in. `certainty` is None where it is certain."""

    __slots__ = ("causes", "certainty", "owner", "turn_key")

    def __init__(
        self, owner: str, causes: "list[str]", turn_key: "TurnKey | None", certainty: "str | None"
    ) -> None:
        self.owner = owner
        self.causes = causes
        self.turn_key = turn_key
        self.certainty = certainty

    @property
    def cause(self) -> "str | None":
        return self.causes[0] if self.owner in (CAPTURING_CALL, THAT_CALL) and self.causes else None


def attribute(origin: CaptureOrigin, others: "Sequence[Running]", key: "str | None" = None) -> Attribution:
    """Whose change it is that the capture of `origin` found.

    Args:
        others: the other calls that are under way, or ended or died without a capture, the latest last.
        key: the `short` path of the change, as edit tools name it; None where the capturing call names it.
    """
    if key is None:
        return Attribution(CAPTURING_CALL, _listed(origin.cause), origin.turn_key, None)
    for other in reversed(others):
        if other.kind == EDITS and key in other.paths:
            return Attribution(THAT_CALL, [other.cause], other.turn_key, PROBABLE if other.dead else None)
    candidates = [other for other in others if other.kind == ANY]
    causes = [other.cause for other in candidates]
    turn_keys: "set[TurnKey | None]" = {other.turn_key for other in candidates}
    if candidates and origin.moment == AFTER_COMMAND and origin.cause is not None:
        causes.append(origin.cause)  # a command may have made it as well as these
        turn_keys.add(origin.turn_key)
    owner, certainty = TABLE[origin.moment][_count(origin, candidates, causes, turn_keys)]
    if any(other.dead for other in candidates):
        certainty = PROBABLE if owner in (THAT_CALL, THEIR_TURN) else certainty
    if owner == CAPTURING_CALL:
        return Attribution(owner, _listed(origin.cause), origin.turn_key, certainty)
    if owner in (THAT_CALL, THEIR_TURN):
        return Attribution(owner, causes, candidates[0].turn_key, certainty)
    return Attribution(owner, causes, origin.turn_key if owner == THIS_TURN else None, certainty)


def _count(
    origin: CaptureOrigin, candidates: "list[Running]", causes: "list[str]", turn_keys: "set[TurnKey | None]"
) -> str:
    """The column of `TABLE`."""
    if not causes:
        return NO_CALL
    if len(causes) == 1:
        return UNCAPTURED if candidates[0].late and candidates[0].turn_key == origin.turn_key else ONE_CALL
    return ONE_TURN if len(turn_keys) == 1 else MORE_TURNS


def _listed(cause: "str | None") -> "list[str]":
    return [] if cause is None else [cause]
