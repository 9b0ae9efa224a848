"""Is `locus mcp` in the settings of the installed agents, and does it start? Reads only.

For `locus doctor`. A project's settings may come from anybody, so none of their commands is run: only the
program of this installation is started, when an entry names it.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping

from eventlog import agents
from eventlog.base.errors import EventLogError
from eventlog.base.fs import REAL
from eventlog.doctor.store import NOTE, OK, PROBLEM, DoctorFinding
from eventlog.mcp import install as mcp_install
from eventlog.mcp import trial
from eventlog.setup import install
from eventlog.setup.install import Homes

ABOUT = "mcp"


def findings(directory: str, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """The findings for each agent that is installed, or has an entry, in the project `directory`."""
    homes = Homes.of(environ)
    here = install.agents_here(directory, homes, environ.get("PATH"))
    started: dict[str, DoctorFinding | None] = {}
    for spec in agents.servable():
        agent, verb = spec.name, spec.command_name
        is_installed = False
        paths: dict[str, str] = {}
        for scope in (mcp_install.PROJECT, mcp_install.USER):
            paths.setdefault(mcp_install.settings_path(agent, scope, directory, homes, environ), scope)
        for path, scope in paths.items():
            try:
                entry = mcp_install.entry_in(REAL, agent, path)
            except (EventLogError, OSError) as error:
                yield DoctorFinding(NOTE, ABOUT, f"it is not known whether {agent} has our tools ({error})")
                is_installed = True
                continue
            if entry is None:
                continue
            is_installed = True
            again = f"`locus mcp install --agent {verb} --scope {scope}`"
            if not isinstance(entry, Mapping) or not mcp_install.is_ours(entry):
                what = f"{path} has a server called {mcp_install.NAME} that is not ours"
                yield DoctorFinding(NOTE, ABOUT, what, f"rename it, then {again}")
                continue
            yield finding_of(agent, path, entry, again, environ, started)
        if not is_installed and agent in here:
            what = f"{agent} is here, and has not the tools of the record"
            yield DoctorFinding(NOTE, ABOUT, what, f"`locus mcp install --agent {verb}`, if you want them")


def finding_of(
    agent: str,
    path: str,
    entry: Mapping[str, object],
    again: str,
    environ: Mapping[str, str],
    started: dict[str, DoctorFinding | None],
) -> DoctorFinding:
    """The finding for one of our entries. Args: started: the results of programs that were tried."""
    words = mcp_install.words_of(entry)
    if entry.get("enabled") is False:
        return DoctorFinding(NOTE, ABOUT, f"{path} has our tools for {agent}, and switches them off")
    program = shutil.which(words[0], path=environ.get("PATH"))
    if program is None:
        if os.path.isabs(words[0]):
            return DoctorFinding(PROBLEM, ABOUT, f"{path} starts {words[0]}, which is gone", again)
        what = f"{path} starts {words[0]}, which is not on your PATH, so {agent} has no tools of ours"
        return DoctorFinding(PROBLEM, ABOUT, what, f"put {os.path.dirname(sys.executable)} on the PATH")
    if os.path.dirname(program) != os.path.dirname(sys.executable):
        what = f"{path} names another installation for {agent}, which was not tried: {program}"
        return DoctorFinding(NOTE, ABOUT, what, f"{again} makes it name this one")
    if program not in started:
        started[program] = _started(environ)
    return started[program] or DoctorFinding(
        OK, ABOUT, f"{agent} has our tools ({path}), and the server starts"
    )


def _started(environ: Mapping[str, str]) -> DoctorFinding | None:
    """The problem of the server of this installation, None when it starts."""
    problem = trial.problem([sys.executable, "-m", "locus_cli", "mcp"], os.getcwd(), environ)
    return None if problem is None else DoctorFinding(PROBLEM, ABOUT, *problem)
