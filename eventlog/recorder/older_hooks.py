"""The twelve hooks that are older than sessions and turns (S0-4): one context per subject.

Each is a thin call over `store_event` with an id whose type is the event's kind, such as
`action:terminal_bash`; writing such a context again overrides its state. Where the hooks are of a session,
what happens is an event of its current turn like any other, with an id of its own, and only what is known
(conventions, skills, tools) has such a context. Links between the subjects are set here, the caller's come
after them. Texts are kept whole: previews are the business of an export.
Payloads are flat, in the words of the events of a turn, so that one question finds both.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from eventlog.base.names import safe_context_name
from eventlog.recorder.requests import (
    CONTEXT_DECISIONS,
    CONTEXT_EDITOR,
    CONTEXT_ERRORS,
    CONTEXT_TOOLS,
    CONTEXT_USER_INTENT,
    CreateEventRequest,
    EventKind,
    EventLinks,
)

R = TypeVar("R")

NO_LINKS = EventLinks()


class OlderHooks(ABC, Generic[R]):
    """The calls; where they go is `store_event`'s business."""

    is_of_session: bool

    @abstractmethod
    def store_event(
        self, request: CreateEventRequest, *, event_type: str | None = None, **columns: Any
    ) -> R: ...

    def store_tool_run(
        self,
        tool_name: str,
        args: Mapping[str, Any],
        result: Any,
        duration_ms: int | None,
        is_error: bool,
        links: EventLinks = NO_LINKS,
    ) -> R:
        """A tool ran."""
        payload = {
            "tool": tool_name,
            "args": dict(args),
            "result": result,
            "duration_ms": duration_ms,
            "success": not is_error,
        }
        own = EventLinks(related_to=(CONTEXT_USER_INTENT,))
        context_id = _name("action:terminal_", tool_name)
        return self._store("action", _done(is_error), context_id, "executor", payload, own, links)

    def store_file_edit(
        self, path: str, summary: str, diff_preview: str | None = None, links: EventLinks = NO_LINKS
    ) -> R:
        """A file was written or edited; its contents are the business of `Recorder`'s `file`."""
        payload = {"path": path, "operation": "edit", "description": summary, "diff": diff_preview}
        own = EventLinks(related_to=(CONTEXT_DECISIONS,))
        context_id = _name("action:editor_", path)
        return self._store("file", EventKind.ACTION, context_id, "executor", payload, own, links)

    def store_user_intent(self, message: str, intent_summary: str, links: EventLinks = NO_LINKS) -> R:
        """The user said what they want."""
        payload = {"message": message, "intent_summary": intent_summary}
        return self._store("intent", EventKind.OBSERVATION, CONTEXT_USER_INTENT, "user", payload, links)

    def store_error(
        self,
        context: str,
        error_message: str,
        command_or_file: str | None = None,
        links: EventLinks = NO_LINKS,
    ) -> R:
        """Something failed; `context` says where, and stands as the error's type."""
        payload = {"error_type": context, "message": error_message, "command": command_or_file}
        return self._store("error", EventKind.OBSERVATION, CONTEXT_ERRORS, "system", payload, links)

    def store_decision(self, summary: str, reasoning: str | None = None, links: EventLinks = NO_LINKS) -> R:
        """A choice was made."""
        payload = {"decision": summary, "reasoning": reasoning}
        own = EventLinks(extends=(CONTEXT_USER_INTENT,))
        return self._store("decision", EventKind.DECISION, CONTEXT_DECISIONS, "agent", payload, own, links)

    def store_project_convention(
        self, repo: str, convention: str, examples: Sequence[str] = (), links: EventLinks = NO_LINKS
    ) -> R:
        """A convention of the project was found."""
        payload = {"repo": repo, "convention": convention, "examples": list(examples)}
        context_id = _name("fact:project_", repo)
        return self._store("project_convention", EventKind.FACT, context_id, "agent", payload, links)

    def store_skill(
        self,
        name: str,
        description: str,
        steps: Sequence[str] = (),
        validated: bool = False,
        links: EventLinks = NO_LINKS,
    ) -> R:
        """A way of working was learned."""
        payload = {"name": name, "description": description, "steps": list(steps), "validated": validated}
        return self._store("skill", EventKind.FACT, _name("fact:skill_", name), "agent", payload, links)

    def store_llm_call(
        self,
        model: str,
        prompt_tokens: int | None,
        completion_tokens: int | None,
        duration_ms: int | None = None,
        is_error: bool = False,
        links: EventLinks = NO_LINKS,
    ) -> R:
        """A model was called."""
        payload = {
            "model": model,
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "duration_ms": duration_ms,
            "success": not is_error,
        }
        own = EventLinks(related_to=(CONTEXT_DECISIONS,))
        context_id = _name("action:llm_", model)
        return self._store("llm", _done(is_error), context_id, "executor", payload, own, links)

    def store_test_run(
        self,
        test_file: str,
        passed: int,
        failed: int,
        duration_ms: int | None = None,
        output: str | None = None,
        links: EventLinks = NO_LINKS,
    ) -> R:
        """Tests ran: they confirm the edits when all passed, and speak against them otherwise."""
        payload = {
            "test_file": test_file,
            "passed": passed,
            "failed": failed,
            "total": passed + failed,
            "duration_ms": duration_ms,
            "output": output,
            "success": failed == 0,
        }
        edits = (CONTEXT_EDITOR,)
        own = EventLinks(contradicts=edits) if failed else EventLinks(reinforces=edits)
        context_id = _name("action:test_", test_file)
        return self._store("test_run", _done(failed > 0), context_id, "executor", payload, own, links)

    def store_git_op(
        self,
        repo: str,
        operation: str,
        details: str | None = None,
        is_error: bool = False,
        links: EventLinks = NO_LINKS,
    ) -> R:
        """Git did something."""
        payload = {"repo": repo, "operation": operation, "details": details, "success": not is_error}
        own = EventLinks(related_to=(CONTEXT_EDITOR,))
        context_id = _name("action:git_", repo)
        return self._store("git_op", _done(is_error), context_id, "executor", payload, own, links)

    def store_tool_schema(
        self,
        tool_name: str,
        description: str,
        parameters_schema: Mapping[str, Any],
        source_type: str,
        tags: Sequence[str] = (),
        links: EventLinks = NO_LINKS,
    ) -> R:
        """A tool can be used, and how."""
        payload = {
            "tool": tool_name,
            "description": description,
            "parameters": dict(parameters_schema),
            "source_type": source_type,
            "tags": list(tags),
        }
        own = EventLinks(related_to=(CONTEXT_TOOLS,))
        context_id = _name("fact:tool_", tool_name)
        return self._store("tool_schema", EventKind.FACT, context_id, "system", payload, own, links)

    def store_tool_usage(
        self,
        tool_name: str,
        user_intent: str,
        success: bool,
        duration_ms: int | None = None,
        links: EventLinks = NO_LINKS,
    ) -> R:
        """A tool was used for something, and whether it helped."""
        payload = {
            "tool": tool_name,
            "intent": user_intent,
            "success": success,
            "duration_ms": duration_ms,
        }
        own = EventLinks(related_to=(_name("fact:tool_", tool_name),))
        context_id = _name("action:tool_usage_", tool_name)
        return self._store("tool_usage", _done(not success), context_id, "executor", payload, own, links)

    def _store(
        self,
        event_type: str,
        kind: EventKind,
        context_id: str,
        source: str,
        payload: Mapping[str, Any],
        *links: EventLinks,
    ) -> R:
        known = {name: value for name, value in payload.items() if value is not None}
        of_turn = self.is_of_session and kind != EventKind.FACT
        request = CreateEventRequest(kind, known, None if of_turn else context_id, source)
        for more in links:
            request = request.with_links(_of_turn(more) if of_turn else more)
        return self.store_event(request, event_type=event_type)


def _of_turn(links: EventLinks) -> EventLinks:
    """The links of what extends its turn instead of the subject that stands for all intents."""
    return replace(links, extends=tuple(one for one in links.extends if one != CONTEXT_USER_INTENT))


def _name(prefix: str, subject: str) -> str:
    return prefix + safe_context_name(subject)


def _done(is_error: bool) -> EventKind:
    """What was done is an action; that it failed is an observation."""
    return EventKind.OBSERVATION if is_error else EventKind.ACTION
