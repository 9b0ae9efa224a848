"""The numbered list of live segments, which is one small JSON file.

`encode` and `decode` are pure. `read_current` may run at any time; `commit` only under the maintain
lock. A manifest is published under its number and never changes (I16). The highest number must
verify: going back to the one before it would silently travel back in time, so a bad one is Corruption.

File: one line of compact JSON in the order of `Manifest`'s fields, then `digest`, then a newline. The
digest is BLAKE3-256 over the same line without the digest member. A file that is not byte for byte what
`encode` makes of its content is refused, so every flipped bit shows (I11).
"""

import json
import os
from dataclasses import dataclass, replace
from typing import Any

from blake3 import blake3

from eventlog.base.errors import Corruption, Refused, Unsupported
from eventlog.base.fs import publish, read_file
from eventlog.base.layout import MANIFEST_DIR, TMP_DIR, StoreFiles, parse_manifest, parse_segment

FORMAT = 1
REQUIRED_KNOWN: frozenset[str] = frozenset()

# 200 bytes for each segment; a log of a million segments is beyond anything this engine is for.
SIZE_BYTES_MAX = 256 << 20

# So many of the newest stay, whether or not anybody reads them.
MANIFESTS_KEPT = 16

# Manifests are only made by the holder of the maintain lock, which removes what a crash left of them.
TMP_PREFIX = "seal-"

_DIGEST_MEMBER = b',"digest":"%b"}\n'
_DIGEST_MEMBER_SIZE = len(_DIGEST_MEMBER % (b"0" * 64))


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """One live segment: the visible events of positions [base, end)."""

    name: str
    base: int
    end: int
    rows: int
    bytes: int
    blake3: str  # hex of the whole file's digest
    first_at: "int | None"  # smallest and largest occurred_at, µs; None when no event has one
    last_at: "int | None"
    dropped: int  # events whose id an earlier event has


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Positions [base, end) that rot destroyed before they were sealed, and the journal they were in."""

    base: int
    end: int
    journal: int


@dataclass(frozen=True, slots=True)
class Superseded:
    """A segment that compaction replaced: it holds what those that are listed for its range hold.

    The file stays for readers of older manifests and goes when there are none; the name stays for some
    manifests longer, so that what was derived from the segment is known to fit (docs/maintenance.md §2).
    """

    name: str
    since: int  # the first manifest that no longer lists it


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state of the sealed part of the log. Number 0 stands for "nothing was ever sealed"."""

    store_id: str
    number: int = 0
    parent: "str | None" = None  # digest of the manifest before
    next_position: int = 0
    next_journal: int = 1
    segments: tuple[SegmentEntry, ...] = ()
    damaged: tuple[DamagedRange, ...] = ()
    superseded: tuple[Superseded, ...] = ()


def encode(manifest: Manifest) -> bytes:
    """The file of a manifest."""
    head: dict[str, Any] = {"format": FORMAT, "required": [], **_members(manifest)}
    for name in ("segments", "damaged", "superseded"):
        head[name] = [_members(item) for item in head[name]]
    body = json.dumps(head, separators=(",", ":")).encode("ascii")
    digest = blake3(body).hexdigest().encode("ascii")
    return body[:-1] + _DIGEST_MEMBER % digest


def digest_of(manifest: Manifest) -> str:
    """The digest its successor names as parent."""
    return encode(manifest)[-67:-3].decode("ascii")


def decode(data: bytes, path: str) -> Manifest:
    """The manifest in a file's bytes. Raises: Corruption, Unsupported."""
    body = data[:-_DIGEST_MEMBER_SIZE] + b"}"
    expected = _DIGEST_MEMBER % blake3(body).hexdigest().encode("ascii")
    if data[-_DIGEST_MEMBER_SIZE:] != expected:
        raise Corruption(path, "the manifest's digest does not match its content")
    try:
        fields = json.loads(body)
        if not isinstance(fields, dict):
            raise ValueError("not a JSON object")
        _check_format(fields, path)
        manifest = _build(fields)
        if encode(manifest) != data:
            raise ValueError("not in the one spelling a manifest has")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Corruption(path, f"the manifest cannot be understood ({error})") from error
    return manifest


def numbers(files: StoreFiles) -> list[int]:
    """The numbers of all manifests there are, ascending."""
    names = files.fs.listdir(files.layout.directory(MANIFEST_DIR))
    return sorted(n for n in map(parse_manifest, names) if n is not None)


def read_current(files: StoreFiles) -> Manifest:
    """The newest manifest, or the one of number 0 when nothing was ever sealed.

    Raises: Corruption, Unsupported.
    """
    existing = numbers(files)
    if not existing:
        return Manifest(store_id=files.store_id.hex())
    return read_numbered(files, existing[-1])


def read_numbered(files: StoreFiles, number: int) -> Manifest:
    """The manifest of that number. Raises: Corruption, Unsupported, FileNotFoundError."""
    path = files.layout.manifest(number)
    try:
        data = read_file(files.fs, path, SIZE_BYTES_MAX)
    except ValueError as error:
        raise Corruption(path, str(error)) from error
    return check_identity(decode(data, path), path, files.store_id, number)


def check_identity(manifest: Manifest, path: str, store_id: bytes, number: int) -> Manifest:
    """The same manifest, when it has this number and is of this store. Raises: Corruption."""
    if manifest.number != number:
        raise Corruption(path, f"this is manifest {manifest.number}, not {number} as its name says")
    if manifest.store_id != store_id.hex():
        raise Corruption(path, f"this manifest belongs to another store ({manifest.store_id})")
    return manifest


def following(current: Manifest, **changes: Any) -> Manifest:
    """The manifest after `current`, with these changes."""
    parent = digest_of(current) if current.number else None
    return replace(current, number=current.number + 1, parent=parent, **changes)


def commit(files: StoreFiles, manifest: Manifest) -> None:
    """Make `manifest` the current one. The caller holds the maintain lock.

    Raises: Refused when another one of its number exists.
    """
    data = encode(manifest)
    path = files.layout.manifest(manifest.number)
    decode(data, path)  # what cannot be read back must not become the current manifest
    tmp = files.layout.tmp(f"{TMP_PREFIX}manifest-{manifest.number}-{os.getpid()}")
    try:
        publish(files.fs, tmp, path, data)
    except FileExistsError as error:
        raise Refused(
            f"{path} exists although this process holds the maintain lock: a second machine is using "
            "this store. Stop one of them; nothing was changed."
        ) from error


def remove_temporary(files: StoreFiles, prefix: str = TMP_PREFIX) -> None:
    """Remove what a crash left under `tmp/`. The caller holds the lock under which such names are made."""
    fs = files.fs
    for name in fs.listdir(files.layout.directory(TMP_DIR)):
        if name.startswith(prefix):
            fs.unlink(files.layout.tmp(name))


def _members(value: "Any") -> "dict[str, Any]":
    return {name: getattr(value, name) for name in value.__slots__}


def _check_format(fields: "dict[str, Any]", path: str) -> None:
    if fields.get("format") != FORMAT:
        raise Unsupported(
            f"{path}: manifest format {fields.get('format')!r} is unknown; this version of Locus reads "
            f"format {FORMAT}. Use a newer Locus."
        )
    required = fields.get("required")
    unknown = set(required) - REQUIRED_KNOWN if isinstance(required, list) else {required}
    if unknown:
        names = ", ".join(sorted(map(str, unknown)))
        raise Unsupported(f"{path}: reading this log needs {names}. Use a newer Locus.")


def _build(fields: "dict[str, Any]") -> Manifest:
    expected = ("format", "required", *Manifest.__dataclass_fields__)
    if tuple(fields) != expected:
        raise ValueError(f"its members are {', '.join(fields)}")
    segments = tuple(_entry(SegmentEntry, item) for item in fields["segments"])
    manifest = Manifest(
        store_id=_text(fields["store_id"]),
        number=_count(fields["number"], 1),
        parent=None if fields["parent"] is None else _hex64(fields["parent"]),
        next_position=_count(fields["next_position"]),
        next_journal=_count(fields["next_journal"], 1),
        segments=segments,
        damaged=tuple(_entry(DamagedRange, item) for item in fields["damaged"]),
        superseded=tuple(_entry(Superseded, item) for item in fields["superseded"]),
    )
    _check_ranges(manifest)
    if (manifest.parent is None) != (manifest.number == 1):
        raise ValueError("only manifest 1 has no parent")
    return manifest


def _entry(kind: "type[Any]", item: "Any") -> "Any":
    if not isinstance(item, dict) or tuple(item) != tuple(kind.__dataclass_fields__):
        raise ValueError(f"{kind.__name__} has unexpected members")
    for name, value in item.items():
        if name in ("name", "blake3"):
            _text(value)
        elif name in ("first_at", "last_at"):
            if value is not None and type(value) is not int:
                raise ValueError(f"{name} is not a time")
        else:
            _count(value)
    return kind(**item)


def _check_ranges(manifest: Manifest) -> None:
    """Check that segments tile [0, next_position) and that their names match their content (I13)."""
    position = 0
    for entry in manifest.segments:
        if parse_segment(entry.name) != (entry.base, entry.end, _hex64(entry.blake3)[:16]):
            raise ValueError(f"segment {entry.name} is not called what it holds")
        if entry.base != position or entry.end <= entry.base:
            raise ValueError(f"segment {entry.name} does not begin at position {position}")
        if entry.rows + entry.dropped > entry.end - entry.base:
            raise ValueError(f"segment {entry.name} holds more events than positions")
        position = entry.end
    if position != manifest.next_position:
        raise ValueError(f"segments end at position {position}, not {manifest.next_position}")
    listed = {entry.name for entry in manifest.segments}
    for item in manifest.superseded:
        parsed = parse_segment(item.name)
        if parsed is None or parsed[1] > position or item.name in listed or item.since > manifest.number:
            raise ValueError(f"{item.name} cannot be a superseded segment")


def _count(value: "Any", least: int = 0) -> int:
    if type(value) is not int or not least <= value < 2**63:
        raise ValueError(f"{value!r} is not a count")
    return value


def _text(value: "Any") -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value


def _hex64(value: "Any") -> str:
    if not isinstance(value, str) or len(value) != 64 or not set(value) <= set("0123456789abcdef"):
        raise ValueError(f"{value!r} is not a digest")
    return value
