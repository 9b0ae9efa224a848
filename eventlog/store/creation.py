"""Making a store: its directories, and the file STORE, linked into place once (docs/design.md §3)."""

import os

from eventlog.base import identity, store_location
from eventlog.base.errors import Refused
from eventlog.base.fs import FileSystem, publish, store_error, translate_os_errors
from eventlog.base.layout import JOURNAL_DIR, MANIFEST_DIR, Layout


def create(
    fs: FileSystem,
    layout: Layout,
    project_name: str | None,
    repo_hash: str | None,
    turn_limit: int | None,
    *,
    force: bool,
) -> identity.Identity | None:
    """The identity of the store that was made there; None where another process made one meanwhile.

    Args: as those of `Store.init`. Raises: Refused, EventLogError.
    """
    from eventlog.base.repository import repo_hash_of

    root = layout.root
    parent = os.path.dirname(root)
    if not force:
        store_location.refuse_unsafe(parent)
    if os.path.lexists(root) and not os.path.isdir(root):
        raise Refused(
            f"{root} is not a directory but a file, or a link to nothing. Move it away, then make the store."
        )
    with translate_os_errors(root, "make a store"):
        identity.make_fit(root)
        identity.make_directories(fs, layout)
        lost = any(fs.listdir(layout.directory(name)) for name in (JOURNAL_DIR, MANIFEST_DIR))
    if lost and not fs.exists(layout.store_file):  # it comes before the first journal
        raise Refused(
            f"{root} has a log, but its file STORE is gone; a new one would not fit. "
            "`locus store repair` writes it again; or bring it back from a backup."
        )
    hash_and_origin = (repo_hash, "roots") if repo_hash else repo_hash_of(parent)
    who = identity.Identity(
        store_id=fs.random_bytes(16),
        repo_hash=hash_and_origin[0] if hash_and_origin else fs.random_bytes(6).hex(),
        repo_hash_origin=hash_and_origin[1] if hash_and_origin else "random",
        project_name=project_name or os.path.basename(parent) or "root",
        created_at=fs.time_ns() // 1000,
        optional=(identity.ON_SHARED,) if store_location.is_shared(parent) else (),
        required=(identity.MODES,) if turn_limit is None else (identity.MODES, identity.TURNS),
        turn_limit=turn_limit,
    )
    try:
        publish(fs, layout.tmp(f"STORE-{who.store_id.hex()}"), layout.store_file, identity.encode(who))
    except FileExistsError:
        return None
    except OSError as error:
        raise store_error(error, root, "make a store") from error
    return who
