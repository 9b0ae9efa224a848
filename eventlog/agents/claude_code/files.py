"""Which files Claude Code keeps a session in, and how they are recognised. Only reads.

A session's file is `projects/DIRECTORY/SESSION.jsonl`; those of its subagents are
`SESSION/subagents/agent-*.jsonl`, each with an `agent-*.meta.json`; old versions put `agent-*.jsonl` beside
it. Copies of edited files are in `file-history/SESSION`, beside `projects`.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from eventlog.agents.kit.call import text_of
from eventlog.agents.kit.lines import FileSource, head_of
from eventlog.base.errors import EventLogError

AGENT = "claude-code"
META_SUFFIX = ".meta.json"

_Object = dict[str, Any]


def directories_of_transcripts(environ: "Mapping[str, str]") -> list[str]:
    """Where Claude Code keeps the transcripts of all projects (docs/adapters.md)."""
    return [f"{environ.get('CLAUDE_CONFIG_DIR') or environ.get('HOME', '') + '/.claude'}/projects"]


def recognises(record: _Object) -> bool:
    """Whether a line is one of this format."""
    if "sessionId" in record:
        return "uuid" in record or "message" in record or "leafUuid" in record or "type" in record
    kind = record.get("type")
    return (kind == "summary" and "leafUuid" in record) or (
        kind == "file-history-snapshot" and "snapshot" in record
    )


def sources_in(path: str) -> list[FileSource]:
    """The session that a file is of; none when the file is part of a session whose own file is there."""
    directory, name = os.path.split(path)
    if name.startswith("agent-"):
        session = _session_of(path)
        above = directory.partition("/subagents")[0] + ".jsonl" if "/subagents" in directory else ""
        beside = f"{directory}/{session}.jsonl"
        if os.path.isfile(above) or (session and beside != path and os.path.isfile(beside)):
            return []
    elif "/subagents/" in path:
        return []  # any other file in the directory of subagents
    return [FileSource(AGENT, parts_of(path))]


def parts_of(path: str) -> list[str]:
    """A session's file, those of its subagents, and the files that describe these.

    They are in `SESSION/subagents/`; with old versions next to the session's file, named by their first line.
    """
    parts = [path]
    directory, name = os.path.split(path)
    own = path.removesuffix(".jsonl")
    for where, _, names in os.walk(f"{own}/subagents"):
        for entry in sorted(names):
            below = f"{where}/{entry}"
            if (
                entry.startswith("agent-")
                and entry.endswith((".jsonl", META_SUFFIX))
                and not os.path.islink(below)
            ):
                parts.append(below)
    if name.startswith("agent-"):
        return parts
    try:
        beside = sorted(entry for entry in os.listdir(directory or ".") if entry.startswith("agent-"))
    except OSError:
        beside = []
    session = _session_of(path) if beside else None
    for entry in beside:
        below = os.path.join(directory, entry)
        if not entry.endswith(".jsonl") or os.path.islink(below) or session is None:
            continue
        if _session_of(below) == session:
            parts.append(below)
    return parts


def _session_of(path: str) -> str | None:
    """The session that the first lines of a file name."""
    try:
        return next((session for record in head_of(path) if (session := text_of(record, "sessionId"))), None)
    except EventLogError:
        return None


def backups_of(path: str) -> "str | None":
    """The directory with the copies of edited files, of all sessions; None for a file that lies elsewhere."""
    projects = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    if os.path.basename(projects) != "projects":
        return None
    return f"{os.path.dirname(projects)}/file-history"


def subagents_in(parts: Sequence[str]) -> dict[int, str]:
    """The parts that say what a subagent is, each with its id."""
    return {
        part: os.path.basename(path).removeprefix("agent-").removesuffix(META_SUFFIX)
        for part, path in enumerate(parts)
        if path.endswith(META_SUFFIX)
    }
