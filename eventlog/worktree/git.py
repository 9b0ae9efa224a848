"""Git's view of a working directory: its repository, what is tracked and ignored, and what has changed.

Git runs as a child only where its own rules decide (the index, ignore patterns, configuration, contents
against the commit); HEAD and refs are read directly. Nothing is written, no lock is taken, and no program
that a configuration names is started: the file-system monitor is off, nothing is fetched, no filter runs. The
variables that control git are dropped, except those that say where the user's configuration is.

It uses `posix_spawn`, since importing `subprocess` costs a hook 9 ms. Any number of threads and processes may
call this at once.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    # the file that has the setting (empty where none does), key, value (None when it has none)
    Settings = list[tuple[bytes, bytes, bytes | None]]

ATTRIBUTES_FILE = b".gitattributes"

_PASSED_ON = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_SAFE = (
    "--no-optional-locks",
    "-c", "core.fsmonitor=false",
    "-c", "core.untrackedCache=false",
    "-c", "core.quotePath=false",
)  # fmt: skip
_SIGPIPE, _SIGKILL = 13, 9  # `signal` imports `enum`, and these numbers are the same everywhere
_SYMREFS_MAX = 5
PATH_SIZE_MAX = 4_000  # git refuses longer paths, as do all system calls that take a path
_REF_BYTES_MAX = 1 << 12
_HEX = frozenset("0123456789abcdef")
_GITLINK = b"160000"


class GitFailed(Exception):
    """Git is missing, refused, or did not answer in time."""


class RepositoryPaths:
    """A repository as seen from a directory in its work tree. All paths are absolute."""

    __slots__ = ("common_dir", "git_dir", "top")

    def __init__(self, top: bytes, git_dir: bytes) -> None:
        self.top = top
        self.git_dir = git_dir
        self.common_dir = git_dir
        common = _read_line(git_dir + b"/commondir")
        if common:
            self.common_dir = os.path.normpath(os.path.join(git_dir, common))


def find(root: bytes) -> "RepositoryPaths | None":
    """The repository whose work tree `root` is in; None outside of any."""
    directory = root
    while True:
        git_dir = git_dir_at(directory)
        if git_dir is not None:
            return RepositoryPaths(directory, git_dir)
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent


def git_dir_at(directory: bytes) -> "bytes | None":
    """The git directory of the work tree that begins at `directory`; None when none begins there."""
    dot_git = directory + b"/.git"
    if not os.access(dot_git, os.F_OK, follow_symlinks=False):
        return None  # nearly every directory ends here
    if is_git_dir(dot_git):
        return dot_git
    line = _read_line(dot_git)
    if line is None or not line.startswith(b"gitdir:"):
        return None
    git_dir = os.path.normpath(os.path.join(directory, line[7:].strip(b" ")))
    return git_dir if is_git_dir(git_dir) else None


def is_git_dir(path: bytes) -> bool:
    """Whether git would take this directory for a repository."""
    if not os.path.lexists(path + b"/HEAD"):
        return False
    if os.path.lexists(path + b"/commondir"):
        return True
    return os.path.isdir(path + b"/objects") and os.path.isdir(path + b"/refs")


def head(git_dir: bytes) -> "tuple[str | None, str | None]":
    """(commit, branch): no commit on an unborn branch, no branch when HEAD is detached."""
    repository = RepositoryPaths(git_dir, git_dir)
    text = _read_line(git_dir + b"/HEAD")
    if text is None:
        return None, None
    if not text.startswith(b"ref:"):
        return _commit_of(text), None
    ref = text[4:].strip()
    if ref == b"refs/heads/.invalid":
        return _ask_head(git_dir)  # refs are in a table that only git reads
    branch = os.fsdecode(ref.removeprefix(b"refs/heads/"))
    for _ in range(_SYMREFS_MAX):
        if b".." in ref or not ref.startswith(b"refs/"):
            return None, branch
        line = _read_line(repository.common_dir + b"/" + ref)
        if line is None:
            return _packed(repository.common_dir, ref), branch
        if not line.startswith(b"ref:"):
            return _commit_of(line), branch
        ref = line[4:].strip()
    return None, branch


def tracked(root: bytes, deadline: "float | None" = None) -> "dict[bytes, str | None]":
    """Every path below `root` that git tracks, with the staged commit where it is a submodule.

    Raises: GitFailed.
    """
    tracked_paths: "dict[bytes, str | None]" = {}
    for line in run(root, ["ls-files", "-z", "-s"], b"", deadline)[1].split(b"\0"):
        facts, _, path = line.partition(b"\t")
        if path:
            tracked_paths[path] = facts.split(b" ")[1].decode("ascii") if facts.startswith(_GITLINK) else None
    return tracked_paths


def ignored(root: bytes, paths: "Iterable[bytes]", deadline: "float | None" = None) -> "set[bytes]":
    """Those of `paths` (relative to `root`) that an exclude pattern hides, tracked or not.

    Raises: GitFailed.
    """
    # Each path begins with `./`, so that git takes none for one of its own notations.
    names = b"".join(b"./" + path + b"\0" for path in paths)
    if not names:
        return set()
    _, answer = run(root, ["check-ignore", "--no-index", "-z", "--stdin"], names, deadline, accepted=(0, 1))
    return {line[2:] for line in answer.split(b"\0") if line}


def status(root: bytes, deadline: "float | None" = None) -> "tuple[list[bytes], list[bytes]]":
    """(dirty, staged): the tracked paths below `root`, relative to it and in order, that differ between disk
    and index, and between index and commit.

    No filter runs: a file that one converts and that was touched since its checkout shows as dirty.
    Raises: GitFailed, also outside of a repository.
    """
    repository = find(root)
    if repository is None:
        raise GitFailed("there is no repository")
    below = b"" if root == repository.top else os.path.relpath(root, repository.top) + b"/"
    arguments = [
        "status",
        "--porcelain=v2",
        "-z",
        "--no-renames",
        "--untracked-files=no",
        "--ignore-submodules=dirty",
    ]
    _, answer = run(root, [*_no_filters(root, deadline), *arguments, "--", "."], b"", deadline)
    dirty, staged = [], []
    for line in answer.split(b"\0"):
        if line[:1] not in (b"1", b"u"):
            continue
        # 1 XY sub mH mI mW hH hI path; an unmerged entry has two more fields
        path = line.split(b" ", 8 if line[:1] == b"1" else 10)[-1].removeprefix(below)
        if line[2:3] != b".":
            staged.append(path)
        if line[3:4] != b".":
            dirty.append(path)
    return dirty, staged


def _no_filters(root: bytes, deadline: "float | None") -> "list[str]":
    """Options that leave every configured filter without a program."""
    arguments = ["config", "-z", "--name-only", "--get-regexp", r"^filter\."]
    code, answer = run(root, arguments, b"", deadline, accepted=(0, 1))
    options = []
    for key in answer.split(b"\0") if code == 0 else ():
        if key.endswith((b".clean", b".process", b".smudge")):
            options += ["-c", os.fsdecode(key) + "="]
        elif key.endswith(b".required"):
            options += ["-c", os.fsdecode(key) + "=false"]
    return options


def settings_of(root: bytes, deadline: "float | None" = None) -> "Settings":
    """(file, key, value) of every setting for `root`; of several with one key, the one that counts is last.

    Raises: GitFailed.
    """
    answer = run(root, ["config", "-z", "--show-origin", "--list"], b"", deadline)[1].split(b"\0")
    settings = []
    for origin, entry in zip(answer[::2], answer[1::2], strict=False):
        key, newline, value = entry.partition(b"\n")
        path = os.path.join(root, origin[5:]) if origin.startswith(b"file:") else b""
        settings.append((path, key, value if newline else None))
    return settings


def config_homes() -> "tuple[bytes, bytes]":
    """The user's home, and the directory of their settings."""
    home = os.fsencode(os.environ.get("HOME", ""))
    return home, os.fsencode(os.environ.get("XDG_CONFIG_HOME") or "") or home + b"/.config"


def rule_files(repository: RepositoryPaths, root: bytes, settings: "Settings") -> "list[bytes]":
    """The files outside `root`, existing or not, that decide what git ignores below it."""
    home, config = config_homes()
    files = {
        repository.common_dir + b"/info/exclude": None,
        repository.common_dir + b"/config": None,
        repository.git_dir + b"/config.worktree": None,
        home + b"/.gitconfig": None,
        config + b"/git/config": None,
        config + b"/git/ignore": None,
        b"/etc/gitconfig": None,
    }
    for path, key, value in settings:
        if path:
            files[path] = None
        if key == b"core.excludesfile" and value:
            files[os.path.join(repository.top, os.path.expanduser(value))] = None
    directory = root
    while directory != repository.top and len(directory) > 1:
        directory = os.path.dirname(directory)
        files[directory + b"/.gitignore"] = None
    return list(files)


def run(
    root: bytes,
    args: "Sequence[str]",
    stdin: bytes,
    deadline: "float | None" = None,
    *,
    accepted: "tuple[int, ...]" = (0,),
) -> "tuple[int, bytes]":
    """(exit code, output) of a git command in `root`.

    Args: deadline: monotonic time at which the child is killed.
    Raises: GitFailed.
    """
    argv, environment = command(root, args)
    write_end = -1
    opened: "list[int]" = []
    try:
        for _ in range(2):
            opened.append(_scratch())
        read_end, write_end = os.pipe()
        opened.append(read_end)
        source, errors, _ = opened
        _write_all(source, stdin)
        actions = [
            (os.POSIX_SPAWN_DUP2, source, 0),
            (os.POSIX_SPAWN_DUP2, write_end, 1),
            (os.POSIX_SPAWN_DUP2, errors, 2),
        ]
        try:
            pid = os.posix_spawnp("git", argv, environment, file_actions=actions, setsigdef=[_SIGPIPE])
        except OSError as error:
            raise GitFailed(f"git cannot be started: {error.strerror}") from error
        finally:
            os.close(write_end)
            write_end = -1
        parts = []
        try:
            while part := _read(read_end, deadline):
                parts.append(part)
        except BaseException:
            os.kill(pid, _SIGKILL)
            raise
        finally:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code not in accepted:
            message = os.pread(errors, 2000, 0).decode("utf-8", "replace").strip()
            raise GitFailed(f"git {args[0]}: {message or f'ended with {code}'}")
        return code, b"".join(parts)
    finally:
        for fd in (*opened, *([] if write_end < 0 else [write_end])):
            os.close(fd)


def _read(fd: int, deadline: "float | None") -> bytes:
    if deadline is not None:
        import select
        import time

        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise GitFailed("git did not answer in time")
    return os.read(fd, 1 << 20)


def _scratch() -> int:
    """A file without a name: a child can be fed from it, and neither side waits for the other."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("locus")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)


def command(root: bytes, args: "Sequence[str]") -> "tuple[list[bytes], dict[str, str]]":
    """(arguments, environment) of a git command in `root`, for callers that start it themselves."""
    return [b"git", b"-C", root, *map(os.fsencode, _SAFE), *map(os.fsencode, args)], _environment()


def _environment() -> "dict[str, str]":
    env = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _PASSED_ON
    }
    env.update(LC_ALL="C", GIT_OPTIONAL_LOCKS="0", GIT_TERMINAL_PROMPT="0", GIT_NO_LAZY_FETCH="1")
    env["GIT_ALLOW_PROTOCOL"] = ""  # for git older than that variable; a setting cannot overrule it
    return env


def _read_line(path: bytes) -> "bytes | None":
    """The first line of a small file; None when it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(fd, _REF_BYTES_MAX).partition(b"\n")[0].rstrip(b"\r ")
    except OSError:
        return None
    finally:
        os.close(fd)


def _packed(common_dir: bytes, ref: bytes) -> "str | None":
    try:
        with open(common_dir + b"/packed-refs", "rb") as file:
            for line in file:
                if line.rstrip(b"\n").endswith(b" " + ref):
                    return _commit_of(line.partition(b" ")[0])
    except OSError:
        pass  # no file: no packed refs
    return None


def _commit_of(text: bytes) -> "str | None":
    digits = text.decode("ascii", "replace")
    return digits if len(digits) in (40, 64) and _HEX.issuperset(digits) else None


def _ask_head(git_dir: bytes) -> "tuple[str | None, str | None]":
    options = ["--git-dir", os.fsdecode(git_dir)]
    try:
        _, branch = run(git_dir, [*options, "symbolic-ref", "-q", "--short", "HEAD"], b"", accepted=(0, 1))
        code, commit = run(git_dir, [*options, "rev-parse", "-q", "--verify", "HEAD"], b"", accepted=(0, 1))
    except GitFailed:
        return None, None
    return (_commit_of(commit.strip()) if code == 0 else None), os.fsdecode(branch.strip()) or None
