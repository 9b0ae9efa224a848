"""Erasure: what went is nowhere, and everything else is as it was."""

import base64
import errno
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.errors import EventLogError, InvalidEvent, LockTimeout, NotFound, Refused
from eventlog.base.fs import REAL
from eventlog.base.layout import StoreFiles, condemned_name
from eventlog.base.locks import SEARCH, acquire
from eventlog.base.names import session_context, slugify
from eventlog.base.types import Event
from eventlog.blobs.catalog import load_tables
from eventlog.blobs.groups import GroupReader
from eventlog.blobs.ids import blob_id, to_text
from eventlog.blobs.pack import BLOB
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY, FILE, TreeEntry
from eventlog.erasure import erasure
from eventlog.log import quarantine
from eventlog.search import find, query
from eventlog.store import Store
from eventlog.worktree.capture import capture
from tests.blobs.support import as_process
from tests.maintenance.support import append, event, make_store
from tests.older import append_as_before
from tests.simfs import Call, SimFS

SID = "abcd1234"
CANARY = "tulipFox81zebra-Q7"


def canaries(secret: str) -> list[bytes]:
    data = secret.encode()
    whole = [data, data.lower(), data.replace(b"-", b"_").lower(), data[: len(data) // 2 + 1]]
    whole.append(whole[-1].lower())  # as an index of words spells it
    return [*whole, base64.b64encode(b"xyz" + data)[6:-6]]


def stored(root: Path) -> Iterator[tuple[str, bytes]]:
    """Every byte below the store: files as they are, and what they hold, decompressed."""
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        if not path.exists():
            continue  # SQLite removes what is beside a database when its last user leaves
        name = str(path.relative_to(root))
        data = path.read_bytes()
        yield name, name.encode() + data
        if path.suffix == ".parquet":
            yield f"{name} decoded", repr(pq.read_table(path).to_pydict()).encode()
        elif path.suffix == ".evp":
            tables = load_tables(REAL, str(path), path.stem.rpartition("-")[2], data[8:24])
            reader = GroupReader(REAL)
            for index in range(len(tables)):
                _, _, group, offset, length = tables.entry(index)
                yield f"{name} decoded", reader.read(str(path), tables.group(group).offset, offset, length)
            for number in range(tables.group_count):
                group_ = tables.group(number)
                yield f"{name} group", reader.read(str(path), group_.offset, 0, group_.raw_size)
            reader.close()
        elif path.suffix == ".sqlite":
            with closing(sqlite3.connect(path)) as con:
                con.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab('main', 'words', 'row')")
                yield f"{name} words", repr(con.execute("SELECT term FROM temp.terms").fetchall()).encode()
                for table in ("names", "spellings", "awaited", "meta"):
                    yield f"{name} {table}", repr(con.execute(f"SELECT * FROM {table}").fetchall()).encode()
        elif path.suffix == ".duckdb":
            with duckdb.connect(str(path), read_only=True) as con:
                for (table,) in con.execute("select table_name from duckdb_tables()").fetchall():
                    yield (
                        f"{name} {table}",
                        repr(con.execute(f'select columns(*)::varchar from "{table}"').fetchall()).encode(),
                    )


def looked_for(store: Store, words: str) -> int:
    """How many places `locus search` finds; the first call makes its index."""
    return len(find.search(store, query.parse(words), limit=50).hits)


def found_in(root: Path, *needles: bytes) -> list[str]:
    return [name for name, data in stored(root) for needle in needles if needle in data]


def payload_of(one: Event) -> dict[str, object]:
    assert isinstance(one["payload"], dict)
    return one["payload"]


def in_base64(text: str) -> str:
    return base64.b64encode(b"\x89PNG" + text.encode() + b"end").decode()


def put_tree(store: Store, files: dict[bytes, bytes], *events: Event, inner: bytes = b"") -> None:
    """A tree of these files, appended with events that name it."""
    with store.blobs.writer() as writer:
        ids = {name: writer.put(data) for name, data in files.items()}
        entries = [TreeEntry(name, FILE, id, len(files[name])) for name, id in ids.items()]
        if inner:
            entries = [TreeEntry(inner, DIRECTORY, writer.put_tree(entries), 0)]
        root = to_text(writer.put_tree(entries))
        writer.flush()
        store.append([{**one, "tree_hash": root, "blobs": [root]} for one in events])


def turn(number: int, session: str, title: str, text: str) -> list[Event]:
    """The beginning of a session with one turn, as the recorder writes it."""
    slug = slugify(title, session)
    context = session_context(slug, session)
    return [
        event(
            number, event_type="session", operation="start", session_id=session, context_id=context,
            title=title, payload={"title": title, "slug": slug, "started_at": "2026-01-01T00:00:00Z"},
        ),
        event(
            number + 1, event_type="turn", operation="start", session_id=session, title=title[:24],
            payload={"user_message": text, "title": title[:24]},
        ),
    ]  # fmt: skip


def ends(number: int, session: str, link: str) -> list[Event]:
    return [
        event(number, event_type="turn", operation="end", session_id=session, payload={}),
        event(
            number + 1, event_type="session", operation="end", status="closed", session_id=session, payload={}
        ),
        event(number + 2, session_id="zzzz9999", related_to=[link], payload={"link": link}),
    ]


def fill(store: Store, secret: str, *, sealed: bool = True) -> None:
    """A store in which the secret got in by every way there is, beside others that it did not touch."""
    context = session_context(slugify(f"fix {secret}", SID), SID)
    append(store, 1, 3)
    put_tree(
        store,
        {b"other": b"of another turn\n"},
        *turn(10, "eeee0000", "quiet work", "nothing here"),
        event(12, event_type="snapshot", operation="turn_end", session_id="eeee0000", payload={}),
    )
    store.append(turn(20, SID, f"fix {secret}", f"please use {secret} now"))
    store.append(
        [
            event(30, session_id=SID, tool=f"curl {secret}", cwd=f"/{secret}", branch=secret, payload={}),
            event(31, session_id=SID, payload={f"key {secret}": 1, "list": [{"deep": f'"{secret}"\n'}]}),
            event(32, session_id=SID, event_type="error", error_type=secret, path=f"p/{secret}", payload={}),
            event(33, session_id=SID, payload={"image": in_base64(secret)}),
            event(
                34, session_id=SID, context_id=f"action:editor_{secret.lower().replace('-', '_')}", payload={}
            ),
            event(35, session_id=SID, title=f"cut {secret[: len(secret) * 2 // 3]}…", payload={}),
        ]
    )
    if sealed:
        store.seal()
    body = f"KEY={secret}\n".encode()
    for version in range(3):
        put_tree(
            store,
            {
                b".env": b"v%d " % version + body,
                b"plain": b"stays %d\n" % version,
                secret.encode(): b"named\n",
            },
            event(40 + version, event_type="snapshot", operation="turn_end", session_id=SID, payload={}),
            inner=b"conf",
        )
    put_tree(
        store,
        {b"out": secret.encode("utf-16-le") * 3, b"fine": b"all well\n"},
        event(50, event_type="snapshot", operation="turn_end", session_id=SID, payload={}),
    )
    store.append(ends(60, SID, context))
    if sealed:
        store.seal()
        store.reindex()
    torn = f"torn {secret}".encode()
    for name, data in quarantine.files_of(1, 7, torn, quarantine.NEVER_ACKNOWLEDGED):
        Path(store.layout.quarantine(name)).write_bytes(data)
    Path(store.layout.live("s.calls")).write_bytes(secret.encode())
    Path(store.layout.tmp("pack-0123")).write_bytes(zlib.compress(secret.encode()))
    Path(store.layout.tmp("hook-errors.log")).write_bytes(secret.encode())
    store.append([event(70, payload={"late": f"x {secret} y"})])


def untouched(store: Store, ids: "set[str]") -> list[Event]:
    return [e for e in store.events() if e["event_id"] not in ids and e["event_type"] != "erasure"]


def test_a_secret_that_got_in_by_every_way_is_nowhere_afterwards(tmp_path: Path) -> None:
    """I30, I14, P5: not in pages, packs, index, links, names; `verify --deep` passes; others stay."""
    root = tmp_path / ".locus"
    with make_store(root) as store:
        fill(store, CANARY)
        repacked = store.repack(everything=True)
        assert repacked.condemned
        assert looked_for(store, CANARY) > 5
        assert {"words"} <= {name.split()[-1] for name in found_in(root, *canaries(CANARY))}
        plan = erasure.plan_secret(store, CANARY)
        before = untouched(store, set(plan.events))
        places = [
            (e["event_id"], e["position"], e["session_id"], e["turn"], e["seq"]) for e in store.events()
        ]
        (tmp_path / "a").mkdir()
        store.replay("eeee0000_001", tmp_path / "a")

        done = erasure.erase(store, plan, reason="it slipped through")

        assert (done.waiting, erasure.is_unfinished(store)) == (0, False)
        assert found_in(root, *canaries(CANARY)) == []
        assert (looked_for(store, CANARY), looked_for(store, "quiet") > 0) == (0, True)
        assert found_in(root, *canaries(CANARY)) == []
        assert store.verify("deep") == []
        names = {"context_id", "extends", "related_to", "redacted", "payload"}
        renamed = [e for e in untouched(store, set(plan.events)) if e["redacted"]]
        kept = {e["event_id"] for e in renamed} | {f"{40 + version:032x}" for version in range(3)}
        assert [e for e in before if e["event_id"] not in kept] == [
            e for e in untouched(store, set(plan.events)) if e["event_id"] not in kept
        ]
        by_id = {e["event_id"]: e for e in before}
        for one in renamed:
            assert {n for n in one if one[n] != by_id[one["event_id"]][n]} <= names
        with_names = [
            e for e in untouched(store, set(plan.events)) if e["event_id"] in kept and not e["redacted"]
        ]
        for one in with_names:  # other trees have marks for the names in these
            assert {n for n in one if one[n] != by_id[one["event_id"]][n]} == {"tree_hash", "blobs"}
        now = [(e["event_id"], e["position"], e["session_id"], e["turn"], e["seq"]) for e in store.events()]
        assert now[: len(places)] == places
        store.replay("eeee0000_001", tmp_path / "b")
        assert (tmp_path / "b/other").read_bytes() == (tmp_path / "a/other").read_bytes()
        report = store.replay(f"{SID}_001", tmp_path / "c")
        assert [path for path, why in report.missing if "erased on" in why] == [b"out"]
        assert (tmp_path / "c/fine").read_bytes() == b"all well\n"
        store.reindex()
        assert store.verify("deep") == []


def test_a_name_goes_from_the_cache_of_a_directory_too(tmp_path: Path) -> None:
    """I30: what proves that files are unchanged holds their names; it goes with the trees that hold one."""
    root, work = tmp_path / ".locus", tmp_path / "work"
    work.mkdir()
    (work / CANARY).write_text("nothing")
    with make_store(root) as store:
        with store.blobs.writer() as writer:
            capture(writer, str(work))
        assert any("statcache" in where for where in found_in(root, CANARY.encode()))

        erasure.erase(store, erasure.plan_secret(store, CANARY))

        assert found_in(root, *canaries(CANARY)) == []


def test_an_erasure_waits_for_a_process_that_indexes_for_a_search(tmp_path: Path) -> None:
    """I30, I32: what an indexer has read is removed after it ends; until then the erasure is unfinished."""
    with make_store(tmp_path / ".locus") as store:
        fill(store, CANARY)
        with ThreadPoolExecutor(1) as another:
            lock = another.submit(acquire, store.fs, store.layout, SEARCH).result()
            with pytest.raises(LockTimeout):
                erasure.erase(store, erasure.plan_secret(store, CANARY), lock_timeout_s=0.1)
            another.submit(lock.release).result()
        assert erasure.is_unfinished(store)
        others = looked_for(store, "quiet")
        erasure.resume(store)

        assert (erasure.is_unfinished(store), others > 0) == (False, True)
        left = found_in(tmp_path / ".locus", *canaries(CANARY))
        assert [name for name in left if name.startswith(("index/", "log/segments/", "snapshots/"))] == []


def test_an_erasure_is_not_done_because_its_mark_could_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I30, I35: a disk that cannot say whether an erasure is unfinished is an error, and not a no."""
    with make_store(tmp_path / ".locus") as store:
        fill(store, CANARY)
        mark, lstat, exists = store.layout.erasing, type(store.fs).lstat, type(store.fs).exists

        def failing(fs: object, path: str) -> os.stat_result:
            if path == mark:
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            return lstat(fs, path)

        monkeypatch.setattr(type(store.fs), "lstat", failing)
        monkeypatch.setattr(type(store.fs), "exists", lambda fs, path: path != mark and exists(fs, path))
        with pytest.raises(EventLogError, match="not finished"):
            erasure.erase(store, erasure.plan_secret(store, CANARY))
        monkeypatch.undo()
        assert erasure.is_unfinished(store)
        assert erasure.resume(store).events > 0


LETTERS = st.characters(min_codepoint=33, max_codepoint=0x17F, categories=("Lu", "Ll", "Nd", "Po", "Sm"))


@settings(max_examples=8, deadline=None)
@given(secret=st.text(LETTERS, min_size=8, max_size=24).filter(lambda s: sum(c.isalnum() for c in s) > 5))
def test_any_text_can_be_erased(tmp_path_factory: pytest.TempPathFactory, secret: str) -> None:
    """I30: whatever signs it is made of, as it is and as JSON spells it."""
    secret = f"Zq{secret}"  # not what ids are made of
    root = tmp_path_factory.mktemp("any") / ".locus"
    with make_store(root) as store:
        store.append(
            [event(1, payload={"said": f"<{secret}>", secret: [secret]}), event(2, title=f"«{secret}»")]
        )
        with store.blobs.writer() as writer:
            id = writer.put(f'{{"k": "{secret}"}}'.encode())
            writer.flush()
            store.append([event(3, after_hash=to_text(id), blobs=[to_text(id)], event_type="file")])
        erasure.erase(store, erasure.plan_secret(store, secret))
        assert found_in(root, secret.encode(), json.dumps(secret)[1:-1].encode()) == []
        assert store.verify("deep") == []
        assert [str(e["event_id"])[-1] for e in store.events() if e["redacted"]] == ["1", "2"]


def test_what_was_erased_is_not_recorded_again(tmp_path: Path) -> None:
    """P5: a later append or capture takes it out, by what the store knows of it, which is not the text."""
    root = tmp_path / "work/.locus"
    (tmp_path / "work").mkdir()
    with make_store(root) as store:
        store.append([event(1, payload={"x": CANARY})])
        erasure.erase(store, erasure.plan_secret(store, CANARY))
    (tmp_path / "work/.env").write_text(f"KEY={CANARY}\n")
    (tmp_path / "work/plain").write_text("plain\n")
    with Store.open(str(root)) as store:
        for number in (2, 3):  # the second by what the stat cache knows
            with store.blobs.writer() as writer:
                tree = to_text(capture(writer, str(tmp_path / "work")).root)
                fields = {"tree_hash": tree, "blobs": [tree], "payload": {"x": f"={CANARY};"}}
                store.append(
                    [
                        event(
                            number,
                            event_type="snapshot",
                            operation="turn_end",
                            session_id=SID,
                            turn=1,
                            **fields,
                        )
                    ]
                )
        assert [e["redacted"] for e in store.events(1) if e["event_type"] == "snapshot"] == [True, True]
        report = store.replay(f"{SID}_001", tmp_path / "out")
        assert [(path, "was not stored again" in why) for path, why in report.missing] == [(b".env", True)]
        assert (tmp_path / "out/plain").read_bytes() == b"plain\n"
        id = to_text(blob_id((tmp_path / "work/.env").read_bytes()))
        with pytest.raises(NotFound, match="was not stored again"):
            store.blob(id)
        assert store.verify("deep") == []
    assert found_in(root, CANARY.encode()) == []


def test_an_expression_takes_out_all_that_it_matches(tmp_path: Path) -> None:
    """I30: `/expression/` in events and contents, now and later."""
    root = tmp_path / ".locus"
    with make_store(root) as store:
        store.append([event(n, payload={"x": f"id acme-{n:06d} of it"}) for n in range(1, 4)])
        erasure.erase(store, erasure.plan_secret(store, "/acme-[0-9]{6}/"))
        store.append([event(9, title="acme-123456")])
        assert found_in(root, b"acme-0", b"acme-1") == []
        assert [str(e["event_id"])[-1] for e in store.events() if e["redacted"]] == list("1239")
        with pytest.raises(InvalidEvent, match="no regular expression"):
            erasure.plan_secret(store, "/(/")
        with pytest.raises(InvalidEvent, match="needs 6 bytes"):
            erasure.plan_secret(store, "abc")


def test_an_event_loses_its_texts_and_keeps_its_place(tmp_path: Path) -> None:
    """I30, I14: payload and texts go, ids, position, times and figures stay; contents of others stay."""
    root = tmp_path / ".locus"
    with make_store(root) as store:
        with store.blobs.writer() as writer:
            own, shared = (to_text(writer.put(data)) for data in (b"only here HIDDEN\n", b"shared\n"))
            writer.flush()
            store.append(
                [
                    event(1, blobs=[shared]),
                    event(
                        2,
                        blobs=[own, shared],
                        tool="t HIDDEN",
                        duration_ms=7,
                        payload={"text": "HIDDEN"},
                        session_id=SID,
                    ),
                ]
            )
        before = list(store.events())
        plan = erasure.plan_events(store, [f"{2:032x}"])
        assert (len(plan.contents), plan.shared) == (1, 1)
        erasure.erase(store, plan)
        after = list(store.events(0, 2))
        assert after[0] == before[0]
        (listed,) = [e for e in store.events(event_types=("erasure",)) if e["operation"] == "start"]
        assert after[1]["payload"] == {"erased": payload_of(listed)["erasure"]}
        assert (after[1]["tool"], after[1]["duration_ms"], after[1]["redacted"]) == (None, 7, True)
        assert after[1]["context_id"] == before[1]["context_id"]
        assert store.blob(shared) == b"shared\n"
        with pytest.raises(NotFound, match="erased on"):
            store.blob(own)
        assert found_in(root, b"HIDDEN") == []
        assert store.verify("deep") == []
        with pytest.raises(Refused, match="keeps its books"):
            erasure.plan_events(store, [str(listed["event_id"])])


def test_a_session_goes_with_what_only_it_named(tmp_path: Path) -> None:
    """I30: all its texts, its slug, and contents that no other session needs; an active one is refused."""
    root = tmp_path / ".locus"
    with make_store(root) as store:
        store.append(turn(1, SID, "secret plan of mine", "secret words"))
        put_tree(
            store,
            {b"a": b"secret file\n", b"b": b"in both\n"},
            event(3, event_type="snapshot", operation="turn_end", session_id=SID, payload={}),
        )
        put_tree(
            store,
            {b"b": b"in both\n"},
            *turn(10, "eeee0000", "other work", "other"),
            event(12, event_type="snapshot", operation="turn_end", session_id="eeee0000", payload={}),
        )
        with pytest.raises(Refused, match="active"):
            erasure.plan_session(store, SID)
        store.append(ends(20, SID, session_context(slugify("secret plan of mine", SID), SID)))
        erasure.erase(store, erasure.plan_session(store, SID))
        assert found_in(root, b"secret") == []
        assert store.verify("deep") == []
        store.replay("eeee0000_001", tmp_path / "out")
        assert (tmp_path / "out/b").read_bytes() == b"in both\n"
        assert store.query("select count(*) from events where session_id = $1", [SID]).rows == [(5,)]


def test_a_path_goes_in_all_its_versions(tmp_path: Path) -> None:
    """I30: contents of trees and file events at a path; a replay lists the file as erased."""
    root = tmp_path / ".locus"
    with make_store(root) as store:
        for version in range(3):
            put_tree(
                store,
                {b".env": b"HIDDEN %d\n" % version, b"plain": b"stays\n"},
                *(turn(1, SID, "work on it", "words") if version == 0 else ()),
                event(10 + version, event_type="snapshot", operation="turn_end", session_id=SID, payload={}),
                inner=b"conf",
            )
        with store.blobs.writer() as writer:
            after = to_text(writer.put(b"HIDDEN edit\n"))
            writer.flush()
            fields = {"after_mode": "100644", "after_size": 12, "diff": "+HIDDEN"}
            store.append(
                [
                    event(
                        20,
                        event_type="file",
                        operation="edit",
                        path="conf/.env",
                        session_id=SID,
                        after_hash=after,
                        blobs=[after],
                        payload=fields,
                    )
                ]
            )
            wrote = event(21, session_id=SID, tool="Write", path="conf/.env", payload={"input": "HIDDEN too"})
            moved = event(
                22, event_type="file", operation="rename", path="b", payload={"old_path": "conf/.env"}
            )
            store.append([wrote, moved])
        plan = erasure.plan_path(store, "conf/.env")
        assert (len(plan.contents), list(plan.events)) == (4, [f"{n:032x}" for n in (20, 21, 22)])
        erasure.erase(store, plan)
        assert found_in(root, b"HIDDEN") == []
        assert store.verify("deep") == []
        assert payload_of(store.event(f"{22:032x}"))["old_path"] == "conf/.env"
        report = store.replay(f"{SID}_001", tmp_path / "out")
        assert [(path, "erased on" in why) for path, why in report.missing] == [(b"conf/.env", True)]
        assert (tmp_path / "out/conf/plain").read_bytes() == b"stays\n"
        with pytest.raises(NotFound):
            erasure.plan_path(store, "nowhere")


def test_a_reader_keeps_its_view_and_the_erasure_waits_for_it(tmp_path: Path) -> None:
    """I17, I30, I32: a pinned view reads on to its end; then the rest goes, by `resume`."""
    root = tmp_path / ".locus"
    with make_store(root) as store, Store.open(str(root)) as other:
        store.append([event(1, payload={"x": CANARY})])
        store.seal()
        store.append([event(2, payload={"x": CANARY})])
        view = other.view()
        done = erasure.erase(store, erasure.plan_secret(store, CANARY))
        assert done.waiting and erasure.is_unfinished(store)
        assert [CANARY in str(row["payload"]) for row in view.iterate()] == [True, True]
        assert [CANARY in str(row["payload"]) for row in store.events(0, 2)] == [False, False]
        assert erasure.resume(store).waiting
        view.close()
        assert erasure.resume(store).waiting == 0
        assert not erasure.is_unfinished(store)
        assert found_in(root, CANARY.encode()) == []
        assert store.verify("deep") == []
        assert [e["operation"] for e in store.events(event_types=("erasure",))] == [
            "start",
            "rewritten",
            "end",
        ]


def test_a_follower_goes_on(tmp_path: Path) -> None:
    """I6, I14: who follows meets each event once, beside an erasure as without."""
    with make_store(tmp_path / ".locus") as store, Store.open(str(tmp_path / ".locus")) as other:
        append(store, 1, 4)
        follower = other.follow(timeout_s=0.0, poll_s=0.0)
        first = next(follower)["event_id"]
        erasure.erase(store, erasure.plan_events(store, [f"{2:032x}"]))
        seen = [first, *(e["event_id"] for e in follower)]
        assert seen[:4] == [f"{n:032x}" for n in range(1, 5)]
        assert len(seen) == len(set(seen)) == 7


def test_a_content_that_is_stored_again_meanwhile_goes_too() -> None:
    """I30: a merge of another process, or a capture, may give an erased content a new pack on the way."""
    fs = SimFS()
    with make_store("/.locus", fs) as store:
        with store.blobs.writer() as writer:
            gone, kept = writer.put(f"a {CANARY}".encode()), writer.put(b"kept\n")
            writer.flush()
        store.append([event(1, blobs=[to_text(gone), to_text(kept)])])
        plan = erasure.plan_secret(store, CANARY)
        again = [2]

        def store_again(call: Call) -> None:
            if call.name == "link" and "/packs/" in str(call.args[1]) and again[0]:
                again[0] -= 1
                keep, fs.before = fs.before, None
                as_process(merge)
                fs.before = keep

        def merge() -> None:
            more = b"%d" % again[0]
            with (
                BlobStore(StoreFiles(fs, store.layout, store.identity.store_id)) as blobs,
                blobs.writer() as writer,
            ):
                writer.add_copy(gone, BLOB, f"a {CANARY}".encode())
                writer.add_copy(kept, BLOB, b"kept\n")
                writer.add_copy(blob_id(more), BLOB, more)
                writer.flush()

        fs.before = store_again
        erasure.erase(store, plan)
        fs.before = None

        assert again == [0]
        assert not store.blobs.contains(gone) and store.blobs.get(kept) == b"kept\n"
        assert store.verify("read") == []


def test_an_event_may_name_what_is_no_hash(tmp_path: Path) -> None:
    """I11, S1-61: what another program wrote into a column of hashes keeps nothing from being erased."""
    with make_store(tmp_path / ".locus") as store:
        append_as_before(store, [event(1, event_type="snapshot", tree_hash="blake3:02", blobs=["sha256:1"])])
        append_as_before(store, [event(2, event_type="snapshot", tree_hash="blake3:xx")])
        erasure.erase(store, erasure.plan_events(store, [f"{1:032x}"]))

        one, two = (e for e in store.events() if e["event_type"] == "snapshot")
        assert "number" not in str(one["payload"])
        assert (two["payload"], two["tree_hash"]) == (event(2)["payload"], "blake3:xx")


def test_a_condemned_pack_goes_at_once_and_what_else_it_holds_stays(tmp_path: Path) -> None:
    """I24, I30: a day's grace is for what may be needed, not for what was erased."""
    root = tmp_path / ".locus"
    with make_store(root) as store:
        with store.blobs.writer() as writer:
            gone, kept = writer.put(f"a {CANARY}".encode()), writer.put(b"needed all the same\n")
            name = writer.flush()
        assert name is not None
        store.append([event(1, blobs=[to_text(gone), to_text(kept)])])  # which would bring it back
        os.rename(store.layout.pack(name), store.layout.condemned(condemned_name(int(time.time()), name)))
        erasure.erase(store, erasure.plan_secret(store, CANARY))
        assert store.blob(to_text(kept)) == b"needed all the same\n"
        assert found_in(root, CANARY.encode()) == []


_KILLED = """
import sys
from eventlog.store import Store
from eventlog.erasure import erasure
with Store.open(sys.argv[1]) as store:
    plan = erasure.plan_secret(store, sys.argv[2])
    print("ready", flush=True)
    erasure.erase(store, plan)
"""


@pytest.mark.parametrize("seed", range(4))
def test_an_erasure_that_was_killed_is_finished(tmp_path: Path, seed: int) -> None:
    """I30, I32: killed at any moment the store verifies; resumed, or repeated, the secret is nowhere."""
    random_ = random.Random(seed)
    root = tmp_path / ".locus"
    with make_store(root) as store:
        fill(store, CANARY)
        before = [e["event_id"] for e in store.events()]
    command = [sys.executable, "-c", _KILLED, str(root), CANARY]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(random_.random() * 0.4)
        process.send_signal(signal.SIGKILL)
    with Store.open(str(root)) as store:
        assert [f for f in store.verify("deep") if f.damage] == []
        assert [e["event_id"] for e in store.events()][: len(before)] == before
        if random_.random() < 0.5:
            erasure.resume(store)
        if not (plan := erasure.plan_secret(store, CANARY)).is_empty or erasure.is_unfinished(store):
            erasure.erase(store, plan)
        assert found_in(root, *canaries(CANARY)) == []
        assert store.verify("deep") == []
        assert [e["event_id"] for e in store.events()][: len(before)] == before


def test_nothing_is_erased_beside_an_unfinished_restore(tmp_path: Path) -> None:
    """I32: a restore may need what would go; it is finished first."""
    with make_store(tmp_path / ".locus") as store:
        store.append([event(1, payload={"x": CANARY})])
        Path(store.layout.restore(1)).write_bytes(b"{}")
        with pytest.raises(Refused):
            erasure.erase(store, erasure.plan_secret(store, CANARY))
        assert next(store.events())["payload"] == {"x": CANARY}
