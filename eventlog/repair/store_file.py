"""The file STORE, rewritten from what the rest of a store proves, when it is gone or damaged.

Every journal and every manifest names the store's id under a digest of its own; events name the repository
and the project. Three facts have no proof: the time of the store's making (that of its first event is
used), whether its trees may hold modes (they may from now on, so that no tree is damage), and the turn limit
of events that were never sealed. Killed anywhere, it is done again.
"""

from collections import Counter
from collections.abc import Iterator

from eventlog.base import identity, store_location
from eventlog.base.errors import Corruption, EventLogError, NoStore, Refused
from eventlog.base.fs import FileSystem, read_file, replace, translate_os_errors
from eventlog.base.identity import Identity
from eventlog.base.layout import QUARANTINE_DIR, Layout, StoreFiles
from eventlog.base.locks import MAINTAIN, acquire
from eventlog.base.names import next_session_id
from eventlog.base.repository import repo_hash_of
from eventlog.log import manifest as manifests
from eventlog.log.frame import HEADER_SIZE, decode_header
from eventlog.log.journal_reading import journal_numbers
from eventlog.store import Store

_READ = ("repo", "event_type", "title", "recorded_at", "agent", "session_id", "turn")


def why_unusable(fs: FileSystem, layout: Layout) -> "str | None":
    """What is wrong with STORE beside a log; None where it can be used, or there is no log.

    Raises: Unsupported, Refused, EventLogError.
    """
    try:
        identity.read(fs, layout)
    except Corruption as error:
        return error.__cause__.what if isinstance(error.__cause__, Corruption) else error.what
    except NoStore:
        return "it is gone" if any(_ids(fs, layout)) else None
    return None


def proven(fs: FileSystem, layout: Layout) -> Identity:
    """The identity for STORE. Raises: Refused where nothing proves it, or the store is another user's."""
    root = layout.root
    identity.refuse_foreign(root)
    counts = Counter(_ids(fs, layout))
    if len(counts) != 1:
        what = f"belong to {len(counts)} stores" if counts else "that can be read are none"
        raise Refused(
            f"{root}: journals and manifests {what}, so the content of STORE is unknown. Bring it back from "
            "a backup, or write what verifies into a new store: `locus store salvage DEST`."
        )
    store_id = next(iter(counts))
    around = repo_hash_of(root.rpartition("/")[0])
    provisional = Identity(store_id, around[0] if around else "", "roots", "", 0, required=(identity.MODES,))
    repos: Counter[str] = Counter()
    highest: "dict[tuple[str, str], int]" = {}
    named = first = None
    try:
        with Store(fs, layout, provisional) as store:
            for event in store.rows(columns=_READ):
                first = event["recorded_at"] if first is None else first
                if event["agent"] and event["session_id"] and event["turn"]:
                    session = str(event["agent"]), str(event["session_id"])
                    highest[session] = max(highest.get(session, 0), int(str(event["turn"])))
                if event["repo"]:
                    repos[str(event["repo"])] += 1
                if event["event_type"] == "sessions" and event["title"]:
                    named = str(event["title"])
    except EventLogError:
        pass  # the events read so far count; the repair that follows settles the rest
    limit = _turn_limit(highest)
    repo_hash = repos.most_common(1)[0][0] if repos else provisional.repo_hash
    origin = "roots" if around and around[0] == repo_hash else "random"
    return Identity(
        store_id,
        repo_hash or fs.random_bytes(6).hex(),
        origin,
        named or root.rpartition("/")[0].rpartition("/")[2] or "root",
        first if isinstance(first, int) else fs.time_ns() // 1000,
        (identity.ON_SHARED,) if store_location.is_shared(root) else (),
        (identity.MODES,) if limit is None else (identity.MODES, identity.TURNS),
        limit,
    )


def _turn_limit(highest: "dict[tuple[str, str], int]") -> "int | None":
    """The turn limit that the numbers of sealed events prove, else that of new stores; None where agents'
    sessions have more turns than that.

    Args: highest: the last turn of each session, by its agent and id.
    """
    turns = {session: last for session, last in highest.items() if session[0] != "git"}
    full = [last for (agent, id), last in turns.items() if (agent, next_session_id(agent, id)) in turns]
    limit = max(full, default=identity.TURN_LIMIT)
    return limit if max(turns.values(), default=0) <= limit else None


def put_back(fs: FileSystem, layout: Layout, identity_: Identity, lock_timeout_s: float = 10.0) -> None:
    """Write STORE; an old file gets a name in quarantine first. Raises: LockTimeout, EventLogError."""
    with (
        translate_os_errors(layout.store_file, "write it again"),
        acquire(fs, layout, MAINTAIN, timeout_s=lock_timeout_s),
    ):
        if fs.exists(layout.store_file):
            name = f"STORE-{fs.random_bytes(8).hex()}"
            fs.link(layout.store_file, layout.quarantine(name))
            fs.fsync_dir(layout.directory(QUARANTINE_DIR))
        replace(
            fs, layout.tmp(f"STORE-{fs.random_bytes(8).hex()}"), layout.store_file, identity.encode(identity_)
        )


def _ids(fs: FileSystem, layout: Layout) -> Iterator[bytes]:
    """The store's id in each file of the log that verifies by itself."""
    files = StoreFiles(fs, layout, b"")  # which of the ids in them is the store's is the question
    try:
        journals, sealed = journal_numbers(files), manifests.numbers(files)
    except FileNotFoundError:
        return  # no log
    for path in (*map(layout.journal, journals), *map(layout.manifest, sealed)):
        try:
            data = read_file(fs, path)
            if path.endswith(".json"):
                yield bytes.fromhex(manifests.decode(data, path).store_id)
            else:
                yield decode_header(data[:HEADER_SIZE], path).store_id
        except (Corruption, ValueError, FileNotFoundError):
            continue
