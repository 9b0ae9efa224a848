"""Lines of a client that are not messages: each is answered with an error of JSON-RPC.

The SDK skips them, and the sender of one, a request nested too deeply say, would wait for ever.
"""

import re
from typing import Any

PARSE_ERROR, INVALID_REQUEST = -32700, -32600
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]')
_ID = re.compile(r'\s*:\s*(?:(-?\d{1,18})|"((?:[^"\\]){0,200})")\s*[,}]')


class Readable:
    """The messages of a stream; the sender of an invalid line gets an error."""

    def __init__(self, received: Any, sent: Any) -> None:
        self._received = received
        self._sent = sent

    @property
    def last_context(self) -> Any:
        return self._received.last_context

    def __aiter__(self) -> "Readable":
        return self

    async def __anext__(self) -> Any:
        async for item in self._received:
            if not isinstance(item, Exception):
                return item
            await self._sent.send(refusal(item))
        raise StopAsyncIteration

    async def aclose(self) -> None:
        await self._received.aclose()

    async def __aenter__(self) -> "Readable":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


def refusal(error: Exception) -> Any:
    """The error that answers a line which the SDK could not read."""
    import mcp_types as types
    from mcp.shared.message import SessionMessage

    of_library = getattr(error, "errors", None)  # pydantic's, with the line, or the JSON in it
    problems: list[dict[str, Any]] = of_library(include_url=False) if of_library is not None else []
    is_json = not any(problem["type"] == "json_invalid" for problem in problems)
    line = next((problem["input"] for problem in problems if isinstance(problem["input"], str)), "")
    message = problems[0]["input"] if problems and is_json else None
    id = message.get("id") if isinstance(message, dict) else id_in(line)
    if is_json:
        what = types.ErrorData(code=INVALID_REQUEST, message="Invalid request: no message of JSON-RPC 2.0.")
    else:
        text = "Parse error: the line is no JSON, or nested too deeply."
        what = types.ErrorData(code=PARSE_ERROR, message=text)
    if isinstance(id, bool) or not isinstance(id, (int, str)):
        id = None
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=id, error=what))


def id_in(line: str) -> "int | str | None":
    """The id of a request whose JSON cannot be read in full; None where there is none."""
    depth = 0
    for token in _TOKEN.finditer(line):
        text = token[0]
        if text in "{[":
            depth += 1
        elif text in "}]":
            depth -= 1
        elif depth == 1 and text == '"id"' and (match := _ID.match(line, token.end())):
            return int(match[1]) if match[1] else match[2]
    return None
