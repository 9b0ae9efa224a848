"""The tools of `locus mcp`, and the arguments that several of them take.

The words are for a model that chooses between tools: the purpose, then the answer. An agent pays for them in
every request, so they are short, and an argument has one name, one form and one description in all tools;
earlier names, and names from elsewhere, are accepted as well.
"""

import inspect
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated

from eventlog import agents
from eventlog.mcp.call import REGISTERED, Hint, Tool

Agent = Annotated[str, Hint(aliases=("agent",))]
Focus = Annotated[str, Hint("What you work on.")]
Paths = Annotated[list[str], Hint("Files and folders.", aliases=("paths",))]
Path = Annotated[str, Hint("A file or folder.")]
Phase = Annotated[str, Hint(choices=("planning", "implementation"))]
Reasoning = Annotated[str, Hint("Why.")]
Rows = Annotated[int, Hint(least=1, most=200)]
SessionId = Annotated[str, Hint(aliases=("session",))]
Tokens = Annotated[int, Hint("Tokens.", least=100, most=8000)]
# An agent, and its own id of a session.
AskingSession = tuple[str, str]
# The parameter of a tool that gets the session which asks. No argument of a call names it.
SESSION = "session"
Words = Annotated[str, Hint('All must occur; "a phrase", begin*, -without.')]


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
