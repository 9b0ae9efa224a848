"""Copilot chats of VS Code: one document, or a document and the changes made to it, line by line.

What it rests on: a line `{kind: 0, v}` is the document, `{kind: 1, k, v}` sets a value in it, and
`{kind: 2, k, v, i}` puts values at the end of a list, from `i` on when that is given; so a chat is recorded
at the end of its file. The rounds of a request hold what the model said and called, else the parts shown do.
"""

from typing import Any

from eventlog.agents.kit.call import object_of, text_of, without
from eventlog.agents.kit.draft import Draft, digest_of
from eventlog.agents.kit.steps import Steps, arguments_of
from eventlog.agents.kit.words import objects_of

_Object = dict[str, Any]
_PATH_MAX = 32  # changes could build what is nested too deep to be looked through
_OF_REQUEST = ("requestId", "message", "timestamp", "modelId")


def recognises(record: _Object) -> bool:
    chat = object_of(record, "v") if record.get("kind") == 0 else record
    return isinstance(chat.get("requests"), list) and ("sessionId" in chat or "responderUsername" in chat)


class Chat:
    """One chat."""

    def __init__(self, draft: Draft, tell: Steps) -> None:
        self._draft = draft
        self._tell = tell
        self._document: _Object = {}
        self._odd: list[_Object] = []

    def take(self, record: _Object) -> None:
        if not self._document and recognises(record):
            self._document, self._odd = record, []
            if record.get("kind") == 0:
                self._document = object_of(record, "v")
                self._odd = [rest] if (rest := without(record, "kind", "v")) else []
            self._draft.begin_session(
                text_of(self._document, "sessionId") or self._first(), without(self._document, "requests")
            )
        elif not _change(self._document, record):
            self._odd.append(record)

    def end(self) -> None:
        for number, request in enumerate(objects_of(self._document.get("requests"))):
            self._request(number, request)
        for number, odd_record in enumerate(self._odd):
            self._tell.begin(f"odd-{number}")
            self._tell.rest(odd_record, "change")

    def _first(self) -> str:
        """A chat without an id is named by when it began, and its first request."""
        first = (text_of(request, "requestId") for request in objects_of(self._document.get("requests")))
        return digest_of([self._document.get("creationDate"), next(first, None)])

    def _request(self, number: int, request: _Object) -> None:
        tell, at, key = self._tell, request.get("timestamp"), text_of(request, "requestId")
        model = text_of(request, "modelId")
        result = object_of(request, "result")
        metadata = object_of(result, "metadata")
        rounds, results = (
            objects_of(metadata.get("toolCallRounds")),
            dict(object_of(metadata, "toolCallResults")),
        )
        tell.begin(key or number, at, model=model)
        message = object_of(request, "message")
        text = message.get("text")
        tell.prompt(text if isinstance(text, str) else "", without(message, "text"), key)
        tell.begin(key or number, at, model=model, agent_turn_id=self._draft.turn)
        for round_ in rounds:
            thought = object_of(round_, "thinking")
            thinking: Any = thought.get("text")
            text = "\n".join(thinking) if _is_texts(thinking) else thinking
            tell.say("reasoning", text, **without(thought, "text"))
            tell.say("text", round_.get("response"), **without(round_, "response", "toolCalls", "thinking"))
            for call in objects_of(round_.get("toolCalls")):
                call_id = text_of(call, "id") or digest_of(call)
                others = without(call, "id", "name", "arguments")
                tell.call(call_id, text_of(call, "name"), arguments_of(call), **others)
                if call_id in results:
                    tell.result(call_id, results.pop(call_id))
        if not rounds:
            self._shown(objects_of(request.get("response")))
        if request.get("isCanceled") is True:
            self._draft.status = "interrupted"
        rest = without(request, *_OF_REQUEST, *(() if rounds else ("response",)))
        if metadata:
            about = without(metadata, "toolCallRounds", "toolCallResults")
            rest["result"] = {
                **result,
                "metadata": {**about, **({"toolCallResults": results} if results else {})},
            }
        tell.rest(rest, "request")

    def _shown(self, parts: "list[_Object]") -> None:
        texts = [part["value"] for part in parts if "kind" not in part and isinstance(part.get("value"), str)]
        self._tell.say("text", "".join(texts))
        for part in parts:
            call_id = text_of(part, "toolCallId")
            if part.get("kind") == "toolInvocationSerialized" and call_id is not None:
                self._tell.call(call_id, text_of(part, "toolId"), None)
                self._tell.result(
                    call_id, part.get("resultDetails"), **without(part, "resultDetails", "kind")
                )
            elif "kind" in part:
                self._tell.rest(part, text_of(part, "kind"))


def _change(chat: _Object, record: _Object) -> bool:
    """Make a change to the document; False when it fits nothing in it."""
    path, value = record.get("k"), record.get("v")
    if record.get("kind") not in (1, 2) or not isinstance(path, list) or not 0 < len(path) <= _PATH_MAX:
        return False
    parent: Any = chat
    try:
        for name in path[:-1]:
            parent = parent[name]
        if record["kind"] == 1:
            parent[path[-1]] = value
            return True
        values, start = parent[path[-1]], record.get("i")
        values[len(values) if start is None else start :] = value if isinstance(value, list) else []
        return True
    except (LookupError, TypeError, AttributeError):
        return False


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
