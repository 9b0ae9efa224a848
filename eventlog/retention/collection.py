"""Collection: what no retained event needs goes, after a plan (docs/maintenance.md §4 and §5).

A plan lists the packs that would go, how many bytes, and which sessions could not be replayed any more. It is
made from a pinned view without a lock; carrying it out releases the sessions that rules chose, condemns the
packs, and unlinks what an earlier collection condemned a day ago. Any number of processes may plan; of two
that carry out, one is refused (I29). Contents that a writer names meanwhile stay (I24, `gc/collect.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from eventlog.base import config, jsontext
from eventlog.base.errors import EventLogError
from eventlog.base.fs import count_files, read_file, replace, translate_os_errors
from eventlog.base.layout import CONDEMNED_DIR, LIVE_DIR, PACK_DIR, SEGMENT_DIR
from eventlog.blobs.ids import from_texts
from eventlog.gc.collect import CollectPlan, carry_out, plan_collection
from eventlog.gc.condemn import AGE_S_MIN, Swept, sweep_condemned
from eventlog.gc.live_contents import Needed, baseline_trees, live_ids, reaching, stored_trees, walk
from eventlog.log.maintenance import maintenance_event
from eventlog.log.reader import LogView
from eventlog.log.retained import (
    COLLECT,
    Retention,
    hashes_by_session,
    hashes_in,
    retention_in,
)
from eventlog.retention import retention
from eventlog.retention.retention import MAX_BYTES, ReleaseCandidate
from eventlog.retention.trigger import has_old_condemned
from eventlog.store import Store

# The user asked for the room, so a pack is rewritten when this share of it is dead.
_DEAD_SHARE_MAX = 0.1

# A budget that releasing does not reach is tried again when the store has grown by this, or a day later.
_GROWTH_BYTES_MIN = 1 << 20
_BUDGET_NOTE = "budget"

# So many are released in one batch, or none.
_RELEASED_AT_ONCE_MAX = 10_000

_POSITION_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class UnreplayableSession:
    """A released session of which contents go: its turns cannot be replayed any more."""

    session_id: str
    title: str | None
    turns: int
    rule: str


@dataclass(frozen=True, slots=True)
class CollectionPlan:
    """What a collection would do. `candidates` are the sessions that it releases first, by rule.

    `waiting` are the bytes in `condemned/`, which a run a day after their condemnation frees.
    `over_budget` is by how many bytes packs and segments exceed `max_bytes` even then; None without one.
    """

    packs: CollectPlan
    candidates: tuple[ReleaseCandidate, ...]
    lost: tuple[UnreplayableSession, ...]
    waiting: int
    over_budget: int | None
    live: set[bytes] = field(repr=False)
    end: int  # the position up to which `live` was marked

    @property
    def token(self) -> str:
        return self.packs.token

    @property
    def freed(self) -> int:
        return self.packs.freed


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection did: sessions released, packs condemned, and what was unlinked of earlier ones."""

    released: list[str]
    condemned: list[str]
    swept: Swept


def plan(store: Store) -> CollectionPlan:
    """What a collection would do now; changes nothing. Raises: Corruption, EventLogError."""
    with store.view() as view:
        retained = retention_in(view)
        candidates = retention.candidates(store, retained)
        candidates, live, packs = _chosen(store, view, retained, candidates[:_RELEASED_AT_ONCE_MAX])
        limits = retained.limits | {candidate.session_id: _POSITION_MAX for candidate in candidates}
        gone = _gone(store, live, packs)
        lost = _lost(store, view, retained, candidates, limits, live, gone) if gone else []
        end = view.next_position
    budget = config.read(store.fs, store.layout).max_bytes
    over = None if budget is None else max(0, _kept_bytes(store) - packs.freed - budget)
    waiting = count_files(store.fs, store.layout.directory(CONDEMNED_DIR))[1]
    return CollectionPlan(packs, tuple(candidates), tuple(lost), waiting, over, live, end)


def collect(store: Store, plan: CollectionPlan, *, lock_timeout_s: float = 10.0) -> Collected:
    """Carry out a plan, once. An event notes the result.

    Raises: Refused (another collection came between, a session was pinned), LockTimeout, NotDurable,
        Corruption.
    """
    blobs = store.blobs
    released = retention.release_all(store, plan.candidates)
    with store.view() as view:
        view.make_durable()  # nothing goes because of a release that a power cut could undo (I5)

    needed = Needed(plan.live, lambda: _late(store, plan.end))
    condemned = carry_out(blobs, plan.packs, needed, lock_timeout_s=lock_timeout_s)
    swept = sweep_condemned(blobs, needed, lock_timeout_s=lock_timeout_s)
    figures = {
        "released": len(released),
        "condemned": len(condemned),
        "bytes_planned": plan.freed,
        "sessions_lost": len(plan.lost),
        "unlinked": len(swept.unlinked),
        "bytes_unlinked": swept.bytes,
        "rescued": len(swept.rescued),
        "over_budget": plan.over_budget,
    }
    if condemned or released or swept.unlinked or _is_uncollected(store):
        store.append_rows([maintenance_event(COLLECT, figures)])
    return Collected(released, condemned, swept)


def maintain(store: Store) -> bool:
    """Plan and collect where that is needed, for the detached maintainer; whether something was done.

    Never raises for the store's state, as `Store.maintain`.
    """
    try:
        if not _has_work(store):
            return False
        chosen_plan = plan(store)
        if chosen_plan.over_budget:
            _note_budget(store)
        collected = collect(store, chosen_plan, lock_timeout_s=0.0)
    except (EventLogError, OSError):
        return False
    return bool(collected.released or collected.condemned or collected.swept.unlinked)


def _has_work(store: Store) -> bool:
    if has_old_condemned(store.fs, store.layout) or _is_uncollected(store):
        return True
    budget = config.read(store.fs, store.layout).max_bytes
    if budget is not None and _kept_bytes(store) > budget and not _budget_was_tried(store):
        return True
    with store.view() as view:
        retained = retention_in(view)
    return bool(retention.candidates(store, retained))


def _is_uncollected(store: Store) -> bool:
    """Whether a release came after the last collection."""
    with store.view() as view:
        retained = retention_in(view)
    last = retained.collected[-1][0] if retained.collected else -1
    return any(release.position > last for release in retained.released.values())


# -- roots -------------------------------------------------------------------------------------------


def _roots(store: Store, view: LogView, limits: dict[str, int], since: int = 0) -> Iterator[bytes]:
    yield from from_texts(hashes_in(view, limits, since))
    with translate_os_errors(store.layout.directory(LIVE_DIR), "read the notes of hooks"):
        baselines = baseline_trees(store.fs, store.layout)
    yield from baselines


def _late(store: Store, end: int) -> Iterator[bytes]:
    """What the log names since position `end`; when a session was held or pinned since, all that it names.

    Stored deferred contents are included whether their list is needed or not: the next plan decides.
    """
    with store.view() as view:
        news = retention_in(view, end)
        if news.last and any(session not in news.released for session, _ in news.last):
            yield from _roots(store, view, retention_in(view).limits)
            end = 0
        else:
            yield from _roots(store, view, {}, end)
        for list_id, trees in stored_trees(view, end).items():
            yield from (list_id, *trees)


def _lost(
    store: Store,
    view: LogView,
    retained: Retention,
    candidates: Sequence[ReleaseCandidate],
    limits: dict[str, int],
    live: set[bytes],
    gone: set[bytes],
) -> list[UnreplayableSession]:
    """The released sessions that name contents which go, or a tree that holds some of them."""
    rules = {session: release.rule for session, release in retained.released.items()}
    rules |= {candidate.session_id: candidate.rule for candidate in candidates}
    dead: dict[bytes, set[str]] = {}
    for session, text in hashes_by_session(view, limits):
        for id in from_texts((text,)):
            if id not in live:
                dead.setdefault(id, set()).add(session)
    sessions = {session for id in _leading_to(store, set(dead), gone, live) for session in dead[id]}
    states = {state.session_id: state for state in retention.states(store)} if sessions else {}
    lost = []
    for session in sorted(sessions):
        state = states.get(session)
        turns = 0 if state is None else state.turns
        lost.append(
            UnreplayableSession(session, None if state is None else state.title, turns, rules[session])
        )
    return lost


def _gone(store: Store, live: set[bytes], packs: CollectPlan) -> set[bytes]:
    """The contents that a plan takes out of all packs; those that are dead in other packs stay."""
    leaving = {share.name for share in (*packs.dead, *packs.partial)}
    gone: set[bytes] = set()
    staying: set[bytes] = set()
    for tables in store.blobs.tables() if leaving else ():
        (gone if tables.name in leaving else staying).update(id for id in tables.ids() if id not in live)
    return gone - staying


def _leading_to(store: Store, roots: set[bytes], gone: set[bytes], live: set[bytes]) -> set[bytes]:
    """Those of the dead `roots` that are in `gone`, or have some of it below them."""
    parents: dict[bytes, set[bytes]] = {}
    for tree, rows in walk(store.blobs, roots, passed=live):
        for _, id, _ in rows:
            if id not in live:
                parents.setdefault(id, set()).add(tree)
    return roots & reaching(gone, parents)


# -- the budget --------------------------------------------------------------------------------------


def _chosen(
    store: Store, view: LogView, retained: Retention, candidates: list[ReleaseCandidate]
) -> tuple[list[ReleaseCandidate], set[bytes], CollectPlan]:
    """The candidates with the oldest sessions that must go too so that packs and segments fit `max_bytes`;
    what is live without them all; and what goes then.

    As few as are enough, and all that may go when that is not. What is live without more sessions is live
    without fewer, so each try begins with the last that freed enough: all tries together read a tree about
    as often as one.
    """
    limits = retained.limits | {candidate.session_id: _POSITION_MAX for candidate in candidates}

    def mark(count: int, live: set[bytes]) -> tuple[set[bytes], CollectPlan]:
        chosen = limits | dict.fromkeys(order[:count], _POSITION_MAX)
        live_ids(store.blobs, _roots(store, view, chosen), live, stored)
        return live, plan_collection(store.blobs, live, dead_share_max=_DEAD_SHARE_MAX)

    stored = stored_trees(view)
    order: list[str] = []
    budget = config.read(store.fs, store.layout).max_bytes
    needed = 0 if budget is None else _kept_bytes(store) - budget
    if needed > 0:
        order = [session for session in retention.releasable(store, retained) if session not in limits]
        order = order[: _RELEASED_AT_ONCE_MAX - len(candidates)]
    low, high = 0, len(order)
    live, packs = mark(high, set())
    if packs.freed < needed:
        low = high
    while low < high:
        middle = (low + high) // 2
        tried = mark(middle, set(live))
        if tried[1].freed >= needed:
            high, (live, packs) = middle, tried
        else:
            low = middle + 1
    return candidates + [ReleaseCandidate(session, MAX_BYTES) for session in order[:high]], live, packs


def _kept_bytes(store: Store) -> int:
    return sum(count_files(store.fs, store.layout.directory(name))[1] for name in (PACK_DIR, SEGMENT_DIR))


def _budget_was_tried(store: Store) -> bool:
    """Whether a recent try, with about as much in the store, released all it may and did not suffice."""
    path = store.layout.live(_BUDGET_NOTE)
    try:
        noted = jsontext.decode(read_file(store.fs, path, 1000).decode())
        grown = _kept_bytes(store) - noted["bytes"]
        fresh = 0 <= store.fs.time_ns() / 1e9 - noted["at"] < AGE_S_MIN
        return bool(fresh and grown < _GROWTH_BYTES_MIN)
    except (OSError, ValueError, KeyError, TypeError, EventLogError):
        return False


def _note_budget(store: Store) -> None:
    """Note the try. It is not synced: without it the next maintainer tries once more."""
    fs = store.fs
    note = jsontext.encode({"bytes": _kept_bytes(store), "at": fs.time_ns() / 1e9})
    tmp = store.layout.tmp(f"budget-{fs.random_bytes(8).hex()}")
    replace(fs, tmp, store.layout.live(_BUDGET_NOTE), note, synced=False)
