"""`locus store gc`, `du`, `pin`, `unpin`, `archive`; and that the product bounds a store by itself."""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlog.store import Store
from tests.cli.hook_support import Agent, project
from tests.cli.support import GIT_ENVIRONMENT, Locus, git, make_history
from tests.recorder.kept import a_day_passes, make_store, pack_bytes, record, replayed

A, B = "aaaaaaaa", "bbbbbbbb"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a store of two sessions; the working directory is there."""
    made = tmp_path / "work"
    made.mkdir()
    with make_store(made) as store:
        record(store, A)
        record(store, B)
    monkeypatch.chdir(made)
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    return made


def gc(locus: Locus, *options: str) -> dict[str, Any]:
    done = locus("store", "gc", "--json", *options)
    assert done.code == 0, done.err
    found = json.loads(done.out)["gc"]
    assert isinstance(found, dict)
    return found


def test_a_dry_run_shows_what_goes_and_its_token_carries_it_out(root: Path, locus: Locus) -> None:
    """I29, P8, S1-46: gc shows packs, bytes and the sessions that are lost; its plan is carried out once."""
    assert "Nothing would be removed" in locus("store", "gc", "--yes").err
    output = locus("store", "archive", B[:4], "--reason", "merged long ago")
    assert (output.code, "Released: bbbbbbbb" in output.err) == (0, True)
    plan = gc(locus, "--dry-run")
    assert [lost["session_id"] for lost in plan["lost"]] == [B]
    assert plan["done"] is None and plan["bytes"] == sum(share["bytes"] for share in plan["dead"])
    shown = locus("store", "gc", "--dry-run")
    assert f"lost    {B} (archived), 2 turns" in shown.text and plan["token"] in shown.err
    refused = locus("store", "gc")
    assert (refused.code, "there is no terminal to ask on" in refused.err) == (3, True)
    assert locus("store", "gc", "--token", "0" * 16).code == 3
    done = gc(locus, "--token", plan["token"])
    assert len(done["done"]["condemned"]) == len(plan["dead"]) == 2
    assert locus("store", "gc", "--token", plan["token"]).code == 3


def test_every_command_says_by_name_what_was_collected(root: Path, locus: Locus, tmp_path: Path) -> None:
    """S1-46: replay, cat, diff, history and restore say `collected on DATE (RULE)` and the session."""
    locus("store", "archive", B)
    gc(locus, "--yes")
    with Store.open(root / ".locus") as store:
        a_day_passes(store)
    assert gc(locus, "--yes")["done"]["swept"]["bytes"] > 0
    turn = f"{B}_001"
    for arguments in (
        ("replay", turn, "--to", tmp_path / "to"),
        ("cat", f"{turn}:own"),
        ("diff", f"{A}_001", turn),
        ("restore", turn, "--dry-run"),
    ):
        done = locus(*arguments)
        assert (done.code, done.err.count("\n")) == (1, 1), arguments
        assert "collected on 20" in done.err and f"(archived), with session {B}" in done.err
    history = locus("history", "own")
    assert history.code == 0 and history.text.count("\n") == 5
    assert history.err.count(f"(archived), with session {B}") == 2
    content = json.loads(locus("history", "own", "--json").text.splitlines()[0])["after_hash"]
    assert "(archived)" in locus("cat", content).err
    assert locus("cat", f"{A}_001:own").code == 0
    assert locus("store", "verify", "--deep").code == 0
    assert locus("timeline", turn).code == 0


def test_a_session_says_whether_its_contents_are_kept(root: Path, locus: Locus) -> None:
    """P7, P8: `session show`, `session ls` and `status` say of a session that it is pinned, or released and
    by which rule."""
    session = json.loads(locus("session", "ls", "--all", "--json").text.splitlines()[0])["session_id"]
    assert "contents" not in locus("session", "show", session).text
    assert locus("store", "pin", session).code == 0
    assert "pinned" in locus("session", "show", session).text
    assert "1 pinned" in locus("status").text
    assert locus("store", "unpin", session).code == 0
    assert locus("store", "archive", session).code == 0
    shown = json.loads(locus("session", "show", session, "--json").text)

    assert shown["retention"] == {"released": "archived", "pinned": False, "pinned_turns": []}
    listed = [json.loads(line) for line in locus("session", "ls", "--all", "--json").text.splitlines()]
    assert [one["retention"] for one in listed if one["session_id"] == session] == [shown["retention"]]
    assert "ended, released (archived)" in locus("session", "ls", "--all").text
    status = json.loads(locus("status", "--json").text)["status"]
    assert (status["released_sessions"], status["pinned_sessions"]) == (1, 0)


def test_pins_hold_against_archive(root: Path, locus: Locus) -> None:
    """P8: `pin` takes sessions and turns; what is pinned is not archived; a wrong name changes nothing."""
    assert locus("store", "pin", A, f"{B}_002").code == 0
    assert locus("store", "pin", A, "nosuchse").code == 1
    for name in (A, B):
        refused = locus("store", "archive", name)
        assert (refused.code, "store unpin" in refused.err) == (3, True)
    assert "pinned already" in locus("store", "pin", A).err
    assert locus("store", "unpin", A).code == 0
    assert locus("store", "archive", A).code == 0
    assert "Nothing to do" in locus("store", "archive", A).err
    assert "Held again" in locus("store", "archive", A, "--undo").err


@pytest.mark.parametrize("by", ["kind", "session", "path", "reuse"])
def test_du_says_what_takes_the_space(root: Path, locus: Locus, by: str) -> None:
    """P6, P8: every way of adding up has a table and JSON that say the same."""
    shown = locus("store", "du", "--by", by)
    found = json.loads(locus("store", "du", "--by", by, "--json").out)["du"]
    assert shown.code == 0 and found["by"] == by
    if by == "reuse":
        with Store.open(root / ".locus") as store:
            assert found["kept"] == pack_bytes(store)
        assert f"{found['factor']:.1f}" in shown.text
    else:
        assert shown.text.count("\n") == len(found["rows"]) + 1
        assert found["bytes"] == sum(row["bytes"] for row in found["rows"])
        assert all(row["name"] in shown.text for row in found["rows"])


def test_an_import_goes_on_after_collected_history(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1-46, P1: git history whose files were collected is continued from git itself."""
    work = tmp_path / "sample"
    make_history(work)
    monkeypatch.chdir(work)
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    assert locus("init").code == 0 and locus("import", "git", ".").code == 0
    with Store.open(work / ".locus") as store:
        (session,) = {turn[0] for turn in store.query("select session_id from turns").rows}
        end = {"event_type": "session", "operation": "end", "session_id": session, "agent": "git"}
        store.append([{**end, "payload": {}}])
    assert locus("store", "archive", session).code == 0
    gc(locus, "--yes")
    with Store.open(work / ".locus") as store:
        a_day_passes(store)
    gc(locus, "--yes")
    (work / "src/app.py").write_text("print('four')\n")
    git(work, "commit", "-qam", "Count on", at=5)
    done = locus("import", "git", ".")
    assert done.code == 0, done.err
    assert locus("replay", "last", "--to", tmp_path / "to").code == 0
    assert (tmp_path / "to/src/app.py").read_text() == "print('four')\n"
    assert (tmp_path / "to/data.bin").read_bytes() == bytes(range(256))


def until(true: Callable[[], bool]) -> bool:
    """Wait for what another process does; whether it came."""
    deadline = time.monotonic() + 60
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)
    return true()


@pytest.mark.parametrize("by", ["command", "hook"])
def test_a_store_beyond_its_budget_shrinks_by_itself(tmp_path: Path, by: str) -> None:
    """P6, I24: an ordinary command or hook starts the maintainer, which releases the oldest sessions and
    collects until the budget is kept, and unlinks a day later; what is kept replays byte for byte."""
    if by == "hook":
        work = project(tmp_path)
    else:
        work = tmp_path / "work"
        work.mkdir()
    payload = {}
    with Store.init(work / ".locus", project_name="sample", force=True) as store:
        for number in range(6):
            payload[number] = record(store, f"session{number}", size=150_000, noise=True)
        size = pack_bytes(store)
    (work / ".locus/config.toml").write_text(f"[retention]\nmax_bytes = {size // 2}\n")

    condemned = work / ".locus/snapshots/condemned"

    def ordinary() -> None:
        stamp = work / ".locus/live/maintained"
        if stamp.exists():
            os.utime(stamp, (1, 1))  # its interval is over
        if by == "hook":
            agent = Agent(work, environ={"LOCUS_NO_MAINTENANCE": ""})
            agent.prompt("Go")
            agent.stop()
        else:
            environ = {**os.environ, **GIT_ENVIRONMENT, "LOCUS_NO_MAINTENANCE": ""}
            command = [sys.executable, "-m", "locus_cli", "status"]
            subprocess.run(command, cwd=work, env=environ, check=True, capture_output=True)

    def ended() -> None:
        with open(work / ".locus/locks/maintainer.lock", "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)

    with Store.open(work / ".locus") as store:
        ordinary()
        assert until(lambda: pack_bytes(store) <= size // 2)
        ended()
        a_day_passes(store)
    ordinary()
    assert until(lambda: not list(condemned.iterdir()))
    ended()
    with Store.open(work / ".locus") as store:
        gone = [event["title"] for event in store.events(event_types=("retention",))]
        assert gone == [f"session{number}" for number in range(len(gone))] and 2 <= len(gone) <= 4
        for number in range(len(gone), 6):
            for turn, files in payload[number].items():
                assert replayed(store, turn, tmp_path / "to" / turn) == files
        assert [finding for finding in store.verify("deep") if finding.damage] == []
        works = {event["operation"] for event in store.events(event_types=("maintenance",))}
        assert "collect" in works
