"""Session, turn, seq and context ids as a fold of the log in position order (I22).

Writers record what they know: the agent's own session and turn keys, never a counter. This fold turns
them into the numbering columns. The sealer runs it once and stores the result; readers run it over the
tail. Both start from the rows of the sessions in segments (`Prefix`), so sealing in any chunks, or not at
all, gives the same numbers. Duplicates must be removed before: a dropped event moves no counter (I8). A
value the writer gave stays and moves the counters, so numbering a numbered log changes nothing.

The state of a session can be rebuilt from its rows in segments alone:
- a key's turn is the turn of the first row with that key and a turn;
- the highest turn and the highest seq of a turn are maxima (at least 0);
- the current turn is the turn of the last row that has one;
- the session's context is fixed by its first `session` event with another than the default one, by its first
  turn, or by its first end, whichever comes first; later `session` events have it, whatever they name.

Counters stop at the largest int64 instead of running over it. Pure; not safe for concurrent use.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from eventlog.base.names import (
    safe_context_name,
    session_context,
    session_id_of,
    sessions_context,
    turn_context,
    turn_id_of,
)
from eventlog.base.types import LIFECYCLE_TYPES
from eventlog.log.parts import ConversationParts, Conversations

INT_MAX = 2**63 - 1

# What the fold reads besides the columns it writes.
INPUT_COLUMNS = ("event_type", "operation", "repo", "agent", "agent_session_id", "agent_turn_id")
NUMBERING_COLUMNS = ("session_id", "turn", "turn_id", "seq", "context_id", "extends")

_LIFECYCLE = frozenset(LIFECYCLE_TYPES)
_DIGITS = tuple(f"{number:03d}" for number in range(1000))


class PrefixRow(NamedTuple):
    """One group of rows in segments, by session, turn and agent's key of the turn, or part of a group.

    Rows may come in any order and be split in any way; only what they hold together counts.
    """

    session_id: str
    turn: "int | None"
    agent_turn_id: "str | None"
    first_position: int
    last_position: int
    max_seq: "int | None"
    context_id: "str | None"  # of the first `session` event that is an end, or has not the default one
    context_position: "int | None"  # of that event


class Prefix(Protocol):
    """The log before the events to be numbered."""

    def seen(self, event_ids: Sequence[str]) -> set[str]:
        """Those of `event_ids` that an earlier event has."""

    def sessions(self, session_ids: Sequence[str]) -> Iterable[PrefixRow]:
        """The rows of those sessions; none for an unknown session."""


class EmptyPrefix:
    """The prefix of a log that starts here."""

    def seen(self, event_ids: Sequence[str]) -> set[str]:  # noqa: ARG002
        return set()

    def sessions(self, session_ids: Sequence[str]) -> Iterable[PrefixRow]:  # noqa: ARG002
        return ()


def default_context(session_id: str) -> str:
    """The context id of a session that nobody gave a slug."""
    return session_context(f"session-{session_id}", session_id)


class _Session:
    """The counters of one session."""

    __slots__ = (
        "before",
        "context",
        "conversation",
        "current",
        "default",
        "extends",
        "highest",
        "id",
        "is_fixed",
        "is_met",
        "keys",
        "last_at",
        "seqs",
        "turn_texts",
    )  # fmt: skip

    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.highest = 0
        self.current: int | None = None
        self.keys: dict[str, int] = {}
        self.seqs: dict[int, int] = {}
        self.turn_texts: dict[int | None, _TurnTexts] = {}
        self.default = default_context(session_id)
        self.context = self.default
        self.extends = [self.context]
        self.is_fixed = False  # its context id, also by a turn (`current`)
        self.is_met = False  # whether it has a row
        self.last_at = -1  # of its last row with a turn: what is higher came later
        self.conversation: ConversationParts | None = None
        self.before: _Session | None = None  # the part of its conversation before it

    def name(self, context_id: str) -> None:
        """Take the first context id that is not the default one."""
        if not self.is_fixed and context_id != self.default:
            self.is_fixed = True
            self.context = context_id
            self.extends = [context_id]
            self.turn_texts.pop(None, None)  # what is outside of turns extends the session itself

    def texts_of(self, turn: "int | None") -> "_TurnTexts":
        texts = self.turn_texts.get(turn)
        if texts is None:
            texts = self.turn_texts[turn] = _TurnTexts(self, turn)
        return texts


class _TurnTexts:
    """The texts that all timeline events of one turn share."""

    __slots__ = ("counter", "extends", "prefixes", "turn", "turn_id")

    def __init__(self, session: _Session, turn: "int | None") -> None:
        self.turn = turn
        self.counter = turn or 0  # what is outside of turns counts in turn 0
        self.turn_id = None if turn is None else turn_id_of(turn)
        self.extends = session.extends if turn is None else [turn_context(session.id, turn)]
        self.prefixes: dict[str, str] = {}  # event type → its context id up to the seq


class Numbering:
    """The fold. Feed it batches of events in position order."""

    def __init__(self, prefix: "Prefix | None" = None, turn_limit: "int | None" = None) -> None:
        """Args: turn_limit: the one in STORE; None for any number of turns."""
        self.prefix: Prefix = prefix or EmptyPrefix()  # may be replaced by another over the same segments
        self._sessions: dict[str, _Session] = {}
        self._names: dict[str, str] = {}  # event type → its form in context ids
        self._ids: dict[tuple[str, str], str] = {}  # (agent, agent's session id) → session id
        self._clock = INT_MAX  # after all positions, one more for each row
        self._conversations = (
            None if turn_limit is None else Conversations(turn_limit, self._sessions, self._load)
        )

    def number(self, columns: "dict[str, list[Any]]", *, sealed: bool = False) -> None:
        """Fill the numbering columns, in place.

        Args: columns: lists of equal length for INPUT_COLUMNS and NUMBERING_COLUMNS, None for unknown.
            sealed: they are of a segment, whose ids of sessions stay: older versions took later names, too.
        """
        if self._conversations is None:
            self._fill_session_ids(columns)
        else:
            session_ids = columns["session_id"]
            pairs = zip(columns["agent"], columns["agent_session_id"], strict=True)
            self._conversations.meet(pair for pair, id in zip(pairs, session_ids, strict=True) if id is None)
        self._load([id for id in columns["session_id"] if id is not None])
        self._fill_numbers(columns, sealed)

    def _load(self, session_ids: "list[str]") -> None:
        """Begin the sessions that are new with their rows in the prefix."""
        new = [id for id in dict.fromkeys(session_ids) if id not in self._sessions]
        if new:
            for session_id in new:
                self._sessions[session_id] = _Session(session_id)
            self._prime(self.prefix.sessions(new))

    def retain(self, session_ids: "Iterable[str | None]") -> None:
        """Forget all other sessions: the prefix, which holds them by now, gives a session that comes back."""
        retained = {session_id for session_id in session_ids if session_id is not None}
        if self._conversations is not None:
            retained = self._conversations.retain(retained)
        for session_id in self._sessions.keys() - retained:
            del self._sessions[session_id]
        self._ids = {pair: s for pair, s in self._ids.items() if s in retained}

    def _fill_session_ids(self, columns: "dict[str, list[Any]]") -> None:
        session_ids, ids = columns["session_id"], self._ids
        for i, pair in enumerate(zip(columns["agent"], columns["agent_session_id"], strict=True)):
            if session_ids[i] is None:
                session_id = ids.get(pair)
                if session_id is None:
                    if pair[0] is None or pair[1] is None:
                        continue
                    session_id = ids[pair] = session_id_of(*pair)
                session_ids[i] = session_id

    def _alone(self, agent: "str | None", own: "str | None") -> "_Session | None":
        """The session of an agent whose sessions have no parts."""
        if agent is None or own is None:
            return None
        session_id = self._ids.get((agent, own)) or self._ids.setdefault(
            (agent, own), session_id_of(agent, own)
        )
        self._load([session_id])
        return self._sessions[session_id]

    def _prime(self, rows: Iterable[PrefixRow]) -> None:
        currents: dict[str, int] = {}
        contexts: dict[str, int] = {}
        keys: dict[tuple[str, str], int] = {}
        for row in rows:
            session = self._sessions[row.session_id]
            session.is_met = True
            if row.max_seq is not None:
                counter = row.turn or 0
                session.seqs[counter] = max(session.seqs.get(counter, 0), row.max_seq)
            if row.context_id is not None and row.context_position is not None:
                known_position = contexts.get(session.id)
                if known_position is None or row.context_position < known_position:
                    contexts[session.id] = row.context_position
                    session.context, session.extends = row.context_id, [row.context_id]
                    session.is_fixed = True
            if row.turn is None:
                continue
            session.highest = max(session.highest, row.turn)
            if row.last_position >= currents.get(session.id, -1):
                currents[session.id] = row.last_position
                session.current, session.last_at = row.turn, row.last_position
            if row.agent_turn_id is not None:
                key = (session.id, row.agent_turn_id)
                if row.first_position <= keys.get(key, row.first_position):
                    keys[key] = row.first_position
                    session.keys[row.agent_turn_id] = row.turn

    def _fill_numbers(self, columns: "dict[str, list[Any]]", sealed: bool) -> None:
        session_ids, turns, turn_ids = columns["session_id"], columns["turn"], columns["turn_id"]
        seqs, contexts, extends = columns["seq"], columns["context_id"], columns["extends"]
        repos, operations = columns["repo"], columns["operation"]
        sessions, names, conversations = self._sessions, self._names, self._conversations
        agents, owns = columns["agent"], columns["agent_session_id"]
        events = zip(
            columns["event_type"], columns["agent_turn_id"], session_ids, turns, turn_ids, seqs, strict=True
        )
        for i, (event_type, key, session_id, turn, turn_id, seq) in enumerate(events):
            previous: Sequence[str] = ()  # the part that this one continues, where the fold places the event
            if conversations is None:
                session = None if session_id is None else sessions[session_id]
            elif session_id is not None:
                session = sessions[session_id]
                conversations.see(session)
            else:
                session = conversations.session(
                    (agents[i], owns[i]),
                    event_type,
                    operations[i],
                    key,
                    contexts[i],
                    has_turn=turn is not None or turn_id is not None,
                ) or self._alone(agents[i], owns[i])
                if session is not None and session.before is not None:
                    previous = session.before.extends
            if session is None:
                _fill_outside(columns, i)
                continue
            session_id = session_ids[i] = session.id
            lifecycle = event_type in _LIFECYCLE
            if turn is None:
                # Most events name a known turn; only the others need all the rules.
                if turn_id is None and not lifecycle:
                    turn = session.current if key is None else session.keys.get(key)
                if turn is None:
                    turn = _turn_of(session, event_type, operations[i], key, turn_id)
            if turn is not None:
                session.current = turns[i] = turn
                if conversations is not None:
                    session.last_at = self._clock = self._clock + 1
                    if session.conversation is not None:
                        session.conversation.current = session
                if turn > session.highest:
                    session.highest = turn
                if key is not None and key not in session.keys:
                    session.keys[key] = turn
            texts = session.turn_texts.get(turn) or session.texts_of(turn)
            if turn_id is None:
                turn_ids[i] = texts.turn_id
            if lifecycle:
                if seq is not None:
                    session.seqs[texts.counter] = max(seq, session.seqs.get(texts.counter, 0))
                _fill_lifecycle(session, texts, event_type, repos[i], columns, i, previous)
                if event_type == "session":
                    _name(session, operations[i], contexts, i, sealed)
                continue
            last = session.seqs.get(texts.counter, 0)
            if seq is None:
                seq = seqs[i] = last + 1 if last < INT_MAX else INT_MAX
            if seq > last:
                session.seqs[texts.counter] = seq
            if contexts[i] is None:
                prefix = texts.prefixes.get(event_type)
                if prefix is None:
                    name = names.get(event_type) or names.setdefault(
                        event_type, safe_context_name(event_type)
                    )
                    prefix = texts.prefixes[event_type] = f"{name}:{session_id}_{texts.counter:03d}_"
                contexts[i] = prefix + (_DIGITS[seq] if 0 <= seq < 1000 else f"{seq:03d}")
            if extends[i] is None:
                extends[i] = texts.extends


def _turn_of(
    session: _Session, event_type: str, operation: "str | None", key: "str | None", turn_id: "str | None"
) -> "int | None":
    """The turn of an event whose writer gave no number."""
    if turn_id is not None:
        turn = _turn_in(turn_id)
        if turn is not None:
            return turn
    if event_type in ("session", "sessions"):
        return None
    if key is not None:
        turn = session.keys.get(key)
        return _next_turn(session) if turn is None else turn
    if event_type == "turn" and operation == "start":
        return _next_turn(session)
    return session.current


def _turn_in(turn_id: str) -> "int | None":
    """The number in a turn id that came without one; 18 digits always fit an int64."""
    if turn_id.isascii() and turn_id.isdigit() and len(turn_id) <= 18:
        return int(turn_id)
    return None


def _next_turn(session: _Session) -> int:
    return min(session.highest + 1, INT_MAX)


def _fill_lifecycle(
    session: _Session,
    texts: _TurnTexts,
    event_type: str,
    repo: "str | None",
    columns: "dict[str, list[Any]]",
    i: int,
    previous: "Sequence[str]",
) -> None:
    contexts, extends = columns["context_id"], columns["extends"]
    if event_type == "sessions":
        _fill_master(repo, contexts, i)
    elif event_type == "session":
        if extends[i] is None and repo is not None:
            extends[i] = [sessions_context(repo), *previous]
    else:
        if contexts[i] is None and texts.turn is not None:
            contexts[i] = turn_context(session.id, texts.turn)
        if extends[i] is None:
            extends[i] = session.extends


def _name(session: _Session, operation: "str | None", contexts: "list[Any]", i: int, sealed: bool) -> None:
    """The context id of a `session` event, which may be the one that fixes the session's."""
    if contexts[i] is not None and (session.current is None or sealed):
        session.name(contexts[i])
    if contexts[i] is None or not sealed:
        contexts[i] = session.context
    if operation == "end":
        session.is_fixed = True


def _fill_outside(columns: "dict[str, list[Any]]", i: int) -> None:
    """An event of no session: only what does not depend on one."""
    if columns["event_type"][i] == "sessions":
        _fill_master(columns["repo"][i], columns["context_id"], i)
    turn, turn_id = columns["turn"][i], columns["turn_id"][i]
    if turn is not None and turn_id is None:
        columns["turn_id"][i] = turn_id_of(turn)
    elif turn is None and turn_id is not None:
        columns["turn"][i] = _turn_in(turn_id)


def _fill_master(repo: "str | None", contexts: "list[Any]", i: int) -> None:
    if contexts[i] is None and repo is not None:
        contexts[i] = sessions_context(repo)
