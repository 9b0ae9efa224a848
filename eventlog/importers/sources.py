"""Where agents keep their transcripts, and which of them belong to a repository. Only reads.

A named file is taken as it is; of a named directory, and of an agent's own directories, the files that look
like its transcripts. Symlinks below a named path are not followed. Files that are not taken, though they may
hold a session, are reported with the reason (P7).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eventlog.agents import formats
from eventlog.agents.kit.lines import FileSource
from eventlog.base import repository
from eventlog.base.errors import EventLogError, NotFound
from eventlog.importers import foreign

Environ = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Passed:
    """A file or directory that was passed over, or one session in it, and why.

    `failed`: it is, or may be, a wanted transcript, or another agent's. A file with a name that other files
    also have, such as `package.json`, is not.
    """

    path: str
    reason: str
    failed: bool = True
    session: str | None = None


def named(
    agent: str,
    paths: Sequence[str],
    *,
    since_s: float | None = None,
    passed: "list[Passed] | None" = None,
) -> list[FileSource]:
    """The sources in these files and directories. Raises: NotFound.

    Args: passed: receives what was passed over in directories.
    """
    sources: list[FileSource] = []
    passed = [] if passed is None else passed
    for path in paths:
        path = os.path.abspath(path)
        if os.path.isdir(path):
            search = _Search(agent, since_s)
            matching = [source for file in search.files_below(path, path) for source in search.alike_in(file)]
            passed += search.passed
            if not matching and not any(source.failed for source in search.passed):
                raise NotFound(f"{path}: no file in it looks like a transcript of {agent}")
            sources += filter(search.is_wanted, matching)
        elif os.path.lexists(path):
            sources += formats.sources_of(agent, path)
        else:
            raise NotFound(
                f"{path}: there is no such file or directory. Give a transcript or a directory of them; "
                f"`locus import {agent} --help` shows how."
            )
    return _each_once(sources)


def of_agent(
    agent: str,
    directory: str,
    environ: Environ,
    *,
    since_s: float | None = None,
    all_projects: bool = False,
    passed: "list[Passed] | None" = None,
) -> list[FileSource]:
    """The sources in the agent's own directories, of sessions that ran in the repository at `directory`.

    With `all_projects` those of other directories too; they are recorded for the repository of their
    directory, if that still exists. Raises: NotFound when the agent keeps nothing here.

    Args: passed: receives what was passed over there.
    """
    locations = formats.directories_of(agent, environ)
    search = _Search(agent, since_s)
    present = [location for location in locations if search.is_present(location)]
    if not present and not search.passed:
        raise NotFound(
            f"{agent} has left no transcripts here (looked in {', '.join(locations)}). "
            f"Name files or directories if you have them elsewhere."
        )
    sources = []
    roots = _roots_of(directory)
    repos: dict[str, str | None] = {}
    for location in present:
        for source, head in search.sources_in_location(location):
            ran_in, root = formats.root_of(agent, source, head, roots)
            if root is not None:
                source.root = root
            elif head and not formats.is_one(agent, head):
                search.pass_other(source.path, head)
                continue
            elif all_projects:
                source.is_foreign = True
                source.repo = _repo_of(ran_in, repos)
            else:
                continue
            sources.append(source)
    if passed is not None:
        passed += search.passed
    return _each_once(sources)


_PACKED = (".gz", ".bz2", ".xz", ".zip", ".zst", ".lz4", ".br")


class _Search:
    """One agent's files below a directory; `passed` collects what is passed over. One thread."""

    def __init__(self, agent: str, since_s: float | None) -> None:
        self._agent = agent
        self._since_s = since_s
        self._suffixes = formats.suffixes_of(agent)
        self._packed = tuple(suffix + packed for suffix in self._suffixes for packed in _PACKED)
        self.passed: list[Passed] = []

    def is_present(self, location: str) -> bool:
        """Whether a location of the agent exists; one that cannot be read is passed over."""
        try:
            os.stat(location)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self._pass(location, f"cannot be read: {error.strerror}")
            return False
        return True

    def sources_in_location(self, location: str) -> "Iterator[tuple[FileSource, list[dict[str, Any]]]]":
        """The sources in a location of the agent, with the objects that each begins with."""
        for path in self.files_below(location, location) if os.path.isdir(location) else (location,):
            try:
                sources = list(formats.sources_in(self._agent, path))
            except EventLogError as error:
                self._pass_unreadable(path, error)
                continue
            for source in filter(self.is_wanted, sources):
                head = self._head_of(source)
                if head is not None:
                    yield source, head

    def alike_in(self, path: str) -> list[FileSource]:
        """The sources in a file that begins as the agent's transcripts do; none in any other."""
        try:
            sources = formats.sources_of(self._agent, path)
        except EventLogError as error:
            self._pass_unreadable(path, error)
            return []
        head = self._head_of(sources[0])
        if head is not None and formats.is_one(self._agent, head):
            return sources
        if head:
            self.pass_other(path, head)
        return []

    def is_wanted(self, source: FileSource) -> bool:
        """Whether it was changed since the wanted time."""
        try:
            return self._since_s is None or source.touched_s() >= self._since_s
        except OSError:
            return False  # it is gone

    def files_below(self, directory: str, top: str) -> Iterator[str]:
        """Plain files with one of the agent's suffixes, in order of names. `top` is where the walk began."""
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        except FileNotFoundError:
            return  # it was removed meanwhile
        except OSError as error:
            self._pass(directory, f"cannot be read: {error.strerror}")
            return
        for entry in entries:
            fits = entry.name.endswith(self._suffixes)
            if entry.is_dir(follow_symlinks=False):
                yield from self.files_below(entry.path, top)
            elif entry.is_file(follow_symlinks=False) and fits:
                yield entry.path
            elif entry.is_symlink():
                if (fits or os.path.isdir(entry.path)) and not _is_below(entry.path, top):
                    self._pass(entry.path, "a symbolic link, which is not followed")
            elif fits:
                self._pass(entry.path, "no plain file")
            elif (reason := foreign.whose_name(entry.name)) is not None:
                self._pass(entry.path, reason)
            elif entry.name.endswith(self._packed):
                self._pass(entry.path, "is compressed; decompress it first")

    def _head_of(self, source: FileSource) -> "list[dict[str, Any]] | None":
        """The objects that a source begins with; None when it is passed over, or is empty."""
        try:
            head = source.head()
            if head or not _has_text(source.path):
                return head or None
        except NotFound:
            return None  # it was removed meanwhile
        except EventLogError as error:
            self._pass_unreadable(source.path, error)
            return None
        self._pass(source.path, "begins with no whole line of JSON")
        return None

    def pass_other(self, path: str, head: "list[dict[str, Any]]") -> None:
        """Pass over a file of JSON that is not the agent's."""
        whose = foreign.whose(self._agent, path, head)
        # The session files of some agents are recognised by their location.
        is_any = whose is None and (path.endswith(".json") or not any(formats.sources_in(self._agent, path)))
        self._pass(
            path,
            whose or ("JSON of another kind" if is_any else f"no transcript of {self._agent}"),
            failed=not is_any,
        )

    def _pass_unreadable(self, path: str, error: EventLogError) -> None:
        if (objects := foreign.objects_in_array(path)) is not None:
            self.pass_other(path, objects)
        elif not isinstance(error, NotFound):
            whose = foreign.whose_name(os.path.basename(path))
            self._pass(path, whose or str(error).removeprefix(path).lstrip(": "))

    def _pass(self, path: str, reason: str, *, failed: bool = True) -> None:
        try:
            if self._since_s is None or os.lstat(path).st_mtime >= self._since_s:
                self.passed.append(Passed(path, reason, failed))
        except FileNotFoundError:
            pass  # it was removed meanwhile
        except OSError:
            self.passed.append(Passed(path, reason, failed))


def _is_below(link: str, top: str) -> bool:
    """Whether a link leads to a path that the walk reaches anyway."""
    return f"{os.path.realpath(link)}/".startswith(f"{os.path.realpath(top)}/")


def _has_text(path: str) -> bool:
    """Whether a file holds any text: a session without any is no problem."""
    try:
        with open(path, "rb") as file:
            return bool(file.read(1 << 16).strip())
    except OSError:
        return False


def _each_once(sources: list[FileSource]) -> list[FileSource]:
    """The sources without those that are part of another: a subagent's file goes with its session's."""
    parts = {part for source in sources for part in source.parts[1:]}
    return list({source.path: source for source in sources if source.path not in parts}.values())


def _roots_of(directory: str) -> list[str]:
    """The working trees of the repository at `directory`, the longest path first; itself outside git."""
    roots = {os.path.realpath(directory), os.path.abspath(directory)}
    listed = repository.git_output(directory, ["worktree", "list", "--porcelain"]) or b""
    for line in listed.split(b"\n"):
        if line.startswith(b"worktree "):
            roots.add(os.fsdecode(line[len(b"worktree ") :]))
    return sorted(roots, key=len, reverse=True)


def _repo_of(directory: str | None, repos: "dict[str, str | None]") -> str | None:
    """The repository hash of a directory that still exists; None when it is unknown."""
    if directory is None or not os.path.isdir(directory):
        return None
    if directory not in repos:
        try:
            repository_id = repository.repo_hash_of(directory)
        except EventLogError:
            repository_id = None
        repos[directory] = None if repository_id is None else repository_id[0]
    return repos[directory]
