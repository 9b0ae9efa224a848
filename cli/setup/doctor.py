"""`locus doctor`: does everything work, and what is there to do?"""

import dataclasses
import os

import click

from eventlog.doctor import agents, gaps, store

from ..access import store_option
from ..exits import ERROR, exit_with
from ..hooks.text import COMMANDS, project_directory
from ..options import json_option
from ..output import count, document, one_line, put, say
from ..progress import Progress
from ..terminal import put_styled, step

_SIGNS = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}


@click.command("doctor")
@json_option
def command(as_json: bool) -> None:
    """See whether everything works, and what to do where it does not.

    Looks at the store, the disk, the settings of coding agents and what their hooks recorded, and tries each
    hook once on a store of its own, and once whether `locus mcp` starts where an agent has it. Closes turns
    whose agent was killed; changes nothing else. Exit code 1 when there is a problem; a note is none.
    """
    from eventlog.mcp import health as mcp_health

    given = store_option()
    directory = project_directory()
    more = gaps.checks(directory, os.environ)
    with Progress("looking"):
        findings = agents.examine(given, directory, os.environ, COMMANDS, more)
        findings += mcp_health.findings(directory, os.environ)
    problems = sum(finding.level == store.PROBLEM for finding in findings)
    if as_json:
        put(
            document(
                {"problems": problems, "findings": [dataclasses.asdict(finding) for finding in findings]}
            )
        )
    else:
        for finding in findings:
            put_styled(f"{_SIGNS[finding.level]} {finding.about}: {one_line(finding.what)}\n", step)
            if finding.todo:
                put_styled(f"          → {one_line(finding.todo)}\n", step)
        say("No problem found." if not problems else f"{count(problems, 'problem')} found.")
    if problems:
        exit_with(ERROR)
