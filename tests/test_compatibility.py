"""docs/compatibility.md: its versions, sentences and features are those of the code."""

import ast
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from blake3 import blake3

from eventlog.base import identity, jsontext
from eventlog.base.config import read as read_config
from eventlog.base.errors import Corruption, EventLogError, Unsupported
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.base.types import SCHEMA_VERSION
from eventlog.blobs import pack, tree
from eventlog.exports import jsonl_import
from eventlog.log import frame, manifest, rows, segment, upcast
from eventlog.memory.shared_store import ContextStore
from eventlog.restore import journal
from eventlog.store import Store
from tests.log.logs import event

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/compatibility.md").read_text(encoding="utf-8")
ROWS = {
    cells[0].replace("`", ""): cells[1:]
    for line in re.findall(r"^\| (.*) \|$", PAGE, re.M)
    if len(cells := line.split(" | ")) == 5
}
_CONSTANT = re.compile(r"\b(\d+) \(`(\w+)` in `([\w/]+\.py)`\)")
# Whole numbers that say which version of a format a module writes.
_NAMES = {"FORMAT", "_FORMAT", "VERSION", "_VERSION", "SCHEMA_VERSION", "_RULES_VERSION"}


def sentence(row: str) -> str:
    """What the table says that an older Locus answers: the text between quotation marks."""
    (found,) = re.findall(r'"([^"]+)"', ROWS[row][2])
    return str(found)


def test_the_versions_are_those_of_the_code() -> None:
    """Each version of the table is what the code writes, and no version of the code is missing."""
    payload = {(path, name): int(version) for version, name, path in _CONSTANT.findall(PAGE)}
    present = {}
    for path in sorted([*(ROOT / "eventlog").rglob("*.py"), *(ROOT / "cli").rglob("*.py")]):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(version))):
                    if name in _NAMES:
                        present[(str(path.relative_to(ROOT)), name)] = version

    assert payload == present


def test_the_lists_of_the_table_are_those_of_the_code() -> None:
    """Codecs, kinds of tree entries and words of `optional` are all named, and the next free codec is."""
    codecs = pack.CODEC_NAMES
    kinds = b"".join(sorted(kind for kind in tree.KINDS if kind < b"\x80")).decode()

    assert ROWS["pack: codec of a group"][0] == ", ".join(f"{name} {codecs[name]}" for name in codecs)
    assert f"next free codec is {max(codecs.values()) + 1}" in ROWS["pack: codec of a group"][3]
    assert "".join(sorted(re.findall(r"\w", ROWS["tree: kind of an entry"][0]))) == kinds
    assert ROWS["STORE: optional"][0] == f"`{identity.ON_SHARED}`"


def test_every_feature_is_in_the_table_and_numbered_once() -> None:
    """Features of the code are NUMBER-word, are in the list of features, and the next number is free."""
    section = PAGE.partition("## Features")[2]
    listed = re.findall(r"^\| `(\d+-[a-z-]+)` \|", section, re.M)
    known = identity.KNOWN_FEATURES | manifest.REQUIRED_KNOWN
    numbers = [int(feature.partition("-")[0]) for feature in listed]

    assert known <= set(listed)
    assert numbers == list(range(1, len(listed) + 1))
    assert re.findall(r"The next free number is (\d+)\.", section) == [str(len(listed) + 1)]
    assert ("None exists yet." in section) == (not listed)
    for row, features in (("STORE", identity.KNOWN_FEATURES), ("manifest", manifest.REQUIRED_KNOWN)):
        assert ROWS[f"{row}: required"][0] == (", ".join(sorted(features)) or "no features")


@pytest.mark.parametrize("feature", sorted(identity.KNOWN_FEATURES))
def test_a_store_with_a_feature_is_refused_by_a_locus_before(
    feature: str, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: a version that knows no feature says so, in the words of the page, and takes nothing for damage."""
    monkeypatch.setattr(identity, "KNOWN_FEATURES", identity.KNOWN_FEATURES - {feature})
    text = f"needs the feature(s) {feature}, which this version of Locus does not know. Upgrade Locus"
    with pytest.raises(Unsupported, match=re.escape(text)):
        Store.open(store_path)


def test_a_store_of_a_locus_before_is_given_no_feature(store_path: Path) -> None:
    """It is read, `init` changes nothing, and its trees go on with git's two modes."""
    change(store_path / "STORE", required=[], turn_limit=None)
    before = (store_path / "STORE").read_bytes()
    with Store.init(store_path) as store:
        assert not store.blobs.modes and store.identity.turn_limit is None
    assert (store_path / "STORE").read_bytes() == before


def test_every_version_below_the_present_one_has_a_step() -> None:
    """I23: an event of any earlier schema version can be upcast."""
    assert sorted(upcast.STEPS) == list(range(1, SCHEMA_VERSION))


# Stores that a later Locus made, met by this one through the command.


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    with Store.init(tmp_path / ".locus", repo_hash="0123456789ab", project_name="locus") as store:
        store.append([event(1)])
        store.seal()
    return tmp_path / ".locus"


def change(path: Path, **members: object) -> None:
    """Change members of STORE or a manifest, and its digest with them, as a later Locus would write it."""
    fields = {**json.loads(path.read_bytes()), **members}
    ended = path.read_bytes().endswith(b"\n")
    del fields["digest"]
    fields["digest"] = blake3(jsontext.encode(fields)).hexdigest()
    path.write_bytes(jsontext.encode(fields) + b"\n" * ended)


@pytest.mark.parametrize(
    ("row", "members"),
    [
        ("STORE", {"format": 2}),
        ("STORE: required", {"required": ["1-example"]}),
        ("manifest", {"format": 2}),
        ("manifest: required", {"required": ["1-example"]}),
    ],
)
def test_a_store_that_needs_a_newer_locus_is_refused(
    store_path: Path, row: str, members: dict[str, object]
) -> None:
    """`locus status` ends with 1 and the sentence of the table, and nothing in the store changes."""
    path = store_path / "STORE"
    if row.startswith("manifest"):
        (path,) = (store_path / "log/manifest").iterdir()
    change(path, **members)
    before = path.read_bytes()
    command = [sys.executable, "-m", "locus_cli", "--store", str(store_path), "status"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=store_path.parent)

    assert (done.returncode, done.stdout) == (1, "")
    assert sentence(row) in done.stderr.replace("\n", " ")
    assert path.read_bytes() == before


def test_hooks_append_whatever_a_manifest_requires(store_path: Path) -> None:
    """Why a feature that appending must respect cannot be in a manifest alone: a hook reads none."""
    (path,) = (store_path / "log/manifest").iterdir()
    old = path.read_bytes()
    change(path, required=["1-example"])
    call = {"hook_event_name": "Other", "session_id": "s", "cwd": str(store_path.parent)}
    command = [sys.executable, "-m", "locus_cli.hook_entry", "claude-code"]
    subprocess.run(command, input=json.dumps(call).encode(), cwd=store_path.parent, check=True)
    path.write_bytes(old)

    with Store.open(store_path) as store:
        assert "Other" in [found["operation"] for found in store.events()]


def test_a_changed_member_without_a_newer_meaning_is_read(store_path: Path) -> None:
    """The same change of STORE without an unknown feature opens, so the refusals above are of the feature."""
    change(store_path / "STORE", optional=["a-word-of-later"])
    (path,) = (store_path / "log/manifest").iterdir()
    change(path)
    with Store.open(store_path) as store:
        assert [found["event_id"] for found in store.events()] == [event(1)["event_id"]]


# Other files of a later version: made by this one's own code, with another version put into them.


def newer_journal() -> object:
    data = bytearray(
        frame.encode_header(frame.JournalHeader(bytes(16), 1, 0, bytes(16), bytes(32), bytes(16)))
    )
    data[4] = 2
    data[112:] = blake3(data[:112]).digest(16)
    return frame.decode_header(bytes(data))


def newer_segment() -> object:
    sink = pa.BufferOutputStream()
    marks = {"locus.format": "2"}
    pq.write_table(segment.FILE_SCHEMA.with_metadata(marks).empty_table(), sink)
    return segment.decode_segment(sink.getvalue(), "a segment")


def newer_column() -> object:
    line = jsontext.encode({"event_id": "0" * 32, "event_type": "action", "colour": "red"}) + b"\t{}"
    return rows.row_of(line, 0, "a journal")


def newer_pack() -> object:
    header = pack.encode_header(bytes(16))
    _, _, footer = pack.encode_tables(header, [], [], len(header))
    size = len(header) + len(footer)
    return pack.decode_tables(header.replace(b"EVP\x01", b"EVP\x02"), b"", footer, size, "a pack", "its name")


def newer_codec() -> object:
    return pack.check_group("a pack", pack.Group(24, 3, 10, 10))


def newer_tree() -> object:
    return tree.decode_tree(b"T\x02" + tree.encode_tree([])[2:])


def newer_kind() -> object:
    data = tree.encode_tree([(b"name", tree.FILE, bytes(32), 1)])
    return tree.decode_tree(data[:2] + b"z" + data[3:])


def newer_restore() -> object:
    return journal.decode(jsontext.encode({"format": 2, "digest": ""}), "a restore")


def newer_export() -> object:
    line = jsontext.encode({"format": jsonl_import.FORMAT, "version": 2})
    return jsonl_import._header(io.BytesIO(line + b"\n"), "a file", False)


@pytest.mark.parametrize(
    ("row", "read", "error"),
    [
        ("journal header", newer_journal, Corruption),
        ("segment", newer_segment, Unsupported),
        ("event: column", newer_column, Unsupported),
        ("pack", newer_pack, Corruption),
        ("pack: codec of a group", newer_codec, Corruption),
        ("tree", newer_tree, Corruption),
        ("tree: kind of an entry", newer_kind, Corruption),
        ("restore under way", newer_restore, Unsupported),
        ("locus export jsonl", newer_export, Unsupported),
    ],
)
def test_a_file_of_a_later_version_is_answered_as_the_table_says(
    row: str, read: Callable[[], object], error: type[EventLogError]
) -> None:
    """Refused or taken for damage, with the sentence of the table."""
    with pytest.raises(error, match=re.escape(sentence(row))):
        read()

    assert ROWS[row][2].startswith("refuses" if error is Unsupported else "damage")


def test_shared_context_of_a_later_version_is_left_alone(store_path: Path, tmp_path: Path) -> None:
    """The file is not read, and the problem is the sentence of the table."""
    with Store.open(store_path) as store:
        contexts = ContextStore(store, tmp_path)
        path = contexts.path("implement")
        path.parent.mkdir(parents=True)
        path.write_text('{"schema_version": 2, "entries": []}', encoding="utf-8")
        loaded = contexts.load("implement")

    assert loaded.newer
    assert sentence("shared context") in loaded.problems[0]


def test_a_setting_of_a_later_version_leaves_the_defaults_and_what_was_denied(store_path: Path) -> None:
    """A key that is not known here stops nobody, but the other settings do not count either."""
    layout = Layout(str(store_path))
    (store_path / "config.toml").write_text('[redaction]\ndeny = ["acme-intranet"]\n', encoding="utf-8")
    assert read_config(FileSystem(), layout).problem is None
    later = '[redaction]\ndeny = ["acme-other"]\n[briefing]\nat_start = true\ncolour = "red"\n'
    (store_path / "config.toml").write_text(later, encoding="utf-8")
    config = read_config(FileSystem(), layout)

    assert config.deny == ("acme-intranet",) and not config.briefing_at_start
    assert config.problem is not None and config.problem.endswith(sentence("config.toml"))


def test_an_event_of_a_later_version_is_given_as_it_was_written(store_path: Path) -> None:
    """I23: one event of a newer Locus does not stop the reading of a log."""
    with Store.open(store_path) as store:
        store.append([event(2, schema_version=SCHEMA_VERSION + 1, payload={"colour": "red"})])
        *_, last = store.events()

    assert (last["schema_version"], last["payload"]) == (SCHEMA_VERSION + 1, {"colour": "red"})
    assert upcast.is_newer(last)
