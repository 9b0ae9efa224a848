"""Agents: one package for each, with all that is known of its hooks, transcripts and tools. Pure knowledge.

There is no list of them: each package below this one whose `__init__` states a `SPEC` is an agent, and
nothing else names one. `spec_of` imports the package of one agent, as the hook path needs it; `specs` walks
the folder.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from eventlog.agents.kit.call import Call
    from eventlog.agents.kit.spec import AgentSpec

_walked: "list[AgentSpec]" = []


def spec_of(agent: str) -> "AgentSpec | None":
    """What is known of an agent; None of one without a package here."""
    name = agent.replace("-", "_")
    if not name.isidentifier():
        return None
    package = f"{__name__}.{name}"
    try:
        spec: "AgentSpec | None" = getattr(loaded(package), "SPEC", None)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        return None
    return spec if spec is not None and spec.name == agent else None


def specs() -> "list[AgentSpec]":
    """All agents, by name."""
    if not _walked:
        directory = os.path.dirname(__file__)
        for name in sorted(os.listdir(directory)):
            if os.path.exists(f"{directory}/{name}/__init__.py"):
                spec = spec_of(name.replace("_", "-"))
                if spec is not None:
                    _walked.append(spec)
    return _walked


def installable() -> "list[AgentSpec]":
    """Those whose hooks can be installed."""
    return [spec for spec in specs() if spec.settings is not None]


def servable() -> "list[AgentSpec]":
    """Those whose settings can name an MCP server."""
    return [spec for spec in specs() if spec.server is not None]


def importable() -> "list[AgentSpec]":
    """Those whose transcripts can be imported."""
    return [spec for spec in specs() if spec.transcripts is not None]


def loaded(module: str) -> "Any":
    """A module that a record names, imported now."""
    __import__(module)
    return sys.modules[module]


def interpret(agent: str, payload: "dict[str, object]") -> "Call":
    """The call that a hook input makes, for agents with and without an adapter. On the hook path."""
    spec = spec_of(agent)
    if spec is None or spec.hooks is None:
        from eventlog.agents import unadapted

        return unadapted.interpret(agent, payload)
    call: "Call" = loaded(spec.hooks.adapter).interpret(payload)
    return call
