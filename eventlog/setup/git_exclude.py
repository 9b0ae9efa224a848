"""Files of ours in a repository's own list of ignored files (`info/exclude`), in and out again.

A settings file that git does not ignore is committed by `git add -A`, and the next `git checkout` or
`git stash -u` takes it away, and with it the hooks. `info/exclude` belongs to one clone, is not committed,
and serves all linked worktrees. A line goes in as it is needed; a receipt beside those of settings says
which lines are ours and for which files, so that exactly these go again, byte for byte while nobody else
edits the list.
"""

import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from eventlog.base.errors import EventLogError, Refused
from eventlog.base.fs import FileSystem, read_file, translate_os_errors
from eventlog.base.repository import GIT_ENVIRONMENT, git_environment
from eventlog.setup import receipts, settings_file
from eventlog.setup.settings_file import SettingsEdit

# What became of a file: its line was added (or would be), git ignored it already, git tracks it, so that no
# list helps, a rule of a `.gitignore` brings it back, the list could not be written.
ADDED, IGNORED, TRACKED, OVERRULED, FAILED = "added", "ignored", "tracked", "overruled", "failed"

_FORMAT = 1
_SIZE_MAX = 8 << 20
_GIT_TIMEOUT_S = 30
_GLOB = b"\\*?["
_PIECES = re.compile(rb"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Standing:
    """How git treats a file of ours. `line` is the pattern for it in `exclude`; `todo` a command, or None."""

    state: str
    path: str
    exclude: str
    line: str
    why: str = ""
    todo: str | None = None


@dataclass(frozen=True, slots=True)
class _Repository:
    """A working tree, and the exclude list that git reads for it, with the environment that finds it."""

    top: str
    exclude: str
    environ: Mapping[str, str]

    def git(self, *arguments: str, given: bytes = b"") -> "subprocess.CompletedProcess[bytes] | None":
        return _git(self.top, self.environ, arguments, given)


@dataclass(frozen=True, slots=True)
class _Lines:
    """The receipt of an exclude list. `lines`: our pattern → who needs it; `gap` is the line end that was put
    after a last line without one."""

    exclude: str
    lines: Mapping[str, tuple[str, ...]]
    gap: str = ""
    created: bool = False
    made_directory: bool = False


def claim_of_hooks(path: str) -> str:
    """For what a line is needed: the hooks in the settings file at `path`."""
    return f"hooks {path}"


def claim_of_server(path: str) -> str:
    """The same for the entry of `locus mcp`."""
    return f"mcp {path}"


# -- in and out --------------------------------------------------------------------------------


def exclude(
    fs: FileSystem, path: str, state: str, claim: str, *, within: str | None = None, dry_run: bool = False
) -> list[Standing]:
    """Have git ignore `path`, in each repository that sees it; empty outside of git.

    Args: state: the user's directory of state; claim: for what, as `take_back` gets it; within: only in the
    working tree that holds this directory. Never raises for what git or the list is like.
    """
    standings = []
    for repository, inside in _seen_by(path):
        if within is None or _inside(repository.top, os.path.realpath(within)) is not None:
            standings.append(_excluded(fs, repository, inside, state, claim, dry_run))
    return standings


def _excluded(
    fs: FileSystem, repository: _Repository, inside: str, state: str, claim: str, dry_run: bool
) -> Standing:
    before = _standing(repository, inside)
    ours = _receipt(fs, receipts.directory(state), repository.exclude)
    if before.state == IGNORED and (ours is None or claim in ours.lines.get(before.line, (claim,))):
        return before
    if "\n" in inside or "\r" in inside:
        why = "a name with a line break cannot be written into git's list"
        return replace(before, state=FAILED, why=why, todo="`locus hooks install --user`")
    try:
        if not dry_run:
            with settings_file.locked(fs, receipts.directory(state)):
                add_line(fs, repository.exclude, before.line, claim, receipts.directory(state))
    except (EventLogError, OSError) as error:
        reason = f"{error.strerror}: {repository.exclude}" if isinstance(error, OSError) else str(error)
        return replace(before, state=FAILED, why=reason, todo=f"add the line {before.line} to it by hand")
    if before.state == TRACKED or dry_run:
        return before if before.state == TRACKED else replace(before, state=ADDED)
    after = _standing(repository, inside)
    return replace(after, state=ADDED) if after.state == IGNORED else after


def exclude_around(
    fs: FileSystem, file: str, root: str, state: str, claim: str, *, within: str, dry_run: bool = False
) -> list[Standing]:
    """The same for the directory `root`, which holds `file`, unless git ignores that file."""
    if all(entry.state != FAILED for entry in standing(file)):
        return []
    return exclude(fs, root, state, claim, within=within, dry_run=dry_run)


def take_back(fs: FileSystem, state: str, claim: str, *, dry_run: bool = False) -> list[SettingsEdit]:
    """Take the lines out again that only `claim` needed; what becomes of each list.

    Raises: Refused (a list that is none any more, or was changed meanwhile), LockTimeout, EventLogError.
    """
    directory = receipts.directory(state)
    if not is_claimed(fs, state, claim):
        return []
    if dry_run:
        return [_cut(fs, lines, claim)[0] for lines in _all(fs, directory) if _has(lines, claim)]
    changes = []
    with settings_file.locked(fs, directory):
        for lines in _all(fs, directory):
            if _has(lines, claim):
                with translate_os_errors(lines.exclude, "edit git's list of ignored files"):
                    change, left = _cut(fs, lines, claim)
                    settings_file.carry_out(fs, change, made_directory=lines.made_directory)
                    _write_receipt(fs, directory, left)
                changes.append(change)
    return changes


def is_claimed(fs: FileSystem, state: str, claim: str) -> bool:
    """Whether a line of ours is there for `claim`."""
    return any(_has(lines, claim) for lines in _all(fs, receipts.directory(state)))


def standing(path: str) -> list[Standing]:
    """How git treats `path` in each repository that sees it: IGNORED, TRACKED, OVERRULED, or FAILED where
    nothing lasting ignores it. Reads only."""
    return [_standing(repository, inside) for repository, inside in _seen_by(path)]


# -- the list ----------------------------------------------------------------------------------


def add_line(fs: FileSystem, exclude: str, line: str, claim: str, directory: str) -> None:
    """Put a line after the others, unless it is there, under the lock of `directory`, where receipts are.

    The receipt comes first: a crash leaves one that names a line which is not there, which harms nobody.
    Raises: Refused (a link, no file, not writable, changed meanwhile), EventLogError, OSError.
    """
    _refuse_odd(exclude)
    before = settings_file.read(fs, exclude, exclude)
    known = _receipt(fs, directory, exclude) or _Lines(exclude, {})
    claims = known.lines.get(line, ())
    lines = {**known.lines, line: tuple(dict.fromkeys((*claims, claim)))}
    receipt = replace(known, lines=lines)
    data = before or b""
    words = os.fsencode(line)
    after = data
    if words not in _lines_of(data):
        end = b"\r\n" if b"\r\n" in data else b"\n"
        gap = b"" if not data or data.endswith(b"\n") else end
        after = data + gap + words + end
        receipt = replace(
            receipt,
            gap=gap.decode() or known.gap,
            created=known.created or before is None,
            made_directory=known.made_directory or not os.path.isdir(os.path.dirname(exclude)),
        )
    _write_receipt(fs, directory, receipt)
    change = SettingsEdit("git", exclude, exclude, before, after)
    settings_file.carry_out(fs, change, mode=0o644)


def _refuse_odd(exclude: str) -> None:
    """Refuse a list that is a link, no file, or that its owner does not want written."""
    try:
        status = os.lstat(exclude)
    except FileNotFoundError:
        return
    if stat.S_ISLNK(status.st_mode):
        raise Refused(f"{exclude} is a link, which is left as it is.")
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{exclude} is not a file.")
    if not status.st_mode & stat.S_IWUSR or not os.access(exclude, os.W_OK):
        raise Refused(f"{exclude} is not writable.")


def _cut(fs: FileSystem, lines: _Lines, claim: str) -> tuple[SettingsEdit, _Lines]:
    """The list without the lines that only `claim` needed, and the receipt that is left."""
    _refuse_odd(lines.exclude)
    before = settings_file.read(fs, lines.exclude, lines.exclude)
    rest: dict[str, tuple[str, ...]] = {}
    after = before or b""
    was_last = False
    for line, claims in lines.lines.items():
        others = tuple(other for other in claims if other != claim and _is_needed(other))
        if others:
            rest[line] = others
            continue
        pieces = _PIECES.findall(after)
        words = os.fsencode(line)
        number = next((n for n, piece in enumerate(pieces) if piece.rstrip(b"\r\n") == words), None)
        if number is not None:
            was_last = number == len(pieces) - 1
            after = b"".join(pieces[:number] + pieces[number + 1 :])
    gap = lines.gap.encode()
    if not rest and was_last and gap and after.endswith(gap):
        after = after[: -len(gap)]
    is_gone = before is None or (lines.created and not rest and not after)
    change = SettingsEdit("git", lines.exclude, lines.exclude, before, None if is_gone else after)
    return change, replace(lines, lines=rest)


def _is_needed(claim: str) -> bool:
    """Whether the settings file of a claim is there: those of a worktree that was removed need no line."""
    return os.path.lexists(claim.partition(" ")[2])


def _lines_of(data: bytes) -> list[bytes]:
    return [line.rstrip(b"\r\n") for line in _PIECES.findall(data)]


# -- receipts ----------------------------------------------------------------------------------


def _name(exclude: str) -> str:
    return f"exclude-{receipts.digest(os.fsencode(exclude))}.json"


def _all(fs: FileSystem, directory: str) -> Iterator[_Lines]:
    names = fs.listdir(directory) if os.path.isdir(directory) else []
    for name in names:
        if name.startswith("exclude-") and name.endswith(".json"):
            lines = _read(fs, f"{directory}/{name}")
            if lines is not None and name == _name(lines.exclude):
                yield lines


def _receipt(fs: FileSystem, directory: str, exclude: str) -> _Lines | None:
    return _read(fs, f"{directory}/{_name(exclude)}")


def _read(fs: FileSystem, path: str) -> _Lines | None:
    try:
        fields = json.loads(read_file(fs, path, _SIZE_MAX))
        if fields["format"] != _FORMAT:
            return None
        lines = {str(line): tuple(map(str, claims)) for line, claims in fields["lines"].items()}
        created, made_directory = bool(fields["created"]), bool(fields["made_directory"])
        return _Lines(str(fields["exclude"]), lines, str(fields["gap"]), created, made_directory)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # then no line there is known to be ours


def _write_receipt(fs: FileSystem, directory: str, lines: _Lines) -> None:
    if lines.lines:
        receipts.put(fs, directory, _name(lines.exclude), {"format": _FORMAT, **asdict(lines)})
    else:
        fs.unlink(f"{directory}/{_name(lines.exclude)}")


def _has(lines: _Lines, claim: str) -> bool:
    return any(claim in claims for claims in lines.lines.values())


# -- what git says -----------------------------------------------------------------------------


def _seen_by(path: str) -> Iterator[tuple[_Repository, str]]:
    """The repositories whose working tree holds `path`, or the file it leads to, and its name there."""
    shown = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    seen = set()
    for name in dict.fromkeys((shown, os.path.realpath(path))):
        for environ, directory in _ways(_directory_above(name)):
            repository = _repository(directory, environ)
            inside = None if repository is None else _inside(repository.top, name)
            if repository is not None and inside and (repository.exclude, inside) not in seen:
                seen.add((repository.exclude, inside))
                yield repository, inside


def _ways(directory: str) -> Iterator[tuple[dict[str, str], str]]:
    """How git may be asked: as from anywhere, and as the variables GIT_DIR and GIT_WORK_TREE of ours say."""
    yield git_environment(), directory
    if os.environ.get("GIT_DIR"):
        named = {
            "GIT_DIR": os.path.abspath(os.environ["GIT_DIR"]),
            "GIT_WORK_TREE": os.path.abspath(os.environ.get("GIT_WORK_TREE") or os.getcwd()),
        }
        common = os.environ.get("GIT_COMMON_DIR")
        more = {"GIT_COMMON_DIR": os.path.abspath(common)} if common else {}
        yield {**git_environment(), **GIT_ENVIRONMENT, **named, **more}, named["GIT_WORK_TREE"]


def _directory_above(path: str) -> str:
    directory = os.path.dirname(path)
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return directory


def _repository(directory: str, environ: Mapping[str, str]) -> _Repository | None:
    top = _git(directory, environ, ("rev-parse", "--show-toplevel"))
    exclude = _git(directory, environ, ("rev-parse", "--git-path", "info/exclude"))
    if top is None or exclude is None or top.returncode or exclude.returncode or not top.stdout.strip():
        return None
    path = os.path.join(directory, os.fsdecode(exclude.stdout.removesuffix(b"\n")))
    above = os.path.realpath(os.path.dirname(path))
    return _Repository(
        os.fsdecode(top.stdout.removesuffix(b"\n")), os.path.join(above, os.path.basename(path)), environ
    )


def _inside(top: str, path: str) -> str | None:
    """The name of `path` in the working tree, "" for the tree itself, None outside of it."""
    real = os.path.realpath(top)
    return "" if path == real else path[len(real) + 1 :] if path.startswith(real.rstrip("/") + "/") else None


def _standing(repository: _Repository, inside: str) -> Standing:
    exclude, line = repository.exclude, _pattern(inside)
    name = os.path.join(repository.top, inside)
    listed = repository.git("--literal-pathspecs", "ls-files", "--error-unmatch", "--", inside)
    if listed is not None and listed.returncode == 0:
        why = f"git tracks {inside}, so a commit, checkout or stash changes it; no ignore rule helps"
        todo = f"`git rm --cached {inside}`, then commit that"
        return Standing(TRACKED, name, exclude, line, why, todo)
    rule = _rule(repository, inside)
    if rule is not None and rule[1].startswith("!"):
        why = f"{rule[0]} has the rule {rule[1]}, so git does not ignore {inside}"
        return Standing(OVERRULED, name, exclude, line, why, f"take that rule out of {rule[0]}")
    if rule is not None and _lasts(repository, rule[0]):
        return Standing(IGNORED, name, exclude, line)
    why = f"git does not ignore {inside}, so a checkout or stash may take it away"
    return Standing(FAILED, name, exclude, line, why)


def _rule(repository: _Repository, inside: str) -> tuple[str, str] | None:
    """(the file, the pattern) that decides whether git ignores a name; None when no rule does."""
    asked = repository.git(
        "check-ignore", "--no-index", "-v", "-z", "--stdin", given=os.fsencode(inside) + b"\0"
    )
    if asked is None or asked.returncode not in (0, 1):
        return None
    fields = asked.stdout.split(b"\0")
    return (os.fsdecode(fields[0]), os.fsdecode(fields[2])) if len(fields) >= 4 and fields[0] else None


def _lasts(repository: _Repository, source: str) -> bool:
    """Whether an ignore rule of that file holds on other branches and after a stash as well: one of a
    `.gitignore` in the tree only when that is ignored itself."""
    path = os.path.join(repository.top, source)
    if os.path.basename(source) != ".gitignore" or os.path.isabs(source):
        return True
    rule = _rule(repository, source)
    listed = repository.git("--literal-pathspecs", "ls-files", "--error-unmatch", "--", source)
    is_tracked = listed is not None and listed.returncode == 0
    return os.path.exists(path) and not is_tracked and rule is not None and not rule[1].startswith("!")


def _pattern(inside: str) -> str:
    """The line that means exactly this name, from the top of the working tree."""
    raw = os.fsencode(inside)
    escaped = b"".join(b"\\" + bytes((c,)) if c in _GLOB else bytes((c,)) for c in raw)
    if escaped.endswith(b" "):
        escaped = escaped[:-1] + b"\\ "
    return "/" + os.fsdecode(escaped)


def _git(
    directory: str, environ: Mapping[str, str], arguments: "tuple[str, ...]", given: bytes = b""
) -> "subprocess.CompletedProcess[bytes] | None":
    try:
        return subprocess.run(
            ["git", "-C", directory, "-c", "core.fsmonitor=false", *arguments],
            env=environ,
            input=given,
            capture_output=True,
            check=False,
            timeout=_GIT_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
