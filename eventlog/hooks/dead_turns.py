"""Closes the turns whose agent is gone where no hook comes any more (docs/certainty.md §2).

Used by `locus doctor` and the maintenance process; not on the hook path.
"""

import os
import time
from typing import TYPE_CHECKING

from eventlog.agents.kit.call import SESSION, Call
from eventlog.base.fs import FileSystem
from eventlog.base.layout import LIVE_DIR, Layout
from eventlog.base.names import short
from eventlog.hooks import state
from eventlog.hooks.captured import ContentStarter, DirectoryCapture, LogRefused
from eventlog.hooks.context import EventWriter, context_of
from eventlog.hooks.locate import find_captured
from eventlog.hooks.state import Calls, SessionNotes
from eventlog.worktree import statcache_upkeep

if TYPE_CHECKING:
    from eventlog.hooks.context import Note

DOCTOR, MAINTENANCE = "doctor", "maintenance"
# A capture may take this many times longer than a hook's: no agent waits for it.
_ENVIRON = {"LOCUS_HOOK_PATIENCE": "10"}


def close_dead_turns(fs: FileSystem, layout: Layout, by: str, note: "Note") -> int:
    """Close the turns of a store whose process is gone, with a capture of each directory; how many.

    Any number of processes may do so beside hooks. What cannot be closed stays for the next one.

    Args: by: DOCTOR or MAINTENANCE; note: receives the errors.
    """
    closed = 0
    now_s = fs.time_ns() / 1e9
    nobody = Call("locus", {})
    directories: dict[str, str] | None = None
    try:
        names = sorted(os.listdir(layout.directory(LIVE_DIR)))
    except FileNotFoundError:
        return 0  # a store of an earlier version has none
    for name in names:
        worktree = name.removesuffix(".told")
        if worktree == name or not state.abandoned_turns(
            state.read_checkpoint(layout, worktree), nobody, now_s
        ):
            continue
        if directories is None:
            directories = {
                short(path): os.fsdecode(path) for path in statcache_upkeep.captured_directories(fs, layout)
            }
        if worktree not in directories:
            continue  # its path is unknown
        try:
            closed += _close(fs, layout, directories[worktree], by, note)
        except Exception as error:
            note(error)
    return closed


def _close(fs: FileSystem, layout: Layout, directory: str, by: str, note: "Note") -> int:
    """Close the turns of a captured directory whose process is gone; how many.

    Raises: EventLogError when the store takes no event, or the directory cannot be captured.
    """
    call = Call("locus", {"cwd": directory})
    call.moment = SESSION
    context = context_of(fs, layout, call, _ENVIRON, note, find_captured(directory))
    writer = EventWriter(context, time.monotonic())
    capture = DirectoryCapture(context, writer, SessionNotes(Calls()), ContentStarter(None), by=by)
    try:
        return capture.append([]).closed_count
    except LogRefused as refusal:
        raise refusal.reason from refusal.reason.__cause__
