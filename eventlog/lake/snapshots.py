"""The snapshots of a lake's table: what they reach, which may go, and which objects only gone ones named.

An older snapshot reaches files that a rewrite has taken out, so an erasure ends with its expiry. pyiceberg
expires snapshots but deletes nothing; what is to be deleted follows from the older versions of the metadata
that the newest one lists, so that the next run finishes what one that was killed in between left.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from eventlog.base.errors import NotFound
from eventlog.lake.erased import ErasedFiles
from eventlog.lake.files import name_at
from eventlog.lake.place import Place


class Snapshots:
    """Those of a table as it was loaded; manifests are read once."""

    def __init__(self, place: Place, table: Any) -> None:
        self._place = place
        self._table = table
        self._files: dict[str, set[str]] = {}  # by the address of a manifest

    def names(self, snapshot: Any) -> "set[str]":
        """The data files that a snapshot has, without those whose metadata are gone."""
        names: set[str] = set()
        for manifest in self._manifests(snapshot):
            if manifest.manifest_path not in self._files:
                self._files[manifest.manifest_path] = self._files_of(manifest)
            names |= self._files[manifest.manifest_path]
        return names

    def reached(self) -> "set[str]":
        """The data files that any snapshot has."""
        return set().union(*(self.names(snapshot) for snapshot in self._table.metadata.snapshots))

    def held(self) -> "dict[int, str]":
        """The snapshots that a branch or tag holds, and its name."""
        return {ref.snapshot_id: name for name, ref in self._table.metadata.refs.items()}

    def _manifests(self, snapshot: Any) -> "list[Any]":
        try:
            return list(snapshot.manifests(self._table.io))
        except (FileNotFoundError, NotFound):
            return []

    def _files_of(self, manifest: Any) -> "set[str]":
        try:
            entries = manifest.fetch_manifest_entry(self._table.io)
        except (FileNotFoundError, NotFound):
            return set()
        return {name_at(self._place, entry.data_file.file_path) for entry in entries}


def reaching_erased(snapshots: Snapshots, table: Any, erased: ErasedFiles) -> "list[int]":
    """The snapshots with files that an erasure or a narrower policy took out."""
    return [
        snapshot.snapshot_id
        for snapshot in table.metadata.snapshots
        if any(erased.has(name) for name in snapshots.names(snapshot))
    ]


def garbage(place: Place, table: Any) -> "Iterator[str]":
    """The objects that only expired snapshots named, each before what leads to it."""
    snapshots = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    wanted = named_by(place, table, table.metadata.snapshots)
    for entry in table.metadata.metadata_log:
        former = _metadata_at(table, entry.metadata_file)
        gone = [s for s in former.snapshots if s.snapshot_id not in snapshots] if former else []
        if not gone:
            continue
        lists = [name_at(place, snapshot.manifest_list) for snapshot in gone]
        yield from sorted(named_by(place, table, gone) - wanted - set(lists))
        yield from lists
        yield name_at(place, entry.metadata_file)


def named_by(place: Place, table: Any, snapshots: "Iterable[Any]") -> "set[str]":
    """The manifests and their lists that snapshots name."""
    names: set[str] = set()
    for snapshot in snapshots:
        names.add(name_at(place, snapshot.manifest_list))
        try:
            manifests = snapshot.manifests(table.io)
        except (FileNotFoundError, NotFound):
            continue
        names.update(name_at(place, manifest.manifest_path) for manifest in manifests)
    return names


def metadata_names(place: Place, table: Any) -> "set[str]":
    """All objects below `tables/` that the newest metadata need."""
    names = named_by(place, table, table.metadata.snapshots)
    names.add(name_at(place, table.metadata_location))
    return names | {name_at(place, entry.metadata_file) for entry in table.metadata.metadata_log}


def _metadata_at(table: Any, address: str) -> Any:
    from pyiceberg.serializers import FromInputFile

    try:
        return FromInputFile.table_metadata(table.io.new_input(address))
    except (FileNotFoundError, NotFound):
        return None


def expired(table: Any, ids: "Collection[int]") -> bool:
    """Take snapshots out of the table; False where others changed it meanwhile."""
    from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
    from sqlalchemy.exc import OperationalError

    try:
        table.maintenance.expire_snapshots().by_ids(list(ids)).commit()
    except (CommitFailedException, CommitStateUnknownException, OperationalError):
        return False
    return True
