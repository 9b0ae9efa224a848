"""The identity of a store: its STORE file, and where stores are found.

STORE is one line of JSON (docs/design.md §2.1), written once and never changed. On the hook path.
"""

import os

from blake3 import blake3

from eventlog import jsontext
from eventlog.errors import Corruption, NoStore, Refused, Unsupported
from eventlog.fs import FileSystem, read_file, refusal
from eventlog.layout import Layout

FORMAT = 1
KNOWN_FEATURES: "frozenset[str]" = frozenset()  # of `required`: none exist in format 1
STORE_DIRECTORY = ".locus"
ON_SHARED = "shared-file-system"  # of `optional`: made on one, on purpose (`init --force`)
_STORE_SIZE_MAX = 65_536


class Identity:
    """What STORE says. `store_id` is 16 bytes; `repo_hash_origin` is `roots` or `random`.

    `optional` are words that a reader may pass over, such as ON_SHARED.
    """

    __slots__ = ("created_at", "optional", "project_name", "repo_hash", "repo_hash_origin", "store_id")

    def __init__(
        self,
        store_id: bytes,
        repo_hash: str,
        repo_hash_origin: str,
        project_name: str,
        created_at: int,
        optional: "tuple[str, ...]" = (),
    ) -> None:
        self.store_id = store_id
        self.repo_hash = repo_hash
        self.repo_hash_origin = repo_hash_origin
        self.project_name = project_name
        self.created_at = created_at
        self.optional = optional


def encode(identity: Identity) -> bytes:
    fields: "dict[str, object]" = {
        "format": FORMAT,
        "required": [],
        "optional": list(identity.optional),
        "store_id": identity.store_id.hex(),
        "repo_hash": identity.repo_hash,
        "repo_hash_origin": identity.repo_hash_origin,
        "project_name": identity.project_name,
        "created_at": identity.created_at,
    }
    fields["digest"] = blake3(jsontext.encode(fields)).hexdigest()
    return jsontext.encode(fields) + b"\n"


def decode(data: bytes, path: str) -> Identity:
    """Raises: Unsupported (a newer format or an unknown required feature), Corruption."""
    try:
        fields = jsontext.decode(data)
        digest = fields.pop("digest")
        if fields["format"] != FORMAT:
            raise Unsupported(
                f"{path}: this store has format {fields['format']}; this version of Locus reads "
                f"format {FORMAT}. Upgrade Locus to open it."
            )
        unknown = sorted(set(fields["required"]) - KNOWN_FEATURES)
        if unknown:
            raise Unsupported(
                f"{path}: this store needs the feature(s) {', '.join(map(str, unknown))}, which this "
                "version of Locus does not know. Upgrade Locus to open it."
            )
        if digest != blake3(jsontext.encode(fields)).hexdigest():
            raise Corruption(path, "its content does not match its digest")
        if data != jsontext.encode({**fields, "digest": digest}) + b"\n":
            raise Corruption(path, "it is not spelled the way Locus writes it")
        return Identity(
            bytes.fromhex(fields["store_id"]),
            fields["repo_hash"],
            fields["repo_hash_origin"],
            fields["project_name"],
            fields["created_at"],
            tuple(map(str, fields["optional"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corruption(path, f"it is not the STORE file of a Locus store ({error})") from error


def read(fs: FileSystem, layout: Layout) -> Identity:
    """The identity of the store at `layout`. Raises: NoStore, Unsupported, Corruption."""
    try:
        data = read_file(fs, layout.store_file, _STORE_SIZE_MAX)
    except (FileNotFoundError, NotADirectoryError):
        raise NoStore(
            f"{layout.root} is not a Locus store (it has no STORE file). `locus init` makes one."
        ) from None
    except ValueError as error:
        raise Corruption(layout.store_file, str(error)) from error
    except OSError as error:
        raise refusal(error, layout.store_file, "open the store") from error
    return decode(data, layout.store_file)


def find(start: str, environ: "dict[str, str] | os._Environ[str]") -> "str | None":
    """The `.locus` directory that serves `start`: LOCUS_DIR, else the nearest one upwards.

    A linked git worktree without a store of its own uses the main worktree's.
    Raises: Refused when the nearest one belongs to another user: nobody is to record into, or read from,
    a store that somebody else put in the way, and files we made in it would be closed to its owner.
    """
    given = environ.get("LOCUS_DIR")
    if given:
        return os.path.abspath(given)
    directory = os.path.abspath(start)
    while True:
        candidate = f"{directory}/{STORE_DIRECTORY}"
        if _is_own_store(candidate):
            return candidate
        main = _main_worktree(f"{directory}/.git")
        if main is not None and _is_own_store(f"{main}/{STORE_DIRECTORY}"):
            return f"{main}/{STORE_DIRECTORY}"
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent


def _is_own_store(root: str) -> bool:
    """Whether a store is there. Raises: Refused when it is somebody else's."""
    try:
        found = os.stat(f"{root}/STORE")
    except OSError:
        return False
    if found.st_uid != os.geteuid():
        raise Refused(
            f"{root} belongs to another user (number {found.st_uid}). Run as that user, or name the store "
            "with --store or LOCUS_DIR if you mean it."
        )
    return True


def _main_worktree(git_file: str) -> "str | None":
    """The main worktree's root, when `git_file` is the `.git` file of a linked worktree.

    Such a file reads `gitdir: <main>/.git/worktrees/<name>` (gitrepository-layout(5)).
    """
    try:
        with open(git_file, "rb") as file:
            line = file.read(4096)
    except OSError:
        return None
    if not line.startswith(b"gitdir:"):
        return None
    git_dir = os.path.join(os.path.dirname(git_file), os.fsdecode(line[len(b"gitdir:") :].strip()))
    worktrees = os.path.dirname(os.path.abspath(git_dir))
    common = os.path.dirname(worktrees)
    if os.path.basename(worktrees) != "worktrees" or os.path.basename(common) != ".git":
        return None
    return os.path.dirname(common)
