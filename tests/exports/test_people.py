"""Who works here, and who wrote commits: in the log, and in what leaves only as a setting says."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventlog.base import person
from eventlog.base.config import PEOPLE
from eventlog.base.fs import REAL
from eventlog.mcp.call import ToolCall
from eventlog.mcp.tools import tools_for
from eventlog.query.people import allowed
from eventlog.store import Store
from locus_cli.main import run
from tests import forked
from tests.cli.support import GIT_ENVIRONMENT
from tests.conftest import examples

NAME, EMAIL, HOST = "Canary Personname", "canary.address@example.org", "canary-hostname"
AUTHOR, AUTHOR_EMAIL = "Canary Authorname", "canary.author@example.org"
REVIEWER, HOME_NAME = "Canary Reviewername", "canaryhomename"
TOKEN = "gh" + "p_" + "4bC9xK2mQ7rT1vW8zL3nP6sD5fG0hJ2kY4aE"  # the name of a file, without its end
PLANTED = tuple(word.encode() for word in (NAME, EMAIL, HOST, AUTHOR, AUTHOR_EMAIL, REVIEWER, HOME_NAME))
TOOLS = {tool.name: tool for tool in tools_for("claude-code")}
_OF_FILES = {"jsonl": "--to", "locusgraph": "--to", "atif": "--to", "otlp": "--to", "agent-trace": "--to"}


def hook(root: Path, name: str, **fields: Any) -> None:
    """A hook of Claude Code as a process, in the environment of this one."""
    payload = {"session_id": "s1", "cwd": str(root), "hook_event_name": name, **fields}
    assert forked.hook(json.dumps(payload).encode(), "claude-code", root, os.environ).returncode == 0


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of one commit and one session of an agent, with the people that git's configuration names."""
    base = tmp_path_factory.mktemp("people")
    root = base / "work"
    root.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in GIT_ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.setenv("GIT_AUTHOR_NAME", AUTHOR)
        patch.setenv("GIT_AUTHOR_EMAIL", AUTHOR_EMAIL)
        patch.setenv("HOME", str(base / "home"))
        patch.delenv("XDG_DATA_HOME", raising=False)
        patch.chdir(root)
        git(root, "init", "-q")
        git(root, "config", "user.name", NAME)
        git(root, "config", "user.email", EMAIL)
        (root / "a.txt").write_text("one\n")
        git(root, "add", ".")
        git(root, "commit", "-qm", f"Add a\n\nReviewed-by: {REVIEWER} <{EMAIL}>\nSigned-off-by: {NAME}")
        assert run(["init"]) == 0
        assert run(["person", "--host", HOST]) == 0
        assert run(["import", "git"]) == 0
        hook(root, "SessionStart", source="startup")
        hook(root, "UserPromptSubmit", prompt_id="p1", prompt="Write b")
        call = {
            "tool_name": "Write",
            "tool_use_id": "toolu_1ab2c",
            "tool_input": {"file_path": f"{root}/b.txt", "from": f"/home/{HOME_NAME}/b.txt"},
        }
        hook(root, "PreToolUse", prompt_id="p1", **call)
        (root / "b.txt").write_text("two\n")
        (root / f"{TOKEN}.txt").write_text("three\n")
        hook(root, "PostToolUse", prompt_id="p1", tool_response={"filePath": f"{root}/b.txt"}, **call)
        hook(root, "Stop", prompt_id="p1")
        assert run(["search", "write"]) == 0
    return root


def test_a_files_name_stays_in_the_log(recorded: Path, tmp_path: Path) -> None:
    """P1: what is recorded and replayed has the name of the file as it is."""
    assert ask(recorded, f"select distinct operation from files where path = '{TOKEN}.txt'") == [("add",)]
    assert run(["--store", str(recorded / ".locus"), "replay", "last", "--to", str(tmp_path / "made")]) == 0
    assert (tmp_path / "made" / f"{TOKEN}.txt").read_text() == "three\n"


def ask(root: Path, sql: str) -> list[tuple[Any, ...]]:
    with Store.open(root / ".locus") as store:
        return store.query(sql).rows


def set_people(root: Path, word: str | None) -> None:
    (root / ".locus/config.toml").write_text("" if word is None else f'[export]\npeople = "{word}"\n')


def test_a_session_says_who_works_and_where(recorded: Path) -> None:
    """P2: the first event of a session has it, all others by the fold; of commits it is the author."""
    of_agent = ask(recorded, "select distinct person, host from events where agent = 'claude-code'")
    of_git = ask(recorded, "select distinct person, host from turns where agent = 'git'")

    assert of_agent == [(f"{NAME} <{EMAIL}>", HOST)]
    assert of_git == [(f"{AUTHOR} <{AUTHOR_EMAIL}>", None)]
    assert ask(recorded, "select agent, person, host from sessions order by 1") == [
        ("claude-code", f"{NAME} <{EMAIL}>", HOST),
        ("git", None, None),
    ]
    reported = ask(recorded, "select count(*) from events where contains(payload, 'canary-hostname')")
    assert reported == [(1,)]


def exported(root: Path, made: Path) -> dict[str, bytes]:
    """Whatever every export writes of the store, by its name."""
    made.mkdir()
    shutil.copytree(root / ".locus", made / "store")  # an export notes what it sent
    written = {}
    here = ["--store", str(made / "store"), "export"]
    for name, option in _OF_FILES.items():
        contents = ["--contents"] if name in ("jsonl", "otlp") else []
        assert run([*here, name, option, str(made / name), *contents]) in (0, 4)
        written[name] = (made / name).read_bytes()
    assert run([*here, "parquet", str(made / "files")]) == 0
    assert run([*here, "duckdb", str(made / "made.duckdb")]) == 0
    assert run(["--store", str(root / ".locus"), "report", "--html", str(made / "page.html")]) == 0
    written["report"] = (made / "page.html").read_bytes()
    with duckdb.connect() as con:
        for file in sorted((made / "files").iterdir()):
            written[file.name] = repr(
                con.sql(f"select columns(*)::varchar from '{file}'").fetchall()
            ).encode()
    with duckdb.connect(str(made / "made.duckdb"), read_only=True) as con:
        for (name,) in con.execute("select table_name from information_schema.tables").fetchall():
            found = con.sql(f'select columns(*)::varchar from "{name}"').fetchall()
            written[f"duckdb {name}"] = repr(found).encode()
    written["bytes of the file of DuckDB"] = (made / "made.duckdb").read_bytes()
    return written


def tools(root: Path) -> dict[str, bytes]:
    """What every tool of `locus mcp` that reads answers, asked for all it has."""
    events = ask(root, "select event_id from events where event_type in ('session', 'intent')")
    sessions = ask(root, "select session_id from sessions")
    turns = ask(root, "select session_id || '_' || turn_id from turns")
    names = [name for (name,) in [*events, *sessions, *turns]]
    calls: list[tuple[str, dict[str, Any]]] = [("show", {"name": name}) for name in names]
    calls += [("timeline", {"turn": name}) for (name,) in turns]
    calls += [("diff", {"turn": name}) for (name,) in turns]
    calls += [("undo_plan", {"turn": name}) for (name,) in turns[-1:]]
    calls += [(tool, {}) for tool in ("list_sessions", "who", "briefing", "decisions")]
    calls += [("list_sessions", {"active_only": False}), ("file_at", {"turn": turns[-1][0], "path": "b.txt"})]
    calls += [("search", {"words": words}) for words in ("write", "canary", "add", "example")]
    calls += [("context", {"message": words}) for words in ("write a canary", "add an example")]
    calls += [("sql", {"query": f"select * from {view}"}) for view in ("events", "sessions", "turns")]
    calls += [
        ("sql", {"query": "select payload from main.events"}),
        ("sql", {"query": "select person, host, count(*) from events group by all"}),
        ("sql", {"query": "select e from events as e"}),
    ]
    asked = {tool for tool, _ in calls}
    assert asked >= {name for name, tool in TOOLS.items() if not tool.writes} - {"context_bundle"}
    return {
        f"{tool} {given}": ToolCall.of(TOOLS[tool], given).answer(str(root / ".locus"))["text"].encode()
        for tool, given in calls
    }


@pytest.mark.parametrize("leaving", [exported, tools])
@pytest.mark.parametrize("word", [None, *PEOPLE])
def test_people_leave_only_as_a_setting_says(
    recorded: Path, tmp_path: Path, word: str | None, leaving: "Callable[..., dict[str, bytes]]"
) -> None:
    """P5: no export and no tool of `locus mcp` names a person, an address or a host unless `people` is full;
    digests stand for them where it says digest. Whatever it says, no secret leaves in the name of a file."""
    set_people(recorded, word)
    try:
        written = leaving(recorded, tmp_path / "made") if leaving is exported else leaving(recorded)
    finally:
        set_people(recorded, None)
    named = {name for name, data in written.items() if any(word in data for word in PLANTED)}
    digested = {name for name, data in written.items() if b"person:" in data}
    assert [name for name, data in written.items() if TOKEN.encode() in data] == []
    marked = {name for name, data in written.items() if b"[REDACTED:github-token:" in data}
    assert marked >= ({"jsonl", "locusgraph", "atif"} if leaving is exported else set())

    if word == "full":
        assert len(named) >= 4 and not digested
    else:
        assert named == set()
        assert bool(digested) == (word == "digest")


def test_jsonl_has_people_when_asked(recorded: Path, tmp_path: Path) -> None:
    """`export jsonl --people full` holds what the log holds, and an import of it says the same."""
    out = tmp_path / "log.jsonl"
    here = ["--store", str(recorded / ".locus"), "export", "jsonl", "--to", str(out), "--people", "full"]
    assert run(here) == 0
    assert all(word in out.read_bytes() for word in PLANTED)
    other = tmp_path / "other"
    other.mkdir()
    assert run(["--store", str(other / ".locus"), "init"]) == 0
    assert run(["--store", str(other / ".locus"), "import", "jsonl", str(out)]) == 0
    people = "select distinct person, host from events where person is not null order by all"
    assert ask(other, people) == ask(recorded, people)


@settings(
    max_examples=examples(8, 200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    payloads=st.lists(
        st.dictionaries(
            st.sampled_from(["person", "host", "author", "committer", "title"]),
            st.one_of(
                st.just("needle"),
                st.just({"name": "needle", "email": "needle@example.org"}),
                st.just({"email": ["needle"]}),
                st.just(["needle"]),
            ),
        ),
        min_size=1,
        max_size=4,
    ),
    digest=st.booleans(),
    git_intents=st.booleans(),
)
def test_no_question_of_a_stranger_sees_a_name(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[dict[str, Any]], digest: bool, git_intents: bool
) -> None:
    """P5: of payloads of any shape what leaves has no value of the keys that name people, sealed or not."""
    with Store.init(tmp_path_factory.mktemp("any") / ".locus", force=True) as store:
        kind = {"event_type": "intent", "agent": "git"} if git_intents else {"event_type": "session"}
        for number, payload in enumerate(payloads):
            fields = {key: value for key, value in payload.items() if key != "title"}
            store.append([{**kind, "session_id": "session1", "turn": 1, "payload": {"n": number, **fields}}])
        store.people = allowed(store.fs, store.layout, "digest" if digest else "no")
        for _ in range(2):
            for view in ("events", "sessions", "turns"):
                assert "needle" not in repr(store.query(f"select * from {view}").rows)
            store.seal()


def test_the_same_person_has_the_same_digest(recorded: Path) -> None:
    """Digests group as names do, and differ from store to store."""
    with Store.open(recorded / ".locus") as store:
        by_name = store.query("select count(*) from events group by person order by all").rows
        store.people = allowed(store.fs, store.layout, "digest")
        by_digest = store.query("select count(*) from events group by person order by all").rows
        found = store.query("select distinct person from events where person is not null").rows
    assert by_name == by_digest
    assert all(one.startswith("person:") and len(one) == 23 for (one,) in found)


def test_a_note_is_of_one_user_one_store_one_machine(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: another user of the same files, and another machine with the same home, are unknown."""
    store_id = b"\1" * 16
    ours = {"HOME": str(tmp_path / "home")}
    assert person.write(
        REAL, ours, store_id, person.Person("A U Thor", "a@example.org", {person.machine(): "here"})
    )

    assert person.start_fields(REAL, ours, store_id) == {
        "person": {"name": "A U Thor", "email": "a@example.org"},
        "host": "here",
    }
    assert person.start_fields(REAL, ours, b"\2" * 16) == {}
    assert person.start_fields(REAL, {"HOME": str(tmp_path / "other")}, store_id) == {}
    monkeypatch.setattr(person, "machine", lambda: "another")
    assert person.start_fields(REAL, ours, store_id) == {
        "person": {"name": "A U Thor", "email": "a@example.org"}
    }


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"[" * 40_000, b'{"name": 1, "hosts": []}', b"\xff"])
def test_a_note_that_cannot_be_read_says_nothing(tmp_path: Path, data: bytes) -> None:
    """P4: a hook goes on without it."""
    path = person.path_of({"HOME": str(tmp_path)}, b"\1" * 16)
    assert path is not None
    os.makedirs(os.path.dirname(path))
    Path(path).write_bytes(data)

    assert person.start_fields(REAL, {"HOME": str(tmp_path)}, b"\1" * 16) == {}
