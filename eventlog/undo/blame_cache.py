"""Blame without folding once more: `index/blame-<hash>`, derived (docs/blame.md, What is kept).

A file holds the origins of the lines of one path, and the key that they were made from: the log up to its
last event, how often contents were collected, and the code. Where any of these is another the file does not
count. Nothing is kept where a content or a plan could not be read, since that may change without an event.

    the file: the BLAKE3 digest of the rest as 64 hex digits, then JSON; erasure removes it with all of
    `index/`
"""

import os
from collections.abc import Iterator
from dataclasses import astuple
from io import BytesIO
from typing import Any

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import EventLogError
from eventlog.base.fs import read_file, replace
from eventlog.base.layout import INDEX_DIR, is_blame
from eventlog.base.locks import SEARCH, try_acquire
from eventlog.blobs.ids import blob_id, from_text, to_text
from eventlog.projections.index import code8
from eventlog.replay.history import FileVersion
from eventlog.undo.blame import BlamedLine, BlameFold, BlameStore, Content, LineOrigin, fold_of, lines_of
from eventlog.worktree.statcache import read_generation

# Raised by hand when the same log gives other origins, or the file another form.
FORMAT = 1

_FILES_KEPT = 64
_LINES_MAX = 200_000
_DIGEST_DIGITS = 64


def kept_blame(
    store: BlameStore,
    path: str,
    now: bytes | None,
    *,
    ignore_spaces: bool = False,
    until: int | None = None,
) -> list[BlamedLine]:
    """What `blame` gives, from the origins of the last time where nothing was recorded since."""
    which = [path, ignore_spaces, until]
    name = store.layout.blame(blake3(jsontext.encode(which)).hexdigest(length=16))
    key = _key(store, which)
    content = None if key is None else _read(store, name, key, now)
    if content is not None:
        fold = BlameFold(store, ignore_spaces)
        fold.content = content
        return lines_of(fold, path, now)
    fold = fold_of(store, path, ignore_spaces=ignore_spaces, until=until)
    if key is not None and fold.is_complete and fold.content is not None:
        _write(store, name, key, which, fold.content)
    return lines_of(fold, path, now)


def _key(store: BlameStore, which: list[Any]) -> list[Any] | None:
    """What the origins are made from; None where a part of the log is lost."""
    with store.view() as view:
        if view.damaged:
            return None
        sealed = [view.manifest.number, view.manifest.parent]
        tail = [view.next_position, view.journals, view.size_of_last]
        store_id = view.store_id.hex()
    collected = read_generation(store.fs, store.layout)
    # What restores did to the directory that the store stands in counts.
    directory = os.path.realpath(os.path.dirname(store.layout.root))
    return [FORMAT, code8(), store_id, directory, collected, which, *sealed, *tail]


def _read(store: BlameStore, name: str, key: list[Any], now: bytes | None) -> Content | None:
    """The content with its origins that was kept under this key; None without one."""
    try:
        data = read_file(store.fs, name)
        body = data[_DIGEST_DIGITS:]
        if blake3(body).hexdigest().encode("ascii") != data[:_DIGEST_DIGITS]:
            return None
        fields = jsontext.decode(body)
        if fields["key"] != jsontext.decode(jsontext.encode(key)):
            return None
        hash = fields["hash"]
        is_now = now is not None and to_text(blob_id(now)) == hash
        text = now if is_now and now is not None else store.blobs.get(from_text(hash))
        versions = [None, *(FileVersion(*version) for version in fields["versions"])]
        origins = tuple(LineOrigin(kind, versions[index], line) for kind, index, line in fields["origins"])
    except (OSError, ValueError, KeyError, TypeError, IndexError, EventLogError):
        return None
    lines = tuple(BytesIO(text).readlines())
    return Content(hash, lines, origins) if len(lines) == len(origins) else None


def _write(store: BlameStore, name: str, key: list[Any], which: list[Any], content: Content) -> None:
    """Keep the origins of a content. If that fails, the next blame is only slower."""
    if len(content.lines) > _LINES_MAX:
        return
    numbers: dict[str, int] = {}
    versions: list[FileVersion] = []
    origins = []
    for origin in content.origins:
        version = origin.version
        if version is not None and version.event_id not in numbers:
            versions.append(version)
            numbers[version.event_id] = len(versions)
        origins.append([origin.kind, 0 if version is None else numbers[version.event_id], origin.line])
    fields = {
        "key": key,
        "hash": content.hash,
        "versions": [astuple(version) for version in versions],
        "origins": origins,
    }
    body = jsontext.encode(fields)
    try:
        lock = try_acquire(store.fs, store.layout, SEARCH)
        if lock is None:
            return  # another process writes derived files
        with lock:
            # An erasure removes these files under the lock; what was read before it must not come back.
            if store.fs.exists(store.layout.erasing) or _key(store, which) != key:
                return
            tmp = store.layout.tmp(f"blame-{store.fs.random_bytes(8).hex()}")
            replace(store.fs, tmp, name, blake3(body).hexdigest().encode("ascii") + body, synced=False)
            for old in _oldest(store):
                store.fs.unlink(old)
    except (OSError, EventLogError):
        return  # such as a store that may only be read


def _oldest(store: BlameStore) -> Iterator[str]:
    """The files beyond those that are kept."""
    names = [name for name in store.fs.listdir(store.layout.directory(INDEX_DIR)) if is_blame(name)]
    if len(names) > _FILES_KEPT:
        paths = sorted(map(store.layout.index, names), key=lambda path: store.fs.stat(path).st_mtime_ns)
        yield from paths[:-_FILES_KEPT]
