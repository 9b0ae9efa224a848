"""Contents of files, chained through a session: right or unknown, never wrong."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from eventlog.agents.claude_code.tools import edits_of
from eventlog.agents.kit.draft import DELETE, PATCH, REPLACE, SEEN, WRITE, FileEdit, FileItem
from eventlog.base.types import Event
from eventlog.importers.filestates import FileStates
from eventlog.store import Store
from tests.agents.claude_support import HOME, Teller, patch, real, rows, run, write


def named(path: str) -> str:
    """The name of a file outside."""
    directory, _, name = path.rpartition("/")
    return f"root:{blake3(directory.encode()).hexdigest()[:16]}/{name}"


class Chain:
    """A chain of files, with the contents that it names."""

    def __init__(self, base: "dict[str, bytes] | None" = None) -> None:
        self.contents: dict[str, bytes] = {}
        get = None if base is None else base.get
        self._states = FileStates("claude-code", HOME, self._put, get, name_outside=named)
        self._count = 0

    def _put(self, data: bytes) -> bytes:
        digest = blake3(data).digest()
        self.contents[f"blake3:{digest.hex()}"] = data
        return digest

    def events_of(self, kind: str, path: str = "a.py", **fields: Any) -> list[Event]:
        self._count += 1
        cause: Event = {"event_id": f"{self._count:032x}", "tool": "Edit", "tool_use_id": f"t-{self._count}"}
        columns: Event = {"agent": "claude-code", "cwd": HOME}
        return self._states.events_of(FileItem(cause, FileEdit(kind, path, **fields), columns))

    def several(self, edits: list[FileEdit]) -> list[Event]:
        """What one call did."""
        cause: Event = {"event_id": "f" * 32}
        columns: Event = {"agent": "claude-code"}
        return [event for edit in edits for event in self._states.events_of(FileItem(cause, edit, columns))]

    def change(self, kind: str, path: str = "a.py", **fields: Any) -> tuple[str, bytes | None, bytes | None]:
        """Operation and contents of the one event that is not a mismatch."""
        (event,) = [one for one in self.events_of(kind, path, **fields) if one["event_type"] == "file"]
        sides = [self.contents.get(str(event.get(name))) for name in ("before_hash", "after_hash")]
        return str(event["operation"]), sides[0], sides[1]


def test_each_edit_goes_on_from_what_the_one_before_left() -> None:
    """P7: written, replaced, patched, moved, deleted: before and after are known at each step."""
    chain = Chain()
    assert chain.change(WRITE, content="a\nb\n", created=True) == ("add", None, b"a\nb\n")
    assert chain.change(REPLACE, replacements=(("b", "c", False),)) == ("edit", b"a\nb\n", b"a\nc\n")
    assert chain.change(PATCH, patch="@@ -1,2 +1,2 @@\n-a\n+A\n c") == ("edit", b"a\nc\n", b"A\nc\n")
    moved = chain.change(PATCH, "b.py", old_path="a.py", patch="")
    assert moved == ("rename", b"A\nc\n", b"A\nc\n")
    assert chain.change(DELETE, "b.py") == ("delete", b"A\nc\n", None)
    assert chain.change(WRITE, "b.py", content="new") == ("add", None, b"new")


def test_what_does_not_fit_is_unknown_and_keeps_its_patch() -> None:
    """P7: a text that is not there, or twice, an edit of an unknown file: null, with the agent's patch."""
    for content in (None, b"x\n", b"a\na\n"):
        chain = Chain()
        if content is not None:
            chain.events_of(WRITE, content=content.decode())
        found = chain.events_of(REPLACE, replacements=(("a", "b", False),), patch="@@ -1 +1 @@\n-a\n+b")
        event = found[-1]
        assert "after_hash" not in event and "before_hash" not in event
        assert event["payload"] == {"unknown": ["before", "after"], "diff": "@@ -1 +1 @@\n-a\n+b"}
        assert [one["event_type"] for one in found[:-1]] == ([] if content is None else ["mismatch"])
        assert chain.change(REPLACE, original="a", replacements=(("a", "b", False),)) == ("edit", b"a", b"b")


def test_a_file_that_somebody_else_changed_is_a_mismatch() -> None:
    """P7: where a line shows other contents than predicted, both are kept; the chain goes on with those."""
    chain = Chain()
    chain.events_of(WRITE, content="a\n")
    (mismatch,) = chain.events_of(SEEN, content="b\n")
    assert mismatch["payload"] == {"evidence": "read"}
    assert [chain.contents[str(mismatch[name])] for name in ("before_hash", "after_hash")] == [b"a\n", b"b\n"]
    assert chain.events_of(SEEN, content="b\n") == []
    mismatch, change = chain.events_of(REPLACE, original="c\n", replacements=(("c", "d", False),))
    assert mismatch["payload"] == {"evidence": "before"}
    assert chain.contents[str(change["after_hash"])] == b"d\n"


@pytest.mark.parametrize(
    ("content", "first", "fits"),
    [
        ("b\nc", 2, True),
        ("c\n", 3, True),
        ("a", 1, True),
        ("b\nd", 2, False),
        ("c", 2, False),
        ("x", 9, False),
    ],
)
def test_some_lines_of_a_file_are_a_check(content: str, first: int, fits: bool) -> None:
    """P7: lines that differ from those predicted are a mismatch, and the rest of the file is unknown."""
    chain = Chain()
    assert chain.events_of(SEEN, content=content, first_line=first) == []  # of an unknown file
    chain.events_of(WRITE, content="a\r\nb\r\nc\r\n")
    found = chain.events_of(SEEN, content=content, first_line=first)
    assert [one["payload"] for one in found] == ([] if fits else [{"evidence": "read"}])
    after = chain.change(REPLACE, replacements=(("b", "B", False),))[2]
    assert after == (b"a\r\nB\r\nc\r\n" if fits else None)


def test_a_file_that_comes_in_or_goes_out_is_added_and_deleted() -> None:
    """P1: no restore needs the side outside; one call with many files outside gives each its own event."""
    chain = Chain()
    chain.events_of(WRITE, content="a\n")
    out = chain.events_of(PATCH, "/etc/b", old_path="a.py", patch="")
    assert [(one["operation"], one["path"]) for one in out] == [("delete", "a.py"), ("add", named("/etc/b"))]
    back = chain.events_of(PATCH, "c.py", old_path="/etc/b", patch="")
    assert [(one["operation"], one["path"]) for one in back] == [("delete", named("/etc/b")), ("add", "c.py")]
    assert {chain.contents[str(one["after_hash"])] for one in (out[1], back[1])} == {b"a\n"}
    beside = chain.events_of(PATCH, "/etc/d", old_path="/etc/e", patch="")
    assert [(one["operation"], one["path"]) for one in beside] == [("rename", named("/etc/d"))]
    states = chain.several([FileEdit(WRITE, f"/etc/{number}", content="x") for number in range(3)])
    assert len({one["event_id"] for one in states}) == 3


def test_a_patch_of_a_file_outside_is_kept_without_its_path() -> None:
    """P5: Codex names the file in the patch; an event that leaves has the id alone."""
    section = "*** Update File: /etc/b\n{}@@\n-a\n+b"
    for path, old_path, move in (
        ("/etc/b", None, ""), ("c.py", "/etc/b", "*** Move to: c.py\n"),
        ("/etc/c", "a.py", "*** Move to: /etc/c\n"), ("/etc/c", "/etc/b", "*** Move to: /etc/c\n"),
    ):  # fmt: skip
        found = Chain().events_of(PATCH, path, old_path=old_path, patch=section.format(move))
        assert found and "/etc" not in str(found)
        assert {one["payload"]["diff"] for one in found if "diff" in one["payload"]} == {"@@\n-a\n+b"}
    inside = Chain().events_of(PATCH, "a.py", patch="*** Update File: a.py\n@@\n-a\n+b")
    assert inside[0]["payload"]["diff"] == "*** Update File: a.py\n@@\n-a\n+b"


def test_a_whole_read_makes_a_file_known() -> None:
    """P7: a file that was read as a whole is what the next edit changes; it ends as it was shown."""
    chain = Chain()
    assert chain.events_of(SEEN, content="a") == []
    assert chain.change(REPLACE, replacements=(("a", "b", False),)) == ("edit", b"a", b"b")


def test_line_ends_and_marks_that_agents_do_not_show_are_kept() -> None:
    """P7: a text shown with plain line ends is the file that has others; an edit leaves those as they are."""
    chain = Chain({"a.py": b"\xef\xbb\xbfa\r\nb\r\n"})
    edit = {"replacements": (("a\nb", "a\nc", False),), "added": 1, "removed": 1}
    assert chain.change(REPLACE, **edit)[2] == b"\xef\xbb\xbfa\r\nc\r\n"
    assert chain.events_of(SEEN, content="a\nc\n") == []
    kept = chain.change(REPLACE, original="a\nc\n", replacements=(("c", "d", False),))
    assert kept == ("edit", b"\xef\xbb\xbfa\r\nc\r\n", b"\xef\xbb\xbfa\r\nd\r\n")
    mixed = Chain({"a.py": b"a\r\nb\n"})
    assert mixed.change(REPLACE, replacements=(("a", "c", False),)) == ("edit", None, None)


def test_the_commit_is_taken_only_where_the_edit_fits_it() -> None:
    """P7: what git held is the content before when the text is there and the lines around are those shown."""
    base = {"a.py": b"def a():\n\tb = 1\n\treturn b\n"}
    edit = {"replacements": (("b = 1", "b = 2", False),), "added": 1, "removed": 1}
    hunk = "@@ -1,3 +1,3 @@\n def a():\n-  b = 1\n+  b = 2\n   return b"
    assert Chain(base).change(REPLACE, patch=hunk, **edit)[2] == b"def a():\n\tb = 2\n\treturn b\n"
    for other in (hunk.replace("return b", "return c"), hunk.replace("-1,3", "-2,3")):
        assert Chain(base).change(REPLACE, patch=other, **edit) == ("edit", None, None)
    assert Chain({}).change(REPLACE, patch=hunk, **edit) == ("edit", None, None)
    assert Chain(base).change(WRITE, content="x") == ("edit", None, b"x")


def test_a_line_that_is_taken_away_goes_with_its_newline_where_the_count_says_so() -> None:
    """P7: of two readings of a removal the one with the agent's count of lines is right; else null."""
    for added, after in ((0, b"a\nc\n"), (1, b"a\n\nc\n"), (2, None)):
        chain = Chain({"a.py": b"a\nb\nc\n"})
        edit = {"replacements": (("b", "", False),), "added": added, "removed": 1}
        assert chain.change(REPLACE, **edit)[2] == after


def test_paths_are_relative_to_the_root_and_others_have_a_name_of_their_own() -> None:
    """A path is reported below the root, from the directory of its line; one outside by the name it is
    given."""
    chain = Chain()
    for path, item in (
        (f"{HOME}/a.py", "a.py"), ("sub/a.py", "sub/a.py"), (f"{HOME}/sub/../a.py", "a.py"),
        (f"{HOME}er/a.py", named(f"{HOME}er/a.py")), ("../a.py", named("/home/dev/a.py")),
        ("/etc/passwd", named("/etc/passwd")), ("C:\\x\\a.py", named("C:/x/a.py")),
        (HOME, None), ("/", None), ("a\0b", None), ("", None),
    ):  # fmt: skip
        found = chain.events_of(WRITE, path, content="x")
        assert [one["path"] for one in found] == ([] if item is None else [item])


EDIT = {"old_string": "a", "new_string": "b"}
TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "\n", "ab\n", "b"]), max_size=6).map("".join)


@given(before=TEXTS, at=st.integers(0, 12), size=st.integers(0, 4), new=TEXTS, windows=st.booleans())
def test_a_replacement_is_the_one_that_was_made_or_unknown(
    before: str, at: int, size: int, new: str, windows: bool
) -> None:
    """P7: whatever piece of a text is replaced, the computed content is the true one, or there is none."""
    old = before[at : at + size]
    true = before[:at] + new + before[at + len(old) :]
    disk = (before.replace("\n", "\r\n") if windows else before).encode()
    chain = Chain({"a.py": disk})
    found = chain.change(REPLACE, replacements=((old, new, False),))[2]
    if old and before.find(old) == before.rfind(old):
        assert found == (true.replace("\n", "\r\n") if windows else true).encode()
    else:
        assert found is None or old or before == ""


@pytest.mark.parametrize(
    ("tool", "args", "told", "kinds"),
    [
        ("Write", {"content": "x"}, {"type": "create", "originalFile": None}, [(WRITE, "x", True, None)]),
        ("Write", {"content": "x"}, {"type": "update", "originalFile": "w"}, [(WRITE, "x", None, "w")]),
        ("Edit", {"old_string": "", "new_string": "x"}, {"originalFile": ""}, [(WRITE, "x", True, None)]),
        ("Edit", EDIT, {"originalFile": "a"}, [(REPLACE, None, None, "a")]),
        ("MultiEdit", {"edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "b"}]}, {}, []),
        ("NotebookEdit", {"new_source": "1"}, {}, [(WRITE, None, None, None)]),
        ("NotebookEdit", {}, {"original_file": "{}", "updated_file": "{ }"}, [(WRITE, "{ }", None, "{}")]),
        ("Edit", EDIT, {"originalFile": "a", "userModified": True}, [(WRITE, None, None, "a")]),
        ("Write", {"content": "x"}, {"content": "y", "userModified": True}, [(WRITE, "y", None, None)]),
        ("Bash", {}, {}, []),
    ],
)
def test_what_tools_say_of_files(tool: str, args: Any, told: Any, kinds: Any) -> None:
    """P7: what an edit tool was given and gave back, as a change of a file; what it does not say is
    unknown."""
    found = edits_of(tool, {"file_path": "a", **args}, told)
    assert [(one.kind, one.content, one.created, one.original) for one in found] == kinds


def test_the_strings_that_were_used_count_not_those_that_were_asked_for() -> None:
    """P7: the client may change what the model asked for; its result says what it did."""
    args = {"file_path": "a", "old_string": "“a”", "new_string": "b "}
    (edit,) = edits_of("Edit", args, {"oldString": '"a"', "newString": "b", "originalFile": '"a"'})
    assert edit.replacements == (('"a"', "b", False),)


@pytest.mark.parametrize(("first", "count", "shown"), [(1, 2, [None]), (2, 2, [2]), (1, 1, []), (0, 2, [])])
def test_only_a_whole_read_shows_a_file(first: int, count: int, shown: list[int | None]) -> None:
    """P7: of a part of a file it is stated which; one with lines cut is no evidence of its content."""
    file = {"content": "a\n", "startLine": first, "numLines": count, "totalLines": 2}
    edits = edits_of("Read", {"file_path": "a"}, {"type": "text", "file": file})
    assert [edit.first_line for edit in edits] == shown
    long = {**file, "content": "a" * 3_000 + "\n"}
    assert edits_of("Read", {"file_path": "a"}, {"type": "text", "file": long}) == []


def test_a_session_in_a_repository_begins_with_what_was_committed(tmp_path: Path) -> None:
    """P7: an edit whose former content the transcript leaves out has that of the commit it was made on."""
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_COMMITTER_DATE": "1700000000 +0000"}
    (tmp_path / "a.py").write_text("price = 1\n")
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "one"]):
        names = ["-c", "user.name=A", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *names, *command], env=env, check=True)
    args = {"file_path": f"{tmp_path}/a.py", "old_string": "1", "new_string": "2"}
    payload = {"originalFile": None, "structuredPatch": patch(1, "-price = 1", "+price = 2")}
    tell = Teller(cwd=str(tmp_path))
    lines = [tell.user("dearer"), *tell.call("m", "t-1", "Edit", args, "updated", payload)]
    with Store.init(tmp_path / ".locus") as store:
        run(store, write(tmp_path / "t" / "a.jsonl", lines), root=str(tmp_path))
        ((before, after),) = rows(store, "select before_hash, after_hash from files")
        assert (store.blob(before), store.blob(after)) == (b"price = 1\n", b"price = 2\n")


def test_true_sessions_have_known_contents(tmp_path: Path) -> None:
    """P7: in true sessions nearly every edit has both contents; a mismatch is rare."""
    with Store.init(tmp_path / ".locus") as store:
        run(store, *real(), root=None)
        ((edits, known),) = rows(
            store, "select count(*), count(after_hash) from files where operation in ('add', 'edit')"
        )
        ((mismatches,),) = rows(store, "select count(*) from events where event_type = 'mismatch'")
        assert known >= 0.9 * edits and mismatches <= 0.1 * edits, (edits, known, mismatches)
