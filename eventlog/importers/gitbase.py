"""The contents of files in git when a session began, which its transcript does not show.

The commit is the one that the session names, else the newest of its branch (of HEAD where the branch is gone)
before its first line. It is a guess at what the agent found, so `filestates` takes a content only where the
edit fits it. One process reads by plumbing and is started for the first path. Without git, outside a
repository, or for files that the commit lacks there is None. One thread; `close` ends the process.
"""

import os
import re

from eventlog.base import repository
from eventlog.base.paths import path_bytes
from eventlog.replay.git_contents import GitContents

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
        self._contents = GitContents(root, _CONTENT_BYTES_MAX)
        self._commit: str | None = None
        self._is_open = False

    def __call__(self, path: str) -> bytes | None:
        """The content at a path relative to the root; None when it is unknown."""
        if not self._is_open:
            self._is_open = True
            self._commit = self._find_commit()
        if self._commit is None or "\n" in path:
            return None
        try:
            return self._contents.blob(self._commit.encode() + b":./" + path_bytes(path))
        except (OSError, ValueError):
            return None  # git has ended, the content is too large, or that is no path

    def close(self) -> None:
        """End the process; all contents are unknown from here on. A second call does nothing."""
        self._is_open, self._commit = True, None
        self._contents.close()

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
        options = ["-1", f"--min-age={before_s}", "--end-of-options"]
        answer = repository.git_output(self._root, ["rev-list", *options, rev, "--"]) or b""
        commit = answer.decode("ascii", "replace").strip()
        return commit if _COMMIT.fullmatch(commit) else None
