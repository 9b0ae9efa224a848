"""The sessions and turns of a git history: which turn a commit gets, ids and events, without any I/O.

Each commit of the first-parent line is a turn; fifty of them, counted from the root, are a session.
Everything here is a function of the commits and of what the log already holds, so that a repeated import
makes the same events. `docs/event-ids.md` has the table of ids. Pure functions and values.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple

from eventlog.base import names
from eventlog.base.paths import path_text
from eventlog.base.types import Event
from eventlog.importers.git_formats import Commit, CommitIdentity
from eventlog.recorder import lifecycle

AGENT = "git"
SESSION_TURNS = 50

# The status of a commit's turn once no line reaches it, and once a line reaches it again.
REWRITTEN, COMPLETED = "rewritten", "completed"

# Prefix of a commit's event ids where it was recorded before without its parent (docs/event-ids.md).
_AGAIN = "again:"

# One event is at most 16 MiB. A longer message is cut, its whole text is a blob; the paths of a
# larger change are in its file events only.
MESSAGE_SIZE_MAX = 1 << 20
_PATHS_SIZE_MAX = 4 << 20

# Times that Python, Arrow and DuckDB can all show: the years 1 to 9999.
_TIME_MIN_S, _TIME_MAX_S = -62_135_596_800, 253_402_300_799


@dataclass(frozen=True, slots=True)
class CommitTurn:
    """The turn of a commit. `key` is git's name for the session: repo_hash, `:`, its first commit."""

    key: str
    session_id: str
    turn: int

    @property
    def first_commit(self) -> str:
        return self.key.rpartition(":")[2]


@dataclass(slots=True)
class KnownCommits:
    """What the log has of the import of one repository."""

    event_ids: set[str] = field(default_factory=set)  # of turns, sessions and the master
    commit_turns: dict[str, CommitTurn] = field(default_factory=dict)  # by commit
    taken: dict[tuple[str, int], str] = field(default_factory=dict)  # commit by (session, turn)
    extended: set[str] = field(default_factory=set)  # keys of sessions whose start names the one before
    refs: dict[str, tuple[str, str]] = field(default_factory=dict)  # ref → its last event's id, head
    marks: dict[str, list[bool]] = field(default_factory=dict)  # commit → was it rewritten, each time
    # The turns of commits that were first recorded without their parent: that one, and the later one.
    cut: dict[str, CommitTurn] = field(default_factory=dict)
    again: dict[str, CommitTurn] = field(default_factory=dict)

    def record_again(self, commit: str) -> None:
        """Let a commit count as recorded only if it was recorded again."""
        if commit in self.commit_turns and commit not in self.cut:
            commit_turn = self.cut[commit] = self.commit_turns.pop(commit)
            self.taken[commit_turn.session_id, commit_turn.turn] = ""  # by a turn that the commit leaves
            if commit in self.again:
                self.commit_turns[commit] = self.again[commit]

    def is_done(self, repo: str, commit: str) -> bool:
        return turn_end_id(repo, commit, commit in self.cut) in self.event_ids

    def is_rewritten(self, commit: str) -> bool:
        return self.marks.get(commit, [False])[-1]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One changed path of a commit. Hashes are None for a side that does not exist or was not captured."""

    path: bytes
    old_path: bytes | None
    operation: str
    before_mode: int
    after_mode: int
    before_hash: str | None
    after_hash: str | None
    after_size: int | None
    lines_added: int | None
    lines_removed: int | None
    skipped: str | None  # why the content after the change is not in the store
    deferred: str | None = None  # the list that names it, for a later import (docs/certainty.md)


@dataclass(frozen=True, slots=True)
class TreeFacts:
    """A snapshot of the files at one side of a commit."""

    tree_hash: str
    tracked_files: int
    commit: str | None
    git_tree: str
    deferred: str | None = (
        None  # the list of contents that are not in the store, where the tree was read whole
    )


class CommitStep(NamedTuple):
    """What a commit did: the snapshots before and after it, and what it changed."""

    before: TreeFacts
    after: TreeFacts
    changes: Sequence[FileChange]


# -- turns ------------------------------------------------------------------------------------------


def known_from(rows: Iterable[Event], repo: str) -> KnownCommits:
    """What the log has, from its `turn`, `session`, `sessions` and `ref` events."""
    known = KnownCommits()
    for row in rows:
        if row["repo"] != repo:
            continue
        known.event_ids.add(str(row["event_id"]))
        if row["event_type"] == "sessions":
            known.event_ids.add(master_id(repo))  # whatever made it: there is only one
        elif row["agent"] != AGENT:
            continue
        elif row["event_type"] == "session" and len(_texts(row["extends"])) > 1:
            known.extended.add(str(row["agent_session_id"]))
        elif row["event_type"] == "ref":
            known.refs[str(row["title"] or "")] = str(row["event_id"]), str(row["commit"])
        elif row["event_type"] == "turn" and row["operation"] == "update":
            if row["status"] is None or row["event_id"] == replaced_id(repo, str(row["commit"])):
                continue
            known.marks.setdefault(str(row["commit"]), []).append(row["status"] == REWRITTEN)
        elif row["event_type"] == "turn" and row["operation"] == "start":
            commit = str(row["commit"])
            commit_turn = CommitTurn(
                str(row["agent_session_id"]), str(row["session_id"]), int(str(row["turn"]))
            )
            is_again = row["event_id"] == turn_start_id(repo, commit, True)
            (known.again if is_again else known.commit_turns).setdefault(commit, commit_turn)
            known.taken.setdefault((commit_turn.session_id, commit_turn.turn), commit)
    return known


def _texts(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


KNOWN_COLUMNS = (
    "event_id",
    "event_type",
    "operation",
    "session_id",
    "turn",
    "agent",
    "agent_session_id",
    "repo",
    "commit",
    "extends",
    "title",
    "status",
)
KNOWN_TYPES = ("session", "sessions", "turn", "ref")


def assign_turns(repo: str, line: Sequence[str], known: KnownCommits) -> list[CommitTurn]:
    """The turn of each commit of the line: groups of fifty from the root are sessions.

    A commit that is in the log keeps its turn, and those after it go to the same session. Where a turn
    belongs to another commit (the history was rewritten, or another branch came first), the rest of the group
    goes to a session keyed by the first commit that differs.
    """
    commit_turns = []
    for group_start in range(0, len(line), SESSION_TURNS):
        key = group_key = f"{repo}:{line[group_start]}"
        session_id = names.session_id_of(AGENT, key)
        for turn, commit in enumerate(line[group_start : group_start + SESSION_TURNS], 1):
            commit_turn = known.commit_turns.get(commit)
            if commit_turn is None:
                if known.taken.get((session_id, turn), commit) != commit:
                    key = f"{group_key}:{commit}"
                    session_id = names.session_id_of(AGENT, key)
                commit_turn = CommitTurn(key, session_id, turn)
            elif commit_turn.turn == turn:
                key, session_id = commit_turn.key, commit_turn.session_id
            commit_turns.append(commit_turn)
    return commit_turns


# -- ids --------------------------------------------------------------------------------------------


def master_id(repo: str) -> str:
    """The same for every writer, so that the master counts once (I8)."""
    return names.event_id_of("locus", "sessions", repo)


def event_id(repo: str, owner: str, part: str) -> str:
    """The id of one event of a commit's turn, or of a session. Args: owner: the commit, or the session's
    key."""
    return names.event_id_of(AGENT, repo, owner, part)


def turn_start_id(repo: str, commit: str, again: bool) -> str:
    return event_id(repo, commit, _part("turn-start", again))


def turn_end_id(repo: str, commit: str, again: bool) -> str:
    return event_id(repo, commit, _part("turn-end", again))


def snapshot_end_id(repo: str, commit: str, again: bool) -> str:
    return event_id(repo, commit, _part("snapshot-end", again))


def replaced_id(repo: str, commit: str) -> str:
    return event_id(repo, commit, "replaced")


def _part(name: str, again: bool) -> str:
    return _AGAIN + name if again else name


def session_start_id(repo: str, key: str) -> str:
    return event_id(repo, key, "session-start")


def session_link_id(repo: str, key: str) -> str:
    return event_id(repo, key, "session-extends")


def session_end_id(repo: str, key: str) -> str:
    return event_id(repo, key, "session-end")


def facts_of(snapshot: Event, commit: str) -> TreeFacts:
    """The facts in a stored snapshot event."""
    payload = _payload_of(snapshot)
    return TreeFacts(str(snapshot["tree_hash"]), payload["tracked_files"], commit, payload["git_tree"])


# -- events -----------------------------------------------------------------------------------------


def master(repo: str, project_name: str) -> Event:
    """The sessions master, as the recorder makes it (S1-17)."""
    return lifecycle.sessions_master(repo, project_name, agent="locus", event_id=master_id(repo))


def _columns(commit_turn: CommitTurn, commit: Commit) -> dict[str, Any]:
    """What events of a session say of the commit that they are about."""
    return {
        "agent": AGENT,
        "agent_session_id": commit_turn.key,
        "commit": commit.id,
        "occurred_at": time_us(commit.committer),
    }


def session_start(repo: str, commit_turn: CommitTurn, first: Commit) -> Event:
    """A session begins."""
    return lifecycle.session_start(
        commit_turn.session_id,
        _slug(commit_turn, first),
        first.subject,
        repo,
        event_id=session_start_id(repo, commit_turn.key),
        **_columns(commit_turn, first),
    )


def session_link(
    repo: str, commit_turn: CommitTurn, first: Commit, previous: tuple[CommitTurn, Commit]
) -> Event:
    """A session extends the one of the commit before its first.

    This is a separate event, since an import with a limit may add the earlier session later.
    """
    return {
        "event_type": "session",
        "operation": "update",
        "event_id": session_link_id(repo, commit_turn.key),
        "session_id": commit_turn.session_id,
        "context_id": names.session_context(_slug(commit_turn, first), commit_turn.session_id),
        "extends": [names.session_context(_slug(*previous), previous[0].session_id)],
        **_columns(commit_turn, first),
        "repo": repo,
        "payload": {},
    }


def session_end(repo: str, commit_turn: CommitTurn, first: Commit, last: Commit, turn_count: int) -> Event:
    """A session ends because its group of commits is full."""
    return lifecycle.session_end(
        commit_turn.session_id,
        _slug(commit_turn, first),
        repo,
        summary=f"{turn_count} commits, from “{first.subject}” to “{last.subject}”",
        turn_count=turn_count,
        end_reason="rollover",
        event_id=session_end_id(repo, commit_turn.key),
        **_columns(commit_turn, last),
    )


def ref_update(
    repo: str, ref: str, head: str, previous: tuple[str, str], count: int | None, oldest: str | None
) -> Event:
    """An import saw a new line of commits: a ref (empty: none) that leads to this head.

    Args: previous: id and head of the ref's event before, both empty for none; count: commits of the line;
    oldest: where a shallow clone cuts it, its oldest commit, and no count.
    """
    payload = {"before": previous[1] or None, "commits": count, "oldest": oldest}
    return {
        "event_type": "ref",
        "event_kind": "fact",
        "source": "system",
        "operation": "update",
        "event_id": event_id(repo, head, f"ref:{ref}:{previous[0]}"),
        "agent": AGENT,
        "repo": repo,
        "branch": ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None,
        "commit": head,
        "title": ref or None,
        "payload": {name: value for name, value in payload.items() if value is not None},
    }


def mark(repo: str, commit_turn: CommitTurn, commit: str, rewritten: bool, count: int) -> Event:
    """No line reaches a commit any more, or one does again. Args: count: of such events that it has."""
    update = _turn_update(repo, commit_turn, commit, event_id(repo, commit, f"line:{count}"))
    return {**update, "status": REWRITTEN if rewritten else COMPLETED}


def replaced(repo: str, commit_turn: CommitTurn, commit: str) -> Event:
    """The turn of a commit that was recorded without its parent gives way to one with it."""
    return {**_turn_update(repo, commit_turn, commit, replaced_id(repo, commit)), "status": REWRITTEN}


def line_index_update(repo: str, commit_turn: CommitTurn, commit: str, line_index: int) -> Event:
    """The index of a commit on its line, which the events of its turn lack."""
    update = _turn_update(repo, commit_turn, commit, event_id(repo, commit, "line-place"))
    return {**update, "payload": {"line_place": line_index}}


def _turn_update(repo: str, commit_turn: CommitTurn, commit: str, update_id: str) -> Event:
    return {
        "event_type": "turn",
        "operation": "update",
        "event_id": update_id,
        "session_id": commit_turn.session_id,
        "turn": commit_turn.turn,
        "agent": AGENT,
        "agent_session_id": commit_turn.key,
        "agent_turn_id": commit,
        "repo": repo,
        "commit": commit,
        "payload": {},
    }


def turn_events(
    repo: str,
    commit_turn: CommitTurn,
    commit: Commit,
    step: CommitStep | None,
    message_hash: str | None,
    line_index: int | None,
    again: bool,
) -> Iterator[Event]:
    """All events of a commit's turn, in order (S1-23, S1-24, S1-29, S1-31, S1-37, S1-47).

    Without a step only those that do not concern its files; a later import adds the others.

    Args: message_hash: the blob of the whole message, when it is too long for an event; line_index: how many
    commits come before it on its line, None where that is not known; again: whether it was recorded before
    without its parent.
    """
    session_id, turn = commit_turn.session_id, commit_turn.turn
    columns = {**_columns(commit_turn, commit), "agent_turn_id": commit.id, "repo": repo}

    def about(part: str) -> dict[str, Any]:
        return {**columns, "event_id": event_id(repo, commit.id, _part(part, again))}

    message = commit.message[:MESSAGE_SIZE_MAX]
    start = lifecycle.turn_start(session_id, turn, message, title=commit.subject, **about("turn-start"))
    if line_index is not None:
        start["payload"] = {**_payload_of(start), "line_place": line_index}
    yield start
    if step is not None:
        yield _snapshot(commit_turn, lifecycle.TURN_START, step.before, None, about("snapshot-start"))
    yield lifecycle.intent(
        session_id,
        turn,
        message,
        payload=_authorship(commit, message_hash),
        blobs=None if message_hash is None else [message_hash],
        **about("intent"),
    )
    if step is None:
        return
    changes = step.changes
    for change in changes:
        path = path_text(change.path)
        yield _file(commit_turn, path, change, about(f"file:{path}"))
    yield _snapshot(commit_turn, lifecycle.TURN_END, step.after, len(changes), about("snapshot-end"))
    paths = sorted({path_text(path) for c in changes for path in (c.path, c.old_path) if path is not None})
    yield lifecycle.turn_end(
        session_id,
        turn,
        commit.subject,
        user_request=commit.subject,
        outcome=_outcome(changes),
        files_modified=paths if sum(map(len, paths)) <= _PATHS_SIZE_MAX else (),
        **about("turn-end"),
    )


def time_us(identity: CommitIdentity) -> int | None:
    """Microseconds since 1970, None for a time that no calendar here can show (P7)."""
    if identity.time_s is None or not _TIME_MIN_S <= identity.time_s <= _TIME_MAX_S:
        return None
    return identity.time_s * 1_000_000


def _slug(commit_turn: CommitTurn, first: Commit) -> str:
    return names.slugify(first.subject, commit_turn.session_id)


def _snapshot(
    commit_turn: CommitTurn, kind: str, facts: TreeFacts, files_changed: int | None, columns: dict[str, Any]
) -> Event:
    event = lifecycle.snapshot(
        commit_turn.session_id,
        commit_turn.turn,
        kind,
        facts.tree_hash,
        git_head=facts.commit,
        tracked_files=facts.tracked_files,
        files_changed=files_changed,
        **columns,
    )
    _payload_of(event)["git_tree"] = facts.git_tree
    _add_list(event, facts.deferred)
    return event


def _add_list(event: Event, list_hash: str | None) -> None:
    """Add to an event the list of contents that are known only by git's id."""
    if list_hash is not None:
        blobs = event.get("blobs")
        event["blobs"] = [*(blobs if isinstance(blobs, list) else ()), list_hash]
        _payload_of(event)["deferred"] = list_hash


def _payload_of(event: Event) -> dict[str, Any]:
    payload = event["payload"]
    assert isinstance(payload, dict)
    return payload


def _file(commit_turn: CommitTurn, path: str, change: FileChange, columns: dict[str, Any]) -> Event:
    payload = {
        "old_path": None if change.old_path is None else path_text(change.old_path),
        "before_mode": _mode(change.before_mode),
        "after_mode": _mode(change.after_mode),
        "after_size": change.after_size,
        "skipped": change.skipped,
    }
    event = lifecycle.file(
        commit_turn.session_id,
        commit_turn.turn,
        path,
        change.operation,
        before_hash=change.before_hash,
        after_hash=change.after_hash,
        lines_added=change.lines_added,
        lines_removed=change.lines_removed,
        payload=payload,
        **columns,
    )
    _add_list(event, change.deferred)
    return event


def _mode(mode: int) -> str | None:
    return f"{mode:06o}" if mode else None


def _authorship(commit: Commit, message_hash: str | None) -> dict[str, Any]:
    """Author and committer, as the commit has them; other facts only where they are unusual."""
    return {
        "author": _person(commit.author),
        "committer": _person(commit.committer),
        "parents": list(commit.parents) if len(commit.parents) > 1 else None,
        "encoding": commit.encoding,
        "message_hash": message_hash,
    }


def _person(identity: CommitIdentity) -> dict[str, str | None]:
    return {"name": identity.name, "email": identity.email, "time": _iso(identity)}


def _iso(identity: CommitIdentity) -> str | None:
    """The time with its own offset (ISO 8601); in UTC where the offset is invalid."""
    if time_us(identity) is None:
        return None
    assert identity.time_s is not None
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=identity.time_s)
    try:
        sign = -1 if identity.zone.startswith("-") else 1
        digits = identity.zone.lstrip("+-")
        offset = sign * timedelta(hours=int(digits[:-2]), minutes=int(digits[-2:]))
        return time.astimezone(timezone(offset)).isoformat()
    except (ValueError, OverflowError):
        return time.isoformat()


def _outcome(changes: Sequence[FileChange]) -> str:
    if not changes:
        return "no files changed"
    added = sum(change.lines_added or 0 for change in changes)
    removed = sum(change.lines_removed or 0 for change in changes)
    files = "1 file changed" if len(changes) == 1 else f"{len(changes)} files changed"
    lines = "line" if added == 1 else "lines"
    return f"{files}, {added} {lines} added, {removed} removed"
