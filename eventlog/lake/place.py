"""A place that machines share: objects in a bucket, or files in a folder, by their name (docs/lake.md §1).

The client is `obstore` (the Rust crate object_store), which repeats requests whose answer was lost. Any
thread; several processes and machines may have one place open.
"""

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from mmap import mmap
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from eventlog.base.errors import EventLogError, NotFound, Refused, Unsupported
from eventlog.base.fs import REAL

# A request may bring some hundred megabytes over a slow line; by default it would end after half a minute.
_REQUEST_TIMEOUT = timedelta(minutes=10)

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

_PIECE = re.compile(r".*#[0-9]+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object: its name below the place, its size in bytes, and when it was made (seconds since 1970)."""

    name: str
    size: int
    made_at: float = 0.0


class Place:
    """The objects below a URI. Names have `/` between their parts and never begin with one."""

    def __init__(self, uri: str, client: Any) -> None:
        """Called by `open_place`. Args: client: an obstore store whose root is the place."""
        import obstore
        import obstore.exceptions

        self.uri = uri
        self._client = client
        self._obstore: Any = obstore

    def address(self, name: str) -> str:
        """The URI of an object, as engines read it."""
        return f"{self.uri}/{name}"

    def create(self, name: str, data: "bytes | mmap") -> bool:
        """Make an object that is not there yet; False when it is. It is there whole, or not at all.

        Where an answer was lost and the request was repeated, False may mean that this call made it: callers
        that need to know read what is there.
        """
        with _errors(f"{self.address(name)} cannot be created"):
            try:
                self._obstore.put(self._client, name, data, mode="create")
            except self._obstore.exceptions.AlreadyExistsError:
                return False
        return True

    def read(self, name: str) -> bytes:
        """Raises: NotFound."""
        with _errors(f"{self.address(name)} cannot be read"):
            return bytes(self._obstore.get(self._client, name).bytes())

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """`length` bytes from `start` on. Raises: NotFound."""
        with _errors(f"{self.address(name)} cannot be read"):
            return bytes(self._obstore.get_range(self._client, name, start=start, length=length))

    def read_end(self, name: str, length: int) -> bytes:
        """The last `length` bytes, or all of a shorter object. Raises: NotFound."""
        with _errors(f"{self.address(name)} cannot be read"):
            options = {"range": {"suffix": length}}
            return bytes(self._obstore.get(self._client, name, options=options).bytes())

    def open(self, name: str) -> "ObjectReader":
        """A binary file to read by ranges, as pyarrow takes it. Raises: NotFound."""
        with _errors(f"{self.address(name)} cannot be read"):
            size = int(self._obstore.head(self._client, name)["size"])
        return ObjectReader(self, name, size)

    def list(self, prefix: str, after: str = "") -> "list[StoredObject]":
        """The objects below `prefix` (whole parts of names), sorted by name; only those after `after`."""
        entries: list[StoredObject] = []
        with _errors(f"{self.address(prefix)} cannot be listed"):
            for batch in self._obstore.list(self._client, prefix, offset=after or None):
                entries += [_entry(listed) for listed in batch]
        return sorted((entry for entry in entries if entry.name > after), key=lambda entry: entry.name)

    def directories(self, prefix: str) -> "Sequence[str]":
        """The names of the parts directly below `prefix`, sorted."""
        with _errors(f"{self.address(prefix)} cannot be listed"):
            listed = self._obstore.list_with_delimiter(self._client, prefix)
        return sorted(str(path).rpartition("/")[2] for path in listed["common_prefixes"])

    def delete(self, name: str) -> None:
        """Delete an object; one that is not there is no error. Raises: Refused without the right to."""
        with _errors(f"{self.address(name)} cannot be deleted"):
            try:
                self._obstore.delete(self._client, name)
            except FileNotFoundError:
                pass

    def delete_pieces(self, prefix: str, is_gone: "Callable[[StoredObject], bool]" = lambda _: True) -> None:
        """Delete what writers that were killed left in a folder; storages of objects have no such pieces.

        The client writes `NAME#NUMBER` and links it to NAME. A writer that loses its piece fails.

        Args: is_gone: whether to delete the piece of an object of that name, which was begun at that time.
        """
        if not self.uri.startswith("file:"):
            return
        root = unquote(urlsplit(self.uri).path)
        with _errors(f"{self.address(prefix)} cannot be searched"):
            for path in _files_below(f"{root}/{prefix}"):
                with contextlib.suppress(FileNotFoundError):  # its writer was done
                    status = REAL.lstat(path)
                    name = path.removeprefix(f"{root}/").rpartition("#")[0]
                    is_piece = _PIECE.fullmatch(path) is not None
                    if is_piece and is_gone(StoredObject(name, status.st_size, status.st_mtime)):
                        REAL.unlink(path)


class ObjectReader(io.RawIOBase):
    """An object as a file: each read is one request of so many bytes."""

    def __init__(self, place: Place, name: str, size: int) -> None:
        super().__init__()
        self._read_range = place.read_range
        self._name = name
        self._size = size
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self._size}[whence]
        self._offset = max(0, start + offset)
        return self._offset

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._offset)
        count = left if size < 0 else min(size, left)
        data = self._read_range(self._name, self._offset, count) if count else b""
        self._offset += len(data)
        return data


def each(
    function: "Callable[[_Item], _Answer]", items: "Iterable[_Item]", at_once: int = 16
) -> "list[_Answer]":
    """What a function that asks a place gives for each of these, in their order; some are asked at a time."""
    with ThreadPoolExecutor(at_once, "locus-lake") as pool:
        return list(pool.map(function, items))


def near(ranges: "Iterable[tuple[int, int]]", gap: int, size_max: int) -> "Iterator[tuple[int, int]]":
    """Ranges [start, end) of an object, in order, with those less than `gap` apart as one of at most so many
    bytes: so each is one request."""
    start = end = 0
    for first, last in ranges:
        if end and (first - end >= gap or last - start > size_max):
            yield start, end
            end = 0
        if not end:
            start = first
        end = max(end, last)
    if end:
        yield start, end


def _entry(listed: Any) -> StoredObject:
    return StoredObject(str(listed["path"]), int(listed["size"]), listed["last_modified"].timestamp())


def _files_below(directory: str) -> "Iterator[str]":
    """The paths of all files, while writers make and remove some."""
    if os.path.isdir(directory):
        for name in REAL.listdir(directory):
            path = f"{directory}/{name}"
            if os.path.isdir(path):
                yield from _files_below(path)
            else:
                yield path


def open_place(uri: str) -> Place:
    """The place at `s3://BUCKET/PREFIX` or `file:///DIRECTORY`; the bucket or directory exists.

    The settings of S3 are those of its usual environment variables. Plain HTTP is for loopback alone.
    Raises: Refused for another URI; NotFound without the directory; Unsupported without the extra `lake`.
    """
    parts = urlsplit(uri)
    if parts.scheme not in ("s3", "file") or parts.query or parts.fragment:
        raise Refused(f"{uri} is no place to publish to. Name s3://BUCKET/PREFIX or file:///DIRECTORY.")
    try:
        from obstore.store import LocalStore, S3Store
    except ImportError as error:
        raise Unsupported(
            f"a lake needs the library obstore ({error}). Install it: pip install 'locus-eventlog[lake]'"
        ) from error
    if parts.scheme == "file":
        directory = unquote(parts.path)
        if parts.netloc not in ("", "localhost") or not os.path.isdir(directory):
            raise NotFound(f"{uri} is not a directory of this machine. Make it first, or mount it.")
        return Place(uri.rstrip("/"), LocalStore(prefix=directory))
    with _errors(f"{uri} cannot be opened"):
        client = S3Store(parts.netloc, prefix=parts.path.strip("/") or None, client_options=_client_options())
    return Place(uri.rstrip("/"), client)


def _client_options() -> Any:
    host = urlsplit(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")).hostname
    return {"allow_http": host in ("127.0.0.1", "::1", "localhost"), "timeout": _REQUEST_TIMEOUT}


@contextmanager
def _errors(what: str) -> "Iterator[None]":
    """Raise what the client raises as an error of ours, which says what could not be done."""
    try:
        yield
    except EventLogError:
        raise
    except FileNotFoundError as error:
        raise NotFound(f"{what}: it is not there") from error
    except Exception as error:  # obstore's errors have no other common class
        import obstore.exceptions as known

        if isinstance(error, known.PermissionDeniedError | known.UnauthenticatedError):
            raise Refused(
                f"{what}: the storage refuses it. Check the credentials and their rights."
            ) from error
        if isinstance(error, known.BaseError | OSError):
            reason = str(error).partition("\n")[0]
            raise EventLogError(f"{what}: {reason}. Try again when the storage answers.") from error
        raise
