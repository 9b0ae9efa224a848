"""First captures that take longer than a hook may, finished by the process beside the hooks.

`live/<worktree>.unfinished` names the directory. The process captures it without a deadline and without
reading a content, and saves the stat cache under the lock of the directory, so that the next hook goes on
from it. It records nothing: a capture belongs to the moment of a hook. Derived (I22). Noting is on the hook
path.
"""

import os

from eventlog.base.layout import LIVE_DIR, Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eventlog.base.fs import FileSystem
    from eventlog.base.identity import Identity

SUFFIX = ".unfinished"
_LOCK_TIMEOUT_S = 60.0


def note(layout: Layout, worktree: str, root: str) -> None:
    """Note that the first capture of a directory is to be finished. Raises: OSError."""
    fd = os.open(
        layout.live(worktree + SUFFIX), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        os.write(fd, os.fsencode(root))
    finally:
        os.close(fd)


def finish_all(
    fs: "FileSystem", layout: Layout, who: "Identity", note: "Callable[[BaseException], None]"
) -> int:
    """Finish the noted captures; how many. The caller holds `deferred_lists.WORKING`.

    Args: note: receives the reason why one stays unfinished; the next hook notes it again.
    """
    finished = 0
    for worktree, root in list(_noted(fs, layout)):
        os.unlink(layout.live(worktree + SUFFIX))
        try:
            _finish(fs, layout, who, worktree, root)
            finished += 1
        except Exception as error:
            note(error)
    return finished


def _noted(fs: "FileSystem", layout: Layout) -> "Iterator[tuple[str, str]]":
    from eventlog.base.fs import read_file

    try:
        names = fs.listdir(layout.directory(LIVE_DIR))
    except OSError:
        return
    for name in names:
        if name.endswith(SUFFIX):
            yield name.removesuffix(SUFFIX), os.fsdecode(read_file(fs, layout.live(name), 1 << 16))


def _finish(fs: "FileSystem", layout: Layout, who: "Identity", worktree: str, root: str) -> None:
    from eventlog.base import config
    from eventlog.base.layout import StoreFiles
    from eventlog.base.locks import WORKTREE, acquire
    from eventlog.blobs.store import BlobStore
    from eventlog.hooks import deferred_lists, state
    from eventlog.secrets import redaction
    from eventlog.worktree.capture import Haste, capture, selection_of
    from eventlog.worktree.contents import Deferral

    settings = config.read(fs, layout)
    redactor = redaction.of_store(fs, layout, settings)
    files = StoreFiles(fs, layout, who.store_id)
    checkpoint = state.read_checkpoint(layout, worktree)
    # As the hooks do; else their next capture would not use this cache.
    keeps = config.keeps_ignored(fs, layout) is True if checkpoint.tree is None else checkpoint.keeps
    with (
        BlobStore(files, kinds_in=redactor.kinds_in, modes=who.keeps_modes) as blobs,
        blobs.writer(lock_timeout_s=_LOCK_TIMEOUT_S, paced=True) as writer,
    ):
        selection = selection_of(settings, keep_ignored=keeps)
        done = capture(
            writer, root, selection=selection, haste=Haste(deferral=Deferral(bytes_max=0)), saves=False
        )
    # A hook that began before must not save its smaller one after it. If contents were collected in between,
    # the cache has the number of collections from before, and proves none.
    with acquire(fs, layout, WORKTREE + worktree, timeout_s=_LOCK_TIMEOUT_S):
        done.save()
        deferred_lists.note_open(layout, worktree, root, done.deferred)  # stored next, by this process
    done.close()
