"""Publishing: the new events of a store, and contents where that is wanted, to a place (docs/lake.md §2).

Any number of processes and machines may publish at once, also copies of one store, and each may be killed
anywhere: what is there then is a state of the chain, from which the next goes on.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from eventlog.base.errors import Refused
from eventlog.base.locks import PUBLISH, acquire
from eventlog.lake import published, remembered, rewrites, source
from eventlog.lake.chain import LiveFile, pack_name, publication_name, stem_of
from eventlog.lake.packs import made_packs
from eventlog.lake.rewrites import Rewriter

if TYPE_CHECKING:
    from eventlog.lake.place import Place
    from eventlog.lake.policy import Policy
    from eventlog.lake.published import Published
    from eventlog.lake.source import Source
    from eventlog.store import Store

POSITIONS_MAX = 250_000  # in one publication: some ten megabytes, up to a hundred

FIRST, WIDENED = "first", "widened"


class NotAgreedError(Refused):
    """Something would leave that nobody agreed to. Nothing was published."""


@dataclass(slots=True)
class PublishPlan:
    """What a publish would let out. `asks` is FIRST, WIDENED, or empty where nobody has to be asked.

    `contents` counts contents that are not there yet, `contents_bytes` before compression. `withheld` counts
    contents of the store that never leave. `narrowed` live files have more than the policy lets out by now.
    """

    to: str
    base: int
    end: int
    policy: "Policy"
    asks: str = ""
    events: "dict[str, int]" = field(default_factory=dict)
    first_at: "int | None" = None
    last_at: "int | None" = None
    contents: int = 0
    contents_bytes: int = 0
    withheld: int = 0
    narrowed: int = 0


@dataclass(slots=True)
class PublishReport:
    """What was published: positions [base, end) of the log, and how.

    `rewritten` and `packs_rewritten` count what was made again, `missing` contents that the store cannot
    read.
    `left` are the names of dead objects that may not be deleted; `tables` says whether the place has tables.
    """

    to: str
    base: int
    end: int
    files: int = 0
    bytes: int = 0
    packs: int = 0
    packs_bytes: int = 0
    rewritten: int = 0
    packs_rewritten: int = 0
    missing: int = 0
    left: "list[str]" = field(default_factory=list)
    tables: bool = False

    @property
    def changed(self) -> bool:
        return bool(self.files or self.rewritten or self.packs_rewritten)


def plan(store: "Store", place: "Place", policy: "Policy") -> PublishPlan:
    """What `publish` would let out now. Nothing is changed. Raises: as `publish`."""
    with store.view() as view:
        log = source.opened(store, view, policy)
        known = remembered.read(store.fs, store.layout, place.uri, log.store_id)
        state = published.read(place, log, known)
        base, end = state.chain.end, log.end
        made = PublishPlan(place.uri, base, end, policy, _asks(state, log))
        made.withheld = len(log.forbidden)
        made.narrowed = sum(former.widens(policy) for former in state.policies.values())
        _count_events(made, log)
        ids = log.contents(base, end, state.contents, policy)
        sizes = [location[4] for location in store.blobs.locations(ids).values()]
        made.contents, made.contents_bytes = len(sizes), sum(sizes)
        return made


def publish(
    store: "Store",
    place: "Place",
    policy: "Policy",
    *,
    agreed: bool = False,
    again: bool = False,
    lock_timeout_s: float = 10.0,
) -> PublishReport:
    """Publish what is new, and rewrite what a place should not have any more.

    Args: agreed: a person agreed to this policy; again: compare all that is there, and make again what the
    place has lost. Raises: NotAgreedError; Refused (the storage ignores conditions, another log was
    published, an erasure is under way); LockTimeout; Corruption; NotDurable; EventLogError of the storage:
    then what was created stays, and the next publish goes on from there.
    """
    with acquire(store.fs, store.layout, PUBLISH, timeout_s=lock_timeout_s), store.view() as view:
        log = source.opened(store, view, policy)
        known = None if again else remembered.read(store.fs, store.layout, place.uri, log.store_id)
        state = published.read(place, log, known, without_lost=again)
        if _asks(state, log) and not agreed:
            raise NotAgreedError(
                f"nobody agreed to what leaves for {place.uri}. Nothing was published; add --yes."
            )
        report = PublishReport(place.uri, state.chain.end, state.chain.end)
        state = _run(Rewriter(place, log), state, report, again)
        if state.erased_to > state.swept:
            report.left = rewrites.sweep(place, log.store_id)
            state.swept = state.swept if report.left else state.erased_to
        report.end = state.chain.end
        if state.remembered() != known:
            remembered.write(store.fs, store.layout, place.uri, state.remembered())
        report.tables = report.changed and _has_tables(place)
        return report


def _has_tables(place: "Place") -> bool:
    """Whether there are tables, as far as the publisher may see them."""
    try:
        return bool(place.directories("tables"))
    except Refused:
        return False


def _asks(state: "Published", log: "Source") -> str:
    """Why a person has to agree before more leaves, or nothing."""
    if state.chain.end == log.end:
        return ""
    former = state.newest_policy
    if former is None:
        return FIRST
    return WIDENED if log.policy.widens(former) else ""


def _count_events(made: PublishPlan, log: "Source") -> None:
    counts: Counter[str] = Counter()
    times: list[int] = []
    for batch in log.view.batches(made.base, made.end, columns=("event_type", "occurred_at")):
        for pair in pc.value_counts(batch.column("event_type")).to_pylist():
            counts[pair["values"]] += pair["counts"]
        span = pc.min_max(batch.column("occurred_at").cast("int64")).as_py()
        times += [moment for moment in span.values() if moment is not None]
    made.events = dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
    if times:
        made.first_at, made.last_at = min(times), max(times)


def _run(rewriter: Rewriter, state: "Published", report: PublishReport, again: bool) -> "Published":
    """Rewrite and publish until the chain has all of the log as it should be."""
    place, log = rewriter.place, rewriter.source
    if again and rewriter.complete(state):
        state = published.read(place, log, None)
    while True:
        if rewriter.make(state):
            state = published.read(place, log, state.remembered())
        elif state.chain.end < log.end:
            if not _publish_next(rewriter, state, report):
                state = published.read(place, log, state.remembered())
        else:
            break
    report.rewritten, report.packs_rewritten = rewriter.files, rewriter.packs
    report.missing = len(rewriter.missing)
    return state


def _publish_next(rewriter: Rewriter, state: "Published", report: PublishReport) -> bool:
    """Create the next publication; False where the state has to be read again, as somebody else was first."""
    log, base = rewriter.source, state.chain.end
    later = [file.base for file in state.chain.waiting if file.base > base]
    end = min(log.end, base + POSITIONS_MAX, *later)
    packs = _publish_contents(rewriter, state, (base, end), report)
    if packs is None:
        return False
    data = log.file(base, end, log.policy, [stem_of(name) for name in packs])
    name = publication_name(log.store_id, base)
    if not rewriter.create(name, data):
        return False
    report.files += 1
    report.bytes += len(data)
    state.chain.live.append(LiveFile(name, base, end, len(data)))
    state.policies[name], state.erasures[name] = log.policy, log.erasures
    state.packs |= packs
    return not later


def _publish_contents(
    rewriter: Rewriter, state: "Published", span: "tuple[int, int]", report: PublishReport
) -> "dict[str, frozenset[bytes]] | None":
    """Create packs of the contents that these events need; names and ids. None: read the state again."""
    log = rewriter.source
    ids = log.contents(*span, state.contents, log.policy)
    packs = {}
    for pack in made_packs(log.store.blobs, ids, rewriter.missing):
        name = pack_name(log.store_id, pack.name)
        packs[name] = pack.ids
        if rewriter.create(name, pack.data):
            report.packs += 1
            report.packs_bytes += len(pack.data)
    removed = packs.keys() & state.removed_packs
    if removed:
        rewriter.bring_back(state, removed)
        return None
    return packs
