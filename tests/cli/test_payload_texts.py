"""Texts of files in tool calls: references in events, put back for readers, gone with their path."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventlog.blobs.ids import blob_id, to_text
from eventlog.hooks.texts import move, void
from eventlog.importers.reused_ids import with_hashes
from eventlog.mcp.call import ToolCall
from eventlog.mcp.tools import tools_for
from eventlog.store import Store
from tests.agents.claude_support import Teller, write
from tests.cli.hook_support import Agent, Codex, events, notes, project
from tests.cli.support import Locus

SMALL = "key = 'canary-9931'\n"
LARGER = "".join(f"line {number} of the page\n" for number in range(20))


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = project(tmp_path)
    monkeypatch.chdir(work)
    return work


def reads(agent: Agent, path: str, text: str) -> None:
    """The agent reads a file, and is shown `text`."""
    args = {"file_path": str(agent.work / path)}
    shown = {"type": "text", "file": {"filePath": args["file_path"], "content": text, "startLine": 1}}
    agent.end(agent.begin("Read", args), "Read", args, shown)


def entries(event: dict[str, Any]) -> dict[str, tuple[str, int]]:
    moved = event["payload"].get("in_blobs", {})
    return {place: (one["blob"], one["size"]) for place, one in moved.items()}


def reference(text: str, stored: str | None = None) -> tuple[str, int]:
    return to_text(blob_id((text if stored is None else stored).encode())), len(text.encode())


def log_bytes(work: Path) -> bytes:
    return b"".join(path.read_bytes() for path in (work / ".locus/log").rglob("*") if path.is_file())


def test_what_a_tool_writes_and_reads_is_a_reference(work: Path) -> None:
    """S1-39: the text that a tool writes into a file, and that of a file it shows, are in no event, however
    short; what is no file's text stays."""
    agent = Agent(work)
    agent.prompt("Write it")
    agent.write("src/page.py", SMALL)
    reads(agent, "src/page.py", SMALL)
    reads(agent, "src/page.py", SMALL[:-1])  # agents leave the last line end away
    reads(agent, "src/page.py", "    1\tkey = ")
    agent.write("larger.txt", LARGER)
    agent.bash("cat larger.txt")
    agent.bash("echo short")

    assert b"canary-9931" not in log_bytes(work)
    assert LARGER.splitlines()[7].encode() not in log_bytes(work)
    start, *_ = events(work, "tool_start")
    wrote, read, read_less, part, _, printed, short = events(work, "action")
    assert entries(start) == {"args.content": reference(SMALL)}
    assert entries(wrote) == {"args.content": reference(SMALL), "result.content": reference(SMALL)}
    assert entries(read) == {"result.file.content": reference(SMALL)}
    assert entries(read_less) == {"result.file.content": reference(SMALL[:-1], SMALL)}
    assert entries(part) == {}
    assert part["payload"]["result"]["file"]["content"] == "    1\tkey = "
    assert entries(printed) == {"result.stdout": reference(LARGER)}
    assert short["payload"]["result"]["stdout"] == "short\n"
    assert wrote["payload"]["args"]["content"] == ""
    assert [e["path"] for e in events(work, "tool_start")[:5]] == ["src/page.py"] * 4 + ["larger.txt"]
    assert (wrote["path"], printed["path"]) == ("src/page.py", None)
    assert notes(work) == ""
    with Store.open(work / ".locus") as store:
        assert store.verify("deep") == []


def test_an_import_refers_to_texts_as_hooks_do(work: Path, locus: Locus) -> None:
    """S1-39, I8: of imported calls no event holds a file's text; what a second session of the same ids says
    is compared by hashes, so that a copy in a log with the texts inline is known again."""
    payload = {"type": "text", "file": {"filePath": f"{work}/a.py", "content": SMALL[:-1], "startLine": 1}}
    teller = Teller(cwd=str(work))
    lines = [
        teller.user("Write it"),
        *teller.call("m1", "toolu_01", "Write", {"file_path": f"{work}/a.py", "content": SMALL}, "Done.",
                     {"type": "create", "filePath": f"{work}/a.py", "content": SMALL}),
        *teller.call("m2", "toolu_02", "Read", {"file_path": f"{work}/a.py"}, "1\tkey", payload),
    ]  # fmt: skip
    given = write(work.parent / "one.jsonl", lines)
    locus("import", "claude-code", given)
    wrote, read = events(work, "action")
    assert entries(wrote)["args.content"] == reference(SMALL)
    assert reference(SMALL[:-1], SMALL) in entries(read).values()
    assert (wrote["path"], read["path"]) == ("a.py", "a.py")
    assert b"canary-9931" not in log_bytes(work)
    assert locus("import", "claude-code", given, "--json").code == 0
    assert len(events(work, "action")) == 2

    payload = {"args": {"file_path": "a", "content": SMALL}, "result": {"lines": [1, LARGER]}}
    moved = move({"event_type": "action", "payload": payload}, void, suspect=False, has=lambda _: True)
    assert moved["payload"] != payload
    assert with_hashes(dict(moved["payload"])) == with_hashes(payload)  # type: ignore[call-overload]


def test_readers_give_the_texts(work: Path, locus: Locus) -> None:
    """P7: `show`, `search`, MCP and exports of conversations have the texts that events refer to."""
    agent = Agent(work)
    agent.prompt("Write it")
    agent.write("src/page.py", SMALL)
    reads(agent, "src/page.py", SMALL[:-1])
    agent.stop()
    wrote, read = events(work, "action")

    shown = json.loads(locus("show", wrote["event_id"], "--json").out)
    assert shown["event"]["payload"]["args"]["content"] == SMALL
    assert SMALL.strip().replace('"', '\\"') in locus("show", read["event_id"]).text
    found = json.loads(locus("search", "canary-9931", "--json").out)
    assert {"tool_start", "action"} <= {hit["event_type"] for hit in found["hits"]}
    show = next(tool for tool in tools_for("claude-code") if tool.name == "show")
    answer = ToolCall.of(show, {"name": wrote["event_id"]}).answer(str(work / ".locus"))["text"]
    assert answer.count("canary-9931") >= 2
    locus("export", "atif", "--to", work / "out")
    assert (work / "out").read_text().count("canary-9931") >= 2


def test_a_text_that_no_pack_takes_stays_in_its_event(work: Path) -> None:
    """P4: where contents cannot be stored, what a tool writes is not lost."""
    agent = Agent(work)
    agent.prompt("Write it")
    packs = work / ".locus/snapshots/packs"
    packs.rename(packs.with_name("away"))
    packs.write_bytes(b"")
    try:
        agent.begin("Write", {"file_path": str(work / "new.py"), "content": SMALL})
    finally:
        packs.unlink()
        packs.with_name("away").rename(packs)
    (start,) = events(work, "tool_start")
    assert start["payload"]["args"]["content"] == SMALL
    assert "in_blobs" not in start["payload"]


def test_a_path_is_erased_from_every_event_that_names_it(work: Path, locus: Locus) -> None:
    """P5: erasing a path reaches the texts of tools that name it in arguments, patches and commands; who
    quotes it without naming it is listed."""
    agent = Agent(work)
    agent.prompt("Write it")
    agent.write("src/page.py", LARGER)
    agent.edit("src/page.py", "line 3 of the page", "line 3 canary-4471")
    agent.bash("cd src && head -n 5 page.py")
    agent.bash("head -n 6 s*/*.py")  # names it to nobody
    agent.stop()
    codex = Codex(work)
    codex.prompt("Patch it")
    change = "*** Update File: src/page.py\n@@\n-line 1 of the page\n+canary-4472\n"
    patch = f"*** Begin Patch\n{change}*** End Patch\n"
    codex.patch(patch, lambda: (work / "src/page.py").write_text("canary-4472\n"))
    codex.stop()

    planned = json.loads(locus("store", "erase", "--path", "src/page.py", "--json").out)["plan"]
    quoting = events(work, "action")[3]["event_id"]
    assert any(quoting[:12] in one for one in planned["not_reached"])
    locus("store", "erase", "--path", "src/page.py", "--yes")
    for canary in (b"canary-4471", b"canary-4472"):
        assert canary not in log_bytes(work)
    texts = [json.dumps(e["payload"]) for e in events(work, "tool_start", "action", "file")]
    assert sum("line 2 of the page" in text for text in texts) == 1
    with Store.open(work / ".locus") as store:
        assert store.verify("deep") == []


def test_a_word_in_a_files_name_is_erased_and_its_turn_still_replayed(work: Path, locus: Locus) -> None:
    """P1, P5: the turn is replayable but for that name, which has a mark in its place."""
    agent = Agent(work)
    agent.prompt("Write it")
    agent.write("deep/er/for-tulipFox81zebra.txt", LARGER)
    agent.write("deep/other.txt", SMALL)
    agent.stop()
    (work / "deep/er/for-tulipFox81zebra.txt").rename(work / "kept.txt")

    locus("store", "erase", "--secret", "tulipFox81zebra", "--yes")
    assert not any(
        b"tulipFox81" in path.read_bytes() for path in (work / ".locus").rglob("*") if path.is_file()
    )
    assert locus("replay", "last", "--to", work.parent / "out").code == 0
    files = {str(path.relative_to(work.parent / "out")): path.read_text()
             for path in (work.parent / "out").rglob("*.txt")}  # fmt: skip
    (named,) = (name for name in files if name.startswith("deep/er/for-[REDACTED:erased:"))
    assert files == {named: LARGER, "deep/other.txt": SMALL}
    assert locus("store", "verify", "--deep").code == 0
