"""Every file name of a store is made and parsed here, and nowhere else.

    .locus/
      .gitignore                                      "*": a log is never committed by accident
      STORE                                           identity, written once
      config.toml                                     settings; a person writes or answers them
      config.json                                     derived: the parsed settings
      keep-ignored                                    "yes" or "no": are ignored files kept?
      redaction.key                                   made at the first secret, random, not exported
      erased, erased.copy                             what was erased, as keyed digests: never recorded again
      erasing                                         an erasure under way; absent otherwise
      log/journal/<n:020d>.evj                        n from 1, dense, never reused; highest is active
      log/segments/<base:020d>-<end:020d>-<hash16>.parquet
      log/manifest/<n:020d>.json                      n from 1; the highest is current
      log/checked                                     derived: segments compared with their hashes, and when
      log/acknowledged                                derived: up to where the log was acknowledged
      log/quarantine/<journal:020d>@<offset>-<hash16>.bin (+ .json)
      index/<manifest:020d>-<code8>.duckdb            derived
      index/line-counts                              derived: lines of changes (docs/sql.md)
      index/tree-changes                             derived: differences between trees (docs/view.md)
      index/blame-<hash32>                            derived: origins of the lines of a file (docs/blame.md)
      index/search-<code8>.sqlite (+ -wal, -shm)      derived: words, and where they occur
      index/lake-<hash16>                            derived: what was published to a place (docs/lake.md)
      snapshots/packs/<hash64>.evp                    live by existence
      snapshots/condemned/<unix>-<hash64>.evp         dead, kept one day
      snapshots/idx/<n:020d>.evx                      derived
      snapshots/idx/young                             derived: tables of small packs that no idx covers
      snapshots/gc_generation                         a number
      snapshots/statcache/<worktree>.{evc,evo}        derived: docs/stat-cache.md
      live/<worktree>.{told,running}                  derived: what hooks have reported of a working directory
      live/<session>.calls                            derived: what hooks have recorded of a session
      live/<worktree>.{watcher,clock}                 derived: docs/watcher.md
      live/<worktree>.deferred                        derived: contents that wait to be stored
      live/<session>-<time>-<event>.notice            what a session gets at its next prompt (docs/undo.md)
      live/maintained                                 when a hook last started maintenance
      live/bisect.json                                derived: a bisection by hand under way
      live/costs                                      derived: what sessions and the day cost (docs/costs.md)
      memory/sessions/{,archive/}*.json               derived: continuity codes (docs/codes.md)
      memory/briefing.json                            derived: the facts of a briefing (docs/briefing.md)
      memory/aside/<hash16>-<name>                    files of shared context that could not be read
      restore/<position:020d>.json                    a restore under way; absent otherwise
      locks/{append,maintain,compact,gc,restore,search,context,publish}.lock    empty, for flock, stay
      locks/{contents,contents-next}.lock             the same: taken to store what hooks deferred
      locks/{worktree,export}-*.lock                  the same
      locks/{maintainer,briefing}.lock                the same
      tmp/                                            same file system; leftovers of crashes, files for reuse

Paths are text joined with "/". Files are 0600, directories 0700. Parsers return None for names that
are not theirs, so foreign files are left alone (S1-61).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eventlog.base.fs import FileSystem

JOURNAL_DIR = "log/journal"
SEGMENT_DIR = "log/segments"
MANIFEST_DIR = "log/manifest"
QUARANTINE_DIR = "log/quarantine"
INDEX_DIR = "index"
PACK_DIR = "snapshots/packs"
CONDEMNED_DIR = "snapshots/condemned"
IDX_DIR = "snapshots/idx"
STATCACHE_DIR = "snapshots/statcache"
LIVE_DIR = "live"
MEMORY_DIR = "memory/sessions"
RESTORE_DIR = "restore"
LOCK_DIR = "locks"
TMP_DIR = "tmp"

DIRECTORIES = (
    "log",
    JOURNAL_DIR,
    SEGMENT_DIR,
    MANIFEST_DIR,
    QUARANTINE_DIR,
    INDEX_DIR,
    "snapshots",
    PACK_DIR,
    CONDEMNED_DIR,
    IDX_DIR,
    STATCACHE_DIR,
    LIVE_DIR,
    RESTORE_DIR,
    LOCK_DIR,
    TMP_DIR,
)

_NUMBER_DIGITS = 20
_BLAME = "blame-"
_LAKE = "lake-"


class Layout:
    """The file names of the store at `root` (the `.locus` directory itself)."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.store_file = f"{root}/STORE"
        self.gitignore = f"{root}/.gitignore"
        self.config_file = f"{root}/config.toml"
        self.config_twin = f"{root}/config.json"
        self.keep_ignored = f"{root}/keep-ignored"
        self.briefing = f"{root}/memory/briefing.json"
        self.redaction_key = f"{root}/redaction.key"
        self.erased = f"{root}/erased"
        self.erased_copy = f"{root}/erased.copy"
        self.checked = f"{root}/log/checked"
        self.erasing = f"{root}/erasing"
        self.gc_generation = f"{root}/snapshots/gc_generation"
        self.acknowledged = f"{root}/log/acknowledged"
        self.capture_clock = f"{root}/{TMP_DIR}/clock"  # written to learn the time of the file system
        self.bisect = f"{root}/{LIVE_DIR}/bisect.json"
        self.recent_packs = f"{root}/{IDX_DIR}/young"

    def directory(self, name: str) -> str:
        """The path of one of the directories named at the top of this module."""
        return f"{self.root}/{name}"

    def journal(self, number: int) -> str:
        return f"{self.root}/{JOURNAL_DIR}/{number:020d}.evj"

    def segment(self, name: str) -> str:
        return f"{self.root}/{SEGMENT_DIR}/{name}"

    def manifest(self, number: int) -> str:
        return f"{self.root}/{MANIFEST_DIR}/{number:020d}.json"

    def quarantine(self, name: str) -> str:
        return f"{self.root}/{QUARANTINE_DIR}/{name}"

    def index(self, name: str) -> str:
        return f"{self.root}/{INDEX_DIR}/{name}"

    def blame(self, hash32: str) -> str:
        return f"{self.root}/{INDEX_DIR}/{_BLAME}{hash32}"

    def pack(self, hash64: str) -> str:
        return f"{self.root}/{PACK_DIR}/{hash64}.evp"

    def condemned(self, name: str) -> str:
        return f"{self.root}/{CONDEMNED_DIR}/{name}"

    def idx(self, number: int) -> str:
        return f"{self.root}/{IDX_DIR}/{number:020d}.evx"

    def statcache(self, worktree: str) -> str:
        return f"{self.root}/{STATCACHE_DIR}/{worktree}.evc"

    def statcache_overlay(self, worktree: str) -> str:
        return f"{self.root}/{STATCACHE_DIR}/{worktree}.evo"

    def lake(self, hash16: str) -> str:
        return f"{self.root}/{INDEX_DIR}/{_LAKE}{hash16}"

    def live(self, name: str) -> str:
        return f"{self.root}/{LIVE_DIR}/{name}"

    def restore(self, position: int) -> str:
        return f"{self.root}/{RESTORE_DIR}/{position:020d}.json"

    def lock(self, name: str) -> str:
        return f"{self.root}/{LOCK_DIR}/{name}.lock"

    def tmp(self, name: str) -> str:
        return f"{self.root}/{TMP_DIR}/{name}"


class StoreFiles:
    """The files of one store: how they are reached, their names, and the id in them. Never changed."""

    __slots__ = ("fs", "layout", "store_id")

    def __init__(self, fs: "FileSystem", layout: Layout, store_id: bytes) -> None:
        self.fs = fs
        self.layout = layout
        self.store_id = store_id


def segment_name(base: int, end: int, hash16: str) -> str:
    return f"{base:020d}-{end:020d}-{hash16}.parquet"


def index_name(manifest: int, code8: str) -> str:
    return f"{manifest:020d}-{code8}.duckdb"


def quarantine_name(journal: int, offset: int, hash16: str) -> str:
    return f"{journal:020d}@{offset}-{hash16}.bin"


def parse_quarantine(name: str) -> "tuple[int, int] | None":
    """(journal, offset) of bytes that were cut off a journal; None for every other file in quarantine."""
    number, separator, suffix = name.partition("@")
    offset, _, digest = suffix.partition("-")
    journal = _number(number)
    if (
        not separator
        or journal is None
        or not _is_hex(digest.removesuffix(".bin"), 16)
        or not offset.isdigit()
    ):
        return None
    return (journal, int(offset)) if digest.endswith(".bin") else None


def condemned_name(unix_s: int, hash64: str) -> str:
    return f"{unix_s}-{hash64}.evp"


def parse_journal(name: str) -> "int | None":
    return _numbered(name, ".evj")


def parse_manifest(name: str) -> "int | None":
    return _numbered(name, ".json")


def parse_restore(name: str) -> "int | None":
    return _numbered(name, ".json")


def parse_idx(name: str) -> "int | None":
    return _numbered(name, ".evx")


def parse_segment(name: str) -> "tuple[int, int, str] | None":
    """(base, end, hash16) of a segment's name."""
    if not name.endswith(".parquet"):
        return None
    parts = name[: -len(".parquet")].split("-")
    if len(parts) != 3 or not _is_hex(parts[2], 16):
        return None
    base, end = _number(parts[0]), _number(parts[1])
    if base is None or end is None:
        return None
    return base, end, parts[2]


def parse_index(name: str) -> "tuple[int, str] | None":
    """(manifest number, code digest) of an index generation's name."""
    if not name.endswith(".duckdb"):
        return None
    parts = name[: -len(".duckdb")].split("-")
    if len(parts) != 2 or not _is_hex(parts[1], 8):
        return None
    number = _number(parts[0])
    return None if number is None else (number, parts[1])


def is_blame(name: str) -> bool:
    """Whether a file of the index is one of `Layout.blame`."""
    return name.startswith(_BLAME) and _is_hex(name[len(_BLAME) :], 32)


def is_lake(name: str) -> bool:
    """Whether a file of the index is one of `Layout.lake`."""
    return name.startswith(_LAKE) and _is_hex(name[len(_LAKE) :], 16)


def parse_statcache(name: str) -> "str | None":
    """The 32 hex digits in a stat cache's name."""
    stem = name[:-4]
    return stem if name.endswith(".evc") and _is_hex(stem, 32) else None


def parse_overlay(name: str) -> "str | None":
    """The same in the name of a stat cache's overlay."""
    stem = name[:-4]
    return stem if name.endswith(".evo") and _is_hex(stem, 32) else None


def parse_pack(name: str) -> "str | None":
    """The 64 hex digits in a pack's name."""
    stem = name[:-4]
    return stem if name.endswith(".evp") and _is_hex(stem, 64) else None


def _numbered(name: str, suffix: str) -> "int | None":
    return _number(name[: -len(suffix)]) if name.endswith(suffix) else None


def _number(text: str) -> "int | None":
    if len(text) == _NUMBER_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    return None


def _is_hex(text: str, size: int) -> bool:
    return len(text) == size and all(c in "0123456789abcdef" for c in text)
