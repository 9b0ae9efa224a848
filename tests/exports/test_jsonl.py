"""The log as lines of JSON and back: what comes back is what was there."""

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.errors import Corruption, InvalidEvent, Refused, Unsupported
from eventlog.base.types import Event
from eventlog.exports import jsonl, jsonl_import
from eventlog.exports.jsonl_import import DamagedFile
from eventlog.exports.locusgraph import locusgraph
from eventlog.recorder.ledger import Consumer
from eventlog.recorder.recorder import Recorder
from eventlog.secrets.redaction import Redactor
from eventlog.store import Store
from tests.conftest import examples
from tests.exports.stores import any_event, new_store, raw, small_log
from tests.older import append_as_before


def exported(store: Store, **options: Any) -> bytes:
    file = io.BytesIO()
    jsonl.write(store, file, **options)
    return file.getvalue()


def signed(lines: list[bytes]) -> bytes:
    """A file of these lines with a last line that fits them, as another program could make it."""
    body = b"".join(line + b"\n" for line in lines)
    end = {"end": True, "events": len(lines) - 1, "lines": len(lines), "blake3": blake3(body).hexdigest()}
    return body + json.dumps(end).encode() + b"\n"


def load(store: Store, data: bytes, **options: Any) -> jsonl_import.JsonlImportReport:
    return jsonl_import.read(store, io.BytesIO(data), "log.jsonl", **options)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with the small log."""
    made = new_store(tmp_path / "one")
    append_as_before(made, small_log())
    return made


@pytest.fixture
def empty(tmp_path: Path) -> Store:
    return new_store(tmp_path / "empty")


def named(store: Store) -> list[tuple[object, object]]:
    return [(event["context_id"], event["extends"]) for event in store.events()]


@pytest.mark.slow
@settings(max_examples=examples(8, 500))
@given(
    batches=st.lists(st.lists(any_event, min_size=1, max_size=5), min_size=1, max_size=4),
    seals=st.sets(st.integers(0, 3)),
    seal_after=st.booleans(),
)
def test_what_comes_back_is_what_was_there(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[dict[str, Any]]],
    seals: set[int],
    seal_after: bool,
) -> None:
    """P2: export and import give an equal log: events, order, every column, each byte of the payloads."""
    place = tmp_path_factory.mktemp("round")
    one, two = new_store(place / "one"), new_store(place / "two")
    for i, batch in enumerate(batches):
        append_as_before(one, batch)
        if i in seals:
            one.seal()
    data = exported(one)
    report = load(two, data)
    if seal_after:
        two.seal()

    before, after = raw(one), raw(two)
    assert report.events == len(before)
    positions = [e.pop("position") for e in before], [e.pop("position") for e in after]
    # Names that a session got later are in what is read, not in the lines of the tail.
    assert named(two) == named(one)
    for event in (*before, *after):
        del event["context_id"], event["extends"]
    assert after == before
    if one.journal.next_position() == len(before):  # no duplicate was dropped
        assert positions[0] == positions[1]
    again = load(two, data)
    assert (again.events, again.known) == (0, len(before))
    assert len(raw(two)) == len(before)
    one.close(), two.close()


def test_payload_bytes_are_kept(store: Store, empty: Store) -> None:
    """S0-16: numbers, escapes and nesting come back as they were spelled, not as a parser reads them."""
    odd = [
        b'{"n":1.10,"big":123456789012345678901234567890,"e":1E400,"z":-0.0}',
        b'{"long":' + b"9" * 5000 + b"}",
        b'{"s":"\\ud800 \\u0000 \\/ \\u00e9","k":{"payload":{"a":1}},"payload":2}',
        b'{"deep":' + b"[" * 600 + b"]" * 600 + b"}",
        b"{}",
    ]
    lines = [
        b'{"event_id":"%032x","event_type":"note","event_kind":"fact","source":"system","schema_version":1,"recorded_at":1}\t'
        % (1000 + i)
        + payload
        for i, payload in enumerate(odd)
    ]
    store.journal.append(lines)
    load(empty, exported(store))

    assert [str(e["payload"]).encode() for e in raw(empty)][-len(odd) :] == odd
    assert raw(empty) == raw(store)


def test_the_form_of_the_file(store: Store) -> None:
    """The header, one line an event by position, and a last line with the digest of all before."""
    data = exported(store)
    lines = data.splitlines(keepends=True)
    head, end = json.loads(lines[0]), json.loads(lines[-1])
    events = [json.loads(line) for line in lines[1:-1]]

    assert head == {
        "format": "locus jsonl",
        "version": 1,
        "store_id": store.identity.store_id.hex(),
        "repo_hash": store.repo_hash,
        "project_name": "My Project",
        "since": 0,
        "next_position": 14,
        "count": 14,
        "lost": [],
        "contents": False,
    }
    assert end == {
        "end": True,
        "events": 14,
        "lines": 15,
        "blake3": blake3(b"".join(lines[:-1])).hexdigest(),
    }
    assert [e["position"] for e in events] == list(range(14))
    assert events[6]["context_id"] == "file:a1b2c3d4_001_004"
    assert all(value is not None for e in events for value in e.values())


def test_an_export_is_the_same_each_time(store: Store) -> None:
    """P2: the same log gives the same bytes, sealed or not."""
    first = exported(store)
    store.seal()

    assert exported(store) == first


def test_since_leaves_out_what_comes_before(store: Store, empty: Store) -> None:
    """An export can begin at a position; what is exported is as in the whole, but for the name of a session
    whose beginning comes before it."""
    load(empty, exported(store, since=10))
    of_place = {"position", "context_id", "extends"}

    def unplaced(events: list[Event]) -> list[Event]:
        return [{k: v for k, v in e.items() if k not in of_place} for e in events]

    assert unplaced(raw(empty)) == unplaced(raw(store)[10:])


def recorded(place: Path) -> Store:
    """A store with contents and trees."""
    store = new_store(place)
    recorder = Recorder(store, agent="script")
    with store.blobs.writer() as writer:
        blob = writer.put(b"print('one')\n")
        large = writer.put(random.Random(1).randbytes(2 * jsonl.PART_BYTES + 5))
        inner = writer.put_tree([(b"app.py", b"f", blob, 13)])
        top = writer.put_tree(
            [(b"src", b"d", inner, 0), (b"big", b"x", large, 0), (b"e", b"f", writer.put(b""), 0)]
        )
        writer.flush()
        turn = recorder.start_turn("Do it", tree_hash="blake3:" + top.hex())
    turn.file("src/app.py", before=b"print('one')\n", after=b"print('two')\n")
    turn.end(title="Done")
    recorder.end_session("all done")
    return store


def test_contents_come_along(tmp_path: Path, empty: Store) -> None:
    """I24, P1: with contents the imported turn replays byte for byte in a store that had nothing."""
    store = recorded(tmp_path / "one")
    data = exported(store, contents=True)
    report = load(empty, data)
    empty.replay("last", tmp_path / "out")
    store.replay("last", tmp_path / "expected")

    assert (report.contents_included, report.contents, report.known_contents) == (True, 6, 0)
    again = load(empty, data)
    assert (again.events, again.contents, again.known_contents) == (0, 0, 6)
    assert raw(empty) == raw(store)
    here, there = tmp_path / "out", tmp_path / "expected"
    files = sorted(p.relative_to(here) for p in here.rglob("*") if p.is_file())
    assert [str(p) for p in files] == ["big", "e", "src/app.py"]
    assert all((here / p).read_bytes() == (there / p).read_bytes() for p in files)
    assert empty.blob(str(raw(store)[5]["before_hash"])) == b"print('one')\n"


def test_each_content_comes_once_before_the_event_that_needs_it(tmp_path: Path) -> None:
    """I24, I25: no content is written twice, and none after an event that names it."""
    store = recorded(tmp_path / "one")
    seen: set[str] = set()
    finished: set[str] = set()
    for line in exported(store, contents=True).splitlines()[1:-1]:
        fields = json.loads(line)
        if "event_id" in fields:
            assert set(fields.get("blobs", ())) <= finished
            continue
        name = fields.get("blob") or fields["tree"]
        if fields["at"] == 0:
            assert name not in seen
            seen.add(name)
        finished.add(name)
    assert len(finished) == 6


def test_a_content_that_is_gone_is_listed(store: Store) -> None:
    """P1: contents that cannot be read are named, and the rest is exported."""
    file = io.BytesIO()
    report = jsonl.write(store, file, contents=True)

    assert [content for content, _ in report.missing] == ["blake3:" + c * 64 for c in "123"]
    assert report.events == 14


@pytest.mark.parametrize("cut", [1, 30, 300, 3000])
def test_a_file_that_was_cut_off_is_refused(store: Store, empty: Store, cut: int) -> None:
    """I11: nothing of a file that ends early is imported; the message says after which line."""
    data = exported(store)[:-cut]
    with pytest.raises(DamagedFile, match="cut off") as error:
        load(empty, data)

    assert error.value.exit_code == 12
    assert f"line {len(data.splitlines())}:" in str(error.value)
    assert raw(empty) == []


def test_any_changed_byte_is_noticed(store: Store, empty: Store) -> None:
    """I11: one changed byte anywhere, and nothing is imported."""
    data = exported(store)
    draw = random.Random(7)
    last = range(data.rindex(b"\n", 0, -1) + 1, len(data))
    for at in [*draw.sample(range(len(data)), 60), *last]:
        changed = bytearray(data)
        changed[at] ^= 1 << draw.randrange(8)
        with pytest.raises((DamagedFile, Unsupported)):
            load(empty, bytes(changed))
    assert empty.journal.next_position() == 0


def test_a_line_that_is_no_json_is_named(store: Store, empty: Store) -> None:
    """The number of the first line that shows the damage is in the message."""
    lines = exported(store).split(b"\n")
    lines[6] = lines[6][:-1]
    with pytest.raises(DamagedFile, match="line 7: it is not JSON"):
        load(empty, b"\n".join(lines))


HEAD = b'{"format":"locus jsonl","version":1,"store_id":"00","repo_hash":"r","project_name":"p"}'
GOOD = b'{"event_id":"%032x","event_type":"note","event_kind":"fact","source":"user","payload":{}}' % 7


@pytest.mark.parametrize(
    ("line", "error", "says"),
    [
        (b"no json", DamagedFile, "line 3: .*no line that an export writes"),
        (b"[]", DamagedFile, "line 3"),
        (b"{}", DamagedFile, "neither an event nor a content"),
        (GOOD.replace(b'"event_id"', b'"x"'), DamagedFile, "line 3: the event has no event_id"),
        (GOOD.replace(b"0", b"g"), InvalidEvent, "line 3: event_id must be 32"),
        (GOOD.replace(b'"note"', b"7"), InvalidEvent, "line 3: an event needs an `event_type`"),
        (GOOD[:-1] + b',"turn":1}', DamagedFile, "line 3"),
        (GOOD.replace(b"{}", b"[]"), DamagedFile, "line 3"),
        (GOOD.replace(b'"user"', b'"user","turn":12,"title":"\\ud800"'), DamagedFile, "line 3: its columns"),
        (GOOD.replace(b"{}", b'{"a":NaN}'), DamagedFile, "line 3: its payload"),
        (GOOD.replace(b"{}", b'{"a":"\xff"}'), DamagedFile, "line 3: its payload"),
        (GOOD.replace(b'"source"', b'"soruce"'), InvalidEvent, "line 3: unknown column soruce"),
        (GOOD.replace(b'"user"', b'"user","turn":"1"'), InvalidEvent, "line 3: column turn must be"),
        (
            b'{"blob":"blake3:' + b"0" * 64 + b'","size":1,"at":0,"base64":"YQ=="}',
            DamagedFile,
            "do not match",
        ),
        (b'{"blob":"sha256:00","size":1,"at":0,"base64":"YQ=="}', DamagedFile, "is not a hash"),
        (b'{"blob":"blake3:' + b"0" * 64 + b'","size":9,"at":4,"base64":"YQ=="}', DamagedFile, "missing"),
        (b'{"tree":"blake3:' + b"0" * 64 + b'","size":1,"at":0,"base64":"?"}', DamagedFile, "line 3"),
    ],
)
def test_a_line_that_no_export_writes_is_refused(
    empty: Store, line: bytes, error: type[Exception], says: str
) -> None:
    """A line that is wrong although the digest is right stops the import with its number."""
    with pytest.raises(error, match=says):
        load(empty, signed([HEAD, GOOD.replace(b"7", b"8"), line]))
    assert [str(e["event_id"])[-1] for e in raw(empty)] == ["8"]


def test_salvage_takes_what_is_sound(store: Store, empty: Store) -> None:
    """Of a damaged file the sound lines are taken and the others listed, with their numbers."""
    lines = exported(store).split(b"\n")
    lines[3] = lines[3][:40]
    report = load(empty, b"\n".join(lines[:-4]) + b"\n", salvage=True)

    assert [number for number, _ in report.skipped] == [4]
    kept = [e["event_id"] for e in raw(store)]
    assert [e["event_id"] for e in raw(empty)] == kept[:2] + kept[3 : len(lines) - 5]


def test_an_event_too_large_for_a_log_is_named(empty: Store) -> None:
    """An event that no frame holds is refused with its line; what comes before it is imported."""
    large = GOOD.replace(b"{}", b'{"t":"' + b"x" * (16 << 20) + b'"}')
    with pytest.raises(InvalidEvent, match="line 3: an event of 16,777"):
        load(empty, signed([HEAD, GOOD.replace(b"7", b"8"), large]))

    assert len(raw(empty)) == 1


def test_a_newer_format_is_refused(empty: Store) -> None:
    """A file of a later format is refused with the way out, before anything is read."""
    with pytest.raises(Unsupported, match="Upgrade"):
        load(empty, signed([HEAD.replace(b'"version":1', b'"version":2'), GOOD]))


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"x" * 10_000, b"{}\n", b'{"format":"other","version":1}\n', GOOD]
)
def test_other_files_are_refused(empty: Store, data: bytes) -> None:
    """A file of another kind is refused at its first line."""
    with pytest.raises(Corruption, match="line 1: it does not begin like"):
        load(empty, data)


def test_another_repository_is_taken_and_reported(store: Store, tmp_path: Path) -> None:
    """P7: events of another repository are imported, and the report says whose they are."""
    other = new_store(tmp_path / "other", repo_hash="0" * 12)
    report = load(other, exported(store))

    assert (report.foreign, report.repo_hash, report.events) == (True, store.repo_hash, 14)
    assert load(other, exported(other)).foreign is False


def test_a_store_with_other_events_takes_each_once(store: Store, tmp_path: Path) -> None:
    """I8: into a store that has other events, and some of these, each comes once, however sealed."""
    other = new_store(tmp_path / "other")
    append_as_before(other, [{"event_type": "note", "payload": {"own": True}}, *small_log()[5:8]])
    other.seal()
    append_as_before(other, small_log()[8:9])
    report = load(other, exported(store))

    assert (report.events, report.known) == (10, 4)
    assert sorted(str(e["event_id"]) for e in raw(other))[:14] == [str(e["event_id"]) for e in small_log()]
    assert other.journal.next_position() == 15


def test_a_ledger_is_taken_at_its_own_position_only(store: Store, empty: Store, tmp_path: Path) -> None:
    """I36: how far an export had come is imported where it is true, and nowhere else."""
    half = new_store(tmp_path / "half")
    append_as_before(half, small_log()[:5])
    Consumer(store, "someone").advance(14)
    other = new_store(tmp_path / "other")
    other.append([{"event_type": "note"}])

    assert load(empty, exported(store)).ledger_left_out == 0
    assert load(other, exported(store)).ledger_left_out == 1
    assert load(half, exported(store)).ledger_left_out == 0
    assert Consumer(empty, "someone").position == Consumer(half, "someone").position == 14
    assert Consumer(other, "someone").position == 0


def test_imported_events_pass_the_gate(store: Store, empty: Store) -> None:
    """P5: what the store denies is taken out of what is imported; untouched payloads keep their bytes."""

    empty._redactor = Redactor(deny=["clock skew"])
    load(empty, exported(store))
    changed = [(a, b) for a, b in zip(raw(store), raw(empty), strict=True) if a != b]

    assert [(b["event_type"], b["redacted"]) for _, b in changed] == [("decision", True)]
    assert "clock skew" not in str(raw(empty))


def test_however_a_payload_is_spelled_its_secrets_go(empty: Store) -> None:
    """P5: escapes, white space, endless numbers and repeated keys hide no secret in a file."""
    payloads = [
        b'{"a":"clock\\u0020skew"}',
        b'{"a" : [ {"cl\\u006Fck skew" : 1.50} ] }',
        b'{"a":"clock skew","a":"x"}',
        b'{"b":{"a":"clock skew","a":1e2}}',
        b'{"a":"clock\\u0020skew","a":"x"}',
        b'{"pass\\u0077ord":"S3cret-tulips"}',
        b'{"password"\t:\r  "S3cret-tulips"}',
        b'{"a":["--password"  ,"S3cret-tulips"]}',
        b'{"a":"http:\\/\\/me:S3cret-tulips@h.example"}',
        b'{"n":' + b"9" * 5000 + b',"text":"clock skew"}',
        b'{"a":"\\u0041", "n":' + b"9" * 5000 + b',"f":0.10}',
        b'{"a":"x","a":"y"}',
    ]
    empty._redactor = Redactor(deny=["clock skew"])
    lines = [GOOD.replace(b"{}", text).replace(b"%032x" % 7, b"%032x" % i) for i, text in enumerate(payloads)]
    report = load(empty, signed([HEAD, *lines]))
    events = raw(empty)
    kept = b"".join(path.read_bytes() for path in Path(empty.layout.root).rglob("*.evj"))

    assert report.events == len(events) == len(payloads)
    assert b"S3cret" not in kept and b"skew" not in kept and b"clock" not in kept
    assert [e["redacted"] is True for e in events] == [
        *[True, True, False, False, False],
        *[True] * 5,
        False,
        False,
    ]
    assert (events[-2]["payload"], events[2]["payload"]) == (payloads[-2].decode(), '{"a":"x"}')
    assert json.loads(str(events[9]["payload"]))["n"] == "9" * 5000


def test_an_existing_file_is_not_replaced(store: Store, tmp_path: Path) -> None:
    """P8: a file that exists stays, unless force is given; a link or a device is never written through."""
    path = tmp_path / "a.jsonl"
    path.write_text("precious")
    with pytest.raises(Refused, match="--force"):
        jsonl.export(store, str(path))
    assert path.read_text() == "precious"

    jsonl.export(store, str(path), force=True)
    assert path.read_bytes() == exported(store)
    assert path.stat().st_mode & 0o777 == 0o600

    (tmp_path / "link").symlink_to(path)
    with pytest.raises(Refused, match="not a plain file"):
        jsonl.export(store, str(tmp_path / "link"), force=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "link", "one"]


def test_what_the_log_lost_is_reported(tmp_path: Path, empty: Store) -> None:
    """P7: positions that damage took from the log are named in the file and in the reports."""
    store = new_store(tmp_path / "one")
    for at in range(0, 14, 2):
        append_as_before(store, small_log()[at : at + 2])
    path = store.layout.journal(1)
    data = bytearray(Path(path).read_bytes())
    data[data.index(b"fix-jwt-refresh") + 1] ^= 1
    Path(path).write_bytes(data)
    store.close()
    report = load(empty, exported(store))
    batch = locusgraph.export(store, str(tmp_path / "out"))

    assert json.loads(exported(store).splitlines()[0])["lost"] == [[0, 2]]
    assert jsonl.export(store, str(tmp_path / "log")).lost == batch.lost == [(0, 2)]
    assert report.events == 12
