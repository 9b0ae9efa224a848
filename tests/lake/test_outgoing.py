"""What leaves a store for a lake is what the policy lets out, and nothing else (docs/lake.md §3)."""

import io
import itertools
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventlog.base.config import PEOPLE
from eventlog.blobs.ids import from_text, to_text
from eventlog.lake.outgoing import Outgoing
from eventlog.lake.policy import Policy
from eventlog.log import segment
from eventlog.projections import definitions, fold, source
from eventlog.query.views import PROJECTIONS
from eventlog.store import Store
from tests.lake import canaries
from tests.secrets_made import made

POLICIES = [
    Policy(*flags, who)
    for *flags, who in itertools.product((False, True), (False, True), (False, True), PEOPLE)
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with a word in every kind of place."""
    return canaries.record(tmp_path_factory.mktemp("canaries"))


def texts_in(value: Any) -> "list[str]":
    """All texts of a value, and its numbers as text."""
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in texts_in(item)]
    return [] if value is None else [str(value)]


def leaving(root: Path, policy: Policy) -> bytes:
    """All that leaves: the file as it is, its columns and metadata uncompressed, and the contents."""
    with Store.open(root / ".locus") as store, store.view() as view:
        outgoing = Outgoing(store, view, policy)
        data = outgoing.write(0, view.next_position, {"locus.policy": policy.encoded()})
        bodies = [store.blobs.get(id) for id in sorted(outgoing.contents(0, view.next_position))]
    file = pq.ParquetFile(io.BytesIO(data))
    table = file.read()
    texts = [text for column in table.columns for text in texts_in(column.to_pylist())]
    metadata = str(file.metadata.metadata).encode() + str(table.schema.metadata).encode()
    return b"\n".join([data, metadata, *bodies, *(text.encode("utf-8", "surrogatepass") for text in texts)])


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.encoded())
def test_exactly_what_the_policy_lets_out_leaves(recorded: Path, policy: Policy) -> None:
    """The word of each kind is in the file or the contents when all its classes leave, and else nowhere."""
    assert words_in(leaving(recorded, policy)) == {
        word for word, leaves in canaries.LEAVES.items() if leaves(policy)
    }


def words_in(data: bytes) -> "set[str]":
    lower = data.lower()
    return {word for word in canaries.LEAVES if word.encode() in lower}


def test_every_word_was_recorded(recorded: Path) -> None:
    """What never leaves is in the store all the same, so the test above says something of it."""
    with Store.open(recorded / ".locus") as store, store.view() as view:
        everything = [str(event).encode() for event in view.iterate()]
        named = {hash for event in view.iterate(columns=["blobs"]) for hash in event["blobs"] or ()}  # type: ignore[attr-defined]
        found = all_below(store, {bytes.fromhex(hash.partition(":")[2]) for hash in named})

    assert words_in(b"\n".join([*everything, *found])) == set(canaries.LEAVES)


def all_below(store: Store, ids: "set[bytes]") -> "Iterator[bytes]":
    """The contents with these ids, and what is below those that are trees."""
    for id in ids & store.blobs.locations(ids).keys():
        yield store.blobs.get(id)
        if store.blobs.kind_of(id) == "tree":
            yield from all_below(store, {entry.id for entry in store.blobs.get_tree(id)})


def test_people_are_those_of_the_columns_of_sql(recorded: Path) -> None:
    """Each event has the person and the host that a question finds: of its commit, else of its session."""
    with Store.open(recorded / ".locus") as store, store.view() as view:
        table = Outgoing(store, view, Policy(people="full")).table(0, view.next_position)
        wanted = store.query("select position, person, host from events order by position").rows

    columns = (table[name].to_pylist() for name in ("position", "actor", "host"))
    assert list(zip(*columns, strict=True)) == wanted
    assert len({person for _, person, _ in wanted}) == 3


@pytest.mark.parametrize("sealed", [False, True])
def test_any_cut_of_the_log_gives_the_same_rows(recorded: Path, tmp_path: Path, sealed: bool) -> None:
    """Publications one by one hold what one of everything holds, of journals and of segments."""
    root = shutil.copytree(recorded / ".locus", tmp_path / "store", symlinks=True)
    with Store.open(root) as store:
        if sealed:
            store.seal()
        with store.view() as view:
            outgoing = Outgoing(store, view, Policy(texts=True, people="full"))
            end = view.next_position
            whole = outgoing.table(0, end)
            parts = [outgoing.table(base, min(base + 7, end)) for base in range(0, end, 7)]

    assert pa.concat_tables(parts).combine_chunks().equals(whole.combine_chunks())


def test_a_file_reads_back_with_its_metadata(recorded: Path) -> None:
    """Its columns are those of a segment after the store's id, the person and the host; equal bytes again."""
    with Store.open(recorded / ".locus") as store, store.view() as view:
        outgoing, end = Outgoing(store, view, Policy()), view.next_position
        data = outgoing.write(0, end, {"locus.base": "0"})
        again = outgoing.write(0, end, {"locus.base": "0"})
        table = outgoing.table(0, end)

    file = pq.ParquetFile(io.BytesIO(data), page_checksum_verification=True)
    assert data == again
    assert file.read().replace_schema_metadata(None).equals(table)
    assert file.metadata.metadata[b"locus.base"] == b"0"
    assert file.schema_arrow.names == ["store_id", "actor", "host", *segment.FILE_SCHEMA.names]
    assert table["anchor_payload"].null_count < table.num_rows


def test_a_range_without_events_is_a_file_without_rows(tmp_path: Path) -> None:
    """What was erased or collected leaves gaps, and a whole range may be one."""
    with Store.init(tmp_path / "s", repo_hash="ab" * 6, force=True) as store, store.view() as view:
        data = Outgoing(store, view, Policy()).write(0, 0, {})

    assert pq.read_table(io.BytesIO(data)).num_rows == 0


def test_figures_fold_to_the_same_projections(recorded: Path) -> None:
    """Under the default policy all that is counted in turns and sessions is as the store itself counts it."""
    counted = [name for name, kind, _ in definitions.TURNS if kind == "BIGINT"]
    columns = ", ".join(["turn_id", "status", *(name for name in counted if name != "errors_resolved")])
    question = f"select session_id, {columns} from turns order by all"
    with Store.open(recorded / ".locus") as store, store.view() as view:
        ev = Outgoing(store, view, Policy()).table(0, view.next_position)
        wanted = store.query(question).rows
    with source.connect() as con:
        con.register("published", ev)
        con.execute("create table ev as select * exclude (store_id, actor, host) from published")
        fold.fold(con, "ev", PROJECTIONS)
        assert con.execute(question).fetchall() == wanted


TOKEN, KEY, PASSWORD = made()["github"], made()["aws"], "xK7" + "q9Lm2-Pw4"


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Store]:
    """A store with secrets wherever an older version, or another one's rules, let them pass."""
    with Store.init(tmp_path / "s", repo_hash="ab" * 6, force=True) as store:
        Path(store.layout.config_file).write_text("[redaction]\nenabled = false\n")
        store.reread_rules()
        session = {"session_id": "a1b2c3d4", "agent": "script"}
        store.append(
            [
                {
                    "event_type": "session", **session, "operation": "start",
                    "context_id": f"session:{TOKEN}_a1b2c3d4", "title": TOKEN, "payload": {"slug": TOKEN},
                },
                {
                    "event_type": "action", **session, "tool": TOKEN, "model": TOKEN, "tool_use_id": TOKEN,
                    "agent_version": TOKEN, "branch": TOKEN, "path": f"a/{TOKEN}.py", "message_id": TOKEN,
                    "related_to": [f"turn:{KEY}_001", f"turn:{TOKEN}_001", TOKEN],
                    "reinforces": ["session:the-river-otter-swims_a1b2c3d4"],
                    "payload": {"args": {"password": PASSWORD, TOKEN: [TOKEN]}, "usage": {"input": 1}},
                },
                {
                    "event_type": "file", **session, "path": f"{TOKEN}.py",
                    "payload": {"old_path": f"b/{TOKEN}"},
                },
                {"event_type": TOKEN, "agent_session_id": TOKEN, "agent": TOKEN, "payload": {}},
            ]
        )  # fmt: skip
        Path(store.layout.config_file).write_text('[redaction]\ndeny = ["river otter"]\n')
        store.reread_rules()
        yield store


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.encoded())
def test_the_rules_of_today_hold_for_what_leaves(planted: Store, policy: Policy) -> None:
    """A secret that the log holds leaves in no column, link, key or name, under any policy."""
    with planted.view() as view:
        table = Outgoing(planted, view, policy).table(0, view.next_position)

    shown = [text for column in table.columns for text in texts_in(column.to_pylist())]
    assert table.num_rows == 4
    secrets = (TOKEN, TOKEN.lower(), KEY, PASSWORD, "river-otter")
    assert [text for text in shown for secret in secrets if secret in text] == []


def test_what_stands_for_an_id_is_the_same_everywhere(tmp_path: Path) -> None:
    """What two events had in common they have still, and nobody can try words without the store's key."""
    event = {"event_type": "llm", "message_id": "a word", "session_id": "another word", "agent": "one more"}
    rows: list[dict[str, Any]] = []
    for name in ("one", "two"):
        with Store.init(tmp_path / name, repo_hash="ab" * 6, force=True) as store:
            store.append([event, {**event, "event_type": "action"}])  # type: ignore[list-item]
            with store.view() as view:
                rows += Outgoing(store, view, Policy()).table(0, 2).to_pylist()

    columns = [[row[name] for row in rows] for name in ("message_id", "session_id", "agent")]
    assert [(ids[0], ids[2]) == (ids[1], ids[3]) for ids in columns] == [True] * 3
    assert len({text for ids in columns for text in ids}) == 6
    assert all(re.fullmatch("(?:id|agent)-[0-9a-f]{16}", text) for ids in columns for text in ids)
    assert rows[0]["context_id"] == f"llm:{rows[0]['session_id']}_000_001"


def content_of(store: Store, data: bytes) -> str:
    with store.blobs.writer() as writer:
        hash = to_text(writer.put(data))
        writer.flush()
        store.append([{"event_type": "file", "path": "a.txt", "after_hash": hash, "blobs": [hash]}])
    return hash


def test_a_withheld_content_is_not_among_those_that_leave(tmp_path: Path) -> None:
    """Neither one that was withheld as it was written, nor one that was denied since, nor an erased one."""
    everything = Policy(texts=True, contents=True, paths=True, people="full")
    with Store.init(tmp_path / "s", repo_hash="ab" * 6, force=True) as store:
        plain, secret = content_of(store, b"plain\n"), content_of(store, f"token={TOKEN}\n".encode())
        denied, erased = content_of(store, b"the otter swims\n"), content_of(store, b"gone\n")
        store.append([{"event_type": "erasure", "operation": "start", "payload": {
            "erasure": "ab" * 16, "contents": [erased[7:]]}}])  # fmt: skip
        Path(store.layout.config_file).write_text('[redaction]\ndeny = ["otter"]\n')
        with store.view() as view:
            ids = {to_text(id) for id in Outgoing(store, view, everything).contents(0, view.next_position)}
            again = Outgoing(store, view, everything).contents(0, view.next_position, {from_text(plain)})

    assert ids == {plain} and not ids & {secret, denied, erased}
    assert again == set()
