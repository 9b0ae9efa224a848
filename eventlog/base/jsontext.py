"""JSON text in one spelling, whichever encoder is at hand.

`encode` is the standard library's spelling: compact, UTF-8, keys in the order given. `encode_fast`
is orjson where both provably agree, and `encode` where they do not; a test holds the two equal.
The hook path uses `encode` only and never imports orjson (25 ms when cold), nor `json`, whose import
costs 10 ms for regular expressions that its C half does without: `encode` and `decode` call that half
(`_json`) as `json` itself does, and `json` where it is missing or reports an error.

Values that JSON cannot hold are kept as nearly as it can: a lone surrogate becomes U+FFFD, a number
that is not finite becomes null (unknown, P7), bytes and other objects are refused with TypeError.
"""

try:
    import _json

    _json.make_scanner, _json.make_encoder, _json.encode_basestring  # noqa: B018
except (ImportError, AttributeError):  # another Python
    _json = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def encode(value: "Any") -> bytes:
    """JSON text of `value` by the standard library."""
    try:
        text = _dumps(value)
    except ValueError:
        if isinstance(value, (dict, list, tuple)):
            text = _dumps(_finite(value))
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
    if _json is not None:
        try:
            text = data if isinstance(data, str) else _text_of(data)
            value, end = _json.make_scanner(_Reading)(text, 0)  # type: ignore[arg-type]
            if end == len(text):
                return value
        except (ValueError, StopIteration, SystemError):
            pass  # not JSON (only `json` reports what is wrong), or a spelling that only `json` reads
    import json

    return json.loads(data)


def object_of(payload: object) -> "dict[str, Any]":
    """The payload of an event as an object: decoded where it is text, empty where it is no object.

    ValueError when it is text and not JSON.
    """
    value = decode(payload) if isinstance(payload, (str, bytes)) else payload
    return value if isinstance(value, dict) else {}


def object_if_any(payload: object) -> "dict[str, Any]":
    """`object_of`, empty also where a text is not JSON."""
    try:
        return object_of(payload)
    except (ValueError, RecursionError):
        return {}


class _Reading:
    """How `_json` reads: as `json.loads` does without arguments."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int
    parse_constant = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}.__getitem__


def _text_of(data: bytes) -> str:
    """The text without white space around it; ValueError when it is not UTF-8."""
    return data.decode("utf-8").strip(" \t\n\r")


def _dumps(value: "Any") -> str:
    if _json is None:
        import json

        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if isinstance(value, str):
        return str(_json.encode_basestring(value))
    # A new one each time: it notes the objects that it is inside, to detect circles.
    encoder = _json.make_encoder({}, _not_json, _json.encode_basestring, None, ":", ",", False, False, False)
    return "".join(encoder(value, 0))


def _not_json(value: object) -> None:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


_orjson: "list[tuple[Callable[[Any, None, int], bytes], int]]" = []  # filled at its first use
_EXACT = frozenset((str, int, bool, type(None)))  # what both encoders spell alike


def _has_float(value: "Any") -> bool:
    """Whether the value holds a float: the encoders spell some differently (1e-05, 0.00001).

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
