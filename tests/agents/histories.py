"""Git repositories made for tests, and the oracle that says what git would call a directory.

Repositories are written as a stream for `git fast-import`, which takes any bytes as names and any
mode, and needs one process however many commits there are.
"""

import hashlib
import os
import stat
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from eventlog.blobs.tree import DIRECTORY, SUBMODULE, TreeEntry

FILE, EXECUTABLE, SYMLINK, SUBMODULE_MODE = "100644", "100755", "120000", "160000"
_MODE_OF_KIND = {b"f": FILE, b"x": EXECUTABLE, b"l": SYMLINK, b"m": SUBMODULE_MODE}

# (mode, content) by path; of a submodule the content is the commit's hex digits.
Files = dict[bytes, tuple[str, bytes]]


@dataclass
class History:
    """A line of commits under construction; `stream` feeds fast-import."""

    files: Files = field(default_factory=dict)
    commits: int = 0
    parts: list[bytes] = field(default_factory=list)
    time_s: int = 1_700_000_000
    branches: set[str] = field(default_factory=set)  # that the repository has
    _continued: set[str] = field(default_factory=set)  # that this stream has commits of

    def put(self, path: bytes, content: bytes, mode: str = FILE) -> "History":
        for other in [p for p in self.files if p.startswith(path + b"/") or path.startswith(p + b"/")]:
            del self.files[other]
        self.files[path] = (mode, content)
        return self

    def remove(self, path: bytes) -> "History":
        self.files.pop(path, None)
        return self

    def commit(
        self,
        message: str | bytes = "a change",
        *,
        branch: str = "main",
        start: str | None = None,
        merge: str | None = None,
        headers: bytes = b"",
        author: bytes = b"A U Thor <author@example.org> 1700000000 +0100",
    ) -> "History":
        """Commit all files as they are."""
        text = message.encode("utf-8") if isinstance(message, str) else message
        self.commits += 1
        self.time_s += 60
        out = [b"commit refs/heads/%b\n" % branch.encode(), b"author %b\n" % author]
        out.append(b"committer C O Mitter <committer@example.org> %d -0230\n" % self.time_s)
        out.append(headers)
        out.append(b"data %d\n%b\n" % (len(text), text))
        if start is None and branch in self.branches - self._continued:
            start = f"{branch}^0"  # as it is in the repository, since this stream has not made it
        self._continued.add(branch)
        if start is not None:
            out.append(b"from refs/heads/%b\n" % start.encode())
        if merge is not None:
            out.append(b"merge refs/heads/%b\n" % merge.encode())
        out.append(b"deleteall\n")
        for path, (mode, content) in self.files.items():
            if mode == SUBMODULE_MODE:
                out.append(b"M %b %b %b\n" % (mode.encode(), content, _quoted(path)))
            else:
                out.append(b"M %b inline %b\n" % (mode.encode(), _quoted(path)))
                out.append(b"data %d\n%b\n" % (len(content), content))
        self.parts += out
        return self

    def write(self, path: str, *options: str) -> str:
        """Make the repository (bare, unless `options` say otherwise) at `path`; `path`."""
        git(None, "init", "-q", "--initial-branch=main", *(options or ("--bare",)), path)
        self.add_to(path)
        return path

    def add_to(self, path: str) -> None:
        """Add the commits made since the last call."""
        stream = b"".join(self.parts)
        self.parts = []
        self.branches |= self._continued
        self._continued = set()
        git(path, "fast-import", "--quiet", "--force", "--date-format=raw-permissive", stdin=stream)


def git(path: str | None, *arguments: str, stdin: bytes = b"", **env: str) -> str:
    """Standard output of a git command, with no configuration but the repository's own."""
    where = [] if path is None else ["-C", path]
    done = subprocess.run(
        ["git", *where, *arguments],
        input=stdin,
        capture_output=True,
        env={
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "A U Thor",
            "GIT_AUTHOR_EMAIL": "author@example.org",
            "GIT_COMMITTER_NAME": "C O Mitter",
            "GIT_COMMITTER_EMAIL": "committer@example.org",
            **env,
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def line_of(path: str, rev: str = "HEAD") -> list[str]:
    """The first-parent line, oldest commit first."""
    return git(path, "rev-list", "--first-parent", "--reverse", rev).split()


def trees_of(path: str, rev: str = "HEAD") -> dict[str, str]:
    """Git's tree id of every commit that `rev` reaches."""
    lines = git(path, "log", "--format=%H %T", rev).splitlines()
    return dict(line.split(" ") for line in lines)


# -- the oracle: git's ids, computed here ---------------------------------------------------------------

_Nested = dict[bytes, "tuple[str, str] | _Nested"]


def git_tree_of_walk(
    entries: Iterable[tuple[bytes, TreeEntry]], get: Callable[[bytes], bytes], algorithm: str = "sha1"
) -> str:
    """What git would call the tree that a walk shows."""
    files: dict[bytes, tuple[str, str]] = {}
    for path, entry in entries:
        if entry.kind == SUBMODULE:
            files[path] = (SUBMODULE_MODE, get(entry.id).decode("ascii"))
        elif entry.kind != DIRECTORY:
            files[path] = (_MODE_OF_KIND[entry.kind], _object_id(b"blob", get(entry.id), algorithm))
    return _tree_id(files, algorithm)


def git_tree_of_directory(root: str, submodules: Mapping[bytes, str], algorithm: str = "sha1") -> str:
    """What git would call the files on disk below `root`; `submodules` are commits by path.

    Empty directories that are no submodule are a failure: git knows none.
    """
    files: dict[bytes, tuple[str, str]] = {
        path: (SUBMODULE_MODE, commit) for path, commit in submodules.items()
    }
    top = os.fsencode(root)
    for directory, folders, names in os.walk(top):
        inside = os.path.relpath(directory, top)
        assert folders or names or inside == b"." or inside in submodules, f"{inside!r} is empty"
        for name in [*names, *(f for f in folders if os.path.islink(os.path.join(directory, f)))]:
            path = os.path.join(directory, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                kind, data = SYMLINK, os.readlink(path)
            else:
                kind = EXECUTABLE if mode & 0o100 else FILE
                with open(path, "rb") as file:
                    data = file.read()
            files[os.path.relpath(path, top)] = (kind, _object_id(b"blob", data, algorithm))
    return _tree_id(files, algorithm)


def _tree_id(files: Mapping[bytes, tuple[str, str]], algorithm: str) -> str:
    root: _Nested = {}
    for path, leaf in files.items():
        *folders, name = path.split(b"/")
        at = root
        for folder in folders:
            below = at.setdefault(folder, {})
            assert isinstance(below, dict)
            at = below
        at[name] = leaf
    return _nested_id(root, algorithm)


def _nested_id(tree: _Nested, algorithm: str) -> str:
    rows = []
    for name, what in tree.items():
        if isinstance(what, dict):
            rows.append((name + b"/", b"40000 " + name, _nested_id(what, algorithm)))
        else:
            rows.append((name, what[0].encode() + b" " + name, what[1]))
    body = b"".join(head + b"\0" + bytes.fromhex(id) for _, head, id in sorted(rows))
    return _object_id(b"tree", body, algorithm)


def _object_id(kind: bytes, data: bytes, algorithm: str) -> str:
    return hashlib.new(algorithm, b"%b %d\0" % (kind, len(data)) + data).hexdigest()


def _quoted(path: bytes) -> bytes:
    return (
        b'"' + b"".join(b"\\%03o" % c if c < 33 or c > 126 or c in b'"\\' else b"%c" % c for c in path) + b'"'
    )
