"""The OpenAI Agents SDK: hooks that record each run as a turn.

Their interface: `agents.RunHooks` of openai-agents 0.24, https://openai.github.io/openai-agents-python.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents import RunHooks

from eventlog.frameworks.session import FrameworkSession, as_text
from eventlog.store import Store


class RecordingHooks(RunHooks):  # type: ignore[type-arg, misc, unused-ignore]
    """`Runner.run(…, hooks=hooks)`: tools, models and handoffs of the run, whichever agents take part in it.

    One object is one session, and one run at a time; `close()` ends it. The SDK calls nothing when a run
    fails: such a turn ends, as failed, where the next one begins or at `close`.
    """

    def __init__(self, store: Store, *, agent: str = "openai-agents", root: str | None = None) -> None:
        self.session = FrameworkSession(store, agent, root)
        self._usage: object = None  # of the run that is under way: each run has its own

    def close(self) -> None:
        self.session.close()

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        if context.usage is not self._usage:
            self._usage = context.usage
            self.session.begin(_message_of(context.turn_input))

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self._usage = None
        self.session.finish(as_text(output))

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self.session.decision(f"handoff from {from_agent.name} to {to_agent.name}")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        name = getattr(context, "tool_name", tool.name)
        self.session.start_call(_key(context, tool), name, _arguments(context))

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        self.session.end_tool(_key(context, tool), result)

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        self.session.start_call(f"model of {agent.name}", _model_of(agent), {})

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        usage = response.usage if response.usage.requests else None  # none where the provider tells nothing
        self.session.end_model(
            f"model of {agent.name}",
            None,
            usage.input_tokens if usage else None,
            usage.output_tokens if usage else None,
        )


def _key(context: Any, tool: Any) -> str:
    return str(getattr(context, "tool_call_id", tool.name))


def _arguments(context: Any) -> Mapping[str, Any]:
    text = getattr(context, "tool_arguments", "") or "{}"
    try:
        arguments = json.loads(text)
    except ValueError:  # what a model writes need not be JSON
        arguments = text
    return arguments if isinstance(arguments, dict) else {"input": arguments}


def _model_of(agent: Any) -> str:
    """An agent's model: a name, or an object that may have one."""
    name = agent.model if isinstance(agent.model, str) else getattr(agent.model, "model", None)
    return name if isinstance(name, str) else "unknown"


def _message_of(items: Sequence[Any]) -> str:
    """What the user asked last."""
    for item in reversed(items):
        if isinstance(item, Mapping) and item.get("role") == "user":
            return as_text(item.get("content"))
    return as_text(list(items))
