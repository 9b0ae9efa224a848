"""Every verb on a small real history: what it prints for people and for programs."""

import contextlib
import csv
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog.recorder.hooks import StrictHooks
from eventlog.store import Store
from tests.cli.support import Ended, Locus, Recorded, git, locus_process, make_history


def documents(ended: Ended) -> list[dict[str, object]]:
    return [json.loads(line) for line in ended.text.splitlines()]


def document(ended: Ended) -> dict[str, object]:
    read = json.loads(ended.text)
    assert ended.code == 0
    assert read["version"] == 1
    return read


def git_tree(directory: Path) -> str:
    """The tree id that git gives to the files of a directory, ours left out."""
    scratch = directory.parent / f"{directory.name}.git"
    git(directory, f"--git-dir={scratch}", "init", "-q", "--bare")
    git(directory, f"--git-dir={scratch}", f"--work-tree={directory}", "add", "-A", "-f")
    return git(directory, f"--git-dir={scratch}", f"--work-tree={directory}", "write-tree")


# -- set up -----------------------------------------------------------------------------------------


def test_init_makes_a_store_at_the_root_of_the_repository(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From below a git repository the store is at its root; a second init changes nothing."""
    make_history(tmp_path / "repo")
    monkeypatch.chdir(tmp_path / "repo/src")
    first = locus("init")
    before = (tmp_path / "repo/.locus/STORE").read_bytes()
    second = locus("init")

    assert (first.code, second.code) == (0, 0)
    assert "made" in first.err and "nothing changed" in second.err
    assert (tmp_path / "repo/.locus/STORE").read_bytes() == before
    assert git(tmp_path / "repo", "status", "--porcelain") == ""


def test_init_works_outside_git_and_in_a_directory_given(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1-3: without git the repository's name is random and kept; a directory may be named."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    ended = locus("init", "empty", "--name", "Some Project")

    assert ended.code == 0
    assert "random" in ended.err
    shown = document(locus("--store", "empty/.locus", "status", "--json"))["status"]
    assert (shown["repo_hash_origin"], shown["project_name"]) == ("random", "Some Project")  # type: ignore[index]


def test_init_refuses_the_home_directory(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store in the home directory would record everything: refused with exit 3, possible with --force."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)

    assert locus("init").code == 3
    assert not (home / ".locus").exists()
    assert locus("init", "--force").code == 0


@pytest.mark.slow
def test_the_store_can_be_named_in_two_ways(recorded: Recorded, tmp_path: Path) -> None:
    """--store and LOCUS_DIR name the `.locus` directory itself, from anywhere."""
    by_option = locus_process("--store", recorded.store, "log", cwd=tmp_path)
    by_variable = locus_process("log", cwd=tmp_path, LOCUS_DIR=str(recorded.store))

    assert by_option.code == by_variable.code == 0
    assert by_option.out == by_variable.out != b""


def test_status_shows_what_is_there(recorded: Recorded, locus: Locus) -> None:
    """Status: four turns in one session, everything sealed and indexed; unknown words have a unit."""
    shown = locus("status")
    status = document(locus("status", "--json"))["status"]

    assert shown.code == 0 and shown.err == ""
    assert [line.split()[0] for line in shown.text.splitlines()] == [
        "project", "repository", "store", "sessions", "turns", "events", "log", "contents", "index",
    ]  # fmt: skip
    assert isinstance(status, dict)
    assert (status["turns"], status["sessions"], status["unsealed_events"]) == (4, 1, 0)
    assert status["repo_hash_origin"] == "roots"
    assert status["index"] is not None


# -- record -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_import_is_idempotent_and_incremental(copied: Recorded, locus: Locus) -> None:
    """I8: importing again adds nothing; a new commit adds one turn."""
    again = locus("import", "git")
    (copied.root / "new.txt").write_text("new\n")
    git(copied.root, "add", "new.txt")
    git(copied.root, "commit", "-qm", "Add a file", at=9)
    more = document(locus("import", "git", copied.root, "--json"))["import"]

    assert again.code == 0 and "Nothing new" in again.err
    assert isinstance(more, dict)
    assert (more["commits"], more["skipped"]) == (1, 4)
    assert documents(locus("log", "--limit", "1", "--json"))[0]["title"] == "Add a file"


def test_import_takes_the_newest(tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch) -> None:
    """--limit N records the newest N commits, --rev says where the history ends."""
    commits = make_history(tmp_path / "repo")
    (tmp_path / "store").mkdir()
    monkeypatch.chdir(tmp_path / "store")
    assert locus("init").code == 0
    assert locus("import", "git", "../repo", "--rev", commits[2], "--limit", "2").code == 0

    assert [d["commit"] for d in documents(locus("log", "--json"))] == [commits[2], commits[1]]


# -- look -------------------------------------------------------------------------------------------


def test_log_lists_turns_newest_first(recorded: Recorded, locus: Locus) -> None:
    """S1-2: one line for each turn, newest first, with a head line."""
    lines = locus("log").text.splitlines()

    assert lines[0].split() == ["TURN", "STARTED", "(UTC)", "COMMIT", "FILES", "TITLE"]
    assert [line.split()[3] for line in lines[1:]] == [c[:7] for c in reversed(recorded.commits)]
    assert lines[1].endswith("Rename the readme, add data")


def test_log_can_be_narrowed(recorded: Recorded, locus: Locus) -> None:
    """S1-55, S1-56: a file's history, events of one type, a limit, a date."""
    of_file = documents(locus("log", "--path", "src/app.py", "--json"))
    below = documents(locus("log", "--path", "src/", "--json"))
    intents = documents(locus("log", "--type", "intent", "--json"))

    assert [e["operation"] for e in of_file] == ["edit", "add"]
    assert below == of_file
    assert {e["event_type"] for e in intents} == {"intent"} and len(intents) == 4
    assert len(documents(locus("log", "--limit", "2", "--json"))) == 2
    assert len(documents(locus("log", "--since", "2026-03-01T12:03", "--json"))) == 2
    assert documents(locus("log", "--since", "2030-01-01", "--json")) == []


def test_log_says_when_there_is_more_and_when_there_is_nothing(recorded: Recorded, locus: Locus) -> None:
    """Words about the list go to stderr, so that the list itself stays clean."""
    assert "more" in locus("log", "--limit", "1").err
    assert locus("log").err == ""
    nothing = locus("log", "--type", "error")
    assert (nothing.code, nothing.out) == (0, b"") and "Nothing fits" in nothing.err


def test_log_of_one_session(recorded: Recorded, locus: Locus) -> None:
    """A session is named by its id, the beginning of it, or its context id."""
    (session,) = json.loads(locus("sql", "select * from sessions", "--json").text)
    for name in (session["session_id"], str(session["session_id"])[:4], session["context_id"]):
        assert len(documents(locus("log", "--session", name, "--json"))) == 4
    assert documents(locus("log", "--session", "zzzzzzzz", "--json")) == []


def test_timeline_shows_a_turn_in_order(recorded: Recorded, locus: Locus) -> None:
    """S1-12, S1-24, S1-55: events of a turn with their numbers; the snapshot is first, the intent second."""
    shown = locus("timeline", "last")
    read = document(locus("timeline", "last", "--json"))
    events = read["events"]

    assert isinstance(events, list)
    numbered = [e for e in events if "seq" in e]
    assert [e["seq"] for e in numbered] == list(range(1, len(numbered) + 1))
    assert [e["event_type"] for e in numbered[:2]] == ["snapshot", "intent"]
    assert "Rename the readme, add data" in shown.text
    assert "README.md → READ ME é.md" in shown.text


def test_show_an_event_with_its_diff(recorded: Recorded, locus: Locus) -> None:
    """S1-31: the unified diff is made from the two contents when the event is shown."""
    event = documents(locus("log", "--path", "src/app.py", "--limit", "1", "--json"))[0]
    event_id = str(event["event_id"])
    shown = locus("show", event_id[:10])

    assert shown.code == 0
    assert "-print('two')\n+print('zwei')\n+print('three')\n" in shown.text
    assert document(locus("show", event_id, "--json"))["event"]["event_id"] == event_id  # type: ignore[index]
    assert locus("show", event["context_id"]).out == shown.out


def test_show_a_turn_and_a_session(recorded: Recorded, locus: Locus) -> None:
    """A turn shows its anchor, a session its anchor and its turns."""
    turn = document(locus("show", "last", "--json"))["turn"]
    assert isinstance(turn, dict)
    session = document(locus("show", turn["session_id"], "--json"))

    assert turn["title"] == "Rename the readme, add data"
    assert [t["turn"] for t in session["turns"]] == [1, 2, 3, 4]  # type: ignore[attr-defined]
    assert "timeline" in locus("show", turn["context_id"], "--fields").text
    assert "❯ Rename the readme, add data" in locus("show", turn["context_id"]).text
    assert locus("show", session["session"]["context_id"]).code == 0  # type: ignore[index]


# -- go back ----------------------------------------------------------------------------------------


def test_every_turn_replays_to_gits_tree(recorded: Recorded, locus: Locus, tmp_path: Path) -> None:
    """P1, I27: the files of each turn hash to the tree of its commit, modes and symlinks included."""
    for commit in recorded.commits:
        target = tmp_path / commit
        ended = locus("replay", f"git:{commit}", "--to", target)

        assert ended.code == 0
        assert git_tree(target) == git(recorded.root, "rev-parse", f"{commit}^{{tree}}")
    assert (target / "run.sh").stat().st_mode & stat.S_IXUSR
    assert (target / "app").readlink() == Path("src/app.py")


def test_replay_of_a_turns_start_is_the_end_of_the_turn_before(
    recorded: Recorded, locus: Locus, tmp_path: Path
) -> None:
    """P1: --at start is the state before the turn."""
    assert locus("replay", f"git:{recorded.commits[2]}", "--at", "start", "--to", tmp_path / "x").code == 0

    assert git_tree(tmp_path / "x") == git(recorded.root, "rev-parse", f"{recorded.commits[1]}^{{tree}}")


def test_replay_of_an_event_is_the_state_just_after_it(
    recorded: Recorded, locus: Locus, tmp_path: Path
) -> None:
    """P1: --at EVENT applies the changes up to that event and no more."""
    files = [
        e for e in document(locus("timeline", "last", "--json"))["events"] if e["event_type"] == "file"  # type: ignore[attr-defined]
    ]  # fmt: skip
    assert locus("replay", "last", "--at", files[0]["event_id"], "--to", tmp_path / "x").code == 0

    present = {p.name for p in (tmp_path / "x").iterdir()}
    assert Path(files[0]["path"]).name in present
    assert Path(files[1]["path"]).name not in present


@pytest.mark.slow
def test_replay_names_what_it_cannot_reproduce(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: what a turn held and was never captured is listed, with exit 4; a submodule is named too."""
    repository = tmp_path / "repo"
    make_history(repository)
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{'5' * 40},vendor/lib")
    git(repository, "commit", "-q", "-m", "Take in a library", at=5)
    monkeypatch.chdir(repository)
    locus("init"), locus("import", "git")
    with_submodule = locus("replay", "last", "--to", tmp_path / "one")
    blob = git(repository, "hash-object", "-w", "run.sh")
    git(repository, "config", "core.protectNTFS", "false")  # else git itself refuses the name
    git(repository, "update-index", "--add", "--cacheinfo", f"100644,{blob},git~1")
    git(repository, "commit", "-q", "-m", "Add a name that no tree may hold", at=6)
    imported = locus("import", "git")
    partial = locus("replay", "last", "--to", tmp_path / "two")
    listed = json.loads(locus("replay", "last", "--to", tmp_path / "three", "--json").text)

    assert (with_submodule.code, imported.code, partial.code) == (0, 4, 4)
    assert f"submodule, left empty: vendor/lib at {'5' * 40}" in with_submodule.text
    assert "not recorded: git~1" in imported.text
    assert "git~1" in partial.text
    assert [entry["commit"] for entry in listed["submodules"]] == ["5" * 40]
    assert len(listed["missing"]) == 1


def test_replay_of_some_paths(recorded: Recorded, locus: Locus, tmp_path: Path) -> None:
    """Paths narrow a replay to files and directories."""
    report = document(locus("replay", "last", "src", "--to", tmp_path / "x", "--json"))

    assert [p.relative_to(tmp_path / "x").as_posix() for p in (tmp_path / "x").rglob("*")] == [
        "src",
        "src/app.py",
    ]
    assert (report["files"], report["missing"]) == (1, [])


def test_replay_is_refused_into_a_directory_that_holds_something(
    recorded: Recorded, locus: Locus, tmp_path: Path
) -> None:
    """A target with files in it is exit 3 and stays as it is; --force replays over it."""
    (tmp_path / "x").mkdir()
    (tmp_path / "x/mine.txt").write_text("mine")
    refused = locus("replay", "last", "--to", tmp_path / "x")

    assert refused.code == 3
    assert "--force" in refused.err
    assert [p.name for p in (tmp_path / "x").iterdir()] == ["mine.txt"]
    assert locus("replay", "last", "--to", tmp_path / "x", "--force").code == 0
    assert (tmp_path / "x/mine.txt").read_text() == "mine"
    assert (tmp_path / "x/src/app.py").exists()


def test_cat_writes_exact_bytes(recorded: Recorded, locus: Locus) -> None:
    """S1-45: a file of a turn, or a content by its hash or the beginning of it, byte for byte."""
    by_path = locus("cat", "last:data.bin")
    event = documents(locus("log", "--path", "data.bin", "--json"))[0]
    full = str(event["after_hash"])

    assert by_path.err == ""
    assert by_path.out == bytes(range(256))
    assert locus("cat", full).out == by_path.out
    assert locus("cat", full.removeprefix("blake3:")[:12]).out == by_path.out
    assert locus("cat", f"git:{recorded.commits[0][:8]}:src/app.py").out == b"print('one')\nprint('two')\n"
    assert locus("cat", "last:src/app.py", "--at", "start").out.startswith(b"print('one')\nprint('zwei')")
    assert (
        locus("cat", f"{event['context_id'].replace('file:', 'turn:').rpartition('_')[0]}:data.bin").code == 0
    )  # type: ignore[attr-defined]


def test_cat_needs_a_file(recorded: Recorded, locus: Locus) -> None:
    """A turn alone, a directory, an unknown path or hash: each says what is missing."""
    for turn in ("git:1234", "last", "last:", "abcd1234_001"):
        ended = locus("cat", turn)
        assert (ended.code, ended.out) == (2, b"")
        assert "PATH" in ended.err
    for name, code in (("last:no/such", 1), ("last:src", 3), ("0123456789", 1)):
        ended = locus("cat", name)
        assert (ended.code, ended.out) == (code, b"")
        assert ended.err.startswith("locus: ")


# -- ask --------------------------------------------------------------------------------------------

QUERY = "select turn, title, started_at, files_modified from turns order by turn"


def test_sql_prints_a_table(recorded: Recorded, locus: Locus) -> None:
    """A table for people, with a count of rows."""
    lines = locus("sql", QUERY).text.splitlines()

    assert lines[0].split() == ["turn", "title", "started_at", "files_modified"]
    assert lines[-1] == "(4 rows)"


def test_sql_gives_json_an_array_of_objects(recorded: Recorded, locus: Locus) -> None:
    """P8: --format json is one array of row objects, times in ISO 8601, lists as arrays."""
    rows = json.loads(locus("sql", QUERY, "--format", "json").text)

    assert [row["turn"] for row in rows] == [1, 2, 3, 4]
    assert rows[0]["started_at"].startswith("2026-03-01T12:01:00")
    assert rows[1]["files_modified"] == ["src/app.py"]
    assert locus("sql", QUERY, "--json").out == locus("sql", QUERY, "--format", "json").out
    assert json.loads(locus("sql", "select 1 as a where false", "--json").text) == []


def test_sql_gives_csv(recorded: Recorded, locus: Locus) -> None:
    """--format csv has a head line and quotes where it must."""
    rows = list(csv.reader(io.StringIO(locus("sql", QUERY, "--format", "csv").text)))

    assert rows[0] == ["turn", "title", "started_at", "files_modified"]
    assert rows[4][1] == "Rename the readme, add data"


def test_sql_gives_parquet(recorded: Recorded, locus: Locus, tmp_path: Path) -> None:
    """--format parquet is a file that other programs read, on stdout or with --output."""
    import pyarrow.parquet as pq

    assert locus("sql", QUERY, "--format", "parquet", "--output", tmp_path / "x.parquet").code == 0
    table = pq.read_table(tmp_path / "x.parquet")

    assert table.column("turn").to_pylist() == [1, 2, 3, 4]
    assert locus("sql", QUERY, "--format", "parquet").out[:4] == b"PAR1"


def test_sql_reads_its_query_from_stdin(recorded: Recorded) -> None:
    """`locus sql -` takes a query of any length from standard input."""
    ended = locus_process("sql", "-", "--json", cwd=recorded.root, stdin=b"select count(*) as n from turns")

    assert json.loads(ended.text) == [{"n": 4}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("selec 1", 1),
        ("select * from nowhere", 1),
        ("select 1; select 2", 3),
        ("drop table turns", 3),
        ("copy (select 1) to 'x.csv'", 3),
        ("attach 'x.duckdb'", 3),
    ],
)
def test_sql_answers_questions_only(query: str, code: int, copied: Recorded, locus: Locus) -> None:
    """Anything but one SELECT is refused, wrong SQL is an error; nothing is written."""
    before = sorted(p.name for p in copied.root.iterdir())
    ended = locus("sql", query)

    assert (ended.code, ended.out) == (code, b"")
    assert ended.err.startswith("locus: ")
    assert sorted(p.name for p in copied.root.iterdir()) == before


# -- keep -------------------------------------------------------------------------------------------


def test_seal_and_rebuild_change_no_answer(copied: Recorded, locus: Locus) -> None:
    """I14, I22: sealing, and rebuilding a deleted index, leave every answer as it is."""
    before = locus("log", "--events", "--limit", "1000", "--json").out
    for path in (copied.store / "index").iterdir():
        path.unlink()
    without = locus("log", "--events", "--limit", "1000", "--json").out
    assert locus("store", "rebuild").code == 0
    assert locus("store", "seal").code == 0

    assert before == without == locus("log", "--events", "--limit", "1000", "--json").out
    assert len(list((copied.store / "index").iterdir())) >= 1


@pytest.mark.parametrize("level", ["--quick", "--read"])
def test_verify_finds_nothing_in_a_sound_store(level: str, recorded: Recorded, locus: Locus) -> None:
    """A store that nobody damaged verifies with exit 0."""
    assert locus("store", "verify", level).code == 0
    assert document(locus("store", "verify", level, "--json"))["findings"] == []


def test_progress_stays_off_pipes(copied: Recorded) -> None:
    """P8: without a terminal stderr holds words only, no moving line."""
    ended = locus_process("import", "git", cwd=copied.root)

    assert ended.code == 0
    assert "\r" not in ended.err and "\x1b" not in ended.err


def test_progress_shows_on_a_terminal(tmp_path: Path) -> None:
    """Work of more than a second shows a line on a terminal, and wipes it at the end."""
    program = (
        "import time\nfrom locus_cli.progress import Progress\n"
        "with Progress('working') as p:\n  p(1, 4)\n  time.sleep(1.5)\n"
        "with Progress('short'):\n  pass"
    )
    leader, follower = os.openpty()
    subprocess.run([sys.executable, "-c", program], stderr=follower, check=True)
    os.close(follower)
    shown = ""
    with contextlib.suppress(OSError):  # EIO: nobody has the other side any more
        while part := os.read(leader, 10_000):
            shown += part.decode()
    os.close(leader)

    assert shown.startswith("\rworking: 1 of 4 (25 %), ")
    assert shown.endswith("\r\x1b[K")
    assert "short" not in shown


def test_show_gives_the_state_of_a_context(shop: Path, locus: Locus) -> None:
    """S0-13: of a context that several events wrote, of each key the last word."""
    with Store.open(shop / ".locus") as store:
        hooks = StrictHooks(store, agent="script")
        hooks.store_skill("deploy", "Push it", ["push"])
        hooks.store_skill("deploy", "Ask, then push it")
    found = json.loads(locus("show", "fact:skill_deploy", "--json").out)["context"]
    assert (found["state"]["description"], len(found["events"])) == ("Ask, then push it", 2)
    assert "Ask, then push it" in locus("show", "fact:skill_deploy").text
