"""Documents of the Agent Trajectory Interchange Format, ATIF-v1.0 to v1.8, with the subagents in them.

What it rests on: `session_id` names the run and `trajectory_id` the document; a step's metrics are those of
its model calls, and their `prompt_tokens` hold what came from a cache; steps marked `is_copied_context` were
in the document before. The agent is `atif`, the one that ran is in the session's payload.
"""

from typing import Any

from eventlog.agents.kit.call import object_of, text_of, without
from eventlog.agents.kit.draft import digest_of
from eventlog.agents.kit.steps import Steps, StepsReader, counts, others_in
from eventlog.agents.kit.words import objects_of, text_in

AGENT = "atif"
SUFFIXES = (".json",)
_Object = dict[str, Any]

_OF_STEP = (
    "step_id", "timestamp", "source", "message", "model_name", "reasoning_content", "tool_calls",
    "observation", "metrics",
)  # fmt: skip
_OF_CALL = ("tool_call_id", "function_name", "arguments")


def recognises(record: _Object) -> bool:
    return str(record.get("schema_version")).startswith("ATIF-")


def exported_session(record: _Object) -> str | None:
    """The id of the session that `locus export atif` made a document of, in the store that it came from."""
    return text_of(object_of(object_of(record, "extra"), "locus"), "session_id")


class AtifReader(StepsReader):
    """Reads one document, or several, of one session or more."""

    def take(self, record: _Object) -> None:
        draft = self._draft
        if not recognises(record):
            draft.raw(record, "document", digest_of(record))
            return
        agent, first = object_of(record, "agent"), objects_of(record.get("steps"))[:1]
        session = (
            text_of(record, "session_id") or text_of(record, "trajectory_id") or digest_of([agent, first])
        )
        if session != draft.session:
            self._begin(session, record, agent)
        self._trajectory(record, None)

    def _begin(self, session: str, trajectory: _Object, agent: _Object) -> None:
        """The session of a trajectory; what the one before it did is recorded first."""
        draft = self._draft
        if draft.session is not None:
            self._tell.end()
            self._tell = Steps(draft)
            draft.leave_session()
        version = " ".join(str(agent[name]) for name in ("name", "version") if agent.get(name))
        draft.columns["agent_version"] = version[:200] or "unknown"
        draft.begin_session(session, without(trajectory, "steps", "subagent_trajectories", "final_metrics"))

    def _trajectory(self, trajectory: _Object, subagent: str | None) -> None:
        name = subagent or text_of(trajectory, "trajectory_id") or ""
        model = text_of(object_of(trajectory, "agent"), "model_name")
        inner = objects_of(trajectory.get("subagent_trajectories"))
        children: dict[str, str] = {}
        for number, step in enumerate(objects_of(trajectory.get("steps")), 1):
            self._tell.begin(
                f"{name}/{step.get('step_id', number)}", step.get("timestamp"), subagent_id=subagent
            )
            self._step(step, text_of(step, "model_name") or model, name, children, subagent)
        totals = object_of(trajectory, "final_metrics")
        self._tell.begin(f"{name}/final", subagent_id=subagent)
        if not any("metrics" in step for step in objects_of(trajectory.get("steps"))):
            names = {"prompt_tokens": "total_prompt_tokens", "completion_tokens": "total_completion_tokens"}
            figures = counts(totals, cache_read_tokens="total_cached_tokens", **names)
            if any(figures.values()):
                self._tell.usage(totals, None, model=model, **figures)
        self._tell.rest(totals, "final_metrics")
        for number, child in enumerate(inner):
            own = text_of(child, "trajectory_id") or f"{name}.{number}"
            self._tell.begin(own, subagent_id=own)
            agent = object_of(child, "agent")
            self._draft.event(
                "subagent", without(child, "steps", "subagent_trajectories", "final_metrics"), "subagent",
                f"{self._draft.session}:{own}", "start", operation="start", source="agent",
                title=text_of(agent, "name"), tool_use_id=children.get(own),
            )  # fmt: skip
            self._trajectory(child, own)

    def _step(
        self, step: _Object, model: str | None, name: str, children: dict[str, str], subagent: str | None
    ) -> None:
        tell, source, message = self._tell, step.get("source"), step.get("message")
        if step.get("is_copied_context") is True:
            tell.rest(step, "copied_context")
            return
        text, rest = text_in(message), without(step, *_OF_STEP)
        if source == "user" and subagent is None:
            tell.prompt(text, {**rest, "content": others_in(message)})
        elif source == "agent":
            tell.say("reasoning", step.get("reasoning_content"))
            tell.say("text", text, content=others_in(message))
            tell.rest(rest, "step")
            self._usage(object_of(step, "metrics"), model)
        else:
            tell.rest({**rest, "message": message}, str(source))
        prefix = f"{name}:" if name else ""
        calls = [
            text_of(call, "tool_call_id") or str(number)
            for number, call in enumerate(objects_of(step.get("tool_calls")))
        ]
        for call_id, call in zip(calls, objects_of(step.get("tool_calls")), strict=True):
            tell.call(
                prefix + call_id,
                text_of(call, "function_name"),
                call.get("arguments"),
                **without(call, *_OF_CALL),
            )
        observation = object_of(step, "observation")
        tell.rest(without(observation, "results"), "observation")
        for result in objects_of(observation.get("results")):
            call_id = text_of(result, "source_call_id") or (calls[0] if len(calls) == 1 else "")
            for ref in objects_of(result.get("subagent_trajectory_ref")):
                children[str(ref.get("trajectory_id"))] = prefix + call_id
            if call_id:
                tell.result(
                    prefix + call_id, result.get("content"), **without(result, "source_call_id", "content")
                )
            else:
                tell.rest(result, "observation")

    def _usage(self, metrics: _Object, model: str | None) -> None:
        names = {"cache_read_tokens": "cached_tokens"}
        figures = counts(
            metrics, prompt_tokens="prompt_tokens", completion_tokens="completion_tokens", **names
        )
        if metrics:
            self._tell.usage(metrics, None, model=model, **figures)


READER = AtifReader
