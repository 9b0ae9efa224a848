"""LangGraph and LangChain: a callback handler that records each run of a graph as a turn.

Their interface: https://python.langchain.com/api_reference/core/callbacks.html. Needs langchain-core, which
langgraph brings along.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from eventlog.frameworks.session import FrameworkSession, as_text
from eventlog.store import Store


class RecordingHandler(BaseCallbackHandler):
    """`graph.invoke(…, config={"callbacks": [handler]})`: the outermost run is the turn, all else is its.

    One handler is one session; `close()` ends it. Nested graphs belong to the turn of the outermost.
    """

    def __init__(self, store: Store, *, agent: str = "langgraph", root: str | None = None) -> None:
        self.session = FrameworkSession(store, agent, root)
        self._run: UUID | None = None

    def close(self) -> None:
        self.session.close()

    # -- the run -----------------------------------------------------------------------------------

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **_: Any
    ) -> None:
        if parent_run_id is None:
            self._run = run_id
            self.session.begin(_message_of(inputs))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        if run_id == self._run:
            self.session.finish(_message_of(outputs))

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        if run_id == self._run:
            self.session.finish(None, error)

    # -- tools -------------------------------------------------------------------------------------

    def on_tool_start(
        self,
        serialized: Mapping[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        inputs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        name = (serialized or {}).get("name") or options.get("name") or "tool"
        self.session.start_call(str(run_id), str(name), inputs or {"input": input_str})

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        failed = getattr(output, "status", None) == "error"  # a tool node turns exceptions into such messages
        content = getattr(output, "content", output)
        self.session.end_tool(str(run_id), content, RuntimeError(as_text(content)) if failed else None)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self.session.end_tool(str(run_id), None, error)

    # -- models ------------------------------------------------------------------------------------

    def on_chat_model_start(
        self,
        serialized: Any,
        messages: Any,
        *,
        run_id: UUID,
        metadata: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        model = (metadata or {}).get("ls_model_name") or "unknown"
        self.session.start_call(str(run_id), str(model), {})

    def on_llm_start(self, serialized: Any, prompts: Any, *, run_id: UUID, **options: Any) -> None:
        self.on_chat_model_start(serialized, prompts, run_id=run_id, metadata=options.get("metadata"))

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        message = _answer_of(response)
        usage: Mapping[str, Any] = (message.usage_metadata if message else None) or {}
        details = message.response_metadata if message else {}
        model = details.get("model_name") or details.get("model")
        self.session.end_model(str(run_id), model, usage.get("input_tokens"), usage.get("output_tokens"))

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self.session.error(error)


def _answer_of(response: LLMResult) -> AIMessage | None:
    generations = response.generations[0] if response.generations else []
    first = generations[0] if generations else None
    message = first.message if isinstance(first, ChatGeneration) else None
    return message if isinstance(message, AIMessage) else None


def _message_of(state: Any) -> str:
    """What a run was asked or answered: the last message of its state, else the whole state."""
    messages = state.get("messages") if isinstance(state, Mapping) else None
    if isinstance(messages, Sequence) and messages and not isinstance(messages, str):
        last = messages[-1]
        if isinstance(last, BaseMessage):
            return as_text(last.content)
        return as_text(last.get("content") if isinstance(last, Mapping) else last[-1])
    return as_text(state)
