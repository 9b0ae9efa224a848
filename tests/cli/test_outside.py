"""Edits outside of the repository: file events under an id of their directory, which no restore touches."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.paths import is_outside
from tests.agents.claude_support import Teller, patch
from tests.agents.test_captured_sessions import Played, fixtures
from tests.cli.support import Locus

BEFORE, AFTER = "package sync\n", "package sync\n\nfunc push() {}\n"


@pytest.fixture
def work(shop: Path) -> Path:
    """A directory with a store; sessions begin in it."""
    return shop


def write_of(path: Path, content: str, original: "str | None") -> tuple[str, dict[str, Any], str, Any]:
    payload = {"type": "create" if original is None else "update", "filePath": str(path), "content": content}
    args = {"file_path": str(path), "content": content}
    return "Write", args, "Written", {**payload, "originalFile": original, "structuredPatch": []}


def edit_of(path: Path, old: str, new: str) -> tuple[str, dict[str, Any], str, Any]:
    hunk = patch(1, f"-{old}", f"+{new}")
    args = {"file_path": str(path), "old_string": old, "new_string": new}
    return "Edit", args, "Updated", {"filePath": str(path), "structuredPatch": hunk}


def transcript(work: Path, *calls: tuple[str, dict[str, Any], str, Any], name: str = "one") -> Path:
    teller = Teller(f"0b5f3c1e-0000-4000-8000-{name:>012}", name=name, cwd=str(work))
    lines = [teller.user("push it", promptId=f"prompt-{name}")]
    for number, (tool, args, shown, item) in enumerate(calls):
        lines += teller.call(f"msg-{name}-{number}", f"tool-{name}-{number}", tool, args, shown, item)
    path = work.parent / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def ask(locus: Locus, sql: str) -> list[list[Any]]:
    found = locus("sql", "--json", sql)
    assert found.code == 0, found.err
    return [list(row.values()) for row in json.loads(found.text)]


def names(locus: Locus) -> list[str]:
    return [path for (path,) in ask(locus, "select path from files order by position")]


def test_an_edit_outside_of_the_repository_is_a_version_of_its_file(work: Path, locus: Locus) -> None:
    """P7: both contents are known and counted; people here read the directory, JSON has the id alone."""
    file = work.parent / "sync" / "push.go"
    path = transcript(
        work, write_of(file, BEFORE, "package old\n"), edit_of(file, "package sync", "package s")
    )
    assert locus("import", "claude-code", path).code == 0

    name, again = names(locus)
    assert name == again and is_outside(name) and name.endswith("/push.go") and "sync" not in name
    ((first, last),) = ask(
        locus, "select min_by(before_hash, position), max_by(after_hash, position) from files"
    )
    assert (locus("cat", first).out, locus("cat", last).out) == (b"package old\n", b"package s\n")
    assert ask(locus, "select files_modified from turns") == [[[name]]]
    assert locus("log").text.splitlines()[1].split()[-4:] == ["1", "none", "push", "it"]
    (turn,) = (t for (t,) in ask(locus, "select context_id from turns"))
    for shown in (
        locus("timeline", turn),
        locus("show", turn),
        locus("history", file),
        locus("log", "--path", file.parent),
    ):
        assert shown.code == 0 and str(file) in shown.text and "root:" not in shown.text, shown
    assert locus("history", name).text.count(str(file)) == 2
    for shown in (locus("history", file, "--json"), locus("stats", "--by", "path", "--json")):
        assert name in shown.text and str(file.parent) not in shown.text
    assert not file.parent.exists()


def test_a_file_has_one_name_in_all_sessions_of_a_store_and_another_elsewhere(
    work: Path, locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name depends on the path and the store's key alone: it outlives copies, and cannot be guessed."""
    file = work.parent / "sync" / "push.go"
    paths = [transcript(work, write_of(file, BEFORE, None))]
    paths += [transcript(work, edit_of(file, "sync", "s"), name="two")]
    assert locus("import", "claude-code", *paths).code == 0
    first, second = names(locus)
    assert first == second

    copy = tmp_path / "elsewhere" / "shop"
    shutil.copytree(work, copy)
    monkeypatch.chdir(copy)
    third = transcript(work, edit_of(file, "s", "t"), name="three")
    assert locus("--store", copy / ".locus", "import", "claude-code", third).code == 0
    assert ask(locus, "select distinct path from files") == [[first]]

    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    locus("--store", other / ".locus", "init")
    assert locus("--store", other / ".locus", "import", "claude-code", *paths).code == 0
    foreign = names(locus)
    assert len(set(foreign)) == 1 and first not in foreign


def test_a_second_import_adds_nothing_whatever_the_key_or_the_disk(work: Path, locus: Locus) -> None:
    """P3: the ids of events hold no name of a directory, so no lost key doubles one."""
    one, two = work.parent / "sync" / "a.go", work.parent / "lib" / "b.go"
    calls = [write_of(one, BEFORE, None), write_of(two, BEFORE, None), edit_of(one, "sync", "s")]
    path = transcript(work, *calls)
    assert locus("import", "claude-code", path).code == 0
    counted = "select count(*) from events where event_type <> 'import'"
    before = ask(locus, counted)
    (work / ".locus" / "redaction.key").unlink()
    one.parent.mkdir()
    one.write_text("other\n")

    for copy in (path, path.rename(work.parent / "moved.jsonl")):
        locus("import", "claude-code", copy)
    assert ask(locus, counted) == before
    assert len(names(locus)) == 3


def test_what_leaves_names_no_directory(work: Path, locus: Locus, tmp_path: Path) -> None:
    """P5: a file event in an export has the id; records of the repository's lines leave the file out."""
    file = work.parent / "sync" / "push.go"
    moved = {"type": "update", "filePath": str(file), "content": AFTER, "originalFile": "x\n"}
    again = ("Write", {"file_path": str(file), "content": AFTER}, "Written", moved)
    path = transcript(work, write_of(file, BEFORE, None), again, write_of(work / "a.go", BEFORE, None))
    assert locus("import", "claude-code", path).code == 0

    assert locus("export", "jsonl", "--to", tmp_path / "all.jsonl").code == 0
    listed = [line for line in (tmp_path / "all.jsonl").read_text().splitlines() if '"event_type"' in line]
    files = [one for one in listed if '"file"' in one or '"mismatch"' in one]
    assert any("root:" in one for one in files)
    own = [one for one in map(json.loads, listed) if one.get("event_type") in ("file", "mismatch")]
    assert len(own) == 4 and str(file.parent) not in json.dumps(own)
    traced = locus("export", "agent-trace", "--to", tmp_path / "trace.jsonl")
    assert "push.go" not in (tmp_path / "trace.jsonl").read_text()
    assert "a.go" in (tmp_path / "trace.jsonl").read_text() and "outside" in traced.err


def test_no_restore_replay_or_diff_touches_what_lies_outside(
    locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: of a turn that hooks recorded, too; the import adds the outside edits once, and no inside one."""
    played = Played(next(path for path in fixtures() if path.match("claude-code*/work.jsonl")), tmp_path)
    played.play()
    monkeypatch.chdir(played.project)
    files = "select path, operation, event_id from files order by position"
    inside = ask(locus, files)
    outside = tmp_path / "sync"
    outside.mkdir()
    (outside / "push.go").write_text("mine\n")
    (path,) = (tmp_path / "home/.claude/projects").rglob("*.jsonl")
    calls = [write_of(outside / "push.go", AFTER, BEFORE), write_of(outside / "new.go", AFTER, None)]
    goes_on(path, str(played.project), calls)

    assert locus("import", "claude-code", path).code == 0
    assert locus("import", "claude-code", path.rename(tmp_path / "moved.jsonl")).code == 0
    found = ask(locus, files)
    added = [one for one in found if is_outside(one[0])]
    assert [operation for _, operation, _ in added] == ["edit", "add"]
    assert [one for one in found if one not in added] == inside

    ((turn,),) = ask(
        locus, f"select session_id || '_' || turn_id from events where event_id = '{added[0][2]}'"
    )
    for number, moment in enumerate(["end", added[0][2], added[1][2]]):
        into = tmp_path / f"replayed-{number}"
        assert locus("replay", turn, "--at", moment, "--to", into).code in (0, 4)
        left = {str(one.relative_to(into)) for one in into.rglob("*")}
        assert left and not any("push.go" in one or "new.go" in one or "root:" in one for one in left)
        plan = locus("restore", turn, "--at", moment, "--dry-run", "--json")
        assert plan.code in (0, 4), plan.err  # what was reported after the last capture is in doubt
        assert "steps" in plan.text and not any(name in plan.text for name in ("root:", "push.go", "new.go"))
    refused = locus("restore", turn, added[0][0])
    assert refused.code == 1 and "outside of the repository" in refused.err
    shown = locus("diff", turn)
    assert "push.go" not in shown.text and str(outside / "push.go") in shown.err
    assert [one.name for one in outside.iterdir()] == ["push.go"]
    assert (outside / "push.go").read_text() == "mine\n"


def goes_on(path: Path, cwd: str, calls: list[tuple[str, dict[str, Any], str, Any]]) -> None:
    """More calls in the first turn of a captured session."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    turn = next(one["promptId"] for one in lines if "promptId" in one)
    shared = {"sessionId": lines[0]["sessionId"], "promptId": turn, "isSidechain": False, "cwd": cwd}
    for number, (tool, args, shown, item) in enumerate(calls):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": args}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": shown}
        answer = {"role": "assistant", "content": [call]}
        lines.append({**shared, "type": "assistant", "uuid": f"a{number}", "message": answer})
        back = {"role": "user", "content": [result]}
        lines.append({**shared, "type": "user", "uuid": f"r{number}", "toolUseResult": item, "message": back})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_turn_with_nothing_but_outside_edits_has_an_empty_difference(work: Path, locus: Locus) -> None:
    """P1: the files that its tools reported lie elsewhere, which is stated; no tree holds them."""
    file = work.parent / "sync" / "push.go"
    assert locus("import", "claude-code", transcript(work, write_of(file, AFTER, BEFORE))).code == 0
    shown = locus("diff", "last", "--json")
    assert shown.code == 4, shown.err
    assert json.loads(shown.text)["outside"] == names(locus) and json.loads(shown.text)["changes"] == []
    assert locus("cat", f"last:{names(locus)[0]}").code == 1
    assert locus("replay", "last", "--to", work.parent / "replayed").code == 1


@pytest.mark.parametrize("name", [".env", ".aws/credentials", "keys/app.sqlite"])
def test_the_content_of_a_private_file_outside_is_withheld(work: Path, locus: Locus, name: str) -> None:
    """P5: what git ignores out there is not known, so the path decides; the patch is left out as well."""
    file = work.parent / "sync" / name
    content = "colour = green, and not for others\n"
    calls = [write_of(file, content, None), edit_of(file, "missing text", "other text")]
    assert locus("import", "claude-code", transcript(work, *calls)).code == 0
    events = ask(locus, "select after_hash, payload from events where event_type = 'file' order by position")
    assert locus("cat", events[0][0]).code == 3
    assert "missing text" not in str(events[1][1]) and "LEFT OUT" in str(events[1][1])


def test_a_file_outside_can_be_erased_by_its_path(work: Path, locus: Locus) -> None:
    """P5: its contents go; those of other files stay."""
    file = work.parent / "sync" / "push.go"
    path = transcript(work, write_of(file, AFTER, BEFORE), write_of(work / "a.go", "package a\n", None))
    assert locus("import", "claude-code", path).code == 0
    ((gone,),) = ask(locus, "select after_hash from files where starts_with(path, 'root:')")
    ((stays,),) = ask(locus, "select after_hash from files where path = 'a.go'")
    ended = locus("store", "erase", "--path", file, "--yes")
    assert ended.code == 0, ended.err
    assert locus("cat", gone).code != 0 and locus("cat", stays).code == 0


def test_asking_for_a_path_outside_that_no_event_has_writes_nothing(work: Path, locus: Locus) -> None:
    """A question makes no key."""
    asked = locus("history", "/etc/hosts")
    assert asked.code == 1 and "outside the repository" in asked.err
    assert not (work / ".locus" / "redaction.key").exists()
