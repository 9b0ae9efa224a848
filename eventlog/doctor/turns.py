"""Do captures see the whole directory, which files are in their way, and which turns have no end?

Writes nothing but the ends of turns whose agent was killed.

Checks for `locus doctor`, beside those of `store.py`.
"""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from eventlog.base import activity
from eventlog.base.errors import EventLogError
from eventlog.base.jsontext import object_if_any
from eventlog.base.paths import path_text
from eventlog.blobs.ids import from_text
from eventlog.blobs.tree import FILES, SKIPPED
from eventlog.checkout.materialize import walk
from eventlog.doctor.completeness import completeness
from eventlog.doctor.store import HOOKED, NOTE, OK, DoctorFinding, age, counted, recent, slow_rules
from eventlog.hooks import dead_turns
from eventlog.replay.deferred import DeferredContents
from eventlog.store import Store

_SLOW_US = 400_000
_LARGE_BYTES = 1 << 20
_SHOWN = 5
_CAPTURE = "json_extract(payload, '$.capture')"
_LAST_TREE = (
    "select tree_hash from snapshots where tree_hash is not null and agent <> 'git' "
    "order by position desc limit 1"
)


# -- turns -------------------------------------------------------------------------------------


def _dead_turns(store: Store) -> Iterator[DoctorFinding]:
    problems: list[BaseException] = []
    closed = dead_turns.close_dead_turns(store.fs, store.layout, dead_turns.DOCTOR, problems.append)
    if closed:
        what = f"{counted(closed, 'turn')} without an end, whose agent was killed, closed now as interrupted"
        yield DoctorFinding(NOTE, "turns", what, "`locus log --type turn` shows them")
    for problem in problems:
        what = f"a turn whose agent was killed cannot be closed: {problem}"
        yield DoctorFinding(NOTE, "turns", what, "`locus doctor` tries again")


def _killed(store: Store) -> Iterator[DoctorFinding]:
    """Turns that began, and whose process is gone without a word."""
    now_s = store.fs.time_ns() / 1e9
    for turn in activity.open_turns(store.layout):
        if turn.state(now_s) != activity.DEAD:
            continue
        rows = store.query(
            "select session_id, turn_id from events where agent = $1 and agent_session_id = $2 "
            "and agent_turn_id = $3 and turn_id is not null limit 1",
            [turn.agent, turn.session, turn.turn],
        ).rows
        for session_id, turn_id in rows:
            name = f"{session_id}_{turn_id}"
            began = age(max(0.0, now_s - turn.began_s))
            what = (
                f"turn {name} of {turn.agent} began {began} ago and was not ended: its agent was killed, so "
                "what it changed after its last capture is not in it"
            )
            yield DoctorFinding(NOTE, "turns", what, f"`locus timeline {name}` shows what is known of it")


def _completeness(store: Store) -> Iterator[DoctorFinding]:
    rows = store.query(
        f"select session_id from events where position >= $1 and {HOOKED} and session_id is not null "
        "order by position desc limit 1",
        [recent(store)],
    ).rows
    for (session_id,) in rows:
        state = completeness(store, session_id)
        whole = not state.unsure_turns and (state.tool_calls == state.captured or not state.ended)
        todo = None if whole else f"`locus session show {session_id}` names what is missing"
        yield DoctorFinding(
            OK if whole else NOTE, "completeness", f"last session, {session_id}: {state}", todo
        )


# -- captures ----------------------------------------------------------------------------------


def _durations(store: Store) -> Iterator[DoctorFinding]:
    # All events of a call have its duration; those that are nobody's name no agent.
    rows = store.query(
        "select agent, count(*), quantile_cont(us, 0.5), quantile_cont(us, 0.95), quantile_cont(us, 0.99) "
        "from (select distinct agent, agent_session_id, "
        "try_cast(json_extract_string(payload, '$.hook_us') as bigint) as us "
        "from events where position >= $1 "
        "qualify agent is not null or count(agent) over (partition by us) = 0) "
        "where us is not null group by agent order by agent",
        [recent(store)],
    ).rows
    for agent, number, *quantiles in rows:
        p50, p95, p99 = (f"{us / 1000:.0f}" for us in quantiles)
        calls = f"{agent or 'unknown agent'}: {counted(number, 'hook call')}"
        what = f"{calls} took {p50} ms (median), {p95} ms (p95), {p99} ms (p99)"
        if quantiles[0] <= _SLOW_US:
            yield DoctorFinding(OK, "durations", what)
            continue
        large = _large_files(store)
        if large:
            what += "; the largest files it looks at are " + ", ".join(
                f"{path} ({_size(size)})" for path, size in large
            )
        todo = slow_rules(store) or keep_out([path for path, _ in large])
        yield DoctorFinding(NOTE, "durations", what, todo)


def _captures(store: Store) -> Iterator[DoctorFinding]:
    rows = store.query(
        "select json_extract_string(payload, '$.capture.state') as state, count(*) from events "
        "where position >= $1 and json_extract_string(payload, '$.capture.state') is not null "
        "group by state order by state",
        [recent(store)],
    ).rows
    last = _last_look(store)
    state = last.get("state")
    if state in ("partial", "busy", "failed"):
        pending = _paths_in(last.get("pending_paths"))
        what = f"the last capture did not see the whole directory ({state})"
        if pending:
            what += f": {_named(store, pending)} not read in time"
        yield DoctorFinding(NOTE, "captures", what, keep_out(pending))
    waiting = _deferred(store)
    if waiting:
        sizes = sorted(waiting.items(), key=lambda pair: (-pair[1], pair[0]))
        some = ", ".join(f"{path} ({_size(size)})" for path, size in sizes[:_SHOWN])
        what = f"the contents of {counted(len(sizes), 'file')} are still to be stored: {some}"
        todo = (
            "a process beside the hooks stores them, and the next hook starts one where none is; "
            "`locus doctor` names those that are left"
        )
        yield DoctorFinding(NOTE, "captures", what, todo)
    for state, number in rows:
        if state != "baseline":
            what = f"{counted(number, 'capture')} of the directory left to the next one ({state})"
            yield DoctorFinding(OK, "captures", what)


def _last_look(store: Store) -> dict[str, Any]:
    """What the last capture of a directory says of itself; empty for a whole one."""
    rows = store.query(
        f"select {_CAPTURE}::varchar from events where position >= $1 and (event_type = 'snapshot' "
        f"or (event_type = 'action' and {_CAPTURE} is not null)) and coalesce(agent, '') <> 'git' "
        "order by position desc limit 1",
        [recent(store)],
    ).rows
    return object_if_any(rows[0][0]) if rows else {}


def _deferred(store: Store) -> dict[str, int]:
    """Path → bytes of the files whose content no event says to be stored or lost yet."""
    rows = store.query(
        f"select {_CAPTURE}::varchar from events where position >= $1 and event_type = 'snapshot' "
        f"and try_cast(json_extract_string(payload, '$.capture.deferred') as bigint) > 0 "
        "order by position desc limit 1",
        [recent(store)],
    ).rows
    known = DeferredContents(store.blobs, store.events)
    lists = _paths_in(object_if_any(rows[0][0]).get("lists")) if rows else []
    return {path_text(row.path): row.size for name in lists for row in known.open_files(from_text(name))}


def _large_files(store: Store) -> list[tuple[str, int]]:
    """The largest files of the last snapshot, those above a megabyte."""
    findings = []
    for (tree,) in store.query(_LAST_TREE).rows:
        try:
            for path, entry in walk(store.blobs, from_text(tree)):
                if entry.kind in FILES | {SKIPPED} and _LARGE_BYTES <= entry.size < 1 << 62:
                    findings.append((path_text(path), entry.size))
        except EventLogError:
            return []
    return sorted(findings, key=lambda pair: (-pair[1], pair[0]))[:3]


def keep_out(paths: list[str]) -> str:
    """What to do about files that are too much: a command that keeps the first of them out."""
    if not paths:
        return "keep generated files in .gitignore, or set `max_file_bytes` in `.locus/config.toml`"
    return (
        f"if it needs no record: `echo {shlex.quote('/' + paths[0])} >> .locusignore`, or, where git tracks "
        "it, a smaller `max_file_bytes` in `.locus/config.toml`"
    )


def _named(store: Store, paths: list[str]) -> str:
    """Paths with their sizes now, as far as they are there."""
    top = os.path.dirname(store.layout.root)
    shown = []
    for path in paths[:_SHOWN]:
        try:
            shown.append(f"{path} ({_size(os.lstat(os.path.join(top, path)).st_size)})")
        except (OSError, ValueError):
            shown.append(path)
    more = f" and {len(paths) - _SHOWN:,} more" if len(paths) > _SHOWN else ""
    return ", ".join(shown) + more


def _size(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 10_000_000 else f"{size / 1e6:,.1f} MB"


def _paths_in(listed: object) -> list[str]:
    return [str(path) for path in listed] if isinstance(listed, list) else []


CHECKS: tuple[tuple[str, Callable[[Store], Iterable[DoctorFinding]]], ...] = (
    ("durations", _durations),
    ("captures", _captures),
    ("turns", _dead_turns),
    ("turns", _killed),
    ("completeness", _completeness),
)
