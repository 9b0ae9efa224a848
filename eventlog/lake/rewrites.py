"""Rewriting what a place should not have any more of a store (docs/lake.md §5).

Files whose rows an erasure changed, packs with contents that were erased or withheld since, and all that a
wider policy let out. Each step may be repeated; creating `rewrites/<n>.json` makes it so. One thread, under
the lock `publish`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import Corruption, Refused
from eventlog.lake.chain import (
    ERASURE,
    MERGE,
    POLICY,
    Chain,
    LiveFile,
    Rewrite,
    base_of,
    decode_rewrite,
    metadata_of,
    pack_name,
    prefix_of,
    read_chain,
    rewrite_name,
    rewritten_name,
    rewritten_number,
)
from eventlog.lake.old_packs import OldPacks
from eventlog.lake.packs import MadePack, made_packs
from eventlog.lake.policy import Policy, narrower
from eventlog.lake.probe import Creator
from eventlog.lake.published import Published, ids_of, packs_in

if TYPE_CHECKING:
    from eventlog.blobs.store import BlobStore
    from eventlog.lake.place import Place
    from eventlog.lake.source import Source

# A file, and the policy that it is to be under.
_FileUnder = tuple[LiveFile, Policy]


class Rewriter:
    """Makes the rewrites of one store in a place.

    `files` and `packs` count what was rewritten. `missing` are contents to publish that neither the store nor
    a pack that goes can give, with the reason. Publishing creates its objects by `create`, too.
    """

    def __init__(self, place: "Place", source: "Source") -> None:
        self.place = place
        self.source = source
        self.create = Creator(place, source.store_id).create
        self.files = self.packs = 0
        self.missing: dict[bytes, str] = {}

    def make(self, state: Published) -> bool:
        """Rewrite what has to be; True where something was, or another was first: then read the state again.

        Raises: Refused, EventLogError of the storage, Corruption.
        """
        source = self.source
        files = list(self._outdated(state))
        gone = self._packs_to_remove(state)
        if not files and not gone:
            return False
        by_policy = any(state.policies[file.name] != policy for file, policy in files)
        reason = POLICY if by_policy or (gone and not source.policy.contents) else ERASURE
        wanted = _contents_of(source, state, files, gone) if source.policy.contents else set()
        added_packs = self._remade_packs(wanted, sorted(gone & state.packs.keys()))
        self._put(state, reason, files, gone, added_packs, packs=len(gone))
        return True

    def complete(self, state: Published) -> bool:
        """Make again what a place has lost: contents in packs, and files that a rewrite brought.

        True where something was: then read the state again. Raises: as `make`.
        """
        wanted: set[bytes] = set()
        for file in state.chain.live:
            known = state.contents | wanted
            wanted |= self.source.contents(file.base, file.end, known, state.policies[file.name])
        packs = self._remade_packs(wanted, [])
        if not packs and not state.lost:
            return False
        files = [(f, state.policies[f.name]) for f in state.chain.live if f.name in state.lost]
        gone = state.lost.difference(file.name for file, _ in files)
        self._put(state, MERGE, files, gone, packs, packs=len(packs))
        return True

    def bring_back(self, state: Published, names: Iterable[str]) -> None:
        """Make packs live again that a rewrite removed: a wider policy lets the same bytes out."""
        self._put(state, MERGE, [], set(), sorted(names), packs=0)

    def _outdated(self, state: Published) -> "Iterator[_FileUnder]":
        """The live files that have to be rewritten, each with its policy from now on."""
        source = self.source
        for file in state.chain.live:
            policy = state.policies[file.name]
            if policy.widens(source.policy):
                yield file, narrower(policy, source.policy)
            elif not source.erasures <= state.erasures[file.name]:
                if self._differs(file, policy):
                    yield file, policy
                else:
                    state.erasures[file.name] = source.erasures

    def _differs(self, file: LiveFile, policy: Policy) -> bool:
        try:
            published = pq.read_table(pa.BufferReader(self.place.read(file.name)), use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise Corruption(self.place.address(file.name), f"it cannot be read: {error}") from error
        return not published.equals(self.source.table(file.base, file.end, policy))

    def _packs_to_remove(self, state: Published) -> "set[str]":
        """Packs that hold what they should not, also such as no file names: their publisher was killed.

        One that cannot be read goes, too: what it holds is not known, and of no use to anybody.
        """
        source = self.source
        held = dict(state.packs)
        unreadable: set[str] = set()
        searched = f"{len(source.forbidden)} forbidden, contents {source.policy.contents}"
        if state.searched != searched:
            listed = packs_in(self.place, source.store_id)
            unknown = [entry for entry in listed if entry.name not in held.keys() | state.removed_packs]
            held |= ids_of(self.place, source.store_id, unknown)
            unreadable = {entry.name for entry in unknown} - held.keys()
            state.searched = searched
        if not source.policy.contents:
            return set(held) | unreadable
        return unreadable.union(name for name, ids in held.items() if ids & source.forbidden)

    def _remade_packs(self, wanted: "set[bytes]", gone: "list[str]") -> "list[str]":
        """Create packs of these contents, of the store or else of the packs that go; their names."""
        collected: dict[bytes, str] = {}
        names = self._created(made_packs(self.source.store.blobs, wanted, collected))
        if collected:
            old = cast("BlobStore", OldPacks(self.place, self.source.store_id, gone))
            names += self._created(made_packs(old, collected.keys(), self.missing))
        return names

    def _created(self, packs: "Iterable[MadePack]") -> "list[str]":
        names = []
        for pack in packs:
            names.append(pack_name(self.source.store_id, pack.name))
            self.create(names[-1], pack.data)
        return names

    def _put(
        self, state: Published, reason: str, files: "list[_FileUnder]", gone: "set[str]",
        added_packs: "list[str]", *, packs: int,
    ) -> None:  # fmt: skip
        """Create the files that take the place of these, and the rewrite. Args: packs: to count."""
        added = tuple(self._remade(state, file, policy, gone) for file, policy in files)
        removed = tuple(file.name for file, _ in files)
        rewrite = Rewrite(
            state.chain.next_rewrite, reason, removed, added, tuple(sorted(gone)), tuple(added_packs)
        )
        if put(self.place, self.source.store_id, self.create, rewrite):
            self.files += len(added)
            self.packs += packs

    def _remade(self, state: Published, file: LiveFile, policy: Policy, gone: "set[str]") -> LiveFile:
        """Create the file that takes the place of another."""
        store_id = self.source.store_id
        footer = {} if file.name in state.lost else metadata_of(self.place, file.name)
        stems = jsontext.decode(footer.get("packs", "[]"))
        packs = [stem for stem in stems if pack_name(store_id, stem) not in gone | state.removed_packs]
        data = self.source.file(file.base, file.end, policy, packs)
        name = rewritten_name(store_id, state.chain.next_rewrite, file.base, blake3(data).hexdigest())
        self.create(name, data)
        return LiveFile(name, file.base, file.end, len(data))


def sweep(place: "Place", store_id: bytes) -> "list[str]":
    """Delete what is dead since the last erasure; the answer are the names that may not be deleted."""
    left = []
    for name in deletable(place, read_chain(place, store_id)):
        try:
            place.delete(name)
        except Refused:
            left.append(name)
    place.delete_pieces(prefix_of(store_id))
    return left


def deletable(place: "Place", chain: Chain) -> "Iterator[str]":
    """The objects that the last rewrite by an erasure or a policy, and all before it, left dead.

    What a merge took out since is not among them: tables may still name it, and it holds nothing erased.
    """
    last = chain.last_erasure
    if not last:
        return
    later = [rewrite for rewrite in chain.rewrites if rewrite.number > last]
    stays = {file.name for file in (*chain.live, *chain.waiting)}
    stays.update(name for rewrite in later for name in (*rewrite.removes, *rewrite.removes_packs))
    prefix = prefix_of(chain.store_id)
    for entry in place.list(f"{prefix}/events"):
        # One that begins at the chain's end was created since the chain was read.
        if entry.name not in stays and base_of(entry.name) < chain.end:
            yield entry.name
    for entry in place.list(f"{prefix}/rewritten"):
        if entry.name not in stays and rewritten_number(entry.name) <= last:
            yield entry.name
    removed: set[str] = set()
    for rewrite in chain.rewrites:
        removed = (removed | set(rewrite.removes_packs)) - set(rewrite.adds_packs)
    for entry in packs_in(place, chain.store_id):
        if entry.name in removed and entry.name not in stays:
            yield entry.name


def _contents_of(
    source: "Source", state: Published, files: "list[_FileUnder]", gone: "set[str]"
) -> "set[bytes]":
    """What the packs that go hold and may stay; and what files need by now, as trees with other names."""
    stays: set[bytes] = set().union(*(ids for name, ids in state.packs.items() if name not in gone))
    wanted: set[bytes] = set().union(*(ids for name, ids in state.packs.items() if name in gone))
    for file, policy in files:
        wanted |= source.contents(file.base, file.end, stays | wanted, policy)
    return wanted - stays - source.forbidden


def put(place: "Place", store_id: bytes, create: "Callable[[str, bytes], bool]", rewrite: Rewrite) -> bool:
    """Create a rewrite; False where another has its number: what was made for it is deleted then."""
    name = rewrite_name(store_id, rewrite.number)
    if create(name, rewrite.encoded()):
        return True
    data = place.read(name)
    if data == rewrite.encoded():
        return True  # the answer was lost, or a copy of the store did the same
    others = {file.name for file in decode_rewrite(data, place.address(name)).adds}
    for file in rewrite.adds:
        if file.name not in others:
            try:
                place.delete(file.name)
            except Refused:
                pass  # nobody can name it any more; the next sweep lists it
    return False
