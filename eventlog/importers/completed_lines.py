"""Lines that an import found half written and that are whole now: recorded once for each half.

A half line is in the log as `malformed`. When an import has read it whole, a `transcript` event of the
operation `line_completed` names it as its cause. Lists of events and counts of malformed lines then leave out
both. Nothing is removed. Only reads files.
"""

import io
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from eventlog.agents.kit.lines import LINE_BYTES_MAX, opened
from eventlog.base import jsontext
from eventlog.base.errors import EventLogError
from eventlog.base.names import event_id_of

if TYPE_CHECKING:
    from eventlog.base.types import Event
    from eventlog.importers.known_sessions import KnownSessions
    from eventlog.store import Store

COMPLETED = "line_completed"
_CHUNK_BYTES = 1 << 20
_OPEN = (
    "select event_id, agent_session_id, repo, payload from events where event_type = 'transcript' "
    "and operation = 'malformed' and agent = $1 and event_id not in (select cause from events "
    f"where event_type = 'transcript' and operation = '{COMPLETED}' and cause is not null)"
)


def completed(
    store: "Store", agent: str, known: "KnownSessions", sizes: "Mapping[str, int]"
) -> "Iterator[Event]":
    """The events to add: one for each half line that was read whole since.

    Args: sizes: how far each file is read now, by its path, or by its name for a subagent's.
    """
    if not known.ends:
        return
    for event_id, session, repo, text in store.query(_OPEN, [agent]).rows:
        payload = jsontext.decode(text)
        path, offset, size = payload.get("path"), payload.get("offset"), payload.get("size")
        if not (isinstance(path, str) and isinstance(offset, int) and isinstance(size, int)):
            continue
        # An earlier import had read up to here, and no further; this one has.
        name = os.path.basename(path)
        if (name, offset) not in known.ends or sizes.get(path, sizes.get(name, 0)) <= offset:
            continue
        whole = _line_at(path, offset)
        if len(whole) > size and _id_of(agent, path, offset, whole[:size]) == event_id:
            event: dict[str, Any] = {
                "event_type": "transcript",
                "agent": agent,
                "agent_session_id": session,
                "repo": repo,
                "operation": COMPLETED,
                "cause": event_id,
                "event_id": event_id_of(agent, "transcript", event_id, COMPLETED),
                "payload": {"path": path, "line": payload.get("line"), "offset": offset, "size": len(whole)},
            }
            yield {name: value for name, value in event.items() if value is not None}


def _line_at(path: str, offset: int) -> bytes:
    """The line that begins at an offset; nothing when it cannot be read."""
    try:
        with opened(path) as file:
            lines = io.BufferedReader(file)  # type: ignore[type-var]
            if lines.seekable():
                lines.seek(offset)
            else:
                while offset > 0 and (chunk := lines.read(min(offset, _CHUNK_BYTES))):
                    offset -= len(chunk)
            return lines.readline(LINE_BYTES_MAX)
    except (EventLogError, OSError):
        return b""


def _id_of(agent: str, path: str, offset: int, data: bytes) -> str:
    """The id of the event that keeps these bytes as malformed."""
    return event_id_of(agent, "transcript", path, str(offset), blake3(data).hexdigest())
