"""Looks at what a watcher reports, beside a server that answers as each test wants (docs/watcher.md)."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.base import config
from eventlog.base.layout import Layout
from eventlog.base.names import short
from eventlog.hooks import captured, state, watched
from eventlog.hooks import record as live
from eventlog.replay.certainty import certainty_of
from eventlog.store import Store
from eventlog.worktree import statcache, watchman
from eventlog.worktree.watchman import NoAnswer
from tests.hooks.test_scope import Session
from tests.watchmen import INSTANCE, FakeWatchman, fake_server, note_watch
from tests.worktree.support import git, on_disk
from tests.worktree.test_capture import write

PATIENCE = 50  # of the hooks of a `Session`
SETTING = '[capture]\nwatcher = "watchman"\n'


class WatchedSession(Session):
    def __init__(self, work: Path, server: FakeWatchman) -> None:
        self.server = server
        super().__init__(work)
        self.layout = Layout(str(work / ".locus"))
        self.key = short(os.fsencode(os.path.realpath(work)))
        (work / ".locus" / "config.toml").write_text(SETTING)
        note_watch(self.layout, work, server.path)

    def command(self, id: str = "1") -> None:
        self.say("PreToolUse", "Bash", id)
        self.say("PostToolUse", "Bash", id)

    def last_capture(self) -> tuple[str | None, list[str]]:
        """Which watcher chose the paths of the last capture, and the paths that it found changed."""
        events = self.events()
        kinds = [event["event_type"] for event in events]
        at = max(n for n, kind in enumerate(kinds) if kind == "snapshot")
        if "action" in kinds[at:]:
            return None, []  # it found nothing, and made no snapshot
        payload: Any = events[at]["payload"]
        return (payload.get("capture") or {}).get("by"), self.last_snapshot()[1]

    @property
    def clock(self) -> Path:
        return Path(self.layout.live(self.key + watched.CLOCK))

    def check(self) -> None:
        """The last recorded tree is that of the disk."""
        with Store.open(self.work / ".locus") as store:
            assert {path for path, _ in store.tree("last").walk()} == set(on_disk(self.work))


def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat a small directory like one with many files, on a machine that is never busy."""
    monkeypatch.setattr(watched, "FILES_MIN", 0)
    monkeypatch.setattr(watched, "ANSWER_S", 0.1)  # times the patience of these hooks
    monkeypatch.setattr(live, "EARLY_CAPTURE_FILES_MAX", -1)


@pytest.fixture
def server() -> Iterator[FakeWatchman]:
    with fake_server() as made:
        yield made


@pytest.fixture
def session(tmp_path: Path, server: FakeWatchman, monkeypatch: pytest.MonkeyPatch) -> WatchedSession:
    """A session whose last capture was a full one, with a clock from before it."""
    as_if_large(monkeypatch)
    made = WatchedSession(tmp_path / "work", server)
    write(made.work / "b", b"first")
    made.command("0")
    assert server.names == ["clock"] and made.last_capture() == (None, ["b"])
    return made


def test_after_a_command_a_hook_compares_what_the_watcher_reports(session: WatchedSession) -> None:
    """P1, P5, P7: reported paths are found and others left; the snapshot says so, and the end of the turn is
    a full capture that finds the rest."""
    write(session.work / "d" / "a", b"reported")
    write(session.work / "e" / "f", b"through a memory map, say")
    session.server.changed = ["d/a", "ignored/secret"]
    session.command()
    assert session.last_capture() == ("watchman", ["d/a"])
    assert session.last_snapshot()[0] == ["d/a"], "a name that is in no tree is not recorded"
    (question,) = session.server.asked
    assert question[:2] == ["query", str(session.work)]
    options = question[2]
    assert 0 < options.pop("sync_timeout") <= watched.ANSWER_S * PATIENCE * 1000
    assert options == {
        "since": f"{INSTANCE}:1", "fields": ["name"], "empty_on_fresh_instance": True,
        "expression": ["not", ["anyof", ["name", ".git", "wholename"], ["dirname", ".git"],
                               ["name", ".locus", "wholename"], ["dirname", ".locus"]]],
    }  # fmt: skip

    session.say("Stop")
    assert session.last_capture() == (None, ["e/f"]), "the end of a turn rests on no watcher"
    events = session.events()
    action = [event for event in events if event["event_type"] == "action"][-1]
    known = certainty_of(events, str(action["event_id"]))
    assert [path for path, _ in known.paths] == ["e/f"]
    assert certainty_of(events).exact
    session.check()


def test_a_watched_capture_without_changes_of_files_is_no_full_one(session: WatchedSession) -> None:
    """P1: a capture that names no path proves nothing of the others: it is not taken for a full one."""
    (session.work / "d").chmod(0o700)
    session.server.changed = ["d"]
    session.command()
    events = session.events()
    snapshot: Any = [event for event in events if event["event_type"] == "snapshot"][-1]
    write(session.work / "e" / "f", b"missed")
    session.say("Stop")
    if (snapshot["payload"].get("capture") or {}).get("by"):
        known = certainty_of(session.events(), str(snapshot["event_id"]))
        assert [path for path, _ in known.paths] == ["e/f"]
    from tests.replay.test_certainty import LAST, START, action, changed, doubted, look

    empty = [action("e"), {**look("t", "tool", by="watchman", scoped_paths=[]), "cause": "e"}]
    assert doubted(certainty_of([START, *empty, changed("h", "c"), LAST], "e")) == ("c",)
    assert doubted(certainty_of([START, *empty, changed("h", "c"), LAST], "t")) == ("c",)


def _bad_answers() -> dict[str, Any]:
    good = {"clock": f"{INSTANCE}:9", "files": [], "is_fresh_instance": False}
    return {
        "none": [None],
        "end of file": [],
        "half a line": [b'{"clock": "'],
        "garbage": [b"\xff\xfe\x00 nothing\n"],
        "a list": [b"[1, 2]\n"],
        "nested too deeply": [b"[" * 100_000 + b"\n"],
        "an error": {"error": "a non-recoverable condition", **good},
        "a warning": {"warning": "Recrawled this watch 1 times", **good},
        "a fresh instance": {**good, "is_fresh_instance": True},
        "no word of the instance": {"clock": f"{INSTANCE}:9", "files": []},
        "another instance": {**good, "clock": "c:1:2:4:9"},
        "no clock": {"files": [], "is_fresh_instance": False},
        "no files": {"clock": f"{INSTANCE}:9", "is_fresh_instance": False},
        "too many paths": {**good, "files": [f"n{number}" for number in range(watched.PATHS_MAX + 1)]},
        "too many bytes": {**good, "files": ["n" * watchman.ANSWER_SIZE_MAX]},
        "a name with a NUL": {**good, "files": ["d\0"]},
        "a name that was no UTF-8": {**good, "files": ["d/\ufffd"]},
        "a lone surrogate": {**good, "files": ["d/\udc80"]},
        "a name that leads out": {**good, "files": ["../elsewhere"]},
        "an absolute name": {**good, "files": ["/etc/passwd"]},
        "a number": {**good, "files": [1]},
        "slow drips": [part for letter in b'{"clock' for part in (bytes([letter]), None)],
    }


@pytest.mark.parametrize("name", list(_bad_answers()))
def test_any_other_answer_is_followed_by_a_full_capture(
    name: str, session: WatchedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, P1: whatever a server does, the hook captures all, as without one, and in time."""
    answer = _bad_answers()[name]
    session.server.answers = lambda question: answer if question[0] == "query" else {}
    if name in ("none", "slow drips"):
        monkeypatch.setattr(watched, "ANSWER_S", 0.05 / PATIENCE)
    write(session.work / "b", b"changed, and not reported")
    session.command()
    assert session.server.names == ["query"]
    assert session.last_capture() == (None, ["b"])
    session.check()


def test_an_answer_in_parts_counts(session: WatchedSession) -> None:
    """The answer ends with its line, however it is cut into packets."""
    good = json.dumps(session.server.answer(["query"]) | {"files": ["b"]}).encode() + b"\n"
    session.server.answers = lambda _: [good[:7], good[7:40], good[40:]]
    write(session.work / "b", b"changed")
    session.command()
    assert session.last_capture() == ("watchman", ["b"])


@pytest.mark.parametrize("peer", [(os.getpid(), os.geteuid() + 1), (1, os.geteuid()), (0, os.geteuid())])
def test_a_server_of_another_user_or_container_is_not_asked(
    peer: tuple[int, int], session: WatchedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P5: nothing is asked of, or believed from, a process that is not this user's, or that sees other
    directories under the same paths."""
    monkeypatch.setattr(watchman, "peer_of", lambda _: peer)
    readlink = os.readlink
    monkeypatch.setattr(
        os, "readlink", lambda path: "mnt:[1]" if path == "/proc/1/ns/mnt" else readlink(path)
    )
    write(session.work / "b", b"changed")
    session.command()
    assert session.server.names == []
    assert session.last_capture() == (None, ["b"])


def test_a_server_that_is_gone_costs_nothing(session: WatchedSession) -> None:
    """P4: a socket without a listener, and none at all."""
    session.server.close()
    write(session.work / "b", b"changed")
    session.command()
    assert session.last_capture() == (None, ["b"])
    os.unlink(session.server.path)
    write(session.work / "b", b"changed again")
    session.command("2")
    assert session.last_capture() == (None, ["b"])


def test_without_a_clock_all_is_compared(session: WatchedSession) -> None:
    """I22: the notes are derived; one that is missing or damaged costs a full capture."""
    for number, damage in enumerate(
        (b"", b"{", b"[]", b'{"clock": 1, "full_ns": 2}', b'{"clock": "c"}', None)
    ):
        session.clock.write_bytes(damage) if damage is not None else session.clock.unlink()
        write(session.work / "b", b"changed %d" % number)
        session.command(str(number))
        assert session.server.names == ["clock"]
        assert session.last_capture() == (None, ["b"]), damage


def test_a_clock_that_is_older_than_the_tree_is_true(session: WatchedSession) -> None:
    """P1: a hook that dies between the stat cache and the clock leaves an older one: more is reported."""
    older = session.clock.read_bytes()
    write(session.work / "b", b"reported before")
    session.server.changed = ["b"]
    session.command()
    assert session.clock.read_bytes() != older
    session.clock.write_bytes(older)
    write(session.work / "d" / "a", b"new")
    session.server.changed = ["b", "d/a"]
    session.command("2")
    assert session.server.asked[-1][2]["since"] == json.loads(older)["clock"]
    assert session.last_capture() == ("watchman", ["d/a"])
    session.check()


def test_the_clock_is_of_a_moment_before_the_capture_and_noted_after_the_tree(
    session: WatchedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: what changes during a capture is reported to the next one; a kill before the tree is noted leaves
    the older clock."""
    steps: list[str] = []
    noted = watched.WatchedLook.note
    answer = session.server.answer

    def answers(question: list[Any]) -> dict[str, Any]:
        steps.append(question[0])
        return answer(question)

    session.server.answers = answers
    for module, name, step in ((statcache, "save", "cache"), (state, "write_checkpoint", "tree")):
        real: Any = getattr(module, name)

        def noting(*given: Any, real: Any = real, step: str = step) -> Any:
            steps.append(step)
            return real(*given)

        monkeypatch.setattr(module, name, noting)

    def note(self: Any, capture: Any, *, is_watched: bool) -> None:
        steps.append("clock noted")
        noted(self, capture, is_watched=is_watched)

    monkeypatch.setattr(watched.WatchedLook, "note", note)
    write(session.work / "b", b"changed")
    session.server.changed = ["b"]
    session.command()
    assert steps == ["query", "cache", "tree", "clock noted"]
    steps.clear()
    write(session.work / "b", b"changed again")
    session.say("Stop")
    assert steps == ["clock", "cache", "tree", "clock noted"]


def test_a_stat_cache_that_is_lost_is_followed_by_a_full_capture(session: WatchedSession) -> None:
    """I22, I26: the cache, or the checkpoint, is gone."""
    shutil.rmtree(session.layout.directory("snapshots/statcache"))
    os.mkdir(session.layout.directory("snapshots/statcache"))
    write(session.work / "b", b"changed")
    session.command()
    assert session.last_capture() == (None, ["b"])
    os.unlink(session.layout.live(f"{session.key}.told"))
    write(session.work / "b", b"changed again")
    session.command("2")
    assert session.last_capture()[0] is None
    session.check()


def test_a_capture_that_is_not_finished_leaves_the_older_clock(
    session: WatchedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: what a capture did not reach may have changed before its clock; before the older one it did not."""
    before = session.clock.read_bytes()
    write(session.work / "b", b"changed")
    session.server.changed = ["b"]
    with monkeypatch.context() as patched:
        patched.setitem(captured.BUDGET_S, "tool", -1.0)
        session.command()
    assert session.last_capture() == (None, [])
    assert session.clock.read_bytes() == before
    session.command("2")
    assert session.last_capture() == ("watchman", ["b"])
    session.check()


def test_a_capture_without_an_answer_leaves_the_older_clock(session: WatchedSession) -> None:
    """P1: what changed meanwhile is reported once more."""
    before = session.clock.read_bytes()
    session.server.answers = lambda _: []
    write(session.work / "b", b"changed")
    session.command()
    assert session.last_capture() == (None, ["b"]) and session.clock.read_bytes() == before
    session.server.answers = session.server.answer
    write(session.work / "d" / "a", b"changed")
    session.server.changed = ["b", "d/a"]
    session.command("2")
    assert session.last_capture() == ("watchman", ["d/a"])
    session.check()


def test_ten_minutes_after_a_full_capture_comes_the_next(session: WatchedSession) -> None:
    """P1: watched captures do not put off the full one, and a clock that went back is no proof."""
    for number, moved_ns in enumerate((watched.FULL_NS - 10**9, watched.FULL_NS, -(10**9))):
        write(session.work / "b", b"changed %d" % number)
        session.server.changed = ["b"]
        noted = json.loads(session.clock.read_bytes())
        noted["full_ns"] = time.time_ns() - moved_ns
        session.clock.write_text(json.dumps(noted))
        session.command(str(number))
        assert session.last_capture() == ("watchman" if number == 0 else None, ["b"])
        if number == 0:
            assert json.loads(session.clock.read_bytes())["full_ns"] == noted["full_ns"]


def test_rules_that_changed_are_seen_at_once(tmp_path: Path, server: FakeWatchman,
                                             monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """P1: git's index and excludes decide what is captured; a watcher does not report them."""
    as_if_large(monkeypatch)
    (tmp_path / "work").mkdir()
    git(tmp_path / "work", "init", "-q")
    session = WatchedSession(tmp_path / "work", server)
    session.command("0")
    write(session.work / "b", b"changed")
    session.command("1")
    assert server.names[-1] == "query"
    write(session.work / ".git" / "info" / "exclude", b"/a\n")
    session.command("2")
    assert session.last_capture()[1] == ["a", "b"] and session.last_capture()[0] is None


def test_a_submodule_and_a_kept_file_are_compared_directly(
    tmp_path: Path, server: FakeWatchman, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: the commit of a submodule is outside of it, and a database may be written through a memory map."""
    as_if_large(monkeypatch)
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    for place in (work, work / "sub"):
        git(place, "init", "-q")
    git(work / "sub", "commit", "-q", "--allow-empty", "-m", "one")
    write(work / ".gitignore", b"*.db\n")
    write(work / "app.db", b"one")
    session = WatchedSession(work, server)
    (work / ".locus" / "keep-ignored").write_text("yes\n")
    session.say("Stop")
    session.turn = "t2"
    session.say("UserPromptSubmit", prompt="Go on")
    session.say("Stop")
    session.turn = "t3"
    session.say("UserPromptSubmit", prompt="Go on")
    session.command("0")
    git(work / "sub", "commit", "-q", "--allow-empty", "-m", "two")
    write(work / "app.db", b"two")
    session.command("1")
    assert session.last_capture() == ("watchman", ["app.db", "sub"])


@pytest.mark.parametrize("name", [".hg", ".svn"])
def test_names_that_are_not_reported_make_the_capture_a_full_one(name: str, session: WatchedSession) -> None:
    """P1: Watchman leaves out the directories of version control, which are captured."""
    note_watch(session.layout, session.work, session.server.path, unreported=(".hg", ".svn"))
    write(session.work / name / "entry", b"new")
    session.command()
    assert session.server.names == []
    assert session.last_capture() == (None, [f"{name}/entry"])


def test_an_edit_asks_nobody_and_leaves_the_clock(session: WatchedSession) -> None:
    """P1: the capture of the files of an edit is as without a watcher, and the older clock stays true."""
    before = session.clock.read_bytes()
    session.say("PreToolUse", "Edit")
    write(session.work / "d" / "a", b"edited")
    session.say("PostToolUse", "Edit")
    assert session.last_capture() == (None, ["d/a"]) and session.last_snapshot()[0] == ["d/a"]
    assert session.server.names == [] and session.clock.read_bytes() == before


def test_a_tool_after_its_turn_and_a_closing_capture_all(session: WatchedSession) -> None:
    """P1: the last capture of a turn that has its end is a full one."""
    session.say("PreToolUse", "Bash")
    session.say("Stop")
    write(session.work / "b", b"late, and not reported")
    session.say("PostToolUse", "Bash")
    assert session.last_capture() == (None, ["b"])
    assert "query" not in session.server.names


def test_without_the_setting_no_module_is_loaded_and_nobody_asked(session: WatchedSession) -> None:
    """P4: the note alone does nothing."""
    (session.work / ".locus" / "config.toml").write_text("")
    write(session.work / "b", b"changed")
    session.command()
    assert session.server.names == [] and session.last_capture() == (None, ["b"])


def test_among_few_files_nobody_is_asked(session: WatchedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: a full capture among few files is as fast as the question, and proves more."""
    monkeypatch.setattr(watched, "FILES_MIN", 1_000)
    write(session.work / "b", b"changed")
    session.command()
    assert session.server.names == [] and session.last_capture() == (None, ["b"])


def test_cookies_of_the_watcher_are_passed_over(session: WatchedSession) -> None:
    """P1: the server makes a file beside the user's for a moment; a capture may meet it."""
    write(session.work / ".watchman-cookie-host-1-2", b"")
    write(session.work / "b", b"changed")
    session.command()
    session.say("Stop")
    assert not any("cookie" in str(event["path"]) for event in session.events())


def test_only_known_watchers_can_be_set(session: WatchedSession) -> None:
    """Another value is a mistake in the settings, which names what there is."""
    (session.work / ".locus" / "config.toml").write_text('[capture]\nwatcher = "inotify"\n')
    from eventlog.base.fs import REAL

    read = config.read(REAL, session.layout)
    assert read.watcher is None and "watcher must be one of watchman" in str(read.problem)


def test_a_place_that_is_damaged_is_none(session: WatchedSession) -> None:
    """I22."""
    path = Path(session.layout.live(session.key + watched.WATCH))
    good = json.loads(path.read_bytes())
    bad: list[Any] = [{}, {**good, "socket": 1}, {**good, "unreported": None}, {**good, "instance": None}, []]
    for fields in bad:
        path.write_text(json.dumps(fields))
        assert watched.watch_of(session.layout, session.key) is None
    with pytest.raises(NoAnswer):
        watchman.ask("/" + "x" * 200, "clock", "/", time.monotonic() + 1)
