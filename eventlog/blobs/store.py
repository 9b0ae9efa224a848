"""The blobs and trees of one store: found by id, verified on every read.

Any number of processes may read and write at once; a `BlobStore` object and its writers belong to
one thread at a time. Reading takes no lock: packs never change, and one that is deleted under a
reader has been copied elsewhere or waits in `condemned/`. Writing is `BlobStore.writer`.

Every read re-computes the id of what it returns (I24). When one copy is damaged the others are
tried. An idx only makes look-ups fast; without it the answers are the same (I22). On the hook path.
"""

from eventlog.base.errors import Ambiguous, Corruption, NotFound
from eventlog.base.fs import publish, translate_os_errors
from eventlog.base.layout import IDX_DIR, PACK_DIR, StoreFiles, parse_idx
from eventlog.blobs.catalog import Catalog
from eventlog.blobs.ids import EMPTY_BLOB, ID_SIZE, TEXT_PREFIX, blob_id, to_text, tree_id
from eventlog.blobs.pack import BLOB, TREE, Location
from eventlog.blobs.tree import TreeEntry, decode_tree
from eventlog.blobs.writer import BlobWriter
from eventlog.secrets.redaction import withheld_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from eventlog.base.types import Event
    from eventlog.blobs.groups import GroupReader
    from eventlog.blobs.pack import PackTables
    from eventlog.blobs.writer import KindsIn

PREFIX_DIGITS_MIN = 4
_CANDIDATES_SHOWN = 8


class BlobStore:
    """Reads blobs and trees; a context manager that closes the packs it opened."""

    def __init__(
        self,
        files: StoreFiles,
        *,
        kinds_in: "KindsIn | None" = None,
        modes: bool = False,
        catalog: "Catalog | None" = None,
    ) -> None:
        """Args:
        kinds_in: the kinds of secrets in a content, as `Redactor.kinds_in`; called for every put.
        modes: whether its trees may hold other permissions than git's two modes (`Identity.keeps_modes`).
        """
        self.withheld: "dict[bytes, tuple[str, ...]]" = {}  # put since the last `forget_withheld`
        # The reason why a content may have gone; also called with the first digits of its hash.
        self.fate: "Callable[..., str | None]" = lambda _="": None
        self.erased: "Callable[[bytes], str | None]" = lambda _: None  # the same of an id that was erased
        # Contents that readers know of and no pack holds (replay/deferred.py).
        self.elsewhere: "Callable[[bytes], bytes | None]" = lambda _: None
        self._kinds_in = kinds_in
        self.modes = modes
        self.files = files
        self.fs = files.fs
        self.layout = files.layout
        self.store_id = files.store_id
        self.repository = files.layout.root.rpartition("/")[0]  # where git is asked for what it holds
        self._catalog = catalog or Catalog(files)
        self.cached_bytes_max: int | None = None  # of decompressed groups; None: as a GroupReader has it
        self._groups: "GroupReader | None" = None  # not imported by processes that only write
        self._reading = translate_os_errors(files.layout.directory(PACK_DIR), "read the packs")

    def __enter__(self) -> "BlobStore":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every descriptor; the store opens them again when it is used again."""
        self._close_groups()
        self._catalog.close()

    def writer(
        self,
        *,
        codec: str = "zlib",
        level: "int | None" = None,
        group_bytes: "int | None" = None,
        threads: int = 1,
        lock_timeout_s: float = 10.0,
        paced: bool = False,
    ) -> BlobWriter:
        """A writer; it holds the gc lock shared from here until it is closed (I24).

        Args:
            codec: `zlib`, `raw`, or `zstd` (needs pyarrow; compresses in threads of its own).
            group_bytes: raw size at which a group of small blobs is closed.
            threads: how many compress, with zstd.
            paced: bring what is written to the disk piece by piece.
        Raises: LockTimeout.
        """
        return BlobWriter(
            self,
            self._catalog,
            codec=codec,
            level=level,
            group_bytes=group_bytes,
            threads=threads,
            lock_timeout_s=lock_timeout_s,
            paced=paced,
        )

    def kinds_in(self, data: bytes) -> "tuple[str, ...]":
        """The kinds of secrets in a content, as far as this store knows them."""
        return () if self._kinds_in is None else self._kinds_in(data)

    def withhold(self, id: bytes, kind: str) -> None:
        """Withhold a content, whatever is in it; an empty one never is."""
        if id != EMPTY_BLOB:
            self.withheld[id] = tuple(dict.fromkeys((*self.withheld.get(id, ()), kind)))

    def withheld_events(self) -> "list[Event]":
        """The events of contents put so far that hold a secret, for one frame with what names them."""
        return [withheld_event(to_text(id), kinds) for id, kinds in self.withheld.items()]

    def forget_withheld(self) -> None:
        """Forget them, when those events are in the log."""
        self.withheld.clear()

    def contains(self, id: bytes) -> bool:
        """Whether `id` can be read; does not read it."""
        catalog = self._catalog
        with self._reading:
            catalog.ensure()
            if catalog.has(id):
                return True
            catalog.refresh()
            return catalog.has(id) or bool(catalog.find_condemned((id,)))

    def get(self, id: bytes) -> bytes:
        """The bytes of a blob, or the encoding of a tree.

        Raises: NotFound; Corruption when the only copies are damaged.
        """
        content = self.elsewhere(id)
        if content is not None:
            return content
        with self._reading:
            return self._get(id)[1]

    def get_tree(self, id: bytes) -> "tuple[TreeEntry, ...]":
        """The entries of a tree, sorted by name.

        Raises: NotFound; Corruption.
        """
        with self._reading:
            kind, encoding = self._get(id)
        if kind != TREE:
            raise NotFound(f"{to_text(id)} is a file's content, not a tree")
        return decode_tree(encoding, f"tree {to_text(id)}")

    def get_many(self, ids: "Iterable[bytes]") -> "Iterator[tuple[bytes, bytes]]":
        """(id, bytes) of each different id, in the order in which they are stored.

        Raises: NotFound; Corruption.
        """
        for id in self.read_order(ids):
            yield id, self.get(id)

    def read_order(self, ids: "Iterable[bytes]") -> "list[bytes]":
        """The different ids in the order in which they are stored, so that each group is read once."""
        with self._reading:
            return [id for _, id in sorted((self._location_key(id), id) for id in set(ids))]

    def locations(self, ids: "Iterable[bytes]") -> "dict[bytes, Location]":
        """Where each of the ids is; ids that no live pack holds are left out.

        For readers that work beside this store, each with a `GroupReader` of its own. They hash what
        they read, and come back with `get` for what fails.
        """
        catalog = self._catalog
        locations = {}
        refreshed = False
        with self._reading:
            catalog.ensure()
            for id in sorted(ids):  # in which order an idx is read fastest
                location = self._find(id)
                if location is None and not refreshed:
                    catalog.refresh()
                    refreshed = True
                    location = self._find(id)
                if location is not None:
                    locations[id] = location
        return locations

    def condemned_locations(self, ids: "Iterable[bytes]") -> "dict[bytes, Location]":
        """The same in packs that wait for their deletion, which are listed once for all the ids."""
        with self._reading:
            return self._catalog.find_condemned(ids)

    @property
    def groups(self) -> "GroupReader":
        """Its own reader of groups, with those that it decompressed last. Used between two of its calls, by
        those that know locations; they hash what they read."""
        if self._groups is None:
            from eventlog.blobs.groups import CACHE_BYTES, GroupReader

            self._groups = GroupReader(self.fs, self.cached_bytes_max or CACHE_BYTES)
        return self._groups

    def kind_of(self, id: bytes) -> str:
        """`blob` or `tree`.

        Raises: NotFound; Corruption.
        """
        with self._reading:
            return "tree" if self._get(id)[0] == TREE else "blob"

    def resolve(self, prefix: str) -> bytes:
        """The one id that begins with these hex digits, with or without `blake3:`.

        Raises: NotFound, also for fewer than four digits; Ambiguous, naming candidates.
        """
        digits = prefix.removeprefix(TEXT_PREFIX).lower()
        if not PREFIX_DIGITS_MIN <= len(digits) <= 64 or any(c not in "0123456789abcdef" for c in digits):
            raise NotFound(
                f"{prefix!r} names no content: give at least {PREFIX_DIGITS_MIN} hex digits of a hash, "
                "with or without `blake3:`"
            )
        self.refresh()
        low, high = bytes.fromhex(digits.ljust(64, "0")), bytes.fromhex(digits.ljust(64, "f"))
        if low == high:
            if self.contains(low):
                return low
            raise self._not_found(low, digits)
        with self._reading:
            ids = sorted(set(self._catalog.ids_between(low, high)))
        if not ids:
            raise NotFound(
                f"no content in this store has a hash that begins with {digits}{self._why(digits)}"
            )
        if len(ids) > 1:
            shown = ", ".join(to_text(id) for id in ids[:_CANDIDATES_SHOWN])
            more = f", and {len(ids) - _CANDIDATES_SHOWN} more" if len(ids) > _CANDIDATES_SHOWN else ""
            raise Ambiguous(f"{digits} begins {len(ids)} hashes: {shown}{more}. Give more digits.")
        return ids[0]

    def refresh(self) -> None:
        """Take note of packs that other processes added or removed."""
        with self._reading:
            self._catalog.ensure()
            self._catalog.refresh()

    @property
    def pack_names(self) -> "frozenset[str]":
        """The live packs, as of the last listing."""
        return frozenset(self._catalog.names)

    def recent_count(self) -> int:
        """How many packs no idx covers: each costs a reader an open and a read."""
        self.refresh()
        return self._catalog.recent_count()

    def recent_entries(self) -> int:
        """How many entries those packs have: each costs every process that opens the store a little."""
        self.refresh()
        return self._catalog.recent_entries()

    def tables(self) -> "list[PackTables]":
        """The tables of every live pack that can be read, as of now."""
        self.refresh()
        with self._reading:
            return self._catalog.all_tables()

    def build_idx(self, without: "Collection[str]" = ()) -> "int | None":
        """Write an idx over the live packs and drop the older ones; its number, None when one is current.

        May run beside writers and readers: it is derived, and one of two builders stops.
        Args: without: packs to leave out, because they are about to go.
        """
        with translate_os_errors(self.layout.directory(IDX_DIR), "write an idx of the packs"):
            return self._build_idx(without)

    def _build_idx(self, without: "Collection[str]") -> "int | None":
        from eventlog.blobs.idx import encode_idx

        catalog = self._catalog
        self.refresh()
        if catalog.recent_count() == 0 and catalog.names.isdisjoint(without):
            return None
        tables = []
        for pack in catalog.all_tables():
            if pack.name in without:
                continue
            try:
                pack.check()
            except Corruption:
                continue  # verify names it
            tables.append(pack)
        fs, layout = self.fs, self.layout
        directory = layout.directory(IDX_DIR)
        if not fs.exists(directory):
            fs.mkdir(directory)
        numbers = [n for n in map(parse_idx, fs.listdir(directory)) if n is not None]
        number = max(numbers, default=0) + 1
        # A pack that is found through an idx counts as durable.
        fs.fsync_dir(layout.directory(PACK_DIR))
        tmp = layout.tmp(f"idx-{fs.random_bytes(8).hex()}")
        try:
            publish(fs, tmp, layout.idx(number), encode_idx(self.store_id, tables))
        except FileExistsError:
            return None
        except FileNotFoundError:
            if not fs.exists(directory):
                raise
            return None  # an erasure swept it: the packs that it covers may be gone
        for old in (*map(layout.idx, numbers), layout.recent_packs):
            try:
                fs.unlink(old)
            except FileNotFoundError:
                pass  # another builder dropped it, or there was none
        catalog.close()
        return number

    def _get(self, id: bytes) -> "tuple[int, bytes]":
        """(kind, bytes) of `id`, verified."""
        catalog = self._catalog
        catalog.ensure()
        failure: "Corruption | None" = None
        location = self._find(id)
        if location is None:
            catalog.refresh()
            location = self._find(id) or catalog.find_condemned((id,)).get(id)
        if location is not None:
            try:
                return self._read(id, location)
            except FileNotFoundError:  # deleted or renamed since the last listing
                catalog.refresh()
            except Corruption as error:
                failure = error
                self._close_groups()  # the damaged file may have been replaced meanwhile
            copies = catalog.find_all(id)
            for copy in (*copies, *catalog.find_condemned((id,)).values()):
                try:
                    return self._read(id, copy)
                except (FileNotFoundError, Corruption):
                    continue  # the first failure is the one to report
        raise failure or self._not_found(id)

    def _find(self, id: bytes) -> "Location | None":
        try:
            return self._catalog.find(id)
        except Corruption:
            return None  # an impossible row finds nothing; verify names it

    def _read(self, id: bytes, location: Location) -> "tuple[int, bytes]":
        path, kind, group_offset, offset, length = location
        data = self.groups.read(path, group_offset, offset, length)
        if (tree_id(data) if kind == TREE else blob_id(data)) != id:
            raise Corruption(path, f"the content of {to_text(id)} does not match its hash", group_offset)
        return kind, data

    def _close_groups(self) -> None:
        if self._groups is not None:
            self._groups.close()

    def _not_found(self, id: bytes, digits: str = "") -> "NotFound | Corruption":
        assert len(id) == ID_SIZE
        unreadable = self._catalog.unreadable
        if unreadable:
            name = min(unreadable)
            return Corruption(
                self.layout.pack(name), f"{to_text(id)} is in no readable pack, and this one cannot be read"
            )
        erased = self.erased(id)
        why = f": {erased}" if erased else self._why(digits)
        return NotFound(f"{to_text(id)} is not in this store{why}")

    def _why(self, digits: str) -> str:
        fate = self.fate(digits)
        return f" any more: {fate}" if fate else ""

    def _location_key(self, id: bytes) -> Location:
        return self._find(id) or ("", BLOB, 0, 0, 0)
