"""The commits, trees and contents of a git repository, read by plumbing commands and never written.

`open_repository` finds the git directory of a path. All commands except `rev-parse`, which has to see the
refs, run in an empty git directory of our own that borrows the repository's objects. So no configuration,
attribute, hook, replace ref, graft, external diff or lazy fetch of the user or of a hostile repository can
change what is read or start a program. Nothing is ever checked out.

One `GitRepository` belongs to one thread. It keeps a `cat-file` and a `diff-tree` process, each fed
by a thread of its own so that neither pipe can fill up against the other; `close` ends them.
Memory is bounded by the largest object and by the changes of one commit.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType

from eventlog.base.errors import EventLogError, NotFound, Refused
from eventlog.base.repository import git_environment, hash_of_roots
from eventlog.importers.git_formats import (
    MODE_SUBMODULE,
    Commit,
    GitChange,
    GitEntry,
    parse_changes,
    parse_commit,
)
from eventlog.importers.git_process import GitProcess, last_words
from eventlog.worktree import git

EMPTY_TREE = {40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904"}
EMPTY_TREE[64] = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"

# Rename detection compares every deleted with every added file; above this many only equal
# contents are matched, which is git's own default and is fixed here against configuration.
_RENAME_LIMIT = 1000

# Above this size git does not diff a file, which would need it in memory whole: its line counts are unknown.
_DIFF_BYTES_MAX = 64 << 20

_COMMIT_BYTES_MAX = 1 << 30

COMPLETE = "In a partial clone `git fetch --refetch --no-filter` brings everything."
_NO_PARENT = re.compile(rb"Failed to traverse parents of commit ([0-9a-f]{40,64})")

_DIFF_TREE = ("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-abbrev", "--no-color")


def open_repository(path: str) -> "GitRepository":
    """The repository that `path` is in (work tree, linked work tree, bare, any folder below).

    Raises: NotFound when there is none, or git itself is missing.
    """
    if shutil.which("git") is None:
        raise NotFound("the program `git` is not on the PATH; install it to import a repository")
    return GitRepository(find_git_dir(path))


def find_git_dir(path: str) -> str:
    """The git directory of the repository that holds `path`; NotFound when there is none."""
    directory = os.fsencode(os.path.realpath(path))
    while True:
        git_dir = git.git_dir_at(directory) or (directory if git.is_git_dir(directory) else None)
        if git_dir is not None:
            return os.fsdecode(git_dir)
        if os.path.isfile(dot_git := os.path.join(os.fsdecode(directory), ".git")):
            raise NotFound(f"{dot_git}: this file should name a git directory and does not")
        parent = os.path.dirname(directory)
        if parent == directory:
            raise NotFound(f"{path}: neither this folder nor one above it is a git repository")
        directory = parent


class GitRepository:
    """Read access to one repository; a context manager."""

    def __init__(self, git_dir: str) -> None:
        self.git_dir = git_dir
        # What linked work trees share; `git_dir` itself when it is not one of those.
        paths = git.RepositoryPaths(b"", os.fsencode(git_dir))
        self.common_dir = os.path.realpath(os.fsdecode(paths.common_dir))
        self.shallow = _read_shallow(self.common_dir)
        self.work_tree = _read_work_tree(git_dir)
        self._lent: str | None = None
        self._reader: GitProcess | None = None
        self._differ: GitProcess | None = None
        self._raw_differ: GitProcess | None = None
        self._is_partial = False  # a diff failed, so what each needs is checked before it is requested
        self._unread = 0

    def __enter__(self) -> "GitRepository":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The folder's name: of the work tree's root, or of a bare repository without `.git`."""
        inside = os.path.basename(self.common_dir) == ".git"
        name = os.path.basename(os.path.dirname(self.common_dir) if inside else self.common_dir)
        return name.removesuffix(".git") or "repository"

    def close(self) -> None:
        """End the processes and remove the lent directory; a second call does nothing."""
        for conversation in (self._reader, self._differ, self._raw_differ):
            if conversation is not None:
                conversation.close()
        self._reader = self._differ = self._raw_differ = None
        if self._lent is not None:
            shutil.rmtree(self._lent, ignore_errors=True)
            self._lent = None

    # -- commits -------------------------------------------------------------------------------

    def resolve(self, rev: str) -> str:
        """The id of the commit that `rev` names, in any spelling git knows.

        Raises: Refused for a name that a command could take for an option, NotFound.
        """
        if rev.startswith("-") or "\0" in rev:
            raise Refused(f"{rev!r} cannot name a commit; give a branch, a tag or a commit id")
        # In two steps, because a name such as `:/words` would take `^{commit}` as more words.
        object_id = self._rev_parse(rev)
        commit = object_id and self._rev_parse(f"{object_id}^{{commit}}")
        if not commit:
            reason = f"it has no commit named {rev!r}"
            if rev == "HEAD":
                reason = "it has no commits yet. `locus import git` records them after the first"
            raise NotFound(f"{self.git_dir}: {reason}")
        return commit

    def find(self, rev: str) -> str | None:
        """The commit that `rev` names, None when there is none."""
        try:
            return self.resolve(rev)
        except NotFound:
            return None

    def ref_of(self, rev: str) -> str:
        """The full name of the ref that `rev` is (`refs/heads/main`); empty for anything else."""
        name = self._ask_refs("--symbolic-full-name", "--verify", "--quiet", "--end-of-options", rev)
        return name if name.startswith("refs/") else ""

    def unreached(self, commits: Iterable[str]) -> set[str]:
        """Those of `commits` that are present and that no ref and no HEAD of a work tree leads to."""
        heads = [*self._ask_refs("--all").split(), self.find("HEAD"), *_detached_heads(self.common_dir)]
        arguments = [*commits, *(f"^{head}" for head in heads if head)]
        reached = self._lines(
            "rev-list",
            "--ignore-missing",
            "--stdin",
            example=arguments[0],
            stdin="\n".join(arguments).encode(),
        )
        return set(reached) & set(commits)

    def _rev_parse(self, rev: str) -> str:
        """The object id that `rev` names, empty when there is none."""
        id = self._ask_refs("--verify", "--quiet", "--end-of-options", rev)
        return id if len(id) in EMPTY_TREE else ""

    def _ask_refs(self, *argv: str) -> str:
        """The output of `git rev-parse`, the one command that sees the refs; empty when it fails.

        It may not fetch: the repository's own settings apply here, and may name a server that has what a
        partial clone lacks.
        """
        env = {**_environment(), "GIT_DIR": self.git_dir}
        completed = subprocess.run(
            ["git", "rev-parse", *argv],
            cwd=self.git_dir,
            env=env,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        return (
            completed.stdout.decode("utf-8", "surrogateescape").strip() if completed.returncode == 0 else ""
        )

    def first_parent_line(self, commit: str) -> list[str]:
        """The ids from the root (or the shallow boundary) to `commit`, following first parents."""
        return self._lines("rev-list", "--first-parent", "--reverse", commit, "--", example=commit)

    def count(self, commit: str) -> int:
        """How many commits are reachable from this one, itself included."""
        return int(self._text("rev-list", "--count", commit, "--", example=commit))

    def parents(self, commit: str) -> dict[str, list[str]]:
        """Commit → its parents, as far as present, of all reachable from this one; ancestors first."""
        argv = ("rev-list", "--topo-order", "--reverse", "--parents", commit, "--")
        return {ids[0]: ids[1:] for ids in map(str.split, self._text(*argv, example=commit).splitlines())}

    def roots_hash(self, commit: str) -> str:
        """12 hex digits from the commits without parents that `commit` descends from.

        In a shallow clone these are the boundary's commits, which another clone need not share.
        """
        roots = self._lines("rev-list", "--max-parents=0", commit, "--", example=commit)
        return hash_of_roots(roots)

    def commits(self, ids: Sequence[str]) -> list[Commit]:
        """The commit objects of `ids`, in that order."""
        commits = []
        for commit, data in zip(ids, self.contents(ids, _COMMIT_BYTES_MAX), strict=True):
            if isinstance(data, int):
                raise Refused(f"{self.git_dir}: commit {commit} of {data} bytes is too large to import")
            if data is None:
                raise NotFound(f"{self.git_dir} does not hold commit {commit}. {COMPLETE}")
            commits.append(parse_commit(commit, data))
        return commits

    # -- trees ---------------------------------------------------------------------------------

    def entries(self, tree: str) -> Iterator[GitEntry]:
        """Every file, symlink and submodule below `tree`, in path order."""
        lister = GitProcess(["ls-tree", "-r", "-z", "--full-tree", tree], *self._git_context(tree))
        try:
            for token in lister.tokens(None):
                facts, path = token.split(b"\t", 1)
                mode, _, oid = facts.split(b" ")
                yield GitEntry(path, int(mode, 8), oid.decode("ascii"))
            lister.finish()
        finally:
            lister.close()

    def changes(self, pairs: Sequence[tuple[str, str]]) -> Iterator[list[GitChange] | None]:
        """The paths that differ between each (tree before, tree after), renames found; None where trees are
        missing.

        Where a content is missing, lines are not counted, and only renames without a change are found. The
        iterator must be read to its end before the next call.
        """
        done = 0
        if not self._is_partial:
            try:
                for changes in self._full_changes(pairs):
                    done += 1
                    yield changes
            except EventLogError:
                self._is_partial = True
        if self._is_partial:
            yield from self._partial_changes(pairs[done:])

    def _full_changes(self, pairs: Sequence[tuple[str, str]]) -> Iterator[list[GitChange]]:
        """Raises: EventLogError at the first pair for which git cannot read what it needs."""
        if not pairs:
            return
        if self._differ is None:
            argv = [*_DIFF_TREE, "--numstat", "-M", f"-l{_RENAME_LIMIT}", "--no-ext-diff", "--no-textconv"]
            self._differ = GitProcess([*argv, "--diff-algorithm=myers"], *self._git_context(pairs[0][1]))
        try:
            yield from _diffs(self._differ, pairs)
        except EventLogError:
            self._differ.close()
            self._differ = None
            raise

    def _partial_changes(self, pairs: Sequence[tuple[str, str]]) -> Iterator[list[GitChange] | None]:
        raw = list(self._raw_changes(pairs))
        present = self.present(id for changes in raw for id in _needed(changes))
        whole = [
            index
            for index, changes in enumerate(raw)
            if changes is not None and present.issuperset(_needed(changes))
        ]
        full_changes = dict(zip(whole, self._full_changes([pairs[index] for index in whole]), strict=True))
        for index, changes in enumerate(raw):
            yield full_changes.get(index, changes)

    def _raw_changes(self, pairs: Sequence[tuple[str, str]]) -> Iterator[list[GitChange] | None]:
        """The changes as far as trees alone show them."""
        index, size = 0, len(pairs)
        while index < len(pairs):
            if self._raw_differ is None:
                argv = [*_DIFF_TREE, "-M100%", f"-l{_RENAME_LIMIT}"]
                self._raw_differ = GitProcess(argv, *self._git_context(pairs[0][1]))
            try:
                for changes in _diffs(self._raw_differ, pairs[index : index + size]):
                    yield changes
                    index, size = index + 1, len(pairs)
            except EventLogError:
                self._raw_differ.close()
                self._raw_differ = None
                if size == 1:
                    yield None
                    index, size = index + 1, len(pairs)
                else:
                    size = 1  # git may have failed at a later one

    # -- contents ------------------------------------------------------------------------------

    def holds(self, oid: str) -> bool:
        """Whether an object is present."""
        return bool(self.present([oid]))

    def present(self, ids: Iterable[str]) -> set[str]:
        """Those of these objects that are present."""
        unique_ids = list(dict.fromkeys(ids))
        if not unique_ids:
            return set()
        cwd, env = self._git_context(unique_ids[0])
        argv = ["git", "cat-file", "--batch-check=%(objectname)"]
        completed = subprocess.run(
            argv, cwd=cwd, env=env, capture_output=True, input="\n".join(unique_ids).encode()
        )
        return {line for line in completed.stdout.decode("ascii").splitlines() if " " not in line}

    def contents(self, ids: Sequence[str], size_max: int) -> Iterator[bytes | int | None]:
        """The bytes of each object, in order; its size where that is above `size_max`; None: missing.

        The iterator must be read to its end before the next call.
        """
        if not ids:
            return
        if self._reader is None:
            self._reader = GitProcess(["cat-file", "--batch"], *self._git_context(ids[0]))
        assert self._unread == 0, "the previous request was not read to its end"
        self._unread = len(ids)
        self._reader.send("".join(f"{oid}\n" for oid in ids).encode("ascii"))
        for _ in ids:
            data = self._one_object(self._reader, size_max)
            self._unread -= 1
            yield data

    def _one_object(self, reader: "GitProcess", size_max: int) -> bytes | int | None:
        header = reader.out.readline().split()
        if len(header) != 3:
            if header[-1:] == [b"missing"]:
                return None
            raise reader.failure()
        size = int(header[2])
        if size > size_max:
            reader.skip(size + 1)
            return size
        data = reader.out.read(size)
        if len(data) != size or reader.out.read(1) != b"\n":
            raise reader.failure()
        return data

    # -- running git ---------------------------------------------------------------------------

    def _lines(self, *argv: str, example: str, stdin: bytes = b"") -> list[str]:
        return self._text(*argv, example=example, stdin=stdin).split()

    def _text(self, *argv: str, example: str, stdin: bytes = b"") -> str:
        cwd, env = self._git_context(example)
        while True:
            completed = subprocess.run(["git", *argv], cwd=cwd, env=env, capture_output=True, input=stdin)
            if completed.returncode == 0:
                return completed.stdout.decode("ascii")
            broken = _NO_PARENT.search(completed.stderr)
            if broken is None or (last := broken[1].decode()) in self.shallow:
                raise EventLogError(f"{self.git_dir}: git {argv[0]}: {last_words(completed.stderr)}")
            # The history ends there, as that of a shallow clone.
            self.shallow = (*self.shallow, last)
            with open(os.path.join(cwd, "shallow"), "a", encoding="ascii") as file:
                file.write(f"{last}\n")

    def _git_context(self, example: str) -> tuple[str, dict[str, str]]:
        """The directory and environment in which git runs: our own directory, the repository's objects."""
        if self._lent is None:
            self._lent = tempfile.mkdtemp(prefix="locus-git-")
            _make_git_dir(self._lent, len(example), self.shallow)
        env = {
            **_environment(),
            "HOME": self._lent,
            "XDG_CONFIG_HOME": self._lent,
            "GIT_DIR": self._lent,
            "GIT_OBJECT_DIRECTORY": os.path.join(self.common_dir, "objects"),
        }
        return self._lent, env


def _environment() -> dict[str, str]:
    """The caller's environment without the variables and the settings that control git."""
    env = {name: value for name, value in git_environment().items() if not name.startswith("GIT_CONFIG")}
    return {**env, "GIT_ATTR_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def _make_git_dir(path: str, id_size: int, shallow: Sequence[str]) -> None:
    """Make a minimal git directory: bare, so that git searches for no attribute file."""
    for name in ("objects", "refs"):
        os.mkdir(os.path.join(path, name))
    config = "[core]\n\tbare = true\n\trepositoryformatversion = 1\n"
    config += f"\tbigFileThreshold = {_DIFF_BYTES_MAX}\n\tquotePath = false\n"
    if id_size == 64:
        config += "[extensions]\n\tobjectFormat = sha256\n"
    files = {"HEAD": "ref: refs/heads/none\n", "config": config}
    if shallow:
        files["shallow"] = "".join(f"{commit}\n" for commit in shallow)
    for name, text in files.items():
        with open(os.path.join(path, name), "w", encoding="ascii") as file:
            file.write(text)


def _read_shallow(common: str) -> tuple[str, ...]:
    try:
        with open(os.path.join(common, "shallow"), encoding="ascii") as file:
            return tuple(sorted(file.read().split()))
    except FileNotFoundError:
        return ()


def _detached_heads(common: str) -> Iterator[str]:
    """The commits that linked work trees have checked out without a branch."""
    folder = os.path.join(common, "worktrees")
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            with open(os.path.join(folder, name, "HEAD"), encoding="ascii") as file:
                head = file.read().strip()
        except (OSError, UnicodeDecodeError):
            continue  # a work tree that is being made or removed
        if len(head) in EMPTY_TREE and not head.startswith("ref:"):
            yield head


def _read_work_tree(git_dir: str) -> str | None:
    """The root of the work tree, None for a bare repository or where it is not recorded."""
    if os.path.basename(git_dir) == ".git":
        return os.path.dirname(git_dir)
    try:
        with open(os.path.join(git_dir, "gitdir"), encoding="utf-8", errors="surrogateescape") as file:
            return os.path.dirname(os.path.realpath(file.read().rstrip("\n")))
    except FileNotFoundError:
        return None


def _diffs(differ: "GitProcess", pairs: Sequence[tuple[str, str]]) -> Iterator[list[GitChange]]:
    """The answers of diff-tree, pair by pair. Raises: EventLogError where one is missing."""
    # Git prints a line that it cannot read as it is, so such a line marks the end of a request.
    mark = b"end-%b\n" % os.urandom(16).hex().encode("ascii")
    lines = [f"{before} {after}" for before, after in pairs]
    differ.send("".join(f"{line}\n" for line in lines).encode("ascii") + mark)
    answers = 0
    for header, changes in parse_changes(differ.tokens(mark), len(pairs[0][1])):
        if header != lines[answers]:
            raise differ.failure()  # a tree that git cannot read has no answer
        answers += 1
        yield changes
    if answers != len(pairs):
        raise differ.failure()


def _needed(changes: list[GitChange] | None) -> Iterator[str]:
    """The contents on both sides of these changes."""
    for change in changes or ():
        for mode, id in ((change.before_mode, change.before_id), (change.after_mode, change.after_id)):
            if id is not None and mode != MODE_SUBMODULE:
                yield id
