"""The searchable words of an event, and its text that the index stores to show a hit.

Pure. Left out are raw input of hooks, which adapters turn into events of their own, the store's bookkeeping,
and texts that are no words: hashes, and data without spaces.
"""

from collections.abc import Iterable, Sequence

import orjson

from eventlog.base import jsontext
from eventlog.secrets.erased_rules import ERASED

# Raw input, and the store's own bookkeeping.
UNSEARCHED_TYPES = frozenset(
    ("hook", "cursor", "maintenance", "retention", "withheld", "erasure", "content", "llm_copy")
)

# Of a text; the rest is output that nobody reads to its end.
TEXT_SIZE_MAX = 1_000_000
# Of a text that is in the blob store, in bytes.
MOVED_SIZE_MAX = 64 << 10
# Of each event's text that is stored beside the index, to show hits without reading the log.
KEPT_SIZE_MAX = 4_000
# Larger files are data.
CONTENT_BYTES_MAX = 1 << 20

_DATA_SIZE_MIN = 512
_HASH_PREFIXES = ("blake3:", "sha256:")


def body_of(payload: "str | None", title: "str | None") -> str:
    """The texts of a payload, one after the other, without a text that equals the title."""
    return "" if not payload or payload == "{}" else _body(_decoded(payload), title)


def bodies_of(payloads: "Sequence[str | None]", titles: "Sequence[str | None]") -> "list[str]":
    """`body_of` for many events at once, which takes half the time."""
    try:
        values = orjson.loads(f"[{','.join(payload or '{}' for payload in payloads)}]")
    except ValueError:
        return list(map(body_of, payloads, titles))
    if len(values) != len(payloads):  # a payload that is no JSON by itself
        return list(map(body_of, payloads, titles))
    return [_body(value, title) if value else "" for value, title in zip(values, titles, strict=True)]


def _body(value: object, title: "str | None") -> str:
    texts = _texts(value)
    if len(texts) > 1:
        texts = list(dict.fromkeys(texts))
    if title is not None and title in texts:
        texts.remove(title)
    text = "\n".join(texts)
    if len(text) > TEXT_SIZE_MAX:
        text = text[:TEXT_SIZE_MAX]
    return text if text.isascii() else clean(text)


def clean(text: str) -> str:
    """The text as SQLite can take it: halves of surrogate pairs have no UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def text_of(content: bytes) -> "str | None":
    """A file's content as text, None where it is not text."""
    if len(content) > CONTENT_BYTES_MAX or b"\0" in content[:8_000]:
        return None
    text = content.decode("utf-8", "replace")
    if text.count("\ufffd") > len(text) // 100:
        return None
    return text.replace("\0", " ")


def _decoded(payload: str) -> object:
    try:
        return orjson.loads(payload)
    except ValueError:
        return jsontext.decode(payload)  # numbers or surrogates that orjson refuses


def _texts(value: object) -> "list[str]":
    """All texts in a value, without their keys. Not recursive: a payload may be nested deeply."""
    texts: list[str] = []
    waiting: list[object] = [value]
    while waiting:
        node = waiting.pop()
        if type(node) is dict:
            inside: Iterable[object] = node.values() if ERASED not in node else _without_mark(node)
        elif type(node) is list:
            inside = node
        else:
            inside = (node,)
        for item in inside:
            if type(item) is str:
                if len(item) < _DATA_SIZE_MIN:
                    if item and not item.startswith(_HASH_PREFIXES):
                        texts.append(item)
                elif " " in item or "\n" in item:
                    texts.append(item)
            elif type(item) is dict or type(item) is list:
                waiting.append(item)
    return texts


def _without_mark(payload: "dict[str, object]") -> "list[object]":
    """The values of a wholly erased payload, without the id of the erasure."""
    return [value for key, value in payload.items() if key != ERASED]
