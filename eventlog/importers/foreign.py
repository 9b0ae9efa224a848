"""Files that are no transcript of the wanted agent: whose they are, or what else. Only reads.

Of agents without an importer, only the features that identify their files are known here.
"""

import os
from typing import Any

import orjson

from eventlog import agents
from eventlog.agents import formats
from eventlog.agents.kit.lines import DOCUMENT_BYTES_MAX, FileSource, opened
from eventlog.base.errors import EventLogError

_Object = dict[str, Any]
_OBJECTS_MAX = 20
_STEPS_OF_WINDSURF = ("user_input", "planner_response", "code_action", "run_command", "view_file")

# Names of files that only one agent writes, or the members of one family.
_BY_NAME = {
    ".aider.chat.history.md": "Aider",
    ".aider.input.history": "Aider",
    ".aider.llm.history": "Aider",
    "api_conversation_history.json": "Cline (or one of its family)",
    "ui_messages.json": "Cline (or one of its family)",
}


def check(agent: str, source: FileSource) -> None:
    """Raises: EventLogError when the beginning of a source shows that it is not this agent's."""
    try:
        head = source.head()
    except EventLogError:
        objects = objects_in_array(source.path)
        hint = whose_name(os.path.basename(source.path)) or (objects and whose(agent, source.path, objects))
        if hint:
            raise EventLogError(f"{source.path} {hint}") from None
        raise
    if head and not formats.is_one(agent, head):
        hint = whose(agent, source.path, head)
        raise EventLogError(f"{source.path} is no transcript of {agent}{(hint and f'; it {hint}') or ''}")


def whose_name(name: str) -> str | None:
    """Why a file of this name is not imported, when the name alone identifies the agent that wrote it."""
    agent = _BY_NAME.get(name)
    return None if agent is None else _without_importer(agent)


def whose(agent: str, path: str, head: "list[_Object]") -> str | None:
    """Why the file that begins with `head` is not imported for `agent`, when it looks like another's."""
    for other in agents.importable():
        if other.name != agent and formats.is_one(other.name, head):
            return f"looks like one of {other.name}: `locus import {other.command_name}` reads it"
    known = whose_name(os.path.basename(path))
    if known is None and (shape := next(filter(None, map(_shape_of, head)), None)):
        known = _without_importer(shape)
    return known


def objects_in_array(path: str) -> "list[_Object] | None":
    """The first objects of a file that is one JSON array; None when it is not, or is too large to read."""
    try:
        with opened(path) as file:
            data = file.read(DOCUMENT_BYTES_MAX + 1)
    except (EventLogError, OSError):
        return None
    if len(data) > DOCUMENT_BYTES_MAX or not data.lstrip().startswith(b"["):
        return None
    try:
        items = orjson.loads(data)
    except ValueError:
        return None
    return [item for item in items[:_OBJECTS_MAX] if isinstance(item, dict)]


def _without_importer(agent: str) -> str:
    return f"looks like one of {agent}: there is no importer for it"


def _shape_of(record: _Object) -> str | None:
    """The agent without an importer that writes such objects."""
    kind = record.get("type")
    if kind == "session_start" and "id" in record and ("cwd" in record or "title" in record):
        return "Factory Droid"
    if str(record.get("id")).startswith("T-") and isinstance(record.get("messages"), list):
        return "Amp"
    if record.get("source") in ("user", "agent", "environment") and "timestamp" in record and "id" in record:
        if "action" in record or "observation" in record or str(record.get("kind")).endswith("Event"):
            return "OpenHands"
    elif kind in _STEPS_OF_WINDSURF and isinstance(record.get(str(kind)), dict):
        return "Windsurf"
    elif "working_dir" in record and "message_count" in record:
        return "Goose"
    return None
