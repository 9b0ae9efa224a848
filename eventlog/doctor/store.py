"""Is the store of this project sound, and what do its events say about the hooks? Reads only.

Each check takes an open store and gives findings; `agents.py` runs them beside those of the agents.
"""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from eventlog import agents
from eventlog.base import config, identity, store_location
from eventlog.base.fs import REAL, opened, read_file
from eventlog.base.layout import LOCK_DIR, TMP_DIR
from eventlog.base.locks import APPEND, WORKTREE
from eventlog.blobs import deferred
from eventlog.doctor.completeness import skipped_in
from eventlog.log import checked
from eventlog.memory.briefing_hook import lacks_facts
from eventlog.recorder import failures
from eventlog.secrets import erased_rules
from eventlog.store import Store

OK, NOTE, PROBLEM = "ok", "note", "problem"

# A log may hold millions of events; how hooks fare is seen in the last of them.
_RECENT_EVENTS = 100_000
_DISK_LOW_BYTES, _DISK_OUT_BYTES = 1 << 30, 100 << 20
_LOCK_PATIENCE_S = 1.0
_STALE_S = 24 * 3600
_FRESH_S = 24 * 3600
_CLOCK_SLACK_US = 60_000_000
_ERRORS_SHOWN = 3
_SHOWN = 5
_KEEP_OUT = "keep generated files in .gitignore, or set `max_file_bytes` in `.locus/config.toml`"

HOOKED = "(event_type = 'hook' or json_extract_string(payload, '$.hook_us') is not null)"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """What was found out. `about` is a word for machines; `todo` is what to do next, if anything."""

    level: str
    about: str
    what: str
    todo: str | None = None


def recent(store: Store) -> int:
    """The position from which on events are recent."""
    with store.view() as view:
        return max(0, view.next_position - _RECENT_EVENTS)


def _is_readable(store: Store) -> Iterator[DoctorFinding]:
    status = store.status()
    yield DoctorFinding(
        OK,
        "store",
        f"{status.root}: {counted(status.events, 'event')}, {counted(status.turns, 'turn')}, "
        f"{counted(status.sessions, 'session')}",
    )
    if not os.access(store.layout.root, os.W_OK):
        what = f"{store.layout.root} cannot be written to, so nothing is recorded"
        yield DoctorFinding(PROBLEM, "store", what, f"`chmod u+w {shlex.quote(store.layout.root)}`")


def _locks(store: Store) -> Iterator[DoctorFinding]:
    """Whether one process keeps a lock that hooks need. Asked for as readers do, and given back at once."""
    for name in sorted(os.listdir(store.layout.directory(LOCK_DIR))):
        of_log = name.startswith(f"{APPEND}.")
        path = f"{store.layout.directory(LOCK_DIR)}/{name}"
        if (of_log or name.startswith(WORKTREE)) and (holder := _keeper(path)) is not None:
            meanwhile = "nothing is recorded" if of_log else "no change of files is recorded"
            what = f"{path} is held by {holder} since {_LOCK_PATIENCE_S:g} s or longer; {meanwhile} meanwhile"
            yield DoctorFinding(
                PROBLEM if of_log else NOTE, "locks", what, "see what that process does, or end it"
            )


def _keeper(path: str) -> str | None:
    """Who holds a lock during the whole check; None for hooks that follow one another."""
    until = REAL.monotonic() + _LOCK_PATIENCE_S
    first = _holder(path)
    while _is_held(path) and _holder(path) == first:
        if REAL.monotonic() > until:
            return first
        REAL.sleep(0.02)
    return None


def _is_held(path: str) -> bool:
    with opened(REAL, path) as fd:
        return not REAL.flock(fd, exclusive=False)


def _holder(path: str) -> str:
    """The process that holds a lock, as far as the kernel knows."""
    inode = os.stat(path).st_ino
    try:
        with open("/proc/locks", encoding="ascii") as file:
            # 1: FLOCK  ADVISORY  WRITE 4242 fe:00:1234 0 EOF
            processes = [words[4] for words in map(str.split, file)
                     if words[1] == "FLOCK" and words[5].endswith(f":{inode}")]  # fmt: skip
    except (OSError, IndexError):
        processes = []
    return f"process {processes[0]}" if processes else "another process"


def _damage(store: Store) -> Iterator[DoctorFinding]:
    findings = [finding for finding in store.verify("quick") if finding.damage]
    for finding in findings[:_SHOWN]:
        todo = "`locus store verify --read` gives the full picture"
        yield DoctorFinding(PROBLEM, "damage", str(finding), todo)
    with store.view() as view:
        ages = checked.ages(store.fs, store.layout, view.manifest.segments)
    for name in ages.damaged[:_SHOWN]:
        what = f"{store.layout.segment(name)}: its bytes are not those the manifest lists"
        yield DoctorFinding(PROBLEM, "damage", what, "`locus store repair` says what can be done")
    if not findings and not ages.damaged:
        what = f"none at a quick check ({_checks(ages)}); `locus store verify --read` checks every byte"
        yield DoctorFinding(OK, "damage", what)


def _checks(ages: checked.Ages) -> str:
    """How old the checks of the log's segments are."""
    if not ages.checked and not ages.unchecked:
        return "no segment yet"
    waiting = f"{counted(ages.unchecked, 'segment')} to be compared with its hash when a question opens it"
    if ages.oldest_s is None:
        return waiting
    days = ages.oldest_s / 86_400
    age = f"{days:.1f} days" if days >= 1 else f"{ages.oldest_s / 3600:.1f} hours"
    done = f"{counted(ages.checked, 'segment')} compared with its hash at most {age} ago"
    return f"{done}, {waiting}" if ages.unchecked else done


def _restores(store: Store) -> Iterator[DoctorFinding]:
    from eventlog.restore import journal

    unfinished = journal.unfinished(store.fs, store.layout)
    if unfinished and not list(journal.findings(store.fs, store.layout, store.identity.store_id)):
        todo = "`locus restore --recover` finishes it, `--recover --undo` takes it back"
        yield DoctorFinding(PROBLEM, "restore", "a restore was begun and never ended", todo)


def _disk(store: Store) -> Iterator[DoctorFinding]:
    status = os.statvfs(store.layout.root)
    free = status.f_bavail * status.f_frsize
    what = f"{free / 1e9:.1f} GB free; the store takes {_size_of(store) / 1e6:.1f} MB"
    if free < _DISK_LOW_BYTES:
        yield DoctorFinding(
            PROBLEM if free < _DISK_OUT_BYTES else NOTE, "disk", what, "free space on the disk"
        )
    else:
        yield DoctorFinding(OK, "disk", what)
    kind = store_location.file_system_of(store.layout.root)
    if kind in store_location.SHARED_FILE_SYSTEMS:
        meant = identity.ON_SHARED in store.identity.optional
        what = f"the store is on {kind}, which other machines may write; locks hold within one machine only"
        yield DoctorFinding(NOTE if meant else PROBLEM, "file system", what, "move the store to a local disk")
    else:
        yield DoctorFinding(OK, "file system", kind or "its kind is not known")


def _size_of(store: Store) -> int:
    size = 0
    for directory, _, names in os.walk(store.layout.root):
        for name in names:
            try:
                size += os.lstat(os.path.join(directory, name)).st_size
            except FileNotFoundError:
                continue  # removed by maintenance meanwhile
    return size


def _clock(store: Store) -> Iterator[DoctorFinding]:
    (last, back) = store.query(
        "select epoch_us(max(recorded_at)), count(*) filter (where back > interval '1 minute') from "
        "(select recorded_at, lag(recorded_at) over (order by position) - recorded_at as back "
        "from events where position >= $1)",
        [recent(store)],
    ).rows[0]
    if last is not None and last > REAL.time_ns() // 1000 + _CLOCK_SLACK_US:
        what = "the last events were recorded in the future: the clock was ahead, or is behind"
        yield DoctorFinding(NOTE, "clock", what, "set the clock; order in the log does not rest on it")
    if back:
        times = counted(back, "time")
        what = f"the clock went back {times} between two events; times are as they were, order is right"
        yield DoctorFinding(NOTE, "clock", what)


def slow_rules(store: Store) -> str | None:
    """What to do about erased texts that take long to be looked for."""
    rules = erased_rules.read(store.fs, store.layout)
    if rules is None or not rules.has_older:
        return None
    return (
        "`.locus/erased` has rules of an older form, which take long in large files: give the texts that "
        "were erased to `locus store erase --secret - --yes` again"
    )


def _not_looked_through(store: Store) -> Iterator[DoctorFinding]:
    ((number,),) = store.query(
        "select count(*) from events where position >= $1 and event_type = 'withheld' "
        "and json_extract_string(payload, '$.kinds[0]') = 'not_looked_through'",
        [recent(store)],
    ).rows
    if number:
        contents = counted(number, "content")
        what = f"{contents} withheld because hooks had no time to look through for erased texts"
        yield DoctorFinding(
            NOTE, "withheld", what, slow_rules(store) or f"if they need no record: {_KEEP_OUT}"
        )


def _errors(store: Store) -> Iterator[DoctorFinding]:
    path = f"{store.layout.directory(TMP_DIR)}/{failures.NAME}"
    try:
        data = read_file(store.fs, path, 1 << 20)
    except FileNotFoundError:
        yield DoctorFinding(OK, "errors", "no hook has failed")
        return
    except ValueError as error:
        yield DoctorFinding(NOTE, "errors", str(error), f"rm {path}")
        return
    lines = data.decode("utf-8", "replace").splitlines()
    if not lines:
        return
    now_s = REAL.time_ns() / 1e9
    noted = [_noted(line, now_s) for line in lines]
    fresh = any(age_s is None or age_s < _FRESH_S for age_s, _ in noted)
    what = f"{counted(len(lines), 'hook call')} failed, and may have left something out; the last ones follow"
    todo = f"when the cause is gone: rm {shlex.quote(path)}"
    yield DoctorFinding(PROBLEM if fresh else NOTE, "errors", what, todo)
    for age_s, message in noted[-_ERRORS_SHOWN:]:
        yield DoctorFinding(NOTE, "errors", message if age_s is None else f"{age(age_s)} ago: {message}")


def _noted(line: str, now_s: float) -> tuple[float | None, str]:
    """A line about a failure: its age in seconds, None when it has no time, and what it says."""
    at, _, message = line.partition(" ")
    return (max(0.0, now_s - int(at)), message) if at.isascii() and at.isdigit() else (None, line)


def _sessions(store: Store) -> Iterator[DoctorFinding]:
    rows = store.query(
        "select s.session_id, epoch_us(e.recorded_at) from sessions s "
        "join events e on e.position = s.last_position "
        "where s.status = 'active' and list_contains($1, s.agent) order by s.last_position desc",
        [[spec.name for spec in agents.installable()]],
    ).rows
    before = REAL.time_ns() // 1000 - _STALE_S * 1_000_000
    stale = [id for id, at in rows if at is not None and at < before]
    if stale:
        some = ", ".join(stale[:_SHOWN]) + (", …" if len(stale) > _SHOWN else "")
        what = f"{counted(len(stale), 'session')} without an end, in which nothing happened for a day: {some}"
        yield DoctorFinding(NOTE, "sessions", what, f"`locus session end {stale[0]}` closes one")


def _skipped(store: Store) -> Iterator[DoctorFinding]:
    rows = store.query(
        "select tree_hash from snapshots where tree_hash is not null and agent <> 'git' "
        "order by position desc limit 1"
    ).rows
    for (tree_hash,) in rows:
        skipped = skipped_in(store, tree_hash)
        if skipped:  # a content that is stored after its capture is no gap; the check of captures names it
            skipped = tuple(entry for entry in skipped if deferred.list_of(entry.reason.encode()) is None)
        if skipped is None:
            yield DoctorFinding(PROBLEM, "skipped", f"the last snapshot {tree_hash[:20]} cannot be read",
                          "`locus store verify --deep` says why")  # fmt: skip
        for entry in (skipped or ())[:_SHOWN]:
            yield DoctorFinding(NOTE, "skipped", f"not captured: {entry.path}: {entry.reason}")
        if skipped and len(skipped) > _SHOWN:
            yield DoctorFinding(NOTE, "skipped", f"and {len(skipped) - _SHOWN:,} more paths are not captured")


def _briefing(store: Store) -> Iterator[DoctorFinding]:
    if not config.read(store.fs, store.layout).briefing_at_start:
        return
    if lacks_facts(store.layout, store.identity):
        what = "sessions are to begin with a briefing, and what it is made of is not gathered yet"
        todo = "`locus briefing` gathers it; else the next session waits up to 2 s for that when it begins"
        yield DoctorFinding(NOTE, "briefing", what, todo)
    else:
        yield DoctorFinding(OK, "briefing", "a session begins with what is known here")


def _ignored(store: Store) -> Iterator[DoctorFinding]:
    """Whether ignored files are kept that nothing could rebuild, and how much of the rest was left out."""
    rows = store.query(
        "select try_cast(payload->>'ignored_count' as bigint) from events where event_type = 'snapshot' "
        "and tree_hash is not null and agent <> 'git' order by position desc limit 1"
    ).rows
    number = rows[0][0] if rows else None
    left = "" if number is None else f"; the last snapshot left out {number:,} ignored "
    left += "" if number is None else "entry" if number == 1 else "entries"
    keeps = config.keeps_ignored(store.fs, store.layout)
    if keeps is None:
        todo = "`locus init --keep-ignored` keeps them, `locus init --leave-ignored` leaves it at that"
        what = f"ignored files that nothing could rebuild, such as .env, are not kept{left}"
        yield DoctorFinding(NOTE, "ignored", what, todo)
    else:
        treatment = "kept, and withheld from all that leaves this machine" if keeps else "not kept, by choice"
        yield DoctorFinding(OK, "ignored", f"ignored files that nothing could rebuild are {treatment}{left}")


CHECKS: tuple[tuple[str, Callable[[Store], Iterable[DoctorFinding]]], ...] = (
    ("store", _is_readable),
    ("locks", _locks),
    ("damage", _damage),
    ("restore", _restores),
    ("disk", _disk),
    ("errors", _errors),
    ("withheld", _not_looked_through),
    ("skipped", _skipped),
    ("ignored", _ignored),
    ("sessions", _sessions),
    ("briefing", _briefing),
    ("clock", _clock),
)


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def age(seconds: float) -> str:
    """A span of time in one unit."""
    for limit, unit, size in ((90, "s", 1), (5400, "min", 60), (129_600, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} days"
