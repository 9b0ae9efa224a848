"""Capture for programs that record themselves: a directory as hooks see it, by the store's settings.

    with captured(store, ".") as directory:
        store.append([directory.into(lifecycle.snapshot(session, turn, "turn_end", directory.tree))])

The same engine as a hook's (docs/capture.md), without its deadline: the capture is complete, and no
content is left for later.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from eventlog.base import config
from eventlog.base.types import Event
from eventlog.blobs.ids import from_text, to_text
from eventlog.store import Store
from eventlog.worktree import git as worktree_git
from eventlog.worktree.capture import capture, git_facts, selection_of


@dataclass(frozen=True, slots=True)
class CapturedDirectory:
    """What a directory held: its tree, and columns and payload of the snapshot that says so."""

    tree: str
    columns: dict[str, Any]
    payload: dict[str, Any]

    def into(self, snapshot: Event) -> Event:
        """The snapshot event with all of it; what its writer states of git wins."""
        stated = snapshot["payload"]
        assert isinstance(stated, dict)
        facts = {name: value for name, value in self.payload.items() if value is not None}
        return {**snapshot, "tree_hash": self.tree, **self.columns, "payload": {**facts, **stated}}


@contextmanager
def captured(
    store: Store, root: "str | os.PathLike[str]", previous: "str | None" = None
) -> Iterator[CapturedDirectory]:
    """Capture `root`; within this nothing collects what it found, so append the event that names it.

    Args: previous: the tree to count the changes since.
    Raises: NotFound (no such directory), Refused, NotDurable.
    """
    settings = config.read(store.fs, store.layout)
    keeps = config.keeps_ignored(store.fs, store.layout) is True
    with store.blobs.writer() as writer:
        done = capture(
            writer,
            os.fspath(root),
            previous=None if previous is None else from_text(previous),
            selection=selection_of(settings, keep_ignored=keeps),
        )
        columns: dict[str, Any] = {"success": not done.partial}
        directory = os.fsencode(os.path.realpath(root))
        git = worktree_git.find(directory)
        differing: dict[str, Any] = {}
        if git is not None:
            differing = git_facts(directory)
            columns["commit"], columns["branch"] = worktree_git.head(git.git_dir)
        doubt = {"state": "partial", "warning": done.warning} if done.partial else {}
        facts = {
            **done.facts(),
            "git_head": columns.get("commit"),
            "git_branch": columns.get("branch"),
            **differing,
            "files_changed": None if previous is None else len(done.changes),
            "capture": {**doubt, **done.deferred_facts()} or None,
        }
        tree = to_text(done.root)
        columns["blobs"] = [tree, *done.lists()]
        done.close()
        yield CapturedDirectory(tree, columns, facts)
