"""The copies that Claude Code keeps of edited files: a second source of contents, and of no other file."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from eventlog.agents.kit.backups import SessionBackups
from tests.agents.claude_support import SESSION, Teller, patch
from tests.cli.support import Locus


@pytest.fixture
def work(shop: Path) -> Path:
    """A directory with a store, where the session ran whose transcript is in the agent's own place."""
    return shop


@pytest.fixture
def claude(tmp_path: Path) -> Path:
    return tmp_path / "home/.claude"


def snapshot(copies: "dict[str, str | None]", *, update: bool = True) -> dict[str, Any]:
    """The line that names copies; a file that there was not has none."""
    times = {"version": 1, "backupTime": "2026-11-20T10:00:01.000Z"}
    listed = {path: {"backupFileName": name, **times} for path, name in copies.items()}
    held = {"messageId": "m", "trackedFileBackups": listed, "timestamp": "2026-11-20T10:00:00.000Z"}
    return {"type": "file-history-snapshot", "messageId": "m", "snapshot": held, "isSnapshotUpdate": update}


def delta(path: str, name: "str | None") -> dict[str, Any]:
    """The same of newer versions, for one file."""
    payload = {"type": "file-history-delta", "messageId": "m", "snapshotMessageId": "m", "trackingPath": path}
    return {
        **payload,
        "backup": {"backupFileName": name, "version": 1, "backupTime": "2026-11-20T10:00:01.000Z"},
    }


def edit(teller: Teller, number: int, path: Path, old: str, new: str, **fields: Any) -> list[dict[str, Any]]:
    """An edit as versions tell it that leave the former content out."""
    args = {"file_path": str(path), "old_string": old, "new_string": new}
    hunk = patch(1, f"-{old}", f"+{new}")
    fields = {"filePath": str(path), "structuredPatch": hunk, "originalFile": None, **fields}
    return teller.call(f"m{number}", f"t{number}", "Edit", args, "Updated", fields)


def place(
    claude: Path, lines: list[dict[str, Any]], copies: dict[str, bytes], session: str = SESSION
) -> Path:
    """The transcript in the agent's own place, and the copies beside."""
    path = claude / "projects" / "-shop" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    kept = claude / "file-history" / SESSION
    kept.mkdir(parents=True)
    for name, content in copies.items():
        (kept / name).write_bytes(content)
    return path


def versions(locus: Locus) -> list[tuple[str, str, "bytes | None", "bytes | None"]]:
    """Path, operation and both contents of each file event."""
    sql = "select path, operation, before_hash, after_hash from files order by position"
    found = [tuple(row.values()) for row in json.loads(locus("sql", "--json", sql).text)]
    return [
        (path, operation, *(None if one is None else locus("cat", one).out for one in hashes))  # type: ignore[misc]
        for path, operation, *hashes in found
    ]


def events(locus: Locus, event_type: str) -> list[dict[str, Any]]:
    sql = f"select path, payload from events where event_type = '{event_type}' order by position"
    return [
        {**row, "payload": json.loads(row["payload"])} for row in json.loads(locus("sql", "--json", sql).text)
    ]


@pytest.mark.parametrize("whole", [True, False], ids=["snapshot", "delta"])
def test_a_copy_is_the_content_before_where_the_transcript_leaves_it_out(
    work: Path, claude: Path, locus: Locus, whole: bool
) -> None:
    """P7: in the repository and outside, with its line ends; a null says that there was no file."""
    outside = work.parent / "sync" / "push.go"
    teller = Teller(cwd=str(work))
    named = {"a.py": "aaaa@v1", str(outside): "bbbb@v1", "new.py": None}
    lines = [snapshot(named)] if whole else [delta(path, name) for path, name in named.items()]
    lines = [
        teller.user("dearer", promptId="p"),
        *lines,
        *edit(teller, 1, work / "a.py", "price = 1", "price = 2"),
        *edit(teller, 2, outside, "package sync", "package s"),
        *teller.call(
            "m3", "t3", "Write", {"file_path": str(work / "new.py"), "content": "x\n"}, "Written", {}
        ),
        *edit(teller, 4, work / "a.py", "price = 2", "price = 3"),
    ]
    place(claude, lines, {"aaaa@v1": b"price = 1\r\n", "bbbb@v1": b"package sync\n"})
    assert locus("import", "claude-code").code == 0

    (inside, out, new, again) = versions(locus)
    assert inside == ("a.py", "edit", b"price = 1\r\n", b"price = 2\r\n")
    assert out[1:] == ("edit", b"package sync\n", b"package s\n")
    assert new == ("new.py", "add", None, b"x\n")
    assert again[2:] == (b"price = 2\r\n", b"price = 3\r\n")
    assert events(locus, "mismatch") == []


def test_a_copy_shows_that_somebody_else_changed_a_file(work: Path, claude: Path, locus: Locus) -> None:
    """P7: a later copy that differs from what the chain predicted is a mismatch; an old one says nothing."""
    teller = Teller(cwd=str(work))
    lines = [
        teller.user("dearer", promptId="p"),
        snapshot({"a.py": "aaaa@v1"}),
        *edit(teller, 1, work / "a.py", "price = 1", "price = 2"),
        snapshot({"a.py": "aaaa@v1"}, update=False),
        *edit(teller, 2, work / "a.py", "price = 2", "price = 3"),
        snapshot({"a.py": "aaaa@v2"}, update=False),
        *edit(teller, 3, work / "a.py", "price = 3", "price = 4"),
    ]
    place(claude, lines, {"aaaa@v1": b"price = 1\n", "aaaa@v2": b"price = 3\n# sale\n"})
    assert locus("import", "claude-code").code == 0

    assert [one[2:] for one in versions(locus)] == [
        (b"price = 1\n", b"price = 2\n"), (b"price = 2\n", b"price = 3\n"),
        (b"price = 3\n# sale\n", b"price = 4\n# sale\n"),
    ]  # fmt: skip
    (mismatch,) = events(locus, "mismatch")
    assert mismatch == {"path": "a.py", "payload": {"evidence": "file-history"}}


def test_a_copy_that_the_edit_does_not_fit_is_not_believed(work: Path, claude: Path, locus: Locus) -> None:
    """P7: null rather than wrong, whatever the agent's directory holds."""
    teller = Teller(cwd=str(work))
    lines = [
        teller.user("dearer", promptId="p"),
        snapshot({"a.py": "aaaa@v1", "b.py": "bbbb@v1"}),
        *edit(teller, 1, work / "a.py", "price = 1", "price = 2"),
        *edit(teller, 2, work / "b.py", "cost = 1", "cost = 2", originalFile="cost = 1\n"),
    ]
    place(claude, lines, {"aaaa@v1": b"another file\n", "bbbb@v1": b"another file\n"})
    assert locus("import", "claude-code").code == 0
    assert [one[2:] for one in versions(locus)] == [(None, None), (b"cost = 1\n", b"cost = 2\n")]


def test_an_import_after_the_copies_are_gone_adds_nothing(work: Path, claude: Path, locus: Locus) -> None:
    """P3: ids of events hold no contents."""
    teller = Teller(cwd=str(work))
    first = [teller.user("dearer", promptId="p"), snapshot({"a.py": "aaaa@v1"})]
    first += edit(teller, 1, work / "a.py", "price = 1", "price = 2")
    path = place(claude, first, {"aaaa@v1": b"price = 1\n"})
    assert locus("import", "claude-code").code == 0
    counted = locus("sql", "--json", "select count(*) from events where event_type <> 'import'").text
    known = versions(locus)
    shutil.rmtree(claude / "file-history")
    assert locus("import", "claude-code", path.rename(path.with_name("moved.jsonl"))).code == 0
    assert locus("sql", "--json", "select count(*) from events where event_type <> 'import'").text == counted
    assert versions(locus) == known


@pytest.mark.parametrize("beside", [True, False])
def test_copies_are_searched_beside_the_projects_directory_alone(
    work: Path, tmp_path: Path, locus: Locus, beside: bool
) -> None:
    """A named file has copies where its own place has them, and those of another place are not taken."""
    teller = Teller(cwd=str(work))
    lines = [teller.user("dearer", promptId="p"), snapshot({"a.py": "aaaa@v1"})]
    lines += edit(teller, 1, work / "a.py", "price = 1", "price = 2")
    path = place(tmp_path / "brought", lines, {"aaaa@v1": b"price = 1\n"})
    if not beside:  # as deep, and not below a directory of that name
        path = path.parent.parent.rename(tmp_path / "brought" / "others") / "-shop" / path.name
    assert locus("import", "claude-code", path).code == 0
    assert versions(locus)[0][2] == (b"price = 1\n" if beside else None)


def test_a_copy_that_is_named_before_the_directory_is_known(work: Path, tmp_path: Path, locus: Locus) -> None:
    """The root of a session is where it ran, also when its first lines say of copies and not yet where."""
    elsewhere = tmp_path / "elsewhere"
    teller = Teller(cwd=str(elsewhere))
    lines = [{"type": "mode", "sessionId": SESSION, "mode": "normal"}, snapshot({"a.py": "aaaa@v1"})]
    lines.append(teller.user("dearer", promptId="p"))
    lines += edit(teller, 1, elsewhere / "a.py", "price = 1", "price = 2")
    path = place(tmp_path / "brought", lines, {"aaaa@v1": b"price = 1\n"})
    assert locus("import", "claude-code", path).code == 0
    assert versions(locus) == [("a.py", "edit", b"price = 1\n", b"price = 2\n")]


def test_a_name_that_leads_elsewhere_reads_nothing(
    work: Path, claude: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path, a link, no plain file, too large: whatever a transcript names so, nothing of it is read."""
    monkeypatch.setattr("eventlog.agents.kit.backups._SIZE_MAX", 100)
    key = claude.parent / ".ssh" / "id_rsa"
    key.parent.mkdir(parents=True)
    key.write_bytes(b"price = 1\n")
    hostile = ["../../../.ssh/id_rsa", str(key), "..", ".", "", "a/b", "link", "pipe", "folder", "large"]
    hostile += ["a\0b", "dots.py"]
    teller = Teller(cwd=str(work))
    lines = [teller.user("dearer", promptId="p")]
    lines.append(snapshot({f"{number}.py": name for number, name in enumerate([*hostile, "own"])}))
    for number in range(len(hostile) + 1):
        lines += edit(teller, number, work / f"{number}.py", "price = 1", "price = 2")
    place(claude, lines, {"large": b"price = 1\n" * 20, "dots.py": b"price = 1\n", "own": b"price = 1\n"})
    kept = claude / "file-history" / SESSION
    (kept / "a").mkdir()
    for name in ("a/b", "folder/x"):
        (kept / name).parent.mkdir(exist_ok=True)
        (kept / name).write_bytes(b"price = 1\n")
    (kept / "link").symlink_to(key)
    os.mkfifo(kept / "pipe")
    assert locus("import", "claude-code").code == 0
    *refused, own = versions(locus)
    assert [one[2:] for one in refused] == [(None, None)] * len(hostile)
    assert own[2:] == (b"price = 1\n", b"price = 2\n")


@pytest.mark.parametrize("session", ["../../.ssh", "..", ".", "", "/etc", "a/b", "linked"])
def test_a_session_that_leads_elsewhere_reads_nothing(tmp_path: Path, session: str) -> None:
    """The directory is that of the agent's own copies, its sessions are plain names in it, and no links."""
    kept, elsewhere = tmp_path / "claude" / "file-history", tmp_path / ".ssh"
    (kept / "a" / "b").mkdir(parents=True)
    elsewhere.mkdir()
    for directory in (elsewhere, kept, kept / "a" / "b", kept.parent):
        (directory / "aaaa").write_bytes(b"secret")
    (kept / "linked").symlink_to(elsewhere)
    assert SessionBackups(str(kept), [session])("aaaa") is None
    (kept / "own").mkdir()
    (kept / "own" / "aaaa").write_bytes(b"content")
    assert SessionBackups(str(kept), [session, None, "own"])("aaaa") == b"content"
    (tmp_path / "link").symlink_to(kept)
    assert SessionBackups(str(tmp_path / "link"), ["own"])("aaaa") is None
