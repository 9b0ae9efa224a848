"""Sending to a server that is strict, slow, broken or lying (tests/exports/locusgraph_server.py).

Every server has a port of its own, and so a position of its own in the log: one store serves most tests.
"""

import contextlib
import errno
import json
import os
import random
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.errors import LockTimeout, Refused
from eventlog.exports import streams
from eventlog.exports.locusgraph import anchors, locusgraph, rest, send
from eventlog.exports.locusgraph.courier import PER_MINUTE, Courier, RealClock, ServiceError
from eventlog.exports.locusgraph.deliveries import States
from eventlog.exports.locusgraph.endpoint import KEY_VARIABLE, ApiKey, endpoint_of, key_from
from eventlog.exports.locusgraph.rest import ProtocolError
from eventlog.exports.locusgraph.send import Options, SendReport
from eventlog.projections import joins
from eventlog.query.binding import Binding
from eventlog.recorder import lifecycle
from eventlog.recorder.recorder import Recorder
from eventlog.recorder.requests import LINK_NAMES
from eventlog.store import Store
from tests.exports import locusgraph_server as its
from tests.exports.locusgraph_server import GRAPH, KEY, FakeClock, Fault, Graph, Server
from tests.exports.stores import REPO, SID, new_store, small_log
from tests.older import append_as_before

HUNT = float(os.environ.get("LOCUS_HUNT", "0"))
APIS = ("0.x", "1.0")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A log of 14 events: 5 contexts whose state changes, 8 timeline events."""
    with new_store(tmp_path_factory.mktemp("send")) as store:
        append_as_before(store, small_log())
        yield store


def sender(
    store: Store, server: Server, clock: Any = None, *, patience_s: float | None = 900.0, **how: Any
) -> SendReport:
    """One run of the exporter, in time that passes only when it waits."""
    endpoint = endpoint_of(server.url, GRAPH, server.graph.api)
    clock = clock or FakeClock()
    flags = {name: how.pop(name) for name in ("retry_failed", "follow") if name in how}
    progress = send.SendProgress()
    progress.all_sent = how.pop("on_all_sent", progress.all_sent)  # type: ignore[method-assign]
    courier = Courier(
        endpoint,
        ApiKey(how.pop("key", KEY)),
        clock,
        patience_s=patience_s,
        per_minute=how.pop("per_minute", PER_MINUTE),
        answer_s=0.4,
        seed=1,
    )
    return send.send(store, endpoint, courier, clock, Options(**how), **flags, progress=progress)


def status(store: Store, server: Server) -> send.EndpointStatus:
    return send.status(store, endpoint_of(server.url, GRAPH, server.graph.api))


_expected: dict[tuple[str, int], dict[str, Any]] = {}


def expected(store: Store) -> dict[str, Any]:
    """Context → payload, by the records of the file form."""
    events = sum(event["event_type"] != "cursor" for event in store.events(columns=["event_type"]))
    key = store.layout.root, events
    if key not in _expected:
        with store.view() as view:
            records = [entry.record for entry in locusgraph.RecordBatch(store, view, 0, GRAPH).entries()]
        _expected[key] = {one["context_id"]: json.loads(one["payload_json"]) for one in records}
    return _expected[key]


def check_all_there(store: Store, server: Server) -> None:
    """Each context in its final state, each timeline event written once, and the ledger knows it."""
    assert server.graph.texts() == expected(store) and server.graph.orphans == []
    anchors = ("knowledge:", "session:", "turn:", f"{REPO}:")
    events = {c: m.writes for c, m in server.graph.memories.items() if not c.startswith(anchors)}
    assert set(events.values()) == {1}
    found = status(store, server)
    assert found.lag == 0 and found.delivered.failures == {}


@pytest.mark.parametrize("api", APIS)
def test_everything_arrives(store: Store, api: str) -> None:
    """S1-51, I36: each context in its final state, parents first, in both interfaces; then nothing is new."""
    with Server(Graph(api)) as server:
        report = sender(store, server)
        again = sender(store, server)

        check_all_there(store, server)
        assert report.answers == {"created": 19} and report.reached >= 14
        assert again.total == again.requests == 0
        held = server.graph.memories
        assert list(held)[:5] == [
            f"knowledge:my_project_{REPO}",
            f"{REPO}:sessions",
            f"session:fix-jwt-refresh_{SID}",
            f"turn:{SID}_001",
            f"turn:{SID}_002",
        ]
        decision = held[f"decision:{SID}_001_005"].item
        assert decision["related_to"] == ["decision:decisions"] and decision["extends"] == [f"turn:{SID}_001"]
        assert set(held[f"turn:{SID}_001"].item) - {"replace"} <= its.FIELDS["0.x"]


@pytest.mark.parametrize("api", APIS)
def test_a_context_that_changed_is_replaced(tmp_path: Path, api: str) -> None:
    """P2, I36: of a context that changed since, the service holds the last state, under the same id."""
    with new_store(tmp_path) as store, Server(Graph(api)) as server:
        log = small_log()
        append_as_before(store, log[:6])
        sender(store, server)
        first = server.graph.memories[f"turn:{SID}_001"].locus_id
        append_as_before(store, log[6:])
        sender(store, server)

        check_all_there(store, server)
        receipts = store.query("select payload->'contexts' from events where operation = 'deliver'").rows
        assert first in [locus_id for (item,) in receipts for _, locus_id in json.loads(item).values()]
        assert server.graph.texts()[f"turn:{SID}_001"]["kind"] == "turn_end"


PASSING: dict[str, tuple[list[Fault], float]] = {
    "too many calls": ([its.status(429, "30"), *[its.status(429)] * 3, its.status(429, "soon")], 30),
    "too many calls, a date": ([its.status(429, its.in_seconds(1_800_000_000, 45))], 44),
    "500s": ([its.status(500), its.status(503, "2"), its.status(502)], 2),
    "cut connections": ([its.CUT, its.CUT, its.HALF, its.slow(1.0)], 0),
    "answers that are lost": ([its.LOST, its.LOST_500, its.FINE, its.LOST], 0),
    "some are not stored": ([its.failing(0, 3), its.failing(1), its.FINE, its.failing(1, 2)], 1),
}


@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_waited_out(store: Store, name: str) -> None:
    """I36: connection faults, 429, 5xx and answers that are lost end with everything there once."""
    plan, asked_s = PASSING[name]
    with Server(Graph(APIS[len(name) % 2]), list(plan)) as server:
        clock = FakeClock()
        report = sender(store, server, clock, batch=7)

        check_all_there(store, server)
        assert report.failures == [] and server.plan == []
        assert asked_s <= clock.passed < 120


def test_contexts_are_read_as_they_are_asked_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many contexts there are, the projections are folded once; none is left out or comes twice."""
    folds: list[object] = []
    bind = Binding.bind

    def binding(*given: Any) -> None:
        folds.append(given)
        bind(*given)

    monkeypatch.setattr(Binding, "bind", binding)
    with store.view() as view:
        whole = list(anchors.changed(view, store, 0))
        monkeypatch.setattr(streams, "_FETCH_ROWS", 1)
        assert list(anchors.changed(view, store, 0)) == whole
        assert len([one for one in whole if one.group != "renamed"]) == 5
    assert len(folds) == 2


def test_contexts_derive_what_their_events_can_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I21: to plan what no event tells of would take most of the time of a small log."""
    names: list[str] = []
    derive = joins.derived

    def noted(name: str, events: str) -> str:
        names.append(name)
        return derive(name, events)

    monkeypatch.setattr(joins, "derived", noted)
    with new_store(tmp_path) as store:
        append_as_before(
            store, [row for row in small_log() if row["event_type"] not in ("decision", "error")]
        )
        with store.view() as view:
            assert list(anchors.changed(view, store, 0))
            assert names == ["acts"]
        append_as_before(store, small_log())
        with store.view() as view:
            assert list(anchors.changed(view, store, 0))
        assert sorted(names[1:]) == ["acts", "decided", "resolved"]


def test_contexts_of_a_damaged_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I22: an index that turns out damaged on the way costs time; each context comes once."""
    with new_store(tmp_path) as store:
        for turn in range(1, 200):
            store.append([lifecycle.turn_start("a0000000", turn, f"Do {turn} {turn:0999d}")])
        store.seal()
        with store.view() as view:
            whole = list(anchors.changed(view, store, 0))
        store.reindex()
        (index,) = (tmp_path / ".locus/index").iterdir()
        sound = index.read_bytes()
        monkeypatch.setattr(streams, "_FETCH_ROWS", 1)
        for at in range(3 * 4096, len(sound), 3 * 16_384):
            index.write_bytes(sound[:at] + bytes(b ^ 0x55 for b in sound[at : at + 64]) + sound[at + 64 :])
            with store.view() as view:
                assert list(anchors.changed(view, store, 0)) == whole


def test_random_faults_lose_nothing(store: Store) -> None:
    """I36: whatever a server does wrong that passes, in any order, everything is there once."""
    seed = int(os.environ.get("LOCUS_SEED", "0")) or random.randrange(1 << 30)
    print(f"LOCUS_SEED={seed}")
    draw = random.Random(seed)
    kinds = [
        lambda: its.status(429, draw.choice([None, "1", "7", "x"])),
        lambda: its.status(draw.choice([500, 502, 503, 504])),
        lambda: draw.choice([its.CUT, its.HALF, its.LOST, its.LOST_500, its.FINE, its.FINE]),
        lambda: its.failing(*draw.sample(range(4), 2)),
    ]
    for _ in range(3 if HUNT == 0 else int(HUNT * 100)):
        api = draw.choice(APIS)
        plan = [draw.choice(kinds)() for _ in range(draw.randrange(12))]
        with Server(Graph(api), plan) as server:
            if status(store, server).delivered.position:
                continue  # its port was another server's before
            done = sender(store, server, batch=draw.choice([1, 2, 3, 5, 100]))
            if done.failures:  # a record may meet its fault four times
                sender(store, server, retry_failed=True)
            check_all_there(store, server)


LIES = [
    (its.HTML, "no JSON object"),
    (its.EMPTY, "no JSON object"),
    (its.HUGE, "more than 16 MiB"),
    (its.ENDLESS_HEADERS, "more headers"),
    (its.ENDLESS_HEADER, "more headers"),
    (its.ENDLESS_CONTINUES, "more headers"),
    (its.redirect("https://elsewhere.example/v1"), "redirects .* https://elsewhere.example/v1"),
    (its.status(404), "knows no /v1/events/batch"),
    (its.status(418), "answers 418"),
    (its.FEWER, "12 results for 13 records"),
    (its.WRONG_IDS, "another context"),
    (its.NO_IDS, "has no id"),
    (its.NO_RESULTS, "no list of results"),
    (its.MISCOUNTED, "says failed: 3, and its results say 0"),
    (its.STRANGE, "status 'maybe'"),
]


def test_what_cannot_be_believed() -> None:
    """I36: an answer that makes no sense is distinguished from one that does, and is not asked for again."""
    record: dict[str, Any] = {
        **{name: [] for name in LINK_NAMES},
        "event_kind": "fact",
        "source": "system",
        "timestamp": None,
    }
    record |= {"context_id": "note:a_1", "payload_json": "{}"}
    items = [
        rest.item("events", 1, record, api="1.0", replace=False, payload_bytes_max=65_536) for _ in range(13)
    ]
    with Server(Graph(), [fault for fault, _ in LIES]) as server:
        endpoint = endpoint_of(server.url, GRAPH)
        courier = Courier(endpoint, ApiKey(KEY), FakeClock())
        for number, (_, says) in enumerate(LIES, 1):
            with pytest.raises((ServiceError, ProtocolError), match=says):
                rest.outcomes(courier.post(rest.body(GRAPH, items)).value, items)
            assert len(server.graph.bodies) == number
        assert len(rest.outcomes(courier.post(rest.body(GRAPH, items)).value, items)) == 13


def test_a_server_that_lies(store: Store) -> None:
    """I36: of a batch whose answer is a lie nothing is noted, and the next export sends it again."""
    with Server(Graph(), [its.FINE] * 5 + [its.FEWER]) as server:
        with pytest.raises(ProtocolError, match="3 results for 4 records") as caught:
            sender(store, server, batch=6)
        found = status(store, server)
        assert found.delivered.counts == {"created": 15} and found.delivered.position == 7
        assert found.delivered.last_error == str(caught.value)
        sender(store, server)

        check_all_there(store, server)
        assert status(store, server).delivered.last_error is None


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3), st.booleans()), max_size=300), st.data())
def test_states_are_a_dict_in_less_room(given: list[tuple[int, int, bool]], data: st.DataObject) -> None:
    """I36: of each context the state that was noted last is known, whatever the digests are."""
    keys = data.draw(st.lists(st.integers(0, (1 << 64) - 1), min_size=61, max_size=61, unique=True))
    states, plain = States(), dict[str, tuple[str, bool]]()
    for which, state, has_id in given:
        key = f"{keys[which] >> (8 * state) << 8:016x}"[-16:]  # some share a table and a place
        states.put(key, f"{state * 2:016x}", has_id)
        plain[key] = (f"{state * 2:016x}", has_id)
    assert len(states) == len({int(key, 16) or 1 for key in plain})
    for key, (state_of_it, has_id) in plain.items():
        if int(key, 16) > 1:
            assert states.holds(key, state_of_it) and not states.holds(key, "f" * 16)
            assert states.has_id(key) == has_id
    assert not states.holds("123456789abcdef0", "0" * 16) or "123456789abcdef0" in plain


def test_no_key_leaves_by_a_redirect(store: Store) -> None:
    """P5: a redirect is not followed, so that the key and the records go nowhere else."""
    with Server(Graph()) as elsewhere, Server(Graph(), [its.redirect(elsewhere.url)]) as server:
        with pytest.raises(ServiceError, match="redirects"):
            sender(store, server)

        assert elsewhere.graph.bodies == []


def test_a_rejected_key(store: Store, tmp_path: Path) -> None:
    """P5: a rejected key is stated once, stops the export, and is in no message and not in the log."""
    key = "wrong-key-98765"
    with Server(Graph()) as server:
        with pytest.raises(ServiceError, match="rejects the key") as caught:
            sender(store, server, key=key)
        assert len(server.graph.bodies) == 1
        assert key not in str(caught.value) and "[key]" in str(caught.value)
        assert server.graph.headers[0]["Authorization"] == f"Bearer {key}"
    log = b"".join(p.read_bytes() for p in Path(store.layout.root).rglob("*") if p.is_file())
    assert key.encode() not in log and KEY.encode() not in log


@pytest.mark.parametrize(
    ("server", "says"),
    [
        ("http://api.example.com", "unencrypted"),
        ("https://me:pw@api.example.com", "other programs could read"),
        ("https://api.example.com/?key=1", "other programs could read"),
        ("ftp://api.example.com", "not an address"),
        ("api.example.com", "not an address"),
        ("https://api.example.com:port", "not an address"),
        ("https://api.exa mple.com", "not an address"),
    ],
)
def test_addresses_that_give_the_key_away(server: str, says: str) -> None:
    """P5: the key goes over TLS or to this machine, and is in no address."""
    with pytest.raises(Refused, match=says) as caught:
        endpoint_of(server, GRAPH)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("key", ["", "  ", "two words", "a\r\nX-Other: b", "schlüssel", "k" * 5_000])
def test_keys_that_no_header_can_hold(key: str) -> None:
    """P5: a key that is none is refused before anything is sent, and is not repeated."""
    with pytest.raises(Refused, match=KEY_VARIABLE) as caught:
        key_from({KEY_VARIABLE: key})
    assert not key.strip() or key not in str(caught.value)
    assert "secret" not in repr(ApiKey("secret"))


def test_down_for_an_hour(store: Store) -> None:
    """I36: an export gives up after a quarter of an hour and says so; one that follows waits the hour out."""
    clock = FakeClock()
    with Server(Graph()) as server:
        server.plan = [its.CUT] * 10_000
        with pytest.raises(ServiceError, match=r"could not be sent to for 1[45] min: the connection failed"):
            sender(store, server, clock)
        assert 800 < clock.passed <= 900
        tried = len(server.graph.bodies)
        assert tried < 30
        assert status(store, server).delivered.position == 0

        clock = FakeClock()
        clock.at.append((3_600.0, server.plan.clear))

        def stop(_: SendReport) -> None:
            clock.ended = True

        report = sender(store, server, clock, patience_s=None, follow=True, on_all_sent=stop)
        assert report.stopped and clock.passed < 3_700
        check_all_there(store, server)


def test_nobody_listens(store: Store) -> None:
    """P8, I36: a server that nobody could connect to in this run is named as that, and ends the export after
    seconds; nothing is noted as delivered. One that follows goes on until the service starts."""
    with Server(Graph()) as gone:
        pass
    endpoint, clock = endpoint_of(gone.url, GRAPH), FakeClock()
    courier = Courier(endpoint, ApiKey(KEY), clock)
    where = re.escape(f"nobody listens at {gone.url.removeprefix('http://')} (connection refused). Nothing")
    with pytest.raises(ServiceError, match=where) as caught:
        send.send(store, endpoint, courier, clock)
    assert "no answer in time" not in str(caught.value) and "Check --server" in str(caught.value)
    assert 1 < courier.requests < 10 and clock.passed < 10
    found = status(store, gone)
    assert (found.delivered.position, found.delivered.last_error) == (0, str(caught.value))

    clock, started = FakeClock(), list[Server]()
    progress = send.SendProgress()
    progress.all_sent = lambda _: setattr(clock, "ended", True)  # type: ignore[method-assign]
    with contextlib.ExitStack() as servers:

        def start() -> None:
            assert courier.trouble is not None
            assert "nobody listens at" in courier.trouble and courier.trouble.endswith(" s")
            started.append(servers.enter_context(Server(Graph(), port=int(gone.url.rpartition(":")[2]))))

        clock.at.append((3_600.0, start))
        courier = Courier(endpoint, ApiKey(KEY), clock, patience_s=None)
        send.send(store, endpoint, courier, clock, follow=True, progress=progress)
        assert clock.passed >= 3_600
        check_all_there(store, started[0])


def test_a_server_that_answered_and_goes_away(store: Store) -> None:
    """I36: a server that took a connection in this run, and then takes none, is waited for."""
    clock = FakeClock()
    with contextlib.ExitStack() as servers:
        server = servers.enter_context(Server(Graph(), [its.status(503), its.CUT]))
        clock.at.append((0.1, servers.close))
        with pytest.raises(ServiceError, match=r"for 1[45] min: nobody listens at .*What was acknowledged"):
            sender(store, server, clock)
    assert 800 < clock.passed <= 900


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name not known"), "its name is not known here (Name not known)"),
        (OSError(errno.ENETUNREACH, "No route"), "it cannot be reached from here (No route)"),
        (TimeoutError(), "no connection within 10 s"),
    ],
)
def test_why_there_is_no_connection(error: OSError, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: what keeps a connection from being made is named, and is no wait for an answer."""

    def connect(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("urllib3.util.connection.create_connection", connect)
    clock = FakeClock()
    courier = Courier(endpoint_of("https://graph.example", GRAPH), ApiKey(KEY), clock)
    with pytest.raises(ServiceError, match=re.escape(f"could not be sent to: {says}. Nothing was sent")):
        courier.post(b"{}")
    assert courier.requests > 1 and clock.passed < 10


def test_a_server_that_asks_for_too_much_patience(store: Store) -> None:
    """A pause beyond our patience ends the export at once, in words that tell how long."""
    clock = FakeClock()
    with (
        Server(Graph(), [its.status(503, "7200")]) as server,
        pytest.raises(ServiceError, match="answers 503 and asks to wait 7200 s"),
    ):
        sender(store, server, clock)
    assert clock.passed == 0


def test_calls_a_minute(store: Store) -> None:
    """No minute sees more calls than are granted; 1.0 grants 300."""
    clock = FakeClock()
    called: list[float] = []
    with Server(Graph()) as server:
        server.on_call = lambda: called.append(clock.passed)
        sender(store, server, clock, batch=1, per_minute=5)

        assert called[:5] == [0] * 5 and called[5] >= 60 and called[10] >= 120 and len(called) == 19
        check_all_there(store, server)
    assert PER_MINUTE == 300


def test_records_that_are_refused(tmp_path: Path) -> None:
    """I36, P7: a refused record holds up no other; why is kept, and it is sent again when asked for."""
    with new_store(tmp_path) as store, Server(Graph()) as server:
        append_as_before(store, small_log())
        words = "the reasoning 'clock skew' is not admitted: use source user"
        server.graph.refuse = lambda item: words if "decision:a1" in item["context_id"] else None
        report = sender(store, server)
        assert [(f.group, f.position) for f in report.failures] == [("events", 7)]
        assert report.answers == {"created": 18, "failed": 1}
        failed = status(store, server).delivered
        assert failed.position >= 14
        # Words of the record are no business of the ledger, which an erasure leaves as it is.
        assert [f.reason for f in failed.failures.values()] == [
            "the … '… …' is not admitted: use source user"
        ]
        assert sender(store, server).total == 0

        assert len(sender(store, server, retry_failed=True).failures) == 1
        server.graph.refuse = lambda item: None
        report = sender(store, server, retry_failed=True)
        assert report.answers == {"created": 1} and report.failures == []
        check_all_there(store, server)
        assert sender(store, server, retry_failed=True).total == 0


def test_a_body_that_is_refused_for_one_record(tmp_path: Path) -> None:
    """I36: where a server refuses a body as a whole, it is found out which record it means."""
    with new_store(tmp_path) as store, Server(Graph()) as server:
        append_as_before(store, small_log())
        check = server.graph.check

        def stricter(body: bytes) -> tuple[int, str, list[dict[str, Any]]]:
            code, why, items = check(body)
            if any(item["context_id"].startswith("llm:") for item in items):
                return 413, "payload too large", []
            return code, why, items

        server.graph.check = stricter  # type: ignore[method-assign]
        report = sender(store, server)

        assert [f.reason for f in report.failures] == ["413: BAD_REQUEST: payload too large"]
        assert report.answers == {"created": 18, "failed": 1}
        assert status(store, server).delivered.position == 14
        server.graph.check = check  # type: ignore[method-assign]
        sender(store, server, retry_failed=True)
        check_all_there(store, server)


def test_a_server_that_refuses_everything(store: Store) -> None:
    """A server that refuses everything is distinguished from a few bad records; nothing is noted as
    failed."""
    with Server(Graph()) as server:
        server.graph.refuse = lambda item: "unknown field: payload"
        with pytest.raises(ServiceError, match=r"refuses every record.*unknown field.*--api \(it is 1.0\)"):
            sender(store, server)
        assert status(store, server).delivered.failures == {}


def test_the_wrong_interface(store: Store) -> None:
    """What 0.x refuses of the spelling of 1.0 is noted, and arrives when it is sent in its own."""
    with Server(Graph("0.x")) as server:
        courier = Courier(endpoint_of(server.url, GRAPH, "1.0"), ApiKey(KEY), FakeClock())
        report = send.send(store, endpoint_of(server.url, GRAPH, "1.0"), courier, FakeClock())
        assert {one.reason for one in report.failures} - {rest.WAITS} == {
            "400: BAD_REQUEST: unknown field: replace"
        }
        sender(store, server, retry_failed=True)

        check_all_there(store, server)


def test_a_project_of_somebody_else(store: Store) -> None:
    """P5: a project that is there already stays as it is; an event in another's place is a conflict."""
    with Server(Graph()) as server:
        name, other = f"knowledge:my_project_{REPO}", f"intent:{SID}_001_002"
        for context in (name, other):
            server.graph.memories[context] = its.Memory("Ltheirs", {"payload": {"data": "theirs"}})
        report = sender(store, server)

        assert report.answers == {"created": 17, "held": 1, "failed": 1}
        assert "holds something else" in report.failures[0].reason
        assert server.graph.texts()[name] == server.graph.texts()[other] == {"data": "theirs"}
        sender(store, server, retry_failed=True)
        assert server.graph.texts()[other] == expected(store)[other]
        assert server.graph.texts()[name] == {"data": "theirs"}


def test_filtered_is_delivered(store: Store) -> None:
    """What the service filters is dealt with: it is counted, and not sent again."""
    with Server(Graph()) as server:
        server.graph.noise = frozenset(("feedback", "decision"))
        report = sender(store, server)

        assert report.answers == {"created": 17, "filtered": 2} and report.failures == []
        assert sender(store, server).total == 0
        assert status(store, server).delivered.counts["filtered"] == 2


def test_large_and_strange_payloads(tmp_path: Path) -> None:
    """S0-16, I36: payloads are within 64 KB of bytes, strict JSON, objects; what is cut says where it is."""
    nested: Any = "deep"
    for _ in range(200):
        nested = [nested]
    with new_store(tmp_path) as store, Server(Graph()) as server:
        store.append(
            [
                {"event_type": "feedback", "payload": {"text": "日" * 100_000}},
                {"event_type": "feedback", "payload": {"items": list(range(50_000))}},
                {"event_type": "feedback", "payload": {"n": float("inf"), "t": "\ud800", "deep": nested}},
                {"event_type": "feedback", "payload": {"k" * 90_000: 1}},
                {"event_type": "feedback", "event_kind": "zzz", "source": "nobody", "occurred_at": -(10**9)},
                {
                    "event_type": "feedback",
                    "related_to": [f"a:{n}" for n in range(200)] + ["errors", "nothing"],
                },
            ]
        )
        report = sender(store, server)

        assert report.answers == {"created": 12} and report.payloads_cut == 3
        check_all_there(store, server)
        last = list(server.graph.memories.values())[-1].item
        assert len(last["related_to"]) == 50 and report.links_left_out == 152
        assert "whole in event" in json.dumps(list(server.graph.memories.values())[6].item)


def test_since_session_limit_and_plan(tmp_path: Path) -> None:
    """I36: `since` sends again, `session` sends one, `limit` stops early; none makes a later export skip."""
    with new_store(tmp_path) as store, Server(Graph()) as server:
        append_as_before(store, small_log())
        for other in ("b0000000", "c0000000"):
            store.append([lifecycle.session_start(other, other, "Other", REPO, event_id=other * 4)])
            store.append([lifecycle.timeline_event("feedback", other, 1, {"of": other})])
        plan = send.plan(store, endpoint_of(server.url, GRAPH), Options(batch=4))
        assert server.graph.bodies == [] and plan.requests == 8

        one = sender(store, server, session_id="b0000000")
        assert one.reached == 0 and [c for c in server.graph.texts() if "c0000000" in c] == []
        assert "turn:b0000000_001" in server.graph.texts()
        steps = [sender(store, server, limit=6, batch=4) for _ in range(3)]
        assert [step.total for step in steps][:2] == [6, 6] and 0 < steps[2].total < 6
        assert steps[0].known > 0  # what went with the session is not sent twice
        check_all_there(store, server)

        again = sender(store, server, since=5)
        assert again.answers["unchanged"] >= 7 and again.reached == status(store, server).delivered.position
        store.append([{"event_type": "feedback", "payload": {"last": True}}])
        end = store.journal.next_position()
        store.append([{"event_type": "feedback", "payload": {"after": True}}])
        assert sender(store, server, since=end).total == 1
        assert status(store, server).lag == 2  # it left one out, so the ledger stays
        sender(store, server)
        check_all_there(store, server)


def test_one_at_a_time(store: Store) -> None:
    """I31: of two processes that send to one graph the second one says so; others are not in its way."""
    with Server(Graph(), [its.slow(0.3)]) as server, Store.open(store.layout.root) as other:
        thread = threading.Thread(target=lambda: sender(store, server))
        arrived = threading.Event()
        server.on_call = arrived.set
        thread.start()
        arrived.wait(10)
        with pytest.raises(LockTimeout, match="another process is sending"):
            sender(other, server)
        server.released.set()
        thread.join()
        check_all_there(other, server)


def test_following_sends_what_comes(tmp_path: Path) -> None:
    """I36: following, what is appended arrives, states in their last form, until it is stopped cleanly."""
    with new_store(tmp_path) as store, Server(Graph()) as server:
        log = small_log()
        append_as_before(store, log[:7])
        clock = FakeClock()
        later = [log[7:12], log[12:]]

        listed: list[int] = []

        def tell(report: SendReport) -> None:
            listed.append(report.total)
            if later:
                append_as_before(store, later.pop(0))
            else:
                clock.ended = True

        report = sender(store, server, clock, follow=True, on_all_sent=tell)

        assert report.stopped and report.failures == []
        check_all_there(store, server)
        assert len(listed) == 3  # its own notes are no news to it


def test_asked_to_stop(store: Store) -> None:
    """I36: asked to stop, it ends after the call under way, and the next export goes on from there."""
    with Server(Graph()) as server:
        clock = FakeClock()

        def stop() -> None:
            clock.ended = len(server.graph.bodies) == 4

        server.on_call = stop
        report = sender(store, server, clock, batch=2)

        assert report.stopped and len(server.graph.bodies) == 4
        server.on_call = lambda: None
        rest = sender(store, server)
        assert report.answers["created"] + rest.answers["created"] == 19
        check_all_there(store, server)


def test_withheld_contents_and_redacted_texts_stay_here(tmp_path: Path) -> None:
    """P5: neither a withheld content nor what is made of it, nor a redacted secret, reaches the server."""
    secret = "0pen5esame" + "Xy1"
    with new_store(tmp_path) as store, Server(Graph()) as server:
        turn = Recorder(store, agent="script").start_turn(f"Log in with password={secret}")
        turn.file("a.py", before=None, after=f"password = '{secret}'\n".encode())
        sender(store, server)

        sent = b"".join(server.graph.bodies)
        assert secret.encode() not in sent
        file = next(m.item for c, m in server.graph.memories.items() if c.startswith("file:"))
        assert file["payload"]["diff"] is None


def test_only_documented_fields(store: Store) -> None:
    """S0-20: a body has `graph_id` and `events`; the headers say nothing of this machine."""
    with Server(Graph()) as server:
        sender(store, server)
        answer = json.loads(server.graph.bodies[0])
        assert set(answer) == {"graph_id", "events"}
        assert {name for item in answer["events"] for name in item} <= its.FIELDS["1.0"]
        times = [item.get("timestamp") for item in answer["events"]]
        assert times[0] is None and all(re.fullmatch(r"\d{10}", time) for time in times[1:])
        assert set(server.graph.headers[0]) == {
            "Host", "Content-Length", "Accept-Encoding", "Authorization", "Content-Type", "Accept",
            "User-Agent",
        }  # fmt: skip


def test_real_time_stops_a_wait() -> None:
    """A pause in real time ends when the work is to stop."""
    clock = RealClock()
    threading.Timer(0.05, clock.stop.set).start()
    assert clock.wait(30) and clock.stopped() and clock.now() > clock.monotonic() > 0


def test_batches_beyond_the_interface(store: Store) -> None:
    """A batch larger than the interface takes is refused before anything is sent."""
    with Server(Graph("0.x")) as server, pytest.raises(Refused, match="1 to 100"):
        sender(store, server, batch=101)


def test_nobody_is_asked_how_much_there_is_where_no_progress_shows_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: the first record does not wait for an answer that only a bar needs, nor for one about receipts."""

    def query(*_: object, **__: object) -> None:
        raise AssertionError("DuckDB was asked")

    monkeypatch.setattr(Store, "query", query)
    with Server(Graph()) as server:
        assert sender(store, server).total
