"""Facts of different sessions that an agent gave one id, which should be unique.

The first fact keeps the id. Another one gets a key with its session (docs/event-ids.md), unless it is a copy:
a fact in a turn that was copied from the first one's session, or one with the same content at the same time.
The log is asked once for the ids of its facts, and once for each session that is compared; events that this
import has added are written first. One thread.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from hashlib import md5
from typing import Any

from eventlog import agents
from eventlog.agents.kit.fact import Fact, words_in
from eventlog.base import jsontext
from eventlog.base.names import event_id_of
from eventlog.blobs.ids import blob_id, to_text
from eventlog.blobs.payload_texts import IN_BLOBS, replaced
from eventlog.hooks import texts
from eventlog.store import Store

# A set of short ids has an answer as the first eight bytes of this digest of its id.
_DIGEST_OF_ANSWER = "md5"
_IDS = (
    "select id from (select cast('0x' || left(event_id, 16) as ubigint) as id from events where agent = $1 "
    "and (event_type not in ('session', 'turn', 'snapshot', 'subagent', 'import', 'file') "
    "or (event_type = 'turn' and operation = 'start')) union all "
    f"select cast('0x' || left({_DIGEST_OF_ANSWER}(message_id), 16) as ubigint) from events "
    "where event_type = 'llm' and agent = $1 and message_id is not null) order by id"
)
_OF_SESSION = (
    "select event_id, message_id, event_type, operation, agent_session_id, epoch_us(occurred_at), "
    "agent_session_id in (select agent_session_id from events where event_type = 'snapshot' "
    "and tree_hash is not null and agent = $1), model, prompt_tokens, cache_read_tokens, cache_write_tokens "
    "from events where agent = $1 and agent_session_id in (select agent_session_id from events "
    "where agent = $1 and (event_id in ($2, $3) or (event_type = 'llm' and message_id = $4))) "
    "order by position"
)
_PAYLOAD = "select payload from events where event_id = $1"
_ANSWER_US_MAX = 3_600_000_000  # from the first line of an answer to its last
_OF_CALL = ("action", "tool_start")
_ASKED = ("model", "prompt_tokens", "cache_read_tokens", "cache_write_tokens")


def short(event_id: str) -> int:
    """The first eight bytes of an id, which stand for it."""
    return int(event_id[:16], 16)


class SortedIds:
    """Short ids that do not change, in an eighth of the memory of a set. Args: ids: sorted."""

    __slots__ = ("_ids",)

    def __init__(self, ids: "Iterable[int]") -> None:
        self._ids = array("Q", ids)

    def __contains__(self, id: int) -> bool:
        index = bisect_left(self._ids, id)
        return index < len(self._ids) and self._ids[index] == id


def short_of_answer(message_id: str) -> int:
    """The short id of a model's answer, among short ids of events."""
    return int(md5(message_id.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:16], 16)


class IdOwners:
    """Which fact of which session had an id first, in the log or in this import."""

    def __init__(
        self, store: Store, agent: str, *, is_empty: bool, is_added: "Callable[[int], bool]"
    ) -> None:
        """Args: is_empty: the log has nothing of the agent; is_added: whether this import added an id."""
        self._store = store
        self._agent = agent
        self._is_empty = is_empty
        self._is_added = is_added
        self._logged: SortedIds | None = None  # read when they are needed
        self._held: dict[str, tuple[Any, ...]] = {}  # of the session that was compared last
        self.write: Callable[[], None] = lambda: None  # writes what this import has added

    def is_taken(self, fact: Fact, is_of_session: "Callable[[int], bool]") -> bool:
        """Whether another fact has the id of `fact`. Raises: as `Store.append`.

        Args: is_of_session: whether the log is known to have a short id in the session of `fact`.
        """
        names, shorts = self._names_of(fact)
        if any(map(is_of_session, shorts)):
            return False
        is_added = any(map(self._is_added, shorts))
        if not is_added and (self._is_empty or not any(short_id in self._in_log() for short_id in shorts)):
            return False
        first = self._first(names, fact.message_id, is_added=is_added)
        return first is not None and not self._is_copy(fact, first)

    def is_held(self, action: str, session: str | None) -> bool:
        """Whether a call of a session other than `session` has the action, from this import or before."""
        is_added = self._is_added(short(action))
        if not is_added and (self._is_empty or short(action) not in self._in_log()):
            return False
        first = self._first([action], None, is_added=is_added)
        return first is not None and first[3] != session

    def _first(
        self, names: "list[str]", message_id: str | None, *, is_added: bool
    ) -> "tuple[Any, ...] | None":
        """The log's row for one of these names, after this import's events are written."""
        first = next((self._held[name] for name in names if name in self._held), None)
        if first is not None:
            return first
        if is_added:
            self.write()
        ids = (names[0], names[-1]) if message_id is None else ("", "")
        self._held = {}
        for event_id, answer, *row in self._store.query(_OF_SESSION, [self._agent, *ids, message_id]).rows:
            self._held.setdefault(event_id, (event_id, *row))
            if row[0] == "llm" and answer is not None:
                self._held.setdefault(f"{answer}:", (event_id, *row))
        return next((self._held[name] for name in names if name in self._held), None)

    def _names_of(self, fact: Fact) -> "tuple[list[str], list[int]]":
        """The names and short ids under which the first fact may be known."""
        if fact.message_id is not None:
            return [f"{fact.message_id}:"], [short_of_answer(fact.message_id)]
        if fact.tool_call is not None:
            names = [event_id_of(self._agent, event_type, *fact.tool_call) for event_type in _OF_CALL]
        else:
            names = [str(fact.event["event_id"])]
        return names, [short(name) for name in names]

    def _in_log(self) -> SortedIds:
        """The ids that the log had at the first question."""
        if self._logged is None:
            ids = self._store.sql(_IDS, [self._agent]).column("id")
            self._logged = SortedIds(ids.to_pylist())
        return self._logged

    def _is_copy(self, fact: Fact, first: "tuple[Any, ...]") -> bool:
        event_id, event_type, operation, session, logged_us, has_hooks, *asked = first
        event, occurred_us = fact.event, fact.event.get("occurred_at")
        if session in fact.sessions:
            return True
        if fact.message_id is not None:
            is_then = has_hooks or logged_us == occurred_us
            if fact.grows and isinstance(logged_us, int) and isinstance(occurred_us, int):
                is_then = is_then or 0 <= logged_us - occurred_us <= _ANSWER_US_MAX
            return is_then and asked == [event.get(name) for name in _ASKED]
        if fact.tool_call is None and (event_type, operation) != (
            event["event_type"],
            event.get("operation"),
        ):
            return False
        then = occurred_us if event_type == event["event_type"] else fact.called_at or logged_us
        if not has_hooks and logged_us not in (None, then):
            return False  # hooks have times of their own
        if event_type == "turn" and has_hooks:
            return True  # they cut prompts differently
        if event_type == "transcript" and logged_us is not None:
            return True  # a line as it was read: a copy of it names its position
        ((text,),) = self._store.query(_PAYLOAD, [event_id]).rows
        logged = jsontext.decode(text)
        payload = jsontext.decode(jsontext.encode(self._store.redactor.redact(fact.event)["payload"]))
        return self._words(logged, fact) == self._words(payload, fact)

    def _words(self, payload: Any, fact: Fact) -> object:
        """The words of a payload with hashes for its texts. They are equal whether or not texts are
        references (docs/payload-texts.md), which depends on the version that wrote them."""
        hashed = with_hashes(payload)
        if fact.tool_call is None:
            return words_in(hashed)
        words = hashed.get("args")
        spec = agents.spec_of(self._agent)
        if spec is None or spec.hooks is None or not spec.hooks.spells_arguments:
            return words
        if not isinstance(words, (dict, list, str)):
            return words
        spelled: object = agents.loaded(spec.hooks.adapter).words_of(words)
        return spelled


def with_hashes(payload: "dict[str, Any]") -> "dict[str, Any]":
    """The payload with each text replaced by its hash, whether it was moved or not."""
    moved = texts.move({"event_type": "", "payload": payload}, texts.void, suspect=False)
    hashed = replaced(moved["payload"], lambda entry, _: _Hash(entry["blob"]))
    return {name: _hashed(value) for name, value in hashed.items() if name != IN_BLOBS}


class _Hash(str):
    """The hash that replaces a moved text."""

    __slots__ = ()


def _hashed(value: Any) -> Any:
    if isinstance(value, _Hash):
        return str(value)
    if isinstance(value, str):
        return to_text(blob_id(value.encode("utf-8", "replace")))
    if isinstance(value, list):
        return list(map(_hashed, value))
    return {name: _hashed(part) for name, part in value.items()} if isinstance(value, dict) else value
