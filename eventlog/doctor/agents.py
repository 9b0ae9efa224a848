"""Does recording work here, and what prevents it? Checks everything, and changes nothing.

Each check gives findings: *ok*, a *note* (worth knowing), a *problem* (something is not recorded, or may be
lost) with what to do next. A check that fails is itself a finding, so one broken thing never hides another.

The only programs started are hook lines that are word for word what this installation writes (a project's
settings may come from anybody), each against a store of its own that is thrown away, and `watchman` for the
name of its socket (`watchers.py`).
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from eventlog import __version__, agents
from eventlog.agents.kit.checks import SIZE_MAX, HookFile, Surroundings
from eventlog.agents.kit.spec import AgentSpec
from eventlog.base import identity
from eventlog.base.errors import EventLogError
from eventlog.base.fs import REAL, read_file
from eventlog.base.layout import Layout
from eventlog.doctor import store as health_store
from eventlog.doctor import turns, watchers
from eventlog.doctor.store import HOOKED, NOTE, OK, PROBLEM, DoctorFinding, age, recent
from eventlog.setup import git_exclude, install, launch
from eventlog.setup.install import LOCAL, Homes, Registered
from eventlog.setup.settings import parse
from eventlog.store import Store

_LAUNCH_TIMEOUT_S = 10
_PROBE = b'{"hook_event_name":"LocusDoctor","session_id":"locus-doctor"}'


def examine(
    store_root: str | None,
    directory: str,
    environ: Mapping[str, str],
    commands: str,
    more: Iterable[tuple[str, Callable[[Store], Iterable[DoctorFinding]]]] = (),
) -> list[DoctorFinding]:
    """All findings, in the order in which a person should read them.

    Args: store_root: the store that was named, None to look for it from `directory`, the project;
    commands: the directory of the package `locus_cli`; more: further checks of the store.
    """
    homes = Homes.of(environ)
    results = list(_guarded("versions", lambda: _versions(commands)))
    root, findings = _find_store(store_root, directory, environ)
    results += findings
    store = None
    if root is not None:
        try:
            store = Store.open(root)
        except EventLogError as error:
            results.append(DoctorFinding(PROBLEM, "store", str(error)))
    results += _guarded("hooks", lambda: _hooks(directory, homes, environ, store))
    if store is not None:
        opened = store
        with opened:
            for about, check in (*health_store.CHECKS, *turns.CHECKS, *watchers.CHECKS, *more):
                results += _guarded(about, lambda check=check: check(opened))  # type: ignore[misc]
    # What several checks stumble over is one problem.
    return list(
        {(finding.level, finding.what, finding.todo): finding for finding in reversed(results)}.values()
    )[::-1]


def _guarded(about: str, check: Callable[[], Iterable[DoctorFinding]]) -> Iterator[DoctorFinding]:
    try:
        yield from check()
    except (EventLogError, OSError) as error:
        yield DoctorFinding(PROBLEM, about, str(error))


# -- surroundings ------------------------------------------------------------------------------


def _versions(commands: str) -> Iterator[DoctorFinding]:
    from importlib.metadata import version

    libraries = ", ".join(f"{name} {version(name)}" for name in ("duckdb", "pyarrow", "blake3"))
    python = ".".join(map(str, sys.version_info[:3]))
    yield DoctorFinding(
        OK, "versions", f"Locus {__version__} on Python {python} ({sys.executable}); {libraries}"
    )
    old = launch.uncompiled(commands)
    if old:
        yield DoctorFinding(
            NOTE,
            "compiled",
            f"{len(old)} modules of the hook are not compiled, so every call compiles them: {old[0]}",
            "`locus hooks install` compiles them",
        )


def _find_store(
    given: str | None, directory: str, environ: Mapping[str, str]
) -> tuple[str | None, list[DoctorFinding]]:
    try:
        root = os.path.abspath(given) if given else identity.find(directory, dict(environ))
    except EventLogError as error:
        return None, [DoctorFinding(PROBLEM, "store", str(error))]
    if root is not None and os.path.exists(Layout(root).store_file):
        return root, []
    named = "--store" if given else "LOCUS_DIR" if environ.get("LOCUS_DIR") else None
    rest = f"{directory}/{identity.STORE_DIRECTORY}"
    if root is not None and named:
        what = f"{named} names {root}, where no store is, so hooks record nothing"
        return None, [DoctorFinding(PROBLEM, "store", what, f"leave {named} away, or `locus init` there")]
    if os.path.isdir(f"{rest}/log"):
        what = f"{rest} has a log and no STORE file, without which nothing reads it and hooks record nothing"
        return None, [
            DoctorFinding(
                PROBLEM,
                "store",
                what,
                "`locus store repair` writes STORE again; or bring it back from a backup",
            )
        ]
    what = f"no store in {directory} or above it, so hooks record nothing"
    return None, [DoctorFinding(PROBLEM, "store", what, "`locus init` makes one")]


# -- hooks -------------------------------------------------------------------------------------


def _hooks(
    directory: str, homes: Homes, environ: Mapping[str, str], store: Store | None
) -> Iterator[DoctorFinding]:
    here = install.agents_here(directory, homes, environ.get("PATH"))
    last = _last_calls(store) if store is not None else None
    nothing = True  # no hook of ours, and none reported as missing
    for spec in agents.installable():
        agent = spec.name
        levels: dict[str, str] = {}
        for level in install.LEVELS:
            levels.setdefault(install.settings_path(agent, level, directory, homes), level)
        files = [install.registered_in(REAL, agent, level, path) for path, level in levels.items()]
        registered = [file for file in files if file.events]
        gone = [file for file in files if not file.events and install.was_installed(REAL, file.path, homes)]
        for file in gone:
            nothing = False
            yield _vanished(file, store, is_served=bool(registered))
        for file in files:
            for finding in (*_of_file(file), *_status_line(file, homes)):
                nothing = False
                yield finding
        if registered:
            yield from _doubled(agent, registered)
            started = [finding for line in _lines(registered) for finding in _starts(line, environ, homes)]
            records = any(finding.level == OK for finding in started)
            # What does nothing is worth knowing where other hooks of the agent do its work.
            for finding in started:
                yield replace(finding, level=NOTE) if records and finding.level == PROBLEM else finding
            if records:
                yield from _firing(agent, last)
            yield from _in_the_way_of_git(registered)
            yield from _own_check(spec, homes, directory, registered, (last or {}).get(agent))
        elif agent in here and not gone and not any(file.problem for file in files):
            nothing = False
            todo = f"`locus hooks install --agent {agent}`"
            what = f"{agent} is here, but its hooks are not installed"
            turn = None if store is None else _open_turn(store, agent)
            if turn is not None:  # by the plugin, or by hooks of which no receipt is left
                what += f"; hooks reported the turn {turn}, which has no end in the record"
            yield DoctorFinding(NOTE, agent, what, todo)
    if nothing:
        todo = "`locus hooks install --agent all` installs them; or name the agent that you use"
        yield DoctorFinding(NOTE, "hooks", "no hooks are installed; nothing is recorded by itself", todo)


def _of_file(file: Registered) -> Iterator[DoctorFinding]:
    again = f"`locus hooks install --agent {file.agent} --{file.level}` brings them up to date"
    if file.problem is not None:
        todo = f"correct the file, which the agent may pass over as a whole; then {again}"
        yield DoctorFinding(PROBLEM, file.agent, file.problem, todo)
    elif file.missing:
        what = f"{file.path} has our hooks, but not for {', '.join(file.missing)}"
        yield DoctorFinding(PROBLEM, file.agent, what, again)
    elif file.is_older:
        what = f"{file.path} was written by another version of Locus, and does what that one did"
        yield DoctorFinding(NOTE, file.agent, what, again)
    elif file.events:
        yield DoctorFinding(OK, file.agent, f"{len(file.events)} hooks in {file.path} ({file.level})")
    if file.disabled:
        what = f"{file.path} sets {file.disabled}, so no hook of ours runs"
        yield DoctorFinding(PROBLEM, file.agent, what, "remove that setting")


def _status_line(file: Registered, homes: Homes) -> Iterator[DoctorFinding]:
    """What there is to say of a status line that is ours, was ours, or could be."""
    todo = f"`locus hooks install --agent {file.agent} --{file.level} --statusline`"
    if file.status_line is None:
        if install.had_status_line(REAL, file.path, homes):
            what = f"{file.path} had our status line, and has it no more"
            off = f"`locus hooks install --agent {file.agent} --{file.level}` leaves it out"
            yield DoctorFinding(NOTE, file.agent, what, f"{todo} sets it again; {off}")
        elif file.events and install.spec_of(file.agent)[1].has_status_line:
            yield DoctorFinding(OK, file.agent, f"no status line of ours in {file.path} ({todo} sets it)")
        return
    program = launch.missing_program(file.status_line)
    if program is None:
        yield DoctorFinding(OK, file.agent, f"its status line in {file.path} is ours")
    else:
        what = f"the status line in {file.path} stays empty: {program} is not there"
        yield DoctorFinding(NOTE, file.agent, what, f"{todo} makes it name this installation")


def _vanished(file: Registered, store: Store | None, *, is_served: bool) -> DoctorFinding:
    """Hooks that were installed and that nobody uninstalled, in a file that has none now."""
    agent = file.agent
    how = "which has none of them now" if file.exists else "which is gone"
    what = f"the hooks of {agent} were installed in {file.path}, {how}"
    turn = None if store is None else _open_turn(store, agent)
    if turn is not None:
        what += f"; the turn {turn} began with them and has no end in the record"
    todo = (
        f"`locus hooks install --agent {agent} --{file.level}` puts them back "
        f"(if you took them out: `locus hooks uninstall --agent {agent} --{file.level}`)"
    )
    return DoctorFinding(NOTE if is_served else PROBLEM, agent, what, todo)


def _open_turn(store: Store, agent: str) -> str | None:
    """The last turn that hooks of an agent reported, where it was not ended."""
    try:
        rows = store.query(
            "select t.session_id, t.turn_id, t.status from turns t where t.agent = $1 and exists "
            f"(select 1 from events where session_id = t.session_id and turn = t.turn and {HOOKED}) "
            "order by t.last_position desc limit 1",
            [agent],
        ).rows
    except EventLogError:
        return None
    return f"{rows[0][0]}_{rows[0][1]}" if rows and rows[0][2] == "active" else None


def _in_the_way_of_git(registered: list[Registered]) -> Iterator[DoctorFinding]:
    """Whether a commit, a checkout or a stash would take hooks away that are for one user alone."""
    for file in registered:
        is_shared = all(line == launch.portable_line(file.agent) for line in file.lines)
        if file.level != LOCAL or is_shared:
            continue
        for how in git_exclude.standing(file.path):
            if how.state != git_exclude.IGNORED:
                again = f"`locus hooks install --agent {file.agent} --{file.level}` has git ignore it"
                yield DoctorFinding(NOTE, file.agent, how.why, how.todo or again)


def _doubled(agent: str, registered: list[Registered]) -> Iterator[DoctorFinding]:
    """Whether an event starts more than one hook: agents run only equal commands once."""
    number = len({line for file in registered for line in file.lines})
    if number > 1:
        files = " and ".join(file.path for file in registered)
        what = f"its hooks are in {files}, so each event starts {number} of them; " + (
            "model calls count as often, nothing else does"
            if install.spec_of(agent)[1].counts_each_hook
            else "nothing counts twice"
        )
        levels = " or ".join(f"--{file.level}" for file in registered)
        todo = f"keep one: `locus hooks uninstall --agent {agent}` with {levels} takes the others out"
        yield DoctorFinding(NOTE, agent, what, todo)


@dataclass(frozen=True, slots=True)
class _Line:
    """A launch line, and the first file that has it; `whose` says which hooks are meant."""

    agent: str
    text: str
    level: str
    whose: str


def _lines(registered: list[Registered]) -> list[_Line]:
    lines: dict[str, _Line] = {}
    for file in registered:
        whose = "its hooks" if len(registered) == 1 else f"its hooks in {file.path}"
        for text in file.lines:
            lines.setdefault(text, _Line(file.agent, text, file.level, whose))
    return list(lines.values())


def _starts(line: _Line, environ: Mapping[str, str], homes: Homes) -> Iterator[DoctorFinding]:
    """Whether a launch line records what it is given."""
    agent, text, whose = line.agent, line.text, line.whose
    named = launch.named_in(text, agent)
    gone = [path for path in named or () if not os.access(path, os.R_OK)]
    todo = f"`locus hooks install --agent {agent} --{line.level}` makes them name this installation"
    if gone:
        yield DoctorFinding(PROBLEM, agent, f"{whose} do nothing: {gone[0]} is gone", todo)
        return
    stub = f"{launch.stub_directory(homes.data)}/{launch.STUB}"
    ours = named is not None and named[1] == stub and os.path.dirname(named[0]) == _directory_of_python()
    if not ours and text != launch.portable_line(agent):
        yield DoctorFinding(
            NOTE, agent, f"{whose} name another installation, which was not tried: {text}", todo
        )
        return
    if named is None and shutil.which(launch.PROGRAM, path=environ.get("PATH")) is None:
        what = f"{whose} start {launch.PROGRAM}, which is not on your PATH, so they do nothing"
        yield DoctorFinding(PROBLEM, agent, what, f"put {os.path.dirname(sys.executable)} on the PATH")
        return
    took_ms = _try(text, environ)
    if took_ms is None:
        yield DoctorFinding(PROBLEM, agent, f"{whose} were tried and recorded nothing: {text}", todo)
    else:
        yield DoctorFinding(OK, agent, f"{whose} were tried and record ({took_ms:.0f} ms)")


def _directory_of_python() -> str:
    return os.path.dirname(sys.executable)


def _try(line: str, environ: Mapping[str, str]) -> float | None:
    """Run a launch line on a store that is thrown away; milliseconds, or None when nothing was recorded."""
    with tempfile.TemporaryDirectory(prefix="locus-doctor-") as directory:
        root = f"{directory}/.locus"
        Store.init(root, project_name="doctor", repo_hash="0" * 12, force=True).close()
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


def _last_calls(store: Store) -> dict[str, int] | None:
    """When each agent's hooks were last heard of, in microseconds since 1970; None when nobody can tell."""
    try:
        rows = store.query(
            f"select agent, epoch_us(max(recorded_at)) from events where position >= $1 and {HOOKED} "
            "and agent is not null group by agent",
            [recent(store)],
        ).rows
    except EventLogError:
        return None  # the check of the log says why
    return {agent: at for agent, at in rows if at is not None}


def _firing(agent: str, last: Mapping[str, int] | None) -> Iterator[DoctorFinding]:
    if last is None:
        return
    if agent not in last:
        more = install.spec_of(agent)[1].missing_step
        todo = "restart the agent in this directory" + ("" if more is None else f"; {more}")
        yield DoctorFinding(NOTE, agent, "its hooks have recorded nothing here yet", todo)
        return
    age_s = max(0, REAL.time_ns() // 1000 - last[agent]) / 1_000_000
    yield DoctorFinding(OK, agent, f"last heard of {age(age_s)} ago")


def _own_check(
    spec: AgentSpec, homes: Homes, directory: str, registered: Iterable[Registered], last_us: int | None
) -> Iterator[DoctorFinding]:
    """What the agent's own check finds, where it has one."""
    if spec.settings is None or spec.settings.check is None:
        return
    files = tuple(HookFile(file.path, file.events) for file in registered)
    surroundings = Surroundings(homes.agents[spec.name], directory, files, last_us, _settings_in)
    for finding in agents.loaded(spec.settings.check).check(surroundings):
        level = PROBLEM if finding.is_problem else NOTE
        yield DoctorFinding(level, spec.name, finding.what, finding.next_step)


def _settings_in(path: str) -> Mapping[str, Any]:
    values: Mapping[str, Any] = parse(read_file(REAL, path, SIZE_MAX).decode(), path, comments=True).data
    return values
