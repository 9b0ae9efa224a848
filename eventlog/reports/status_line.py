"""The line of `locus statusline`: the state and the cost of a session, for an agent's status bar.

It reads the notes of hooks (`live/*.told`, `live/<session>.calls`), their failures and `live/costs`, and no
part of the log, so its time does not depend on the size of the store. An unreadable value is unknown, and is
shown as "–". docs/costs.md describes the line. Writes nothing. On the hook path.
"""

import os
import time

from eventlog.agents.kit.call import Call, object_of, text_of
from eventlog.agents.kit.spec import PROJECT_VARIABLE
from eventlog.base import activity, jsontext
from eventlog.base.errors import EventLogError
from eventlog.base.layout import TMP_DIR, Layout
from eventlog.base.names import short
from eventlog.hooks.locate import find_store
from eventlog.reports.number_text import dollars

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from eventlog.base.types import Event

COSTS = "costs"
FORMAT = 1
UNKNOWN = "–"
_BETWEEN = " · "
_SIZE_MAX = 64 << 10  # only the end of a file is read
_FRESH_S = 24 * 3600  # failures of hooks that are older need no attention
_ID_SIZE = 8


def line(status: "Event", environ: "Mapping[str, str]", now_s: float) -> str:
    """One line, without a newline.

    Args: status: the agent's input to its status line; now_s: Unix time.
    """
    layout = _store(status, environ)
    if layout is None:
        return "locus: not recorded"
    session = text_of(status, "session_id")
    turns = activity.open_turns(layout)
    parts = [f"locus: {_recording(layout, session, turns, now_s)}", *_costs(layout, session, now_s)]
    return _harmless(_BETWEEN.join(parts + _attention(layout, turns, now_s)))


def _store(status: "Event", environ: "Mapping[str, str]") -> "Layout | None":
    """The store that hooks of this session record to."""
    workspace = object_of(status, "workspace")
    cwd = text_of(status, "cwd") or text_of(workspace, "current_dir")
    project = text_of(workspace, "project_dir")
    around = dict(environ) | ({} if project is None else {PROJECT_VARIABLE: project})
    try:
        root = find_store(Call("status line", {} if cwd is None else {"cwd": cwd}), around)
    except (EventLogError, ValueError):  # a store that hooks refuse, too; a path that is none
        return None
    return None if root is None else Layout(root)


def _recording(layout: Layout, session: "str | None", turns: "list[activity.OpenTurn]", now_s: float) -> str:
    for turn in turns:
        if turn.session == session:
            state = "interrupted" if turn.state(now_s) == activity.DEAD else "recording"
            return f"{state} turn {turn.turn[:_ID_SIZE]}"
    if session is not None and os.path.exists(layout.live(f"{short(session)}.calls")):
        return "recorded"
    return "not recorded"


def _costs(layout: Layout, session: "str | None", now_s: float) -> "list[str]":
    """The costs of the session and of the day, as maintenance last wrote them."""
    costs = _written_costs(layout)
    of_session = object_of(costs, "sessions").get(short(session)) if session is not None else None
    is_today = costs.get("day") == time.strftime("%Y-%m-%d", time.localtime(now_s))
    today = costs.get("today") if is_today else None
    return [f"session {_dollars(of_session)}", f"today {_dollars(today)}"]


def _written_costs(layout: Layout) -> "Event":
    try:
        costs = jsontext.decode(_end_of(layout.live(COSTS)))
    except (OSError, ValueError, RecursionError):
        return {}
    return costs if isinstance(costs, dict) and costs.get("format") == FORMAT else {}


def _dollars(cost: object) -> str:
    """[dollars as text, calls without a price] as people read it; "+" where there are such calls."""
    if not isinstance(cost, list) or len(cost) != 2:
        return UNKNOWN
    try:
        return dollars(float(cost[0])) + ("+" if cost[1] else "")
    except (TypeError, ValueError):
        return UNKNOWN


def _attention(layout: Layout, turns: "list[activity.OpenTurn]", now_s: float) -> "list[str]":
    dead = sum(turn.names_process() and turn.state(now_s) == activity.DEAD for turn in turns)
    failed = _fresh_failures(layout, now_s)
    errors = "hook error" if failed == 1 else "hook errors"
    return [f"{number} {what}" for number, what in ((dead, "to close"), (failed, errors)) if number]


def _fresh_failures(layout: Layout, now_s: float) -> int:
    """How many failures hooks noted lately; each line begins with its Unix time."""
    try:
        lines = _end_of(f"{layout.directory(TMP_DIR)}/hook-errors.log").split(b"\n")
    except OSError:
        return 0
    times = [int(word) for line in lines if (word := line.partition(b" ")[0][:16]).isdigit()]
    return sum(abs(now_s - noted_s) < _FRESH_S for noted_s in times)


def _end_of(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return os.pread(fd, _SIZE_MAX, max(0, os.fstat(fd).st_size - _SIZE_MAX))
    finally:
        os.close(fd)


def _harmless(text: str) -> str:
    """The text without control characters of a terminal: ids come from an agent."""
    return "".join(character if character.isprintable() else "?" for character in text)
