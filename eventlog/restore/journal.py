"""The plan of a restore as a document, and the restore journal that holds one while it is carried out.

Formats and protocol: docs/design.md §18.3 and §18.2. The codec is pure; reading refuses a document that
names a path outside its target (I28), so that neither a pack nor a file in the store can lead out.
The functions that write files need the restore lock; any process may call those that read.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import Corruption, EventLogError, Refused, Unsupported, why_unreadable
from eventlog.base.fs import FileSystem, publish, read_file, translate_os_errors
from eventlog.base.layout import RESTORE_DIR, Layout, parse_restore
from eventlog.base.paths import path_bytes, path_text
from eventlog.blobs.tree import DIRECTORY, SYMLINK, unsafe_path
from eventlog.checkout.directory import FILES, State
from eventlog.log.finding import RESTORE, Finding, RepairStep

FORMAT = 1
_KINDS = frozenset((*FILES, DIRECTORY, SYMLINK))

CREATE, OVERWRITE, CHMOD, RETYPE, DELETE = ACTIONS = ("create", "overwrite", "chmod", "retype", "delete")


@dataclass(frozen=True, slots=True)
class RestoreStep:
    """One path, with its states before and after."""

    path: bytes
    before: State | None
    after: State | None

    @property
    def action(self) -> str:
        """The word for it in messages."""
        before, after = self.before, self.after
        if before is None:
            return CREATE
        if after is None:
            return DELETE
        if before.kind in FILES and after.kind in FILES:
            return CHMOD if before.id == after.id else OVERWRITE
        return OVERWRITE if before.kind == after.kind else RETYPE

    @property
    def of_directories(self) -> bool:
        """Whether nothing but directories is at the path, before and after."""
        return all(state is None or state.kind == DIRECTORY for state in (self.before, self.after))


@dataclass(frozen=True, slots=True)
class Document:
    """What is to be done where; `target` as an absolute path, `steps` sorted by path."""

    id: str
    store_id: bytes
    target: bytes
    inode: int
    turn: str
    at: str
    tree: str | None
    undo_of: str | None
    steps: tuple[RestoreStep, ...]


def encode(document: Document) -> bytes:
    """Raises: EventLogError, for steps that no reader of the document would take."""
    for step, following in pairwise(document.steps):
        if step.path >= following.path:
            raise EventLogError(
                f"{path_text(following.path)}: the plan has two steps for it, or is out of order. "
                "Nothing was touched. This is a fault of Locus; please report it."
            )
    fields: dict[str, Any] = {
        "format": FORMAT,
        "id": document.id,
        "store_id": document.store_id.hex(),
        "target": path_text(document.target),
        "inode": document.inode,
        "turn": document.turn,
        "at": document.at,
        "tree": document.tree,
        "undo_of": document.undo_of,
        "steps": [[path_text(step.path), _row(step.before), _row(step.after)] for step in document.steps],
    }
    fields["digest"] = blake3(jsontext.encode(fields)).hexdigest()
    return jsontext.encode(fields) + b"\n"


def decode(data: bytes, where: str) -> Document:
    """Raises: Corruption, Unsupported."""
    try:
        fields = jsontext.decode(data)
        digest = fields.pop("digest")
        if fields["format"] != FORMAT:
            raise Unsupported(f"{where}: a restore of format {fields['format']}; upgrade Locus to settle it")
        if digest != blake3(jsontext.encode(fields)).hexdigest():
            raise Corruption(where, "its content does not match its digest")
        steps = tuple(
            RestoreStep(_path(path), _state(before), _state(after)) for path, before, after in fields["steps"]
        )
        paths = [step.path for step in steps]
        if paths != sorted(set(paths)):
            raise ValueError("its paths are not in order")
        return Document(
            id=str(fields["id"]),
            store_id=bytes.fromhex(fields["store_id"]),
            target=path_bytes(fields["target"]),
            inode=int(fields["inode"]),
            turn=str(fields["turn"]),
            at=str(fields["at"]),
            tree=fields["tree"],
            undo_of=fields["undo_of"],
            steps=steps,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corruption(where, f"it is not the plan of a restore ({error})") from error


def _row(state: State | None) -> list[Any] | None:
    return None if state is None else [state.kind.decode("ascii"), state.mode, state.id.hex(), state.size]


def _state(row: Any) -> State | None:
    if row is None:
        return None
    kind, mode, digits, size = row
    state = State(kind.encode("ascii"), mode, bytes.fromhex(digits), int(size))
    if state.kind not in _KINDS or len(state.id) != 32 or not (mode is None or 0 <= mode <= 0o777):
        raise ValueError(f"it holds the impossible state {row}")
    return state


def _path(text: str) -> bytes:
    path = path_bytes(text)
    problem = unsafe_path(path)
    if problem is not None:
        raise ValueError(f"the path {text!r} {problem}")
    return path


# -- files in the store ------------------------------------------------------------------------------


def unfinished(fs: FileSystem, layout: Layout) -> list[str]:
    """The paths of the restore journals that are there, oldest first."""
    directory = layout.directory(RESTORE_DIR)
    if not fs.exists(directory):  # the store is older than restores
        return []
    with translate_os_errors(directory, "see whether a restore is unfinished"):
        return [f"{directory}/{name}" for name in fs.listdir(directory) if parse_restore(name) is not None]


def refuse_unfinished(fs: FileSystem, layout: Layout) -> None:
    """Raises: Refused while a restore waits for its recovery."""
    paths = unfinished(fs, layout)
    if paths:
        with suppress(FileNotFoundError):  # it was settled meanwhile
            why = _why_unusable(fs, paths[0], None)
            if why is not None:
                raise Refused(f"{paths[0]}: {unusable(why)}")
        raise Refused(
            f"an earlier restore did not finish ({paths[0]}). `locus restore --recover` finishes it, "
            "`locus restore --recover --undo` takes it back."
        )


def write(fs: FileSystem, layout: Layout, position: int, document: bytes) -> str:
    """Publish a restore journal; its path. From here on the restore is under way."""
    directory = layout.directory(RESTORE_DIR)
    if not fs.exists(directory):
        fs.mkdir(directory)
        fs.fsync_dir(layout.root)
    path = layout.restore(position)
    publish(fs, layout.tmp(f"restore-{fs.random_bytes(8).hex()}"), path, document)
    return path


def read(fs: FileSystem, path: str, store_id: bytes | None = None) -> Document:
    """Raises: Corruption, also where it is another store's than `store_id`; Unsupported."""
    document = decode(read_file(fs, path), path)
    if store_id is not None and document.store_id != store_id:
        raise Corruption(path, "it belongs to another store")
    return document


def findings(fs: FileSystem, layout: Layout, store_id: bytes) -> Iterator[Finding]:
    """The restore journals by which no recovery can go. Raises: Unsupported."""
    for path in unfinished(fs, layout):
        with suppress(FileNotFoundError):  # it was settled meanwhile
            why = _why_unusable(fs, path, store_id)
            if why is not None:
                mend = RepairStep(RESTORE, path, why, _ASIDE)
                yield Finding(path, unusable(why), mend=mend)


_ASIDE = "the files stay as they are; what that restore saved stays in the store"


def unusable(why: str) -> str:
    """What a person can do about a restore journal by which no recovery can go."""
    return (
        f"a restore did not finish, and its journal cannot be used ({why}), so restores and undos are "
        "refused. `locus store repair --yes` sets it aside; the files stay as they are. What that restore "
        "replaced is in the store: `locus recover PATH` lists it."
    )


def _why_unusable(fs: FileSystem, path: str, store_id: bytes | None) -> str | None:
    """Raises: FileNotFoundError, Unsupported."""
    try:
        read(fs, path, store_id)
    except FileNotFoundError:
        raise
    except (Corruption, OSError) as error:
        return why_unreadable(error)
    return None


def drop(fs: FileSystem, path: str) -> None:
    """Remove the journal of a restore that is settled."""
    fs.unlink(path)
    fs.fsync_dir(os.path.dirname(path))
