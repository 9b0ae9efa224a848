"""The first capture that keeps a directory's ignored files, or no longer keeps them (docs/capture.md §1).

Switching that setting changes no file. So the captures of turns under way go on as they began. Entries that
the switch alone adds to the tree, or removes from it, are not recorded as changes. On the hook path, but
loaded only where the setting differs from that of the last capture.
"""

import os

from eventlog.agents.kit.call import SESSION, TURN_START, Call
from eventlog.hooks.state import CaptureCheckpoint
from eventlog.worktree.changes import ADD, DELETE, RENAME, CapturedChange
from eventlog.worktree.kept_ignored import is_kept

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eventlog.hooks.state import Closing
    from eventlog.worktree.capture import Capture


def may_switch(checkpoint: CaptureCheckpoint, call: Call, closing: "Closing | None") -> bool:
    """Whether this capture may be the first that follows the switch: no turn spans it."""
    if call.moment not in (SESSION, TURN_START):
        return False
    closed = () if closing is None else closing.turns
    return all(session in closed or session == call.session for session in checkpoint.open)


def changes_without(capture: "Capture", root: str, keeps: bool) -> "list[CapturedChange]":
    """The changes that a capture found, without files that came or went by the switch alone.

    Args: root: the directory; keeps: whether ignored files are kept from this capture on.
    """
    top = os.fsencode(root)

    def is_switched(path: bytes) -> bool:
        if keeps:
            return path in capture.kept_ignored
        return is_kept(path) and os.path.lexists(os.path.join(top, path))

    changes = []
    for change in capture.changes:
        if change.operation == RENAME:
            assert change.old_path is not None and change.before is not None and change.after is not None
            if is_switched(change.path if keeps else change.old_path):
                # Only one side of it was seen.
                deleted = CapturedChange((DELETE, change.old_path, change.before, None, None))
                added = CapturedChange((ADD, change.path, None, change.after, None))
                changes.append(deleted if keeps else added)
                continue
        elif change.operation == (ADD if keeps else DELETE) and is_switched(change.path):
            continue
        changes.append(change)
    return changes
