"""What a place may not have any more: erased, withheld since, or beyond a narrower policy."""

from pathlib import Path

import pytest

from eventlog.base.errors import Refused
from eventlog.blobs.ids import blob_id, to_text
from eventlog.erasure import erasure
from eventlog.lake import published, rewrites
from eventlog.lake.chain import ERASURE, MERGE, Rewrite, rewritten_name
from eventlog.lake.place import Place
from eventlog.lake.policy import Policy
from eventlog.lake.publish import publish
from eventlog.lake.source import opened
from eventlog.log.erasures import ERASURE as ERASURE_TYPE
from eventlog.secrets.redaction import withheld_event
from eventlog.store import Store
from tests.lake.conftest import S3Server
from tests.lake.publishing import (
    ALL,
    CANARY,
    NOTHING,
    TEXTS,
    assert_published,
    assert_published_under_its_policies,
    chain_of,
    copy_of,
    forget,
    holding,
    merge,
    names,
    new_store,
    record,
    record_tree,
    send,
)


def erase(store: Store, secret: str = CANARY) -> None:
    erasure.erase(store, erasure.plan_secret(store, secret))


def packs_in(place: Place) -> "list[str]":
    return [name for name in names(place) if name.endswith(".evp")]


def store_with_canary(directory: Path, place: Place) -> Store:
    """Three publications, of which the second has the canary as a text and as a content."""
    store = new_store(directory)
    for number, text in enumerate(("one", CANARY, "three")):
        content = f"content of {text}".encode() * 3
        record(store, number, text, content, b"other content %d" % number)
        send(store, place)
    return store


def test_an_erasure_takes_text_and_content_out_of_every_object(place: Place, tmp_path: Path) -> None:
    """The next publish does it; what the erasure does not concern stays as it is."""
    store = store_with_canary(tmp_path / "a", place)
    before = chain_of(store, place).live
    assert holding(place, tmp_path / "scratch")
    erase(store)
    report = send(store, place)
    assert (report.rewritten, report.packs_rewritten, report.left) == (1, 1, [])
    assert holding(place, tmp_path / "scratch") == []
    assert_published(store, place)
    chain = chain_of(store, place)
    assert [chain.live[0], chain.live[2]] == [before[0], before[2]]
    assert [rewrite.reason for rewrite in chain.rewrites] == [ERASURE]
    assert not send(store, place).changed
    forget(store, place)
    assert not send(store, place).changed


def test_an_erased_event_is_erased_in_the_place_too(file_place: Place, tmp_path: Path) -> None:
    """By its id, with the contents that only it needs."""
    store = store_with_canary(tmp_path / "a", file_place)
    erasure.erase(store, erasure.plan_events(store, [f"{1:032x}", f"{1_000_001:032x}"]))
    send(store, file_place)
    assert holding(file_place, tmp_path / "scratch") == []
    assert_published(store, file_place)


def test_what_may_not_be_deleted_is_listed_until_it_may(
    s3_place: Place, s3: S3Server, tmp_path: Path
) -> None:
    """The rewrite counts at once; the dead objects are named by each publish."""
    store = store_with_canary(tmp_path / "a", s3_place)
    erase(store)
    s3.deny("DELETE")
    left = send(store, s3_place).left
    assert sorted(holding(s3_place, tmp_path / "scratch")) != []
    assert set(left) == set(chain_of(store, s3_place).dead)
    assert_published(store, s3_place)
    assert send(store, s3_place).left == left
    forget(store, s3_place)
    assert send(store, s3_place).left == left
    s3.reset()
    assert send(store, s3_place).left == []
    assert holding(s3_place, tmp_path / "scratch") == []


def test_nothing_leaves_while_an_erasure_is_under_way(file_place: Place, tmp_path: Path) -> None:
    """Its events name what goes, and the log still holds it."""
    store = new_store(tmp_path / "a")
    record(store, 1, CANARY)
    start = {"erasure": "ab" * 16, "store": store.identity.store_id.hex(), "events": [f"{1:032x}"]}
    store.append_rows(
        [{"event_type": ERASURE_TYPE, "event_kind": "fact", "source": "user", "agent": "locus",
          "operation": "start", "payload": start}]
    )  # fmt: skip
    with pytest.raises(Refused, match="locus store erase --resume"):
        send(store, file_place)
    assert names(file_place) == []


def test_an_older_copy_cannot_bring_back_what_was_erased(file_place: Place, tmp_path: Path) -> None:
    """The place knows an erasure that the copy does not, although all of the copy's events are there."""
    store = store_with_canary(tmp_path / "a", file_place)
    older = copy_of(store, tmp_path / "b")
    erase(store)
    _rewrite_alone(store, file_place)
    with pytest.raises(Refused, match="an erasure that this store knows nothing of"):
        publish(older, file_place, TEXTS, agreed=True)
    assert holding(file_place, tmp_path / "scratch") == []


def _rewrite_alone(store: Store, place: Place) -> None:
    """A publish that is killed after its rewrites: the events of the erasure are not there."""
    create = Place.create

    def killed(self: Place, name: str, data: bytes) -> bool:
        if "/events/" in name:
            raise KeyboardInterrupt
        return create(self, name, data)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Place, "create", killed)
        send(store, place)
    rewrites.sweep(place, store.identity.store_id)


def test_the_packs_of_killed_publishers_are_erased_too(file_place: Place, tmp_path: Path) -> None:
    """A pack that no file names holds the content as well."""
    store = new_store(tmp_path / "a")
    record(store, 1)
    send(store, file_place)
    record(store, 2, "text", f"{CANARY} in a content".encode())
    _rewrite_alone(store, file_place)  # killed after the pack
    assert holding(file_place, tmp_path / "scratch")
    erase(store)
    send(store, file_place)
    assert holding(file_place, tmp_path / "scratch") == []
    assert_published(store, file_place)


def test_what_killed_rewrites_and_merges_left_is_erased_too(file_place: Place, tmp_path: Path) -> None:
    """Dead files hold the text as well: a merge's inputs, and files of a rewrite without its number."""
    store = store_with_canary(tmp_path / "a", file_place)
    merge(store, file_place)
    assert len(holding(file_place, tmp_path / "scratch")) > 2
    file_place.create(rewritten_name(store.identity.store_id, 2, 0, "ab" * 32), CANARY.encode())
    erase(store)
    send(store, file_place)
    assert holding(file_place, tmp_path / "scratch") == []
    assert_published(store, file_place)


def test_of_two_rewrites_at_once_one_counts(file_place: Place, tmp_path: Path) -> None:
    """A merge takes the number while an erasure is at work: the erasure is made again, of the merged file."""
    store = store_with_canary(tmp_path / "a", file_place)
    copy = copy_of(store, tmp_path / "b")
    erase(store)
    create = Place.create
    merged = []

    def slow(self: Place, name: str, data: bytes) -> bool:
        if "/rewrites/" in name and not merged:
            merged.append(name)
            merge(copy, self)
        return create(self, name, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Place, "create", slow)
        send(store, file_place)
    assert [rewrite.reason for rewrite in chain_of(store, file_place).rewrites] == [MERGE, ERASURE]
    assert holding(file_place, tmp_path / "scratch") == []
    assert_published(store, file_place)


def test_a_content_that_is_withheld_later_leaves_the_place(place: Place, tmp_path: Path) -> None:
    """Its pack is rewritten without it, and holds the rest as before."""
    store = store_with_canary(tmp_path / "a", place)
    id = blob_id(f"content of {CANARY}".encode() * 3)
    store.append_rows([withheld_event(to_text(id), ("jwt",))])
    report = send(store, place)
    assert (report.rewritten, report.packs_rewritten) == (0, 1)
    assert [name for name in holding(place, tmp_path / "scratch") if ".evp" in name] == []
    assert_published(store, place)


def test_a_narrower_policy_takes_back_what_it_covers(place: Place, tmp_path: Path) -> None:
    """Texts and packs go from all files; the first publish that lets out more asks again."""
    store = store_with_canary(tmp_path / "a", place)
    report = send(store, place, TEXTS)
    assert (report.rewritten, report.packs_rewritten) == (3, 3)
    assert not packs_in(place)
    assert_published(store, place, TEXTS)
    assert send(store, place, NOTHING).rewritten == 3
    assert holding(place, tmp_path / "scratch") == []
    assert_published(store, place, NOTHING)
    record(store, 9)
    with pytest.raises(Refused, match="nobody agreed"):
        publish(store, place, TEXTS)


def test_contents_that_left_once_may_leave_again(file_place: Place, tmp_path: Path) -> None:
    """The same pack counts again, although a rewrite removed it."""
    store = new_store(tmp_path / "a")
    record(store, 1, "text", b"a content")
    send(store, file_place)
    send(store, file_place, TEXTS)
    record(store, 2, "text", b"a content")
    send(store, file_place)
    forget(store, file_place)
    record(store, 3, "text", b"a content")
    assert send(store, file_place).packs == 0
    with store.view() as view:
        contents = published.read(file_place, opened(store, view, ALL), None).contents
    assert blob_id(b"a content") in contents
    rewrites.sweep(file_place, store.identity.store_id)
    assert packs_in(file_place)


def test_pieces_of_files_are_erased_too(file_place: Place, tmp_path: Path) -> None:
    """A writer that is killed leaves NAME#NUMBER in a folder, which no list shows."""
    store = store_with_canary(tmp_path / "a", file_place)
    directory = Path(
        file_place.uri.removeprefix("file://"), "stores", store.identity.store_id.hex(), "events"
    )
    (directory / "00000000000000000009.parquet#1").write_text(CANARY)
    assert len(chain_of(store, file_place).live) == 3
    erase(store)
    send(store, file_place)
    assert holding(file_place, tmp_path / "scratch") == []


def test_contents_that_the_store_collected_stay_in_the_place(file_place: Place, tmp_path: Path) -> None:
    """A pack that is rewritten takes what the store has no more out of the old pack."""
    store = new_store(tmp_path / "a")
    kept = [b"kept content %d" % number for number in range(5)]
    record(store, 1, "text", CANARY.encode(), *kept)
    send(store, file_place)
    erase(store)
    for path in Path(store.layout.root, "snapshots/packs").iterdir():
        path.unlink()
    for path in Path(store.layout.root, "snapshots/idx").iterdir():
        path.unlink()
    store.close()
    with Store.open(store.layout.root) as store:
        report = send(store, file_place)
        assert (report.packs_rewritten, report.missing) == (1, 0)
        assert holding(file_place, tmp_path / "scratch") == []
        with store.view() as view:
            contents = published.read(file_place, opened(store, view, ALL), None).contents
        assert {blob_id(data) for data in kept} <= contents


def test_trees_with_other_names_are_published_for_old_events(file_place: Place, tmp_path: Path) -> None:
    """An erased name gives a tree another hash, which the events of that time name from then on."""
    store = new_store(tmp_path / "a")
    record_tree(store, 1, {f"{CANARY}.txt".encode(): b"a content", b"other": b"another"})
    record(store, 2)
    send(store, file_place)
    erase(store)
    send(store, file_place)
    assert holding(file_place, tmp_path / "scratch") == []
    assert_published(store, file_place)


def test_packs_of_killed_publishers_go_with_a_narrower_policy(file_place: Place, tmp_path: Path) -> None:
    """No file names them, and they hold contents all the same."""
    store = new_store(tmp_path / "a")
    record(store, 1)
    send(store, file_place)
    record(store, 2, "text", b"a content")
    _rewrite_alone(store, file_place)
    assert packs_in(file_place)
    send(store, file_place, TEXTS)
    assert not packs_in(file_place)


def test_what_is_rewritten_never_shows_more(file_place: Place, tmp_path: Path) -> None:
    """An old file has the narrower of its policy and the present one, in each of their parts."""
    store = new_store(tmp_path / "a")
    record(store, 1, "some words")
    send(store, file_place, Policy(texts=True, people="no"))
    other = Policy(texts=False, people="full")
    send(store, file_place, other)
    policies = assert_published_under_its_policies(store, file_place)
    assert policies == [Policy(texts=False, people="no")]


def test_a_rewrite_that_lost_leaves_nothing(file_place: Place, tmp_path: Path) -> None:
    """Whose number is taken deletes its files, counts nothing, and starts again from what is there."""
    store = store_with_canary(tmp_path / "a", file_place)
    erase(store)
    create = Place.create
    lost: list[str] = []

    def beaten(self: Place, name: str, data: bytes) -> bool:
        if "/rewrites/" in name and not lost:
            lost.extend(
                entry.name for entry in self.list(f"stores/{store.identity.store_id.hex()}/rewritten")
            )
            assert create(self, name, Rewrite(1, MERGE, (), ()).encoded())
        return create(self, name, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Place, "create", beaten)
        patch.setattr(rewrites, "sweep", lambda *_: [])
        report = send(store, file_place)
    assert report.rewritten == len(lost) == 1
    assert not set(lost) & set(names(file_place))
    assert_published(store, file_place)


def test_a_sweep_leaves_files_of_a_rewrite_at_work(file_place: Place, tmp_path: Path) -> None:
    """Those with a number that no rewrite has yet; what a later merge took out is left to maintenance."""
    store = store_with_canary(tmp_path / "a", file_place)
    erase(store)
    send(store, file_place)
    at_work = rewritten_name(store.identity.store_id, 2, 0, "ab" * 32)
    file_place.create(at_work, b"a merge that has not got its number yet")
    rewrites.sweep(file_place, store.identity.store_id)
    assert at_work in names(file_place)
    merge(store, file_place)
    merged = chain_of(store, file_place).rewrites[-1].removes
    rewrites.sweep(file_place, store.identity.store_id)
    assert set(merged) <= set(names(file_place))


def test_a_damaged_pack_goes_with_an_erasure(file_place: Place, tmp_path: Path) -> None:
    """Its tables cannot be read, so it may hold what was erased; --again brings back what is still wanted."""
    store = store_with_canary(tmp_path / "a", file_place)
    damaged = packs_in(file_place)
    for name in damaged:
        path = Path(f"{file_place.uri.removeprefix('file://')}/{name}")
        data = bytearray(path.read_bytes())
        data[-60] ^= 1
        path.write_bytes(data)
    erase(store)
    send(store, file_place)
    assert not set(damaged) & set(packs_in(file_place))
    send(store, file_place, again=True)
    assert_published(store, file_place)
