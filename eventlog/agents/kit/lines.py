"""The lines of transcripts, one at a time: bounded, decompressed on the way, several files merged by time.

A *source* is what is read as one: a file, or a session's file with those of its subagents. It only reads.
One thread at a time.
"""

import heapq
import io
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import orjson
from blake3 import blake3

from eventlog.base.errors import EventLogError, NotFound

# No line of an agent comes near; longer ones are passed on in pieces of this size, not understood.
LINE_BYTES_MAX = 64 << 20
# A file that is one JSON document has to fit into memory.
DOCUMENT_BYTES_MAX = 64 << 20
# A value nested deeper than this is kept as the bytes that it is.
DEPTH_MAX = 150
BOM = b"\xef\xbb\xbf"
_CHUNK_BYTES = 1 << 20
_HEAD_LINES = 20
_HEADS_BYTES_MAX = 16 << 20
_ZSTD_SUFFIX = ".zst"
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd, without .zst in its name",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\3\4": "zip",
}


@dataclass(slots=True)
class Line:
    """A line of a source.

    `record` is the JSON object that it is, None when it is none: then `data` says what it is instead. `part`
    is the file it comes from (index into the source's files), `number` its number there from 1, `offset`
    where it begins. `is_imported` says that an import before has read it. Of a line above LINE_BYTES_MAX each
    `piece` comes by itself, numbered from 0; of any other it is None.
    """

    part: int
    number: int
    offset: int
    data: bytes
    record: "dict[str, Any] | None"
    is_imported: bool
    piece: int | None = None


class Doubles:
    """The lines that are in a source twice, as one that is copied together from parts may have them.

    Such a line names itself (`uuid`, or `id` and a time); any other may be repeated. A byte of difference
    makes another line.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def has(self, line: Line) -> bool:
        """Whether `line` is the double of one that this was asked about before."""
        record = line.record
        if record is None or not ("uuid" in record or ("id" in record and "timestamp" in record)):
            return False
        count = len(self._seen)
        self._seen.add(hash((line.part, line.data)))
        return len(self._seen) == count


class ImportOffset:
    """How far a file was imported: its first `size` bytes (decompressed) of this BLAKE3 `digest`, its
    `lines`."""

    __slots__ = ("_digest", "hasher", "lines", "malformed", "size")

    def __init__(self, size: int = 0, digest: str = "", lines: int = 0, malformed: int = 0) -> None:
        self.size = size
        self.lines = lines
        self.malformed = malformed
        self.hasher: "blake3 | None" = None
        self._digest = digest

    @property
    def digest(self) -> str:
        return self._digest if self.hasher is None else self.hasher.hexdigest()


class FileSource:
    """The files of one session. `parts[0]` is the session's own; `marks` come to hold how far each was read.

    `root` is the directory that its paths are relative to, where that is known; a source `is_foreign` when it
    is recorded for another repository than the store's, `repo` if anybody knows. One that `is_copy` is the
    beginning of a transcript that goes on elsewhere, without its times.
    """

    is_copy = False

    def __init__(self, agent: str, parts: Sequence[str], *, root: str | None = None) -> None:
        self.agent = agent
        self.root = root
        self.is_foreign = False
        self.repo: str | None = None
        self.path = parts[0]
        self.parts = tuple(parts)
        self.marks: list[ImportOffset] = []

    def stamp(self) -> "list[list[int]]":
        """What changes whenever a file does; cheap. Raises: OSError."""
        return [[status.st_ino, status.st_size, status.st_mtime_ns] for status in map(os.stat, self.parts)]

    def touched_s(self) -> float:
        """When it was changed last, in seconds since 1970. Raises: OSError."""
        return os.stat(self.path).st_mtime

    def head(self) -> "list[dict[str, Any]]":
        """The JSON objects with which it begins. Raises: as `opened`."""
        return head_of(self.path)

    def lines(self, offsets: "Mapping[str, ImportOffset]") -> Iterator[Line]:
        """All lines, in order; those before their file's offset, by name, are marked as imported.

        Raises: NotFound when a file is gone, EventLogError when it cannot be read.
        """
        self.marks = [ImportOffset() for _ in self.parts]
        reading = [
            self._lines_of(part, offsets.get(os.path.basename(path))) for part, path in enumerate(self.parts)
        ]
        if len(reading) == 1:
            yield from reading[0]
        else:
            keyed = [_timed(part, lines) for part, lines in enumerate(reading)]
            for _, _, _, line in heapq.merge(*keyed):
                yield line

    def _lines_of(self, part: int, imported: "ImportOffset | None") -> Iterator[Line]:
        path, mark = self.parts[part], self.marks[part]
        imported_size = 0
        if imported is not None and imported.size:
            with opened(path) as file:
                if _digest_of_first(file, imported.size) == imported.digest:
                    imported_size = imported.size
        mark.hasher = blake3()
        parsed = _heads.take(path)
        with opened(path) as file:
            offset = 0
            for data, piece in _split(file, path):
                begins = offset == 0 and data.removeprefix(BOM).strip() in (b"{", b"[")
                if begins and (document := read_document(path)):
                    yield from self._document(part, document, imported_size)
                    return
                known = offset < imported_size
                record = None
                if piece is None:
                    record = parsed.pop(data) if parsed and data in parsed else parse(data)
                is_odd = record is None and bool(data.strip())
                if record is not None or is_odd:
                    yield Line(part, mark.lines + 1, offset, data, record, known, piece)
                offset += len(data)
                ends = data.endswith(b"\n")
                if record is None and not ends and len(data) < LINE_BYTES_MAX:
                    return  # half a line: it is read again when it is whole
                mark.hasher.update(data)
                mark.size = offset
                mark.lines += ends or piece is None
                mark.malformed += is_odd and piece in (None, 0)

    def _document(
        self, part: int, document: tuple[bytes, "dict[str, Any]"], imported_size: int
    ) -> Iterator[Line]:
        """A file that is one JSON object on many lines, as one line."""
        data, record = document
        mark = self.marks[part]
        assert mark.hasher is not None
        mark.hasher.update(data)
        mark.size, mark.lines = len(data), 1
        yield Line(part, 1, 0, data, record, imported_size == len(data))


def opened(path: str) -> IO[bytes]:
    """The bytes of a plain file, decompressed when its name says so. Raises: NotFound, EventLogError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise NotFound(f"{path}: there is no such file") from None
    except OSError as error:
        raise EventLogError(f"{path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise EventLogError(f"{path} is no file that could be read as a transcript")
    file = os.fdopen(fd, "rb", buffering=0)
    if not path.endswith(_ZSTD_SUFFIX):
        return file
    import pyarrow as pa

    return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd"))


def parse(data: bytes) -> "dict[str, Any] | None":
    """The JSON object that a line is; None when it is none."""
    try:
        record = orjson.loads(data)
    except ValueError:
        record = _parse_odd(data)
    if not isinstance(record, dict) or _is_deep(data, record):
        return None
    return record


def _is_deep(data: bytes, record: "dict[str, Any]") -> bool:
    """Whether a line is nested deeper than anything that an agent writes, and than can be looked through."""
    if data.count(b"}") + data.count(b"]") <= DEPTH_MAX:
        return False
    level: list[Any] = [record]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def _parse_odd(data: bytes) -> Any:
    """What orjson refuses and others write: a byte-order mark, lone surrogates, NaN, large integers."""
    data = data.removeprefix(BOM)
    if not data.lstrip().startswith(b"{") or data[1:2] == b"\0":  # the latter would be taken for UTF-16
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def head_of(path: str) -> "list[dict[str, Any]]":
    """The JSON objects with which a file begins: its whole lines in the first part, or the one it is.

    They are not to be changed: those of lines are kept for the next question, and until the lines are read.
    Raises: as `opened`, and EventLogError when nothing in it begins as a JSON object does.
    """
    with opened(path) as file:
        stamp = _stamp_of(file)
        if (known := _heads.get(path, stamp)) is not None:
            return known
        head = _read_line(file, path).removeprefix(BOM)
    lines = head.split(b"\n", _HEAD_LINES)
    by_line = {line: record for line in lines[:_HEAD_LINES] if line.strip() and (record := parse(line))}
    records = [by_line[line] for line in lines[:_HEAD_LINES] if line in by_line]
    if records:
        _heads.put(path, stamp, records, {line + b"\n": record for line, record in by_line.items()})
    if not records and head.lstrip()[:1] == b"{":
        document = read_document(path)
        records = [] if document is None else [document[1]]
        if document is None and lines[0].strip() == b"{" and os.stat(path).st_size > DOCUMENT_BYTES_MAX:
            raise EventLogError(f"{path} is one JSON document above {DOCUMENT_BYTES_MAX >> 20} MiB")
    if not records and head.strip() and (head.lstrip()[:1] != b"{" or head[1:2] == b"\0"):
        raise EventLogError(f"{path} holds no lines of JSON{_what(head)}, so it is no transcript")
    return records


def _stamp_of(file: IO[bytes]) -> "tuple[int, ...] | None":
    """What changes whenever a file does; None where only its decompressed bytes can be read."""
    if not isinstance(file, io.FileIO):
        return None
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class _Heads:
    """The heads of files that were parsed and whose lines were not read since; the latest of them.

    A source's head is asked for when it is searched, sorted and checked, and its lines come last.
    """

    def __init__(self) -> None:
        self._heads: dict[str, tuple[object, list[dict[str, Any]], dict[bytes, dict[str, Any]]]] = {}
        self._bytes = 0

    def get(self, path: str, stamp: object) -> "list[dict[str, Any]] | None":
        """The objects of an unchanged file."""
        head = self._heads.get(path)
        return head[1] if head is not None and stamp is not None and head[0] == stamp else None

    def put(
        self,
        path: str,
        stamp: object,
        records: "list[dict[str, Any]]",
        by_line: "dict[bytes, dict[str, Any]]",
    ) -> None:
        self.take(path)
        self._heads[path] = stamp, records, by_line
        self._bytes += sum(map(len, by_line))
        while self._bytes > _HEADS_BYTES_MAX:
            self.take(next(iter(self._heads)))

    def take(self, path: str) -> "dict[bytes, dict[str, Any]]":
        """The parsed lines of a file, by their bytes, to be used once."""
        _, _, by_line = self._heads.pop(path, (None, None, {}))
        self._bytes -= sum(map(len, by_line))
        return by_line


_heads = _Heads()


def _what(head: bytes) -> str:
    """What else a file may be, to say so."""
    for beginning, form in _COMPRESSED.items():
        if head.startswith(beginning):
            return f" (it is compressed with {form}; decompress it first)"
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or head[1:2] == b"\0":
        return " in UTF-8 (it looks like UTF-16; `iconv -f UTF-16 -t UTF-8` makes it readable)"
    return " but something binary" if b"\0" in head else ""


def names_in(head: "list[dict[str, Any]]") -> list[str]:
    """Short texts with which a file begins: one of them is the id of its session."""
    names: list[str] = []
    for record in head:
        payload = record.get("payload")
        values = [*record.values(), *(payload.values() if isinstance(payload, dict) else ())]
        names += [value for value in values if isinstance(value, str) and len(value) < 256]
    return names


def read_document(path: str) -> "tuple[bytes, dict[str, Any]] | None":
    """The bytes of a file that is one JSON object, and that; None when it is none. Raises: as `opened`."""
    with opened(path) as file:
        pieces, size = [], 0
        while piece := _read(file, path):
            size += len(piece)
            if size > DOCUMENT_BYTES_MAX:
                return None
            pieces.append(piece)
    data = b"".join(pieces)
    record = parse(data)
    return None if record is None else (data, record)


def _split(file: IO[bytes], path: str) -> Iterator[tuple[bytes, int | None]]:
    """The lines with their ends; of one that is too long the pieces, each with its number from 0."""
    rest: list[bytes] = []
    rest_size = 0
    piece: int | None = None
    while chunk := _read(file, path):
        for line in io.BytesIO(chunk).readlines():
            rest.append(line)
            rest_size += len(line)
            if line.endswith(b"\n"):
                yield (rest[0] if len(rest) == 1 else b"".join(rest)), piece
                rest, rest_size, piece = [], 0, None
        if rest_size >= LINE_BYTES_MAX:
            piece = piece or 0
            yield b"".join(rest), piece
            rest, rest_size, piece = [], 0, piece + 1
    if rest:
        yield b"".join(rest), piece


def _read(file: IO[bytes], path: str) -> bytes:
    try:
        return file.read(_CHUNK_BYTES)
    except OSError as error:
        raise EventLogError(f"{path} cannot be read to its end: {error}") from error


def _read_line(file: IO[bytes], path: str) -> bytes:
    """The first part of a file, up to the end of its first line if no line may be longer than that."""
    pieces, size = [], 0
    while piece := _read(file, path):
        pieces.append(piece)
        size += len(piece)
        if (
            b"\n" in piece
            or size > LINE_BYTES_MAX
            or not pieces[0].removeprefix(BOM).lstrip().startswith(b"{")
        ):
            break
    return b"".join(pieces)


def _digest_of_first(file: IO[bytes], size: int) -> str:
    digest = blake3()
    while size > 0:
        piece = file.read(min(size, _CHUNK_BYTES))
        if not piece:
            return ""
        digest.update(piece)
        size -= len(piece)
    return digest.hexdigest()


def _timed(part: int, lines: Iterator[Line]) -> "Iterator[tuple[str, int, int, Line]]":
    """Lines with what they are merged by: the latest time so far (clocks run backwards), file and number."""
    latest = ""
    for line in lines:
        time = line.record.get("timestamp") if line.record is not None else None
        if isinstance(time, str) and time > latest:
            latest = time
        yield latest, part, line.number, line
