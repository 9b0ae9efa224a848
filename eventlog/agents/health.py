"""Does recording work here, and what is in the way? Asks everything there is to ask, and changes nothing.

Each check gives findings: *ok*, a *note* (worth knowing), a *problem* (something is not recorded, or may be
lost) with what to do next. A check that fails is itself a finding, so one broken thing never hides another.

The only programs started are hook lines that are word for word what this installation writes (a project's
settings may come from anybody), each against a store of its own that is thrown away.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from eventlog import __version__, identity, place
from eventlog.agents import install, launch
from eventlog.agents.install import CODEX, Homes, Registered
from eventlog.errors import EventLogError
from eventlog.fs import REAL, read_file
from eventlog.layout import TMP_DIR
from eventlog.recorder import failures
from eventlog.recorder.completeness import completeness, skipped_in
from eventlog.store import Store

OK, NOTE, PROBLEM = "ok", "note", "problem"

_LAUNCH_TIMEOUT_S = 10
_PROBE = b'{"hook_event_name":"LocusDoctor","session_id":"locus-doctor"}'
# A log may hold millions of events; how hooks fare is seen in the last of them.
_RECENT_EVENTS = 100_000
_DISK_LOW_BYTES, _DISK_OUT_BYTES = 1 << 30, 100 << 20
_STALE_S = 24 * 3600
_FRESH_S = 24 * 3600
_CLOCK_SLACK_US = 60_000_000
_SLOW_US = 400_000
_ERRORS_SHOWN = 3
_SHOWN = 5

_HOOKED = "(event_type = 'hook' or json_extract_string(payload, '$.hook_us') is not null)"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out. `about` is a word for machines; `todo` is what to do next, if anything."""

    level: str
    about: str
    what: str
    todo: str | None = None


def examine(
    store_root: str | None, directory: str, environ: Mapping[str, str], commands: str
) -> list[Finding]:
    """All findings, in the order in which a person should read them.

    Args: store_root: the store that was named, None to look for it from `directory`, the project;
    commands: the directory of the package `locus_cli`.
    """
    homes = Homes.of(environ)
    found = list(_guarded("versions", lambda: _versions(commands)))
    root, findings = _find_store(store_root, directory, environ)
    found += findings
    store = None
    if root is not None:
        try:
            store = Store.open(root)
        except EventLogError as error:
            found.append(Finding(PROBLEM, "store", str(error)))
    found += _guarded("hooks", lambda: _hooks(directory, homes, environ, store))
    if store is not None:
        opened = store
        with opened:
            for about, check in _STORE_CHECKS:
                found += _guarded(about, lambda check=check: check(opened))  # type: ignore[misc]
    return found


def _guarded(about: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except (EventLogError, OSError) as error:
        yield Finding(PROBLEM, about, str(error))


# -- surroundings ------------------------------------------------------------------------------


def _versions(commands: str) -> Iterator[Finding]:
    from importlib.metadata import version

    libraries = ", ".join(f"{name} {version(name)}" for name in ("duckdb", "pyarrow", "blake3"))
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding(OK, "versions", f"Locus {__version__} on Python {python} ({sys.executable}); {libraries}")
    old = launch.uncompiled(commands)
    if old:
        yield Finding(
            NOTE,
            "compiled",
            f"{len(old)} modules of the hook are not compiled, so every call compiles them: {old[0]}",
            "`locus hooks install` compiles them",
        )


def _find_store(
    given: str | None, directory: str, environ: Mapping[str, str]
) -> tuple[str | None, list[Finding]]:
    try:
        root = os.path.abspath(given) if given else identity.find(directory, dict(environ))
    except EventLogError as error:
        return None, [Finding(PROBLEM, "store", str(error))]
    if root is None:
        what = f"no store in {directory} or above it, so hooks record nothing"
        return None, [Finding(PROBLEM, "store", what, "`locus init` makes one")]
    return root, []


# -- hooks -------------------------------------------------------------------------------------


def _hooks(
    directory: str, homes: Homes, environ: Mapping[str, str], store: Store | None
) -> Iterator[Finding]:
    here = install.agents_here(directory, homes, environ.get("PATH"))
    last = _last_calls(store) if store is not None else {}
    for agent in install.AGENTS:
        places: dict[str, str] = {}
        for level in install.LEVELS:
            places.setdefault(install.settings_path(agent, level, directory, homes), level)
        files = [install.look(REAL, agent, level, path) for path, level in places.items()]
        registered = [one for one in files if one.events]
        for one in files:
            yield from _of_file(one)
        if registered:
            for line in dict.fromkeys(line for one in registered for line in one.lines):
                yield from _starts(agent, line, environ, homes)
            yield from _firing(agent, last, store)
            if agent == CODEX:
                yield from _codex_switches(homes, registered)
        elif agent in here and not any(one.problem for one in files):
            todo = f"`locus hooks install --agent {agent}`"
            yield Finding(NOTE, agent, f"{agent} is here, but its hooks are not installed", todo)


def _of_file(one: Registered) -> Iterator[Finding]:
    again = f"`locus hooks install --agent {one.agent} --{one.level}` brings them up to date"
    if one.problem is not None:
        todo = "correct the file; the agent may pass over all of it"
        yield Finding(PROBLEM, one.agent, one.problem, todo)
    elif one.missing:
        what = f"{one.path} has our hooks, but not for {', '.join(one.missing)}"
        yield Finding(PROBLEM, one.agent, what, again)
    elif one.events:
        yield Finding(OK, one.agent, f"{len(one.events)} hooks in {one.path} ({one.level})")
    if one.disabled:
        what = f"{one.path} sets disableAllHooks, so no hook runs"
        yield Finding(PROBLEM, one.agent, what, "remove that setting")


def _starts(agent: str, line: str, environ: Mapping[str, str], homes: Homes) -> Iterator[Finding]:
    """Whether a launch line records what it is given."""
    named = launch.named_in(line, agent)
    gone = [path for path in named or () if not os.access(path, os.R_OK)]
    todo = "`locus hooks install` makes them name this installation"
    if gone:
        yield Finding(PROBLEM, agent, f"its hooks do nothing: {gone[0]} is gone", todo)
        return
    stub = f"{launch.stub_directory(homes.data)}/{launch.STUB}"
    ours = named is not None and named[1] == stub and os.path.dirname(named[0]) == _directory_of_python()
    if not ours and line != launch.portable_line(agent):
        yield Finding(NOTE, agent, f"its hooks name another installation, which was not tried: {line}", todo)
        return
    if named is None and shutil.which(launch.PROGRAM, path=environ.get("PATH")) is None:
        what = f"its hooks start {launch.PROGRAM}, which is not on your PATH, so they do nothing"
        yield Finding(PROBLEM, agent, what, f"put {os.path.dirname(sys.executable)} on the PATH")
        return
    took_ms = _try(line, environ)
    if took_ms is None:
        yield Finding(PROBLEM, agent, f"its hooks were tried and recorded nothing: {line}", todo)
    else:
        yield Finding(OK, agent, f"its hooks were tried and record ({took_ms:.0f} ms)")


def _directory_of_python() -> str:
    return os.path.dirname(sys.executable)


def _try(line: str, environ: Mapping[str, str]) -> float | None:
    """Run a launch line on a store that is thrown away; milliseconds, or None when nothing was recorded."""
    with tempfile.TemporaryDirectory(prefix="locus-doctor-") as directory:
        root = f"{directory}/.locus"
        Store.init(root, project_name="doctor", repo_hash="0" * 12).close()
        started = REAL.monotonic()
        try:
            subprocess.run(
                ["/bin/sh", "-c", line],
                input=_PROBE,
                cwd=directory,
                env={**environ, "LOCUS_DIR": root},
                capture_output=True,
                timeout=_LAUNCH_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        took_ms = (REAL.monotonic() - started) * 1000
        with Store.open(root) as store:
            return took_ms if next(iter(store.events()), None) is not None else None


def _last_calls(store: Store) -> dict[str, int]:
    """When each agent's hooks were last heard of, in microseconds since 1970."""
    try:
        rows = store.query(
            f"select agent, epoch_us(max(recorded_at)) from events where position >= $1 and {_HOOKED} "
            "and agent is not null group by agent",
            [_recent(store)],
        ).rows
    except EventLogError:
        return {}  # the check of the log says why
    return {agent: at for agent, at in rows if at is not None}


def _recent(store: Store) -> int:
    with store.view() as view:
        return max(0, view.next_position - _RECENT_EVENTS)


def _firing(agent: str, last: Mapping[str, int], store: Store | None) -> Iterator[Finding]:
    if store is None:
        return
    if agent not in last:
        todo = "start the agent anew in this directory" + (
            "; trust the hooks (/hooks)" if agent == CODEX else ""
        )
        yield Finding(NOTE, agent, "its hooks have recorded nothing here yet", todo)
        return
    age_s = max(0, REAL.time_ns() // 1000 - last[agent]) / 1_000_000
    yield Finding(OK, agent, f"last heard of {_age(age_s)} ago")


def _codex_switches(homes: Homes, registered: Iterable[Registered]) -> Iterator[Finding]:
    path = f"{homes.codex}/config.toml"
    try:
        fields = tomllib.loads(read_file(REAL, path, 8 << 20).decode())
    except FileNotFoundError:
        fields = {}
    except (OSError, ValueError) as error:
        yield Finding(
            NOTE, CODEX, f"{path} cannot be read ({error}), so it is not known whether hooks are on"
        )
        return
    features, hooks = fields.get("features"), fields.get("hooks")
    if isinstance(features, dict) and features.get("hooks") is False:
        yield Finding(PROBLEM, CODEX, f"{path} turns hooks off", "remove `hooks = false` from [features]")
    known = str(hooks.get("state")) if isinstance(hooks, dict) else ""
    for one in registered:
        if os.path.realpath(one.path) not in known and one.path not in known:
            what = (
                f"Codex has not noted that you trust {one.path}; untrusted hooks are left out without a word"
            )
            yield Finding(NOTE, CODEX, what, "start `codex` here, give the command /hooks, and trust them")


# -- the store ---------------------------------------------------------------------------------


def _is_readable(store: Store) -> Iterator[Finding]:
    status = store.status()
    yield Finding(
        OK,
        "store",
        f"{status.root}: {status.events:,} events, {status.turns:,} turns, {status.sessions:,} sessions",
    )
    if not os.access(store.layout.root, os.W_OK):
        what = f"{store.layout.root} cannot be written to, so nothing is recorded"
        yield Finding(PROBLEM, "store", what, "restore the permission")


def _damage(store: Store) -> Iterator[Finding]:
    findings = [finding for finding in store.verify("quick") if finding.damage]
    for finding in findings[:_SHOWN]:
        todo = "`locus store verify --read` gives the full picture"
        yield Finding(PROBLEM, "damage", str(finding), todo)
    if not findings:
        yield Finding(OK, "damage", "none at a quick look; `locus store verify --read` checks every byte")


def _restores(store: Store) -> Iterator[Finding]:
    from eventlog.replay import restore_journal

    if restore_journal.unfinished(store.fs, store.layout):
        todo = "`locus restore --recover` finishes it, `--recover --undo` takes it back"
        yield Finding(PROBLEM, "restore", "a restore was begun and never ended", todo)


def _disk(store: Store) -> Iterator[Finding]:
    found = os.statvfs(store.layout.root)
    free = found.f_bavail * found.f_frsize
    what = f"{free / 1e9:.1f} GB free; the store takes {_size_of(store) / 1e6:.1f} MB"
    if free < _DISK_LOW_BYTES:
        yield Finding(PROBLEM if free < _DISK_OUT_BYTES else NOTE, "disk", what, "free space on the disk")
    else:
        yield Finding(OK, "disk", what)
    kind = place.file_system_of(store.layout.root)
    if kind in place.SHARED_FILE_SYSTEMS:
        meant = identity.ON_SHARED in store.identity.optional
        what = f"the store is on {kind}, which other machines may write; locks hold within one machine only"
        yield Finding(NOTE if meant else PROBLEM, "file system", what, "move the store to a local disk")
    else:
        yield Finding(OK, "file system", kind or "its kind is not known")


def _size_of(store: Store) -> int:
    size = 0
    for directory, _, names in os.walk(store.layout.root):
        for name in names:
            try:
                size += os.lstat(os.path.join(directory, name)).st_size
            except FileNotFoundError:
                continue  # removed by maintenance meanwhile
    return size


def _clock(store: Store) -> Iterator[Finding]:
    (last, back) = store.query(
        "select epoch_us(max(recorded_at)), count(*) filter (where back > interval '1 minute') from "
        "(select recorded_at, lag(recorded_at) over (order by position) - recorded_at as back "
        "from events where position >= $1)",
        [_recent(store)],
    ).rows[0]
    if last is not None and last > REAL.time_ns() // 1000 + _CLOCK_SLACK_US:
        what = "the last events were recorded in the future: the clock was ahead, or is behind"
        yield Finding(NOTE, "clock", what, "set the clock; order in the log does not rest on it")
    if back:
        what = (
            f"the clock went back {back:,} times between two events; times are as they were, order is right"
        )
        yield Finding(NOTE, "clock", what)


def _durations(store: Store) -> Iterator[Finding]:
    rows = store.query(
        "select agent, count(*), quantile_cont(us, 0.5), quantile_cont(us, 0.95), quantile_cont(us, 0.99) "
        "from (select distinct agent, agent_session_id, "
        "try_cast(json_extract_string(payload, '$.hook_us') as bigint) as us "
        "from events where position >= $1) where us is not null group by agent order by agent",
        [_recent(store)],
    ).rows
    for agent, number, *quantiles in rows:
        p50, p95, p99 = (f"{us / 1000:.0f}" for us in quantiles)
        what = f"{agent}: {number:,} hook calls took {p50} ms (median), {p95} ms (p95), {p99} ms (p99)"
        slow = quantiles[0] > _SLOW_US
        todo = "large trees make captures slow: keep generated files in .gitignore" if slow else None
        yield Finding(NOTE if slow else OK, "durations", what, todo)


def _captures(store: Store) -> Iterator[Finding]:
    rows = store.query(
        "select json_extract_string(payload, '$.capture.state') as state, count(*) from events "
        "where position >= $1 and json_extract_string(payload, '$.capture.state') is not null "
        "group by state order by state",
        [_recent(store)],
    ).rows
    for state, number in rows:
        if state != "baseline":
            what = f"{number:,} captures of the directory were left to the next one ({state})"
            yield Finding(NOTE, "captures", what, "nothing, unless there are many: changes are told later")


def _errors(store: Store) -> Iterator[Finding]:
    path = f"{store.layout.directory(TMP_DIR)}/{failures.NAME}"
    try:
        data = read_file(store.fs, path, 1 << 20)
    except FileNotFoundError:
        yield Finding(OK, "errors", "no hook has failed")
        return
    except ValueError as error:
        yield Finding(NOTE, "errors", str(error), f"rm {path}")
        return
    lines = data.decode("utf-8", "replace").splitlines()
    if not lines:
        return
    now_s = REAL.time_ns() / 1e9
    noted = [_noted(line, now_s) for line in lines]
    fresh = any(age_s is None or age_s < _FRESH_S for age_s, _ in noted)
    what = f"{len(lines):,} hook calls failed, and may have left something out; the last ones follow"
    todo = f"see {path}; remove it when the cause is gone"
    yield Finding(PROBLEM if fresh else NOTE, "errors", what, todo)
    for age_s, said in noted[-_ERRORS_SHOWN:]:
        yield Finding(NOTE, "errors", said if age_s is None else f"{_age(age_s)} ago: {said}")


def _noted(line: str, now_s: float) -> tuple[float | None, str]:
    """A line about a failure: its age in seconds, None when it has no time, and what it says."""
    at, _, said = line.partition(" ")
    return (max(0.0, now_s - int(at)), said) if at.isascii() and at.isdigit() else (None, line)


def _sessions(store: Store) -> Iterator[Finding]:
    rows = store.query(
        "select s.session_id, epoch_us(e.recorded_at) from sessions s "
        "join events e on e.position = s.last_position "
        "where s.status = 'active' and s.agent in ('claude-code', 'codex') order by s.last_position desc"
    ).rows
    before = REAL.time_ns() // 1000 - _STALE_S * 1_000_000
    stale = [id for id, at in rows if at is not None and at < before]
    if stale:
        some = ", ".join(stale[:_SHOWN]) + (", …" if len(stale) > _SHOWN else "")
        what = f"{len(stale):,} sessions have no end, and nothing happened in them for a day: {some}"
        yield Finding(
            NOTE, "sessions", what, "their agent was killed; `locus session end SESSION` closes one"
        )


def _completeness(store: Store) -> Iterator[Finding]:
    rows = store.query(
        f"select session_id from events where position >= $1 and {_HOOKED} and session_id is not null "
        "order by position desc limit 1",
        [_recent(store)],
    ).rows
    for (session_id,) in rows:
        said = completeness(store, session_id)
        whole = said.tool_calls == said.captured or not said.ended
        todo = None if whole else f"`locus session show {session_id}` names what is missing"
        yield Finding(OK if whole else NOTE, "completeness", f"last session, {session_id}: {said}", todo)


def _skipped(store: Store) -> Iterator[Finding]:
    rows = store.query(
        "select tree_hash from snapshots where tree_hash is not null and agent <> 'git' "
        "order by position desc limit 1"
    ).rows
    for (tree_hash,) in rows:
        skipped = skipped_in(store, tree_hash)
        if skipped is None:
            yield Finding(PROBLEM, "skipped", f"the last snapshot {tree_hash[:20]} cannot be read",
                          "`locus store verify --read`")  # fmt: skip
        for one in (skipped or ())[:_SHOWN]:
            yield Finding(NOTE, "skipped", f"not captured: {one.path}: {one.reason}")
        if skipped and len(skipped) > _SHOWN:
            yield Finding(NOTE, "skipped", f"and {len(skipped) - _SHOWN:,} more paths are not captured")


_STORE_CHECKS: tuple[tuple[str, Callable[[Store], Iterable[Finding]]], ...] = (
    ("store", _is_readable),
    ("damage", _damage),
    ("restore", _restores),
    ("disk", _disk),
    ("errors", _errors),
    ("durations", _durations),
    ("captures", _captures),
    ("completeness", _completeness),
    ("skipped", _skipped),
    ("sessions", _sessions),
    ("clock", _clock),
)


def _age(seconds: float) -> str:
    for limit, unit, size in ((90, "s", 1), (5400, "min", 60), (129_600, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} days"
