"""The parts of an agent's conversation: its n-th turn belongs to session ⌈n / limit⌉ (docs/session-life.md).

A conversation is what one agent calls one session. Its first part has the id that `names.session_id_of`
gives, each further one that of `names.next_session_id`; the limit stands in STORE. Numbering asks here for
the session of an event whose writer named none. What is known of a conversation follows from the rows of
its parts alone: which parts there are, the turn of each key, and the part of the last row with a turn.
Pure but for `turn_limit`, which reads STORE; not safe for concurrent use.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from eventlog import identity
from eventlog.fs import FileSystem, Refusals, read_file
from eventlog.layout import Layout
from eventlog.names import next_session_id, session_id_of

if TYPE_CHECKING:
    from eventlog.log.numbering import _Session

# Its agent's keys are groups of fifty commits already, whatever STORE says.
_GROUPED = "git"


def turn_limit(fs: FileSystem, layout: Layout) -> "int | None":
    """The turn limit that STORE says; None for none, and where there is no STORE.

    Raises: Corruption, Unsupported, EventLogError.
    """
    with Refusals(layout.store_file, "read the turn limit"):
        try:
            data = read_file(fs, layout.store_file, identity.STORE_SIZE_MAX)
        except (FileNotFoundError, NotADirectoryError):
            return None
    return identity.decode(data, layout.store_file).turn_limit


class Conversation:
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
    the sessions of these ids, with what the segments say of them.
    """

    def __init__(
        self, limit: int, sessions: "dict[str, _Session]", load: "Callable[[list[str]], None]"
    ) -> None:
        self._limit = limit
        self._sessions = sessions
        self._load = load
        self._of: "dict[tuple[str, str], Conversation]" = {}
        self._following: "dict[str, Conversation]" = {}  # by the id of the part that comes next

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
        waiting = [Conversation(agent, self._sessions[first]) for (agent, _), first in firsts.items()]
        self._of.update(zip(new, waiting, strict=True))
        while waiting:
            waiting = [one for one in waiting if self._extend(one)]
            self._load([one.next_id for one in waiting])

    def _extend(self, one: Conversation) -> bool:
        """Take the next part if it has a row; else say so, and be told when it gets one."""
        part = self._sessions[one.next_id]
        if part.is_met:
            one.append(part)
            return True
        self._following[one.next_id] = one
        return False

    def see(self, session: "_Session") -> None:
        """A row gives this session itself: it may be the part that comes next."""
        session.is_met = True
        one = self._following.pop(session.id, None)
        if one is not None:
            self._add(one)

    def _add(self, one: Conversation) -> "_Session":
        self._load([one.next_id])
        part = self._sessions[one.next_id]
        part.is_met = True
        self._following.pop(part.id, None)
        one.append(part)
        self._load([one.next_id])
        while self._extend(one):
            self._load([one.next_id])
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
        one = self._of.get(pair)  # type: ignore[arg-type]
        if one is None:
            return None
        current = one.current or one.parts[0]
        if event_type == "session":
            named = [
                part for part in one.parts if context_id is not None and context_id.endswith(f"_{part.id}")
            ]
            current = named[0] if named else current
        elif event_type != "sessions" and not has_turn:
            part = None if key is None else next((p for p in reversed(one.parts) if key in p.keys), None)
            if part is not None:
                current = part
            elif key is not None or (event_type == "turn" and operation == "start"):
                last = one.parts[-1]
                current = last if last.highest < self._limit else self._add(one)
        current.is_met = True
        return current

    def keep(self, session_ids: "set[str]") -> "set[str]":
        """Forget the conversations that have none of these sessions; the ids of the others' parts, and
        these."""
        self._of = {
            pair: one for pair, one in self._of.items() if any(part.id in session_ids for part in one.parts)
        }
        self._following = {one.next_id: one for one in self._of.values()}
        known = {part.id for one in self._of.values() for part in one.parts}
        return session_ids | known | set(self._following)
