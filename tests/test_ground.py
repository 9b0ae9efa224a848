"""The ground floor: one spelling of JSON, paths and names that survive the trip, locks in order."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eventlog.base import jsontext, layout, locks, names, paths
from eventlog.base.errors import EventLogError, LockTimeout
from eventlog.base.fs import REAL, publish, read_file, walk_names, write_all
from eventlog.base.layout import Layout
from tests.simfs import SimFS, short_write, sim_store

TEXT = st.text(st.characters(codec=None), max_size=12)  # lone surrogates included
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


# -- JSON text -----------------------------------------------------------------------------------


@given(JSON)
@example(1e16)
@example([-1.5e-7, 1e22, 123456789012345680.0, 5e-324, 0.0001, -0.0])
@example({"e": "1e5", "x": [1e5, "[1e5,"]})
@example("\ud800 \udc00 \ud83d\ude00")
@example(2**64)
@example(-(2**63) - 1)
@example(float("nan"))
@example({"a": [float("inf"), {"b": -float("inf")}]})
@example({"\x7f\x80\u2028\x00\x1f": '\b\f\n\r\t"\\/'})
def test_both_encoders_spell_alike(value: object) -> None:
    """Hook and importer write the same bytes for the same value, so one event has one digest."""
    assert jsontext.encode(value) == jsontext.encode_fast(value)


@given(JSON)
def test_json_text_is_one_clean_line(value: object) -> None:
    """§3: JSON text is UTF-8 without a raw control byte, so that tab and newline can separate."""
    data = jsontext.encode(value)

    data.decode("utf-8")
    assert not any(byte < 0x20 for byte in data)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    )
)
def test_a_json_value_reads_back(value: object) -> None:
    """What JSON can hold comes back as it was, floats to the last digit."""
    assert value == jsontext.decode(jsontext.encode(value))


SPELLINGS = st.builds(json.dumps, JSON, ensure_ascii=st.booleans(), indent=st.none() | st.just(1))


@given(
    SPELLINGS.map(lambda text: text.encode("utf-8", "surrogatepass"))
    | SPELLINGS.map(lambda text: text[:-1].encode("utf-8", "surrogatepass"))
    | st.binary(max_size=8)
)
@example(b"\xef\xbb\xbf[1]")
@example("[1]".encode("utf-16"))
@example(b" [1]\n")
@example(b"[1] 2")
@example(b"[1,]")
@example(b"")
@example(b"NaN")
@example(b'"\xed\xa0\x80"')
@example(b'{"a": 1, "a": 2}')
@example(b'"\x01"')
def test_json_is_read_as_the_standard_library_reads_it(data: bytes) -> None:
    """One meaning of JSON text, whichever way it is read; what is not JSON is refused alike."""
    try:
        expected = repr(json.loads(data))
    except ValueError:
        with pytest.raises(ValueError):
            jsontext.decode(data)
    else:
        assert repr(jsontext.decode(data)) == expected


def test_json_is_refused_where_the_standard_library_is_not_loaded() -> None:
    """What is not JSON is a ValueError also in a process that has not imported `json`."""
    probe = """
import sys
from eventlog.base import jsontext
assert "json" not in sys.modules
for text in sys.argv[1:]:
    for name in [name for name in sys.modules if name.partition(".")[0] == "json"]:
        del sys.modules[name]
    try:
        jsontext.decode(text.encode())
    except ValueError:
        continue
    raise SystemExit(text)
"""
    wrong = ["{", "[1,", '"', "{]", '{"a"}', "tru", "", "[1] 2", '"\\x"', '{"a":1,}']
    done = subprocess.run([sys.executable, "-c", probe, *wrong], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


def test_what_json_cannot_hold_becomes_unknown_or_is_refused() -> None:
    """P7: a number that is not finite is null, not 0; bytes are refused by both encoders."""
    for encode in (jsontext.encode, jsontext.encode_fast):
        assert encode([float("nan"), float("inf"), 1.5]) == b"[null,null,1.5]"
        assert encode("\ud800") == '"\ufffd"'.encode()
        with pytest.raises(TypeError):
            encode({"a": b"bytes"})


# -- paths ---------------------------------------------------------------------------------------


@given(st.binary(max_size=20))
@example(b'"quoted"')
@example(b"\\033")
@example(b"caf\xe9.txt")
@example("caf\u00e9.txt".encode())
@example(b'\xff"\\\n\t')
@example(b"root:0123456789abcdef/a.py")
@example(b"root:0123456789abcdef")
def test_every_path_survives_the_trip_through_text(path: bytes) -> None:
    """The text form of a path is valid text and gives back exactly its bytes."""
    text = paths.path_text(path)

    text.encode("utf-8")
    assert path == paths.path_bytes(text)
    assert not paths.is_outside(text)


@given(st.binary(max_size=12), st.binary(max_size=12))
def test_different_paths_have_different_texts(one: bytes, two: bytes) -> None:
    """Two files never share a path column."""
    assert (one == two) == (paths.path_text(one) == paths.path_text(two))


def test_ordinary_paths_read_as_they_are() -> None:
    """Only bytes that are not UTF-8, and a leading quote, are escaped."""
    assert paths.path_text("src/na\u00efve file.py".encode()) == "src/na\u00efve file.py"
    assert paths.path_text(b"caf\xe9.txt") == '"caf\\351.txt"'


@pytest.mark.parametrize("text", ['"', '"abc', '"\\9"', '"\\400"', '"\\12"', '"\\'])
def test_a_malformed_quoted_path_is_refused(text: str) -> None:
    """A quoted form that nothing wrote is a ValueError, not another path."""
    with pytest.raises(ValueError, match="path"):
        paths.path_bytes(text)


@given(
    st.text(st.sampled_from("0123456789abcdef"), min_size=16, max_size=16), st.binary(min_size=1, max_size=12)
)
@example("0123456789abcdef", b'a"')
def test_a_file_outside_is_no_path_of_a_repository(digits: str, name: bytes) -> None:
    """Whatever its name, no verb gets bytes of it, so no tree, restore or replay can hold it."""
    text = f"root:{digits}/{paths.path_text(name)}"
    assert paths.is_outside(text)
    with pytest.raises(ValueError, match="outside of the repository"):
        paths.path_bytes(text)
    assert paths.is_within(text, text[: len("root:") + 16])


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Fix the JWT refresh bug in auth middleware", "fix-jwt-refresh-bug-auth"),
        ("Add tests", "add-tests"),
        ("hi", "session-abcd1234"),
        ("", "session-abcd1234"),
        ("\u4fee\u590d", "session-abcd1234"),
        ("do it", "do-it"),
        ("a" * 50, "a" * 30),
    ],
)
def test_slugs_of_known_messages(text: str, slug: str) -> None:
    """S1-13: kebab-case of the words that mean something; too vague a message gives the session's id."""
    assert slug == names.slugify(text, "abcd1234")


@given(st.text(max_size=80))
def test_a_slug_is_short_kebab_case(text: str) -> None:
    """S1-13: letters, digits and single hyphens, 4 to 30 characters, no hyphen at either end."""
    slug = names.slugify(text, "abcd1234")

    assert names.SLUG_SIZE_MIN <= len(slug) <= names.SLUG_SIZE_MAX
    assert all(
        part and part.isascii() and part.isalnum() and part == part.lower() for part in slug.split("-")
    )


SESSION_VECTOR = "s2r4y76d"
EVENT_VECTOR = "56c0bfa2620a21b85b77884cd3685cb6"


def test_derived_ids_are_fixed_for_ever() -> None:
    """S1-10: these ids are in stores out there; a change here would make known events unknown."""
    assert names.session_id_of("claude-code", "0b0a") == SESSION_VECTOR
    assert names.event_id_of("claude-code", "line", "uuid") == EVENT_VECTOR


@given(st.lists(st.text(max_size=5), max_size=3), st.lists(st.text(max_size=5), max_size=3))
def test_different_keys_give_different_events(one: list[str], two: list[str]) -> None:
    """I8: no two lists of key parts run together into one event id."""
    assert (one == two) == (names.event_id_of("agent", *one) == names.event_id_of("agent", *two))


@given(st.text(max_size=9), st.text(max_size=9))
def test_session_ids_are_eight_characters(agent: str, session: str) -> None:
    """S1-10: eight of [0-9a-z], the same each time, apart for another agent's session of that name."""
    session_id = names.session_id_of(agent, session)

    assert session_id == names.session_id_of(agent, session)
    assert len(session_id) == 8
    assert all(c in "0123456789abcdefghijklmnopqrstuvwxyz" for c in session_id)
    assert session_id != names.session_id_of(agent + "x", session)


@given(st.text(max_size=20))
def test_safe_names_hold_two_layers_apart(text: str) -> None:
    """S0-9: only [a-z0-9_-] is left, so a context id has exactly one colon."""
    safe = names.safe_context_name(text)

    assert len(safe) == len(text)
    assert all(c in "abcdefghijklmnopqrstuvwxyz0123456789_-" for c in safe)


def test_context_ids_have_their_form() -> None:
    """S1-4, S1-11: `{type}:{name}` with three-digit turns and sequence numbers that grow past 999."""
    assert names.session_context("fix-jwt", "abcd1234") == "session:fix-jwt_abcd1234"
    assert names.turn_context("abcd1234", 7) == "turn:abcd1234_007"
    assert names.event_context("action", "abcd1234", 7, 1234) == "action:abcd1234_007_1234"
    assert names.sessions_context("0123456789ab") == "0123456789ab:sessions"
    assert [names.turn_id_of(n) for n in (1, 999, 1000)] == ["001", "999", "1000"]


# -- layout --------------------------------------------------------------------------------------

NUMBER = st.integers(0, 10**20 - 1)
HEX = st.text("0123456789abcdef", min_size=64, max_size=64)


@given(NUMBER, NUMBER, HEX)
def test_every_file_name_is_parsed_back(one: int, two: int, digits: str) -> None:
    """What the layout names it recognises, and under no other kind."""
    where = Layout("/s")
    files = {
        layout.parse_journal: (where.journal(one), one),
        layout.parse_manifest: (where.manifest(one), one),
        layout.parse_idx: (where.idx(one), one),
        layout.parse_segment: (layout.segment_name(one, two, digits[:16]), (one, two, digits[:16])),
        layout.parse_index: (layout.index_name(one, digits[:8]), (one, digits[:8])),
        layout.parse_pack: (where.pack(digits), digits),
    }
    for parse, (path, value) in files.items():
        name = path.rpartition("/")[2]
        assert parse(name) == value
        assert [p for p in files if p(name) is not None] == [parse]


@given(st.text(max_size=60))
@example("0000000000000000001.evj")
@example("00000000000000000001.evj~")
@example("\u0660" * 20 + ".evj")
@example("+0000000000000000001.json")
@example("A" * 64 + ".evp")
def test_foreign_names_are_not_ours(name: str) -> None:
    """S1-61: a file we did not name is never taken for ours."""
    parsers = (
        layout.parse_journal,
        layout.parse_manifest,
        layout.parse_idx,
        layout.parse_segment,
        layout.parse_index,
        layout.parse_pack,
    )
    assert [None] * len(parsers) == [parse(name) for parse in parsers]


def test_every_named_file_lies_in_a_directory_of_the_store() -> None:
    """`DIRECTORIES` lists every directory that init has to make, parents first."""
    where = Layout("/s")
    paths_made = [
        where.journal(1),
        where.segment("x"),
        where.manifest(1),
        where.quarantine("x"),
        where.index("x"),
        where.pack("0" * 64),
        where.condemned("x"),
        where.idx(1),
        where.lock("append"),
        where.tmp("x"),
        where.gc_generation,
    ]
    made = {"/s"}
    for name in layout.DIRECTORIES:
        assert os.path.dirname(where.directory(name)) in made
        made.add(where.directory(name))

    assert {os.path.dirname(path) for path in paths_made} <= made


# -- locks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (a, b)
        for a in (locks.GC, locks.MAINTAIN, locks.APPEND)
        for b in (locks.GC, locks.MAINTAIN, locks.APPEND)
    ],
)
def test_locks_are_taken_in_one_order(first: str, second: str) -> None:
    """I31: gc before maintain before append; asking the other way round, or twice, is our own mistake."""
    fs, where = sim_store()
    order = [locks.GC, locks.MAINTAIN, locks.APPEND]
    with locks.acquire(fs, where, first):
        if order.index(first) < order.index(second):
            locks.acquire(fs, where, second).release()
        else:
            with pytest.raises(AssertionError):
                locks.acquire(fs, where, second)
    locks.acquire(fs, where, locks.GC).release()


def test_an_exclusive_lock_keeps_others_out_until_it_is_released() -> None:
    """I31: a second holder waits at most its deadline, and learns what it waited for."""
    fs, where = sim_store()
    outcomes: list[object] = []

    def other() -> None:
        outcomes.append(locks.try_acquire(fs, where, locks.MAINTAIN))
        try:
            locks.acquire(fs, where, locks.MAINTAIN, exclusive=False, timeout_s=0.2)
        except LockTimeout as error:
            outcomes.append(str(error))

    held = locks.acquire(fs, where, locks.MAINTAIN)
    _in_thread(other)
    held.release()
    held.release()

    assert outcomes[0] is None
    assert "maintain.lock" in str(outcomes[1])
    again = locks.try_acquire(fs, where, locks.MAINTAIN)
    assert again is not None
    again.release()


def test_shared_locks_let_each_other_in() -> None:
    """Blob writers hold gc shared, all at once."""
    fs, where = sim_store()
    granted: list[bool] = []

    def other() -> None:
        with locks.acquire(fs, where, locks.GC, exclusive=False, timeout_s=0):
            granted.append(locks.try_acquire(fs, where, locks.MAINTAIN) is not None)

    with locks.acquire(fs, where, locks.GC, exclusive=False):
        _in_thread(other)

    assert granted == [True]


def test_a_lock_dies_with_its_process(store_dir: str) -> None:
    """I32: the kernel frees a killed holder's lock; nothing has to be repaired."""
    where = Layout(store_dir)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        locks.acquire(REAL, where, locks.APPEND)
        os.write(write_end, b"!")
        signal.pause()
        os._exit(0)
    os.read(read_end, 1)
    assert locks.try_acquire(REAL, where, locks.APPEND) is None
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(read_end)
    os.close(write_end)

    locks.acquire(REAL, where, locks.APPEND, timeout_s=5.0).release()


def _in_thread(work: object) -> None:
    thread = threading.Thread(target=work)  # type: ignore[arg-type]
    thread.start()
    thread.join()


# -- publish and its neighbours ------------------------------------------------------------------


def test_publish_is_a_compare_and_set(store_dir: str) -> None:
    """A name is given once: a second publish changes nothing and leaves nothing in tmp/."""
    where = Layout(store_dir)
    target = where.pack("0" * 64)
    publish(REAL, where.tmp("one"), target, b"first")
    with pytest.raises(FileExistsError):
        publish(REAL, where.tmp("two"), target, b"second")

    assert read_file(REAL, target) == b"first"
    assert os.listdir(where.directory(layout.TMP_DIR)) == []
    assert os.stat(target).st_mode & 0o777 == 0o600


def test_publish_finishes_a_short_write() -> None:
    """A write that takes only part is continued: the published file is whole."""
    fs, where = sim_store()
    fs.fault = short_write(0, 3)
    publish(fs, where.tmp("one"), where.manifest(1), b"0123456789")

    assert read_file(fs.crash(), where.manifest(1)) == b"0123456789"


def test_a_disk_that_takes_nothing_is_an_error() -> None:
    """`write_all` does not turn in circles on a write of zero bytes."""
    fs = SimFS()
    fd = fs.open("/f", os.O_RDWR | os.O_CREAT)
    fs.fault = short_write(0, 0)
    with pytest.raises(OSError, match="no more bytes"):
        write_all(fs, fd, b"x")


def test_read_file_stops_at_its_limit() -> None:
    """I11: a file larger than expected is refused before it is read."""
    fs = SimFS()
    fd = fs.open("/f", os.O_RDWR | os.O_CREAT)
    fs.pwrite(fd, b"12345", 0)

    assert read_file(fs, "/f", 5) == b"12345"
    with pytest.raises(ValueError, match="5 bytes"):
        read_file(fs, "/f", 4)


def test_walk_names_lists_files_below() -> None:
    """Relative names of all files, in sorted order, whatever the depth."""
    fs, where = sim_store()
    for path in (where.tmp("x"), where.journal(1), where.gc_generation):
        fs.close(fs.open(path, os.O_RDWR | os.O_CREAT))

    assert [f"log/journal/{1:020d}.evj", "snapshots/gc_generation", "tmp/x"] == list(
        walk_names(fs, where.root)
    )


def test_the_real_boot_id_stays_within_a_boot() -> None:
    """The boot rule needs an id that two processes of one boot agree on."""
    assert REAL.boot_id() == REAL.boot_id() != b""


def test_every_error_has_its_exit_code() -> None:
    """The command line ends with a documented code: 1, 3, 10, 11 or 12."""

    def below(kind: type[EventLogError]) -> set[type[EventLogError]]:
        return {kind}.union(*(below(k) for k in kind.__subclasses__()))

    codes = {
        kind.__name__: kind.exit_code
        for kind in below(EventLogError)
        if kind.__module__ == EventLogError.__module__
    }
    assert codes == {
        "EventLogError": 1,
        "InvalidEvent": 1,
        "NotFound": 1,
        "NoTree": 1,
        "Ambiguous": 1,
        "NoStore": 10,
        "Unsupported": 1,
        "NotDurable": 1,
        "QueryError": 1,
        "Refused": 3,
        "Conflict": 3,
        "LockTimeout": 11,
        "Corruption": 12,
    }
