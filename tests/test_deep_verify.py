"""The deep check: what the bytes of a store mean, and whether that is right."""

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import eventlog
from eventlog.base.layout import INDEX_DIR, SEGMENT_DIR, TMP_DIR
from eventlog.base.locks import COMPACT, GC, acquire
from eventlog.blobs import idx
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import DIRECTORY, FILE, TreeEntry
from eventlog.log.finding import Finding
from eventlog.log.line import encode_line
from eventlog.log.sweep import PREFIXES, sweep
from eventlog.maintenance.upkeep import maintain
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store
from tests.blobs.support import as_process
from tests.older import append_as_before
from tests.rewritten import merge_segments, with_column

DAY_S = 24 * 3600


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two segments, a tail, packs, an idx and an index that was updated once."""
    root = tmp_path_factory.mktemp("deep") / ".locus"
    with Store.init(root, repo_hash="0123456789ab", project_name="locus") as store:
        for number in range(3):
            _turn(store, number)
            if number < 2:
                store.seal()
                store.reindex()
    return root


@pytest.fixture
def store(template: Path, tmp_path: Path) -> Iterator[Store]:
    """A copy of it, to damage."""
    shutil.copytree(template, tmp_path / ".locus")
    with Store.open(tmp_path / ".locus") as store:
        yield store


def _turn(store: Store, number: int) -> None:
    with store.blobs.writer() as writer:
        below = writer.put_tree([TreeEntry(b"f", FILE, writer.put(b"content %d" % number), 9)])
        root = writer.put_tree([TreeEntry(b"d", DIRECTORY, below, 0)])
        writer.flush()
    recorder = Recorder(store, agent=f"agent-{number % 2}")
    turn = recorder.start_turn(f"Do it {number}", tree_hash=to_text(root))
    turn.file("d/f", before=None, after=b"content %d" % number)
    turn.llm("m-1", prompt_tokens=10, completion_tokens=number, message_id=f"m{number}")
    turn.end(title=f"Done {number}")


def deep(store: Store) -> list[Finding]:
    with Store.open(store.layout.root) as other:
        return other.verify("deep")


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def test_a_sound_store_has_no_findings(store: Store) -> None:
    """Nothing is reported where nothing is wrong: with a tail, all sealed, and without an index."""
    assert deep(store) == []
    store.seal()
    assert deep(store) == []
    store.reindex()
    assert deep(store) == []
    assert store.rebuild() is not None
    assert deep(store) == []


def test_a_store_that_nothing_was_written_to_is_sound(tmp_path: Path) -> None:
    """An empty store has nothing wrong with it."""
    with Store.init(tmp_path / ".locus") as store:
        assert store.verify("deep") == []


@pytest.mark.parametrize(
    ("table", "change", "key"),
    [
        ("turns", "UPDATE turns SET title = 'another' WHERE title = 'Done 0'", "(session_id, turn) ="),
        ("sessions", "DELETE FROM sessions WHERE agent = 'agent-1'", "(session_id) ="),
        ("sessions_master", "UPDATE sessions_master SET total_turns = 7", "(repo) = 0123456789ab"),
        ("master_keys", "UPDATE master_keys SET project_name = 'x'", "(repo) = 0123456789ab"),
        ("calls", "INSERT INTO calls FROM calls LIMIT 1", "(position) ="),
        ("event_ids", "DELETE FROM event_ids WHERE rowid = 3", "(id_hash) ="),
    ],
)
def test_an_index_that_differs_from_the_log_is_named(store: Store, table: str, change: str, key: str) -> None:
    """I19, S1-47: the deep check folds the log again; table and key of a row that differs are reported."""
    path = store.layout.index(max(store.fs.listdir(store.layout.directory(INDEX_DIR))))
    with duckdb.connect(path) as con:
        con.execute(change)

    found = only(deep(store))
    assert found.path == path
    assert f"table {table} differs" in found.what and key in found.what
    assert store.verify("read") == []
    store.rebuild()
    assert deep(store) == []


def test_an_index_that_is_none_is_named(store: Store) -> None:
    """I22: a file in `index/` that DuckDB cannot read is reported, with the way to have it made again."""
    path = Path(store.layout.index(max(store.fs.listdir(store.layout.directory(INDEX_DIR)))))
    path.write_bytes(b"garbage" * 1000)

    found = only(deep(store))
    assert found.path == str(path) and "locus store rebuild" in found.what


@pytest.mark.parametrize("sealed", [False, True])
def test_a_content_that_an_event_names_must_be_there(store: Store, sealed: bool) -> None:
    """I24: a hash that no pack holds is named with its column and the position of the event."""
    gone = "blake3:" + "ab" * 32
    at = append_as_before(store, [{"event_type": "file", "path": "x", "after_hash": gone}])
    if sealed:
        store.seal()

    found = only(deep(store))
    assert gone in found.what and "after_hash" in found.what and f"position {at}" in found.what


def test_everything_below_a_tree_must_be_there(store: Store) -> None:
    """I24: a file and a directory that are missing below a tree in use are named with their paths."""
    with store.blobs.writer() as writer:
        below = writer.put_tree(
            [TreeEntry(b"file", FILE, bytes(32), 1), TreeEntry(b"dir", DIRECTORY, bytes(31) + b"1", 0)]
        )
        root = writer.put_tree([TreeEntry(b"top", DIRECTORY, below, 0)])
        writer.flush()
        store.append([{"event_type": "snapshot", "tree_hash": to_text(root), "blobs": [to_text(root)]}])

    found = deep(store)
    assert sorted("top/dir" in f.what for f in found) == [False, True]
    assert sorted("top/file" in f.what for f in found) == [False, True]


def test_a_tree_and_a_content_are_not_exchanged(store: Store) -> None:
    """I24: the id of a file's content where a tree is meant does not resolve to one, and the other way."""
    with store.blobs.writer() as writer:
        content = writer.put(b"not a tree")
        tree = writer.put_tree([])
        writer.flush()
        append_as_before(store, [{"event_type": "snapshot", "tree_hash": to_text(content)}])
        append_as_before(store, [{"event_type": "file", "path": "x", "after_hash": to_text(tree)}])

    listed = sorted(finding.what for finding in deep(store))
    assert len(listed) == 2
    assert any(f"{to_text(content)} is a file's content, not a tree." in what for what in listed)
    assert any(f"{to_text(tree)} is a tree, not a file's content." in what for what in listed)


def test_a_content_with_one_sound_copy_is_read_from_it(store: Store) -> None:
    """I24: where one of two copies is damaged, the pack is named and the reference is not."""
    data = os.urandom(300)
    with store.blobs.writer(codec="raw") as writer:
        id = writer.put(data)
        name = writer.flush()
    store.append([{"event_type": "file", "path": "x", "after_hash": to_text(id)}])
    path = store.layout.pack(str(name))
    hidden = f"{store.layout.root}/hidden"
    os.rename(path, hidden)
    with Store.open(store.layout.root) as other, other.blobs.writer() as writer:
        assert writer.put(data) == id
        writer.put(b"so that the pack has another name")
        writer.flush()
    os.rename(hidden, path)
    with open(path, "r+b") as file:
        file.seek(60)
        file.write(b"\xff\x00\xff")

    found = deep(store)
    assert found and all(finding.path == path for finding in found)


BAD_LINES = {
    "payload is no JSON object": (b'"schema_version":1', b"[1]"),
    "schema beyond 1": (b'"schema_version":99', b"{}"),
    "schema_version below 1": (b'"schema_version":0', b"{}"),
    "without event_kind": (b'"event_kind":null', b"{}"),
    "not 32 hex digits": (b'"event_id":"short"', b"{}"),
}


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("words", BAD_LINES)
def test_an_event_that_locus_cannot_have_written_is_named(store: Store, words: str, sealed: bool) -> None:
    """S1-38, P7: identity, schema and payload of every event are checked, in the tail and in segments."""
    line = encode_line(
        {"event_id": "c" * 32, "event_type": "note", "event_kind": "fact", "source": "user"}
    ).partition(b"\t")[0]
    spoiled, payload = BAD_LINES[words]
    name = spoiled.partition(b":")[0]
    fields = [field for field in line[1:-1].split(b",") if not field.startswith(name)]
    at = store.journal.append([b"{" + b",".join([*fields, spoiled]) + b"}\t" + payload])
    if sealed:
        store.seal()

    found = deep(store)
    assert any(words in f.what and f"position {at}" in f.what for f in found), found


@pytest.mark.parametrize(("column", "value"), [("seq", None), ("context_id", None), ("extends", None)])
def test_a_number_that_the_log_does_not_give_is_named(store: Store, column: str, value: object) -> None:
    """I22: the numbering is folded again over all segments; a place that is missing shows."""

    def spoil(table: pa.Table) -> pa.Table:
        at = table["event_type"].to_pylist().index("file")
        return with_column(table, column, at, value)

    manifest = merge_segments(store, spoil)

    found = [f for f in deep(store) if f.path == store.layout.segment(manifest.segments[0].name)]
    assert f"whose {column} is not what the log before gives" in only(found).what


def test_an_event_that_is_there_twice_is_named(store: Store) -> None:
    """I8: of events with one id only the first is in the segments; a second one is named with both places."""

    def double(table: pa.Table) -> pa.Table:
        return with_column(table, "event_id", 4, table["event_id"][1].as_py())

    merge_segments(store, double)

    assert any("at position 4 is there already, at position 1" in f.what for f in deep(store))


def test_an_idx_must_say_what_its_packs_say(store: Store) -> None:
    """I22: an idx whose checksums are right and whose rows are not is named; the packs answer without it."""
    store.blobs.build_idx()
    (name,) = os.listdir(f"{store.layout.root}/snapshots/idx")
    path = f"{store.layout.root}/snapshots/idx/{name}"
    with closing(idx.Idx(store.fs, path, store.identity.store_id)) as right:
        packs = [bytes.fromhex(pack) for pack in sorted(right.packs)]
    wrong = idx._encode(store.identity.store_id, packs, [])
    os.chmod(path, 0o600)
    Path(path).write_bytes(wrong)

    found = deep(store)
    assert any(f.path == path and "does not say what its packs say" in f.what for f in found)


# -- a list of segments that a compaction replaced ------------------------------------------------------


def test_a_compacted_list_of_segments_is_read_verified_and_sealed_on(store: Store) -> None:
    """I14, I16, I17: two segments made one, the inputs superseded: readers, checks, index and sealer go on.

    So a compaction needs no other format than the one there is.
    """
    before = list(store.events())
    turns = store.query("select * from turns order by all").rows
    with store.view() as pinned:
        inputs = {entry.name for entry in pinned.manifest.segments}
        merged = merge_segments(store)
        assert len(merged.segments) == 1 and len(inputs) == 2
        with store.view() as later:
            assert list(pinned.iterate()) == list(later.iterate())
    assert list(store.events()) == before
    assert deep(store) == []
    assert store.query("select * from turns order by all").rows == turns

    _turn(store, 7)
    report = store.seal()
    assert report.segments and inputs <= set(store.fs.listdir(store.layout.directory(SEGMENT_DIR)))
    store.reindex()
    assert deep(store) == []
    with store.view() as view:
        assert {item.name for item in view.manifest.superseded} == inputs
    for name in inputs:  # what the compaction's own clean-up will do, once no manifest lists them as live
        os.unlink(store.layout.segment(name))
    after = list(store.events())
    assert after[: len(before)] == before and len(after) > len(before)
    assert deep(store) == []


# -- tmp/ ---------------------------------------------------------------------------------------------


def _stray(store: Store, name: str, age_s: float) -> Path:
    path = Path(store.layout.tmp(name))
    path.write_bytes(b"left over")
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


def test_strays_are_reported_and_are_no_damage(store: Store) -> None:
    """What a dead process left in `tmp/` is reported, and nothing is wrong because of it."""
    path = _stray(store, "pack-0123456789abcdef", 2 * DAY_S)

    found = only(deep(store))
    assert (found.path, found.damage) == (str(path), False)


def test_maintenance_sweeps_what_nobody_holds(store: Store) -> None:
    """I18, S1-61: files that Locus left in `tmp/` a day ago go; recent, foreign and lasting ones stay."""
    old = [
        _stray(store, n, 2 * DAY_S)
        for n in (
            "pack-1",
            "journal-7-ab",
            "idx-2",
            "index-3.duckdb",
            "compact-5",
            "backup-1",
            "salvage-STORE",
        )
    ]
    spill = Path(store.layout.tmp("index-3.duckdb.spill"))
    spill.mkdir()
    (spill / "part").write_bytes(b"x")
    os.utime(spill, (0, 0))
    kept = [
        _stray(store, "pack-4", DAY_S / 2),
        _stray(store, "hook-errors.log", 9 * DAY_S),
        _stray(store, "mine", 9 * DAY_S),
    ]
    maintain(store)

    assert [path for path in [*old, spill] if path.exists()] == []
    assert [path for path in kept if not path.exists()] == []


def test_every_kind_of_temporary_file_is_swept() -> None:
    """I18: whatever name the code makes in `tmp/`, a dead process's file of it goes some day."""
    made = set()
    for path in Path(eventlog.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        made |= set(re.findall(r'tmp\(f"([A-Za-z]+-)', text)) | set(
            re.findall(r'^TMP_PREFIX = "(\S+)"', text, re.M)
        )
    assert len(made) > 12
    assert [name for name in sorted(made) if not name.startswith(PREFIXES)] == []


@pytest.mark.parametrize("lock", [GC, COMPACT])
def test_nothing_is_swept_while_a_file_may_be_written(store: Store, lock: str) -> None:
    """I18: while anybody holds a lock under which temporary files are made, all of them stay."""
    path = _stray(store, "pack-1", 2 * DAY_S)
    with acquire(store.fs, store.layout, lock, exclusive=False):
        assert as_process(lambda: sweep(store.fs, store.layout)) == []
        assert path.exists()
    assert sweep(store.fs, store.layout) == [str(path)]
    assert store.fs.listdir(store.layout.directory(TMP_DIR)) == []


def test_an_unknown_level_is_a_mistake_of_the_caller(store: Store) -> None:
    """There are three levels."""
    with pytest.raises(ValueError, match="quick"):
        store.verify("deepest")
