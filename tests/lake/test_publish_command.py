"""`locus publish` as people meet it: what it shows, what it asks, how it ends."""

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog.lake.place import Place
from eventlog.store import Store
from tests.cli.support import Ended, Locus, locus_process
from tests.lake.conftest import S3Server
from tests.lake.publishing import (
    ALL,
    CANARY,
    NOTHING,
    TEXTS,
    assert_published,
    names,
    new_store,
    record,
    set_policy,
)
from tests.lake.test_publish_erasure import erase


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with an event, whose directory is the working directory."""
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    made = new_store(tmp_path / "work")
    record(made, 1, "words", b"a content")
    monkeypatch.chdir(tmp_path / "work")
    return made


def on_a_terminal(answer: bytes, *arguments: str) -> "tuple[int, str]":
    """Exit code of `locus` on a terminal of its own, and what it shows; `answer` is typed when it asks."""
    ours, theirs = pty.openpty()
    line = [sys.executable, "-m", "locus_cli", *arguments]
    shown = b""
    with subprocess.Popen(line, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        while select.select([ours], [], [], 60)[0]:
            try:
                data = os.read(ours, 1 << 16)
            except OSError:  # the other end was closed
                break
            if not data:
                break
            shown += data
            if shown.endswith(b"[y/N]: "):
                os.write(ours, answer)
                shown += b"."
        process.wait(60)
    os.close(ours)
    return process.returncode, shown.decode().replace("\r\n", "\n")


@pytest.mark.usefixtures("store")
def test_the_first_publish_shows_what_leaves_and_asks(file_place: Place) -> None:
    """A no publishes nothing, a yes all; later ones ask nobody."""
    code, shown = on_a_terminal(b"n\n", "publish", file_place.uri)
    assert code == 130
    assert names(file_place) == []
    assert "2 events, from 2026-02-02 02:40 to 2026-02-02 02:40 UTC." in shown
    assert "This is the first publication there." in shown
    for line in ("texts     no ", "contents  no ", "paths     yes ", "people    digest ", "snapshot       1"):
        assert line in shown
    code, shown = on_a_terminal(b"y\n", "publish", file_place.uri)
    assert (code, len(names(file_place))) == (0, 2)
    assert "Published positions 0 to 2 to file://" in shown
    code, shown = on_a_terminal(b"", "publish", file_place.uri)
    assert code == 0
    assert "Nothing new for file://" in shown


def test_nobody_to_ask_means_no(store: Store, file_place: Place) -> None:
    """Without a terminal --yes answers; a policy that lets out more asks again, one that does not, never."""
    refused = locus_process("publish", file_place.uri, cwd=Path.cwd())
    assert refused.code == 3
    assert "there is no terminal to ask on" in refused.err
    assert names(file_place) == []
    assert locus_process("publish", file_place.uri, "--yes", cwd=Path.cwd()).code == 0
    record(store, 2)
    assert locus_process("publish", file_place.uri, cwd=Path.cwd()).code == 0
    record(store, 3, "more words")
    set_policy(store, ALL)
    refused = locus_process("publish", file_place.uri, cwd=Path.cwd())
    assert refused.code == 3
    assert "More may leave than before." in refused.err
    assert "0 contents of 0 B leave." in refused.err
    set_policy(store, NOTHING)
    assert locus_process("publish", file_place.uri, cwd=Path.cwd()).code == 0


def test_a_dry_run_changes_nothing(store: Store, file_place: Place, locus: Locus) -> None:
    """It shows the plan, also as JSON; neither the place nor the store has a new file."""
    set_policy(store, ALL)
    before = sorted(Path(store.layout.root, "index").iterdir())
    shown = locus("publish", file_place.uri, "--dry-run")
    assert shown.code == 0
    assert "of 9 B leave" not in shown.text
    assert "2 contents of" in shown.text
    plan = json.loads(locus("publish", file_place.uri, "--dry-run", "--json").out)["plan"]
    assert (plan["asks"], plan["base"], plan["end"]) == ("first", 0, 2)
    assert plan["events"] == {"action": 1, "snapshot": 1}
    assert plan["policy"]["contents"] is True
    assert names(file_place) == []
    assert sorted(Path(store.layout.root, "index").iterdir()) == before
    assert locus("publish", file_place.uri, "--dry-run", "--yes").code == 2


@pytest.mark.usefixtures("store")
def test_what_was_done_is_answered_as_json(file_place: Place, locus: Locus) -> None:
    """One document, with names that stay."""
    published = json.loads(locus("publish", file_place.uri, "--yes", "--json").out)["published"]
    assert published["base"] == 0
    assert published["end"] == 2
    assert published["left"] == []
    assert published["committed"] is None
    assert set(published) == {
        "to", "base", "end", "files", "bytes", "packs", "packs_bytes", "rewritten", "packs_rewritten",
        "missing", "left", "tables", "committed",
    }  # fmt: skip


def test_what_is_left_undone_is_reported_and_ends_with_4(
    store: Store, s3_place: Place, s3: S3Server, locus: Locus
) -> None:
    """Objects that may not be deleted are listed by name, each time."""
    set_policy(store, TEXTS)
    record(store, 2, CANARY)
    assert locus("publish", s3_place.uri, "--yes").code == 0
    erase(store)
    s3.deny("DELETE")
    for _ in range(2):
        ended = locus("publish", s3_place.uri)
        assert ended.code == 4
        assert "Not deleted, as the storage refuses it: 1 object" in ended.err
        assert "/events/00000000000000000000.parquet" in ended.err
    s3.reset()
    assert locus("publish", s3_place.uri).code == 0


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("to", "code", "words"),
    [
        ("ftp://host/x", 3, "is no place to publish to"),
        ("file:///no/such/directory", 1, "is not a directory of this machine"),
    ],
)
def test_a_place_that_is_none_is_refused(locus: Locus, to: str, code: int, words: str) -> None:
    """With what to write instead."""
    ended: Ended = locus("publish", to)
    assert (ended.code, words in ended.err) == (code, True)


def test_tables_come_along_with_a_catalog(
    store: Store, file_place: Place, sqlite_catalog: str, locus: Locus
) -> None:
    """With --catalog they have it at once; without, a publish says who brings them up to date."""
    assert locus("lake", "init", file_place.uri, "--catalog", sqlite_catalog).code == 0
    publish = ("publish", file_place.uri, "--yes")
    done = json.loads(locus(*publish, "--catalog", sqlite_catalog, "--json").out)["published"]
    assert done["committed"] is True
    assert "Nothing to commit" in locus("lake", "commit", file_place.uri, "--catalog", sqlite_catalog).err
    record(store, 2)
    assert "run `locus lake commit`" in locus(*publish).err
    ended = locus("lake", "commit", file_place.uri, "--catalog", sqlite_catalog)
    assert "1 file added, with 1 row" in ended.err


def test_tables_that_cannot_be_brought_up_to_date_end_with_4(
    store: Store, file_place: Place, tmp_path: Path, locus: Locus
) -> None:
    """What was published stays published."""
    ended = locus("publish", file_place.uri, "--yes", "--catalog", f"sqlite:///{tmp_path}/none/catalog.db")
    assert ended.code == 4
    assert "The tables were not brought up to date: " in ended.err
    assert "run `locus lake commit`" in ended.err
    assert_published(store, file_place, NOTHING)


def test_the_plan_of_an_erasure_names_the_places(store: Store, file_place: Place, locus: Locus) -> None:
    """What was published goes with the next publish: a person has to know where to."""
    record(store, 2, CANARY)
    erase_plan = ("store", "erase", "--secret", CANARY, "--dry-run")
    assert "locus publish" not in locus(*erase_plan).err
    assert locus("publish", file_place.uri, "--yes").code == 0
    assert f"the next `locus publish {file_place.uri}` takes it out there" in locus(*erase_plan).err
