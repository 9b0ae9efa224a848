"""Publishing: each event once, whoever publishes, whatever stops them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from eventlog.base.errors import NotFound, Refused, Unsupported
from eventlog.blobs.ids import blob_id
from eventlog.lake import publish as publishing
from eventlog.lake import source, verify
from eventlog.lake.chain import publication_name
from eventlog.lake.place import Place
from tests.lake.conftest import S3Server
from tests.lake.publishing import (
    ALL,
    NOTHING,
    TEXTS,
    assert_published,
    chain_of,
    copy_of,
    forget,
    merge,
    names,
    new_store,
    record,
    send,
)


def test_a_place_has_each_event_once(place: Place, tmp_path: Path) -> None:
    """Of many publishes, each adds what is new, and the contents that are new."""
    store = new_store(tmp_path / "a")
    for number in range(4):
        record(store, number, f"text {number}", b"content %d" % number, b"common")
        report = send(store, place)
        assert (report.files, report.packs, report.end - report.base) == (1, 1, 2)
    assert_published(store, place)
    assert len(chain_of(store, place).live) == 4


def test_nothing_new_creates_nothing(place: Place, tmp_path: Path) -> None:
    """A publish without new events says so, also by a store that remembers nothing."""
    store = new_store(tmp_path / "a")
    record(store, 1, "text", b"content")
    send(store, place)
    before = names(place)
    for _ in range(2):
        report = send(store, place)
        assert (report.base, report.end, report.changed) == (2, 2, False)
        forget(store, place)
    assert names(place) == before


def test_an_empty_store_creates_nothing(file_place: Place, tmp_path: Path) -> None:
    """Not even the probe."""
    assert not send(new_store(tmp_path / "a"), file_place).changed
    assert names(file_place) == []


def test_a_publish_costs_the_same_at_any_number(s3_place: Place, s3: S3Server, tmp_path: Path) -> None:
    """Requests do not grow with the publications that are there."""
    store = new_store(tmp_path / "a")
    costs = []
    for number in range(12):
        record(store, number)
        s3.reset()
        send(store, s3_place)
        costs.append(s3.counts()["requests"])
    assert costs[2] == costs[-1]
    assert costs[-1] == {"LIST": 3, "GET": 1, "PUT": 2}
    s3.reset()
    send(store, s3_place)
    assert s3.counts()["requests"] == {"LIST": 2, "GET": 1}


def test_a_publisher_need_not_see_the_tables(
    s3_place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has rights below its own prefix alone."""
    directories = Place.directories

    def denied(self: Place, prefix: str) -> "Sequence[str]":
        if prefix == "tables":
            raise Refused("the storage refuses it")
        return directories(self, prefix)

    monkeypatch.setattr(Place, "directories", denied)
    store = new_store(tmp_path / "a")
    record(store, 1)
    assert send(store, s3_place).files == 1


def test_a_storage_that_ignores_conditions_is_refused(lying_place: Place, tmp_path: Path) -> None:
    """Before the first event leaves."""
    store = new_store(tmp_path / "a")
    record(store, 1)
    with pytest.raises(Refused, match="creates an object again that exists"):
        send(store, lying_place)
    assert [name.rpartition("/")[2] for name in names(lying_place)] == ["probe"]


def test_two_equal_copies_publish_each_event_once(place: Place, tmp_path: Path) -> None:
    """Whichever comes first publishes; the other goes on from there."""
    first = new_store(tmp_path / "a")
    record(first, 1)
    send(first, place)
    record(first, 2)
    second = copy_of(first, tmp_path / "b")
    send(second, place)
    assert not send(first, place).changed
    record(first, 3)
    send(first, place)
    assert_published(first, place)


def test_a_copy_that_went_another_way_is_refused(place: Place, tmp_path: Path) -> None:
    """The second one, also where its log is longer, and whatever it remembers."""
    first = new_store(tmp_path / "a")
    record(first, 1)
    send(first, place)
    second = copy_of(first, tmp_path / "b")
    record(first, 2)
    record(second, 3)
    record(second, 4)
    send(first, place)
    before = names(place)
    for _ in range(2):
        with pytest.raises(Refused, match="went a different way and published first"):
            send(second, place)
        forget(second, place)
    assert names(place) == before


def test_copies_whose_last_events_are_equal_are_still_told_apart(file_place: Place, tmp_path: Path) -> None:
    """Imports give the same ids in every copy: the last event says nothing of those before it."""
    first = new_store(tmp_path / "a")
    record(first, 1)
    second = copy_of(first, tmp_path / "b")
    for store, number in ((first, 2), (second, 3)):
        record(store, number)
        record(store, 9)
    send(first, file_place)
    with pytest.raises(Refused, match="went a different way"):
        send(second, file_place)


def test_a_restored_older_copy_is_refused(place: Place, tmp_path: Path) -> None:
    """It is shorter than what was published; once it is longer, it has other events."""
    store = new_store(tmp_path / "a")
    record(store, 1)
    older = copy_of(store, tmp_path / "b")
    record(store, 2)
    send(store, place)
    with pytest.raises(Refused, match="it is an older copy"):
        send(older, place)
    record(older, 3)
    record(older, 4)
    with pytest.raises(Refused, match="went a different way"):
        send(older, place)
    assert_published(store, place)


def test_a_lost_publication_is_published_again(file_place: Place, tmp_path: Path) -> None:
    """The last one, one in the middle (seen by whoever reads all), or all of them."""
    store = new_store(tmp_path / "a")
    for number in range(4):
        record(store, number)
        send(store, file_place)
    file_place.delete(publication_name(store.identity.store_id, 3))
    send(store, file_place)
    assert_published(store, file_place)
    file_place.delete(publication_name(store.identity.store_id, 1))
    send(store, file_place, again=True)
    assert_published(store, file_place)
    assert len(chain_of(store, file_place).live) == 4
    for name in names(file_place):
        file_place.delete(name)
    send(store, file_place)
    assert_published(store, file_place)


def test_what_a_store_remembers_decides_nothing(file_place: Place, tmp_path: Path) -> None:
    """Without it, with that of an older day, and with rubbish in its place."""
    store = new_store(tmp_path / "a")
    record(store, 1, "text", b"content")
    send(store, file_place)
    (remembered,) = Path(store.layout.root, "index").glob("lake-*")
    older = remembered.read_bytes()
    for number, data in enumerate((older, b"", b"rubbish\n", older[:-1]), 2):
        record(store, number, "text", b"content %d" % number)
        remembered.write_bytes(data)
        send(store, file_place)
        assert_published(store, file_place)
    line, _, ids = remembered.read_bytes().partition(b"\n")
    content = b"a content that only a damaged file knows"
    remembered.write_bytes(line + b"\n" + blob_id(content) + ids[32:])
    record(store, 9, "text", content)
    send(store, file_place)
    assert_published(store, file_place)


def test_a_create_whose_answer_was_lost_counts(file_place: Place, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """The client repeats the request and hears that the object is there already."""
    create = Place.create
    monkeypatch.setattr(Place, "create", lambda *args: create(*args) and False)
    store = new_store(tmp_path / "a")
    for number in range(3):
        record(store, number, "text", b"content %d" % number)
        send(store, file_place)
    assert_published(store, file_place)


def test_damage_that_nobody_repaired_is_not_published(file_place: Place, tmp_path: Path) -> None:
    """What a repair brings back would be missing for good."""
    store = new_store(tmp_path / "a")
    record(store, 1)
    store.journal.rotate()
    record(store, 2)
    (first, _) = sorted(Path(store.layout.root, "log/journal").glob("*.evj"))
    data = bytearray(first.read_bytes())
    data[data.index(b"a text")] ^= 1
    first.write_bytes(data)
    with pytest.raises(Refused, match="locus store repair"):
        send(store, file_place)
    assert names(file_place) == []


def test_a_wider_policy_holds_from_then_on(file_place: Place, tmp_path: Path) -> None:
    """It needs consent, and what was published before stays as it was."""
    from eventlog.lake.publish import publish

    store = new_store(tmp_path / "a")
    record(store, 1, "first words")
    publish(store, file_place, NOTHING, agreed=True)
    record(store, 2, "second words")
    with pytest.raises(Refused, match="nobody agreed"):
        publish(store, file_place, TEXTS)
    publish(store, file_place, TEXTS, agreed=True)
    record(store, 3, "third words")
    publish(store, file_place, TEXTS)
    objects = b"".join(file_place.read(name) for name in names(file_place))
    assert [word in objects for word in (b"first words", b"second words", b"third words")] == [
        False,
        True,
        True,
    ]
    with pytest.raises(Refused, match="nobody agreed"):
        record(store, 4)
        publish(store, file_place, ALL)


def test_a_publication_that_came_too_late_is_dead(file_place: Place, tmp_path: Path) -> None:
    """Its publisher slept while others merged the range: nobody reads it."""
    store = new_store(tmp_path / "a")
    for number in range(4):
        record(store, number)
        send(store, file_place)
    merge(store, file_place)
    store_id = store.identity.store_id
    data = file_place.read(publication_name(store_id, 1))
    file_place.delete(publication_name(store_id, 1))
    for base in (1, 2):
        late = publication_name(store_id, base)
        file_place.delete(late)
        assert file_place.create(late, data)
    record(store, 9)
    send(store, file_place)
    forget(store, file_place)
    assert not send(store, file_place).changed
    assert_published(store, file_place)


def test_a_merge_in_three_positions_hides_a_base_that_nobody_named(file_place: Place, tmp_path: Path) -> None:
    """A publication inside of a merged range, under a name that the merge does not know."""
    store = new_store(tmp_path / "a")
    record(store, 1)
    record(store, 2)
    send(store, file_place)
    for number in (3, 4):
        record(store, number)
        send(store, file_place)
    merge(store, file_place)
    late = publication_name(store.identity.store_id, 1)
    assert file_place.create(late, file_place.read(chain_of(store, file_place).live[-1].name))
    assert late in chain_of(store, file_place).dead
    assert_published(store, file_place)


def test_a_long_log_becomes_several_publications(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of a bounded number of positions, with the contents that are new in it."""
    monkeypatch.setattr(publishing, "POSITIONS_MAX", 3)
    store = new_store(tmp_path / "a")
    for number in range(4):
        record(store, number, "text", b"content %d" % (number // 2))
    report = send(store, place)
    assert (report.files, report.packs) == (3, 2)
    assert [file.end for file in chain_of(store, place).live] == [3, 6, 8]
    assert_published(store, place)


def test_a_storage_that_does_not_answer_ends_a_publish(s3_place: Place, s3: S3Server, tmp_path: Path) -> None:
    """What was created stays, and the next publish goes on from there."""
    store = new_store(tmp_path / "a")
    record(store, 1, "text", b"content")
    s3.deny("PUT")
    with pytest.raises(Refused, match="the storage refuses it"):
        send(store, s3_place)
    s3.reset()
    send(store, s3_place)
    assert_published(store, s3_place)


def test_a_file_of_a_newer_version_stops_an_older_one(
    file_place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what to do, and publishes nothing."""
    store = new_store(tmp_path / "a")
    record(store, 1)
    with monkeypatch.context() as newer:
        newer.setattr(source, "FORMAT", "2")
        send(store, file_place)
    forget(store, file_place)
    record(store, 2)
    with pytest.raises(Unsupported, match=r"has format 2; .* Use a newer Locus"):
        send(store, file_place)


def test_what_a_place_lost_is_made_again(place: Place, tmp_path: Path) -> None:
    """Files of rewrites and packs: named by an error or by `verify`, made again by --again."""
    store = new_store(tmp_path / "a")
    for number in range(3):
        record(store, number, "text", b"content %d" % number)
        send(store, place)
    merge(store, place)
    lost = [file.name for file in chain_of(store, place).live if "/rewritten/" in file.name]
    lost += [name for name in names(place) if name.endswith(".evp")][:2]
    for name in lost:
        place.delete(name)
    forget(store, place)
    with pytest.raises(NotFound, match=r"it is not there\. `locus publish .* --again` makes it again"):
        send(store, place)
    report = send(store, place, again=True)
    assert (report.rewritten, report.packs_rewritten) == (1, 1)
    assert_published(store, place)
    assert not send(store, place, again=True).changed
    assert verify.verify(place, reads=True).findings == []
