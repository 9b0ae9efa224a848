"""Model calls of Codex: which lines are one, each once.

A `token_usage_record` is one. Versions that have none write the thread's totals after each call, and again
without one: so a `token_count` is a call when its totals are others than the last. Where records are, counts
only repeat them.
"""

from typing import Any

from eventlog.agents.codex.hooks import AGENT, call_key, usage_of
from eventlog.agents.kit.call import is_global, object_of, text_of
from eventlog.agents.kit.draft import Draft, digest_of
from eventlog.base.names import event_id_of
from eventlog.base.types import Event


class Usage:
    """The model calls of one thread."""

    def __init__(self) -> None:
        self._totals: str | None = None
        self._has_records = False
        self._limits: object = None
        self._repeats = 0
        self._counts: dict[tuple[str | None, ...], int] = {}  # key → how many calls have these figures
        self._responses: set[str] = set()  # whose ids may come again

    def take_repeats(self) -> int:
        """How many counts were no call since the last time."""
        repeats, self._repeats = self._repeats, 0
        return repeats

    def pass_over(self, payload: "dict[str, Any]") -> None:
        """A count that was copied from another thread, from which this one goes on counting."""
        total = object_of(payload, "info").get("total_token_usage")
        if total is not None:
            self._totals = digest_of(total)

    def record(
        self, draft: Draft, payload: "dict[str, Any]", model: "str | None", scope: str, line: str
    ) -> None:
        self._has_records = True
        response = text_of(payload, "response_id")
        fields = {"usage": object_of(payload, "usage")}
        if response is not None and not is_global(response):
            if response in self._responses:
                response = f"{response}:{line}"  # the same word for another one
            self._responses.add(response)
        self._call(draft, fields, model, response, scope, ("llm", response or line))

    def count(self, payload: "dict[str, Any]") -> "dict[str, Any] | None":
        """What a `token_count` says that is new: with `usage` it is a call; None: nothing."""
        info = object_of(payload, "info")
        total, last = info.get("total_token_usage"), info.get("last_token_usage")
        limits = payload.get("rate_limits")
        fields: dict[str, Any] = {}
        if limits is not None and limits != self._limits:
            self._limits = fields["rate_limits"] = limits
        totals = None if total is None else digest_of(total)
        if totals is None or totals == self._totals or self._has_records:
            self._repeats += 1
            return fields or None
        self._totals = totals
        fields["usage"] = last if isinstance(last, dict) else {}
        window = info.get("model_context_window")
        if window is not None:
            fields["model_context_window"] = window
        return fields

    def tell(
        self, draft: Draft, fields: "dict[str, Any]", model: "str | None", scope: str, where: str
    ) -> None:
        """The call of the last count; `scope` is its subagent or else turn, `where` both."""
        self._call(draft, fields, model, None, scope, ("llm", where, self._totals or ""))

    def _call(
        self,
        draft: Draft,
        fields: "dict[str, Any]",
        model: "str | None",
        response: "str | None",
        scope: str,
        former_key: "tuple[str, ...]",
    ) -> None:
        usage = fields["usage"]
        first = call_key(scope, usage)
        number = self._counts[first] = self._counts.get(first, -1) + 1
        key = former_key if None in first else call_key(scope, usage, number)
        columns: Event = {"model": model, **usage_of(usage)}
        if response is not None:
            columns["message_id"] = draft.answer_id(response, lambda: columns)
        call = draft.event("llm", fields, *key, **columns)
        if all(former_key):
            call["former_id"] = event_id_of(AGENT, *former_key)
