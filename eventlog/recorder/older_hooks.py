"""The twelve hooks that are older than sessions and turns (S0-4): one context per subject.

Each is a row of the table below over `store_event`: the context's type is the event's kind, such as
`action:terminal_bash`, and writing such a context again overrides its state. Hooks of a session make what
happens an event of its current turn, with an id of its own; only what is known (conventions, skills, tools)
has such a context there. The table's links come before the caller's. Texts are whole, payloads are flat.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

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
_DECIDED = EventLinks(related_to=(CONTEXT_DECISIONS,))


class _Form(NamedTuple):
    source: str
    context: str  # where the payload names a subject, what precedes its name
    subject: str = ""  # the key of the payload
    links: EventLinks = NO_LINKS


_FORMS = {
    "action": _Form("executor", "action:terminal_", "tool", EventLinks(related_to=(CONTEXT_USER_INTENT,))),
    "file": _Form("executor", "action:editor_", "path", _DECIDED),
    "intent": _Form("user", CONTEXT_USER_INTENT),
    "error": _Form("system", CONTEXT_ERRORS),
    "decision": _Form("agent", CONTEXT_DECISIONS, "", EventLinks(extends=(CONTEXT_USER_INTENT,))),
    "project_convention": _Form("agent", "fact:project_", "repo"),
    "skill": _Form("agent", "fact:skill_", "name"),
    "llm": _Form("executor", "action:llm_", "model", _DECIDED),
    "test_run": _Form("executor", "action:test_", "test_file"),
    "git_op": _Form("executor", "action:git_", "repo", EventLinks(related_to=(CONTEXT_EDITOR,))),
    "tool_schema": _Form("system", "fact:tool_", "tool", EventLinks(related_to=(CONTEXT_TOOLS,))),
    "tool_usage": _Form("executor", "action:tool_usage_", "tool"),
}


class OlderHooks(ABC, Generic[R]):
    """The calls; where they go is `store_event`'s business."""

    is_of_session: bool

    @abstractmethod
    def store_event(
        self, request: CreateEventRequest, *, event_type: str | None = None, **columns: Any
    ) -> R: ...

    def store_tool_run(
        self, tool_name: str, args: Mapping[str, Any], result: Any, duration_ms: int | None, is_error: bool,
        links: EventLinks = NO_LINKS,
    ) -> R:  # fmt: skip
        """A tool ran."""
        payload = {"tool": tool_name, "args": dict(args), "result": result, "duration_ms": duration_ms}
        return self._store("action", {**payload, "success": not is_error}, links)

    def store_file_edit(
        self, path: str, summary: str, diff_preview: str | None = None, links: EventLinks = NO_LINKS
    ) -> R:
        """A file was written or edited; its contents are the business of `Recorder`'s `file`."""
        payload = {"path": path, "operation": "edit", "description": summary, "diff": diff_preview}
        return self._store("file", payload, links)

    def store_user_intent(self, message: str, intent_summary: str, links: EventLinks = NO_LINKS) -> R:
        """The user stated what they want."""
        return self._store("intent", {"message": message, "intent_summary": intent_summary}, links)

    def store_error(
        self, context: str, error_message: str, command_or_file: str | None = None,
        links: EventLinks = NO_LINKS,
    ) -> R:  # fmt: skip
        """Something failed; `context` says where, and is the error's type."""
        payload = {"error_type": context, "message": error_message, "command": command_or_file}
        return self._store("error", payload, links)

    def store_decision(self, summary: str, reasoning: str | None = None, links: EventLinks = NO_LINKS) -> R:
        """A choice was made."""
        return self._store("decision", {"decision": summary, "reasoning": reasoning}, links)

    def store_project_convention(
        self, repo: str, convention: str, examples: Sequence[str] = (), links: EventLinks = NO_LINKS
    ) -> R:
        """A convention of the project was found."""
        payload = {"repo": repo, "convention": convention, "examples": list(examples)}
        return self._store("project_convention", payload, links)

    def store_skill(
        self, name: str, description: str, steps: Sequence[str] = (), validated: bool = False,
        links: EventLinks = NO_LINKS,
    ) -> R:  # fmt: skip
        """A way of working was learned."""
        payload = {"name": name, "description": description, "steps": list(steps), "validated": validated}
        return self._store("skill", payload, links)

    def store_llm_call(
        self, model: str, prompt_tokens: int | None, completion_tokens: int | None,
        duration_ms: int | None = None, is_error: bool = False, links: EventLinks = NO_LINKS,
    ) -> R:  # fmt: skip
        """A model was called."""
        tokens = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
        payload = {"model": model, **tokens, "duration_ms": duration_ms, "success": not is_error}
        return self._store("llm", payload, links)

    def store_test_run(
        self, test_file: str, passed: int, failed: int, duration_ms: int | None = None,
        output: str | None = None, links: EventLinks = NO_LINKS,
    ) -> R:  # fmt: skip
        """Tests ran: they confirm the edits when all passed, and speak against them otherwise."""
        counts = {"passed": passed, "failed": failed, "total": passed + failed, "duration_ms": duration_ms}
        payload = {"test_file": test_file, **counts, "output": output, "success": failed == 0}
        edits = (CONTEXT_EDITOR,)
        own = EventLinks(contradicts=edits) if failed else EventLinks(reinforces=edits)
        return self._store("test_run", payload, own.merge(links))

    def store_git_op(
        self, repo: str, operation: str, details: str | None = None, is_error: bool = False,
        links: EventLinks = NO_LINKS,
    ) -> R:  # fmt: skip
        """Git did something."""
        payload = {"repo": repo, "operation": operation, "details": details, "success": not is_error}
        return self._store("git_op", payload, links)

    def store_tool_schema(
        self, tool_name: str, description: str, parameters_schema: Mapping[str, Any], source_type: str,
        tags: Sequence[str] = (), links: EventLinks = NO_LINKS,
    ) -> R:  # fmt: skip
        """A tool can be used, and how."""
        payload = {"tool": tool_name, "description": description, "parameters": dict(parameters_schema)}
        return self._store("tool_schema", {**payload, "source_type": source_type, "tags": list(tags)}, links)

    def store_tool_usage(
        self, tool_name: str, user_intent: str, success: bool, duration_ms: int | None = None,
        links: EventLinks = NO_LINKS,
    ) -> R:  # fmt: skip
        """A tool was used for something, and whether it helped."""
        payload = {"tool": tool_name, "intent": user_intent, "success": success, "duration_ms": duration_ms}
        own = EventLinks(related_to=(_FORMS["tool_schema"].context + safe_context_name(tool_name),))
        return self._store("tool_usage", payload, own.merge(links))

    def _store(self, event_type: str, payload: Mapping[str, Any], links: EventLinks) -> R:
        form = _FORMS[event_type]
        kind = EventKind(form.context.partition(":")[0])
        if kind == EventKind.ACTION and payload.get("success") is False:
            kind = EventKind.OBSERVATION  # what was done is an action; that it failed is an observation
        of_turn = self.is_of_session and kind != EventKind.FACT
        links = form.links.merge(links)
        if of_turn:  # it extends its turn instead of the subject that stands for all intents
            extended = (context for context in links.extends if context != CONTEXT_USER_INTENT)
            links = replace(links, extends=tuple(extended))
        subject = safe_context_name(str(payload[form.subject])) if form.subject else ""
        request = CreateEventRequest(
            kind,
            {name: value for name, value in payload.items() if value is not None},
            None if of_turn else form.context + subject,
            form.source,
        )
        return self.store_event(request.with_links(links), event_type=event_type)
