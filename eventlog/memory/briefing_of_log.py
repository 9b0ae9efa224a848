"""The facts of a briefing, gathered from a store: what `briefing.py` makes text of.

`export` keeps them in `memory/briefing.json` for the hook that starts a session, which asks no index: a
view of the log as of a position, deleted at any time and made again to the same bytes (P2, I22). Used by the
command line, the server and the maintainer.
"""

import os
from collections.abc import Sequence
from typing import Any

from blake3 import blake3

from eventlog.base import config
from eventlog.base.jsontext import decode, encode
from eventlog.log.frame import HEADER_SIZE
from eventlog.log.tail import walk
from eventlog.memory import codes_of_log, intent, last_turn, who, window
from eventlog.memory.briefing import FORMAT, TOKENS, Briefing, BriefingReader, briefing
from eventlog.memory.files import replace_file
from eventlog.memory.freshness import FreshnessChecker
from eventlog.memory.retrieved import retrieve
from eventlog.projections.definitions import EVENTS_NEWEST_FIRST, HAPPENED_AT, TURNS_NEWEST_FIRST
from eventlog.search.failures import FoundError, failures
from eventlog.store import Store

_NEWEST = 50
_PATHS, _PATH_EVENTS = 200, 400
_AT = f"epoch_us({HAPPENED_AT})"


def brief(
    store: Store,
    reader: BriefingReader,
    now_us: int,
    tokens: int = TOKENS,
    *,
    looker: "FreshnessChecker | None" = None,
    writes: bool = True,
) -> Briefing:
    """The briefing of a store as it is (S3-21, S3-29).

    Closes what is stale first, and keeps the facts for hooks where they are to tell them; neither without
    `writes`, and the text is the same. Args: looker: by default it looks at the working directory.
    """
    if writes:
        intent.end_stale(store, now_us)
    facts = gather(store)
    if writes and is_told_at_start(store):
        try:
            write(store, facts)
        except OSError:
            pass  # whoever may only read is briefed all the same
    if reader.focus or reader.scope:
        _add_what_bears_on(store, facts, reader, writes=writes)
    return briefing(facts, reader, looker or FreshnessChecker(working_directory(store)), now_us, tokens)


def export(store: Store) -> str:
    """Bring the file that hooks read up to date; its path. Raises: OSError, Corruption."""
    return write(store, gather(store))


def is_told_at_start(store: Store) -> bool:
    """Whether hooks that start a session tell a briefing, by the settings."""
    return config.read(store.fs, store.layout).briefing_at_start


def write(store: Store, facts: "dict[str, Any]") -> str:
    path = store.layout.briefing
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    body = encode(facts)
    data = encode({"check": blake3(body).hexdigest(), "facts": facts}) + b"\n"
    from pathlib import Path

    replace_file(Path(path), data)
    return path


def working_directory(store: Store) -> "str | None":
    """The directory that the store stands in; where it stands apart, the one we are in."""
    if os.path.basename(store.layout.root) == ".locus":
        return os.path.dirname(store.layout.root)
    try:
        return os.getcwd()
    except OSError:
        return None


def gather(store: Store) -> "dict[str, Any]":
    """The facts of docs/briefing.md, each list with the newest first."""
    position, journal, offset = _end_of_log(store)
    workers = who.who(store)
    totals = store.query(
        "select total_sessions, total_turns from sessions_master where repo = $1", [store.repo_hash]
    ).rows
    sessions, turns = totals[0] if totals else (0, 0)
    opened = [failure for failure in failures(store.query) if failure.resolved is None]
    decisions, decisions_total = _decisions(store)
    warnings, warnings_total = _warnings(store)
    met = who.overlaps(workers)
    return {
        "format": FORMAT,
        "store": store.identity.store_id.hex(),
        "position": position,
        "journal": journal,
        "offset": offset,
        "project": {
            "name": store.project_name,
            "repo": store.repo_hash,
            "sessions": int(sessions),
            "turns": int(turns),
        },
        "knowledge": [{"event": one.event_id, "text": one.text} for one in window.project_facts(store)],
        "sessions": [_session(worker.intent) for worker in workers],
        "overlaps": [
            {
                "words": one.words(),
                "path": one.path,
                "between": [one.first.session_id, one.second.session_id],
                "events": list(one.event_ids),
            }
            for one in met[: -_NEWEST - 1 : -1]
        ],
        "overlaps_total": len(met),
        "warnings": warnings,
        "warnings_total": warnings_total,
        "errors": _errors(store, opened),
        "errors_total": len(opened),
        "turns": _turns(store),
        "decisions": decisions,
        "decisions_total": decisions_total,
        "files": _files(store, "true", []),
        "more_files": [],
        "others": [],
        "codes": codes_of_log.facts(store),
    }


def _end_of_log(store: Store) -> tuple[int, int, int]:
    """The position behind the last event, and behind which byte of which journal the next one stands."""
    with store.view() as view:
        position = view.next_position
        journal, offset = view.manifest.next_journal, HEADER_SIZE
        base = view.manifest.next_position
        for one in walk(store.fs, store.layout, view.store_id, view.journals, base, view.size_of_last):
            journal, offset = one.number, HEADER_SIZE
            if one.frames:
                offset = one.frames[-1].offset + one.frames[-1].size
    return position, journal, offset


def _session(one: intent.Intent) -> "dict[str, Any]":
    return {
        "id": one.session_id,
        "agent": one.agent,
        "agent_session_id": one.agent_session_id,
        "focus": one.focus,
        "declared": one.declared,
        "scope": None if one.scope is None else list(one.scope),
        "opened_us": one.opened_us,
        "opened_position": one.opened_position,
        "last_position": one.last_position,
        "event": one.event_id,
    }


def _turns(store: Store) -> "list[dict[str, Any]]":
    rows = store.query(
        "select context_id, session_id, agent, title, user_request, outcome, status, files_modified, "
        "epoch_us(coalesce(completed_at, started_at)), first_position, last_position "
        f"from turns order by {TURNS_NEWEST_FIRST} limit {_NEWEST}"
    ).rows
    return [
        {
            "turn": context_id,
            "event": context_id,
            "session": session_id,
            "agent": agent,
            "text": title or request or "",
            "asked": last_turn.kept(request),
            "outcome": last_turn.kept(outcome),
            "status": status,
            "open": status == "active",
            "paths": list(paths or ())[:_NEWEST],
            "at": at,
            "began": began,
            "position": position,
        }
        for context_id, session_id, agent, title, request, outcome, status, paths, at, began, position in rows
    ]


def _decisions(store: Store) -> "tuple[list[dict[str, Any]], int]":
    """Decisions that nothing says are settled or taken back (docs/briefing.md)."""
    is_open = (
        "event_type = 'decision' and resolved is not true and not exists (select 1 from "
        "(select unnest(contradicts) as link from events where contradicts is not null) as taken_back "
        "where link = events.context_id)"
    )
    rows = store.query(
        f"select event_id, position, path, title, payload, count(*) over () from events where {is_open} "
        f"order by {EVENTS_NEWEST_FIRST} limit {_NEWEST}"
    ).rows
    found = []
    for event_id, position, path, title, payload, _ in rows:
        said = _payload(payload)
        text, why = said.get("decision"), said.get("reasoning")
        found.append(
            {
                "event": event_id,
                "text": text if isinstance(text, str) else title or "",
                "why": why if isinstance(why, str) else None,
                "path": path,
                "position": position,
            }
        )
    return found, int(rows[0][-1]) if rows else 0


def _errors(store: Store, opened: "list[FoundError]") -> "list[dict[str, Any]]":
    """The newest of these, with what failed: a file, a command."""
    newest = sorted(opened, key=lambda one: one.position, reverse=True)[:_NEWEST]
    rows = store.query(
        "select e.position, coalesce(nullif(any_value(a.path), ''), nullif(any_value(a.command), ''), "
        "any_value(a.title), nullif(any_value(e.path), ''), any_value(e.command)) "
        "from errors as e left join actions as a on a.session_id = e.session_id "
        "and a.tool_use_id = e.tool_use_id where list_contains($1, e.position) group by e.position",
        [[one.position for one in newest]],
    ).rows
    targets = dict(rows)
    return [
        {
            "event": one.event_id,
            "type": one.error_type,
            "tool": one.tool,
            "path": one.path,
            "text": one.message or "",
            "session": one.session_id,
            "target": targets.get(one.position),
            "context": one.context_id,
            "position": one.position,
        }
        for one in newest
    ]


def _warnings(store: Store) -> "tuple[list[dict[str, Any]], int]":
    where = "event_type = 'warning' and resolved is not true"
    rows = store.query(
        f"select event_id, agent, path, title, payload, count(*) over () from events where {where} "
        f"order by {EVENTS_NEWEST_FIRST} limit {_NEWEST}"
    ).rows
    return [
        {"event": event_id, "agent": agent, "path": path, "text": text_of(_payload(payload), title)}
        for event_id, agent, path, title, payload, _ in rows
    ], int(rows[0][-1]) if rows else 0


def _files(store: Store, where: str, parameters: "Sequence[Any]") -> "list[dict[str, Any]]":
    """The paths that changed last, each with its last change."""
    rows = store.query(
        f"select path, after_hash, operation, event_id, {_AT}, position from events "
        f"where event_type = 'file' and path is not null and operation is distinct from 'read' and {where} "
        f"order by {EVENTS_NEWEST_FIRST} limit {_PATH_EVENTS}",
        parameters,
    ).rows
    found: dict[str, dict[str, Any]] = {}
    for path, after, operation, event_id, at, position in rows:
        if path not in found and len(found) < _PATHS:
            found[path] = {
                "path": path,
                "hash": after,
                "operation": operation or "edit",
                "event": event_id,
                "at": at,
                "position": position,
            }
    return list(found.values())


def _add_what_bears_on(
    store: Store, facts: "dict[str, Any]", reader: BriefingReader, *, writes: bool
) -> None:
    """What is older than the newest of each kind, and bears on what the reader said."""
    known = {one["path"] for one in facts["files"]}
    for top in reader.scope:
        directory = top.rstrip("/")
        found = _files(store, "(path = $1 or starts_with(path, $1 || '/'))", [directory])
        facts["more_files"] += [one for one in found if one["path"] not in known]
        known |= {one["path"] for one in found}
    if reader.focus:
        seen = {one["event"] for name in ("decisions", "errors", "warnings") for one in facts[name]}
        for memory in (one.memory for one in retrieve(store, reader.focus, _NEWEST, writes=writes)):
            if memory.event_id not in seen and memory.event_type not in ("turn", "session"):
                facts["others"].append(
                    {
                        "event": memory.event_id,
                        "type": memory.event_type,
                        "text": memory.text,
                        "path": None,
                        "position": memory.position,
                    }
                )


def text_of(payload: "dict[str, Any]", title: "str | None") -> str:
    """What an event says, wherever its writer put it."""
    for name in ("message", "content", "text", "warning"):
        if isinstance(payload.get(name), str):
            return str(payload[name])
    return title or ""


def _payload(text: object) -> "dict[str, Any]":
    try:
        said = decode(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
