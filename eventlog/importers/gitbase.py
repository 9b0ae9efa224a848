"""The contents of files in git when a session began, which its transcript does not show.

The commit is the one that the session names, else the newest of its branch (of HEAD where the branch is gone)
before its first line. It is a guess at what the agent found, so `filestates` takes a content only where the
edit fits it. One process reads by plumbing and is started for the first path. Without git, outside a
repository, or for files that the commit lacks there is None. One thread; `close` ends the process.
"""

import os
import re
import subprocess

from eventlog.base import repository
from eventlog.base.paths import path_bytes

# Files that an agent edits as text are smaller; a larger content is unknown.
_CONTENT_BYTES_MAX = 16 << 20
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class GitBase:
    """The contents of paths below `root`, as a commit of the repository around it holds them."""

    def __init__(self, root: str, *, commit: str | None, branch: str | None, before_us: int | None) -> None:
        self._root = root
        self._named = commit
        self._branch = branch
        self._before_us = before_us
        self._process: "subprocess.Popen[bytes] | None" = None
        self._commit: str | None = None
        self._is_open = False

    def __call__(self, path: str) -> bytes | None:
        """The content at a path relative to the root; None when it is unknown."""
        if not self._is_open:
            self._is_open = True
            self._open()
        if self._process is None or self._commit is None or "\n" in path:
            return None
        try:
            name = self._commit.encode() + b":./" + path_bytes(path)
        except ValueError:
            return None
        try:
            return self._content(name)
        except OSError:
            self.close()
            return None

    def close(self) -> None:
        """End the process; all contents are unknown from here on. A second call does nothing."""
        self._is_open = True
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _open(self) -> None:
        self._commit = self._find_commit()
        if self._commit is None:
            return
        try:
            self._process = subprocess.Popen(
                ["git", "-C", self._root, "cat-file", "--batch"],
                env=repository.git_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            self._process = None

    def _find_commit(self) -> str | None:
        if self._named is not None:
            return self._named if _COMMIT.fullmatch(self._named) else None
        if self._before_us is None or not os.path.isdir(self._root):
            return None
        for rev in (f"refs/heads/{self._branch}", "HEAD"):
            commit = self._newest(rev, self._before_us // 1_000_000)
            if commit is not None:
                return commit
        return None

    def _newest(self, rev: str, before_s: int) -> str | None:
        command = ["git", "-C", self._root, "rev-list", "-1", f"--min-age={before_s}"]
        try:
            completed = subprocess.run(
                [*command, "--end-of-options", rev, "--"],
                env=repository.git_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        except (OSError, ValueError):
            return None
        commit = completed.stdout.decode("ascii", "replace").strip()
        return commit if completed.returncode == 0 and _COMMIT.fullmatch(commit) else None

    def _content(self, name: bytes) -> bytes | None:
        """Ask for one object. The answer is `<id> <type> <size>`, the bytes, a newline; or that it is
        missing."""
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        process.stdin.write(name + b"\n")
        process.stdin.flush()
        head = process.stdout.readline()
        if not head:
            raise OSError("git has ended")
        facts = head.split()
        if len(facts) != 3 or facts[1] not in (b"blob", b"tree", b"commit", b"tag") or not facts[2].isdigit():
            return None  # "<name> missing", also for a name with a blank in it
        size = int(facts[2])
        if facts[1] != b"blob" or size > _CONTENT_BYTES_MAX:
            rest_size = size + 1
            while rest_size > 0 and (piece := process.stdout.read(min(rest_size, 1 << 20))):
                rest_size -= len(piece)
            return None
        data = process.stdout.read(size + 1)
        if len(data) != size + 1:
            raise OSError("git has ended")
        return data[:-1]
