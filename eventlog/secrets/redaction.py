"""Takes secrets out of events before they are written, and finds the contents that hold one (P5).

    redactor = redaction.of_store(fs, layout)
    redactor.redact(event)      the event as it may be written, `redacted` when something was taken out
    redactor.kinds_in(data)     the kinds of secrets in a content; () when it may leave the machine

A secret becomes `[REDACTED:kind:fingerprint]`. The fingerprint is keyed with 32 random bytes that never
leave the store. So equal secrets are recognisable in one store, and nobody can try guesses on an export.
`<private>…</private>` is taken out with everything between, to the end when it is not closed.

Redaction changes texts only: payload strings and keys, and the columns TEXT_COLUMNS. Ids, hashes, links,
numbers and the paths of file events stay, because replay needs them. Marks of earlier redactions stay.
Nothing here raises: a text that cannot be searched is taken out whole. One thread at a time. docs/secrets.md
is the protocol. On the hook path.
"""

import os

from blake3 import blake3

from eventlog.base import config, jsontext
from eventlog.base.fs import FileSystem, publish, read_file
from eventlog.base.layout import Layout
from eventlog.base.types import Event
from eventlog.secrets import erased_rules, prefilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from eventlog.secrets.rules import Span

WITHHELD = "withheld"  # the type of the event that withholds a content
PRIVATE = "private"
DENIED = "denied"
ERASED = erased_rules.ERASED
# Kinds of contents that may hold a secret or not: time was up, or a rule failed.
NOT_LOOKED_THROUGH, UNREADABLE = "not_looked_through", "unreadable"
IGNORED = "ignored"  # the kind of a content that is withheld because git ignores the file it is in

# Columns with free text. The others are ids, hashes, links, paths and numbers.
TEXT_COLUMNS = (
    "title",
    "tool",
    "operation",
    "status",
    "model",
    "error_type",
    "agent_version",
    "cwd",
    "branch",
)
_LOOKED_AT_COLUMNS = (*TEXT_COLUMNS, "path")

# Changes are identified by their paths; for events of other types `path` is a text.
_PATH_TYPES = frozenset(("file", "snapshot", "restore"))
_PATH_KEYS = frozenset(("path", "old_path", "paths"))

_FINGERPRINT_DIGITS = 8
_PASSES_MAX = 4
_NAMES_KEPT = 4096
_AT_ONCE = 64  # lines searched together
_HEX = b"0123456789abcdef"
_MARK = b"[REDACTED:"
_OPEN, _CLOSE = b"<private>", b"</private>"


class Redactor:
    """See the module's docstring."""

    def __init__(
        self,
        key: bytes = b"",
        *,
        allow: "Iterable[str]" = (),
        deny: "Iterable[str]" = (),
        enabled: bool = True,
        problem: "str | None" = None,
        key_location: "tuple[FileSystem, Layout] | None" = None,
        erased: "erased_rules.ErasedRules | None" = None,
    ) -> None:
        """`erased` are the rules of earlier erasures.

        `key_location` is where the key is stored when it is not given; it is read, or made, at the first
        secret.
        """
        self.enabled = enabled
        self.problem = problem
        self._key = key
        self._key_location = key_location
        self._allowed_kinds = frozenset(allow)
        self._allowed = frozenset(value.encode("utf-8", "surrogatepass") for value in allow)
        self._denied = [
            text.encode("utf-8", "surrogatepass") for text in deny if not config.is_expression(text)
        ]
        spelled = [text.decode("utf-8", "surrogatepass") for text in self._denied]
        self._denied_in_json = {*self._denied, *(jsontext.encode(text)[1:-1] for text in spelled)}
        self._erased = erased
        self._denies = bool(deny) or erased is not None
        expressions = [text[1:-1] for text in deny if config.is_expression(text)]
        self._expressions: "list[Any]" = []
        if expressions:
            import re

            self._expressions = [re.compile(text.encode("utf-8")) for text in expressions]
        self._names: "dict[str, bool]" = {}
        # Monotonic time after which a content of more than a MiB is not searched to its end.
        self.search_until: "float | None" = None
        # A faster prefilter for many journal lines: true for each in which the rules may find something,
        # without a miss; None when it does not pay. An import attaches one (`bulk_prefilter.attached_to`).
        self.bulk_prefilter: "Callable[[Sequence[bytes]], Sequence[bool] | None] | None" = None

    @property
    def has_rules_only(self) -> bool:
        """Whether it searches only with `rules.find`, and for nothing that a person denied."""
        return self.enabled and not self._denies

    # -- events --------------------------------------------------------------------------------

    def redact(self, event: Event) -> Event:
        """The event without secrets; the same object when it holds none."""
        if not self.enabled:
            return event
        try:
            payload = event.get("payload")
            data = texts_of(event, jsontext.encode(payload) if payload else b"")
        except Exception:
            return self._redacted(event)
        return self._redacted(event) if self._may_hold(data) else event

    def leaving(self, event: Event) -> Event:
        """An event of the log without the secrets in names of files, which stay only in the log.

        Its payload may be JSON text, as in the log. The same object when it holds none.
        """
        if not self.enabled or event.get("event_type") not in _PATH_TYPES:
            return event
        payload = event.get("payload")
        text = payload.encode() if isinstance(payload, str) else jsontext.encode(payload or {})
        if not self._may_hold(text + str(event.get("path")).encode("utf-8", "surrogatepass")):
            return event
        without_type: Event = {**event, "event_type": "", "payload": jsontext.decode(text.decode())}
        redacted = self._redacted(without_type)
        if redacted is without_type:
            return event
        new = redacted["payload"]
        new = jsontext.encode(new).decode() if isinstance(payload, str) else new
        return {**redacted, "event_type": event["event_type"], "payload": new}

    def redact_all(self, events: "Sequence[Event]") -> "Sequence[Event]":
        """The same for many events."""
        if self.bulk_prefilter is not None:
            try:
                suspected = self._suspected([jsontext.encode_without_floats(event) for event in events])
            except Exception:
                suspected = None  # one of them has no JSON form
            if suspected is not None:
                pairs = zip(events, suspected, strict=True)
                return [self._redacted(event) if suspect else event for event, suspect in pairs]
        return [self.redact(event) for event in events]

    def lines(self, events: "Sequence[Event]", encode: "Callable[[Event], bytes]") -> "list[bytes]":
        """The journal lines that `encode` makes of the redacted events.

        They are made of the unredacted events, searched many at once, and made again where necessary: a
        search costs little per byte and much per call, and these bytes are made anyway.
        Raises: as `encode`.
        """
        if not self.enabled:
            return [encode(event) for event in events]
        lines: "list[bytes]" = []
        for event in events:
            try:
                lines.append(encode(event))
            except Exception:
                # It may be writable after redaction; if not, this encoding reports it.
                lines.append(encode(self._redacted(event)))
        for i in self.suspects(lines, lambda i: texts_of(events[i], lines[i][lines[i].index(b"\t") :])):
            redacted = self._redacted(events[i])
            if redacted is not events[i]:
                lines[i] = encode(redacted)
        return lines

    def suspects(self, lines: "Sequence[bytes]", texts: "Callable[[int], bytes]") -> "Sequence[int]":
        """The numbers of the events that `redact` may change, without a miss.

        Args: lines: their journal lines; texts: the result of `texts_of` for the event with a number.
        """
        if not self.enabled:
            return ()
        suspected = self._suspected(lines)
        if suspected is not None:
            return [i for i, suspect in enumerate(suspected) if suspect]
        suspects = []
        for first in range(0, len(lines), _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, len(lines)))
            batch = [texts(i) for i in numbers]
            if self._may_hold(b"\0".join(batch)):
                suspects += [i for i, data in zip(numbers, batch, strict=True) if self._may_hold(data)]
        return suspects

    def _suspected(self, lines: "Sequence[bytes]") -> "Sequence[bool] | None":
        if self.bulk_prefilter is None or not self.has_rules_only:
            return None
        try:
            return self.bulk_prefilter(lines)
        except Exception:
            return None  # Python's prefilter decides

    def text(self, text: str) -> str:
        """A text without its secrets."""
        return self._text(text) if self.enabled else text

    def _may_hold(self, data: bytes) -> bool:
        """Whether a text in `data`, which is text or JSON, may hold a secret. Raises nothing."""
        try:
            if prefilter.may_hold(data) or (b"<" in data and _OPEN in data.lower()):
                return True
            if self._erased is not None or self._expressions:
                return True
            return any(text in data for text in self._denied_in_json)
        except Exception:
            return True

    def _redacted(self, event: Event) -> Event:
        changed: Event = {}
        is_about_files = event.get("event_type") in _PATH_TYPES
        for column in TEXT_COLUMNS if is_about_files else (*TEXT_COLUMNS, "path"):
            value = event.get(column)
            if isinstance(value, str) and (new := self._text(value)) is not value:
                changed[column] = new
        payload = event.get("payload")
        if payload is not None:
            try:
                new_payload = self._value(payload, is_about_files)
            except Exception:
                # It is nested too deeply. In most cases it cannot be written as JSON either.
                new_payload = payload
                if self._is_in_any(payload):
                    new_payload = {WITHHELD: self._mark("text", repr(type(payload)).encode())}
            if new_payload is not payload:
                changed["payload"] = new_payload
        return {**event, **changed, "redacted": True} if changed else event

    def _is_in_any(self, payload: "Any") -> bool:
        """Whether redaction would change a text of the payload, at any depth."""
        waiting: "list[Any]" = [payload]
        while waiting:
            value = waiting.pop()
            if isinstance(value, str):
                if self._text(value) is not value:
                    return True
            elif isinstance(value, dict):
                waiting += [*value, *value.values()]
                if any(self._is_named_secret(*pair) for pair in value.items() if _are_texts(*pair)):
                    return True
            elif isinstance(value, (list, tuple)):
                waiting += value
                if any(self._is_flagged(value, i) for i in range(1, len(value))):
                    return True
        return False

    def _value(self, value: "Any", is_about_files: bool = False) -> "Any":
        """The value with its texts redacted; the same object when nothing was."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return self._object(value, is_about_files)
        if isinstance(value, (list, tuple)):
            new = [
                self._named_value(item) if self._is_flagged(value, i) else self._value(item)
                for i, item in enumerate(value)
            ]
            return value if all(a is b for a, b in zip(new, value, strict=True)) else new
        return value

    def _object(self, value: "dict[Any, Any]", is_about_files: bool) -> "dict[Any, Any]":
        new: "dict[Any, Any]" = {}
        changed = False
        for name, item in value.items():
            new_item = item
            if not (is_about_files and name in _PATH_KEYS):
                if isinstance(name, str) and isinstance(item, str) and self._is_named_secret(name, item):
                    new_item = self._named_value(item, name)
                else:
                    new_item = self._value(item)
            new_name = self._text(name) if isinstance(name, str) else name
            while new_name is not name and (new_name in new or new_name in value):
                new_name += "'"  # two keys must not become one
            changed = changed or new_item is not item or new_name is not name
            new[new_name] = new_item
        return new if changed else value

    def _named_value(self, text: str, name: str = "password") -> str:
        kind = "password" if "pass" in name.lower() or "pwd" in name.lower() else "secret"
        return self._mark(kind, text.encode("utf-8", "surrogatepass"))

    def _is_named_secret(self, name: str, text: str) -> bool:
        """Whether a value of JSON is a secret because of its key."""
        from eventlog.secrets import names

        is_secret = self._names.get(name)
        if is_secret is None:
            is_secret = len(name) <= 64 and names.is_secret_name(
                name.encode("utf-8", "surrogatepass").lower()
            )
            if len(self._names) < _NAMES_KEPT:
                self._names[name] = is_secret
        if not is_secret or self.enabled is False:
            return False
        data = text.encode("utf-8", "surrogatepass")
        if not names.is_secret_value(name.encode("utf-8", "surrogatepass").lower(), data, True):
            return False
        return data not in self._allowed and not self._allowed_kinds & {"password", "secret"}

    def _is_flagged(self, items: "Sequence[Any]", index: int) -> bool:
        """Whether an argument of a command follows one like `--password`."""
        if index == 0:
            return False
        flag, text = items[index - 1], items[index]
        if not (isinstance(flag, str) and isinstance(text, str) and flag.startswith("-") and len(flag) > 3):
            return False
        return _is_word(flag) and self._is_named_secret(flag, text)

    # -- texts and contents --------------------------------------------------------------------

    def kinds_in(self, data: bytes) -> "tuple[str, ...]":
        """The kinds of secrets in a content. `<private>` may mean something of its own in a file.

        A TimeoutError of a signal handler also ends the search: the content is NOT_LOOKED_THROUGH.
        """
        if not self.enabled:
            return ()
        try:
            text = prefilter.plain(data)
            erased = self._erased is not None and self._erased.names(data)
            if erased:
                return (ERASED,)
            return tuple(
                sorted({kind for _, _, kind in self._find(text, is_of_event=False, until=self.search_until)})
            )
        except TimeoutError:
            return (NOT_LOOKED_THROUGH,)
        except Exception:
            return (UNREADABLE,)

    def _text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        try:
            for _ in range(_PASSES_MAX):
                spans = self._find(data, is_of_event=True)
                if not spans:
                    return text
                data = self._replaced(data, spans)
                text = data.decode("utf-8", "surrogatepass")
            if not self._find(data, is_of_event=True):
                return text
        except Exception:
            pass
        return self._mark("text", data)

    def _replaced(self, data: bytes, spans: "list[Span]") -> bytes:
        """Overlapping secrets become one; its kind is that of the rule that comes first."""
        order = sorted(range(len(spans)), key=lambda i: (spans[i][0], -spans[i][1]))
        parts: "list[bytes]" = []
        offset = 0
        i = 0
        while i < len(order):
            start, end, kind = spans[order[i]]
            best = order[i]
            i += 1
            while i < len(order) and spans[order[i]][0] < end:
                end = max(end, spans[order[i]][1])
                best = min(best, order[i])
                i += 1
            kind = spans[best][2]
            parts += [data[offset:start], self._mark(kind, data[start:end]).encode("ascii")]
            offset = end
        parts.append(data[offset:])
        return b"".join(parts)

    def _mark(self, kind: str, secret: bytes) -> str:
        if not self._key:
            self._key = key_of(self._key_location)
        return f"[REDACTED:{kind}:{blake3(secret, key=self._key).hexdigest()[:_FINGERPRINT_DIGITS]}]"

    def _find(self, data: bytes, *, is_of_event: bool, until: "float | None" = None) -> "list[Span]":
        """All secrets in `data`, without those that are allowed, and without marks of earlier redactions.

        Raises: TimeoutError after `until`.
        """
        spans: "list[Span]" = []
        if is_of_event and b"<" in data:
            _find_private(data, spans)
        denied: "list[Span]" = []
        for text in self._denied:
            denied += [(offset, offset + len(text), DENIED) for offset in prefilter.offsets(data, text)]
        for expression in self._expressions:
            denied += [(m.start(), m.end(), DENIED) for m in expression.finditer(data) if m.end() > m.start()]
        if self._erased is not None:
            denied += self._erased.find(data, until)
        by_rules = _by_rules(data)
        if by_rules and (self._allowed or self._allowed_kinds):
            by_rules = [
                span
                for span in by_rules
                if span[2] not in self._allowed_kinds and data[span[0] : span[1]] not in self._allowed
            ]
        spans += denied
        spans += by_rules
        if spans and _MARK in data:
            marks = _marks(data)
            spans = [span for span in spans if not _is_inside(span, marks)]
        return spans


def texts_of(event: Event, payload: bytes) -> bytes:
    """All texts of an event, to search: those of its columns, and its payload as `jsontext` spells it.

    Raises: TypeError when a column holds something else than a text.
    """
    texts: "Iterable[Any]" = filter(None, map(event.get, _LOOKED_AT_COLUMNS))
    return payload + "\0".join(("", *texts)).encode("utf-8", "surrogatepass")


def of_store(fs: FileSystem, layout: Layout, settings: "config.Config | None" = None) -> Redactor:
    """The redactor that a store's settings ask for; they are read when they are not given. Never raises."""
    settings = config.read(fs, layout) if settings is None else settings
    try:
        erased = erased_rules.read(fs, layout)
        return Redactor(
            allow=settings.allow,
            deny=settings.deny,
            enabled=settings.enabled,
            problem=settings.problem or (erased.problem if erased is not None else None),
            key_location=(fs, layout),
            erased=erased,
        )
    except Exception as error:
        return Redactor(problem=f"{layout.config_file} cannot be used: {error}", key_location=(fs, layout))


def withheld_event(content_hash: str, kinds: "Iterable[str]") -> Event:
    """The event that withholds a content; it is written in one frame with the first event that names it.

    Its id follows from the content, so writing it again changes nothing (I8). The content is not in its
    `blobs`: it may never have been stored, and the event does not prevent its collection.
    """
    from eventlog.base.names import event_id_of

    return {
        "event_id": event_id_of("locus", WITHHELD, content_hash),
        "event_type": WITHHELD,
        "event_kind": "fact",
        "source": "system",
        "agent": "locus",
        "title": content_hash,
        "payload": {"kinds": sorted(kinds)},
    }


def _by_rules(data: bytes) -> "list[Span]":
    """The findings of the rules, which are loaded only after the prefilter matched."""
    if not prefilter.may_hold(data):
        return []
    from eventlog.secrets import rules

    return rules.find(data)


def _find_private(data: bytes, spans: "list[Span]") -> None:
    """`<private>…</private>` in upper or lower case; blocks inside of one belong to it."""
    low = data.lower()
    start = low.find(_OPEN)
    while start >= 0:
        depth, offset = 1, start + len(_OPEN)
        opened, closed = low.find(_OPEN, offset), low.find(_CLOSE, offset)
        while depth:
            if closed < 0:
                spans.append((start, len(data), PRIVATE))
                return
            if 0 <= opened < closed:
                depth, offset = depth + 1, opened + len(_OPEN)
                opened = low.find(_OPEN, offset)
            else:
                depth, offset = depth - 1, closed + len(_CLOSE)
                closed = low.find(_CLOSE, offset)
        spans.append((start, offset, PRIVATE))
        start = low.find(_OPEN, offset)


def _marks(data: bytes) -> "list[tuple[int, int]]":
    """The spans of our marks."""
    marks = []
    for offset in prefilter.offsets(data, _MARK, 1):
        end = data.find(b"]", offset, offset + 64)
        kind, _, digits = data[offset + len(_MARK) : end].partition(b":")
        if end > 0 and kind and len(digits) == _FINGERPRINT_DIGITS and not digits.strip(_HEX):
            marks.append((offset, end + 1))
    return marks


def _is_inside(span: "Span", marks: "list[tuple[int, int]]") -> bool:
    """Whether one of the marks, which are sorted and disjoint, holds the span."""
    from bisect import bisect_right

    i = bisect_right(marks, span[0], key=lambda mark: mark[0]) - 1
    return i >= 0 and span[1] <= marks[i][1]


def _are_texts(*values: object) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_word(flag: str) -> bool:
    return flag.replace("-", "a").replace("_", "a").replace(".", "a").isalnum() and flag.isascii()


def key_of(key_location: "tuple[FileSystem, Layout] | None") -> bytes:
    """The store's key, made when it is missing; a key of this process where it is damaged or cannot be
    stored.
    """
    if key_location is not None:
        fs, layout = key_location
        try:
            if not fs.exists(layout.redaction_key):
                try:
                    name = layout.tmp(f"key-{fs.random_bytes(8).hex()}")
                    key = fs.random_bytes(erased_rules.KEY_SIZE)
                    publish(fs, name, layout.redaction_key, erased_rules.key_file(key))
                except FileExistsError:
                    pass  # another process made it at the same moment
            stored_key = erased_rules.valid_key(read_file(fs, layout.redaction_key, 1024))
            if stored_key is not None:
                return stored_key
        except (OSError, ValueError):
            pass
    return os.urandom(erased_rules.KEY_SIZE)
