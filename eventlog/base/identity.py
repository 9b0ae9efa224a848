"""The identity of a store: its STORE file, where stores are found, and which of them may be used.

STORE is one line of JSON (docs/design.md §2.1), written once and never changed. On the hook path.
"""

import os

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import Corruption, NoStore, Refused, Unsupported
from eventlog.base.fs import FileSystem, publish, read_file, store_error
from eventlog.base.layout import DIRECTORIES, Layout

FORMAT = 1
MODES = "1-modes"  # of `required`: trees keep permissions that lack some of git's
TURNS = "2-turn-limit"  # of `required`: sessions of agents have `turn_limit` turns at most
KNOWN_FEATURES = frozenset((MODES, TURNS))
TURN_LIMIT = 50  # of new stores (S1-58)
TURN_LIMIT_MAX = 1_000_000
STORE_DIRECTORY = ".locus"
ON_SHARED = "shared-file-system"  # of `optional`: made on one, on purpose (`init --force`)
STORE_SIZE_MAX = 65_536

_GITIGNORE = b"# A log is never committed by accident.\n*\n"

_GROUP_OR_OTHERS_WRITE = 0o022
_GROUP_OR_OTHERS = 0o077
_KIND, _LINK = 0o170000, 0o120000
# Files that define what a store is and what it takes for secret.
_RULES = (
    "STORE", "config.toml", "config.json", "keep-ignored", "redaction.key", "erased", "erased.copy",
    "erasing",
)  # fmt: skip
# Disks without owners and permissions: the mount decides who may write, for every file alike.
_WITHOUT_PERMISSIONS = frozenset(
    ("9p", "cifs", "drvfs", "exfat", "fuseblk", "hfs", "msdos", "ntfs", "ntfs3", "prl_fs", "smb3", "vboxsf",
     "vfat", "virtiofs")
)  # fmt: skip


class Identity:
    """The content of STORE. `store_id` is 16 bytes; `repo_hash_origin` is `roots` or `random`.

    A reader must know the features in `required`, such as MODES; it may ignore those in `optional`, such as
    ON_SHARED. `turn_limit` is the most turns that a session of an agent has (docs/session-life.md), None for
    any number.
    """

    __slots__ = (
        "created_at",
        "optional",
        "project_name",
        "repo_hash",
        "repo_hash_origin",
        "required",
        "store_id",
        "turn_limit",
    )

    def __init__(
        self,
        store_id: bytes,
        repo_hash: str,
        repo_hash_origin: str,
        project_name: str,
        created_at: int,
        optional: "tuple[str, ...]" = (),
        required: "tuple[str, ...]" = (),
        turn_limit: "int | None" = None,
    ) -> None:
        self.store_id = store_id
        self.repo_hash = repo_hash
        self.repo_hash_origin = repo_hash_origin
        self.project_name = project_name
        self.created_at = created_at
        self.optional = optional
        self.required = required
        self.turn_limit = turn_limit

    @property
    def keeps_modes(self) -> bool:
        return MODES in self.required


def encode(identity: Identity) -> bytes:
    fields: "dict[str, object]" = {
        "format": FORMAT,
        "required": list(identity.required),
        "optional": list(identity.optional),
        "store_id": identity.store_id.hex(),
        "repo_hash": identity.repo_hash,
        "repo_hash_origin": identity.repo_hash_origin,
        "project_name": identity.project_name,
        "created_at": identity.created_at,
    }
    if identity.turn_limit is not None:
        fields["turn_limit"] = identity.turn_limit
    fields["digest"] = blake3(jsontext.encode(fields)).hexdigest()
    return jsontext.encode(fields) + b"\n"


def decode(data: bytes, path: str) -> Identity:
    """Raises: Unsupported (a newer format or an unknown required feature), Corruption."""
    try:
        fields = jsontext.decode(data)
        digest = fields.pop("digest")
        # Checked before any field is used, in every format: rot must not look like a newer version.
        if digest != blake3(jsontext.encode(fields)).hexdigest():
            raise Corruption(path, "its content does not match its digest")
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
        if data != jsontext.encode({**fields, "digest": digest}) + b"\n":
            raise Corruption(path, "it is not spelled the way Locus writes it")
        limit = fields.get("turn_limit")
        if limit is not None and not (type(limit) is int and 0 < limit <= TURN_LIMIT_MAX):
            raise Corruption(path, f"its turn_limit is {limit!r}")
        return Identity(
            bytes.fromhex(fields["store_id"]),
            fields["repo_hash"],
            fields["repo_hash_origin"],
            fields["project_name"],
            fields["created_at"],
            tuple(map(str, fields["optional"])),
            tuple(map(str, fields["required"])),
            limit,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corruption(path, f"it is not the STORE file of a Locus store ({error})") from error


def read(fs: FileSystem, layout: Layout) -> Identity:
    """The identity of the store at `layout`. Raises: NoStore, Refused, Unsupported, Corruption."""
    refuse_open_to_others(layout.root)
    try:
        data = read_file(fs, layout.store_file, STORE_SIZE_MAX)
    except (FileNotFoundError, NotADirectoryError):
        raise NoStore(
            f"{layout.root} is not a Locus store (it has no STORE file). `locus init` makes one; where a log "
            "is, `locus store repair` writes the file again."
        ) from None
    except ValueError as error:
        raise Corruption(layout.store_file, str(error)) from error
    except OSError as error:
        raise store_error(error, layout.store_file, "open the store") from error
    try:
        return decode(data, layout.store_file)
    except Corruption as error:
        what = f"{error.what}; `locus store repair` writes it again"
        raise Corruption(layout.store_file, what) from error


def refuse_open_to_others(root: str) -> None:
    """Refuse a store that another user may change in part, or a part of which is a link to elsewhere.

    Anybody who may write a journal's directory can put another log there, and anybody who may write
    `config.toml` decides what is a secret. Inside a directory that no other user enters, permissions do not
    matter. `.locus` itself may be a link of its owner's. Asks the real disk, some 30 microseconds.
    Raises: Refused.
    """
    try:
        root_stat = os.stat(root)
        owners = {0, os.geteuid(), root_stat.st_uid, os.stat(f"{root}/STORE").st_uid}
    except OSError:
        return  # no store here; the reader reports that
    _refuse_parts(root, root_stat, owners)


def _refuse_parts(root: str, root_stat: os.stat_result, owners: "set[int]") -> None:
    private = not root_stat.st_mode & _GROUP_OR_OTHERS
    if os.path.islink(root) and os.lstat(root).st_uid not in owners:
        raise _not_ours(root, "is a link that another user made")
    for name in ("", *DIRECTORIES, *_RULES):
        path = f"{root}/{name}" if name else root
        try:
            part_stat = os.lstat(path) if name else root_stat
        except OSError:
            continue
        if part_stat.st_mode & _KIND == _LINK:
            raise _not_ours(path, "is a link, and what is recorded would go elsewhere")
        if part_stat.st_uid not in owners:
            raise _not_ours(path, f"belongs to another user (number {part_stat.st_uid})")
        if not private and part_stat.st_mode & _GROUP_OR_OTHERS_WRITE and _keeps_permissions(root):
            raise Refused(
                f"{path} can be written by other users, who could change what is recorded. "
                f"`chmod -R go-w {root}` takes that from them; then see `locus store verify --deep`."
            )


def make_fit(root: str) -> None:
    """Bring a directory that is to become a store into a state that `read` accepts.

    If it is ours and others may write to it, they lose that permission: nothing of Locus is in it yet.
    Raises: Refused, with the other obstacles.
    """
    try:
        root_stat = os.stat(root)
    except OSError:
        return
    owners = {0, os.geteuid(), root_stat.st_uid}
    is_open = root_stat.st_mode & _GROUP_OR_OTHERS_WRITE and _keeps_permissions(root)
    if is_open and root_stat.st_uid == os.geteuid():
        os.chmod(root, 0o700)
        root_stat = os.stat(root)
    _refuse_parts(root, root_stat, owners)


def _not_ours(path: str, what: str) -> Refused:
    return Refused(f"{path} {what}. Nothing was read or written. See who put it there, and move it away.")


def _keeps_permissions(root: str) -> bool:
    from eventlog.base.store_location import file_system_of

    return file_system_of(root) not in _WITHOUT_PERMISSIONS


def find(start: str, environ: "dict[str, str] | os._Environ[str]") -> "str | None":
    """The `.locus` directory that serves `start`: LOCUS_DIR, else the nearest one upwards.

    A linked git worktree without a store of its own uses the main worktree's.
    Raises: Refused when the nearest one belongs to another user or came with a repository: nobody is to
    write to, or read from, a store that somebody else put there.
    """
    named = environ.get("LOCUS_DIR")
    if named:
        return os.path.abspath(named)
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
    """Whether a store is there. Raises: Refused when it is another user's."""
    try:
        store_file = os.stat(f"{root}/STORE")
        root_stat = os.stat(root)  # another user's directory may hold a hard link to a STORE of ours
    except OSError:
        return False
    _refuse_another_users(root, {store_file.st_uid, root_stat.st_uid})
    # A checkout has other bits than ours.
    if store_file.st_mode & _GROUP_OR_OTHERS and _is_tracked(root, "STORE"):
        raise _came_with_the_repository(root)
    return True


def refuse_foreign(root: str) -> None:
    """Refuse a store, or a directory that is to become one, that `find` would refuse: another user's, or one
    that git tracks. Raises: Refused."""
    if not _is_own_store(root) and os.path.isdir(root):
        _refuse_another_users(root, {os.stat(root).st_uid})
        if _is_tracked(root, "."):
            raise _came_with_the_repository(root)


def _refuse_another_users(root: str, owners: "set[int]") -> None:
    foreign = owners - {os.geteuid()}
    if foreign:
        raise Refused(
            f"{root} belongs to another user (number {foreign.pop()}). Run as that user, or name the store "
            "with --store or LOCUS_DIR if you mean it."
        )


def _came_with_the_repository(root: str) -> Refused:
    return Refused(
        f"{root} came with the repository: git tracks its files, so what is recorded would be committed. "
        "`git rm -r --cached .locus` keeps it out of git; or name the store with --store or LOCUS_DIR."
    )


def _is_tracked(root: str, name: str) -> bool:
    """Whether git has a file of the store in its index; "." is any."""
    import subprocess

    from eventlog.base.repository import git_environment

    command = ["git", "-C", root, "ls-files", "--error-unmatch", "--", name]
    try:
        completed = subprocess.run(
            command, env=git_environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return completed.returncode == 0


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


def make_directories(fs: FileSystem, layout: Layout) -> None:
    """The store's directories and its .gitignore, durable before STORE makes it a store."""
    for path in (layout.root, *map(layout.directory, DIRECTORIES)):
        if not fs.exists(path):
            try:
                fs.mkdir(path)
            except FileExistsError:
                pass  # another `init` at the same moment made it
    fs.fsync_dir(os.path.dirname(layout.root))
    if not fs.exists(layout.gitignore):
        try:
            publish(fs, layout.tmp(f"gitignore-{fs.random_bytes(8).hex()}"), layout.gitignore, _GITIGNORE)
        except FileExistsError:
            pass  # another `init` at the same moment wrote the same bytes
    for name in ("", "log", "snapshots"):
        fs.fsync_dir(layout.directory(name) if name else layout.root)
