"""The root and the identity of the git repository around a directory.

Read-only plumbing; git is optional (a directory outside git has no repository, and that is fine).
"""

import os
import subprocess
from collections.abc import Iterable, Sequence

from blake3 import blake3

# Reading a repository must neither write to it, nor ask anybody, nor follow replacements.
# Configuration files stay in force, because `safe.directory` lives there and is the user's to set;
# callers override by `-c` what would change an answer. A missing object is not fetched: the configuration
# names the remote, and so the program that would run. GIT_NO_LAZY_FETCH prevents that in git from 2.44 on;
# the empty list of protocols does in any git, whatever `protocol.NAME.allow` is.
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
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG")
    }
    return {**inherited, **GIT_ENVIRONMENT}


def git_root(directory: str) -> str | None:
    """The root of the working tree that `directory` is in, or None outside git."""
    answer = git_output(directory, ["rev-parse", "--show-toplevel"])
    return None if not answer else os.fsdecode(answer.rstrip(b"\n"))


def repo_hash_of(directory: str) -> tuple[str, str] | None:
    """(repo_hash, origin) of the repository at `directory`, None where there is no stable one.

    The same in every clone, whatever its path. None outside git, without a commit, and in a shallow
    clone, whose roots are not the real ones.
    """
    if git_output(directory, ["rev-parse", "--is-shallow-repository"]) != b"false\n":
        return None
    answer = git_output(directory, ["rev-list", "--max-parents=0", "--end-of-options", "HEAD", "--"])
    if not answer:
        return None
    return hash_of_roots(answer.decode("ascii").split()), "roots"


def hash_of_roots(roots: Iterable[str]) -> str:
    """First 12 hex digits of BLAKE3 over the sorted ids of root commits, each followed by a newline."""
    return blake3("".join(f"{root}\n" for root in sorted(roots)).encode("ascii")).hexdigest()[:12]


def git_output(directory: str, arguments: Sequence[str]) -> bytes | None:
    """Standard output of a git command, or None when it fails, cannot be said, or git is not installed."""
    try:
        completed = subprocess.run(
            ["git", "-C", directory, *arguments],
            env=git_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except (OSError, ValueError):
        return None
    return completed.stdout if completed.returncode == 0 else None


def person_of(directory: str) -> tuple[str | None, str | None]:
    """The user's name and address in git's configuration of `directory`; None where it has none."""
    answers = [git_output(directory, ["config", "--get", f"user.{key}"]) for key in ("name", "email")]
    name, email = (
        None if answer is None else answer.decode("utf-8", "replace").rstrip("\n") for answer in answers
    )
    return name, email


def project_name_of(directory: str) -> str:
    """The name of a project by its directory; of a bare repository `kiosk.git` it is `kiosk`."""
    name = os.path.basename(directory)
    is_bare = os.path.isfile(os.path.join(directory, "HEAD"))
    return (name.removesuffix(".git") if is_bare else name) or name
