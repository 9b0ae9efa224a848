"""The facts of a briefing, from the index of a store: `briefing.py` makes text of them.

`export` caches them in `memory/briefing.json` for the hook that starts a session, which reads no index: a
view of the log as of a position, which can be deleted and made again with the same bytes (P2, I22). The
command line, the MCP server and the maintainer use it.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from eventlog.base import config
from eventlog.base.jsontext import encode, object_if_any
from eventlog.log.frame import HEADER_SIZE
from eventlog.log.tail import walk
from eventlog.memory import codes_of_log, intent, who, window
from eventlog.memory.briefing import TOKENS, Briefing, BriefingReader, briefing
from eventlog.memory.facts import FORMAT, NEWEST, FactsFold, empty, is_of_project
from eventlog.memory.files import replace_file
from eventlog.memory.freshness import FreshnessChecker
from eventlog.memory.retrieved import retrieve
from eventlog.projections.definitions import EVENTS_NEWEST_FIRST, HAPPENED_AT, TURNS_NEWEST_FIRST
from eventlog.projections.elsewhere import of_project, sessions_elsewhere, totals
from eventlog.search.failures import failures
from eventlog.store import Store

if TYPE_CHECKING:
    from eventlog.query.engine import Result

_FILE_EVENTS = 400


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

    Closes stale sessions first, and caches the facts where hooks print them; neither without `writes`, and
    the text is the same. Args: looker: by default it reads the working directory.
    """
    if writes:
        intent.end_stale(store, now_us)
    facts = gather(store)
    if writes and briefs_at_start(store):
        try:
            write(store, facts)
        except OSError:
            pass  # a reader without the right to write gets the briefing too
    if reader.focus or reader.scope:
        _add_what_bears_on(store, facts, reader, writes=writes)
    return briefing(facts, reader, looker or FreshnessChecker(working_directory(store)), now_us, tokens)


def export(store: Store) -> str:
    """Bring the file that hooks read up to date; its path. Raises: OSError, Corruption."""
    return write(store, gather(store))


def briefs_at_start(store: Store) -> bool:
    """Whether hooks print a briefing when a session starts, by the settings."""
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
    """The directory that holds the store; where the store is kept apart, the one we are in."""
    if os.path.basename(store.layout.root) == ".locus":
        return os.path.dirname(store.layout.root)
    try:
        return os.getcwd()
    except OSError:
        return None


def gather(store: Store) -> "dict[str, Any]":
    """The facts of docs/briefing.md, folded from what the index knows of the log."""
    position, journal, offset = _end_of_log(store)
    workers = [worker for worker in who.who(store) if _is_here(store, worker.intent)]
    others = sessions_elsewhere(store.query, store.repo_hash)
    sessions, turns = totals(store.query, store.repo_hash)
    met = who.overlaps(workers)
    fold = FactsFold(empty(store.project_name, store.repo_hash))
    for event in chain(
        _turns(store, others),
        _decisions(store, others),
        _errors(store, others),
        _rows(store, others, "event_type = 'warning'"),
        _files(store, others),
        _sessions([worker.intent for worker in workers]),
    ):
        fold.take(event["position"], event, event.pop("payload"))
    return fold.end() | {
        "format": FORMAT,
        "store": store.identity.store_id.hex(),
        "position": position,
        "journal": journal,
        "offset": offset,
        "project": {
            "name": store.project_name,
            "repo": store.repo_hash,
            "sessions": sessions,
            "turns": turns,
        },
        "knowledge": [{"event": fact.event_id, "text": fact.text} for fact in window.project_facts(store)],
        "overlaps": [
            {
                "words": overlap.words(),
                "path": overlap.path,
                "between": [overlap.first.session_id, overlap.second.session_id],
                "events": list(overlap.event_ids),
            }
            for overlap in met[: -NEWEST - 1 : -1]
        ],
        "overlaps_total": len(met),
        "codes": codes_of_log.facts(store),
    }


def _end_of_log(store: Store) -> tuple[int, int, int]:
    """The position after the last event, and the journal and the byte where the next one begins."""
    with store.view() as view:
        position = view.next_position
        journal, offset = view.manifest.next_journal, HEADER_SIZE
        base = view.manifest.next_position
        for part in walk(store.files, view.journals, base, view.size_of_last):
            journal, offset = part.number, HEADER_SIZE
            if part.frames:
                offset = part.frames[-1].offset + part.frames[-1].size
    return position, journal, offset


def _sessions(intents: "Sequence[intent.Intent]") -> "Iterator[dict[str, Any]]":
    """The sessions at work as events that begin them, the one that something happened in last at the end."""
    for session in reversed(intents):
        yield {
            "event_type": "session",
            "operation": "start",
            "event_id": session.event_id or session.context_id,
            "session_id": session.session_id,
            "agent": session.agent,
            "agent_session_id": session.agent_session_id,
            "repo": session.repo,
            "title": session.focus,
            "occurred_at": session.opened_us,
            "position": session.opened_position,
            "last_position": session.last_position,
            "payload": {
                "focus": session.focus if session.declared else None,
                "scope": None if session.scope is None else list(session.scope),
            },
        }


def _is_here(store: Store, session: "intent.Intent") -> bool:
    names = ("repo", "agent", "agent_session_id")
    return is_of_project({name: getattr(session, name) for name in names}, store.repo_hash)


def _turns(store: Store, others: "list[str]") -> "Iterator[dict[str, Any]]":
    """The newest turns, each as one event."""
    return _oldest_first(
        store.query(
            "select 'turn' as event_type, context_id as event_id, context_id, session_id, agent, title, "
            "case when status = 'active' then 'start' else 'end' end as operation, files_modified, "
            "epoch_us(coalesce(completed_at, started_at)) as occurred_at, first_position, "
            "last_position as position, {'user_message': user_request, 'outcome': outcome, 'status': status} "
            f"as payload from turns where {of_project('$1')} "
            f"order by {TURNS_NEWEST_FIRST} limit {NEWEST}",
            [others],
        )
    )


def _decisions(store: Store, others: "list[str]") -> "Iterator[dict[str, Any]]":
    """Decisions, and what takes one of them back."""
    made = "select list(context_id) from events where event_type = 'decision'"
    return _rows(store, others, f"(event_type = 'decision' or list_has_any(contradicts, ({made})))")


def _errors(store: Store, others: "list[str]") -> "Iterator[dict[str, Any]]":
    """Errors that the index has as open, with what failed: a file, a command."""
    all_errors = failures(store.query)
    errors = [error for error in all_errors if error.resolved is None and error.session_id not in others]
    errors.sort(key=lambda error: error.position)
    targets = dict(
        store.query(
            "select e.position, coalesce(nullif(any_value(a.path), ''), nullif(any_value(a.command), ''), "
            "any_value(a.title), nullif(any_value(e.path), ''), any_value(e.command)) "
            "from errors as e left join actions as a on a.session_id = e.session_id "
            "and a.tool_use_id = e.tool_use_id where list_contains($1, e.position) group by e.position",
            [[error.position for error in errors[-NEWEST:]]],
        ).rows
    )
    for error in errors:
        columns = ("event_id", "position", "session_id", "context_id", "error_type", "tool", "path")
        yield {
            "event_type": "error",
            **{name: getattr(error, name) for name in columns},
            "target": targets.get(error.position),
            "payload": {"message": error.message},
        }


def _files(
    store: Store, others: "list[str]", where: str = "true", parameters: "Sequence[Any]" = ()
) -> "Iterator[dict[str, Any]]":
    """The last changes of files."""
    changed = "event_type = 'file' and path is not null and operation is distinct from 'read'"
    return _rows(store, others, f"{changed} and {where}", parameters, f"limit {_FILE_EVENTS}")


def _rows(
    store: Store, others: "list[str]", where: str, parameters: "Sequence[Any]" = (), limit: str = ""
) -> "Iterator[dict[str, Any]]":
    """Events that the index finds, each with its payload, those that happened last at the end.

    Args: others: the sessions of other projects, whose events are left out.
    """
    own = of_project(f"${len(parameters) + 1}")
    return _oldest_first(
        store.query(
            "select event_type, event_id, agent, path, title, operation, after_hash, resolved, context_id, "
            f"contradicts, epoch_us({HAPPENED_AT}) as occurred_at, position, case when event_type in "
            f"('decision', 'warning') then payload end as payload from events where {where} and {own} "
            f"order by {EVENTS_NEWEST_FIRST} {limit}",
            [*parameters, others],
        )
    )


def _oldest_first(result: "Result") -> "Iterator[dict[str, Any]]":
    for row in reversed(result.rows):
        event = dict(zip(result.columns, row, strict=True))
        yield event | {"payload": object_if_any(event["payload"])}


def _add_what_bears_on(
    store: Store, facts: "dict[str, Any]", reader: BriefingReader, *, writes: bool
) -> None:
    """Add what bears on the reader's focus and scope, and is older than the newest of each kind."""
    paths = {fact["path"] for fact in facts["files"]}
    others = sessions_elsewhere(store.query, store.repo_hash)
    for top in reader.scope:
        fold = FactsFold(empty(store.project_name, store.repo_hash))
        for event in _files(store, others, "(path = $1 or starts_with(path, $1 || '/'))", [top.rstrip("/")]):
            fold.take(event["position"], event, event.pop("payload"))
        files = [fact for fact in fold.end()["files"] if fact["path"] not in paths]
        facts["more_files"] += files
        paths |= {fact["path"] for fact in files}
    if reader.focus:
        seen = {fact["event"] for name in ("decisions", "errors", "warnings") for fact in facts[name]}
        for memory in (hit.memory for hit in retrieve(store, reader.focus, NEWEST, writes=writes)):
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
