"""Erasing the past: plan, carry out, finish (docs/maintenance.md §7).

`plan_*` reads and changes nothing. `erase` carries a plan out: first the note that one is under way and the
rules that recognize the erased texts, then the events that record it, then log and contents, then all that
is derived. Each step may be repeated, and the log holds what the last ones need: a process that finds the
note calls `resume` (I32). Other processes may write and read meanwhile; a reader of an older view keeps it to
its end, and until then the erasure waits. Any number of processes may call; locks let one through at a time.
"""

import getpass
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from eventlog.base.errors import EventLogError, NotDurable, NotFound, Refused
from eventlog.base.fs import publish, read_file, translate_os_errors
from eventlog.base.jsontext import object_if_any, object_of
from eventlog.base.layout import (
    INDEX_DIR,
    LIVE_DIR,
    MEMORY_DIR,
    QUARANTINE_DIR,
    STATCACHE_DIR,
    TMP_DIR,
    is_lake,
    parse_overlay,
    parse_statcache,
)
from eventlog.base.locks import MAINTAIN, SEARCH, acquire
from eventlog.base.paths import is_outside, path_bytes
from eventlog.base.types import Event
from eventlog.blobs.ids import from_texts, to_text
from eventlog.blobs.writer import BlobWriter
from eventlog.erasure import contents as contents_of
from eventlog.erasure.about_path import PathEvents, quoting
from eventlog.gc.live_contents import baseline_trees, live_ids
from eventlog.log import erase as log
from eventlog.log import sweep
from eventlog.log.erased_rows import KEPT_TYPES, Marks
from eventlog.log.erasures import END, ERASURE, REWRITTEN, START, Erasure, erasures_in
from eventlog.log.manifest import read_current
from eventlog.log.pattern import Pattern
from eventlog.log.reader import LogView
from eventlog.log.retained import CONTENT, HASH_COLUMNS
from eventlog.projections.lives import MAY_GO_ON
from eventlog.restore import journal
from eventlog.secrets import erased_rules, redaction
from eventlog.store import Store

# Ids in one event: some hundred kB of payload.
_IDS_IN_EVENT_MAX = 4_000

# A content of a path that is shorter is erased, but stored again when it is met again.
_CONTENT_SIZE_MIN = 16

_NOTE_TRIES = 3
_QUOTED_SHOWN = 20

_DOING = "finish the erasure, which `locus store erase --resume` goes on with"

_EVENT, _SESSION, _PATH, _SECRET = "event", "session", "path", "secret"


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """What an erasure takes out. `events` are ids with positions, `contents` ids of blobs and trees.

    `trees` counts those that are trees: others with marks in names replace them. `sessions` lose their slugs.
    `shared` contents stay, because other events need them too. `not_reached` are sentences about copies that
    no command here can reach.
    """

    by: str
    events: "dict[str, int]"
    contents: "frozenset[bytes]"
    trees: int
    sessions: "tuple[str, ...]"
    segments: int
    packs: int
    quarantined: int
    not_reached: "tuple[str, ...]"
    pattern: "Pattern | None" = None
    shared: int = 0

    @property
    def is_empty(self) -> bool:
        return not (self.events or self.contents or self.quarantined)


@dataclass(slots=True)
class Erased:
    """What was done. Of the `events` that changed, `named` only name a session that gets a new name.

    `waiting` are files that readers of an older view still keep on the disk.
    """

    erasures: "list[str]" = field(default_factory=list)
    events: int = 0
    named: int = 0
    contents: int = 0
    segments: int = 0
    packs: int = 0
    waiting: int = 0


def plan_events(store: Store, event_ids: Iterable[str]) -> ErasurePlan:
    """Plan to erase events, by their ids or unique beginnings, and contents that no other event needs.

    Raises: NotFound, Ambiguous, Refused (bookkeeping of the store).
    """
    chosen = {}
    for prefix in event_ids:
        event = store.event(prefix)
        if event["event_type"] in KEPT_TYPES:
            raise Refused(
                f"{prefix} is an event of type {event['event_type']}, by which the store keeps its books"
            )
        chosen[str(event["event_id"])] = int(str(event["position"]))
    with store.view() as view:
        alone, shared = _alone(store, view, chosen)
        return replace(_plan(store, view, _EVENT, chosen, alone), shared=shared)


def plan_session(store: Store, session_id: str) -> ErasurePlan:
    """Plan to erase all events of a session, and contents that no other event needs.

    Raises: NotFound; Refused while it is active.
    """
    rows = store.query(f"select {MAY_GO_ON} from sessions where session_id = $1", [session_id]).rows
    if not rows:
        raise NotFound(f"no session {session_id}; `locus session ls` lists them")
    if rows[0][0]:
        raise Refused(f"session {session_id} is active; `locus session end` ends it. Nothing was changed.")
    with store.view() as view:
        columns = ("event_id", "position", "event_type")
        rows_of = view.iterate(session_id=session_id, columns=columns)
        chosen = {
            str(e["event_id"]): int(str(e["position"])) for e in rows_of if e["event_type"] not in KEPT_TYPES
        }
        alone, shared = _alone(store, view, chosen)
        return replace(_plan(store, view, _SESSION, chosen, alone), shared=shared)


def plan_path(store: Store, path: str) -> ErasurePlan:
    """Plan to erase all contents of a file, or of all files below a folder, and the events about it.

    The name stays where trees list it. Raises: NotFound when nothing of it is recorded.
    """
    path = path.rstrip("/")
    about = PathEvents(path)
    chosen: dict[str, int] = {}
    contents: set[bytes] = set()
    roots: set[bytes] = set()
    columns = ("event_id", "position", "event_type", "path", "cwd", *HASH_COLUMNS, "payload")
    with store.view() as view:
        for event in view.iterate(columns=columns):
            if event["tree_hash"] is not None:
                roots.update(from_texts([event["tree_hash"]]))
            if about.has(event):
                chosen[str(event["event_id"])] = int(str(event["position"]))
                contents.update(_named_by(event))
        if not is_outside(f"{path}/"):  # no tree holds what lies outside of the repository
            contents |= contents_of.at_path(store.blobs, roots, path_bytes(path))
        contents.discard(erased_rules.EMPTY_CONTENT)  # it is empty, and occurs often
        if not chosen and not contents:
            raise NotFound(f"nothing of {path} is recorded")
        plan = _plan(store, view, _PATH, chosen, contents)
        quoting_ids = list(quoting(view, store.blobs, contents, chosen.keys()))
        return replace(plan, not_reached=(*plan.not_reached, *_quoted(quoting_ids)))


def plan_secret(store: Store, secret: str) -> ErasurePlan:
    """Plan to take a text, or what an expression between slashes matches, out of events and contents.

    Raises: InvalidEvent (too short, or no expression), Corruption (a content cannot be read).
    """
    pattern = Pattern(secret)
    with store.view() as view, translate_os_errors(store.layout.root, "look for it"):
        marks = Marks("", pattern=pattern)
        chosen = log.find(view, marks)
        contents = contents_of.holding(store.blobs, pattern)
        plan = _plan(store, view, _SECRET, chosen, contents.keys(), pattern)
        return replace(plan, trees=sum(contents.values()), sessions=tuple(sorted(marks.sessions)))


def erase(store: Store, plan: ErasurePlan, *, reason: str = "", lock_timeout_s: float = 10.0) -> Erased:
    """Carry out a plan. Raises: Refused (a restore is unfinished), LockTimeout, NotDurable, Corruption.

    When it raises after its first step, or is killed, `resume` finishes it.
    """
    journal.refuse_unfinished(store.fs, store.layout)
    erasure = store.fs.random_bytes(16).hex()
    with translate_os_errors(store.layout.erased, "write down what is erased"):
        _note(store)
        with acquire(store.fs, store.layout, MAINTAIN, timeout_s=lock_timeout_s):
            checks = erased_rules.add(store.fs, store.layout, _rules(store, plan))
    store.reread_rules()
    marks = Marks(erasure, whole=set(), pattern=plan.pattern)
    with store.blobs.writer(lock_timeout_s=lock_timeout_s) as writer:
        marks.trees = _renamed(store, writer, plan, marks)
        store.append_rows(_start_events(store, erasure, plan, reason, checks, marks.trees))
    if plan.pattern is None:
        marks.whole = set(plan.events)
        marks.paths_kept = set(plan.events) if plan.by == _PATH else set()
    with translate_os_errors(store.layout.root, _DOING):
        return _finish(store, [(marks, set(plan.contents))], lock_timeout_s)


def renew_rule(store: Store, plan: ErasurePlan, *, lock_timeout_s: float = 10.0) -> bool:
    """Give a text that was erased before a rule that is searched for fast; whether it had none.

    Raises: LockTimeout, NotDurable.
    """
    if plan.pattern is None or plan.pattern.text is None:
        return False
    with (
        translate_os_errors(store.layout.erased, "write down what is erased"),
        acquire(store.fs, store.layout, MAINTAIN, timeout_s=lock_timeout_s),
    ):
        text = plan.pattern.text.encode("utf-8", "surrogatepass")
        return erased_rules.renew(store.fs, store.layout, text)


def is_unfinished(store: Store) -> bool:
    """Whether an erasure is under way, was cut short, or waits for readers.

    Raises: EventLogError where the disk cannot be read: a "no" could leave a text that was to be erased.
    """
    with translate_os_errors(store.layout.erasing, "look for an erasure that is not finished"):
        try:
            store.fs.lstat(store.layout.erasing)
        except FileNotFoundError:
            return False
    return True


def resume(store: Store, *, lock_timeout_s: float = 10.0) -> Erased:
    """Finish the unfinished erasures, as the log records them.

    The pattern of an interrupted erasure is lost: events that hold it, and were not rewritten yet, are
    erased whole. Raises: as `erase`.
    """
    if not is_unfinished(store):
        return Erased()
    journal.refuse_unfinished(store.fs, store.layout)
    with store.view() as view:
        open_ones = [erasure for erasure in erasures_in(view) if not erasure.ended]
    todo = [(_marks_of(erasure), {bytes.fromhex(id) for id in erasure.contents}) for erasure in open_ones]
    with translate_os_errors(store.layout.root, _DOING):
        return _finish(store, todo, lock_timeout_s)


def _marks_of(erasure: Erasure) -> Marks:
    whole = set() if erasure.rewritten else erasure.events
    return Marks(
        erasure.id, whole=whole, paths_kept=whole if erasure.paths_kept else set(), trees=erasure.trees
    )


# Planning.


def _plan(
    store: Store,
    view: LogView,
    by: str,
    chosen: "dict[str, int]",
    contents: Iterable[bytes],
    pattern: "Pattern | None" = None,
) -> ErasurePlan:
    ids = frozenset(contents)
    entries = view.manifest.segments
    segments = sum(any(e.base <= position < e.end for position in chosen.values()) for e in entries)
    packs = sum(not ids.isdisjoint(tables.ids()) for tables in store.blobs.tables())
    quarantined = len(_in_quarantine(store, chosen, pattern))
    not_reached = tuple(_not_reached(store, view, chosen, pattern))
    return ErasurePlan(by, chosen, ids, 0, (), segments, packs, quarantined, not_reached, pattern)


def _alone(store: Store, view: LogView, chosen: "dict[str, int]") -> tuple[set[bytes], int]:
    """The contents that only the chosen events name, also below trees; how many others name too.

    The `content` events about lists that only these events need are chosen too.
    """
    of_chosen: set[bytes] = set()
    of_others: set[bytes] = set(baseline_trees(store.fs, store.layout))
    stored: dict[bytes, list[bytes]] = {}
    of_lists: list[tuple[str, int, bytes]] = []
    for event in view.iterate(columns=("event_id", "position", "event_type", *HASH_COLUMNS)):
        if event["event_type"] == CONTENT:
            # Needed with its list, which its `before_hash` names.
            for list_id in from_texts([event["before_hash"]]):
                stored.setdefault(list_id, []).extend(from_texts([event["tree_hash"]]))
                of_lists.append((str(event["event_id"]), int(str(event["position"])), list_id))
            continue
        (of_chosen if event["event_id"] in chosen else of_others).update(_named_by(event))
    needed = live_ids(store.blobs, of_others, stored=stored)
    alone = live_ids(store.blobs, of_chosen - needed, set(needed), stored) - needed
    chosen.update((event_id, position) for event_id, position, list_id in of_lists if list_id in alone)
    return alone, len(of_chosen & needed)


def _named_by(event: Event) -> Iterator[bytes]:
    blobs = event["blobs"]
    yield from from_texts(event[name] for name in HASH_COLUMNS if name != "blobs")
    yield from from_texts(blobs if isinstance(blobs, list) else ())


def _not_reached(
    store: Store, view: LogView, chosen: "dict[str, int]", pattern: "Pattern | None"
) -> Iterator[str]:
    yield "backups and copies of the store, and files exported from it: erase there too, or delete them"
    yield "the working directory and the history of git"
    first = min(chosen.values(), default=None)
    reached: dict[str, int] = {}
    for event in view.iterate(event_types=("cursor",), columns=("title", "payload")):
        position = object_of(event["payload"]).get("position")
        if isinstance(position, int):
            name = str(event["title"])
            reached[name] = max(reached.get(name, 0), position)
    for name, position in sorted(reached.items()):
        if first is not None and position > first:
            yield f"what {name} was given: it has the events before position {position:,}"
    for uri in _lakes(store):
        yield (
            f"what was published to {uri}: the next `locus publish {uri}` takes it out there, and then "
            f"`locus lake maintain {uri} --catalog URI` out of the tables made of it"
        )
    for path in contents_of.unreadable(store.blobs):
        yield f"{path}: it cannot be read, so its contents are unknown"
    config = store.layout.config_file
    if pattern is not None and store.fs.exists(config) and pattern.is_in(read_file(store.fs, config)):
        yield f"{config}: a person wrote it; take it out there"


def _lakes(store: Store) -> "list[str]":
    """The lakes that the store published to, as far as it remembers (docs/lake.md §2)."""
    names = store.fs.listdir(store.layout.directory(INDEX_DIR))
    heads = (
        read_file(store.fs, store.layout.index(name)).partition(b"\n")[0] for name in names if is_lake(name)
    )
    uris = (object_if_any(head.decode("utf-8", "replace")).get("place") for head in heads)
    return sorted(uri for uri in uris if isinstance(uri, str))


def _quoted(events: "list[str]") -> Iterator[str]:
    if events:
        ids = " ".join(events[:_QUOTED_SHOWN])
        more = f", and {len(events) - _QUOTED_SHOWN:,} more" if len(events) > _QUOTED_SHOWN else ""
        yield f"other events that hold lines of it; `locus store erase --event ID…` erases them: {ids}{more}"


# Carrying out.


def _note(store: Store) -> None:
    """Note that an erasure is under way, so that maintenance finishes it."""
    fs, layout = store.fs, store.layout
    for tries_left in reversed(range(_NOTE_TRIES)):
        try:
            publish(fs, layout.tmp(f"seal-erasing-{fs.random_bytes(8).hex()}"), layout.erasing, b"\n")
            return
        except FileExistsError:
            return  # another one is unfinished: both will be finished
        except FileNotFoundError:
            if not tries_left:
                raise
            # The end of another one swept it.


def _rules(store: Store, plan: ErasurePlan) -> list[bytes]:
    rules = []
    if plan.pattern is not None and plan.pattern.text is not None:
        key = redaction.key_of((store.fs, store.layout))
        rules.append(erased_rules.text_rule(plan.pattern.text.encode("utf-8", "surrogatepass"), key))
    elif plan.pattern is not None and plan.pattern.expression is not None:
        rules.append(erased_rules.expression_rule(plan.pattern.expression))
    if plan.by in (_SECRET, _PATH):
        # A very short content may occur anywhere and mean nothing.
        locations = store.blobs.locations(plan.contents)
        long = (
            id for id, location in locations.items() if plan.by == _SECRET or location[4] >= _CONTENT_SIZE_MIN
        )
        rules += [erased_rules.content_rule(id) for id in sorted(long)]
    return rules


def _renamed(store: Store, writer: BlobWriter, plan: ErasurePlan, marks: Marks) -> dict[str, str]:
    """Store the replacements of the trees with the pattern in their names; hashes of both."""
    if plan.pattern is None or not plan.trees:
        return {}
    trees = (id for id in plan.contents if store.blobs.kind_of(id) == "tree")
    new = contents_of.renamed(store.blobs, list(trees), plan.pattern, marks.mark)
    put = {to_text(id): to_text(writer.put_tree(entries)) for id, entries in new.items()}
    writer.flush()
    return put


def _start_events(
    store: Store, erasure: str, plan: ErasurePlan, reason: str, checks: list[str], trees: dict[str, str]
) -> Iterator[Event]:
    events, contents = sorted(plan.events), sorted(id.hex() for id in plan.contents)
    pairs = sorted(trees.items())
    for start in range(0, max(len(events), len(contents), len(pairs), 1), _IDS_IN_EVENT_MAX):
        end = start + _IDS_IN_EVENT_MAX
        yield _event(
            erasure,
            START,
            by=plan.by,
            who=_who(),
            reason=reason or None,
            events=events[start:end],
            contents=contents[start:end],
            trees=dict(pairs[start:end]),
            store=store.identity.store_id.hex(),
            rules=checks,
        )


def _event(erasure: str, operation: str, **fields: object) -> Event:
    return {
        "event_type": ERASURE,
        "event_kind": "fact",
        "source": "user" if operation == START else "system",
        "agent": "locus",
        "operation": operation,
        "payload": {"erasure": erasure, **fields},
    }


def _who() -> "str | None":
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None  # a user without a name


def _finish(store: Store, todo: "list[tuple[Marks, set[bytes]]]", lock_timeout_s: float) -> Erased:
    fs, layout, store_id = store.fs, store.layout, store.identity.store_id
    report = Erased([marks.erasure for marks, _ in todo])
    if not is_unfinished(store):
        return report  # another process has just finished it
    _seal_all(store, lock_timeout_s)
    for marks, _ in todo:
        if marks.whole or marks.pattern is not None or marks.trees:
            rewritten = log.rewrite(fs, layout, store_id, marks, lock_timeout_s=lock_timeout_s)
            report.events += rewritten.events
            report.named += rewritten.named
            report.segments += len(rewritten.segments)
            store.append_rows([_event(marks.erasure, REWRITTEN, events_changed=rewritten.events)])
    ids: set[bytes] = set().union(*(contents for _, contents in todo))
    report.contents = len(ids)
    report.packs = len(contents_of.remove(store.blobs, ids, lock_timeout_s=lock_timeout_s))
    waiting = log.release(fs, layout, store_id, lock_timeout_s=lock_timeout_s)
    report.waiting = waiting.segments + waiting.journals
    _remove_derived(store, todo, lock_timeout_s)
    if not report.waiting and not sweep.strays(fs, layout, _age_s(store)):
        store.append_rows(_event(marks.erasure, END) for marks, _ in todo)
        _unlink(store, layout.erasing)
        fs.fsync_dir(layout.root)
    else:
        report.waiting = max(1, report.waiting)
    return report


def _seal_all(store: Store, lock_timeout_s: float) -> None:
    """Seal all events so far: only segments can be rewritten. Raises: NotDurable."""
    end = store.journal.next_position()
    store.seal(lock_timeout_s=lock_timeout_s)
    if read_current(store.files).next_position < end:
        raise NotDurable(
            f"{store.layout.root}: the disk failed while the log was sealed, so what is to be erased is "
            "still there. Check the disk, then go on with `locus store erase --resume`."
        )


def _remove_derived(store: Store, todo: "list[tuple[Marks, set[bytes]]]", lock_timeout_s: float) -> None:
    """Remove what was made from erased texts, or may hold them."""
    fs, layout = store.fs, store.layout
    # An indexer may have read what was erased: the lock keeps it from writing after the removal.
    with acquire(fs, layout, SEARCH, timeout_s=lock_timeout_s):
        for name in fs.listdir(layout.directory(INDEX_DIR)):
            _unlink(store, layout.index(name))
    for name in fs.listdir(layout.directory(STATCACHE_DIR)):
        if (parse_statcache(name) or parse_overlay(name)) is not None:
            _unlink(store, f"{layout.directory(STATCACHE_DIR)}/{name}")
    _unlink(store, layout.config_twin)
    for name in fs.listdir(layout.directory(LIVE_DIR)):
        if name != "maintained" and not name.endswith(".running"):
            # The checkpoints of hooks name trees that may be gone, and files of transcripts.
            _unlink(store, layout.live(name))
    _unlink(store, layout.briefing)
    for directory in map(layout.directory, (MEMORY_DIR, f"{MEMORY_DIR}/archive")):
        if fs.exists(directory):
            for name in fs.listdir(directory):
                if name.endswith(".json"):
                    _unlink(store, f"{directory}/{name}")
            fs.fsync_dir(directory)
    for marks, _ in todo:
        chosen = dict.fromkeys(marks.whole, 0)
        for path in _in_quarantine(store, chosen, marks.pattern):
            _unlink(store, path)
            _unlink(store, path.removesuffix(".bin") + ".json")
    sweep.sweep(fs, layout, _age_s(store))
    for name in fs.listdir(layout.directory(TMP_DIR)):
        path = layout.tmp(name)
        if any(marks.pattern is not None and _holds(store, path, marks.pattern) for marks, _ in todo):
            _unlink(store, path)
    # A power cut must not bring back what the log records as gone.
    for directory in (INDEX_DIR, STATCACHE_DIR, LIVE_DIR, QUARANTINE_DIR, TMP_DIR):
        fs.fsync_dir(layout.directory(directory))
    fs.fsync_dir(layout.root)


def _age_s(store: Store) -> float:
    """How long ago this erasure began: files written into `tmp/` since then hold nothing of it."""
    try:
        return store.fs.time_ns() / 1e9 - store.fs.stat(store.layout.erasing).st_mtime
    except FileNotFoundError:
        return float("inf")  # another process has just finished it


def _in_quarantine(store: Store, events: "dict[str, int]", pattern: "Pattern | None") -> list[str]:
    """Quarantined bytes that hold the pattern, or one of the events by its id."""
    layout = store.layout
    paths = []
    ids = [event_id.encode() for event_id in events]
    for name in store.fs.listdir(layout.directory(QUARANTINE_DIR)):
        if name.endswith(".bin"):
            data = read_file(store.fs, layout.quarantine(name))
            if (pattern is not None and pattern.is_in(data)) or any(id in data for id in ids):
                paths.append(layout.quarantine(name))
    return paths


def _holds(store: Store, path: str, pattern: Pattern) -> bool:
    try:
        return pattern.is_in(read_file(store.fs, path))
    except (OSError, EventLogError):
        return False  # a directory, or gone


def _unlink(store: Store, path: str) -> None:
    try:
        store.fs.unlink(path)
    except FileNotFoundError:
        pass  # another process was first
