"""What a search for transcripts passes over is reported, with the reason and exit code 4 (P7)."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eventlog import agents
from eventlog.agents import formats
from eventlog.agents.kit import lines
from eventlog.base.errors import NotFound
from eventlog.importers import sources
from eventlog.store import Store
from tests.agents.claude_support import Teller
from tests.cli.support import locus_process
from tests.cli.test_surroundings import bound_by_permissions
from tests.importers.test_bad_input import ANSWER, PROMPT, encoded

TALK = PROMPT + ANSWER
OPENHANDS = [{"id": 0, "timestamp": "2026-11-20T10:00:00", "source": "user", "action": "message", "args": {}}]

# Name of a file below the directory → its content, and a part of the reason.
ODD: dict[str, tuple[bytes, str]] = {
    "utf16.jsonl": (TALK.decode().encode("utf-16"), "UTF-16"),
    "gzip.jsonl": (gzip.compress(TALK), "compressed with gzip"),
    "packed.jsonl.gz": (gzip.compress(TALK), "is compressed"),
    "zstd.jsonl": (b"\x28\xb5\x2f\xfd" + bytes(99), "compressed with zstd"),
    "binary.jsonl": (bytes(range(256)), "something binary"),
    "text.jsonl": (b"# Notes\n", "no lines of JSON"),
    "half.jsonl": (b'{"type":"user","uu', "no whole line"),
    "other.jsonl": (b'{"a":1}\n', "no transcript of claude-code"),
    "rollout.jsonl": (encoded({"type": "session_meta", "payload": {"id": "x"}}), "`locus import codex`"),
    "droid.jsonl": (
        encoded({"type": "session_start", "id": "x", "title": "t"}),
        "Factory Droid: there is no",
    ),
    "amp.jsonl": (encoded({"id": "T-1", "messages": []}), "Amp: there is no importer"),
    "windsurf.jsonl": (
        encoded({"type": "user_input", "status": "done", "user_input": {"user_response": "hello"}}),
        "Windsurf: there is no importer",
    ),
    "goose.jsonl": (encoded({"working_dir": "/a", "message_count": 1}), "Goose: there is no importer"),
    "pretty.jsonl": (json.dumps(OPENHANDS, indent=2).encode(), "OpenHands: there is no importer"),
    ".aider.chat.history.md": (b"# aider chat started\n", "Aider: there is no importer"),
}
# What is not this importer's business.
NOISE = {
    "README.md": b"# Hello\n",
    ".DS_Store": b"\0\0",
    "settings.json": b"{}",
    "empty.jsonl": b"",
    "blank.jsonl": b"\n",
}


def filled(directory: Path, files: "dict[str, bytes]") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return directory


def bound(*arguments: object, cwd: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """`locus` as a process that permission bits bind."""
    command = [*bound_by_permissions(), sys.executable, "-m", "locus_cli", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


def test_what_a_named_directory_holds_and_cannot_be_imported_is_named(tmp_path: Path) -> None:
    """P7: each odd file with its reason and exit code 4; the good session is recorded; noise stays unsaid."""
    kept = filled(tmp_path / "kept", {name: data for name, (data, _) in ODD.items()} | NOISE)
    filled(kept / "deep", {"good.jsonl": TALK, "copy.jsonl": TALK})
    os.mkfifo(kept / "pipe.jsonl")
    outside = filled(tmp_path / "outside", {"one.jsonl": TALK})
    (kept / "away.jsonl").symlink_to(outside / "one.jsonl")
    (kept / "elsewhere").symlink_to(outside)
    (kept / "inside.jsonl").symlink_to(kept / "deep/good.jsonl")
    (kept / "loop").symlink_to(kept)
    expected = {name: reason for name, (_, reason) in ODD.items()}
    expected |= {"pipe.jsonl": "no plain file", "away.jsonl": "link", "elsewhere": "link"}
    assert locus_process("init", cwd=tmp_path).code == 0

    ended = locus_process("import", "claude-code", "--json", kept, cwd=tmp_path)

    report = json.loads(ended.out)["import"]
    assert ended.code == 4
    assert report["sessions"] == 1  # in two files
    payload = {os.path.relpath(one["path"], kept): one["reason"] for one in report["passed"]}
    assert payload.keys() == expected.keys()
    assert all(reason in payload[name] for name, reason in expected.items()), payload
    assert all(one["failed"] for one in report["passed"])


def test_a_name_that_is_no_text_can_be_reported(tmp_path: Path) -> None:
    """P7: bytes that are no UTF-8 and signs that move a cursor, in words and in JSON."""
    kept = filled(tmp_path / "kept", {"good.jsonl": TALK})
    Path(os.fsdecode(os.fsencode(kept) + b"/\xff\x1b[31m.jsonl")).write_bytes(ODD["utf16.jsonl"][0])
    assert locus_process("init", cwd=tmp_path).code == 0

    as_json = locus_process("import", "claude-code", "--json", "kept", cwd=tmp_path)
    words = locus_process("import", "claude-code", "kept", cwd=tmp_path)

    (one,) = json.loads(as_json.out)["import"]["passed"]
    assert (as_json.code, one["path"]) == (4, f"{kept}/\\udcff\x1b[31m.jsonl")
    assert words.code == 4 and "\x1b" not in words.err and "UTF-16" in words.err


def test_a_reason_that_many_files_share_is_one_line(tmp_path: Path) -> None:
    """P7: the first paths and how many more; the last line says what was recorded."""
    files = {f"{number}.jsonl": gzip.compress(TALK) for number in range(9)}
    filled(tmp_path / "kept", {**files, "good.jsonl": TALK})
    assert locus_process("init", cwd=tmp_path).code == 0

    ended = locus_process("import", "claude-code", "kept", cwd=tmp_path)

    listed = [line for line in ended.err.splitlines() if "not imported" in line]
    assert ended.code == 4
    assert len(listed) == 1 and "0.jsonl" in listed[0] and " and 6 more: " in listed[0]
    assert "Recorded 1 session with" in ended.err


def test_a_directory_with_nothing_but_odd_files_says_why(tmp_path: Path) -> None:
    """P7: not that there is nothing, but what there is; a directory of noise alone is an error."""
    filled(tmp_path / "odd", {"one.jsonl": ODD["utf16.jsonl"][0]})
    filled(tmp_path / "noise", NOISE)
    assert locus_process("init", cwd=tmp_path).code == 0

    odd = locus_process("import", "claude-code", "odd", cwd=tmp_path)
    noise = locus_process("import", "claude-code", "noise", cwd=tmp_path)

    assert (odd.code, "UTF-16" in odd.err, "No transcripts" in odd.err) == (4, True, False)
    assert (noise.code, "no file in it looks like" in noise.err) == (1, True)


def test_what_may_not_be_read_is_named_wherever_the_search_comes_to_it(tmp_path: Path) -> None:
    """P7: an unreadable file and directory, below a named directory and where the agent keeps its own."""
    work = filled(tmp_path / "work", {})
    teller = Teller(cwd=str(work))
    talk = encoded(teller.user("add a price", promptId="p"))
    place = filled(tmp_path / "home/.claude/projects/work", {"good.jsonl": talk, "shut.jsonl": talk})
    (place / "shut.jsonl").chmod(0)
    filled(place / "closed", {"one.jsonl": talk}).chmod(0)
    environment = {"HOME": str(tmp_path / "home")}
    environment["CLAUDE_CONFIG_DIR"] = str(tmp_path / "home/.claude")
    assert bound("init", cwd=work, **environment).returncode == 0
    try:
        by_default = bound("import", "claude-code", "--json", cwd=work, **environment)
        named = bound("import", "claude-code", "--json", place, cwd=work, **environment)
    finally:
        (place / "closed").chmod(0o700)

    for ended in (by_default, named):
        assert ended.returncode == 4, ended.stderr
        passed = json.loads(ended.stdout)["import"]["passed"]
        assert {os.path.basename(one["path"]) for one in passed} == {"shut.jsonl", "closed"}
        assert {one["reason"] for one in passed} == {"cannot be read: Permission denied"}
    assert json.loads(by_default.stdout)["import"]["sessions"] == 1


def test_the_agents_own_place_is_searched_as_strictly(tmp_path: Path) -> None:
    """P7: sessions of other directories stay unsaid there; what cannot be recognised as one is named."""
    home = str(tmp_path)
    own = encoded(Teller(cwd=home).user("add a price", promptId="p"))
    other = encoded(Teller(cwd="/elsewhere", name="o").user("add a tax", promptId="q"))
    odd = {name: ODD[name][0] for name in ("utf16.jsonl", "gzip.jsonl", "rollout.jsonl", "other.jsonl")}
    place = filled(
        tmp_path / ".claude/projects/a", {"own.jsonl": own, "other-place.jsonl": other, **odd, **NOISE}
    )
    passed: list[sources.Passed] = []

    found = sources.of_agent("claude-code", home, {"HOME": home}, passed=passed)

    assert [source.path for source in found] == [str(place / "own.jsonl")]
    assert {os.path.basename(one.path) for one in passed} == odd.keys()
    everything = sources.of_agent("claude-code", home, {"HOME": home}, all_projects=True)
    assert {os.path.basename(one.path) for one in everything} == {"own.jsonl", "other-place.jsonl"}


@pytest.mark.parametrize("agent", [spec.name for spec in agents.importable()])
def test_every_importer_names_what_it_cannot_read(tmp_path: Path, agent: str) -> None:
    """P7: of each agent a file with the right name in the wrong encoding, and one of another agent."""
    suffix = formats.suffixes_of(agent)[0]
    other = {"type": "session_start", "id": "x", "cwd": "/a"}
    files = {f"wide{suffix}": '{"a": 1}\n'.encode("utf-16"), f"other{suffix}": encoded(other)}
    passed: list[sources.Passed] = []

    found = sources.named(agent, [str(filled(tmp_path / "kept", files))], passed=passed)

    reasons = {os.path.basename(one.path): one.reason for one in passed if one.failed}
    assert found == []
    assert "UTF-16" in reasons[f"wide{suffix}"]
    assert "Factory Droid" in reasons[f"other{suffix}"]


def test_what_an_agent_keeps_besides_its_sessions_is_no_failure(tmp_path: Path) -> None:
    """Lines of another kind where the place of a file says that it is no session."""
    place = filled(tmp_path / ".claude/projects/a", {"s.jsonl": TALK})
    filled(place / "s/subagents/work", {"journal.jsonl": encoded({"type": "started"})})
    passed: list[sources.Passed] = []

    assert len(sources.named("claude-code", [str(place)], passed=passed)) == 1
    assert [(os.path.basename(one.path), one.failed) for one in passed] == [("journal.jsonl", False)]
    sources.of_agent("claude-code", "/", {"HOME": str(tmp_path)}, passed=(own := []))
    assert own == []


def test_json_of_another_kind_is_reported_and_no_failure(tmp_path: Path) -> None:
    """Where an agent's files are called `.json`, a `package.json` beside them is no loss."""
    chat = encoded({"sessionId": "s", "projectHash": "h", "messages": []})
    kept = filled(
        tmp_path / "kept", {"session.json": chat, "package.json": b'{"name": "shop"}', "list.json": b"[1]"}
    )
    passed: list[sources.Passed] = []

    assert len(sources.named("gemini-cli", [str(kept)], passed=passed)) == 1
    assert {(os.path.basename(one.path), one.failed) for one in passed} == {
        ("package.json", False), ("list.json", False),
    }  # fmt: skip


def test_older_files_are_left_out_of_the_answer(tmp_path: Path) -> None:
    """`--since` is about all files, odd ones too; without any the directory has none."""
    kept = filled(tmp_path / "kept", {"wide.jsonl": ODD["utf16.jsonl"][0], "good.jsonl": TALK})
    os.utime(kept / "wide.jsonl", (1, 1))
    passed: list[sources.Passed] = []

    assert len(sources.named("claude-code", [str(kept)], since_s=1e9, passed=passed)) == 1
    assert passed == []


def test_a_file_that_goes_while_it_is_searched_is_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A race with an agent that clears up says nothing."""
    kept = filled(tmp_path / "kept", {"gone.jsonl": TALK, "good.jsonl": TALK})
    true = lines.opened

    def opened(path: str) -> Any:
        Path(path).unlink() if path.endswith("gone.jsonl") and os.path.exists(path) else None
        return true(path)

    monkeypatch.setattr(lines, "opened", opened)
    passed: list[sources.Passed] = []
    assert len(sources.named("claude-code", [str(kept)], passed=passed)) == 1
    assert passed == []


def test_a_session_that_begins_with_a_long_line_is_found(tmp_path: Path) -> None:
    """P7: a prompt with an image of megabytes is a first line like any other."""
    prompt = Teller().user([{"type": "image", "data": "a" * (3 << 20)}], promptId="p")
    kept = filled(tmp_path / "kept", {"long.jsonl": encoded(prompt) + ANSWER})
    assert len(sources.named("claude-code", [str(kept)])) == 1


def test_a_document_that_is_too_large_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P7: not read line by line as if it were lines, but refused with its size."""
    monkeypatch.setattr(lines, "DOCUMENT_BYTES_MAX", 1 << 20)
    chat = {"sessionId": "s", "projectHash": "h", "messages": ["a" * (2 << 20)]}
    kept = filled(tmp_path / "kept", {"large.json": json.dumps(chat, indent=1).encode()})
    passed: list[sources.Passed] = []

    assert sources.named("gemini-cli", [str(kept)], passed=passed) == []
    assert [one.reason for one in passed] == ["is one JSON document above 1 MiB"]
    with pytest.raises(NotFound):
        sources.named("gemini-cli", [str(filled(tmp_path / "noise", NOISE))])


def test_a_file_of_an_agent_without_importer_is_named_as_its(tmp_path: Path) -> None:
    """P7: also when the file itself is named."""
    kept = filled(tmp_path / "kept", {name: data for name, (data, _) in ODD.items()})
    with Store.init(tmp_path / ".locus"):
        pass
    names = ("droid.jsonl", "pretty.jsonl", ".aider.chat.history.md")

    ended = locus_process("import", "claude-code", *(kept / name for name in names), cwd=tmp_path)

    assert ended.code == 4
    for agent in ("Factory Droid", "OpenHands", "Aider"):
        assert f"looks like one of {agent}: there is no importer for it" in ended.err
