"""Blame without folding once more: `index/blame-<hash>`, derived (docs/blame.md, What is kept).

A file holds the origins of the lines of one path, and what they were made from: the code, how often contents
were collected, the versions of the file, and the log up to its last event. While the log is the same they are
the answer. Where only other events came, or versions that follow from the last one, they are gone on from;
with an undo, a deletion or a version that came in between, or other code, all versions are folded again.
Nothing is kept where a content or a plan could not be read, since that may change without an event.

    the file: the BLAKE3 digest of the rest as 64 hex digits, then JSON; erasure removes it with all of
    `index/`
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
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
from eventlog.undo.blame import (
    BlamedLine,
    BlameFold,
    BlameStore,
    Content,
    FileStep,
    LineOrigin,
    lines_of,
    steps_of,
)  # fmt: skip
from eventlog.worktree.statcache import read_generation

# Raised by hand when the same log gives other origins, or the file another form.
FORMAT = 3

_FILES_KEPT = 64
_LINES_MAX = 200_000
_DIGEST_DIGITS = 64


@dataclass(frozen=True, slots=True)
class _CachedOrigins:
    """The file: the origins of the lines of a content, by numbers of versions, and what they were made from.

    `steps` says how many steps of the file were folded, `digest` which.
    """

    base: list[Any]
    log: list[Any]
    steps: int
    digest: str
    hash: str
    versions: list[FileVersion]
    origins: list[tuple[str, int, int]]

    def goes_on_with(self, steps: Sequence[FileStep]) -> bool:
        """Whether these steps are those that were folded, and some that follow from the last content."""
        return self.digest == _digest(steps[: self.steps]) and all(s.goes_on for s in steps[self.steps :])

    def content(self, store: BlameStore, now: bytes | None, steps: Sequence[FileStep] = ()) -> Content | None:
        """The content with its origins; None where it cannot be read.

        Args: steps: where titles of turns, which may be others by now, are taken from.
        """
        fresh = {step.version.event_id: step.version for step in steps if step.version is not None}
        versions = [None, *(fresh.get(version.event_id, version) for version in self.versions)]
        try:
            is_now = now is not None and to_text(blob_id(now)) == self.hash
            text = now if is_now and now is not None else store.blobs.get(from_text(self.hash))
            origins = tuple(LineOrigin(kind, versions[index], line) for kind, index, line in self.origins)
        except (EventLogError, IndexError):
            return None
        lines = tuple(BytesIO(text).readlines())
        return Content(self.hash, lines, origins) if len(lines) == len(origins) else None


def kept_blame(
    store: BlameStore,
    path: str,
    now: bytes | None,
    *,
    ignore_spaces: bool = False,
    until: int | None = None,
) -> list[BlamedLine]:
    """What `blame` gives, from the origins of the last time as far as these still hold."""
    which = [path, ignore_spaces, until]
    name = store.layout.blame(blake3(jsontext.encode(which)).hexdigest(length=16))
    key = _key(store, which)
    cached = None if key is None else _read(store, name, key)
    fold = BlameFold(store, ignore_spaces)
    if cached is not None and key is not None and cached.log == key[1]:
        fold.content = cached.content(store, now)
        if fold.content is not None:
            return lines_of(fold, path, now)
    steps = steps_of(store, path, until, fold)
    if cached is not None and cached.goes_on_with(steps):
        fold.content = cached.content(store, now, steps)
    folded = 0 if cached is None or fold.content is None else cached.steps
    for step in steps[folded:]:
        fold.take(step)
    if key is not None and fold.is_complete and fold.content is not None:
        _write(store, name, key, which, fold.content, steps)
    return lines_of(fold, path, now)


def _key(store: BlameStore, which: list[Any]) -> tuple[list[Any], list[Any]] | None:
    """What the origins are made from but for the versions, and the log; None where a part of it is lost."""
    with store.view() as view:
        if view.damaged:
            return None
        sealed = [view.manifest.number, view.manifest.parent]
        tail = [view.next_position, view.journals, view.size_of_last]
        store_id = view.store_id.hex()
    collected = read_generation(store.fs, store.layout)
    # What restores did to the directory that holds the store counts.
    directory = os.path.realpath(os.path.dirname(store.layout.root))
    base = [FORMAT, code8(), store_id, directory, collected, which]
    return _as_read(base), _as_read([*sealed, *tail])


def _as_read(values: list[Any]) -> list[Any]:
    """Values as they come back from a file."""
    read: list[Any] = jsontext.decode(jsontext.encode(values))
    return read


def _digest(steps: Sequence[FileStep]) -> str:
    return blake3(jsontext.encode([step.facts for step in steps])).hexdigest()


def _read(store: BlameStore, name: str, key: tuple[list[Any], list[Any]]) -> _CachedOrigins | None:
    """What was kept, of whatever log; None without it, or where it was made otherwise."""
    try:
        data = read_file(store.fs, name)
        body = data[_DIGEST_DIGITS:]
        if blake3(body).hexdigest().encode("ascii") != data[:_DIGEST_DIGITS]:
            return None
        fields = jsontext.decode(body)
        if fields["base"] != key[0]:
            return None
        versions = [FileVersion(*version) for version in fields.pop("versions")]
        origins = [(kind, index, line) for kind, index, line in fields.pop("origins")]
        return _CachedOrigins(**fields, versions=versions, origins=origins)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(
    store: BlameStore,
    name: str,
    key: tuple[list[Any], list[Any]],
    which: list[Any],
    content: Content,
    steps: Sequence[FileStep],
) -> None:
    """Keep the origins of a content. If that fails, the next blame is only slower."""
    if len(content.lines) > _LINES_MAX:
        return
    body = _body(key, content, steps)
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


def _body(key: tuple[list[Any], list[Any]], content: Content, steps: Sequence[FileStep]) -> bytes:
    """The fields of `_CachedOrigins`, as JSON."""
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
        "base": key[0],
        "log": key[1],
        "steps": len(steps),
        "digest": _digest(steps),
        "hash": content.hash,
        "versions": [astuple(version) for version in versions],
        "origins": origins,
    }
    return jsontext.encode(fields)


def _oldest(store: BlameStore) -> Iterator[str]:
    """The files beyond those that are kept."""
    names = [name for name in store.fs.listdir(store.layout.directory(INDEX_DIR)) if is_blame(name)]
    if len(names) > _FILES_KEPT:
        paths = sorted(map(store.layout.index, names), key=lambda path: store.fs.stat(path).st_mtime_ns)
        yield from paths[:-_FILES_KEPT]
