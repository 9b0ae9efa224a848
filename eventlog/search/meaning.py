"""Searching by meaning: texts of the log as vectors of a model that the user has, the nearest first.

Optional. A model is a name and a function from texts to vectors; `load` makes one from a directory on this
machine (the extra `meaning`), without the network. Vectors are in the search index, by model; they are
derived like the rest, are removed with it, and cover the same events. Only texts that people and agents wrote
get one: requests, decisions, messages of errors, titles of turns and sessions; not outputs, not contents of
files. One thread.
"""

import math
import os
import sqlite3
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventlog.base.errors import NotFound, Unsupported
from eventlog.search import document

if TYPE_CHECKING:
    from eventlog.log.reader import LogView

Embed = Callable[[list[str]], "Sequence[Sequence[float]]"]

MEANT_TYPES = frozenset(
    ("intent", "decision", "error", "feedback", "turn", "session", "fact", "observation", "skill")
)
TEXT_SIZE_MAX = 2_000
_AT_ONCE = 256

_TABLES = (
    "CREATE TABLE IF NOT EXISTS vectors("
    "model TEXT, position INTEGER, data BLOB, PRIMARY KEY(model, position)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS vectors_until(model TEXT PRIMARY KEY, position INTEGER) WITHOUT ROWID",
)


@dataclass(frozen=True, slots=True)
class Model:
    """`name` tells models apart: vectors of different models cannot be compared."""

    name: str
    embed: Embed


def load(directory: str) -> Model:
    """The model2vec model in a directory. Raises: NotFound, Unsupported (the extra is not installed)."""
    path = os.path.abspath(directory)
    if not os.path.isdir(path):
        raise NotFound(f"{directory} is no directory with a model; nothing is fetched from elsewhere")
    os.environ["HF_HUB_OFFLINE"] = "1"  # before the import that reads it
    try:
        from model2vec import StaticModel
    except ImportError as error:
        raise Unsupported(
            "to look by meaning, install the extra: pip install 'locus-eventlog[meaning]'"
        ) from error
    try:
        model = StaticModel.from_pretrained(path)
    except Exception as error:  # whatever the library raises for a directory without a model
        raise NotFound(f"{directory} holds no model2vec model ({error})") from error
    return Model(path, lambda texts: model.encode(texts).tolist())


def cover(con: sqlite3.Connection, model: Model, view: "LogView") -> int:
    """Give vectors to the events of a log that have none yet, in one transaction. Returns: how many."""
    for statement in _TABLES:
        con.execute(statement)
    row = con.execute("SELECT position FROM vectors_until WHERE model = ?", [model.name]).fetchone()
    since = row[0] if row else 0
    count = 0
    con.execute("BEGIN IMMEDIATE")
    try:
        for batch in _batches(_texts(view, since)):
            vectors = model.embed([text for _, text in batch])
            rows = [
                (model.name, position, _unit(vector))
                for (position, _), vector in zip(batch, vectors, strict=True)
            ]
            con.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
            count += len(rows)
        until = [model.name, view.next_position]
        con.execute("INSERT OR REPLACE INTO vectors_until VALUES (?, ?)", until)
        con.execute("COMMIT")
    except BaseException:
        con.execute("ROLLBACK")
        raise
    return count


def nearest(con: sqlite3.Connection, model: Model, text: str, limit: int) -> "list[tuple[int, float]]":
    """(position, cosine) of the events nearest in meaning, the nearest first."""
    wanted = array("f")
    wanted.frombytes(_unit(model.embed([text])[0]))
    try:
        rows = con.execute("SELECT position, data FROM vectors WHERE model = ?", [model.name])
    except sqlite3.OperationalError:
        return []  # no vectors were made yet
    scored = []
    for position, data in rows:
        vector = array("f")
        vector.frombytes(data)
        if len(vector) == len(wanted):
            scored.append((position, math.fsum(a * b for a, b in zip(vector, wanted, strict=True))))
    scored.sort(key=lambda pair: (-pair[1], -pair[0]))
    return scored[:limit]


def _texts(view: "LogView", since: int) -> "Iterator[tuple[int, str]]":
    columns = ("position", "title", "payload")
    for event in view.iterate(since, event_types=sorted(MEANT_TYPES), columns=columns):
        title = None if event["title"] is None else str(event["title"])
        body = document.body_of(str(event["payload"] or ""), title)
        if text := "\n".join(filter(None, (title, body))):
            yield int(str(event["position"])), text[:TEXT_SIZE_MAX]


def _batches(texts: "Iterator[tuple[int, str]]") -> "Iterator[list[tuple[int, str]]]":
    batch = []
    for text in texts:
        batch.append(text)
        if len(batch) == _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _unit(vector: "Sequence[float]") -> bytes:
    """A vector of length one, as 32-bit floats; one without a direction stays zero."""
    values = [float(value) for value in vector]
    length = math.sqrt(math.fsum(value * value for value in values)) or 1.0
    return array("f", [value / length for value in values]).tobytes()
