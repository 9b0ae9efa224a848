"""Where agents keep their transcripts, and which of them belong to a repository. Only reads.

A named file is taken as it is; of a named directory, and of an agent's own places, those files that look like
its transcripts. Symlinks below what was named are not followed.
"""

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence

from eventlog import repository
from eventlog.errors import EventLogError, NotFound
from eventlog.transcripts import formats
from eventlog.transcripts.lines import FileSource

Environ = Mapping[str, str]


def named(agent: str, paths: Sequence[str], *, since_s: float | None = None) -> list[FileSource]:
    """The sources in these files and directories. Raises: NotFound."""
    found: list[FileSource] = []
    for path in paths:
        path = os.path.abspath(path)
        if os.path.isdir(path):
            below = _files_below(path, formats.suffixes_of(agent))
            alike = [one for one in below if formats.looks_like(agent, one)]
            if not alike:
                raise NotFound(f"{path}: no file in it looks like a transcript of {agent}")
            found += [one for file in alike for one in _sources(formats.sources_of(agent, file), since_s)]
        elif os.path.lexists(path):
            found += formats.sources_of(agent, path)
        else:
            raise NotFound(f"{path}: there is no such file or directory")
    return _each_once(found)


def kept(
    agent: str,
    directory: str,
    environ: Environ,
    *,
    since_s: float | None = None,
    all_projects: bool = False,
) -> list[FileSource]:
    """The sources in the agent's own places, of sessions that ran in the repository at `directory`.

    With `all_projects` those of other directories too; they are recorded for the repository that their
    directory is in, if that can still be seen. Raises: NotFound when the agent keeps nothing here.
    """
    places = formats.places_of(agent, environ)
    present = [place for place in places if os.path.isdir(place) or os.path.isfile(place)]
    if not present:
        raise NotFound(
            f"{agent} has left no transcripts here (looked in {', '.join(places)}). "
            f"Name files or directories if you have them elsewhere."
        )
    found = []
    roots = _roots_of(directory)
    repos: dict[str, str | None] = {}
    for place in present:
        paths = _files_below(place, formats.suffixes_of(agent)) if os.path.isdir(place) else iter([place])
        inside = (source for path in paths for source in formats.sources_in(agent, path))
        for source in _sources(inside, since_s):
            ran_in, root = formats.root_of(agent, source, roots)
            if root is not None:
                source.root = root
            elif all_projects:
                source.is_foreign = True
                source.repo = _repo_of(ran_in, repos)
            else:
                continue
            found.append(source)
    return _each_once(found)


def _sources(sources: "Iterable[FileSource]", since_s: float | None) -> Iterator[FileSource]:
    """Those that were changed since."""
    for source in sources:
        try:
            if since_s is None or source.touched_s() >= since_s:
                yield source
        except OSError:
            continue  # it is gone


def _files_below(directory: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Plain files with one of the suffixes, in order of names; directories that cannot be read are passed."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(entry.path, suffixes)
        elif entry.is_file(follow_symlinks=False) and entry.name.endswith(suffixes):
            yield entry.path


def _each_once(sources: list[FileSource]) -> list[FileSource]:
    """Without those that are part of another: a subagent's file goes with its session's."""
    parts = {part for source in sources for part in source.parts[1:]}
    return list({one.path: one for one in sources if one.path not in parts}.values())


def _roots_of(directory: str) -> list[str]:
    """The working trees of the repository at `directory`, the longest path first; itself outside git."""
    roots = {os.path.realpath(directory), os.path.abspath(directory)}
    try:
        done = subprocess.run(
            ["git", "-C", directory, "worktree", "list", "--porcelain"],
            env=repository.git_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError:
        done = None
    if done is not None and done.returncode == 0:
        for line in done.stdout.split(b"\n"):
            if line.startswith(b"worktree "):
                roots.add(os.fsdecode(line[len(b"worktree ") :]))
    return sorted(roots, key=len, reverse=True)


def _repo_of(directory: str | None, known: "dict[str, str | None]") -> str | None:
    """The repository hash of a directory that is still here; None when nothing can be said."""
    if directory is None or not os.path.isdir(directory):
        return None
    if directory not in known:
        try:
            found = repository.repo_hash_of(directory)
        except EventLogError:
            found = None
        known[directory] = None if found is None else found[0]
    return known[directory]
