"""Lines of changes, counted from their contents where the events do not state them."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog import Recorder, multi_store
from eventlog.blobs.ids import blob_id, to_text
from eventlog.replay import line_counts
from eventlog.replay.linediff import line_diff
from eventlog.store import Store
from tests.older import append_as_before

OF_FILES = (
    "select path, operation, lines_added, lines_removed from files "
    "where operation <> 'read' order by position"
)

Row = tuple[Any, ...]


def put(store: Store, *contents: bytes) -> list[str]:
    with store.blobs.writer() as writer:
        ids = [to_text(writer.put(content)) for content in contents]
        writer.flush()
    return ids


def change(
    path: str, operation: str, before: str | None = None, after: str | None = None, **more: Any
) -> dict[str, Any]:
    hashes = [one for one in (before, after) if one is not None]
    columns = {"before_hash": before, "after_hash": after, "blobs": hashes}
    return {"event_type": "file", "path": path, "operation": operation, **columns, **more}


def rows(store: Store, sql: str = OF_FILES) -> list[Row]:
    return store.query(sql).rows


def put_away(store: Store) -> None:
    shutil.rmtree(store.layout.directory("index"), ignore_errors=True)


def test_each_kind_of_change_has_its_lines(store: Store) -> None:
    """S1-31, P7: all lines of a new or a deleted file, those that differ otherwise; null where unknown."""
    one, two, binary, empty = put(store, b"a\nb\nc", b"a\nB\nc\nd\n", b"\0", b"")
    append_as_before(
        store,
        [
            change("new", "add", after=one),
            change("edited", "edit", one, two),
            change("gone", "delete", one),
            change("moved", "rename", one, two, payload={"old_path": "from"}),
            change("same", "rename", binary, binary, payload={"old_path": "from"}),
            change("empty", "add", after=empty),
            change("link", "type", one, two),
            change("binary", "edit", one, binary),
            change("stated", "edit", one, two, lines_added=7, lines_removed=9),
            change("read", "read", one, one),
            change("was not seen before", "edit", None, one),
            change("deferred", "edit", one, None),
            change("lost", "edit", one, to_text(blob_id(b"nowhere"))),
            change("directory", "add", payload={"after_mode": "040000"}),
        ],
    )
    wanted = {
        "new": (3, 0), "edited": (3, 2), "gone": (0, 3), "moved": (3, 2), "same": (0, 0), "empty": (0, 0),
        "link": (4, 3), "binary": (None, None), "stated": (7, 9), "was not seen before": (None, None),
        "deferred": (None, None), "lost": (None, None), "directory": (None, None),
    }  # fmt: skip
    assert {path: tuple(counts) for path, _, *counts in rows(store)} == wanted
    versions = rows(store, OF_FILES.replace("files", "file_versions"))
    assert {path: tuple(counts) for path, _, *counts in versions} == wanted
    assert [(v.lines_added, v.lines_removed) for v in store.history("link")] == [(4, 3)]
    # What was written is in `events`.
    assert rows(store, "select path from events where lines_added is not null") == [("stated",)]


_LINE = st.sampled_from([b"a\n", b"b\n", b"c\n", b"\0\n", b"d"])
_TEXT = st.none() | st.lists(_LINE, max_size=6).map(b"".join)


class _Contents(dict[bytes, bytes]):
    """Contents by their ids, as a count asks for them."""

    def locations(self, ids: tuple[bytes, ...]) -> dict[bytes, tuple[int]]:
        return {id: (len(self[id]),) for id in ids}

    def get(self, id: bytes) -> bytes:  # type: ignore[override]
        return self[id]


@given(_TEXT, _TEXT)
def test_counts_are_those_of_the_diff(before: bytes | None, after: bytes | None) -> None:
    """S1-31: a count equals what `locus diff` says of the same contents, and is null for what is no text."""
    contents = _Contents({blob_id(text): text for text in (before, after) if text is not None})
    pair = *(None if text is None else to_text(blob_id(text)) for text in (before, after)), False
    found = line_counts.count(contents, pair)  # type: ignore[arg-type]
    if before == after:
        assert found == (0, 0)
    elif b"\0" in (before or b"") + (after or b""):
        assert found is None
    else:
        lines = line_diff(before or b"", after or b"")
        assert found == (lines.added, lines.removed)


@pytest.mark.parametrize("kept", [True, False])
def test_sealing_an_index_and_kept_counts_change_no_count(store: Store, kept: bool) -> None:
    """I14, I19, I21, I22: and neither does losing them."""
    one, two, three = put(store, b"1\n", b"1\n2\n", b"\0")
    store.append([change("a", "add", after=one), change("b", "edit", one, three)])
    store.seal()
    store.rebuild()
    store.append([change("a", "edit", one, two), change("c", "delete", two)])
    wanted = [("a", "add", 1, 0), ("b", "edit", None, None), ("a", "edit", 1, 0), ("c", "delete", 0, 2)]
    if kept:
        store.count_lines()
    assert rows(store) == wanted
    store.seal()
    assert rows(store) == wanted
    store.reindex()
    assert rows(store) == wanted
    for _ in range(2):
        with Store.open(store.layout.root) as again:
            assert rows(again) == wanted
        put_away(store)


def test_kept_counts_are_not_counted_again_and_others_go(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I22: what maintenance has counted is read; a damaged file of counts is as good as none."""
    one, two, three = put(store, b"1\n", b"1\n2\n", b"\0")
    store.append([change("a", "edit", one, two), change("b", "add", after=three)])
    assert store.count_lines() == 2
    path = Path(store.layout.index(line_counts.NAME))
    whole = path.read_bytes()
    assert os.stat(path).st_mode & 0o777 == 0o600
    counted = []
    true_count = line_counts.count

    def count(blobs: Any, pair: Any) -> Any:
        counted.append(pair)
        return true_count(blobs, pair)

    monkeypatch.setattr(line_counts, "count", count)
    with Store.open(store.layout.root) as again:
        assert rows(again) == [("a", "edit", 1, 0), ("b", "add", None, None)]
        assert (again.count_lines(), counted, path.read_bytes()) == (0, [], whole)
    for damaged in (b"", whole[:-1], whole[:40] + bytes([whole[40] ^ 1]) + whole[41:], b"x" + whole):
        path.write_bytes(damaged)
        with Store.open(store.layout.root) as again:
            assert rows(again) == [("a", "edit", 1, 0), ("b", "add", None, None)]
            assert again.count_lines() == 2
        assert path.read_bytes() == whole
    assert len(counted) == 8


def test_a_content_that_comes_later_is_counted_then(store: Store) -> None:
    """P7, I19, I21: a content that is not there yet is unknown, and nobody remembers that."""
    append_as_before(store, [change("a", "add", after=to_text(blob_id(b"late\n")))])
    store.count_lines()
    assert rows(store) == [("a", "add", None, None)]
    put(store, b"late\n")
    assert rows(store) == [("a", "add", 1, 0)]


def test_large_contents_are_not_split(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A content beyond the limit counts as binary."""
    monkeypatch.setattr(line_counts, "CONTENT_MAX", 4)
    small, large = put(store, b"a\nb\n", b"a\nb\nc")
    store.append([change("s", "add", after=small), change("l", "add", after=large)])
    assert rows(store) == [("s", "add", 2, 0), ("l", "add", None, None)]


def test_erasing_a_content_forgets_its_lines(store: Store) -> None:
    """P5: nothing that was counted of an erased content is left."""
    from eventlog.erasure import erasure

    turn = Recorder(store, agent="probe").start_turn("Write")
    turn.file("secret.txt", before=None, after=b"the word is xylophone\n")
    turn.end()
    store.count_lines()
    path = store.layout.index(line_counts.NAME)
    assert os.path.exists(path)
    erasure.erase(store, erasure.plan_secret(store, "the word is xylophone"))
    assert not os.path.exists(path)


def test_several_stores_count_alike(tmp_path: Path) -> None:
    """I21: one question to two stores has the lines of both."""
    paths = []
    for name, text in (("first", b"1\n"), ("second", b"1\n2\n")):
        (tmp_path / name).mkdir()
        with Store.init(tmp_path / name / ".locus", repo_hash="0123456789ab") as store:
            store.append([change("a", "add", after=put(store, text)[0])])
            paths.append(store.layout.root)
    with multi_store.opened(paths) as opened:
        asked = multi_store.query(opened, "select sum(lines_added)::int from files group by store order by 1")
    assert asked.rows == [(1,), (2,)]


def test_a_change_names_the_call_that_caused_it(store: Store) -> None:
    """S1-31: `tool` and `tool_use_id` of a change are those of its cause; what it states itself holds."""
    call = {"event_id": "c" * 32, "event_type": "action", "tool": "Bash", "tool_use_id": "toolu_1"}
    begun = {"event_id": "d" * 32, "event_type": "tool_start", "tool": "Write", "tool_use_id": "toolu_2"}
    content = put(store, b"1\n")[0]
    store.append(
        [
            call,
            begun,
            change("a", "add", after=content, cause="c" * 32),
            change("b", "add", after=content, cause="d" * 32),
            change("c", "add", after=content, cause="c" * 32, tool="Edit", tool_use_id="toolu_9"),
            change("d", "add", after=content, cause="e" * 32),
            change("e", "add", after=content),
        ]
    )
    wanted = [
        ("a", "Bash", "toolu_1"), ("b", "Write", "toolu_2"), ("c", "Edit", "toolu_9"),
        ("d", None, None), ("e", None, None),
    ]  # fmt: skip
    ask = "select path, tool, tool_use_id from files order by position"
    assert rows(store, "select count(*) from files") == [(5,)]  # the connection that is kept knows no calls
    assert rows(store, ask) == wanted
    store.seal()
    assert rows(store, ask.replace("files", "file_versions")) == wanted
