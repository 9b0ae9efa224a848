"""Ignored files that nothing could rebuild: kept for replay and restore, and in nothing that leaves."""

import base64
import json
import os
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.agents import formats
from eventlog.base import config, identity
from eventlog.base.errors import EventLogError
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.blobs.ids import blob_id, to_text
from eventlog.exports import jsonl, parquet
from eventlog.exports.locusgraph import locusgraph
from eventlog.hooks import stored_contents
from eventlog.importers import importer
from eventlog.mcp import read
from eventlog.store import Store
from eventlog.worktree import git_held
from tests.agents.claude_support import Teller, patch
from tests.cli.hook_support import Agent, events, notes, project
from tests.cli.support import git, locus_process
from tests.cli.test_hook_contents import after_a_tool, begun
from tests.worktree.support import age

# No rule for secrets knows it.
CANARY = "the plum tree is blue"
SETTINGS = f"COLOUR={CANARY}\n"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A project with ignored files, whose store keeps them."""
    made = project(tmp_path)
    (made / ".gitignore").write_text("*.log\n.env*\n!.env.example\n*.db*\n*.key\nnode_modules/\n")
    git(made, "add", "-A")
    git(made, "commit", "-q", "-m", "Ignore")
    assert locus_process("init", "--keep-ignored", cwd=made).code == 0
    (made / ".env").write_text(SETTINGS)
    (made / ".env").chmod(0o600)
    (made / "server.key").write_text("a private key")
    (made / "run.log").write_text("a log")
    (made / "node_modules").mkdir()
    (made / "node_modules/local.db").write_text("rebuilt")
    return made


def test_what_an_agent_removed_is_restored_by_the_documented_command(tmp_path: Path) -> None:
    """P1: `rm -rf src .env` under the installed hooks, then `locus restore last --at start --yes`."""
    work = tmp_path / "project"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    (work / ".gitignore").write_text(".env\n")
    (work / "src").mkdir()
    (work / "src/app.py").write_text("print('one')\n")
    (work / ".env").write_text(SETTINGS)
    (work / ".env").chmod(0o600)
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "Begin")
    made = locus_process("init", "--hooks", cwd=work, PATH=f"{tmp_path}:{os.environ['PATH']}")
    settings = work / ".claude/settings.local.json"
    if not settings.exists():  # no agent is found here
        made = locus_process("hooks", "install", "--agent", "claude-code", cwd=work)
    hooks = json.loads(settings.read_text())["hooks"]

    def say(name: str, **fields: object) -> None:
        payload = {"session_id": "s", "prompt_id": "p", "cwd": str(work), "hook_event_name": name, **fields}
        line = hooks[name][0]["hooks"][0]["command"]
        environ = {**os.environ, "LOCUS_NO_MAINTENANCE": "1", "LOCUS_HOOK_PATIENCE": "20"}
        subprocess.run(
            ["sh", "-c", line], input=json.dumps(payload).encode(), cwd=work, env=environ, check=True
        )

    say("UserPromptSubmit", prompt="Tidy up")
    command = {"command": "rm -rf src .env"}
    subprocess.run(command["command"], shell=True, cwd=work, check=True)
    say("PostToolUse", tool_name="Bash", tool_input=command, tool_response={"stdout": ""}, tool_use_id="t")
    say("Stop", last_assistant_message="Done")
    assert not (work / ".env").exists() and not (work / "src").exists()
    done = locus_process("restore", "last", "--at", "start", "--yes", cwd=work)

    assert made.code == 0 and done.code == 0, done.err
    assert (work / ".env").read_text() == SETTINGS
    assert stat.S_IMODE((work / ".env").stat().st_mode) == 0o600
    assert (work / "src/app.py").read_text() == "print('one')\n"
    undone = locus_process("restore", "--undo", "--yes", cwd=work)
    assert undone.code == 0 and not (work / ".env").exists() and not (work / "src").exists()


def play(work: Path) -> None:
    """A turn in which an agent reads, edits, prints and searches the settings."""
    agent = Agent(work)
    agent.prompt("Look at the settings")
    target = str(work / ".env")
    args = {"file_path": target}
    agent.end(agent.begin("Read", args), "Read", args, {"file": {"filePath": target, "content": SETTINGS}})
    agent.edit(".env", "COLOUR", "COLOUR_OF_TREE")
    agent.write(".env", f"SHAPE={CANARY}\n")
    agent.bash("cat .env")
    agent.bash("cat missing; cat .env 1>&2; false")
    agent.bash(f"echo 'X={CANARY}' >> .env")
    agent.bash("grep -r plum . --include=.env")
    args = {"pattern": "plum"}
    agent.end(agent.begin("Grep", args), "Grep", args, {"content": f".env:1:SHAPE={CANARY}"})
    args = {"path": ".env"}
    tool = "mcp__files__read"
    agent.end(agent.begin(tool, args), tool, args, [{"type": "text", "text": CANARY}])
    agent.stop("All is well.")


def test_the_directory_of_a_command_that_names_an_ignored_file_stays(work: Path) -> None:
    """P5: paths are no texts of files, so a reader sees where a command ran."""
    agent = Agent(work)
    agent.prompt("Look")
    for name in ("workdir", "cwd"):
        args = {"command": "cat .env", name: str(work)}
        agent.end(agent.begin("Bash", args), "Bash", args, {"stdout": SETTINGS, "stderr": ""})
    first, second = [event["payload"]["args"] for event in events(work, "action")]

    assert (first["workdir"], second["cwd"]) == (str(work), str(work))


def answers_of_mcp(store: Store, turn: str) -> Iterator[str]:
    yield from read.search(store, "plum", None, None, None, 50)
    yield from read.timeline(store, turn)
    yield from read.show(store, turn)
    yield from read.diff(store, turn)
    try:
        yield read.file_at(store, turn, ".env")
    except EventLogError as error:
        yield str(error)
    for event in store.events():
        yield from read.show(store, str(event["event_id"]))


def holders(root: Path) -> list[str]:
    encoded = [base64.b64encode(b" " * i + CANARY.encode())[8:24] for i in range(3)]
    found = []
    for path in root.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        if any(needle in data for needle in (CANARY.encode(), *encoded)):
            found.append(str(path.relative_to(root)))
    return sorted(found)


def test_no_text_of_an_ignored_file_is_recorded_or_leaves(work: Path, tmp_path: Path) -> None:
    """P5: neither event, export, search nor MCP answer has it; replay does, byte for byte."""
    play(work)
    assert notes(work) == ""
    listed = [event for event in events(work) if CANARY in json.dumps(event, default=str)]
    assert [(one["event_type"], one["tool"]) for one in listed] == []
    marked = {one["tool"] for one in events(work, "action") if "LEFT OUT" in json.dumps(one["payload"])}
    assert marked == {"Read", "Edit", "Write", "Bash", "Grep", "mcp__files__read"}
    commands = [one["payload"]["args"]["command"] for one in events(work, "action") if one["tool"] == "Bash"]
    assert commands[0] == "cat .env" and commands[2].startswith("[LEFT OUT")

    out = tmp_path / "out"
    out.mkdir()
    with Store.open(work / ".locus") as store:
        report = jsonl.export(store, str(out / "log.jsonl"), contents=True)
        locusgraph.export(store, str(out / "batch.jsonl"), since=0)
        parquet.export(store, str(out / "parquet"))
        assert to_text(blob_id(SETTINGS.encode())) in {name for name, _ in report.missing}
        turn = str(store.turn("last").context_id)
        (out / "mcp").write_text("".join(answers_of_mcp(store, turn)))
    for name, words in (
        ("search", ["search", "plum"]),
        ("show", ["show", "last"]),
        ("diff", ["diff", "last"]),
        ("timeline", ["timeline", "last", "--json"]),
        ("cat", ["cat", f"{to_text(blob_id(SETTINGS.encode()))}"]),
    ):
        done = locus_process(*words, cwd=work)
        (out / name).write_bytes(done.out + done.err.encode())
    assert holders(out) == []
    assert all(name.startswith("snapshots/packs/") for name in holders(work / ".locus"))

    target = tmp_path / "replayed"
    done = locus_process("replay", "last", "--at", "start", "--to", target, cwd=work)
    assert done.code == 0 and (target / ".env").read_text() == SETTINGS
    assert not (target / "server.key").exists() and not (target / "node_modules").exists()


def withheld(work: Path) -> dict[str, list[str]]:
    return {event["title"]: event["payload"]["kinds"] for event in events(work, "withheld")}


def hash_of(text: str) -> str:
    return to_text(blob_id(text.encode()))


def test_a_content_is_withheld_unless_git_tracks_the_same(work: Path) -> None:
    """P5: the contents of ignored files are withheld; not what a tracked file holds too, and no empty one."""
    (work / ".env").write_text("shared\n")
    (work / ".env.example").write_text("shared\n")
    (work / ".env.empty").write_text("")
    (work / ".env.local").write_text("mine\n")
    git(work, "add", ".env.example")
    agent = Agent(work)
    agent.prompt("Begin")
    (work / ".env.local").write_text("other\n")
    agent.stop()

    assert withheld(work) == {hash_of("mine\n"): ["ignored"], hash_of("other\n"): ["ignored"]}
    refused = locus_process("cat", "last:.env.local", cwd=work)
    assert refused.code == 3 and "is in a file that git ignores" in refused.err
    assert locus_process("cat", "last:.env", cwd=work).text == "shared\n"


def test_what_git_tracks_is_not_withheld_where_git_holds_it(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P5: a first capture reads no content that git holds; a copy of such a file is not withheld."""
    monkeypatch.setattr(git_held, "READ_FILES_MAX", 0)
    (work / ".env.example").write_text("shared\n")
    (work / ".env").write_text("shared\n")
    (work / ".env.other").write_text("others\n")
    git(work, "add", ".env.example")
    git(work, "commit", "-q", "-m", "An example")
    age(work)
    git(work, "update-index", "--refresh")
    begun(work)

    (snapshot,) = events(work, "snapshot")
    assert snapshot["payload"]["capture"]["in_git"] > 0
    assert set(withheld(work)) == {hash_of("others\n")}


def test_what_an_edit_found_is_not_withheld_where_git_tracks_the_same(work: Path) -> None:
    """P5: a person copied the example before an agent edits the copy."""
    (work / ".env.example").write_text("COLOUR=example\n")
    git(work, "add", ".env.example")
    agent = Agent(work)
    agent.prompt("Edit it")
    (work / ".env").write_text("COLOUR=example\n")
    agent.edit(".env", "COLOUR", "SHADE")
    agent.stop()

    assert set(withheld(work)) == {hash_of(SETTINGS), hash_of("SHADE=example\n")}


def test_what_an_edit_found_in_an_ignored_file_is_withheld(work: Path) -> None:
    """P5: the agent's own text of `.env`, which no capture saw, is stored for replay and withheld."""
    agent = Agent(work)
    agent.prompt("Edit it")
    (work / ".env").write_text("COLOUR=unseen\n")
    agent.edit(".env", "COLOUR", "SHADE")
    agent.stop()

    assert set(withheld(work)) == {hash_of(SETTINGS), hash_of("COLOUR=unseen\n"), hash_of("SHADE=unseen\n")}


def test_a_tracked_file_of_such_a_name_is_recorded_in_full(work: Path) -> None:
    """What git tracks, or does not ignore, is reported as ever; so is what a text only mentions."""
    (work / ".env.example").write_text("A=1\n")
    git(work, "add", ".env.example")
    agent = Agent(work)
    agent.prompt("Read the example")
    agent.bash("cat .env.example")
    agent.write("readme.md", "Copy .env.example to .env and fill it in.")
    agent.stop()

    shell, written = events(work, "action")
    assert shell["payload"]["result"]["stdout"] == "A=1\n"
    moved = written["payload"]["in_blobs"]["args.content"]["blob"]
    assert moved == hash_of("Copy .env.example to .env and fill it in.")


def test_a_store_that_does_not_keep_them_records_as_before(work: Path) -> None:
    """Nothing is left out of tool calls where no ignored file is kept, and none is captured."""
    assert locus_process("init", "--leave-ignored", cwd=work).code == 0
    agent = Agent(work)
    agent.prompt("Print it")
    agent.bash("cat .env")
    agent.stop()

    (action,) = events(work, "action")
    assert action["payload"]["result"]["stdout"] == SETTINGS
    assert withheld(work) == {} and events(work, "snapshot")[0]["payload"]["ignored_count"] == 4


def keep(work: Path, how: str) -> None:
    assert locus_process("init", how, cwd=work).code == 0


def told_of(work: Path) -> list[tuple[str, str, str | None]]:
    return [(one["operation"], one["path"], one["turn_id"]) for one in events(work, "file")]


def test_switching_on_is_no_change_of_anybodys(work: Path, tmp_path: Path) -> None:
    """P1: the turn under way goes on as it began; the next one has the files, and nobody added them."""
    keep(work, "--leave-ignored")
    agent = Agent(work)
    agent.prompt("Work")
    agent.bash("true")
    keep(work, "--keep-ignored")
    agent.bash("cp .env copy.txt; rm readme.md")
    agent.stop()
    trees = {one["tree_hash"] for one in events(work, "snapshot")}
    diff = locus_process("diff", "last", cwd=work).text
    assert told_of(work) == [("add", "copy.txt", "001"), ("delete", "readme.md", "001")]
    assert len(trees) == 2 and ".env" not in diff

    (work / "copy.txt").unlink()  # it is not what became of the new `.env`
    agent.prompt("Go on")
    assert told_of(work)[2:] == [("delete", "copy.txt", None)]
    agent.bash("echo more >> .env")
    agent.stop()
    assert told_of(work)[3:] == [("edit", ".env", "002")]
    start = events(work, "snapshot")[-3]
    assert (start["operation"], start["payload"]["keep_ignored"]) == ("turn_start", True)
    assert all("keep_ignored" not in one["payload"] for one in events(work, "snapshot")[-2:])
    assert hash_of(SETTINGS) in withheld(work)
    done = locus_process("replay", "last", "--at", "start", "--to", tmp_path / "out", cwd=work)
    assert done.code == 0 and (tmp_path / "out/.env").read_text() == SETTINGS


def test_switching_off_is_no_change_of_anybodys(work: Path) -> None:
    """P1, P5: what is there is not recorded as deleted; until the turn ends it is kept, and left out of
    texts."""
    (work / ".env.other").write_text("other\n")
    agent = Agent(work)
    agent.prompt("Work")
    keep(work, "--leave-ignored")
    agent.bash("cat .env")
    agent.bash("echo more >> .env")
    agent.stop()
    assert told_of(work) == [("edit", ".env", "001")]
    assert CANARY not in json.dumps(events(work), default=str)
    (work / ".env.other").rename(work / "visible.txt")
    agent.prompt("Go on")
    agent.bash("rm .env")
    agent.stop()
    assert told_of(work)[1:] == [("rename", "visible.txt", None)]
    assert events(work, "snapshot")[-2]["payload"]["keep_ignored"] is False


def test_a_switch_waits_for_the_turns_of_others(work: Path) -> None:
    """P1: while another session's turn is under way, a prompt changes nothing about what is captured."""
    keep(work, "--leave-ignored")
    one, other = Agent(work), Agent(work)
    other.prompt("Work long")
    keep(work, "--keep-ignored")
    one.prompt("Work")
    one.stop()
    other.bash("touch new.txt")
    other.stop()
    assert len({one["tree_hash"] for one in events(work, "snapshot")}) == 2
    one.prompt("And now")
    one.stop()
    assert [path for _, path, _ in told_of(work)] == ["new.txt"]
    assert locus_process("cat", "last:.env", "--show-withheld", cwd=work).text == SETTINGS


def test_left_out_entries_are_counted(work: Path, tmp_path: Path) -> None:
    """P1: a directory that is not entered counts as one; reports say the number, and end with 0."""
    agent = Agent(work)
    agent.prompt("Begin")
    (work / "other.log").write_text("a log")
    agent.bash("rm .env")
    (work / "src/app.py").write_text("print('two')\n")
    agent.stop()
    counts = [event["payload"]["ignored_count"] for event in events(work, "snapshot")]
    replayed = locus_process("replay", "last", "--to", tmp_path / "out", "--json", cwd=work)
    planned = locus_process("restore", "last", "--at", "start", "--dry-run", "--json", cwd=work)
    shown = locus_process("restore", "last", "--at", "start", "--dry-run", cwd=work)
    doctor = json.loads(locus_process("doctor", "--json", cwd=work).text)
    session = locus_process("session", "show", events(work, "turn")[0]["session_id"], cwd=work)

    assert counts == [3, 4, 4]
    assert (replayed.code, json.loads(replayed.text)["ignored"]) == (0, 4)
    assert (planned.code, json.loads(planned.text)["restore"]["ignored"]) == (0, 3)
    assert "ignored: 3 entries that git ignored then" in shown.text
    assert "4 ignored entries left out" in session.text
    (finding,) = [one for one in doctor["findings"] if one["about"] == "ignored"]
    assert "are kept" in finding["what"] and "left out 4 ignored entries" in finding["what"]


def test_a_person_is_asked_once(tmp_path: Path) -> None:
    """A new store keeps them and says so; an older one is offered the choice until somebody makes it."""
    new = tmp_path / "new"
    new.mkdir()
    made = locus_process("init", cwd=new)
    again = locus_process("init", cwd=new)
    assert ".env" in made.err and "--leave-ignored" in made.err and "kept" in made.err
    assert "--keep-ignored" not in again.err
    assert config.keeps_ignored(REAL, Layout(str(new / ".locus"))) is True

    old = project(tmp_path)
    install = ("hooks", "install", "--agent", "claude-code")
    listed = [locus_process(*words, cwd=old) for words in (("init",), install)]
    doctor = json.loads(locus_process("doctor", "--json", cwd=old).text)
    (finding,) = [one for one in doctor["findings"] if one["about"] == "ignored"]
    assert all("--keep-ignored" in one.err and "--leave-ignored" in one.err for one in listed)
    assert (finding["level"], "--keep-ignored" in finding["todo"]) == ("note", True)
    assert config.keeps_ignored(REAL, Layout(str(old / ".locus"))) is None
    locus_process("init", "--leave-ignored", cwd=old)
    assert "--keep-ignored" not in locus_process(*install, cwd=old).err


def database(path: Path, *rows: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("create table if not exists t(a)")
    for row in rows:
        connection.execute("insert into t values (?)", [row])
    return connection


def rows_of(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        found = [row[0] for row in connection.execute("select a from t order by rowid")]
    connection.close()
    return found


def test_a_database_comes_back_with_its_journal(work: Path) -> None:
    """P1, P4: rows that are in `-wal` alone are restored, and never while a process has it open."""
    connection = database(work / "app.db")
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma wal_autocheckpoint=0")
    connection.execute("insert into t values ('one')")
    agent = Agent(work)
    agent.prompt("Change the rows")
    connection.execute("delete from t")
    connection.execute("insert into t values ('two')")
    agent.bash("true")
    agent.stop()

    refused = locus_process("restore", "last", "app.db", "--at", "start", "--yes", cwd=work)
    assert refused.code != 0 and f"process {os.getpid()} " in refused.err + refused.text
    # The process is killed: what it wrote stays in the journal.
    parts = {path.name: path.read_bytes() for path in work.glob("app.db*")}
    connection.close()
    for name, data in parts.items():
        (work / name).write_bytes(data)
    done = locus_process("restore", "last", "app.db", "--at", "start", "--yes", cwd=work)
    assert done.code == 0, done.err
    assert rows_of(work / "app.db") == ["one"]


def test_a_journal_that_nobody_recorded_does_not_stay_beside_an_older_database(work: Path) -> None:
    """P1: it would be applied to the restored file; `--undo` brings it back."""
    database(work / "app.db", "one").close()
    agent = Agent(work)
    agent.prompt("Empty it")
    agent.bash("rm app.db")
    agent.stop()
    (work / "app.db-journal").write_bytes(b"a journal of another database")
    done = locus_process("restore", "last", "app.db", "--at", "start", "--yes", cwd=work)
    assert done.code == 0 and not (work / "app.db-journal").exists()
    assert rows_of(work / "app.db") == ["one"]
    assert locus_process("restore", "--undo", "--yes", cwd=work).code == 0
    assert (work / "app.db-journal").read_bytes() == b"a journal of another database"


def test_a_database_that_a_hook_defers_is_withheld_when_it_is_stored(work: Path) -> None:
    """P5: who stores what hooks left says so of ignored files too."""
    begun(work)
    content = b"".join(b"row %d\n" % number for number in range(200_000))
    (work / "app.db").write_bytes(content)
    (work / "plain.bin").write_bytes(content[1:])
    after_a_tool(work)
    layout = Layout(str(work / ".locus"))
    assert stored_contents.store_all(REAL, layout, identity.read(REAL, layout)) == 1
    assert withheld(work) == {hash_of(SETTINGS): ["ignored"], to_text(blob_id(content)): ["ignored"]}


@pytest.mark.parametrize("commits", [False, True])
def test_a_deferred_database_that_git_tracks_elsewhere_is_not_withheld(work: Path, commits: bool) -> None:
    """P5: the same content is under a tracked path."""
    begun(work)
    content = b"".join(b"row %d\n" % number for number in range(200_000))
    (work / "app.db").write_bytes(content)
    (work / "seed.bin").write_bytes(content)
    if commits:
        git(work, "add", "seed.bin")
    after_a_tool(work)
    layout = Layout(str(work / ".locus"))
    stored_contents.store_all(REAL, layout, identity.read(REAL, layout))
    assert (to_text(blob_id(content)) in withheld(work)) is not commits


def test_a_transcript_lets_no_text_of_an_ignored_file_through(work: Path) -> None:
    """P5: an import leaves out what hooks would, and withholds the contents that it puts together."""
    teller = Teller(cwd=str(work))
    target = str(work / ".env")
    args = {"file_path": target, "content": SETTINGS}
    payload = {"type": "update", "filePath": target, "content": SETTINGS, "originalFile": f"OLD={CANARY}\n"}
    edit = {"file_path": target, "old_string": CANARY, "new_string": "red"}
    hunk = patch(1, f"-X={CANARY}", "+X=red")
    lines = [
        teller.user("go", promptId="p"),
        *teller.call("m1", "t1", "Write", args, "Updated", payload),
        *teller.call("m2", "t2", "Edit", edit, "Updated", {"filePath": target, "structuredPatch": hunk}),
        *teller.call("m3", "t3", "Bash", {"command": "cat .env"}, CANARY, {"stdout": CANARY}),
        *teller.call("m4", "t4", "Bash", {"command": "cat .env; false"}, CANARY, f"Error: {CANARY}"),
    ]
    (work.parent / "one.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Store.open(work / ".locus") as store:
        source = formats.source_of("claude-code", str(work.parent / "one.jsonl"))
        source.root = str(work)
        assert importer.run(store, "claude-code", [source]).problems == []
        texts = json.dumps(list(store.events()), default=str)
        contents = {hash for e in store.events(event_types=["file"]) for hash in e["blobs"] or ()}  # type: ignore[attr-defined]

    assert CANARY not in texts and texts.count("LEFT OUT") >= 4
    assert contents and contents <= set(withheld(work))


def test_a_transcript_shows_no_value_of_a_kept_file(work: Path) -> None:
    """P5: what a command of a transcript shows without naming such a file is found by the values in it."""
    (work / ".env").write_text(SETTINGS)
    after_a_tool(work)  # whose capture keeps the file
    teller = Teller(cwd=str(work))
    lines = [
        teller.user("go", promptId="p"),
        *teller.call(
            "m1", "t1", "Bash", {"command": "npm start"}, f"key {CANARY} ok", {"stdout": f"key {CANARY}"}
        ),
        *teller.call(
            "m2", "t2", "Bash", {"command": "npm stop"}, "nothing to see", {"stdout": "nothing to see"}
        ),
    ]
    (work.parent / "two.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Store.open(work / ".locus") as store:
        source = formats.source_of("claude-code", str(work.parent / "two.jsonl"))
        source.root = str(work)
        assert importer.run(store, "claude-code", [source]).problems == []
        texts = json.dumps([e for e in store.events() if e["event_type"] == "action"], default=str)

    assert CANARY not in texts and "LEFT OUT" in texts and "nothing to see" in texts


def test_a_transcript_withholds_no_content_that_git_tracks(work: Path) -> None:
    """P5: what a tool wrote into an ignored file is withheld, unless a tracked file holds the same."""
    (work / ".env.example").write_text("shared\n")
    git(work, "add", ".env.example")
    teller = Teller(cwd=str(work))
    target = str(work / ".env")
    lines = [teller.user("go", promptId="p")]
    for number, content in enumerate(("shared\n", "others\n")):
        args = {"file_path": target, "content": content}
        payload = {"type": "create", "filePath": target, "content": content, "originalFile": None}
        lines += teller.call(f"m{number}", f"t{number}", "Write", args, "Updated", payload)
    (work.parent / "one.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Store.open(work / ".locus") as store:
        source = formats.source_of("claude-code", str(work.parent / "one.jsonl"))
        source.root = str(work)
        assert importer.run(store, "claude-code", [source]).problems == []
    assert set(withheld(work)) == {hash_of("others\n")}
