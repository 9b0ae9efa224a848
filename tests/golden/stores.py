"""Golden stores as they are committed: how one is packed, unpacked, fed and asked.

`stores/NAME.tar.gz` holds a *place*, a directory as it was when this store was finished:

    kiosk/            the project, with its `.locus` (no index, no locks, no tmp: those are derived)
    left/             what the agents left on disk, below a directory for each
    history.bundle    the git repository that was imported, where one was
    steps.jsonl       the calls of hooks that were played, as `tests/golden/sessions.py` gives them
    facts.json        `clock_us`: what time it is for whoever reads; `imports`: arguments of `locus import`

`stores/NAME.answers.jsonl.gz` holds what that revision answered: `name`, `arguments`, `code`, `out`, `err`.

The place is unpacked anywhere. Where its path matters, it is made not to: transcripts are named below
`/proc/self/cwd`, which is the place for whoever works in it; notes of hooks are called after the project's
path, and are renamed. `@PLACE@` stands for the place in arguments and answers, `@OUT@` for an empty
directory.
"""

import contextlib
import gzip
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blake3 import blake3

from eventlog import store
from eventlog.base.fs import FileSystem
from eventlog.base.layout import DIRECTORIES, INDEX_DIR, LIVE_DIR, LOCK_DIR, STATCACHE_DIR, TMP_DIR
from eventlog.query.connection_cache import ConnectionCache
from locus_cli.main import run
from tests import forked
from tests.cli.support import GIT_ENVIRONMENT
from tests.golden.sessions import HOME

Json = dict[str, Any]

STORES = Path(__file__).parent / "stores"
# What `/proc/self/cwd` is to a process that works in the place.
LEFT = "/proc/self/cwd/left"

_DERIVED = (INDEX_DIR, LOCK_DIR, TMP_DIR, STATCACHE_DIR)
# Over the lines of an export, which may have more keys in later revisions.
_DIGEST = re.compile(r'(\{"end":true,.*"blake3":")[0-9a-f]{64}(")')
_SIZE = re.compile(r"\b[0-9][0-9.,]* [kMG]?B\b")
_KEY = "@KEY@"
_ENVIRON = {
    **GIT_ENVIRONMENT, "COLUMNS": "80", "TZ": "UTC", "LOCUS_NO_MAINTENANCE": "1", "LOCUS_HOOK_PATIENCE": "20",
}  # fmt: skip
_VERSION = re.compile(r'("locus-eventlog","version":")[^"]*(")')


@dataclass(frozen=True, slots=True)
class Answer:
    """What one command printed. `err` counts too: it is where words go."""

    name: str
    arguments: list[str]
    code: int
    out: str
    err: str


class Place:
    """An unpacked golden store, and the processes that work in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.project = directory / "kiosk"
        self.store = self.project / ".locus"

    @property
    def facts(self) -> Json:
        found: Json = json.loads((self.directory / "facts.json").read_text())
        return found

    def steps(self) -> list[Json]:
        path = self.directory / "steps.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    # -- writing ---------------------------------------------------------------------------------

    def play(self, steps: "Sequence[Json]", *, leave: bool = True, change: bool = True) -> None:
        """Give the steps to the hook program; `leave` what the agent writes, `change` files before."""
        for step in steps:
            if change:
                for path, text in step["changes"].items():
                    self._change(path, text)
            for file, lines in step["lines"].items() if leave else ():
                self.leave(file, lines)
            if step["call"] is not None:
                self.hook(step["agent"], step["call"])

    def _change(self, path: str, text: str | None) -> None:
        target = self.project / path
        if text is None:
            target.unlink()
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)

    def leave(self, file: str, lines: "Sequence[Json]") -> None:
        """Add lines to a transcript."""
        path = self.directory / "left" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as opened:
            for line in lines:
                opened.write(json.dumps(line).replace("@PROJECT@", HOME) + "\n")

    def hook(self, agent: str, call: Json) -> bytes:
        """One call of the hook program, which ends well (P4); gives what it printed: a briefing at most."""
        reported = json.dumps(call).replace("@PROJECT@", str(self.project))
        reported = reported.replace("@LEFT@", str(self.directory / "left"))
        variables = {"PATH": os.environ["PATH"], **_ENVIRON, "HOME": str(self.directory / "home")}
        done = forked.hook(reported.encode(), agent, self.directory, variables)
        assert (done.returncode, done.stderr) == (0, b"")
        log = self.store / TMP_DIR / "hook-errors.log"
        assert not log.exists(), log.read_text()
        return done.stdout

    def imports(self) -> list[Json]:
        """Repeat the imports that made the store; what each of them reported."""
        if (self.directory / "history.bundle").exists() and not (self.directory / "history").exists():
            _git(self.directory, "clone", "-q", "-b", "main", "history.bundle", "history")
        answers = [self.ask(["import", *arguments, "--json"]) for arguments in self.facts["imports"]]
        assert [(one.code, one.err) for one in answers] == [(0, "")] * len(answers), answers
        return [json.loads(one.out)["import"] for one in answers]

    # -- reading ---------------------------------------------------------------------------------

    def ask(self, arguments: "Sequence[str]", name: str = "") -> Answer:
        """What `locus` says in the place, with paths and versions of today taken out."""
        out = self.directory / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        whole = ["--store", str(self.store), *(_put(one, self.directory, out) for one in arguments)]
        with _alone(self.directory), _captured() as streams:
            code = run(whole)
            texts = [stream.getvalue().decode("utf-8", "backslashreplace") for stream in streams]
        texts[0] += "".join(f"{line}\n" for line in _listing(out))
        reported, words = (_normal(text, self.directory, out) for text in texts)
        return Answer(
            name or " ".join(arguments), list(arguments), code, reported, _SIZE.sub("@SIZE@", words)
        )

    def count(self) -> int:
        """How many events are seen."""
        answer = self.ask(["sql", "--json", "select count(*) as n from events"])
        assert answer.code == 0, answer.err
        found: int = json.loads(answer.out)[0]["n"]
        return found


def names() -> list[str]:
    return sorted(path.name.removesuffix(".tar.gz") for path in STORES.glob("*.tar.gz"))


def unpack(name: str, directory: Path) -> Place:
    """Put a golden store into `directory`, as if it had always been there."""
    with tarfile.open(STORES / f"{name}.tar.gz") as archive:
        archive.extractall(directory, filter="data")
    place = Place(directory)
    for below in DIRECTORIES:
        (place.store / below).mkdir(mode=0o700, exist_ok=True)
    live = place.store / LIVE_DIR
    for path in live.glob(f"{_KEY}*"):
        path.rename(live / path.name.replace(_KEY, _key_of(place.project)))
    (directory / "home").mkdir()
    return place


def pack(place: Place, name: str) -> None:
    """Make the archive of a finished place: its own bytes, and nobody's names, modes or times."""
    live = place.store / LIVE_DIR
    for path in live.glob(f"{_key_of(place.project)}*"):
        path.rename(live / path.name.replace(_key_of(place.project), _KEY))
    for below in _DERIVED:
        shutil.rmtree(place.store / below, ignore_errors=True)
    for unwanted in ("home", "out", "history"):
        shutil.rmtree(place.directory / unwanted, ignore_errors=True)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path in sorted(place.directory.rglob("*")):
            archive.add(path, path.relative_to(place.directory), recursive=False, filter=_anonymous)
    STORES.mkdir(exist_ok=True)
    (STORES / f"{name}.tar.gz").write_bytes(gzip.compress(data.getvalue(), mtime=0))


def answers_of(name: str) -> list[Answer]:
    data = gzip.decompress((STORES / f"{name}.answers.jsonl.gz").read_bytes())
    return [Answer(**json.loads(line)) for line in data.splitlines()]


@contextlib.contextmanager
def clock(now_us: int) -> "Iterator[None]":
    """Have this process, and no other, believe that it is `now_us`."""
    real = FileSystem.time_ns
    FileSystem.time_ns = lambda _self: now_us * 1000  # type: ignore[method-assign]
    try:
        yield
    finally:
        FileSystem.time_ns = real  # type: ignore[method-assign]


class _Lent(ConnectionCache[Any]):
    """The connection of another one, which stays there when a store closes."""

    def __init__(self, owner: ConnectionCache[Any]) -> None:
        super().__init__()
        self.take = owner.take  # type: ignore[method-assign]
        self.put = owner.put  # type: ignore[method-assign]


@contextlib.contextmanager
def one_connection() -> "Iterator[None]":
    """Have the commands of this process share the connection that answered last, as questions of one `Store`
    do. To connect and to fold the log is most of what a small question costs. Of one store alone."""
    real, shared = store.ConnectionCache, ConnectionCache[Any]()
    store.ConnectionCache = lambda: _Lent(shared)  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        store.ConnectionCache = real  # type: ignore[misc]
        shared.release()


@contextlib.contextmanager
def _captured() -> "Iterator[tuple[io.BytesIO, io.BytesIO]]":
    """What this process writes to standard output and error, as bytes."""
    buffers = io.BytesIO(), io.BytesIO()
    old = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(one, "utf-8", "surrogateescape", write_through=True) for one in buffers
    )
    try:
        yield buffers
    finally:
        sys.stdout, sys.stderr = old


@contextlib.contextmanager
def _alone(place: Path) -> "Iterator[None]":
    """In the place, without what differs between machines: variables, settings of git, lists of prices."""
    environ = dict(os.environ)
    prices = {name: module for name, module in sys.modules.items() if name.startswith("genai_prices")}
    os.environ.clear()
    os.environ |= {"PATH": environ["PATH"], **_ENVIRON, "HOME": str(place / "home")}
    sys.modules |= dict.fromkeys([*prices, "genai_prices"])  # type: ignore[arg-type]
    try:
        with contextlib.chdir(place):
            yield
    finally:
        os.environ.clear()
        os.environ |= environ
        del sys.modules["genai_prices"]
        sys.modules |= prices


def _listing(out: Path) -> "Iterator[str]":
    """What a command wrote into its directory: a text as it is, of a tree path, mode and digest."""
    paths = sorted(path for path in out.rglob("*") if path.is_symlink() or not path.is_dir())
    for path in paths:
        if path.suffix == ".jsonl":
            yield from path.read_text().splitlines()
        elif path.is_symlink():
            yield f"{path.relative_to(out)} link {os.readlink(path)}"
        else:
            kind = "exec" if path.stat().st_mode & stat.S_IXUSR else "file"
            yield f"{path.relative_to(out)} {kind} {blake3(path.read_bytes()).hexdigest()}"


def _put(argument: str, place: Path, out: Path) -> str:
    return argument.replace("@OUT@", str(out)).replace("@PLACE@", str(place))


def _normal(text: str, place: Path, out: Path) -> str:
    text = text.replace(str(out), "@OUT@").replace(str(place), "@PLACE@")
    return _DIGEST.sub(r"\1@DIGEST@\2", _VERSION.sub(r"\1@VERSION@\2", text))


def _key_of(project: Path) -> str:
    """What notes of hooks are called after (docs/hooks.md)."""
    return blake3(os.fsencode(os.path.realpath(project))).hexdigest()[:16]


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


def _git(directory: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(directory), *arguments], check=True, capture_output=True)
