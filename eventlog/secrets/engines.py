"""The engines that match many texts against a few expressions: Arrow's RE2, and Hyperscan where it is there.

RE2 comes with pyarrow and builds a new automaton at each call. Hyperscan, the extra `fast`, matches ten
times as fast but takes half a second to compile its database. So the database is kept for the user, and made
once a process has matched as many bytes as RE2 matches in that time. Both give the same answers.

A database is code: its author decides what the process does. So it is neither in a store, which may come
from somebody else, nor read where others may write: `$XDG_CACHE_HOME/locus` (`~/.cache/locus`), owned by
the user and writable by nobody else. It may be deleted. Any thread.
"""

import os
import stat
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from threading import Lock
from typing import Any

from blake3 import blake3

# RE2 matches so many bytes while Hyperscan compiles (24 ns a byte, 0.5 s).
WORTH_COMPILING_BYTES = 24 << 20

# Python's prefilter takes as long for so many bytes as importing Hyperscan and reading a database.
_WORTH_LOADING_BYTES = 256 << 10

_AT_ONCE_BYTES = 16 << 20
_DIGEST_BYTES = 32
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Matcher:
    """Says which texts match one of some expressions. Bytes are characters: they are taken for Latin-1."""

    def __init__(self, joined: Sequence[str], single: Sequence[str], environ: Mapping[str, str]) -> None:
        """Args: joined: the expressions, as few as RE2 can take; single: the same, as many as there are.

        Hyperscan finds the fixed text that an expression begins with, where it has one.
        """
        self._joined = joined
        self._single = single
        self._directory = directory_of(environ)
        self._lock = Lock()
        self._seen_bytes = 0
        self._is_tried = False
        self._database: Any = None

    def has_database(self, size: int) -> bool:
        """Whether Hyperscan's database is loaded, so that a match costs nothing but itself.

        One that is kept is loaded for texts of this size, if that pays.
        """
        if size >= _WORTH_LOADING_BYTES:
            with self._lock:
                self._find_database()
        return self._database is not None

    def matches(self, texts: Sequence[bytes]) -> list[bool]:
        """For each text, whether an expression matches in it."""
        with self._lock:  # a database has one scratch space
            self._seen_bytes += sum(map(len, texts))
            self._find_database()
            if self._database is not None:
                return by_hyperscan(self._database, texts)
        return list(by_re2(self._joined, texts))

    def _find_database(self) -> None:
        """Read the database before the first match, and make it when that pays."""
        is_worth = self._seen_bytes >= WORTH_COMPILING_BYTES
        if self._database is not None or (self._is_tried and not is_worth):
            return
        if not self._is_tried:
            self._is_tried = True
            self._database = load(self._directory, self._single)
        if self._database is None and is_worth:
            self._seen_bytes = -(1 << 62)  # once: it fails again where it failed
            self._database = compiled(self._single)
            save(self._directory, self._single, self._database)


def by_re2(expressions: Sequence[str], texts: Sequence[bytes]) -> Iterator[bool]:
    """For each text, whether an expression matches in it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in _parts(texts):
        offsets = array("q", accumulate(map(len, batch), initial=0))
        parts = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(batch))]
        column = pa.Array.from_buffers(pa.large_binary(), len(batch), parts)
        matches = [pc.match_substring_regex(column, expression).to_pylist() for expression in expressions]
        yield from map(any, zip(*matches, strict=True))


def by_hyperscan(database: Any, texts: Sequence[bytes]) -> list[bool]:
    """The same; one thread at a time for one database."""
    suspects: set[int] = set()

    def add(_id: int, _from: int, _to: int, _flags: int, number: int) -> None:
        suspects.add(number)

    scan = database.scan
    for number, text in enumerate(texts):
        scan(text, match_event_handler=add, context=number)
    return [number in suspects for number in range(len(texts))]


def compiled(expressions: Sequence[str]) -> Any:
    """Hyperscan's database; None where it is not installed, or cannot be made here."""
    hyperscan = _hyperscan()
    if hyperscan is None:
        return None
    flags = hyperscan.HS_FLAG_DOTALL | hyperscan.HS_FLAG_SINGLEMATCH
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    count = len(expressions)
    try:
        database.compile(
            expressions=[expression.encode("latin-1") for expression in expressions],
            ids=[0] * count,
            elements=count,
            flags=[flags] * count,
        )
    except hyperscan.error:
        return None
    return database


def _parts(texts: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Batches of texts in order, of bounded size, since they are copied."""
    begun = size = 0
    for i, text in enumerate(texts):
        size += len(text)
        if size >= _AT_ONCE_BYTES:
            yield texts[begun : i + 1]
            begun, size = i + 1, 0
    if begun < len(texts):
        yield texts[begun:]


def _hyperscan() -> Any:
    try:
        import hyperscan
    except ImportError:  # not installed, or its library does not fit this machine
        return None
    return hyperscan


# -- databases that are kept ---------------------------------------------------------------------


def directory_of(environ: Mapping[str, str]) -> "str | None":
    """Where databases are kept; None without a home."""
    home = environ.get("HOME")
    cache = environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else None)
    return f"{cache}/locus" if cache else None


def load(directory: "str | None", expressions: Sequence[str]) -> Any:
    """The database of these expressions, from an earlier process; None where there is none to be trusted."""
    if directory is None or not os.path.isdir(directory) or (hyperscan := _hyperscan()) is None:
        return None
    try:
        data = _read(directory, _name(hyperscan, expressions))
        database = hyperscan.loadb(data, hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
    except (OSError, ValueError, hyperscan.error):
        return None  # of another version, or of another machine with the same home
    return database


def save(directory: "str | None", expressions: Sequence[str], database: Any) -> None:
    """Keep a database for the next process. A failure costs only time."""
    if directory is None or database is None or (hyperscan := _hyperscan()) is None:
        return
    data = hyperscan.dumpb(database)
    path = os.path.join(directory, _name(hyperscan, expressions))
    tmp = f"{path}.{os.getpid()}"
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        fd = os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                file.write(blake3(data).digest() + data)
            os.rename(tmp, path)
        except BaseException:
            os.unlink(tmp)
            raise
    except OSError:
        return


def _name(hyperscan: Any, expressions: Sequence[str]) -> str:
    parts = (hyperscan.__version__, *os.uname()[3:], *expressions)
    return f"secrets-{blake3(chr(0).join(parts).encode()).hexdigest()[:32]}"


def _read(directory: str, name: str) -> bytes:
    """A kept file, whole. Raises: OSError, ValueError."""
    _check_owner(os.lstat(directory))
    fd = os.open(os.path.join(directory, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        _check_owner(os.fstat(fd))
        data = file.read()
    if blake3(data[_DIGEST_BYTES:]).digest() != data[:_DIGEST_BYTES]:
        raise ValueError("the file is damaged")
    return data[_DIGEST_BYTES:]


def _check_owner(status: os.stat_result) -> None:
    if status.st_uid != os.geteuid() or status.st_mode & _WRITABLE_BY_OTHERS or stat.S_ISLNK(status.st_mode):
        raise PermissionError("others may write it")
