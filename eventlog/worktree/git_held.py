"""Which files of a work tree git holds byte for byte, so that they need not be read.

The index proves that git made an object of this very file (`git_index`). The object has the same bytes only
where nothing converts the file: no `core.autocrlf`, and no attribute that sets line endings, an encoding,
`$Id$` or a filter. Git is asked for attributes only where there can be any, by a child that starts no program
(`git`).

A conversion that applied when the file was added may no longer be set, and an object may be gone. So git is
asked at the end whether it has each object, with as many bytes as the file. Belongs to one scan. On the hook
path.
"""

import os
from itertools import compress

from eventlog.blobs.tree import SKIPPED
from eventlog.worktree import git, git_index
from eventlog.worktree.git import ATTRIBUTES_FILE, GitFailed
from eventlog.worktree.rows import YES
from eventlog.worktree.stat_all import is_late

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from eventlog.worktree.contents import ContentReader
    from eventlog.worktree.entries import Entries
    from eventlog.worktree.git import RepositoryPaths, Settings
    from eventlog.worktree.git_index import GitIndex
    from eventlog.worktree.rows import Directory

_CONVERTING = frozenset((b"text", b"crlf", b"eol", b"ident", b"filter", b"working-tree-encoding"))
_FALSE = frozenset((b"", b"false", b"no", b"off", b"0"))

# Reading this much takes no longer than asking git for it and starting the process that stores it later.
READ_FILES_MAX = 100
READ_BYTES_MAX = 256 << 10

_STRIDE = 256  # names between two readings of the clock


class HeldByGit:
    """The objects of git that have the bytes of files; `files` collects those that a scan meets."""

    def __init__(
        self,
        index: "GitIndex",
        converted: "set[bytes]",
        attributes_asked: bool,
        root: bytes,
        deadline: "float | None" = None,
    ) -> None:
        """Args: converted: paths that something may convert; asked: whether git was asked for them."""
        self._index = index
        self._root = root
        self._deadline = deadline
        self._converted = converted
        self._attributes_asked = attributes_asked
        self._doubtful: "tuple[bytes, ...]" = ()  # beginnings of paths

    def files(self, entries: "Entries") -> "HeldFiles":
        return HeldFiles(self, entries, self._index.tracked)

    def object_of(self, path: bytes, file_stat: os.stat_result) -> "bytes | None":
        """The id of the object whose bytes are those of the file at `path`; None when that is not proven."""
        if path in self._converted or (self._doubtful and path.startswith(self._doubtful)):
            return None
        return self._index.object_of(path, file_stat)

    def are_there(self, objects: "Sequence[tuple[bytes, int]]") -> "list[bool]":
        """Whether git has each of these objects, with this many bytes. Raises: GitFailed."""
        if not objects:
            return []
        names = b"".join(object for object, _ in objects).hex("\n", len(objects[0][0])) + "\n"
        format = "--batch-check=%(objecttype) %(objectsize)"
        arguments = ["--no-replace-objects", "cat-file", "--buffer", format]
        _, answer = git.run(self._root, arguments, names.encode(), self._deadline)
        lines = answer.split(b"\n")[:-1]
        if len(lines) != len(objects):
            raise GitFailed(f"git cat-file: {len(lines)} answers to {len(objects)} questions")
        return [line == b"blob %d" % size for line, (_, size) in zip(lines, objects, strict=True)]

    def note_attributes(self, directory: bytes) -> None:
        """Note an attributes file in `directory`. Git took it into account if it was tracked when asked."""
        path = directory + b"/" + ATTRIBUTES_FILE if directory else ATTRIBUTES_FILE
        if not self._attributes_asked or path not in self._index.tracked:
            self._doubtful += (directory + b"/" if directory else b"",)


class HeldFiles:
    """The files of a scan that git holds: nobody reads their contents. Their rows come when all are known."""

    __slots__ = ("_entries", "_files", "_held", "_tracked")

    def __init__(self, held: HeldByGit, entries: "Entries", tracked: "Collection[bytes]") -> None:
        """Args: tracked: the paths that git tracks."""
        self._held = held
        self._entries = entries
        self._tracked = tracked
        # With its path, its stat and git's object.
        self._files: "list[tuple[Directory, bytes, bytes, os.stat_result, bytes]]" = []

    def take(
        self, directory: "Directory", names: "dict[bytes, bool]", deadline: "float | None"
    ) -> "dict[bytes, bool]":
        """Take the stats of the files that git holds, of a directory without rows; the other names.

        Args: names: of the directory, with whether each is a directory.
        """
        prefix = directory.path + b"/" if directory.path else b""
        lstat, fd = self._entries.calls.lstat, self._entries.dir(directory.path)
        tracked, size_max = self._tracked, self._entries.size_max
        others = {}
        late = False
        for number, (name, is_dir) in enumerate(names.items()):
            late = late or (number % _STRIDE == 0 and is_late(deadline))
            path = prefix + name
            if path in tracked and not (is_dir or late or name in directory.refused):
                try:
                    file_stat = lstat(fd, name)
                except OSError:
                    file_stat = None  # the next step to read it reports the error
                object = None if file_stat is None else self._held.object_of(path, file_stat)
                if file_stat is not None and object is not None and file_stat.st_size <= size_max:
                    self._files.append((directory, name, path, file_stat, object))
                    continue
            others[name] = is_dir
        return others

    def put_rows(self, contents: "ContentReader") -> "list[tuple[Directory, bytes, os.stat_result]]":
        """Put the rows of the files, and the list of them; those to read all the same, as git lacks them."""
        files = self._files
        present = [False] * len(files)
        size = sum(file_stat.st_size for *_, file_stat, _ in files)
        if len(files) > READ_FILES_MAX or size > READ_BYTES_MAX:
            try:
                objects = [(object, file_stat.st_size) for *_, file_stat, object in files]
                present = self._held.are_there(objects)
            except GitFailed:
                pass  # then they are read like the others
        lacking = [
            (directory, name, file_stat)
            for (directory, name, _, file_stat, _), is_present in zip(files, present, strict=True)
            if not is_present
        ]
        files = list(compress(files, present))
        if not files:
            return lacking
        sentence = contents.list_held(
            [
                (
                    path,
                    self._entries.kind_of(file_stat),
                    file_stat.st_size,
                    file_stat.st_mtime_ns,
                    file_stat.st_ctime_ns,
                    file_stat.st_ino,
                    object,
                )
                for _, _, path, file_stat, object in files
            ]
        )
        proof = self._entries.proof
        for directory, name, _, file_stat, _ in files:
            directory.rows[name] = (SKIPPED, sentence, file_stat.st_size, proof(file_stat), YES, None)
        return lacking


def index_of(
    repository: "RepositoryPaths", root: bytes, settings: "Settings", deadline: "float | None" = None
) -> "GitIndex | None":
    """The index of a repository below `root`; None where git has to be asked. Raises: TooLate."""
    if _last(settings, b"core.worktree") is not None:
        return None  # it may be about another directory
    is_sha256 = _last(settings, b"extensions.objectformat") == b"sha256"
    prefix = b"" if root == repository.top else os.path.relpath(root, repository.top) + b"/"
    return git_index.read(repository.git_dir + b"/index", 32 if is_sha256 else 20, prefix, deadline)


def held_by_git(
    repository: "RepositoryPaths",
    root: bytes,
    settings: "Settings",
    index: "GitIndex",
    deadline: "float | None" = None,
) -> "HeldByGit | None":
    """Which files below `root` git holds; None when no file can be proven to be held.

    Raises: GitFailed.
    """
    autocrlf = _last(settings, b"core.autocrlf")
    if (autocrlf or b"").lower() not in _FALSE or _last(settings, b"attr.tree") is not None:
        return None
    attributes_asked = _has_attributes(repository, root, settings, index)
    converted = _converted(root, index.tracked, deadline) if attributes_asked else set()
    return HeldByGit(index, converted, attributes_asked, root, deadline)


def _last(settings: "Settings", name: bytes) -> "bytes | None":
    """The value that counts of a setting; `true` where it has none."""
    last = None
    for _, key, value in settings:
        if key == name:
            last = b"true" if value is None else value
    return last


def _has_attributes(
    repository: "RepositoryPaths", root: bytes, settings: "Settings", index: "GitIndex"
) -> bool:
    """Whether any file that git tracks, or any outside the work tree, sets attributes."""
    if root != repository.top or _last(settings, b"core.attributesfile") is not None:
        return True  # a directory above may have some
    names = b"\0/%b\0" % b"\0/".join(index.tracked)
    if b"/" + ATTRIBUTES_FILE + b"\0" in names.lower():
        return True
    return any(map(os.path.lexists, _attribute_files(repository, settings)))


def _attribute_files(repository: "RepositoryPaths", settings: "Settings") -> "list[bytes]":
    """The files outside the work tree, existing or not, that may set attributes."""
    _, config = git.config_homes()
    files = [repository.common_dir + b"/info/attributes", config + b"/git/attributes", b"/etc/gitattributes"]
    # The system's are beside its configuration, or below the directory that git was installed in.
    files += [os.path.dirname(origin) + b"/gitattributes" for origin, _, _ in settings]
    for directory in os.get_exec_path():
        above = os.path.dirname(os.path.abspath(os.fsencode(directory)))
        files.append(above + b"/etc/gitattributes")
    return list(dict.fromkeys(files))


def _converted(root: bytes, paths: "Collection[bytes]", deadline: "float | None") -> "set[bytes]":
    """Those of `paths` that git may convert. Raises: GitFailed."""
    too_long = {path for path in paths if len(root) + len(path) >= git.PATH_SIZE_MAX}
    names = b"".join(path + b"\0" for path in paths if path not in too_long)
    _, answer = git.run(root, ["check-attr", "-z", "--stdin", "--all"], names, deadline)
    words = answer.split(b"\0")
    return too_long | {
        path
        for path, attribute, value in zip(words[::3], words[1::3], words[2::3], strict=False)
        if attribute in _CONVERTING and value != b"unset"
    }
