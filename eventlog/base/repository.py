"""What Locus needs to know of the git repository around a directory: its root and its identity.

Read-only plumbing; git is optional (a directory outside git has no repository, and that is fine).
"""

import os
import subprocess
from collections.abc import Iterable, Sequence

from blake3 import blake3

# Looking at a repository must neither write to it, nor ask anybody, nor follow replacements.
# Configuration files stay in force, because `safe.directory` lives there and is the user's to set;
# callers override by `-c` what would change an answer. An object that is missing is not fetched: the
# configuration names the remote, and with that the program that would run. GIT_NO_LAZY_FETCH says so to git
# from 2.44 on; that no protocol is allowed stops any git, whatever `protocol.NAME.allow` says.
GIT_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


def git_environment() -> dict[str, str]:
    """The environment for a git process: ours, without the variables that point elsewhere."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG")
    }
    return {**kept, **GIT_ENVIRONMENT}


def git_root(directory: str) -> str | None:
    """The root of the working tree that `directory` is in, or None outside git."""
    answer = _git(directory, ["rev-parse", "--show-toplevel"])
    return None if not answer else os.fsdecode(answer.rstrip(b"\n"))


def repo_hash_of(directory: str, rev: str = "HEAD") -> tuple[str, str] | None:
    """(repo_hash, origin) of the repository at `directory`, None where nothing stable can be said.

    The same in every clone, whatever its path. None outside git, without a commit, and in a shallow
    clone, whose roots are not the real ones.
    """
    if _git(directory, ["rev-parse", "--is-shallow-repository"]) != b"false\n":
        return None
    answer = _git(directory, ["rev-list", "--max-parents=0", "--end-of-options", rev, "--"])
    if not answer:
        return None
    return hash_of_roots(answer.decode("ascii").split()), "roots"


def hash_of_roots(roots: Iterable[str]) -> str:
    """First 12 hex digits of BLAKE3 over the sorted ids of root commits, each followed by a newline."""
    return blake3("".join(f"{root}\n" for root in sorted(roots)).encode("ascii")).hexdigest()[:12]


def _git(directory: str, arguments: Sequence[str]) -> bytes | None:
    """Standard output of a git command, or None when it fails or git is not installed."""
    try:
        done = subprocess.run(
            ["git", "-C", directory, *arguments],
            env=git_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def person_of(directory: str) -> tuple[str | None, str | None]:
    """Name and address that git's configuration has for who works in `directory`; None where it has none."""
    found = [_git(directory, ["config", "--get", f"user.{key}"]) for key in ("name", "email")]
    name, email = (None if one is None else one.decode("utf-8", "replace").rstrip("\n") for one in found)
    return name, email


def project_name_of(directory: str) -> str:
    """What a project is called after its directory; of a bare repository `kiosk.git` it is `kiosk`."""
    name = os.path.basename(directory)
    is_bare = os.path.isfile(os.path.join(directory, "HEAD"))
    return (name.removesuffix(".git") if is_bare else name) or name
