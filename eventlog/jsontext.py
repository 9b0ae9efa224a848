"""JSON text in one spelling, whichever encoder is at hand.

`encode` is the standard library's spelling: compact, UTF-8, keys in the order given. `encode_fast`
is orjson where both provably agree, and `encode` where they do not; a test holds the two equal.
The hook path uses `encode` only and never imports orjson (25 ms when cold).

Values that JSON cannot hold are kept as nearly as it can: a lone surrogate becomes U+FFFD, a number
that is not finite becomes null (unknown, P7), bytes and other objects are refused with TypeError.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def encode(value: "Any") -> bytes:
    """JSON text of `value` by the standard library."""
    import json

    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        if isinstance(value, (dict, list, tuple)):
            text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        else:
            text = "null"
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # utf-16 joins surrogate pairs that belong together and marks the lone ones.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")


def encode_fast(value: "Any") -> bytes:
    """The same bytes as `encode`, faster."""
    data = encode_without_floats(value)
    return encode(value) if _has_float(value) else data


def encode_without_floats(value: "Any") -> bytes:
    """The same bytes as `encode` for a value that holds no float, faster still."""
    if not _orjson:
        import orjson

        _orjson.append((orjson.dumps, orjson.OPT_PASSTHROUGH_DATACLASS))
    dumps, option = _orjson[0]
    try:
        return dumps(value, None, option)
    except TypeError:  # lone surrogates, integers beyond 64 bits, keys that are not text
        return encode(value)


def decode(data: "bytes | str") -> "Any":
    """The value of JSON text; ValueError when it is not JSON."""
    import json

    return json.loads(data)


_orjson: "list[tuple[Callable[[Any, None, int], bytes], int]]" = []  # filled at its first use
_EXACT = frozenset((str, int, bool, type(None)))  # what both encoders spell alike


def _has_float(value: "Any") -> bool:
    """Whether a float is in there: the encoders spell some differently (1e-05, 0.00001).

    `value` is what an encoder took, so it is not nested too deeply.
    """
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return isinstance(value, float)
    if _EXACT.issuperset(map(type, value)):
        return False
    return any(type(item) not in _EXACT and _has_float(item) for item in value)


def _finite(value: "Any") -> "Any":
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
