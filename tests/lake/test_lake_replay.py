"""`locus lake replay`: a turn of a store that is gone, from the objects alone (docs/lake.md §7)."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from eventlog import Store
from eventlog.lake import chain
from eventlog.lake.packs import read_tables
from eventlog.lake.place import Place
from eventlog.lake.replay import find_published_turn, published_tree
from tests.cli.conftest import _recorded_once, copied
from tests.cli.support import Ended, Locus, Recorded
from tests.lake.conftest import S3Server
from tests.lake.published import CountedPlace, listing, publish_contents, recorded
from tests.replay.test_deferred import deferring, object_of
from tests.secrets_made import made
from tests.worktree.support import git

__all__ = ["_recorded_once", "copied"]

ODD = {
    "README.md": b"hello\n",
    "empty": b"",
    "src/main.py": b"print()\n",
    "src/deep/er/still/x": bytes(range(256)) * 40,
    "name with blank": b"1",
    "new\nline": b"2",
    "naïve-\u2603": b"3",
    "-rf": b"4",
    os.fsdecode(b"not-utf8-\xff\xfe"): b"5",
}


def odd_files(work: Path) -> None:
    """Names, modes and links that a checkout may get wrong."""
    work.mkdir()
    for name, content in ODD.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (work / "run").write_bytes(b"#!/bin/sh\n")
    (work / "run").chmod(0o755)
    (work / "private").write_bytes(b"mine")
    (work / "private").chmod(0o600)
    os.symlink("src/main.py", work / "link")
    os.symlink(b"../nowhere/\xff", os.fsencode(work / "dangling"))
    (work / "hollow").mkdir()


def gone(store: Store) -> None:
    """Close a store and delete it."""
    store.close()
    shutil.rmtree(store.layout.root)


def reasons(done: Ended) -> "dict[str, str]":
    """Path and reason of what `--json` lists as missing."""
    return {item["path"]: item["reason"] for item in json.loads(done.text)["missing"]}


def test_a_turn_of_a_store_that_is_gone(place: Place, tmp_path: Path, locus: Locus) -> None:
    """The end and the start of each turn are what `locus replay` wrote while the store was there (P1)."""
    odd_files(tmp_path / "work")
    store = recorded(tmp_path / "work", {}, {"src/main.py": b"print(2)\n", "empty": None})
    publish_contents(locus, store, place)
    session = store.turn("last").session_id
    cases = [("001", "end"), ("002", "end"), ("002", "start")]
    for number, at in cases:
        turn, target = f"{session}_{number}", tmp_path / f"own{number}{at}"
        done = locus("--store", store.layout.root, "replay", turn, "--at", at, "--to", target)
        assert done.code == 0, done.err
    gone(store)
    for number, at in cases:
        own, target = tmp_path / f"own{number}{at}", tmp_path / f"lake{number}{at}"
        done = locus("lake", "replay", place.uri, f"{session}_{number}", "--at", at, "--to", target)
        assert done.code == 0, done.err + done.text
        assert listing(target) == listing(own)
        diff = ["diff", "-r", "--no-dereference", str(target), str(own)]
        assert subprocess.run(diff, capture_output=True, check=False).stdout == b""
    written = listing(tmp_path / "lake001end")
    assert len(written) >= len(ODD) + 4
    assert {written["run"][0], written["private"][0]} == {0o755, 0o600}


def test_contents_of_several_publications(place: Place, tmp_path: Path, locus: Locus) -> None:
    """Each publication brings a pack with what is new; a turn of the last needs them all."""
    (tmp_path / "work").mkdir()
    store = recorded(tmp_path / "work", {f"f{n}": b"%d" % n * 100 for n in range(20)})
    for number in range(4):
        publish_contents(locus, store, place)
        recorded(tmp_path / "work", {f"f{number}": b"changed", f"new{number}": b"n%d" % number}, store=store)
    publish_contents(locus, store, place)
    names = place.list(f"{chain.prefix_of(store.blobs.store_id)}/packs")
    assert len(names) == 5
    store_id = store.blobs.store_id.hex()
    locus("--store", store.layout.root, "replay", "last", "--to", tmp_path / "own")
    gone(store)
    done = locus("lake", "replay", place.uri, "last", "--to", tmp_path / "lake", "--json")
    assert done.code == 0, done.err
    assert listing(tmp_path / "lake") == listing(tmp_path / "own") == listing(tmp_path / "work")
    answer = json.loads(done.text)
    assert answer["store"] == store_id and answer["files"] == 24 and answer["certainty"]["state"] == "exact"


def test_a_recorded_history(file_place: Place, copied: Recorded, tmp_path: Path, locus: Locus) -> None:
    """Commits of git are turns too; `git:COMMIT`, paths and `--force` are as in `locus replay`."""
    with Store.open(copied.root / ".locus") as store:
        publish_contents(locus, store, file_place)
    for number, commit in enumerate(copied.commits):
        own, target = tmp_path / f"own{number}", tmp_path / f"lake{number}"
        name = f"git:{commit[:12]}"
        expected = locus("replay", name, "--to", own)
        done = locus("lake", "replay", file_place.uri, name, "--to", target)
        assert done.code == expected.code, done.err + done.text
        assert listing(target) == listing(own)
    path = sorted(name for name, (_, content) in listing(own).items() if content)[0]
    refused = locus("lake", "replay", file_place.uri, name, path, "--to", target)
    assert refused.code == 3 and "is not empty" in refused.err
    (target / path).write_text("mine")
    assert locus("lake", "replay", file_place.uri, name, path, "--to", target, "--force").code == 0
    assert (target / path).read_bytes() == (own / path).read_bytes()


def test_a_moment_within_a_turn(file_place: Place, tmp_path: Path, locus: Locus) -> None:
    """`--at EVENT` takes the beginning of the id of an event of the turn."""
    (tmp_path / "work").mkdir()
    store = recorded(tmp_path / "work", {"a": b"1"}, {"a": b"2"})
    publish_contents(locus, store, file_place)
    events = [event["event_id"] for event in store.timeline("last") if event["event_type"] == "snapshot"]
    gone(store)
    target = tmp_path / "first"
    done = locus("lake", "replay", file_place.uri, "last", "--at", events[0][:10], "--to", target)
    assert done.code == 0, done.err
    assert (target / "a").read_bytes() == b"1"
    done = locus("lake", "replay", file_place.uri, "last", "--at", "ffffffff", "--to", tmp_path / "none")
    assert done.code == 1 and "has no event whose id begins" in done.err


def test_many_files_need_few_requests(s3_place: Place, s3: S3Server, tmp_path: Path, locus: Locus) -> None:
    """A turn of 600 files in 30 directories: one read of the pack's end, and a few GETs for all trees and all
    files, whatever their number (P6)."""
    (tmp_path / "work").mkdir()
    files = {f"d{n % 30}/e{n % 3}/f{n}.txt": b"%d\n" % n * (n % 50) for n in range(600)}
    store = recorded(tmp_path / "work", files)
    publish_contents(locus, store, s3_place)
    gone(store)
    counted = CountedPlace(s3_place)
    s3.reset()
    with published_tree(find_published_turn(counted, "last")) as state:
        report = state.materialize(str(tmp_path / "out"))
    counts = s3.counts()
    assert report.files == 600 and not report.missing
    assert len(counted.ends) == 1
    assert len(counted.ranges) <= 3
    assert counts["requests"]["GET"] <= 12, counts


def test_withheld_contents_are_listed(file_place: Place, tmp_path: Path, locus: Locus) -> None:
    """A content that holds a secret never left: it is named as missing, all else is there, exit code 4."""
    (tmp_path / "work").mkdir()
    secret = made()["github"].encode()
    store = recorded(tmp_path / "work", {"fine": b"fine", "d/key": secret})
    assert store.withheld()
    publish_contents(locus, store, file_place)
    gone(store)
    done = locus("lake", "replay", file_place.uri, "last", "--to", tmp_path / "out", "--json")
    assert done.code == 4
    assert reasons(done).keys() == {"d/key"}
    assert "is withheld" in reasons(done)["d/key"]
    assert (tmp_path / "out/fine").read_bytes() == b"fine"
    objects = [path.read_bytes() for path in (tmp_path / "shared").rglob("*") if path.is_file()]
    assert not any(secret in data for data in objects)


def test_what_only_git_held_comes_from_a_clone(
    file_place: Place, tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A content that was left to git is byte-exact where the current directory is a clone with it, and is
    named where not (P1)."""
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    store = Store.init(work / ".locus", repo_hash="0123456789ab", project_name="p", force=True)
    turn, _ = deferring(store, a=object_of(work, b"held by git\n"))
    publish_contents(locus, store, file_place)
    gone(store)
    monkeypatch.chdir(work)
    done = locus("lake", "replay", file_place.uri, turn, "--to", tmp_path / "in")
    assert done.code == 0, done.err + done.text
    assert (tmp_path / "in/a").read_bytes() == b"held by git\n"
    assert (tmp_path / "in/kept").read_bytes() == b"kept\n"
    monkeypatch.chdir(tmp_path)
    done = locus("lake", "replay", file_place.uri, turn, "--to", tmp_path / "out", "--json")
    assert done.code == 4
    assert reasons(done).keys() == {"a"} and "git" in reasons(done)["a"]
    assert listing(tmp_path / "out").keys() == {"kept"}


def test_an_erased_content_is_gone(file_place: Place, tmp_path: Path, locus: Locus) -> None:
    """After an erasure was published, its file is listed as missing and the turn's other files come (I30)."""
    (tmp_path / "work").mkdir()
    store = recorded(tmp_path / "work", {"a": b"stays", "b": b"regretted" * 9})
    publish_contents(locus, store, file_place)
    own = ("--store", store.layout.root)
    assert locus(*own, "store", "erase", "--path", "b", "--yes").code == 0
    publish_contents(locus, store, file_place)
    gone(store)
    done = locus("lake", "replay", file_place.uri, "last", "--to", tmp_path / "out", "--json")
    assert done.code == 4
    assert reasons(done).keys() == {"b"} and "was erased" in reasons(done)["b"]
    assert (tmp_path / "out/a").read_bytes() == b"stays"


def test_a_store_that_published_no_contents(file_place: Place, tmp_path: Path, locus: Locus) -> None:
    """Its turns are known, their files are not: the error names the setting, and nothing is written."""
    (tmp_path / "work").mkdir()
    store = recorded(tmp_path / "work", {"a": b"1"})
    done = locus("--store", store.layout.root, "publish", file_place.uri, "--yes")
    assert done.code == 0, done.err
    done = locus("lake", "replay", file_place.uri, "last", "--to", tmp_path / "out")
    assert done.code == 1
    assert "published no contents" in done.err and "contents = true" in done.err
    assert not (tmp_path / "out").exists()


def test_a_damaged_pack_is_listed_with_its_name(file_place: Place, tmp_path: Path, locus: Locus) -> None:
    """A flipped bit in a content: the file is missing with the object's name, others come, exit code 4."""
    (tmp_path / "work").mkdir()
    store = recorded(tmp_path / "work", {"good": b"%0300d" % 7 * 20_000, "later": b"%d" % 8 * 900})
    publish_contents(locus, store, file_place)
    store_id = store.blobs.store_id
    [entry] = file_place.list(f"{chain.prefix_of(store_id)}/packs")
    gone(store)
    path = tmp_path / "shared" / entry.name
    data = bytearray(path.read_bytes())
    tables = read_tables(file_place, store_id, entry)
    data[tables.group(2).offset + 14] ^= 1  # trees, the large content, the other
    path.write_bytes(data)
    done = locus("lake", "replay", file_place.uri, "last", "--to", tmp_path / "out", "--json")
    assert done.code == 4
    assert reasons(done).keys() == {"later"}
    assert file_place.address(entry.name) in reasons(done)["later"]
    assert "locus lake verify" in reasons(done)["later"]
    assert (tmp_path / "out/good").read_bytes() == (tmp_path / "work/good").read_bytes()
    path.write_bytes(data[: len(data) // 2])
    done = locus("lake", "replay", file_place.uri, "last", "--to", tmp_path / "none")
    assert done.code == 12 and file_place.address(entry.name) in done.err


def test_a_damaged_file_of_events_is_named(file_place: Place, tmp_path: Path, locus: Locus) -> None:
    """Flipped bits in a publication end in exit code 12 with its address, or change nothing."""
    (tmp_path / "work").mkdir()
    store = recorded(tmp_path / "work", {"a": b"1"})
    publish_contents(locus, store, file_place)
    [entry] = file_place.list(f"{chain.prefix_of(store.blobs.store_id)}/events")
    gone(store)
    path = tmp_path / "shared" / entry.name
    whole = path.read_bytes()
    codes = []
    for number, offset in enumerate(range(2, len(whole), len(whole) // 40)):
        data = bytearray(whole)
        data[offset] ^= 4
        path.write_bytes(data)
        target = tmp_path / f"out{number}"
        done = locus("lake", "replay", file_place.uri, "last", "--to", target)
        codes.append(done.code)
        assert done.code in (0, 12), done.err
        if done.code == 12:
            assert file_place.address(entry.name) in done.err
        else:
            assert (target / "a").read_bytes() == b"1"
    assert 12 in codes


def test_a_file_of_another_store_is_not_believed(file_place: Place, tmp_path: Path, locus: Locus) -> None:
    """Events of one store that are among those of another are damage, not its history (I11)."""
    ids = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        store = recorded(tmp_path / name, {"a": name.encode()})
        publish_contents(locus, store, file_place)
        ids.append(store.blobs.store_id)
        gone(store)
    paths = [tmp_path / "shared" / chain.publication_name(id, 0) for id in ids]
    paths[1].write_bytes(paths[0].read_bytes())
    done = locus("lake", "replay", file_place.uri, "last", "--store", ids[1].hex(), "--to", tmp_path / "out")
    assert done.code == 12 and "is not a file of the store" in done.err


def test_names_of_turns_over_several_stores(file_place: Place, tmp_path: Path, locus: Locus) -> None:
    """A name that two stores know is refused with their ids; `--store` says which of them (P7)."""
    stores = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        stores.append(recorded(tmp_path / name, {"a": name.encode()}))
        publish_contents(locus, stores[-1], file_place)
    ids = [store.blobs.store_id.hex() for store in stores]
    turn = stores[1].turn("last").context_id
    for store in stores:
        gone(store)
    done = locus("lake", "replay", file_place.uri, "last", "--to", tmp_path / "out")
    assert done.code == 1 and ids[0] in done.err and ids[1] in done.err and "--store" in done.err
    replay = ("lake", "replay", file_place.uri)
    assert locus(*replay, turn, "--to", tmp_path / "by name").code == 0
    assert locus(*replay, "last", "--store", ids[0][:8], "--to", tmp_path / "by store").code == 0
    assert (tmp_path / "by name/a").read_bytes() == b"two"
    assert (tmp_path / "by store/a").read_bytes() == b"one"
    for arguments, message in [
        (("nowhere_001",), f"no store in {file_place.uri} has a turn called 'nowhere_001'"),
        (("last", "--store", "0123abcd"), "no store in"),
        (("last", "--store", ids[0][:2]), "no store in"),
    ]:
        done = locus(*replay, *arguments, "--to", tmp_path / "none")
        assert done.code == 1 and message in done.err, done.err


def test_an_empty_place(file_place: Place, tmp_path: Path, locus: Locus) -> None:
    """Nobody has published yet: the error says what does."""
    done = locus("lake", "replay", file_place.uri, "last", "--to", tmp_path / "out")
    assert done.code == 1 and "no store has published" in done.err and "locus publish" in done.err


@pytest.mark.parametrize("name", ["last", "last:script", "exact", "prefix"])
def test_a_lookup_reads_what_it_needs(file_place: Place, tmp_path: Path, locus: Locus, name: str) -> None:
    """The same turn as the store's own look-up; of other sessions' files nothing but the bounds is read
    (P6)."""
    (tmp_path / "work").mkdir()
    store = recorded(tmp_path / "work", {"a": b"1"})
    publish_contents(locus, store, file_place)
    for number in range(3):
        recorded(tmp_path / "work", {"a": b"%d" % number}, store=store)
        publish_contents(locus, store, file_place)
    wanted = store.turn("last")
    text = {"exact": wanted.context_id, "prefix": wanted.name[:6]}.get(name, name)
    turn = find_published_turn(file_place, text)
    assert (turn.ref, turn.ref.since, turn.ref.until) == (wanted, wanted.since, wanted.until)
    read = list(turn.log._turn_columns(wanted.session_id))
    assert len(read) == 1
    store.close()
