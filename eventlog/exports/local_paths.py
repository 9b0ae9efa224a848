"""Paths of this machine, removed from texts that leave it (P5; docs/locusgraph.md, "What stays here").

A path inside the project becomes relative to it; any other path of a person's machine becomes a mark. Works
on JSON text, in which all other bytes stay as they are. Pure, but for `LocalPaths.of`; any thread.
"""

import os
import re
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.store import Store

MARK = "[local path]"

# Directories where people and their programs keep files; /usr, /etc and the like are the same everywhere.
_DIRECTORIES = (
    "home", "Users", "root", "tmp", "var", "private", "proc", "mnt", "media", "Volumes", "srv", "opt", "run",
    "data", "work", "workspace", "workspaces",
)  # fmt: skip
_OF_PEOPLE = ("home", "Users", "root")
# Keys whose value is a path, in the arguments and results of tools.
_KEYS = (
    "cwd", "root", "dir", "directory", "workdir", "path", "file_path", "filePath", "filepath", "filename",
    "file", "absolute_path", "absolutePath", "notebook_path", "transcript_path", "transcriptPath",
    "agent_transcript_path", "output_file", "outputFile", "persistedOutputPath", "dir_path", "target_file",
    "uri", "old_path",
)  # fmt: skip

_NAME = r"""[^\s"'`<>|;,()\[\]{}\\]"""
_BEFORE = r"(?:(?<![\w.\-])|(?<=\\[nrtbf]))"  # neither a relative path nor a URL ends here; a line may
_FILE = r"(?:file://[^/\s\"]*)?"
_WINDOWS = rf"[A-Za-z]:(?:\\\\|/){_NAME}+(?:\\\\{_NAME}*)*"
_TEXT = r"(?:[^\"\\]|\\.)*"

_OF_HOOKS = re.compile(r'(?<!\\)"hook_us":\d+,|,(?<!\\)"hook_us":\d+|(?<!\\)"hook_us":\d+')
_VALUES = re.compile(rf'(?<!\\)"({"|".join(_KEYS)})":"(?:/|~/|file:|[A-Za-z]:(?:\\\\|/)){_TEXT}"')
_WINDOWS_MARKS = (":/", r":\\")
# Each match of `_VALUES` holds one of these.
_VALUE_MARKS = ('":"/', '":"~/', '":"file:', *_WINDOWS_MARKS)
_ESCAPED_SLASH = re.compile(r"\\/|\\u002[fF]")


class LocalPaths:
    """The paths to remove, for the projects in `roots`."""

    def __init__(self, roots: Iterable[str]) -> None:
        self._roots = [_root(root) for root in _outermost(roots)]
        own_pattern = "|".join(map(re.escape, _own_directories()))
        self._anywhere = _local_path_pattern(_DIRECTORIES, own_pattern)
        # Each match of `_anywhere` holds one of these.
        named = (f"/{directory}/" for directory in _DIRECTORIES)
        self._marks = (*_WINDOWS_MARKS, "~/", *named, *_own_directories())
        self._of_people = _local_path_pattern(_OF_PEOPLE, own_pattern)

    @classmethod
    def of(cls, store: "Store", view: "LogView") -> "LocalPaths":
        """Those of a store: of its project's directory, and of the directories that events name."""
        directories: set[str] = set()
        for batch in view.batches(columns=("cwd",)):
            directories.update(batch.column(0).unique().to_pylist())
        recorded = (directory for directory in directories if directory and directory.startswith("/"))
        return cls([*homes_of(store), *recorded])

    def payload(self, text: str) -> str:
        """A payload's JSON text without measurements of hooks and without paths of this machine."""
        if '"hook_us"' in text:
            text = _OF_HOOKS.sub("", text)
        if "\\/" in text or "\\u002" in text:
            text = _ESCAPED_SLASH.sub("/", text)
        if "/" not in text and ":\\" not in text:
            return text
        text = self._relative(text)
        # To find none of these texts takes a hundredth of what a pattern takes to match nowhere.
        if any(mark in text for mark in _VALUE_MARKS):
            text = _VALUES.sub(rf'"\1":"{MARK}"', text)
        return self._anywhere.sub(MARK, text) if any(mark in text for mark in self._marks) else text

    def diff(self, text: str) -> str:
        """A diff without homes of people; other paths in its lines are content of the project."""
        return self._of_people.sub(MARK, self._relative(text))

    def _relative(self, text: str) -> str:
        for root, pattern in self._roots:
            if root in text:
                text = pattern.sub(lambda match: "" if match[0].endswith("/") else ".", text)
        return text


def homes_of(store: "Store") -> list[str]:
    """The project's directory on this machine, by its names."""
    root = store.layout.root
    return list(dict.fromkeys(map(os.path.dirname, (os.path.abspath(root), os.path.realpath(root)))))


def _root(root: str) -> tuple[str, "re.Pattern[str]"]:
    return root, re.compile(rf"{_FILE}{re.escape(root)}(?:/+(?={_NAME})|/*(?![\w.\-/]))")


def _local_path_pattern(directories: tuple[str, ...], own_pattern: str) -> "re.Pattern[str]":
    named = rf"/(?:{'|'.join(directories)})/{_NAME}+|~/{_NAME}+|(?:{own_pattern})(?:/{_NAME}*)?"
    return re.compile(rf"{_BEFORE}(?:{_FILE}(?:{named})|{_WINDOWS})")


def _own_directories() -> list[str]:
    """Directories of the user that runs this, longest first."""
    directories = {os.path.expanduser("~"), tempfile.gettempdir()}
    own = [directory.rstrip("/") for directory in directories if directory.count("/") > 1]
    return sorted(own, key=len, reverse=True) or ["\0"]


def _outermost(roots: Iterable[str]) -> list[str]:
    """The roots that are inside no other; neither the root directory nor a home is a project."""
    home = os.path.expanduser("~")
    outermost: list[str] = []
    for root in sorted({root.rstrip("/") for root in roots}, key=len):
        is_too_high = root.count("/") < 2 or root == home
        if not is_too_high and not any(root.startswith(f"{other}/") for other in outermost):
            outermost.append(root)
    return outermost
