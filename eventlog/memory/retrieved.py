"""Which memories bear on a message, and how much: search over the log with a relevance from 0 to 1.

The one answer for the block of a message, the "Retrieved" tier of a bundle (S2-33) and a briefing's focus.
"""

import math
from dataclasses import dataclass

from eventlog.projections.elsewhere import sessions_elsewhere
from eventlog.recorder import retrieval
from eventlog.recorder.requests import Memory
from eventlog.search import find, query
from eventlog.store import Store

# Messages, decisions, failures and outcomes; not what tools printed, nor what files hold.
TYPES = (
    "decision", "error", "turn", "session", "feedback", "discovery", "warning", "mutation", "outcome",
    "message", "project_convention", "skill",
)  # fmt: skip
_RANKED = 50


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A memory and its relevance: the share of the message's words that it holds, each word counting the
    more the fewer memories hold it."""

    relevance: float
    memory: Memory


def retrieve(store: Store, message: str, limit: int, *, writes: bool = True) -> "list[Retrieved]":
    """What bears on a message, in any session of this project: the most relevant first, then the newest.

    Args: writes: whether the search index may be brought up to date. Raises: EventLogError.
    """
    words = retrieval.words_of(message)
    wanted = " ".join(f'"{word}"' for word in words if any(c.isalnum() for c in word))
    if not wanted or limit <= 0:
        return []
    parsed = query.parse(wanted, any_word=True)
    others = frozenset(sessions_elsewhere(store.query, store.repo_hash))
    filters = find.Filters(event_types=TYPES, without_sessions=others)
    hits = find.search(store, parsed, filters, limit=_RANKED, writes=writes).hits
    holding = [sum(term in hit.terms for hit in hits) for term in range(len(parsed.terms))]
    weights = [math.log(1 + len(hits) / (count or len(hits) or 1)) for count in holding]
    relevance = {hit.position: sum(weights[t] for t in hit.terms) / sum(weights) for hit in hits}
    best: "dict[str, Retrieved]" = {}
    for memory in retrieval.memories_at(store, list(relevance)):
        hit = Retrieved(min(1.0, relevance[memory.position]), memory)
        earlier = best.get(key := memory.context_id or memory.event_id)
        if earlier is None or (earlier.relevance, earlier.memory.position) < (hit.relevance, memory.position):
            best[key] = hit
    return sorted(best.values(), key=lambda hit: (-hit.relevance, -hit.memory.position))[:limit]
