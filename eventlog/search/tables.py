"""The tables of a search index, and its own description of what it covers (docs/search.md).

Events are numbered by their positions, texts from `FIRST_TEXT`, paths from `FIRST_PATH`: these numbers are
the rows of `words`. A text is what a version brought that its neighbour lacks: passages one behind the other,
each `own` words, `behind` of what follows it in the file, and a mark for each word that is made of `pieces`,
which `spelled` holds once for all. A passage was in a file in the versions from `since` to before `until`,
which are positions; `OPEN` while nothing older or newer is known that lacks it (texts.py). A line is a path
within one stretch of the log that is indexed as one; what was filled in later is a stretch of its own.
"""

import json
import sqlite3
from dataclasses import asdict, dataclass, field
from functools import cache

from blake3 import blake3

from eventlog.search.passages import TOKENIZER

FORMAT = 3  # raised by hand when the meaning of a table changes, or how texts are cut

FIRST_TEXT = 1 << 40
FIRST_PATH = 1 << 41
# Begins what stands in a text for a word of several pieces; a letter for FTS5, and nobody can look for it.
MARK = "\ue003"

# Words of new events are kept in memory up to so many bytes, then written as one sorted run. So many runs
# are merged into one, a bit of it with each transaction: with the usual four, merging takes a quarter of all,
# and no search is faster. Only when so many are there must one transaction wait for a whole merge.
_HASH_BYTES = 16 << 20
_RUNS_MERGED, _RUNS_MAX = 16, 64

# The body stands first: of the first column alone FTS5 writes no number, which saves a third.
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
    """What the index covers: `stretches`, the newest first. `last_id` is the event at `last`, by which the
    log is known again. `rows` events and versions are ranked, of `tokens` words together.
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
    packs: str = ""  # where the contents that are awaited were looked for last

    @property
    def end(self) -> int:
        """Behind the newest event that is covered."""
        return self.stretches[0].high if self.stretches else 0

    def covered(self) -> int:
        return sum(one.high - one.low for one in self.stretches)


def gaps(stretches: "list[Stretch]", end: int) -> "list[tuple[int, int]]":
    """What of `[0, end)` is in none of the stretches, the newest first."""
    found = []
    for one in sorted(stretches, key=lambda one: -one.high):
        if one.high < end:
            found.append((one.high, end))
        end = min(end, one.low)
    return [*found, (0, end)] if end > 0 else found


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
    """The description, None where there is none that can be understood."""
    try:
        row = con.execute("SELECT said FROM meta").fetchone()
        if row is None:
            return None
        said = json.loads(row[0])
        return Meta(**{**said, "stretches": [Stretch(**one) for one in said["stretches"]]})
    except (sqlite3.DatabaseError, ValueError, TypeError, KeyError):
        return None
