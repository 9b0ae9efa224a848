"""That contents which an append names are in the store, from the look until the events are durable (I24).

A content that was erased, or that git keeps for us, may be named: readers know of both.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain

from eventlog.erased import ERASED
from eventlog.errors import InvalidEvent
from eventlog.locks import GC, may_take
from eventlog.snapshots.ids import TEXT_PREFIX, to_text
from eventlog.snapshots.pack import BLOB, TREE
from eventlog.snapshots.store import BlobStore

_KIND_OF = {"before_hash": BLOB, "after_hash": BLOB, "tree_hash": TREE}
_IS = {BLOB: "a file's content, not a tree", TREE: "a tree, not a file's content"}


@contextmanager
def held(blobs: BlobStore, named: "Iterable[tuple[str, str]]", groups: "list[list[bytes]]") -> Iterator[None]:
    """Within this nothing collects the contents that are named, as (column, hash), in journal lines.

    The gate has looked at their form; hashes of another kind than ours are not looked for.
    Raises: InvalidEvent, LockTimeout.
    """
    columns: "dict[bytes, list[str]]" = {}
    for column, text in named:
        if text.startswith(TEXT_PREFIX):
            columns.setdefault(bytes.fromhex(text[len(TEXT_PREFIX) :]), []).append(column)
    if not columns:
        yield
        return
    # Whoever collects waits until the writer is closed; a caller that has the lock has stored them under it.
    with blobs.writer() if may_take(GC) else nullcontext() as writer:
        places = blobs.places(columns)
        missing = columns.keys() - places.keys()
        condemned = blobs.condemned_places(missing) if missing else {}
        for id, (_, kind, *_) in [*places.items(), *condemned.items()]:
            for column in columns[id]:
                if _KIND_OF.get(column, kind) != kind:
                    raise InvalidEvent(_said(groups, column, id, f"which is {_IS[kind]}"))
        for id in missing:
            if id in condemned and writer is not None:  # stored again, before its last copy goes
                data = blobs.get(id)
                _ = writer.put_encoded_tree(data) if condemned[id][1] == TREE else writer.put(data)
            elif id not in condemned and not _is_known_of(blobs, id):
                raise InvalidEvent(_said(groups, columns[id][0], id, "which is not in this store"))
        if writer is not None:
            writer.flush()
        yield


def _is_known_of(blobs: BlobStore, id: bytes) -> bool:
    if ERASED in blobs.withheld.get(id, ()) or blobs.erased(id) is not None:
        return True
    return blobs.elsewhere(id) is not None


def _said(groups: "list[list[bytes]]", column: str, id: bytes, why: str) -> str:
    text = to_text(id)
    named = (n for n, line in enumerate(chain.from_iterable(groups), 1) if text.encode() in line)
    return (
        f"event {next(named)} of the append: column {column} names {text}, {why}. Store it first "
        "(`Turn.file` and `Turn.snapshot` do), or leave the column out. Nothing was written."
    )
