"""The events of a store as they leave it for a lake: under a policy, redacted once more (docs/lake.md §3).

Each column and each key of a payload is built from what `policy.py` and `payload_keys.py` allow; what
they do not name stays here. Memory: some thousand events at a time; for `table` and `write` their result,
too. One thread, one view.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.names import project_context, sessions_context
from eventlog.base.types import COLUMN_KINDS, LIST, TEXT, Event
from eventlog.exports.local_paths import LocalPaths, homes_of
from eventlog.lake import policy as of
from eventlog.lake.actors import Actors
from eventlog.lake.contents import contents_of
from eventlog.lake.payload_keys import Allowed, figures_of, without_classes
from eventlog.lake.policy import COLUMNS, Contexts, Policy
from eventlog.log import segment
from eventlog.query import people as of_people
from eventlog.secrets import redaction
from eventlog.secrets.bulk_prefilter import attached_to

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.store import Store

ADDED = ("store_id", "actor", "host")
SCHEMA = pa.schema([(name, pa.string()) for name in ADDED] + list(segment.FILE_SCHEMA))

_DIGEST_DIGITS = 16
_NOTHING = "{}"
_BLANKS = str.maketrans("-_:", "   ")  # of what parts the words of a context id


class Outgoing:
    """The visible events of a view as a policy lets them leave."""

    def __init__(self, store: "Store", view: "LogView", policy: Policy) -> None:
        self._store = store
        self._view = view
        self._policy = policy
        self._redactor = redaction.of_store(store.fs, store.layout)  # the rules of today
        self._people = of_people.allowed(store.fs, store.layout, policy.people)
        self._key = redaction.key_of((store.fs, store.layout))
        repo = store.repo_hash
        own = (sessions_context(repo), project_context(store.project_name, repo))
        self._contexts = Contexts(self._digest, own, self._holds_secret)
        self._allowed = Allowed(policy.classes, self._named)

    # -- the events --------------------------------------------------------------------------------

    def tables(self, base: int, end: int) -> "Iterator[pa.Table]":
        """The events of [base, end) in order, some thousand at a time, as tables of SCHEMA.

        Raises: Corruption, Unsupported.
        """
        actors = Actors(self._view, self._people, base, end)
        with attached_to(self._redactor):
            for batch in self._view.batches(base, end):
                if batch.num_rows:
                    yield self._table(batch, actors)

    def table(self, base: int, end: int) -> "pa.Table":
        """The same as one table."""
        return pa.concat_tables([SCHEMA.empty_table(), *self.tables(base, end)])

    def write(self, base: int, end: int, metadata: "dict[str, str]") -> bytes:
        """The same as a Parquet file with this metadata. Equal events and settings give equal bytes."""
        return encoded(self.tables(base, end), metadata)

    def _table(self, batch: "pa.RecordBatch", actors: Actors) -> "pa.Table":
        types = batch.column("event_type").to_pylist()
        columns = [self._column(batch, types, name) for name in segment.SCHEMA.names]
        events = segment.with_anchors_apart(pa.table(columns, segment.SCHEMA))
        added = ([self._store.identity.store_id.hex()] * batch.num_rows, *actors.of(batch))
        arrays = [pa.array(values, pa.string()) for values in added]
        return pa.table([*arrays, *events.columns], SCHEMA)

    # -- columns -----------------------------------------------------------------------------------

    def _column(self, batch: "pa.RecordBatch", types: "list[str]", name: str) -> "pa.Array":
        column, kind = batch.column(name), COLUMN_KINDS[name]
        if name == "payload":
            return pa.array(self._payloads(types, column.to_pylist()), pa.string())
        if name == "title":
            return self._titles(batch.column("event_type"), column)
        if kind == LIST:
            return self._lists(name, column)
        return _mapped(column, self._values(name)) if kind == TEXT else column

    def _lists(self, name: str, column: "pa.Array") -> "pa.Array":
        values = column.flatten().unique().to_pylist()
        new = dict(zip(values, self._values(name)(values), strict=True))
        if all(value == shown for value, shown in new.items()):
            return column
        lists = [
            None if items is None else [shown for item in items if (shown := new.get(item)) is not None]
            for items in column.to_pylist()
        ]
        return pa.array(lists, column.type)

    def _titles(self, types: "pa.Array", titles: "pa.Array") -> "pa.Array":
        """Titles are texts, but for the hash of a withheld content and the project's name on its master; that
        of an import is a path of this machine."""
        project = self._store.project_name
        forms: dict[str, of.Form] = {"withheld": of.is_hash, "sessions": project.__eq__}
        shown = _mapped(titles, self._values("title"))
        for event_type, form in forms.items():
            figures = _mapped(titles, partial(_those_of, form))
            shown = pc.if_else(pc.equal(types, event_type), pc.coalesce(figures, shown), shown)
        return pc.if_else(pc.equal(types, "import"), pa.scalar(None, pa.string()), shown)

    def _values(self, name: str) -> "Callable[[Sequence[str]], list[str | None]]":
        """What a column shows for each of these values."""
        return partial(self._shown, name)

    def _shown(self, name: str, values: "Sequence[str]") -> "list[str | None]":
        column = COLUMNS[name]
        secret = self._with_secrets(values)
        return [
            None if value is None else self._value(name, column, value, secret.get(number, value))
            for number, value in enumerate(values)
        ]

    def _value(self, name: str, column: of.Column, value: str, redacted: str) -> "str | None":
        """Args: redacted: the value without secrets."""
        if column.leaves_with == of.LOCAL:
            return None
        if name == "cwd":
            return self._directory(redacted)
        if column.leaves_with == of.PATHS:
            return redacted if of.PATHS in self._allowed.classes and of.is_path(redacted) else None
        if column.otherwise == of.AS_CONTEXT:
            return self._context(value, redacted)
        if redacted == value and self._is_figure(name, column, value):
            return value
        if self._policy.texts:
            return self._text(redacted)
        if column.otherwise == of.DIGESTED:
            return self._digest("id" if name.endswith("_id") else name, value)
        return of.OTHER if column.otherwise == of.NAMED_OTHER else None

    def _is_figure(self, name: str, column: of.Column, value: str) -> bool:
        is_own = name == "repo" and value == self._store.repo_hash
        return is_own or (column.form is not None and bool(column.form(value)))

    def _context(self, value: str, redacted: str) -> str:
        if not self._policy.texts or redacted != value or self._text(value) != value:
            return self._contexts.without_texts(value)
        has_secret_words = self._holds_secret(value.translate(_BLANKS))
        return self._contexts.without_texts(value) if has_secret_words else value

    def _holds_secret(self, text: str) -> bool:
        return self._redactor.text(text) != text

    def _directory(self, path: str) -> "str | None":
        """A working directory relative to the project, where it is in it."""
        if of.PATHS not in self._allowed.classes:
            return None
        for root in self._roots:
            if path == root:
                return "."
            if path.startswith(f"{root}/"):
                below = path[len(root) + 1 :]
                return below if of.is_path(below) else None
        return None

    # -- payloads ----------------------------------------------------------------------------------

    def _payloads(self, types: "list[str]", payloads: "list[str | None]") -> "list[str | None]":
        if self._policy.texts:
            redacted = self._redacted(payloads)
            pairs = zip(types, redacted, strict=True)
            return [None if text is None else self._payload(event_type, text) for event_type, text in pairs]
        pairs = zip(types, payloads, strict=True)
        return self._redacted([None if text is None else self._figures(kind, text) for kind, text in pairs])

    def _figures(self, event_type: str, text: str) -> str:
        if text == _NOTHING:
            return text
        return _encoded(figures_of(event_type, _object(text), self._allowed))

    def _payload(self, event_type: str, text: str) -> str:
        """A payload whose texts may leave. One of which nothing is taken out keeps its bytes."""
        payload = _object(text)
        shown = without_classes(event_type, payload, self._allowed)
        if shown != payload:
            text = _encoded(shown)
        duration = shown.get("hook_us")
        text = self._paths_of_machine.payload(of_people.text_without(self._people, text, is_json=True))
        if not isinstance(duration, int) or '"hook_us":' in text:
            return text
        return f'{text[:-1]}{"," if len(text) > 2 else ""}"hook_us":{duration}}}'

    def _named(self, who: Any) -> Any:
        digest = self._people.digest
        return who if digest is None else of_people.digested(digest, who)

    # -- secrets, and paths of this machine ----------------------------------------------------------

    def _with_secrets(self, values: "Sequence[str | None]") -> "dict[int, str]":
        """The values in which a secret is, by number, without it."""
        lines = [b"" if value is None else jsontext.encode(value) for value in values]
        suspects = self._redactor.suspects(lines, lambda n: str(values[n]).encode("utf-8", "surrogatepass"))
        return {number: self._redactor.text(str(values[number])) for number in suspects}

    def _redacted(self, payloads: "list[str | None]") -> "list[str | None]":
        """The same payloads without secrets, also in names of files."""
        lines = [b"" if text is None else text.encode("utf-8", "surrogatepass") for text in payloads]
        shown = list(payloads)
        for number in self._redactor.suspects(lines, lines.__getitem__):
            if (text := payloads[number]) is not None:
                event: Event = {"event_type": "", "payload": _object(text)}
                new = self._redactor.redact(event)
                shown[number] = text if new is event else _encoded(new["payload"])
        return shown

    def _text(self, text: str) -> str:
        """A text without names of people in a recognizable form and without paths of this machine."""
        text = of_people.text_without(self._people, text)
        if "/" not in text and ":\\" not in text:
            return text
        return str(jsontext.decode(self._paths_of_machine.payload(jsontext.encode(text).decode())))

    def _digest(self, word: str, text: str) -> str:
        """What stands for a text where only equality may be seen."""
        digest = blake3(f"{word}\0{text}".encode("utf-8", "surrogatepass"), key=self._key).hexdigest()
        return f"{word}{':' if word == 'context' else '-'}{digest[:_DIGEST_DIGITS]}"

    # -- contents ----------------------------------------------------------------------------------

    def contents(self, base: int, end: int, known: "Collection[bytes]" = ()) -> "set[bytes]":
        """The ids of the contents and trees that these events need, that the store has and that may leave.

        Args: known: those that left before; what only they name is not searched again. Raises: Corruption.
        """
        return contents_of(self._store, self._view, self._policy, self._redactor, range(base, end), known)

    @cached_property
    def _roots(self) -> "list[str]":
        return homes_of(self._store)

    @cached_property
    def _paths_of_machine(self) -> LocalPaths:
        return LocalPaths.of(self._store, self._view)


def encoded(tables: "Iterable[pa.Table]", metadata: "dict[str, str]") -> bytes:
    """These events, in the columns of SCHEMA, as a published file. Equal events give equal bytes."""
    sink = pa.BufferOutputStream()
    rows = segment.ROW_GROUP_ROWS
    with pq.ParquetWriter(sink, SCHEMA.with_metadata(metadata), **_WRITE_OPTIONS) as writer:
        waiting = [SCHEMA.empty_table()]
        for table in tables:
            waiting.append(table)
            while sum(map(len, waiting)) >= rows:
                joined = pa.concat_tables(waiting)
                writer.write_table(joined.slice(0, rows).combine_chunks(), rows)
                waiting = [joined.slice(rows)]
        writer.write_table(pa.concat_tables(waiting).combine_chunks(), rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _mapped(column: "pa.Array", values_of: "Callable[[Sequence[str]], list[str | None]]") -> "pa.Array":
    """A text column with other values; each of its values is asked for once."""
    if column.null_count == len(column):
        return column
    coded = column.dictionary_encode()
    values = coded.dictionary.to_pylist()
    new = values_of(values)
    return column if new == values else pa.array(new, pa.string()).take(coded.indices)


def _those_of(form: of.Form, values: "Sequence[str | None]") -> "list[str | None]":
    return [value if value is not None and form(value) else None for value in values]


def _object(text: str) -> "dict[str, Any]":
    """A payload as an object; empty where it is none, which no writer of ours makes."""
    import orjson

    try:
        value = orjson.loads(text)
    except ValueError:  # also what only the other one reads: long integers, lone surrogates
        return jsontext.object_if_any(text)
    return value if isinstance(value, dict) else {}


def _encoded(value: Any) -> str:
    return jsontext.encode_fast(value).decode("utf-8")


def _write_options() -> "dict[str, Any]":
    options = {name: value for name, value in segment.WRITE_OPTIONS.items() if name != "row_group_size"}
    options["use_dictionary"] = [*ADDED, *options["use_dictionary"]]
    options["write_statistics"] = ["store_id", *options["write_statistics"]]
    return options


_WRITE_OPTIONS = _write_options()
