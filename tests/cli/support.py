"""What the tests of the command line share: a small real git repository, and `locus` as a process."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eventlog.restore import journal as restores
from eventlog.store import Store
from tests import forked

GIT_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "A. Author",
    "GIT_AUTHOR_EMAIL": "author@example.org",
    "GIT_COMMITTER_NAME": "C. Committer",
    "GIT_COMMITTER_EMAIL": "committer@example.org",
}


def git(directory: Path, *arguments: str, at: int = 0) -> str:
    """Run git in `directory`; `at` numbers the commits in time."""
    date = f"2026-03-01T12:{at:02d}:00+00:00"
    environment = {**os.environ, **GIT_ENVIRONMENT, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    done = subprocess.run(
        ["git", "-C", str(directory), *arguments], env=environment, capture_output=True, check=True
    )
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def make_history(directory: Path) -> list[str]:
    """A repository with edits, a rename, an executable, a symlink, an odd name; its commits, oldest first."""
    directory.mkdir(exist_ok=True)
    git(directory, "init", "-q", "-b", "main")
    (directory / "README.md").write_text("# Sample\n")
    (directory / "src").mkdir()
    (directory / "src/app.py").write_text("print('one')\nprint('two')\n")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "Begin the sample", at=1)
    (directory / "src/app.py").write_text("print('one')\nprint('zwei')\nprint('three')\n")
    git(directory, "commit", "-qam", "Count in German\n\nBecause it can.", at=2)
    (directory / "run.sh").write_text("#!/bin/sh\nexec python3 src/app.py\n")
    (directory / "run.sh").chmod(0o755)
    os.symlink("src/app.py", directory / "app")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "Make it easy to run", at=3)
    git(directory, "mv", "README.md", "READ ME \u00e9.md")
    (directory / "data.bin").write_bytes(bytes(range(256)))
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "Rename the readme, add data", at=4)
    return git(directory, "rev-list", "--reverse", "HEAD").split()


@dataclass(frozen=True)
class Ended:
    """What a run of `locus` gave."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "surrogateescape")


Locus = Callable[..., Ended]


def locus_process(
    *arguments: object, cwd: Path, stdin: bytes = b"", starts: bool = False, **environment: str
) -> Ended:
    """Run `locus` as a process of its own.

    It is forked from one that has imported the commands (tests/forked.py), unless the test is about its start
    or its memory (`starts`).
    """
    words, variables = list(map(str, arguments)), {**os.environ, **environment}
    if starts:
        done = subprocess.run(
            [sys.executable, "-m", "locus_cli", *words],
            cwd=cwd,
            input=stdin,
            capture_output=True,
            env=variables,
            timeout=60,
        )
    else:
        done = forked.locus(words, stdin, cwd, variables)
    return Ended(done.returncode, done.stdout, done.stderr.decode("utf-8", "backslashreplace"))


_ANSWERS = """read line; echo '{"id": 1, "result": {"serverInfo": {"name": "locus"}}}'"""


def server_program(directory: Path, does: str = _ANSWERS) -> Path:
    """A directory with a program `locus` that answers `initialize` at once, or does something else."""
    directory.mkdir(exist_ok=True)
    (directory / "locus").write_text(f"#!/bin/sh\n{does}\n")
    (directory / "locus").chmod(0o755)
    return directory


@dataclass(frozen=True)
class Recorded:
    """A repository, its commits, and the store in it."""

    root: Path
    commits: list[str]

    @property
    def store(self) -> Path:
        return self.root / ".locus"


def begin_restore(project: Path) -> None:
    """Leave the journal of a restore that changes nothing and never ended."""
    with Store.open(project / ".locus") as store:
        inode = project.stat().st_ino
        document = restores.Document(
            "0" * 32, store.identity.store_id, os.fsencode(project), inode, "", "end", None, None, ()
        )
        restores.write(store.fs, store.layout, 7, restores.encode(document))
