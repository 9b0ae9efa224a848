"""What the log has of an agent's sessions, so that an import adds only what is new.

The log is asked when a session is met, and only about sessions that it knows. Of the events that this import
added, eight bytes of each id are remembered. One thread.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from eventlog import agents
from eventlog.agents.kit.fact import Fact
from eventlog.agents.kit.lines import ImportOffset
from eventlog.base import jsontext
from eventlog.base.names import event_id_of
from eventlog.base.types import Event
from eventlog.importers.hook_matching import HookMatcher, prompt_of
from eventlog.importers.reused_ids import IdOwners, SortedIds, short, short_of_answer
from eventlog.store import Store

_FACTS = (
    "select event_type, operation, event_id, agent, agent_session_id, repo from events "
    "where event_type in ('sessions', 'session', 'turn', 'import', 'subagent')"
)
_OF_SESSIONS = (
    "select event_id, event_type, agent_turn_id, agent_session_id, tree_hash is not null, "
    "prompt_tokens, completion_tokens, message_id, subagent_id, success, occurred_at is null "
    "from events where agent = $1 and agent_session_id in (select unnest($2))"
)
_STARTS = (
    "select agent_turn_id, payload from events where event_type = 'turn' and operation = 'start' "
    "and agent = $1 and agent_session_id = $2 and starts_with(agent_turn_id, $2 || ':') order by position"
)
_CALLS_OF_TURN = (
    "select event_id, agent_session_id from events "
    "where event_type = 'llm' and agent = $1 and agent_turn_id = $2"
)
_SESSIONS = "select distinct session_id from events where session_id is not null"
_NONE = object()
_ADDED_MAX = 1 << 18
_NOTES = "select payload from events where event_type = 'import' and agent = $1 order by position"


class LogFacts:
    """Which sessions and turns of which agent the log has, from one query of its lifecycle events."""

    def __init__(self, store: Store) -> None:
        self.has_master = False
        self.sessions: dict[str, set[str]] = {}
        self.turn_ids: dict[str, dict[int, str]] = {}  # agent → start of a turn → session that had it first
        self.agents_with_notes: set[str] = set()
        rows = store.query(_FACTS).rows if store.journal.next_position() > 0 else []
        for event_type, operation, event_id, agent, session, repo in rows:
            if event_type == "sessions":
                self.has_master |= repo == store.repo_hash
            elif event_type == "import":
                self.agents_with_notes.add(agent)
            elif session is not None:
                self.sessions.setdefault(agent, set()).add(session)
                if event_type == "turn" and operation == "start":
                    self.turn_ids.setdefault(agent, {}).setdefault(short(event_id), session)


@dataclass(slots=True)
class LoggedSession:
    """What the log has of one session: nothing of one that it does not know.

    `nameless_calls` are model calls without the provider's id, by subagent or else turn, prompt tokens and
    completion tokens. `matcher` is there where hooks and transcript give different names.
    """

    name: str | None = None
    ids: set[int] = field(default_factory=set)
    turn_of: dict[int, str | None] = field(default_factory=dict)
    is_live: bool = False  # hooks recorded it
    live_turns: set[str] = field(default_factory=set)
    live_actions: set[str] = field(default_factory=set)
    nameless_calls: dict[tuple[str, int | None, int | None], list[str]] = field(default_factory=dict)
    timeless: set[int] = field(default_factory=set)  # added from a copy
    of_hooks: set[int] = field(default_factory=set)  # calls whose success only hooks know
    matcher: HookMatcher | None = None


class KnownSessions:
    """What is known of one agent's sessions."""

    def __init__(self, store: Store, agent: str, facts: LogFacts) -> None:
        self._store = store
        self._agent = agent
        spec = agents.spec_of(agent)
        hooks, transcripts = (None, None) if spec is None else (spec.hooks, spec.transcripts)
        self._copies_lack_times = transcripts is not None and transcripts.copies_lack_times
        self._has_outcomes = hooks is not None and hooks.tells_outcome_of_calls
        self._makes_ids = hooks is not None and hooks.makes_ids
        self._added: set[int] = set()
        self._requests: set[int] = set()  # of the answers among these
        self._added_before: list[SortedIds] = []
        self._owner_of_call: dict[int, str] = {}
        self._loaded: set[str] = set()
        self._sessions = facts.sessions.get(agent, set())
        self._turn_ids = facts.turn_ids.get(agent, {})
        self._session_ids: frozenset[str] | None = None  # ours, read when they are needed
        self._owner_of_turn: dict[int, str] = {}  # of those added since
        self.id_owners = IdOwners(store, agent, is_empty=not self._sessions, is_added=self._is_added)
        self.here = LoggedSession()  # the session at hand
        self._has_notes = agent in facts.agents_with_notes
        self.has_master = facts.has_master
        self.ends: set[tuple[str, int]] = set()  # name of a file, how far an import before had read it
        self._fetched: dict[str, list[tuple[Any, ...]]] = {}

    def of_these(self, names: "Iterable[object]") -> list[str]:
        """Those of `names` that are ids of sessions in the log."""
        return [name for name in names if isinstance(name, str) and name in self._sessions]

    def has_session(self, session_id: str) -> bool:
        """Whether the log had this session of ours, of whatever agent, at the first question."""
        if self._session_ids is None:
            self._session_ids = frozenset(row[0] for row in self._store.query(_SESSIONS).rows)
        return session_id in self._session_ids

    def fetch(self, sessions: "Sequence[str]") -> None:
        """Query sessions that are about to be read: one query for many costs no more than for one."""
        self._fetched.update((session, []) for session in sessions)
        for row in self._store.query(_OF_SESSIONS, [self._agent, list(sessions)]).rows:
            self._fetched[row[3]].append(row)

    def enter(self, session: str) -> None:
        """A session begins to be read."""
        self.here = here = LoggedSession(session)
        if session not in self._sessions:
            return
        actions: set[tuple[str, str]] = set()
        outcomes: dict[str, bool | None] = {}
        if session not in self._fetched:
            self.fetch([session])
        for row in self._fetched.pop(session):
            event_id, event_type, turn, owner, has_tree, prompt, completion, message, subagent, *rest = row
            success, lacks_time = rest
            id = short(event_id)
            here.ids.add(id)
            here.turn_of[id] = turn
            if lacks_time and self._copies_lack_times:
                here.timeless.add(id)
            if message is not None and event_type in ("llm", "llm_copy"):
                here.ids.add(short_of_answer(message))
            if event_type == "snapshot" and has_tree:
                here.is_live = True
                if turn is not None:
                    here.live_turns.add(turn)
            elif event_type == "action":
                actions.add((turn, event_id))
                outcomes[event_id] = success
            elif event_type == "llm":
                self._owner_of_call[id] = owner
                turn_or_subagent = subagent or turn
                if success is not None and self._has_outcomes:
                    here.of_hooks.add(id)
                if message is None and turn_or_subagent is not None:
                    usage = (turn_or_subagent, prompt, completion)
                    here.nameless_calls.setdefault(usage, []).append(event_id)
        if self._makes_ids and here.is_live:
            self._match(session, outcomes)
        here.live_actions = {event_id for turn, event_id in actions if turn in here.live_turns}

    def enter_alias(self, session: str) -> None:
        """Another name of the session at hand: what the log has under it is known too."""
        if session in self._sessions:
            rows = self._store.query(_OF_SESSIONS, [self._agent, [session]]).rows
            self.here.ids |= {short(row[0]) for row in rows}
            self.here.turn_of.update((short(row[0]), row[2]) for row in rows)

    def _match(self, session: str, outcomes: "dict[str, bool | None]") -> None:
        rows = self._store.query(_STARTS, [self._agent, session]).rows
        turns = [(str(turn), prompt_of(self._agent, jsontext.decode(payload))) for turn, payload in rows]
        named = {turn for turn, _ in turns}
        self.here.matcher = HookMatcher(self._agent, turns, outcomes, self.here.live_turns - named)
        self.here.live_turns.update(turn for turn, _ in turns)

    def has(self, event_id: str) -> bool:
        """Whether the log has the event, or this import added it."""
        id = short(event_id)
        return id in self.here.ids or self._is_added(id)

    def grows(self, call: Event) -> bool:
        """Whether an answer continues a known model call: this import added it, for the same request, or the
        log has one with its id."""
        message_id, request_id = call.get("message_id"), call.get("request_id")
        if not isinstance(message_id, str):
            return False
        request = short_of_answer(f"{message_id} {request_id}")
        is_added = request in self._requests
        self._requests.add(request)
        id = short_of_answer(message_id)
        return is_added or (id in self.here.ids and not self._is_added(id))

    def _is_added(self, id: int) -> bool:
        return id in self._added or any(id in ids for ids in self._added_before)

    def is_taken(self, fact: Fact) -> bool:
        """Whether a fact of another session has the id of this one. Raises: as `Store.append`."""
        return self.id_owners.is_taken(
            fact, (self.here.ids if self.here.name in fact.sessions else ()).__contains__
        )

    def is_held(self, tool_use_id: str) -> bool:
        """Whether another session's call has an id, and none of the session at hand."""
        action = event_id_of(self._agent, "action", tool_use_id)
        return short(action) not in self.here.ids and self.id_owners.is_held(action, self.here.name)

    def lacks_time(self, event_id: str) -> bool:
        """Whether the log has an event of the current session from a copy, which has no times."""
        return short(event_id) in self.here.timeless

    def is_of_hook(self, event_id: str) -> bool:
        """Whether a hook recorded a model call under the id that a transcript gives it."""
        return short(event_id) in self.here.of_hooks

    def take(self, event_id: str) -> None:
        """Note that an event of the session was met: its id is no other event's former id."""
        if self.here.turn_of:
            self.here.turn_of.pop(short(event_id), None)

    def takes_former(self, event_id: str, former: str, turn: object) -> bool:
        """Whether the log has an event of the session under its former id; each is taken once."""
        id = short(former)
        if short(event_id) in self.here.ids or self.here.turn_of.get(id, _NONE) != turn:
            return False
        del self.here.turn_of[id]
        return True

    def note_added(self, event_id: str, answer: object = None) -> None:
        """Note that this import added an event; the `answer` of a model call has an id too."""
        self._added.add(short(event_id))
        if isinstance(answer, str):
            self._added.add(short_of_answer(answer))
        if len(self._added) >= _ADDED_MAX:
            self._added_before.append(SortedIds(sorted(self._added)))
            self._added = set()

    def owner_of_call(self, event_id: str) -> str | None:
        """The session in which a model call was recorded first."""
        return self._owner_of_call.get(short(event_id))

    def note_call(self, event_id: str, session: str) -> None:
        self._owner_of_call.setdefault(short(event_id), session)

    def has_turn(self, turn: str) -> bool:
        """Whether the log had a turn before this import."""
        return short(event_id_of(self._agent, "turn", turn, "start")) in self._turn_ids

    def owner_of_turn(self, start_id: str, session: str) -> str:
        """The session that had a turn first: `session` where nobody had it yet."""
        id = short(start_id)
        return self._turn_ids.get(id) or self._owner_of_turn.setdefault(id, session)

    def is_turn_known(self, start_id: str, turn: str) -> bool:
        """Whether the log has a turn; if another session has it, its model calls are loaded."""
        if short(start_id) not in self._turn_ids:
            return False
        if short(start_id) in self.here.ids:
            return True  # in this session
        if turn not in self._loaded:
            self._loaded.add(turn)
            for event_id, owner in self._store.query(_CALLS_OF_TURN, [self._agent, turn]).rows:
                self._owner_of_call.setdefault(short(event_id), owner)
        return True

    def marks(self) -> "dict[str, dict[str, ImportOffset]]":
        """How far each source was read: path of the source → name of each of its files → offset."""
        if not self._has_notes:
            return {}
        offsets: dict[str, dict[str, ImportOffset]] = {}
        for (text,) in self._store.query(_NOTES, [self._agent]).rows:
            note = jsontext.decode(text)
            try:
                self.ends.update((part["name"], part["bytes"]) for part in note["parts"])
                offsets[note["path"]] = {
                    part["name"]: ImportOffset(
                        part["bytes"], part["digest"], part["lines"], part["malformed"]
                    )
                    for part in note["parts"]
                }
            except (KeyError, TypeError):
                continue  # of another version
        return offsets
