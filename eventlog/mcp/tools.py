"""The tools that `locus mcp` offers an agent."""

import inspect
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from eventlog import agents
from eventlog.mcp.arguments import AskingSession
from eventlog.mcp.call import REGISTERED, Tool

# The parameter of a tool that gets the session which asks. No argument of a call names it.
SESSION = "session"


def tools_for(agent_id: str) -> tuple[Tool, ...]:
    """The tools for an agent, which is the default agent of a call (S3-17)."""
    from eventlog.mcp import memory, read, sql, undo, write  # noqa: F401 - each registers its tools

    return tuple(_for_agent(tool, agent_id) for _, tool in sorted(REGISTERED.items()))


def _for_agent(tool: Tool, agent_id: str) -> Tool:
    parameters = (
        replace(parameter, default=agent_id) if parameter.name == "agent_id" else parameter
        for parameter in tool.parameters
    )
    run = tool.run
    if SESSION in inspect.signature(run).parameters:
        run = partial(run, **{SESSION: asking_session(agent_id, os.environ)})
    return replace(tool, parameters=tuple(parameters), run=run)


def asking_session(agent_id: str, environ: Mapping[str, str]) -> AskingSession | None:
    """The session that a server serves; None where its agent does not say.

    Only the served agent's own variable counts: one that another agent started inherits that one's.
    """
    spec = agents.spec_of(agent_id)
    session = environ.get(spec.session_variable) if spec and spec.session_variable else None
    return (agent_id, session) if session else None
