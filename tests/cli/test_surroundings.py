"""Bad surroundings: full and read-only disks, no descriptors, strange places, odd clocks, copied stores.

Each ends with one clear line and a documented exit code, loses nothing that was acknowledged, and leaves
a store that can be read and, once the surroundings are well again, written.
"""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.base import store_location
from eventlog.base.errors import Corruption, EventLogError, LockTimeout, Refused
from eventlog.base.fs import REAL, FileSystem
from eventlog.base.layout import JOURNAL_DIR, Layout
from eventlog.base.locks import MAINTAIN, acquire
from eventlog.base.types import Event
from eventlog.log.journal_reading import end_of_journal
from eventlog.store import Store
from tests.blobs.support import as_process
from tests.cli.support import Locus, Recorded, git, locus_process
from tests.cli.test_bad_input import is_refused

NOTE: Event = {"event_type": "note"}
RUN = "import sys; from locus_cli.main import main; main(sys.argv[1:])"


def limited(limit: str, value: int, *arguments: object, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run `locus` in a process with a resource limit of the kernel."""
    code = f"import resource as r; r.setrlimit(r.{limit}, ({value}, {value})); {RUN}"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


def one_line(done: "subprocess.CompletedProcess[str]", code: int, *words: str) -> bool:
    return (
        done.returncode == code
        and done.stderr.startswith("locus: ")
        and done.stderr.count("\n") == 1
        and all(word in done.stderr for word in words)
    )


def is_sound(store: Path) -> bool:
    with Store.open(store) as opened:
        return opened.verify("deep") == []


class Cheap(FileSystem):
    """The real file system without its syncs: for tests of how much, not of what survives."""

    def fsync(self, fd: int) -> None:
        pass

    def fdatasync(self, fd: int) -> None:
        pass

    def fsync_dir(self, path: str) -> None:
        pass


# -- a full disk --------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three commits with 40 kB each that do not compress, and an empty store."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q")
    for number in range(3):
        (root / f"file-{number}").write_bytes(os.urandom(40_000))
        git(root, "add", "-A")
        git(root, "commit", "-qm", f"Commit {number}", at=number)
    Store.init(root / ".locus").close()
    return root


def test_an_import_onto_a_full_disk_is_reported_and_goes_on_later(repository: Path) -> None:
    """I24, I35: no room for a pack: one line, nothing half stored; with room the command completes it."""
    assert one_line(limited("RLIMIT_FSIZE", 8192, "import", "git", cwd=repository), 1, "packs", "ulimit -f")
    assert is_sound(repository / ".locus")
    assert locus_process("import", "git", cwd=repository).code == 0
    assert is_sound(repository / ".locus")


def test_a_full_disk_stops_neither_reading_nor_a_partial_replay(repository: Path, tmp_path: Path) -> None:
    """P1, I35: what cannot be written is listed with exit 4; log and verify work; an index waits."""
    assert locus_process("import", "git", cwd=repository).code == 0
    replayed = limited("RLIMIT_FSIZE", 8192, "replay", "last", "--to", tmp_path / "out", cwd=repository)
    assert replayed.returncode == 4
    assert (replayed.stdout + replayed.stderr).count("not reproduced: ") == 3
    assert limited("RLIMIT_FSIZE", 8192, "log", cwd=repository).returncode == 0
    rebuilt = limited("RLIMIT_FSIZE", 8192, "store", "rebuild", cwd=repository)
    assert one_line(rebuilt, 1, "index", "Nothing is lost", "locus store rebuild")
    assert is_sound(repository / ".locus")


def test_an_append_and_a_seal_on_a_full_disk_lose_nothing(tmp_path: Path) -> None:
    """I1, I3, I35: the journal cannot grow: nothing is acknowledged and nothing of it is left; then it is."""
    with Store.init(tmp_path / ".locus") as store:
        store.append([{**NOTE, "title": "first"}])
    size = end_of_journal(REAL, str(max((tmp_path / ".locus/log/journal").iterdir())))
    append = (
        "import resource as r\nfrom eventlog.store import Store\n"
        f"s = Store.open({str(tmp_path / '.locus')!r})\n"
        f"r.setrlimit(r.RLIMIT_FSIZE, ({size + 100}, {size + 100}))\n"
        "try:\n    s.append([{'event_type': 'note', 'title': 'x' * 500}])\n"
        "except Exception as e:\n    print(type(e).__name__, e)\n"
        "try:\n    s.seal()\nexcept Exception as e:\n    print(type(e).__name__, e, flush=True)\n"
        "import os; os._exit(0)"  # as `locus` ends: without the clean-up of libraries' threads
    )
    done = subprocess.run([sys.executable, "-c", append], capture_output=True, text=True, check=True)

    refused, not_sealed = done.stdout.splitlines()
    assert refused.startswith("NotDurable ") and "Nothing was acknowledged" in refused
    assert not_sealed.startswith("NotDurable ") and "cannot seal" in not_sealed
    with Store.open(tmp_path / ".locus") as store:
        assert [event["title"] for event in store.events()] == ["first"]
        assert store.append([{**NOTE, "title": "second"}]) == range(1, 2)
        store.seal()
    assert is_sound(tmp_path / ".locus")


# -- permissions --------------------------------------------------------------------------------------


def bound_by_permissions() -> list[str]:
    """Words before a command that make permission bits count, also for root."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("permission bits do not bind root, and there is no setpriv to change that")
    return ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]


def as_subject(*arguments: object, cwd: Path) -> "subprocess.CompletedProcess[str]":
    command = [*bound_by_permissions(), sys.executable, "-m", "locus_cli", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def read_only(copied: Recorded) -> Iterator[Recorded]:
    """A recorded store with a tail, of which no file and no directory may be written."""
    with Store.open(copied.store) as store:
        store.append([NOTE])
    paths = [copied.store, *copied.store.rglob("*")]
    for path in paths:
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222)
    yield copied
    for path in paths:
        if path.exists():
            path.chmod(stat.S_IMODE(path.stat().st_mode) | 0o200)


@pytest.mark.parametrize(
    "command",
    ["log", "show last", "timeline last", "status", "store verify --deep", "replay last --to ../out"],
)
def test_a_read_only_store_is_read(read_only: Recorded, command: str) -> None:
    """I35: reading needs no write permission: same answers, nothing on stderr but words of success."""
    done = as_subject(*command.split(), cwd=read_only.root)

    assert done.returncode == 0, done.stderr
    assert "locus: " not in done.stderr


@pytest.mark.parametrize("command", ["store seal", "store rebuild", "import git"])
def test_writing_to_a_read_only_store_is_reported(read_only: Recorded, command: str) -> None:
    """I1, I35: writing says which file may not be written, exit 1, and changes nothing."""
    before = sorted(str(path) for path in read_only.store.rglob("*"))

    assert one_line(as_subject(*command.split(), cwd=read_only.root), 1, "Permission denied", "permission")
    assert sorted(str(path) for path in read_only.store.rglob("*")) == before


def test_a_permission_that_goes_in_mid_run_is_reported_and_comes_back(tmp_path: Path) -> None:
    """I1, I32: with directories closed, kept descriptors append and sealing refuses; then all works."""
    program = """
import os, sys
from eventlog.base.errors import EventLogError
from eventlog.base.layout import DIRECTORIES
from eventlog.store import Store
store = Store.init(sys.argv[1])
paths = [store.layout.directory(name) for name in DIRECTORIES]
store.append([{"event_type": "note"}])
for path in paths: os.chmod(path, 0o500)
store.append([{"event_type": "note"}])
for work in (store.seal, store.rebuild):
    try: work()
    except EventLogError as error: print(type(error).__name__, str(error).replace(chr(10), " "))
for path in paths: os.chmod(path, 0o700)
store.append([{"event_type": "note"}])
store.seal(); store.rebuild()
print(len(list(store.events())), store.verify("deep"))
"""
    command = [*bound_by_permissions(), sys.executable, "-c", program, str(tmp_path / ".locus")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    refused, last = done.stdout.splitlines()
    assert "Permission denied" in refused and "again" in refused
    assert last == "3 []"


# -- descriptors --------------------------------------------------------------------------------------

FEW = """
import os, sys
from eventlog.base.errors import EventLogError
from eventlog.base.fs import REAL
from eventlog.store import Store
from eventlog.importers.git_history import import_git
import eventlog.log.seal, eventlog.query.engine, eventlog.projections.index, eventlog.checkout.materialize
import resource
root, repository, out = sys.argv[1:]
def view():
    with Store.open(root) as s: assert len(list(s.events())) > 3 and s.status().turns
def append():
    with Store.open(root) as s: s.append([{"event_type": "note"}])
def replay():
    with Store.open(root) as s: s.replay("last", out, force=True)
def again():
    with Store.open(root) as s: import_git(s, repository)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
for work in (view, append, replay, again):
    work()
    outcomes = set()
    for free in (0, 1, 2, 4, 6, 9, 14):
        taken = []
        try:
            while True: taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError: pass
        for _ in range(free): os.close(taken.pop())
        try:
            work()
            outcomes.add("done")
        except EventLogError as error:
            assert len(str(error)) > 20
            outcomes.add("told")
        finally:
            for fd in taken: os.close(fd)
    work()
    print(work.__name__, *sorted(outcomes))
print(len(os.listdir("/proc/self/fd")))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors by /proc")
def test_without_descriptors_everything_is_reported_and_nothing_kept(
    copied: Recorded, tmp_path: Path
) -> None:
    """I32, I35: append, view, replay and import with 0 to 14 free descriptors: done, or one of our errors."""
    command = [sys.executable, "-c", FEW, str(copied.store), str(copied.root), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    *works, fds = done.stdout.splitlines()
    assert works == [f"{name} done told" for name in ("view", "append", "replay", "again")]
    assert int(fds) < 20
    assert is_sound(copied.store)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors by /proc")
def test_appending_grows_neither_memory_nor_descriptors(tmp_path: Path) -> None:
    """I35: 20,000 appends of one process: as many descriptors as before, and no memory for each event."""
    program = """
import os, sys
from eventlog.store import Store
from tests.cli.test_surroundings import Cheap
def rss(): return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
with Store.init(sys.argv[1], fs=Cheap()) as store:
    for number in range(20_000):
        if number == 2_000: before = rss(), len(os.listdir("/proc/self/fd"))
        store.append([{"event_type": "note", "payload": {"text": "x" * 200}}])
    print(rss() - before[0], len(os.listdir("/proc/self/fd")) - before[1])
"""
    command = [sys.executable, "-c", program, str(tmp_path / ".locus")]
    root = str(Path(__file__).parent.parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)

    memory, descriptors = map(int, done.stdout.split())
    assert descriptors == 0
    assert memory < 4 << 20  # 18,000 events of 500 bytes would be 9 MB


def test_more_journals_than_descriptors_are_read_and_sealed(tmp_path: Path) -> None:
    """I35: 200 journals that nobody sealed, and 64 descriptors: read, verified, sealed, removed."""
    root = tmp_path / ".locus"
    with Store.init(root, fs=Cheap()) as store:
        for _ in range(200):
            store.append([NOTE])
            store.journal.rotate()
    program = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from eventlog.store import Store
with Store.open({str(root)!r}) as store:
    print(len(list(store.events())), store.verify("read"))
    store.seal()
    print(len(list(store.events())), store.verify("deep"))
"""
    # More journals than may be locked at once, and than there are descriptors.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "200 []\n200 []\n"
    assert len(os.listdir(root / JOURNAL_DIR)) == 1


# -- copied and moved stores --------------------------------------------------------------------------


def test_a_copied_store_is_a_store_of_its_own(copied: Recorded, tmp_path: Path) -> None:
    """I1, I6: original and copy are both written on; each keeps its own events, and neither is damaged."""
    other = tmp_path / "other.locus"
    shutil.copytree(copied.store, other)
    titles = {}
    for root in (copied.store, other):
        with Store.open(root) as store:
            for number in range(3):
                store.append([{**NOTE, "title": f"{root.name} {number}"}])
                store.seal()
            titles[root] = [e["title"] for e in store.events(event_types=["note"])]

    assert titles == {r: [f"{r.name} {n}" for n in range(3)] for r in (copied.store, other)}
    assert is_sound(copied.store) and is_sound(other)


def test_two_histories_in_one_store_are_reported(copied: Recorded, tmp_path: Path) -> None:
    """I16: files of a copy that went its own way, put back over the original, are damage and are named."""
    other = tmp_path / "other.locus"
    shutil.copytree(copied.store, other)
    for root in (copied.store, other):
        with Store.open(root) as store:
            for number in range(2):
                store.append([{**NOTE, "title": f"{root.name} {number}"}])
                store.seal()
    newest = max((other / "log/manifest").iterdir())
    shutil.copy(newest, copied.store / "log/manifest" / newest.name)

    with Store.open(copied.store) as store:
        listed = [finding.what for finding in store.verify("quick")]
    assert any("two histories were mixed" in what for what in listed)


def test_a_copy_made_during_appends_is_a_prefix_or_says_what_is_missing(tmp_path: Path) -> None:
    """I6, I13: `cp -r` beside a writer that seals: the copy opens as a prefix, or names what it lacks."""
    root = tmp_path / ".locus"
    Store.init(root).close()
    writer = (
        f"from eventlog.store import Store\ns = Store.open({str(root)!r})\n"
        "for n in range(1_000_000):\n    s.append([{'event_type': 'note', 'title': str(n)}])\n"
        "    if n % 40 == 39: s.seal()\n    if n == 50: print('ready', flush=True)"
    )
    copies = [tmp_path / f"copy-{number}.locus" for number in range(5)]
    with subprocess.Popen([sys.executable, "-c", writer], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            for copy in copies:
                subprocess.run(["cp", "-r", root, copy], check=False, stderr=subprocess.DEVNULL)
        finally:
            process.kill()
    with Store.open(root) as store:
        final = [event["title"] for event in store.events()]

    prefixes = 0
    for copy in copies:
        with Store.open(copy) as store:
            try:
                seen = [event["title"] for event in store.events()]
            except Corruption as error:
                assert str(copy) in str(error)
                assert store.verify("quick") != []
                continue
            assert seen == final[: len(seen)]
            assert store.append([NOTE]) == range(len(seen), len(seen) + 1)
            prefixes += 1
    assert prefixes > 0


def test_a_store_moved_to_a_shared_file_system_is_read_and_not_written(
    copied: Recorded, locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store made on a local disk and found on one that machines share: read as ever, exit 3 for writing.

    The kind of file system that this test runs on is taken for a shared one.
    """
    kind = store_location.file_system_of(str(tmp_path))
    monkeypatch.setattr(store_location, "SHARED_FILE_SYSTEMS", frozenset([kind]))

    assert locus("log").code == 0
    assert is_refused(locus("store", "seal"), 3, str(kind), "Move the store")
    with Store.open(copied.store) as store, pytest.raises(Refused, match="nothing was written"):
        store.append([NOTE])
    (tmp_path / "new").mkdir()
    assert is_refused(locus("init", tmp_path / "new"), 3, "--force")
    assert locus("init", "--force", tmp_path / "new").code == 0
    with Store.open(tmp_path / "new/.locus") as store:
        assert store.append([NOTE]) == range(1)


# -- clocks -------------------------------------------------------------------------------------------


class Backwards(FileSystem):
    """A wall clock that jumps an hour back each time it is read."""

    def __init__(self) -> None:
        self.now_ns = 1_800_000_000_000_000_000

    def time_ns(self) -> int:
        self.now_ns -= 3600 * 10**9
        return self.now_ns


def test_a_clock_that_runs_backwards_changes_no_order(tmp_path: Path) -> None:
    """I2, I4: order is by position; rotation, seal and index do not look at the clock."""
    fs = Backwards()
    with Store.init(tmp_path / ".locus", fs=fs) as store:
        for number in range(4):
            store.append([{**NOTE, "title": str(number), "session_id": "s", "turn": 1}])
            if number < 3:
                store.journal.rotate()
            if number == 1:
                store.seal()
                store.reindex()
        events = list(store.events())
        assert [event["title"] for event in events] == list("0123")
        assert [event["seq"] for event in events] == [1, 2, 3, 4]
        times = [int(str(event["recorded_at"])) for event in events]
        assert times == sorted(times, reverse=True)
        assert store.query("select event_count from turns").rows == [(4,)]
        assert store.verify("deep") == []


def test_a_wait_for_a_lock_ends_whatever_the_clock_does(tmp_path: Path) -> None:
    """I31: deadlines are of the monotonic clock."""
    fs = Backwards()
    Store.init(tmp_path / ".locus", fs=fs).close()
    layout = Layout(str(tmp_path / ".locus"))
    with acquire(fs, layout, MAINTAIN), pytest.raises(LockTimeout):
        as_process(lambda: acquire(fs, layout, MAINTAIN, timeout_s=0.05))


# -- places -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", "dangling"])
def test_a_locus_that_is_no_directory_is_reported(
    kind: str, tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`.locus` is a file, or a link to nothing: init refuses and leaves it, reading finds no store."""
    path = tmp_path / ".locus"
    if kind == "file":
        path.write_text("mine")
    else:
        path.symlink_to(tmp_path / "nowhere")
    monkeypatch.chdir(tmp_path)

    assert is_refused(locus("init"), 3, str(path), "Move it away")
    assert is_refused(locus("log"), 10, "locus init")
    assert is_refused(locus("--store", path, "log"), 10, str(path))
    assert path.read_text() == "mine" if kind == "file" else path.is_symlink()


def test_a_log_that_lost_its_store_file_gets_no_other(copied: Recorded, locus: Locus) -> None:
    """I10: init over a log whose STORE is gone refuses, since no other identity fits it; with the file back,
    all is there."""
    store_file = copied.store / "STORE"
    content = store_file.read_bytes()
    store_file.unlink()

    assert is_refused(locus("init"), 3, "STORE is gone", "backup")
    assert not store_file.exists()
    store_file.write_bytes(content)
    assert is_sound(copied.store)


def test_a_link_to_a_directory_is_a_store(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`.locus` may be a link to a directory elsewhere."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project/.locus").symlink_to(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "project")

    assert locus("init").code == 0
    assert locus("store", "verify").code == 0
    assert (tmp_path / "elsewhere/STORE").is_file()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_somebody_elses_store_is_not_used_unasked(copied: Recorded, locus: Locus) -> None:
    """P5: a store of another user in a directory above is refused with exit 3, unless it is named."""
    os.chown(copied.store / "STORE", 12345, -1)

    assert is_refused(locus("log"), 3, "another user", "--store")
    assert locus("--store", copied.store, "log").code == 0


@pytest.mark.parametrize("command", ["init LONG", "--store LONG log", "replay last --to LONG", "init DEEP"])
def test_a_name_that_is_too_long_is_reported(command: str, recorded: Recorded, locus: Locus) -> None:
    """A name beyond what the file system takes is one line and exit 1; nothing is made."""
    long, deep = "x" * 300, "/".join(["y" * 200] * 25)
    ended = locus(*command.replace("LONG", long).replace("DEEP", deep).split())

    assert is_refused(ended, 1, "x" * 300 if "LONG" in command else "y" * 200)
    assert "xxx" not in " ".join(os.listdir("."))


def test_errors_say_where_and_what_next(tmp_path: Path) -> None:
    """P7: what the machine refuses is reported with the path, the reason and the way out."""
    from eventlog.base.fs import store_error

    full = store_error(OSError(28, "No space left on device", str(tmp_path)), "elsewhere", "do this")
    odd = store_error(OSError("no errno at all"), "some/path", "do that")

    assert isinstance(full, EventLogError)
    assert str(full).startswith(f"{tmp_path}: cannot do this: No space left on device. ")
    assert "free space" in str(full)
    assert str(odd).startswith("some/path: cannot do that: no errno at all. ")
