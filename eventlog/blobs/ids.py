"""Ids of blobs and trees: 32 bytes inside the store, `blake3:<64 hex>` wherever people read them.

A tree's id is made in another mode of the hash than a blob's, so that no file can have the id of a
tree. Pure functions; on the hook path.
"""

from blake3 import blake3

from eventlog.base.errors import InvalidEvent
from eventlog.blobs.pack import TREE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ID_SIZE = 32
EMPTY_BLOB = bytes.fromhex("af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262")
TEXT_PREFIX = "blake3:"
_HEX = frozenset("0123456789abcdef")

_TREE_CONTEXT = "locus 2026 tree v1"


def blob_id(data: "bytes | memoryview") -> bytes:
    return blake3(data).digest()


def tree_id(encoding: bytes) -> bytes:
    return blake3(encoding, derive_key_context=_TREE_CONTEXT).digest()


def hasher_of(kind: int) -> "blake3":
    """What makes the id of a BLOB or TREE (pack.py) piece by piece."""
    return blake3(derive_key_context=_TREE_CONTEXT) if kind == TREE else blake3()


def to_text(id: bytes) -> str:
    """`blake3:<64 hex>`: the prefix names the algorithm, so that other hashes stay what they are."""
    return TEXT_PREFIX + id.hex()


def from_text(text: str) -> bytes:
    """The id of its full text form.

    Raises: InvalidEvent when the text is not one (use `BlobStore.resolve` for what people type).
    """
    digits = text[len(TEXT_PREFIX) :]
    if text.startswith(TEXT_PREFIX) and len(digits) == 64 and _HEX.issuperset(digits):
        return bytes.fromhex(digits)
    raise InvalidEvent(f"{text!r} is not a hash of the form blake3:<64 hex digits, lower case>")


def from_texts(texts: "Iterable[object]") -> "Iterator[bytes]":
    """The ids that are named; events of other programs may name hashes of another kind."""
    for text in texts:
        try:
            yield from_text(str(text))
        except InvalidEvent:
            continue
