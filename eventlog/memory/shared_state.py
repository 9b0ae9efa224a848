"""The state of a repository against which shared context is checked: commit, content, what differs.

Repository state beats memory: a summary made at another state is not trusted (S2-11). Git is asked and
nothing is written. The files of shared context themselves do not count, since writing a summary down would
make it stale.
"""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blake3 import blake3

from eventlog.base.fs import REAL, hash_open
from eventlog.base.paths import path_text
from eventlog.memory.shared_entry import summary_hash
from eventlog.worktree import git

DIRECTORY = "data/context"
SUMMARY_FILE = "docs/context_summary.md"
# What git is asked about: all but the files of shared context.
_OTHERS = ("--", ".", f":(exclude,top){DIRECTORY}", f":(exclude,top){SUMMARY_FILE}")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DIFF_SIZE_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class RepoState:
    """`head` is None without a commit; `tracked_files_hash` covers path, mode and content of every tracked
    file as it is on the disk."""

    head: "str | None"
    tracked_files_hash: str


@dataclass(frozen=True, slots=True)
class Staleness:
    """Why a summary is not to be trusted; empty reasons when it is. `changed` are paths to look at again,
    with a letter of git for each."""

    reasons: "tuple[str, ...]" = ()
    changed: "tuple[tuple[str, str], ...]" = ()

    @property
    def stale(self) -> bool:
        return bool(self.reasons)

    @property
    def scan_again(self) -> "list[str]":
        """The files to read again before anything is believed (S2-11)."""
        return [path for _, path in self.changed] if self.stale else []


def state_of(root: str) -> RepoState:
    """The state of the repository whose top is `root`. Raises: GitFailed."""
    top = os.fsencode(root)
    repository = git.find(top)
    head = None if repository is None else git.head(repository.git_dir)[0]
    digest = blake3()
    for path, submodule in sorted(git.tracked(top).items()) if repository is not None else ():
        if not _is_ours(path_text(path)):
            digest.update(path + b"\0" + (submodule or _content_of(top + b"/" + path)).encode() + b"\n")
    return RepoState(head, digest.hexdigest(32))


def branch_of(root: str) -> str:
    """The branch that is checked out, "" without one; two small files are read."""
    repository = git.find(os.fsencode(root))
    return "" if repository is None else git.head(repository.git_dir)[1] or ""


def checkpoint_of(state: RepoState, summary: str) -> "dict[str, Any]":
    return {
        "git_head": state.head,
        "tracked_files_hash": state.tracked_files_hash,
        "summary_hash": summary_hash(summary),
    }


def staleness(root: str, entry: "Mapping[str, Any]", state: RepoState) -> Staleness:
    """Compare an entry's checkpoint with the repository. One without a checkpoint is stale."""
    checkpoint = entry.get("checkpoint")
    if not isinstance(checkpoint, dict):
        return Staleness(("it has no checkpoint",))
    head = commit_of(entry)
    changed = changes_since(root, head)
    reasons = []
    other = head != state.head and (changed is None or any(status != "?" for status, _ in changed))
    if other and _differ(root, head, state.head):
        reasons.append(f"the commit was {_short(head)} and is {_short(state.head)}")
    if checkpoint.get("tracked_files_hash") != state.tracked_files_hash:
        reasons.append("tracked files changed")
    summary = entry.get("working_summary")
    text = summary.get("text") if isinstance(summary, dict) else None
    if checkpoint.get("summary_hash") != summary_hash(text if isinstance(text, str) else ""):
        reasons.append("the summary was changed by other means")
    return Staleness(tuple(reasons), tuple(changed or ()))


def commit_of(entry: "Mapping[str, Any]") -> "str | None":
    """The commit of an entry's checkpoint; None for what is none, such as an option that git would follow."""
    checkpoint = entry.get("checkpoint")
    head = checkpoint.get("git_head") if isinstance(checkpoint, dict) else None
    return head if isinstance(head, str) and _COMMIT.fullmatch(head) else None


def marked(entry: "dict[str, Any]", state: Staleness) -> "dict[str, Any]":
    """The entry with what was found of its summary: what is stored is as of when it was written."""
    summary = entry.get("working_summary")
    return {**entry, "working_summary": {**summary, "stale": state.stale}} if summary else entry


def changes_since(root: str, commit: "str | None") -> "list[tuple[str, str]] | None":
    """(status, path) of what differs from a commit on the disk, untracked as `?`; None when unknown."""
    top = os.fsencode(root)
    try:
        if commit is None:
            return None
        _, differing = git.run(top, ["diff", "--name-status", "--no-renames", "-z", commit, "--"], b"")
        _, new = git.run(top, ["ls-files", "--others", "--exclude-standard", "-z"], b"")
    except git.GitFailed:
        return None
    words = differing.split(b"\0")[:-1]
    changes = [
        (words[i].decode("ascii", "replace"), path_text(words[i + 1])) for i in range(0, len(words), 2)
    ]
    changes += [("?", path_text(path)) for path in new.split(b"\0") if path]
    return sorted((row for row in changes if not _is_ours(row[1])), key=lambda row: row[1])


def _differ(root: str, before: "str | None", after: "str | None") -> bool:
    """Whether two commits differ in more than our own files; True when unknown."""
    if before is None or after is None:
        return True
    try:
        _, differing = git.run(os.fsencode(root), ["diff", "--name-only", before, after, *_OTHERS], b"")
    except git.GitFailed:
        return True
    return differing != b""


def diff_since(root: str, commit: str) -> str:
    """`git diff --stat` of the disk against a commit, but for our own files; "" when unknown."""
    try:
        _, output = git.run(os.fsencode(root), ["diff", "--stat=100", commit, *_OTHERS], b"")
    except git.GitFailed:
        return ""
    return output[:_DIFF_SIZE_MAX].decode("utf-8", "replace")


def _content_of(path: bytes) -> str:
    """The mode that git would record, and the hash of the content; a missing file says so."""
    try:
        info = os.lstat(path)
        if stat.S_ISLNK(info.st_mode):
            return f"120000 {blake3(os.readlink(path)).hexdigest(32)}"
        if not stat.S_ISREG(info.st_mode):
            return "no file"
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return "gone"
    try:
        digest = hash_open(REAL, fd)
    except OSError:
        return "unreadable"
    finally:
        os.close(fd)
    return f"{'100755' if info.st_mode & 0o100 else '100644'} {digest}"


def _is_ours(path: str) -> bool:
    return path == SUMMARY_FILE or path.startswith(f"{DIRECTORY}/")


def _short(commit: "str | None") -> str:
    return "none" if commit is None else commit[:12]
