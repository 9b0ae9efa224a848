"""The parts of an agent's conversation: its n-th turn belongs to session ⌈n / limit⌉ (docs/session-life.md).

A conversation is what one agent calls one session. Its first part has the id that `names.session_id_of`
gives, each further one that of `names.next_session_id`; the limit is in STORE. Numbering asks here for the
session of an event whose writer named none. The state of a conversation follows from the rows of its parts
alone: which parts there are, the turn of each key, and the part of the last row with a turn.
Pure but for `turn_limit`, which reads STORE; not safe for concurrent use.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from eventlog.base import identity
from eventlog.base.fs import read_file, translate_os_errors
from eventlog.base.layout import StoreFiles
from eventlog.base.names import next_session_id, session_id_of

if TYPE_CHECKING:
    from eventlog.log.numbering import _Session

# The keys of this agent are groups of fifty commits already, whatever the limit in STORE.
_GROUPED = "git"


def turn_limit(files: StoreFiles) -> "int | None":
    """The turn limit in STORE; None for none, and where there is no STORE.

    Raises: Corruption, Unsupported, EventLogError.
    """
    layout = files.layout
    with translate_os_errors(layout.store_file, "read the turn limit"):
        try:
            data = read_file(files.fs, layout.store_file, identity.STORE_SIZE_MAX)
        except (FileNotFoundError, NotADirectoryError):
            return None
    return identity.decode(data, layout.store_file).turn_limit


class ConversationParts:
    """One agent's session and the parts that it has."""

    __slots__ = ("agent", "current", "next_id", "parts")

    def __init__(self, agent: str, first: "_Session") -> None:
        self.agent = agent
        self.parts: "list[_Session]" = []
        self.current: "_Session | None" = None  # that of the last row with a turn
        self.next_id = first.id
        self.append(first)

    def append(self, part: "_Session") -> None:
        """The next part."""
        part.conversation = self
        part.before = self.parts[-1] if self.parts else None
        self.parts.append(part)
        self.next_id = next_session_id(self.agent, part.id)
        if part.last_at >= 0 and (self.current is None or part.last_at > self.current.last_at):
            self.current = part


class Conversations:
    """The conversations that a fold has met.

    Args of `__init__`: limit: turns of a part; sessions: those of the fold, by id; load: gives the fold
    the sessions of these ids, with their rows in segments.
    """

    def __init__(
        self, limit: int, sessions: "dict[str, _Session]", load: "Callable[[list[str]], None]"
    ) -> None:
        self._limit = limit
        self._sessions = sessions
        self._load = load
        self._of: "dict[tuple[str, str], ConversationParts]" = {}
        self._following: "dict[str, ConversationParts]" = {}  # by the id of the part that comes next

    def meet(self, pairs: "Iterable[tuple[str | None, str | None]]") -> None:
        """Learn of the conversations of these agents and agents' own sessions."""
        new = [
            (agent, own)
            for agent, own in dict.fromkeys(pairs)
            if agent is not None and own is not None and agent != _GROUPED and (agent, own) not in self._of
        ]
        firsts = {pair: session_id_of(*pair) for pair in new}
        self._load(
            [id for (agent, _), first in firsts.items() for id in (first, next_session_id(agent, first))]
        )
        waiting = [ConversationParts(agent, self._sessions[first]) for (agent, _), first in firsts.items()]
        self._of.update(zip(new, waiting, strict=True))
        while waiting:
            waiting = [conversation for conversation in waiting if self._extend(conversation)]
            self._load([conversation.next_id for conversation in waiting])

    def _extend(self, conversation: ConversationParts) -> bool:
        """Take the next part if it has a row; else False, and `see` takes it when it gets one."""
        part = self._sessions[conversation.next_id]
        if part.is_met:
            conversation.append(part)
            return True
        self._following[conversation.next_id] = conversation
        return False

    def see(self, session: "_Session") -> None:
        """Note that a row names this session itself: it may be the part that comes next."""
        session.is_met = True
        conversation = self._following.pop(session.id, None)
        if conversation is not None:
            self._add(conversation)

    def _add(self, conversation: ConversationParts) -> "_Session":
        self._load([conversation.next_id])
        part = self._sessions[conversation.next_id]
        part.is_met = True
        self._following.pop(part.id, None)
        conversation.append(part)
        self._load([conversation.next_id])
        while self._extend(conversation):
            self._load([conversation.next_id])
        return part

    def session(
        self,
        pair: "tuple[str | None, str | None]",
        event_type: str,
        operation: "str | None",
        key: "str | None",
        context_id: "str | None",
        *,
        has_turn: bool,
    ) -> "_Session | None":
        """The part to which an event belongs whose writer named no session; None where there is none.

        Args: key: the agent's own id of the turn; has_turn: whether the writer gave the turn a number.
        """
        conversation = self._of.get(pair)  # type: ignore[arg-type]
        if conversation is None:
            return None
        current = conversation.current or conversation.parts[0]
        if event_type == "session":
            named = [
                part
                for part in conversation.parts
                if context_id is not None and context_id.endswith(f"_{part.id}")
            ]
            current = named[0] if named else current
        elif event_type != "sessions" and not has_turn:
            part = (
                None
                if key is None
                else next((p for p in reversed(conversation.parts) if key in p.keys), None)
            )
            if part is not None:
                current = part
            elif key is not None or (event_type == "turn" and operation == "start"):
                last = conversation.parts[-1]
                current = last if last.highest < self._limit else self._add(conversation)
        current.is_met = True
        return current

    def retain(self, session_ids: "set[str]") -> "set[str]":
        """Forget the conversations that have none of these sessions; the ids of the others' parts, and
        these."""
        self._of = {
            pair: conversation
            for pair, conversation in self._of.items()
            if any(part.id in session_ids for part in conversation.parts)
        }
        self._following = {conversation.next_id: conversation for conversation in self._of.values()}
        part_ids = {part.id for conversation in self._of.values() for part in conversation.parts}
        return session_ids | part_ids | set(self._following)
