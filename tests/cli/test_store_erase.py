"""`locus store erase`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog.base.names import session_context, slugify
from eventlog.store import Store
from tests.cli.support import Locus, locus_process
from tests.maintenance.support import append, event, make_store

WORD = "tulipFox81zebra-Q7"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "work/.locus"
    made.parent.mkdir()
    with make_store(made) as store:
        append(store, 1, 3)
        store.append([event(5, payload={"text": f"use {WORD}"})])
    monkeypatch.chdir(made.parent)
    return made


def test_an_erasure_shows_its_plan_and_acts_only_with_consent(root: Path, locus: Locus) -> None:
    """P5, P8, I30: `store erase` says what would go and what it cannot reach; --yes does it."""
    before = locus("log", "--json").out
    shown = locus_process("store", "erase", "--secret", "-", cwd=root.parent, stdin=WORD.encode() + b"\n")
    assert shown.code == 0
    assert "Texts of 1 event and 0 contents go" in shown.err
    assert "Nothing was changed. The same command with --yes erases it" in shown.err
    assert "backups" in shown.err
    assert WORD not in shown.err
    assert locus("log", "--json").out == before
    plan = json.loads(locus("store", "erase", "--secret", WORD, "--json").out)["plan"]
    assert (plan["by"], plan["events"]) == ("secret", [f"{5:032x}"])
    done = locus("store", "erase", "--secret", WORD, "--reason", "slip", "--yes", "--json")
    assert (done.code, json.loads(done.out)["erased"]["events"]) == (0, 1)
    assert WORD.encode() not in locus("log", "--json").out
    assert locus("store", "verify", "--deep").code == 0
    assert "Nothing of it" in locus("store", "erase", "--secret", WORD, "--yes").err
    assert not any(WORD.encode() in path.read_bytes() for path in root.rglob("*") if path.is_file())


def test_plan_and_outcome_count_the_same_events(root: Path, locus: Locus) -> None:
    """P8, I30: what only names a session that gets a new name is counted apart from what goes."""
    sid, title = "kd83hf7w", f"one of two or three four five six seven eight {WORD}"
    context = session_context(slugify(title, sid), sid)
    of = {"event_type": "session", "session_id": sid, "operation": "start", "context_id": context}
    with Store.open(str(root)) as store:
        store.append([{**of, "event_id": f"{8:032x}", "title": title, "payload": {}}])
        store.append([event(9, session_id=sid, extends=[context])])
    assert "Texts of 2 events and 0 contents go" in locus("store", "erase", "--secret", WORD).err
    done = locus("store", "erase", "--secret", WORD, "--yes").err
    assert "Erased: texts of 2 events and 0 contents are gone" in done
    assert "1 other event changed only in names of sessions or trees" in done


def test_bad_words_are_refused_in_one_line(root: Path, locus: Locus) -> None:
    """P8: usage errors are 2, an unknown id is 1; nothing changes and nothing is unfinished."""
    assert locus("store", "erase").code == 2
    assert locus("store", "erase", "--path", "a", "--secret", WORD).code == 2
    assert locus("store", "erase", "--path", "a", "--yes", "--dry-run").code == 2
    for words in (("--event", "ffff"), ("--session", "nosuch00"), ("--path", "a"), ("--secret", "abc")):
        ended = locus("store", "erase", *words, "--yes")
        assert (ended.code, ended.err.count("\n")) == (1, 1), words
    assert "No erasure is unfinished" in locus("store", "erase", "--resume").err
    assert not (root / "erasing").exists()


def test_maintenance_finishes_what_was_cut_short(
    root: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I32, I30: an erasure that waits for a reader ends with exit code 4; the maintainer does the rest."""
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")  # the command would start the maintainer itself
    with Store.open(str(root)) as store:
        view = store.view()
        ended = locus("store", "erase", "--event", f"{5:032x}", "--yes")
        assert (ended.code, "--resume" in ended.err) == (4, True)
        view.close()
    # A process of its own: it steps back behind all others.
    subprocess.run([sys.executable, "-m", "locus_cli.maintainer", str(root)], check=True)
    assert not (root / "erasing").exists()
    assert not any(WORD.encode() in path.read_bytes() for path in root.rglob("*") if path.is_file())
