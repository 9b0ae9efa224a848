"""The tables of a search index, and its own description of what it covers (docs/search.md).

Events are numbered by their positions, texts from `FIRST_TEXT`, paths from `FIRST_PATH`: these numbers are
the rows of `words`. A text holds the passages, in order, that a version has and its neighbour lacks.
Each passage is its `own` words, some `following` it in the file, and a mark for each word that is made of
`pieces`, which `spelled` holds once for all. A passage was in a file in the versions from `since` to before
`until`, which are positions; `OPEN` while no older or newer version is known to lack it (texts.py). A line is
a path within one stretch of the log that is indexed as one; later contents are a stretch of their own.
"""

import json
import sqlite3
from dataclasses import asdict, dataclass, field
from functools import cache

from blake3 import blake3

from eventlog.search.tokenizer import TOKENIZER

FORMAT = 3  # raised by hand when the meaning of a table changes, or how texts are cut

FIRST_TEXT = 1 << 40
FIRST_PATH = 1 << 41
# Begins the mark of a word with several pieces: a letter to FTS5, and no query can contain it.
MARK = "\ue003"

# FTS5 holds words of new events in memory up to so many bytes, then writes them as one sorted run. It merges
# so many runs into one, a bit with each transaction: with the usual four, merging takes a quarter of the time
# and makes no search faster. Only at so many runs must one transaction wait for a whole merge.
_HASH_BYTES = 16 << 20
_RUNS_MERGED, _RUNS_MAX = 16, 64

# The body comes first: of the first column alone FTS5 writes no number, which saves a third.
TABLES = f"""
CREATE VIRTUAL TABLE words USING fts5(
    body, title, path, pieces, content='', columnsize=0, tokenize='{TOKENIZER}');
INSERT INTO words(words, rank) VALUES ('hashsize', {_HASH_BYTES});
INSERT INTO words(words, rank) VALUES ('automerge', {_RUNS_MERGED});
INSERT INTO words(words, rank) VALUES ('crisismerge', {_RUNS_MAX});
CREATE TABLE events(first INTEGER PRIMARY KEY, last INTEGER, newest INTEGER, facts BLOB, times BLOB);
CREATE TABLE names(id INTEGER PRIMARY KEY, kind INTEGER, name TEXT, UNIQUE(kind, name));
CREATE TABLE lines(
    id INTEGER PRIMARY KEY, stretch INTEGER, path INTEGER, edge INTEGER, UNIQUE(path, stretch));
CREATE TABLE versions(
    line INTEGER, position INTEGER, path INTEGER, content INTEGER, size INTEGER,
    PRIMARY KEY(line, position), UNIQUE(path, content)) WITHOUT ROWID;
CREATE TABLE texts(doc INTEGER PRIMARY KEY, line INTEGER, grows INTEGER, passages BLOB);
CREATE INDEX texts_that_grow ON texts(line, grows) WHERE grows > 0;
CREATE TABLE spellings(id INTEGER PRIMARY KEY, pieces TEXT UNIQUE);
CREATE VIRTUAL TABLE spelled USING fts5(pieces, content='', columnsize=0, tokenize='{TOKENIZER}');
CREATE TABLE awaited(position INTEGER PRIMARY KEY, path TEXT, id BLOB, is_list INTEGER);
CREATE TABLE withheld(content INTEGER PRIMARY KEY);
CREATE TABLE meta(one INTEGER PRIMARY KEY CHECK (one = 1), said TEXT)
"""


@dataclass(slots=True)
class Stretch:
    """Events `[low, high)` that are indexed as one."""

    low: int
    high: int
    number: int


@dataclass(slots=True)
class Meta:
    """What the index covers: `stretches`, the newest first. `last_id` is the event at `last`, which
    identifies the log. `rows` events and versions are ranked, of `tokens` words together.
    """

    store_id: str
    began: int = 0  # the log's next position when the index was begun
    last: int = -1
    last_id: str = ""
    stretches: "list[Stretch]" = field(default_factory=list)
    numbers: int = 0  # of stretches
    texts: int = 0
    rows: int = 0
    tokens: int = 0
    too_large: int = 0  # contents that were left out for their size, or for the index's
    withheld_until: int = 0
    packs: str = ""  # the packs that were last searched for awaited contents

    @property
    def end(self) -> int:
        """The position after the newest covered event."""
        return self.stretches[0].high if self.stretches else 0

    def covered(self) -> int:
        return sum(stretch.high - stretch.low for stretch in self.stretches)


def gaps(stretches: "list[Stretch]", end: int) -> "list[tuple[int, int]]":
    """The ranges of `[0, end)` that are in none of the stretches, the newest first."""
    ranges = []
    for stretch in sorted(stretches, key=lambda stretch: -stretch.high):
        if stretch.high < end:
            ranges.append((stretch.high, end))
        end = min(end, stretch.low)
    return [*ranges, (0, end)] if end > 0 else ranges


@cache
def code8() -> str:
    """Eight digits that change with what the tables mean, so that old files are left alone."""
    return blake3(f"{FORMAT} {TABLES}".encode()).hexdigest()[:8]


def make(con: sqlite3.Connection, meta: Meta) -> None:
    con.executescript(f"BEGIN; {TABLES}; COMMIT")
    write_meta(con, meta)


def write_meta(con: sqlite3.Connection, meta: Meta) -> None:
    con.execute("INSERT OR REPLACE INTO meta VALUES (1, ?)", [json.dumps(asdict(meta))])


def read_meta(con: sqlite3.Connection) -> "Meta | None":
    """The description, None where there is none that this code can read."""
    try:
        row = con.execute("SELECT said FROM meta").fetchone()
        if row is None:
            return None
        values = json.loads(row[0])
        return Meta(**{**values, "stretches": [Stretch(**stretch) for stretch in values["stretches"]]})
    except (sqlite3.DatabaseError, ValueError, TypeError, KeyError):
        return None
