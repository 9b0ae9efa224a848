"""A git repository with a history that never happened, the same for the same seed.

Modules of Python-like source grow over the commits: each commit edits a few files, adds some, and now
and then renames or deletes one. A few files are executable or symlinks. The history is one line,
written as a stream for `git fast-import`, then packed the way a clone would be.

Sizes follow four public projects of 1,100 to 2,200 commits on their first-parent line: files of 10 to
14 kB on average, but edited ones of 18 to 38 kB, because large files are edited more often than small
ones; 2.5 to 3.5 files a commit; some 60 lines added and 25 removed a commit.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from random import Random

from benchmarks.frame import Bench
from benchmarks.process import environment, git, run

_FIRST_TIME_S = 1_700_000_000
_NAMES_TEXT = (
    "parser reader writer index token cache client server queue worker schema config report router "
    "session store view model table graph merge patch check probe trace event frame block header"
)
_NAMES = _NAMES_TEXT.split()
_STATEMENTS = (
    "if {a} is None:",
    "    return {b}.{c}({a})",
    "for {a} in {b}.{c}():",
    "    {a}.append({b}[{n}])",
    "{a} = {b}.{c}({a}, limit={n})",
    "raise ValueError(f'{{{a}}}: expected {b} of {n} bytes')",
    "with {b}.{c}({n}) as {a}:",
    "assert {a}.{c} == {b}.{c}, {n}",
    "log.debug('{a} {b} %s', {c})",
    "",
)


def shared_repository(bench: Bench, commits: int, files: int) -> str:
    """A repository that all rows of a run share; nobody changes it."""

    def build() -> str:
        path = bench.new_directory("repository") + "/project.git"
        make_repository(path, bench.seed, commits=commits, files=files)
        return path

    return str(bench.shared(f"repository of {commits} commits, {files} files", build))


def make_repository(path: str, seed: int, commits: int, files: int, *, packed: bool = True) -> None:
    """A repository at `path` (bare) of that many commits, beginning with that many files.

    Args: packed: as a clone would be; else as `fast-import` leaves it, where nobody times what reads it.
    """
    run([git(), "init", "-q", "--bare", "--initial-branch=main", path])
    importing = subprocess.Popen(
        [git(), "-C", path, "fast-import", "--quiet"], stdin=subprocess.PIPE, env=environment()
    )
    assert importing.stdin is not None
    with importing.stdin as pipe:
        for part in _History(Random(seed), files).stream(commits):
            pipe.write(part)
    if importing.wait():
        raise RuntimeError(f"git fast-import ended with code {importing.returncode}")
    if packed:
        run([git(), "-C", path, "repack", "-adfq"])


class _History:
    """The tree as it is, and how commits change it."""

    def __init__(self, rng: Random, files: int) -> None:
        self._rng = rng
        self._files = files
        self._lines: dict[str, list[str]] = {}
        self._paths: list[str] = []  # the ones edited last are at the end

    def stream(self, commits: int) -> Iterator[bytes]:
        for number in range(1, commits + 1):
            message = self._message(number)
            when = f"{_FIRST_TIME_S + number * 3_571} +0100"
            yield b"commit refs/heads/main\nmark :%d\n" % number
            yield f"author Author {number % 7} <author{number % 7}@example.org> {when}\n".encode()
            yield f"committer Committer <committer@example.org> {when}\n".encode()
            yield b"data %d\n%b\n" % (len(message), message)
            if number > 1:
                yield b"from :%d\n" % (number - 1)
                yield from self._change()
            else:
                for _ in range(self._files):
                    yield self._add()
                yield self._file("docs/latest", b"../README.md", mode="120000")
                yield self._file("README.md", b"# A project\n")
            yield b"\n"

    def _change(self) -> Iterator[bytes]:
        rng = self._rng
        touched = set()
        for _ in range(min(1 + int(rng.expovariate(0.5)), 12)):
            # Half of all edits go to the files that were edited last, the others to large ones.
            if rng.random() < 0.5:
                path = self._paths[-1 - rng.randrange(max(1, len(self._paths) // 10))]
            else:
                path = max(rng.choices(self._paths, k=3), key=self._size)
            if path not in touched:
                touched.add(path)
                yield self._edit(path)
        for _ in range(rng.choices((0, 1, 2), (75, 20, 5))[0]):
            yield self._add()
        if rng.random() < 0.06:
            path = rng.choice(self._paths)
            if path not in touched:
                yield self._rename(path)
        if rng.random() < 0.05 and len(self._paths) > 10:
            path = rng.choice(self._paths[:-10])
            if path not in touched:
                self._paths.remove(path)
                del self._lines[path]
                yield f"D {path}\n".encode()

    def _add(self) -> bytes:
        path = self._new_path()
        self._lines[path] = [
            self._line() for _ in range(min(int(self._rng.lognormvariate(5.0, 1.1)), 4_000) + 5)
        ]
        self._paths.append(path)
        return self._write(path)

    def _edit(self, path: str) -> bytes:
        lines = self._lines[path]
        for _ in range(self._rng.randrange(1, 4)):
            at = self._rng.randrange(len(lines) + 1)
            lines[at : at + self._rng.randrange(4)] = [self._line() for _ in range(self._rng.randrange(1, 9))]
        self._paths.remove(path)
        self._paths.append(path)
        return self._write(path)

    def _size(self, path: str) -> int:
        return len(self._lines[path])

    def _rename(self, path: str) -> bytes:
        new = self._new_path()
        self._lines[new] = self._lines.pop(path)
        self._paths.remove(path)
        self._paths.append(new)
        return f"R {path} {new}\n".encode()

    def _new_path(self) -> str:
        choice = self._rng.choice
        while True:
            number = self._rng.randrange(100)
            # Some twenty files in a directory, as projects have them.
            directory = f"{choice(_NAMES[:6])}/{choice(_NAMES[6:14])}"
            path = f"src/{directory}/{choice(_NAMES)}_{choice(_NAMES)}{number}.py"
            if path not in self._lines:
                return path

    def _write(self, path: str) -> bytes:
        mode = "100755" if "worker" in path.rsplit("/", 1)[1] else "100644"
        return self._file(path, "\n".join(self._lines[path]).encode() + b"\n", mode)

    def _file(self, path: str, content: bytes, mode: str = "100644") -> bytes:
        return f"M {mode} inline {path}\ndata {len(content)}\n".encode() + content + b"\n"

    def _line(self) -> str:
        rng = self._rng
        a, b, c = rng.choices(_NAMES, k=3)
        indent = "    " * rng.randrange(1, 4)
        return (indent + rng.choice(_STATEMENTS).format(a=a, b=b, c=c, n=rng.randrange(1000))).rstrip()

    def _message(self, number: int) -> bytes:
        rng = self._rng
        subject = (
            f"{rng.choice(('Fix', 'Add', 'Move', 'Test'))} {' '.join(rng.choices(_NAMES, k=4))} ({number})"
        )
        body = "\n".join(" ".join(rng.choices(_NAMES, k=9)) for _ in range(rng.randrange(4)))
        return f"{subject}\n\n{body}\n".encode()
