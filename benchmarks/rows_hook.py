"""What recording an agent costs: a hook's process, a capture of the working directory, bytes kept."""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from statistics import median
from typing import Any

from benchmarks.capturer import Capturer, seconds_of_capture
from benchmarks.frame import BYTES_UNIT, TIME_UNIT, Bench, Row, Sides
from benchmarks.process import environment, git, locus, run
from benchmarks.stores import sealed_store
from eventlog import Store

_AGENT = "claude-code"
_EDITED = "src/d0/edited.py"
_EDITED_BYTES = 40_000
_STORED_S = 120
_LOOKED_AT = 950  # about as many as are compared before a command
_HOOKS = 100  # in one sample of the slowest of a hundred


def rows() -> list[Row]:
    start = "python -I -c pass of a plain virtual environment"
    add = "git add -A and write-tree, private index, warm"
    none = "ours syncs its journal and, with a new content, its pack; the anchor nothing"
    return [
        Row("hook-edit", "hook process, edit tool, 40 kB file", start, TIME_UNIT, none, _hook_edit(median)),
        Row(
            "hook-edit-p99",
            f"the same, the slowest of {_HOOKS}",
            f"{start}, median",
            TIME_UNIT,
            none,
            _hook_edit(max),
        ),
        Row(
            "statusline",
            "`locus statusline`, a process: a turn under way, costs noted",
            start,
            TIME_UNIT,
            "neither writes",
            _status_line,
        ),
        Row(
            "hook-shell",
            "hook process, shell tool, 10,000 files, nothing changed",
            f"{add}, and python -I -c pass",
            TIME_UNIT,
            none,
            _hook_shell(changed=False),
        ),
        Row(
            "hook-shell-changed",
            "the same, one file changed",
            f"{add}, and python -I -c pass",
            TIME_UNIT,
            none,
            _hook_shell(changed=True),
        ),
        Row(
            "hook-before-command",
            f"hook process, before a command, {_LOOKED_AT} files, nothing changed",
            "the same before a tool that reads, which no capture precedes",
            TIME_UNIT,
            "both sync their journal",
            _hook_before_command,
        ),
        Row(
            "first-prompt",
            "hook process, the first prompt in a repository of 10,000 files, all committed",
            "git add -A and write-tree, private index that begins empty",
            TIME_UNIT,
            "ours syncs its journal and a pack, git nothing",
            _first_prompt,
        ),
        Row(
            "capture",
            "capture of 5,000 files, nothing changed, in a process with its store open",
            add,
            TIME_UNIT,
            none,
            _capture(False),
        ),
        Row("capture-changed", "the same, one file changed", add, TIME_UNIT, none, _capture(True)),
        Row(
            "capture-first",
            "first capture of 5,000 files, in process",
            "git add -A and write-tree into an empty repository",
            TIME_UNIT,
            "ours syncs its pack, git nothing",
            _capture_first,
        ),
        Row(
            "hook-large",
            "hook process, edit tool, a large log in the store",
            "the same with an empty store",
            TIME_UNIT,
            "both sync",
            _hook_large,
        ),
        Row(
            "hook-bytes",
            "bytes of the store after some hundred hook calls and maintenance",
            "the bytes that the hooks were sent",
            BYTES_UNIT,
            "sealed, journals gone",
            _hook_bytes,
        ),
    ]


class Desk:
    """A repository with hooks installed, and the hook's command line as the agent would run it."""

    def __init__(self, directory: str, seed: int, files: int) -> None:
        self.root = f"{directory}/project"
        self.home = f"{directory}/home"
        os.makedirs(self.home)
        self._environment = environment() | {"HOME": self.home, "XDG_DATA_HOME": f"{self.home}/data"}
        self._rng = Random(seed)
        self._calls = 0
        self.sent = 0
        self.stored_s = math.nan  # from the first prompt until all contents were stored
        self.make(self.root, self._rng, files)
        run([git(), "init", "-q", self.root])
        run([git(), "-C", self.root, "add", "-A"])
        identity = ["-c", "user.name=Bench", "-c", "user.email=bench@example.org"]
        run([git(), *identity, "-C", self.root, "commit", "-qm", "start"])
        run([*locus(), "init"], cwd=self.root)
        self._install()
        self.said("UserPromptSubmit", prompt="Look at the parser")

    def make(self, root: str, rng: Random, files: int) -> None:
        make_tree(root, rng, files)

    def _install(self) -> None:
        command = [*locus(), "hooks", "install", "--agent", _AGENT]
        subprocess.run(
            command,
            cwd=self.root,
            env=self._environment,
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        for name in ("settings.local.json", "settings.json"):
            path = f"{self.root}/.claude/{name}"
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    hooks = json.load(file)["hooks"]
                self.line: str = hooks["PostToolUse"][0]["hooks"][0]["command"]
                return
        raise RuntimeError("`locus hooks install` wrote no settings for Claude Code")

    def said(self, name: str, *, answers: bool = False, **fields: Any) -> float:
        """One hook call; seconds of its process, the shell that starts it included."""
        self._calls += 1
        payload = {
            "session_id": "0b5e55ed-0000-4000-8000-000000000001",
            "transcript_path": f"{self.home}/none.jsonl",
            "cwd": self.root,
            "prompt_id": "0b5e55ed-0000-4000-8000-000000000002",
            "permission_mode": "default",
            "hook_event_name": name,
            **fields,
        }
        data = json.dumps(payload).encode()
        self.sent += len(data)
        start = time.perf_counter()
        done = subprocess.run(
            ["sh", "-c", self.line], input=data, cwd=self.root, env=self._environment, capture_output=True
        )
        took = time.perf_counter() - start
        if done.returncode or bool(done.stdout) != answers:
            raise RuntimeError(f"a hook printed something: {done.returncode} {done.stdout!r} {done.stderr!r}")
        return took

    def status_line(self) -> float:
        """The program as Claude Code starts it; seconds of its process, the shell that starts it included."""
        said = {"session_id": "0b5e55ed-0000-4000-8000-000000000001", "cwd": self.root}
        data = json.dumps(
            {**said, "workspace": {"current_dir": self.root, "project_dir": self.root}}
        ).encode()
        start = time.perf_counter()
        done = subprocess.run(
            ["sh", "-c", f"{shlex.join(locus())} statusline"],
            input=data, cwd=self.root, env=self._environment, capture_output=True,
        )  # fmt: skip
        took = time.perf_counter() - start
        if not done.stdout.startswith(b"locus: recording turn"):
            raise RuntimeError(f"not the line of a turn under way: {done.stdout!r} {done.stderr!r}")
        return took

    def first_prompt(self) -> float:
        """The first hook call in a new store; what it leaves to be stored later is stored on return."""
        shutil.rmtree(f"{self.root}/.locus")
        run([*locus(), "init"], cwd=self.root)
        took = self.said("UserPromptSubmit", prompt="Look at the parser")
        self.wait_until_stored(took)
        return took

    def wait_until_stored(self, took: float = 0.0) -> None:
        """Wait until the contents of a call that took so long are stored."""
        start = time.perf_counter()
        live = f"{self.root}/.locus/live"
        while any(name.endswith(".deferred") for name in os.listdir(live)):
            if time.perf_counter() - start > _STORED_S:
                raise RuntimeError(f"contents were not stored within {_STORED_S} s")
            time.sleep(0.01)
        self.stored_s = took + time.perf_counter() - start

    def edit(self) -> float:
        """An edit of a 40 kB file, and the hook call after it."""
        path = f"{self.root}/{_EDITED}"
        before = None
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                before = file.read()
        after = text(self._rng, _EDITED_BYTES)
        with open(path, "w", encoding="ascii") as file:
            file.write(after)
        return self.said(
            "PostToolUse",
            tool_name="Edit",
            tool_use_id=f"toolu_{self._calls:012d}",
            tool_input={"file_path": path, "old_string": "index", "new_string": "table"},
            tool_response={"filePath": path, "originalFile": before, "userModified": False},
            duration_ms=9,
        )

    def shell(self, changed: bool) -> float:
        """A shell command that changed one file or none, and the hook call after it."""
        if changed:
            with open(f"{self.root}/src/d7/f3.py", "a", encoding="ascii") as file:
                file.write("# changed\n")
        return self.said(
            "PostToolUse",
            tool_name="Bash",
            tool_use_id=f"toolu_{self._calls:012d}",
            tool_input={"command": "make check"},
            tool_response={"stdout": "ok\n", "stderr": "", "interrupted": False},
            duration_ms=900,
        )

    def before(self, tool: str, **arguments: str) -> float:
        """The hook call before a tool."""
        tool_use_id = f"toolu_{self._calls:012d}"
        return self.said("PreToolUse", tool_name=tool, tool_use_id=tool_use_id, tool_input=arguments)


def make_tree(root: str, rng: Random, files: int) -> None:
    """Files of a few kilobytes, twenty-five in a directory."""
    for number in range(files):
        directory = f"{root}/src/d{number // 25}"
        if number % 25 == 0:
            os.makedirs(directory)
        with open(f"{directory}/f{number % 25}.py", "w", encoding="ascii") as file:
            file.write(text(rng, int(rng.lognormvariate(8.0, 0.9)) + 100))


def text(rng: Random, size: int) -> str:
    words = [f"{rng.getrandbits(24):06x}" for _ in range(min(size // 7 + 1, 400))]
    return (" ".join(rng.choices(words, k=size // 7 + 1)).replace(" ", "\n", size // 70))[:size] + "\n"


class PlainPython:
    """`python -I -c pass` of a virtual environment with nothing in it."""

    def __init__(self, directory: str) -> None:
        run([sys.executable, "-m", "venv", "--without-pip", f"{directory}/plain"])
        self._command = [f"{directory}/plain/bin/python", "-I", "-c", "pass"]

    def seconds(self) -> float:
        start = time.perf_counter()
        subprocess.run(self._command, check=True, env=environment(), stdin=subprocess.DEVNULL)
        return time.perf_counter() - start


class _GitAdd:
    """`git add -A` and `git write-tree` with an index of their own, in a copy of the tree."""

    def __init__(self, directory: str, tree: str) -> None:
        self.root = f"{directory}/theirs"
        shutil.copytree(tree, self.root, ignore=shutil.ignore_patterns(".git", ".locus", ".claude"))
        run([git(), "init", "-q", self.root])
        # Its objects are those of the tree's repository, so that preparing it does not write them again.
        made, own = (f"{place}/.git/objects" for place in (tree, self.root))
        shutil.copytree(made, own, copy_function=os.link, dirs_exist_ok=True)
        self._environment = environment() | {"GIT_INDEX_FILE": f"{directory}/private-index"}
        self.seconds()

    def change(self) -> None:
        with open(f"{self.root}/src/d7/f3.py", "a", encoding="ascii") as file:
            file.write("# changed\n")

    def seconds_with(self, index: str | None) -> float:
        """With a private index that begins as a copy of this one, or with nothing in it."""
        private = self._environment["GIT_INDEX_FILE"]
        os.unlink(private)
        if index is not None:
            shutil.copyfile(index, private)
        return self.seconds()

    def seconds(self) -> float:
        start = time.perf_counter()
        for words in (["add", "-A"], ["write-tree"]):
            subprocess.run(
                [git(), "-C", self.root, *words],
                check=True,
                env=self._environment,
                stdout=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
            )
        return time.perf_counter() - start


def _hook_edit(summary: Callable[[list[float]], float]) -> Callable[[Bench], Any]:
    @contextmanager
    def prepare(bench: Bench) -> Iterator[Sides]:
        with bench.scratch("hook") as directory:
            desk, plain = Desk(directory, bench.seed, 200), PlainPython(directory)
            calls = _HOOKS if summary is max else bench.pick(11, 41)
            yield Sides(
                ours=lambda: summary([desk.edit() for _ in range(calls)]),
                anchor=lambda: median(plain.seconds() for _ in range(bench.pick(11, 41))),
                size=f"{calls} calls a sample, 200 files",
                rounds=bench.pick(2 if summary is max else 3, 5),
                warm_up=summary is not max,
            )

    return prepare


@contextmanager
def _status_line(bench: Bench) -> Iterator[Sides]:
    with bench.scratch("statusline") as directory:
        desk, plain = Desk(directory, bench.seed, 200), PlainPython(directory)
        run([*locus(), "store", "seal"], cwd=desk.root)
        calls = bench.pick(11, 41)
        yield Sides(
            ours=lambda: median(desk.status_line() for _ in range(calls)),
            anchor=lambda: median(plain.seconds() for _ in range(calls)),
            size=f"{calls} calls a sample",
            rounds=bench.pick(3, 5),
        )


def _large_desk(bench: Bench) -> tuple[Desk, PlainPython, _GitAdd]:
    directory = bench.new_directory("hook-shell")
    desk = Desk(directory, bench.seed, 10_000)
    return desk, PlainPython(directory), _GitAdd(directory, desk.root)


def _hook_shell(changed: bool) -> Callable[[Bench], Any]:
    @contextmanager
    def prepare(bench: Bench) -> Iterator[Sides]:
        desk, plain, theirs = bench.shared("desk of 10,000 files", lambda: _large_desk(bench))

        def anchor() -> float:
            if changed:
                theirs.change()
            return float(theirs.seconds() + plain.seconds())

        yield Sides(
            ours=lambda: desk.shell(changed),
            anchor=anchor,
            size="10,000 files in 400 directories",
            rounds=bench.pick(9, 25),
        )

    return prepare


@contextmanager
def _hook_before_command(bench: Bench) -> Iterator[Sides]:
    with bench.scratch("hook-before-command") as directory:
        desk, plain = Desk(directory, bench.seed, _LOOKED_AT), PlainPython(directory)
        calls = bench.pick(11, 41)
        yield Sides(
            ours=lambda: median(desk.before("Bash", command="make check") for _ in range(calls)),
            anchor=lambda: median(desk.before("Read", file_path="a.py") for _ in range(calls)),
            beside={"python -I -c pass, s": plain.seconds},
            size=f"{calls} calls a sample, {_LOOKED_AT} files",
            rounds=bench.pick(3, 7),
        )


@contextmanager
def _first_prompt(bench: Bench) -> Iterator[Sides]:
    desk, plain, theirs = bench.shared("desk of 10,000 files", lambda: _large_desk(bench))
    run([git(), "-C", theirs.root, "add", "-A"])
    own = f"{theirs.root}/.git/index"
    yield Sides(
        ours=desk.first_prompt,
        anchor=lambda: theirs.seconds_with(None),
        beside={
            "until all contents are stored, s": lambda: desk.stored_s,
            "git, private index that begins as a copy, s": lambda: theirs.seconds_with(own),
            "python -I -c pass, s": plain.seconds,
        },
        size="10,000 files in 400 directories",
        rounds=bench.pick(5, 15),
    )


def _captured(bench: Bench) -> tuple[str, _GitAdd]:
    """A repository of 5,000 files with a store that has captured it, and git's side."""
    directory = bench.new_directory("capture")
    root = f"{directory}/ours"
    make_tree(root, Random(bench.seed), 5_000)
    run([git(), "init", "-q", root])
    run([git(), "-C", root, "add", "-A"])
    with Store.init(f"{root}/.locus") as store:
        seconds_of_capture(store, root)
    return root, _GitAdd(directory, root)


def _capture(changed: bool) -> Callable[[Bench], Any]:
    @contextmanager
    def prepare(bench: Bench) -> Iterator[Sides]:
        root, theirs = bench.shared("captured tree", lambda: _captured(bench))
        with Capturer(root) as capturer:

            def ours() -> float:
                if changed:
                    with open(f"{root}/src/d7/f3.py", "a", encoding="ascii") as file:
                        file.write("# changed\n")
                return capturer.seconds()

            def anchor() -> float:
                if changed:
                    theirs.change()
                return float(theirs.seconds())

            yield Sides(
                ours=ours, anchor=anchor, size="5,000 files in 200 directories", rounds=bench.pick(11, 25)
            )

    return prepare


@contextmanager
def _capture_first(bench: Bench) -> Iterator[Sides]:
    with bench.scratch("capture-first") as directory:
        root = f"{directory}/tree"
        make_tree(root, Random(bench.seed), 5_000)

        def ours() -> float:
            run([git(), "init", "-q", root])
            with Store.init(f"{root}/.locus") as store:
                took = seconds_of_capture(store, root)
            shutil.rmtree(f"{root}/.locus")
            shutil.rmtree(f"{root}/.git")
            return took

        def anchor() -> float:
            run([git(), "init", "-q", root])
            start = time.perf_counter()
            for words in (["add", "-A"], ["write-tree"]):
                run([git(), "-C", root, *words])
            took = time.perf_counter() - start
            shutil.rmtree(f"{root}/.git")
            return took

        yield Sides(ours=ours, anchor=anchor, size="5,000 files", rounds=bench.pick(3, 7))


@contextmanager
def _hook_large(bench: Bench) -> Iterator[Sides]:
    source = sealed_store(bench)
    with bench.scratch("hook-large") as directory:
        for name in ("large", "empty"):
            os.mkdir(f"{directory}/{name}")
        large, empty = (Desk(f"{directory}/{name}", bench.seed, 200) for name in ("large", "empty"))
        with source.copy(bench, "hook-large-store") as path:
            shutil.rmtree(f"{large.root}/.locus")
            shutil.move(path, f"{large.root}/.locus")
            large.said("UserPromptSubmit", prompt="Look at the parser")
            calls = bench.pick(11, 41)
            yield Sides(
                ours=lambda: median(large.edit() for _ in range(calls)),
                anchor=lambda: median(empty.edit() for _ in range(calls)),
                size=f"{source.events:,} events, {calls} calls a sample",
                rounds=bench.pick(3, 7),
            )


@contextmanager
def _hook_bytes(bench: Bench) -> Iterator[Sides]:
    calls = bench.pick(200, 1_000)
    with bench.scratch("hook-bytes") as directory:
        desk = Desk(directory, bench.seed, 200)
        desk.wait_until_stored()  # what the first capture found is not of these calls
        store_path = f"{desk.root}/.locus"
        before, kept_before = desk.sent, _kept(store_path)
        for number in range(calls):
            desk.edit() if number % 3 == 0 else desk.shell(number % 3 == 1)
        sent = desk.sent - before
        with Store.open(store_path) as store:
            store.seal()
            store.rebuild()
        yield Sides(
            ours=lambda: _kept(store_path) - kept_before,
            anchor=lambda: float(sent),
            # The index may be deleted at any time, and has a least size whatever the calls.
            beside={
                "of it the index, which is derived, bytes": lambda: _kept(f"{store_path}/index"),
                "ratio without it": lambda: (
                    (_kept(store_path) - kept_before - _kept(f"{store_path}/index")) / sent
                ),
            },
            size=f"{calls} calls, {math.ceil(sent / calls):,} bytes each; the index included",
            rounds=1,
            warm_up=False,
        )


def _kept(path: str) -> float:
    return float(
        sum(
            os.lstat(os.path.join(directory, name)).st_size
            for directory, _, names in os.walk(path)
            for name in names
        )
    )
