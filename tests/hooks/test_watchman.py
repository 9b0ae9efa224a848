"""Hooks and a true Watchman: what it reports, what it does not, and where it is found (docs/watcher.md)."""

import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.base.names import short
from eventlog.doctor import watchers
from eventlog.doctor.store import NOTE, OK
from eventlog.hooks import state, watched, watches
from eventlog.hooks.watches import NotWatched
from eventlog.replay.certainty import certainty_of
from eventlog.store import Store
from eventlog.worktree import watchman
from tests.conftest import examples
from tests.hooks.test_scope import Session
from tests.hooks.test_watched import SETTING, as_if_large
from tests.watchmen import Watchman, needs_watchman, true_server
from tests.worktree.support import on_disk
from tests.worktree.test_capture import write
from tests.worktree.test_scoped import CHANGE, change

pytestmark = needs_watchman
HOOK = [sys.executable, "-m", "locus_cli.hook_entry", "claude-code"]
FILES = 1_100  # among fewer no hook asks


@pytest.fixture(scope="module")
def server() -> Iterator[Watchman]:
    with true_server() as made:
        yield made


class HookedSession:
    """A session of processes: each hook call is the program that agents start."""

    def __init__(self, work: Path, server: Watchman) -> None:
        self.work, self.server, self.calls = work, server, 0
        for number in range(FILES):
            write(work / f"p{number % 40}" / f"f{number}", b"%d" % number)
        Store.init(work / ".locus").close()
        self.layout = Layout(str(work / ".locus"))
        (work / ".locus" / "config.toml").write_text(SETTING)
        server.watch(work)
        self.say("UserPromptSubmit", prompt="Go")
        self.note()

    def note(self) -> Any:
        return watches.note_all(REAL, self.layout, {"WATCHMAN_SOCK": self.server.socket})

    def say(self, name: str, **fields: Any) -> None:
        payload = {
            "session_id": "s",
            "prompt_id": "t1",
            "cwd": str(self.work),
            "hook_event_name": name,
            **fields,
        }
        environ = {**os.environ, "LOCUS_HOOK_PATIENCE": "50", "LOCUS_NO_MAINTENANCE": "1"}
        assert self.run({**payload, **fields}, environ).stderr == b""

    def run(
        self, said: dict[str, object], environ: dict[str, str], python: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[bytes]:
        command = [HOOK[0], *python, *HOOK[1:]]
        data = json.dumps(said).encode()
        done = subprocess.run(
            command, input=data, cwd=self.work, env=environ, capture_output=True, timeout=60
        )
        assert (done.returncode, done.stdout) == (0, b"")
        return done

    def modules(self) -> set[str]:
        """The modules that the hook after a command loads."""
        payload = {
            "session_id": "s",
            "prompt_id": "t1",
            "cwd": str(self.work),
            "hook_event_name": "PostToolUse",
        }
        command = {"tool_name": "Bash", "tool_use_id": "m", "tool_input": {"command": "make"}}
        environ = {**os.environ, "LOCUS_HOOK_PATIENCE": "50", "LOCUS_NO_MAINTENANCE": "1"}
        done = self.run({**payload, **command, "tool_response": {}}, environ, ("-X", "importtime"))
        return {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}

    def command(self) -> tuple[str | None, list[str]]:
        """Run a command's hook; which watcher chose its paths, and what it found."""
        self.calls += 1
        fields = {"tool_name": "Bash", "tool_use_id": f"c{self.calls}", "tool_input": {"command": "make"}}
        self.say("PostToolUse", **fields, tool_response={})
        with Store.open(self.work / ".locus") as store:
            events = list(store.events())
        action = max(n for n, event in enumerate(events) if event["event_type"] == "action")
        rest = events[action + 1 :]
        if not rest:
            return None, []
        payload: Any = rest[-1]["payload"]
        files = sorted(f"{event['operation']} {event['path']}" for event in rest[:-1])
        return (payload.get("capture") or {}).get("by"), files

    def check(self) -> None:
        with Store.open(self.work / ".locus") as store:
            tree = {path: (entry.kind, store.blobs.get(entry.id) if entry.kind != b"d" else b"")
                    for path, entry in store.tree("last").walk()}  # fmt: skip
        disk = on_disk(self.work)
        assert {path: row for path, row in tree.items() if row[0] != b"d"} == {
            path: row for path, row in disk.items() if row[0] != b"d"
        }


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, server: Watchman) -> HookedSession:
    made = HookedSession(tmp_path_factory.mktemp("watched") / "work", server)
    write(made.work / "first", b"1")
    made.command()  # has no clock yet
    return made


def test_a_hook_sees_each_kind_of_change(session: HookedSession) -> None:
    """P1, P7: created, changed, deleted and renamed files, new and deleted directories, modes and links are
    in the tree and among the changes, by a capture of what Watchman reports alone."""
    work = session.work
    write(work / "p0" / "new", b"new")
    write(work / "p1" / "f1", b"changed")
    (work / "p2" / "f2").unlink()
    assert session.command() == ("watchman", ["add p0/new", "delete p2/f2", "edit p1/f1"])
    os.rename(work / "p3" / "f3", work / "p4" / "moved")
    write(work / "n" / "o" / "p", b"in new directories")
    (work / "p5" / "f5").chmod(0o755)
    assert session.command() == ("watchman", ["add n/o/p", "mode p5/f5", "rename p4/moved"])
    shutil.rmtree(work / "p6")
    os.symlink("p7", work / "link")
    os.rename(work / "p8", work / "q8")
    by, found = session.command()
    assert by == "watchman" and "add link" in found
    assert {"delete p6/f6", "rename q8/f8"} <= set(found) and len(found) == 1 + 28 + 28
    (work / "link").unlink()
    write(work / "link" / "now", b"a directory")
    by, found = session.command()
    assert by == "watchman" and "add link/now" in found
    session.check()


def test_what_a_watch_does_not_report_is_found_at_the_end_of_the_turn(session: HookedSession) -> None:
    """P1: a write through a memory map, and one through a hard link elsewhere. The moments between are not
    exact for these paths, and for no others."""
    work = session.work
    write(work / "p9" / "mapped", b"a" * 4096)
    write(work / "p9" / "linked", b"before")
    session.command()
    os.link(work / "p9" / "linked", work.parent / "elsewhere")
    session.command()
    with open(work / "p9" / "mapped", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:5] = b"wrote"
        (work.parent / "elsewhere").write_bytes(b"by the other name")
        write(work / "p9" / "seen", b"seen")
        assert session.command() == ("watchman", ["add p9/seen"])
        session.say("Stop")
    with Store.open(work / ".locus") as store:
        events = list(store.events())
    action = [event for event in events if event["event_type"] == "action"][-1]
    missed = ["p9/linked", "p9/mapped"]
    assert [path for path, _ in certainty_of(events, str(action["event_id"])).paths] == missed
    late = [event for event in events if event["path"] in missed and event["operation"] == "edit"]
    assert len(late) == 2 and all(event["payload"]["certainty"] == "probable" for event in late)
    assert certainty_of(events).exact
    session.check()
    session.say("UserPromptSubmit", prompt="Go on")


def test_a_server_that_hangs_is_followed_by_a_full_capture(session: HookedSession) -> None:
    """P4, P1: the hook waits a moment for a stopped server, captures all, and exits with 0."""
    session.command()
    session.server.process.send_signal(signal.SIGSTOP)
    try:
        write(session.work / "p10" / "f10", b"changed while it hangs")
        assert session.command() == (None, ["edit p10/f10"])
    finally:
        session.server.process.send_signal(signal.SIGCONT)
    session.server.ask("clock", session.work)
    session.command()  # has no clock
    write(session.work / "p10" / "f10", b"and again")
    assert session.command() == ("watchman", ["edit p10/f10"])


def test_a_name_that_is_no_text_is_followed_by_a_full_capture(session: HookedSession) -> None:
    """P1: Watchman has no answer in JSON for such a name."""
    session.command()
    path = os.fsencode(session.work) + b"/p11/\xff"
    with open(path, "wb") as file:
        file.write(b"1")
    by, found = session.command()
    assert by is None and len(found) == 1
    os.unlink(path)
    session.command()
    session.command()


def test_a_watch_that_is_made_again_counts_once_it_is_noted(session: HookedSession) -> None:
    """P1: a new watch may have other settings, so its clock is believed when its place is noted again."""
    session.command()
    _tell(session.server, "watch-del", session.work)
    with pytest.raises(NotWatched, match="does not watch it"):
        watches.find(str(session.work), {"WATCHMAN_SOCK": session.server.socket})
    write(session.work / "p12" / "f12", b"1")
    assert session.command() == (None, ["edit p12/f12"])
    session.server.watch(session.work)
    for content in (b"2", b"3"):
        write(session.work / "p12" / "f12", content)
        assert session.command() == (None, ["edit p12/f12"])
    session.note()
    session.command()
    write(session.work / "p12" / "f12", b"4")
    assert session.command() == ("watchman", ["edit p12/f12"])


def _tell(server: Watchman, name: str, root: Path) -> None:
    """A command that takes no options, by Watchman's own client."""
    done = subprocess.run(
        ["watchman", f"--sockname={server.socket}", "--no-spawn", name, str(root)],
        capture_output=True,
        timeout=20,
        check=True,
    )
    assert b"error" not in done.stdout, done


def test_a_hook_loads_little_to_ask_and_nothing_without_the_setting(session: HookedSession) -> None:
    """P4: the import budget of the hook path."""
    ours = {"eventlog.hooks.watched", "eventlog.worktree.watchman", "_socket", "select"}
    heavy = {"socket", "selectors", "json", "subprocess", "eventlog.hooks.watches", "pyarrow", "click"}
    assert session.command()[0] in (None, "watchman")
    loaded = session.modules()
    assert ours <= loaded and not heavy & loaded
    settings = session.work / ".locus" / "config.toml"
    settings.unlink()
    try:
        assert not ours & session.modules() - {"select"}
    finally:
        settings.write_text(SETTING)


# -- any history -------------------------------------------------------------------------------

STEP = st.one_of(
    st.lists(CHANGE, max_size=4),
    st.sampled_from(("chmod", "move d", "remove f", "link", "stop", "edit", "lose the clock")),
)


@settings(
    max_examples=examples(10, 400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(STEP, min_size=1, max_size=7))
def test_any_history_gives_the_tree_of_the_disk(steps: list[Any], server: Watchman) -> None:
    """P1, I22: whatever changes between tools, a watched capture records the tree that one without a stat
    cache and without a watcher would."""
    import tempfile

    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as place:
        as_if_large(patched)
        work = Path(os.path.realpath(place)) / "work"
        session = Session(work)
        (work / ".locus" / "config.toml").write_text(SETTING)
        server.watch(work)
        layout = Layout(str(work / ".locus"))
        watches.note_all(REAL, layout, {"WATCHMAN_SOCK": server.socket})
        for number, step in enumerate(steps):
            _change(session, layout, step, number)
            session.say("PreToolUse", "Bash", str(number))
            session.say("PostToolUse", "Bash", str(number))
            checkpoint = state.read_checkpoint(layout, short(os.fsencode(work)))
            assert checkpoint.tree is not None
            with Store.open(work / ".locus") as store:
                from eventlog.checkout.materialize import walk

                tree = {path: entry.kind for path, entry in walk(store.blobs, checkpoint.tree)}
                texts = {path: store.blobs.get(entry.id) for path, entry in walk(store.blobs, checkpoint.tree)
                         if entry.kind != b"d"}  # fmt: skip
            disk = {path: row for path, row in on_disk(work).items() if row[0] != b"d"}
            assert {path: (tree[path], texts[path]) for path in texts} == disk


def _change(session: Session, layout: Layout, step: Any, number: int) -> None:
    work = session.work
    if isinstance(step, list):
        for path, content in step:
            change(work, path, content)
    elif step == "chmod" and (work / "a").is_file():
        (work / "a").chmod(0o755)
    elif step == "move d" and (work / "d").is_dir():
        os.rename(work / "d", work / f"moved{number}")
    elif step == "remove f" and (work / "f").is_dir():
        shutil.rmtree(work / "f")
    elif step == "link":
        os.symlink("a", work / f"link{number}")
    elif step == "edit":
        session.say("PreToolUse", "Edit", f"e{number}")
        change(work, "d/a", b"edit %d" % number)
        session.say("PostToolUse", "Edit", f"e{number}")
    elif step == "stop":
        session.say("Stop")
        session.turn = f"t{number + 2}"
        session.say("UserPromptSubmit", prompt="Go on")
    elif step == "lose the clock":
        Path(layout.live(short(os.fsencode(work)) + watched.CLOCK)).unlink(missing_ok=True)


# -- the place ---------------------------------------------------------------------------------


def test_a_place_below_a_watched_directory(tmp_path: Path, server: Watchman,
                                           monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """A directory is asked for by its way from the nearest watched one; nothing new is watched."""
    as_if_large(monkeypatch)
    top = Path(os.path.realpath(tmp_path))
    session = Session(top / "in" / "work")
    (session.work / ".locus" / "config.toml").write_text(SETTING)
    server.watch(top / "in")
    before = server.ask("watch-list")["roots"]
    layout = Layout(str(session.work / ".locus"))
    (place,) = watches.note_all(REAL, layout, {"WATCHMAN_SOCK": server.socket}).values()
    assert (place.root, place.relative) == (str(top / "in"), "work")  # type: ignore[union-attr]
    assert server.ask("watch-list")["roots"] == before
    for number in range(2):
        write(session.work / "d" / "a", b"%d" % number)
        write(top / "in" / "outside", b"%d" % number)
        session.say("PreToolUse", "Bash", str(number))
        session.say("PostToolUse", "Bash", str(number))
    assert session.last_snapshot() == (["d/a"], ["d/a"])
    until = time.monotonic() + 10
    clock = f"{place.instance}:1"  # type: ignore[union-attr]
    for left_out, names in (([".git"], {"d/a", ".locus/STORE"}), ([".git", ".locus"], {"d/a"})):
        answer = watchman.query(
            server.socket, str(top / "in"), clock, relative="work", left_out=left_out, until=until
        )
        assert names <= set(answer["files"])
    assert not any(name.startswith(".locus") for name in answer["files"])


def test_no_place_where_a_watch_proves_too_little(
    tmp_path: Path, server: Watchman, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: settings that leave directories out, warnings, file systems that others change; no server."""
    work = Path(os.path.realpath(tmp_path)) / "work"
    work.mkdir()
    environ = {"WATCHMAN_SOCK": server.socket}
    (work / ".watchmanconfig").write_text('{"ignore_dirs": ["build"]}')
    server.watch(work)
    with pytest.raises(NotWatched, match="ignore_dirs"):
        watches.find(str(work), environ)

    other = work.parent / "other"
    other.mkdir()
    server.watch(other)
    found = watches.find(str(other), environ)
    assert found.unreported == (".hg", ".svn") and found.instance.count(":") == 3
    for point, kind in (
        (str(other), "nfs4"),
        (f"{other}/below", "fuse.sshfs"),
        (str(other.parent), "overlay"),
    ):
        monkeypatch.setattr(watches, "mounts", lambda at=(point, kind): [("/", "ext4"), at])
        with pytest.raises(NotWatched, match=kind):
            watches.find(str(other), environ)
    monkeypatch.setattr(watches, "mounts", lambda: [("/", "ext4"), (f"{other}er", "nfs")])
    machine = tmp_path / "watchman.json"
    machine.write_text('{"ignore_dirs": ["x"]}')
    monkeypatch.setattr(watches, "GLOBAL_SETTINGS", str(machine))
    with pytest.raises(NotWatched, match="ignore_dirs"):
        watches.find(str(other), environ)
    machine.unlink()
    _tell(server, "debug-recrawl", other)
    with pytest.raises(NotWatched, match="Recrawled"):
        watches.find(str(other), environ)
    with pytest.raises(NotWatched, match="no answer"):
        watches.find(str(other), {"WATCHMAN_SOCK": str(tmp_path / "nobody")})
    with pytest.raises(NotWatched, match="no program"):
        watches.find(str(other), {"PATH": str(tmp_path)})


def test_the_program_that_names_the_socket_starts_no_server(
    tmp_path: Path, server: Watchman, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P5: it is called with `--no-spawn`, and asked for nothing but the name."""
    log = tmp_path / "log"
    program = tmp_path / "bin" / "watchman"
    write(program, b'#!/bin/sh\necho "$@" >> %s\necho \'{"sockname": "%s"}\'\n'
          % (os.fsencode(log), os.fsencode(server.socket)))  # fmt: skip
    program.chmod(0o755)
    work = Path(os.path.realpath(tmp_path)) / "work"
    work.mkdir()
    with pytest.raises(NotWatched, match="does not watch it"):
        watches.find(str(work), {"PATH": f"{program.parent}:/usr/bin:/bin"})
    assert log.read_text() == "--no-spawn --no-pretty get-sockname\n"


def test_maintenance_and_the_doctor_note_the_place(
    tmp_path: Path, server: Watchman, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doctor offers the setting where it would help, and says which place hooks ask, or why none."""
    monkeypatch.setenv("WATCHMAN_SOCK", server.socket)
    session = Session(Path(os.path.realpath(tmp_path)) / "work")
    root = session.work / ".locus"
    layout, key = Layout(str(root)), short(os.fsencode(session.work))
    note = Path(layout.live(key + watched.WATCH))
    server.watch(session.work)

    def findings() -> list[tuple[str, str]]:
        with Store.open(root) as store:
            return [(finding.level, finding.what) for _, check in watchers.CHECKS for finding in check(store)]

    def maintain() -> None:
        code = "import sys; from locus_cli.maintainer import main; main(sys.argv[1])"
        subprocess.run([sys.executable, "-c", code, str(root)], check=True, timeout=120)

    assert findings() == []
    monkeypatch.setattr(watchers, "OFFERED_FILES_MIN", 4)
    ((level, what),) = findings()
    assert level == NOTE and "hooks could ask it" in what
    assert watches.note_all(REAL, layout, os.environ) == {}, "nothing without the setting"
    assert not note.exists()

    (root / "config.toml").write_text(SETTING)
    ((level, what),) = findings()
    assert level == OK and str(session.work) in what and note.exists()
    note.unlink()
    maintain()
    assert json.loads(note.read_bytes())["root"] == str(session.work)

    monkeypatch.setenv("WATCHMAN_SOCK", str(tmp_path / "nobody"))
    ((level, what),) = findings()
    assert level == NOTE and "ask no watcher" in what and not note.exists()
