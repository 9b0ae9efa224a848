"""A model server on 127.0.0.1 that plays the scenarios: Anthropic Messages and OpenAI Responses.

It is stateless: the ids of the calls it makes say which step they belong to, so the conversation a
client sends tells which step is next, also after a resume, in a fork and in a subagent. Serves any
number of clients at once. Keeps every request's summary and what it answered in `served`, which is
what tests compare the log with. Keeps no request whole: they hold the vendors' system prompts. As the
clients' proxy it refuses every other address, and lists it in `strays`.

    with FakeModel(project, scratch) as model:
        run_the_client(base_url=model.url)
        model.served
"""

import gzip
import itertools
import json
import re
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .scenarios import RECORDED, SCENARIOS, Call, Step

Json = dict[str, Any]

_MARKER = re.compile(r"\[scenario:([a-z-]+)\]")
_STEP = re.compile(r"_s(\d+)_\d+$")
_HEADING = "# Briefing: "
_OURS = re.compile("^(The person asks to|These are the last turns)", re.M)
_NOTHING = Step("There is nothing to do.")


@dataclass(frozen=True)
class Served:
    """One answer: where, of which scenario and step, under which id, with which use of tokens."""

    api: str
    scenario: str | None
    step: int
    message_id: str
    status: int
    usage: Json
    calls: tuple[str, ...]
    tools: tuple[str, ...] = ()  # what the client offered
    told: bool = False  # whether the request held what only the record has
    briefings: tuple[str, ...] = ()  # that the request held, each from its heading on
    prompts: tuple[str, ...] = ()  # what a slash command of ours made of the person's last prompt
    asked: tuple[str, ...] = ()  # scenarios that the request names, also those of earlier prompts


class FakeModel:
    """The server and what it answered. A context manager; ends its threads when left."""

    def __init__(self, project: Path, scratch: Path) -> None:
        self.project = project
        self.scratch = scratch
        self.served: list[Served] = []
        self.strays: list[str] = []
        self._salt = secrets.token_hex(4)  # ids are global keys: two servers make different ones
        self._numbers = itertools.count(1)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"model": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "FakeModel":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{self._salt}{next(self._numbers):04d}"


def next_step(texts: list[tuple[int, str]], calls: list[tuple[int, str]]) -> tuple[str | None, int, Step]:
    """(scenario, its step's number, the step) that a conversation has come to.

    Args:
        texts: what users said, each with its place in the conversation.
        calls: the ids of the calls made so far, each with its place.
    """
    begun = [(place, found[-1]) for place, text in texts if (found := _MARKER.findall(text))]
    if not begun or begun[-1][1] not in SCENARIOS:
        return None, 0, _NOTHING
    place, name = begun[-1]
    steps = SCENARIOS[name]
    made = [int(match[1]) for at, call_id in calls if at > place and (match := _STEP.search(call_id))]
    number = min(max(made, default=-1) + 1, len(steps) - 1)
    return name, number, steps[number]


class _Handler(BaseHTTPRequestHandler):
    model: FakeModel
    protocol_version = "HTTP/1.1"
    _tools: tuple[str, ...] = ()  # of the request at hand
    _told = False
    _briefings: tuple[str, ...] = ()
    _prompts: tuple[str, ...] = ()
    _asked: tuple[str, ...] = ()

    def log_message(self, *_: object) -> None:
        pass

    def parse_request(self) -> bool:
        """Clients take this for their proxy: whoever wants to leave the machine is seen, and refused."""
        if not super().parse_request():
            return False
        if self.command != "CONNECT" and self.path.startswith("/"):
            return True
        self.model.strays.append(self.path)
        self.send_error(403)
        return False

    def do_HEAD(self) -> None:
        self._json({})

    def do_GET(self) -> None:
        self._json({"object": "list", "data": [], "models": []})

    def do_POST(self) -> None:
        request = self._request()
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": 1000})
        elif path.endswith("/messages"):
            self._messages(request)
        elif path.endswith("/chat/completions"):
            self._chat(request)
        elif path.endswith("/responses"):
            self._responses(request)
        elif path.endswith(("enerateContent", "countTokens")):
            self._gemini(request, path)
        else:
            self._json({})

    def _request(self) -> Json:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b"".join(self._chunks())
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            data = gzip.decompress(data)
        self._told = RECORDED.encode() in data
        self._asked = tuple(_MARKER.findall(data.decode("latin-1")))
        try:
            value = json.loads(data or b"{}")
        except ValueError:
            value = None
        self._briefings = tuple(_briefings_in(value))
        return value if isinstance(value, dict) else {}

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _json(self, value: Json, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self, events: list[Json], request_id: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("request-id", request_id)
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events:
            kind = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{kind}data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()

    def _messages(self, request: Json) -> None:
        tools = {str(tool.get("name")) for tool in request.get("tools") or ()}
        self._tools = tuple(sorted(tools))
        texts, made = _anthropic_conversation(request)
        last = max((place for place, _ in texts), default=0)
        self._prompts = tuple(text for place, text in texts if place == last and _OURS.search(text))
        name, number, step = next_step(texts, made)
        if not tools:  # a side question of the client's own, such as a title for the session
            name, number, step = None, 0, Step('{"title": "A kiosk"}')
        message_id, n = self.model.new_id("msg"), len(self.model.served)
        usage = {
            "input_tokens": 1200 + n,
            "cache_creation_input_tokens": 10,
            "cache_read_input_tokens": 900,
            "output_tokens": 40 + n,
        }
        calls = [
            {
                "type": "tool_use",
                "id": f"{self.model.new_id('toolu')}_s{number}_{i}",
                **self._claude(call, tools),
            }
            for i, call in enumerate(step.calls)
            if call.kind != "wait"  # it is notified when a subagent ends
        ]
        self._keep("messages", name, number, message_id, step, usage, calls, "id")
        if step.status != 200:
            error = {"type": "invalid_request_error", "message": "the fake model refuses"}
            return self._json({"type": "error", "error": error}, step.status)
        blocks = [{"type": "text", "text": step.text}, *calls]
        message = {
            "id": message_id, "type": "message", "role": "assistant", "model": request.get("model"),
            "content": blocks, "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None,
            "usage": usage,
        }  # fmt: skip
        if not request.get("stream"):
            return self._json(message)
        return self._stream(_anthropic_events(message), self.model.new_id("req"))

    def _claude(self, call: Call, tools: set[str]) -> Json:
        path = str(self.model.project / call.path)
        if call.kind == "mcp":
            return {"name": f"mcp__locus__{call.path}", "input": json.loads(call.command)}
        if call.kind == "read":
            return {"name": "Read", "input": {"file_path": path}}
        if call.kind == "edit":
            return {
                "name": "Edit",
                "input": {"file_path": path, "old_string": call.old, "new_string": call.new},
            }
        if call.kind == "write":
            return {"name": "Write", "input": {"file_path": path, "content": call.new}}
        if call.kind == "agent":
            task = {"description": "A part", "prompt": call.command, "subagent_type": "general-purpose"}
            return {"name": "Agent" if "Agent" in tools else "Task", "input": task}
        return {"name": "Bash", "input": {"command": self._command(call), "description": "Run it"}}

    def _responses(self, request: Json) -> None:
        tools = {str(tool.get("name")): str(tool.get("type")) for tool in request.get("tools") or ()}
        name, number, step = next_step(*_openai_conversation(request))
        response_id, n = self.model.new_id("resp"), len(self.model.served)
        usage = {
            "input_tokens": 1000 + n,
            "input_tokens_details": {"cached_tokens": 500},
            "output_tokens": 50 + n,
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": 1050 + 2 * n,
        }
        calls = [
            {
                "id": self.model.new_id("fc"),
                "call_id": f"{self.model.new_id('call')}_s{number}_{i}",
                "status": "completed",
                **self._codex(call, tools),
            }
            for i, call in enumerate(step.calls)
        ]
        self._keep("responses", name, number, response_id, step, usage, calls, "call_id")
        if step.status != 200:
            error = {"message": "the fake model refuses", "type": "invalid_request_error"}
            return self._json({"error": error}, step.status)
        payload = {
            "type": "message", "id": self.model.new_id("msg"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": step.text, "annotations": []}],
        }  # fmt: skip
        response: Json = {
            "id": response_id,
            "object": "response",
            "model": request.get("model"),
            "output": [],
        }
        return self._stream(_openai_events(response, [payload, *calls], usage), self.model.new_id("req"))

    def _codex(self, call: Call, tools: dict[str, str]) -> Json:
        if call.kind == "mcp":
            asked = _function(call.path, json.loads(call.command))
            return {**asked, "namespace": "mcp__locus"}
        if call.kind == "agent":
            task = {"message": call.command, "task_name": f"part_{call.path}"}
            return {**_function("spawn_agent", task), "namespace": "collaboration"}
        if call.kind == "wait":
            return {**_function("wait_agent", {"timeout_ms": 1000}), "namespace": "collaboration"}
        if call.kind == "read":
            return _codex_shell(f"cat '{call.path}'", tools)
        if call.kind == "shell":
            return _codex_shell(self._command(call), tools)
        patch = _patch_of(call)
        if "apply_patch" not in tools:
            return _codex_shell(f"apply_patch <<'PATCH'\n{patch}PATCH", tools)
        if tools["apply_patch"] == "custom":
            return {"type": "custom_tool_call", "name": "apply_patch", "input": patch}
        return _function("apply_patch", {"input": patch})

    def _chat(self, request: Json) -> None:
        offered = [one.get("function") or {} for one in request.get("tools") or ()]
        self._tools = tuple(sorted(str(one.get("name")) for one in offered))
        name, number, step = next_step(*_chat_conversation(request))
        if not request.get("tools"):  # a side question of the client's own, such as a title for the session
            name, number, step = None, 0, Step("A kiosk")
        response_id, n = self.model.new_id("chatcmpl"), len(self.model.served)
        usage = {"input_tokens": 1000 + n, "output_tokens": 50 + n}
        calls = [
            {
                "index": i,
                "id": f"{self.model.new_id('call')}_s{number}_{i}",
                "type": "function",
                "function": self._opencode(call),
            }
            for i, call in enumerate(step.calls)
            if call.kind != "wait"  # the tool itself waits for its subagent
        ]
        self._keep("chat", name, number, response_id, step, usage, calls, "id")
        if step.status != 200:
            error = {"message": "the fake model refuses", "type": "invalid_request_error"}
            return self._json({"error": error}, step.status)
        base = {"id": response_id, "object": "chat.completion.chunk", "model": request.get("model")}
        payload = {"role": "assistant", "content": step.text, **({"tool_calls": calls} if calls else {})}
        used = {
            "prompt_tokens": usage["input_tokens"],
            "prompt_tokens_details": {"cached_tokens": 500},
            "completion_tokens": usage["output_tokens"],
            "completion_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": usage["input_tokens"] + usage["output_tokens"],
        }
        finish = "tool_calls" if calls else "stop"
        chunks = [
            {**base, "choices": [{"index": 0, "delta": payload, "finish_reason": None}]},
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": used},
        ]
        return self._stream(chunks, self.model.new_id("req"))

    def _opencode(self, call: Call) -> Json:
        path = str(self.model.project / call.path)
        arguments: Json = {"filePath": path}
        tool = call.kind
        if call.kind == "mcp":
            return {"name": f"locus_{call.path}", "arguments": call.command}
        if call.kind == "edit":
            arguments |= {"oldString": call.old, "newString": call.new}
        elif call.kind == "write":
            arguments |= {"content": call.new}
        elif call.kind == "agent":
            tool = "task"
            arguments = {"description": "A part", "prompt": call.command, "subagent_type": "general"}
        elif call.kind == "shell":
            tool = "bash"
            arguments = {"command": self._command(call), "description": "Run it"}
        return {"name": tool, "arguments": json.dumps(arguments)}

    def _gemini(self, request: Json, path: str) -> None:
        if path.endswith("countTokens"):
            return self._json({"totalTokens": 1000})
        offered = [
            one for tool in request.get("tools") or () for one in tool.get("functionDeclarations") or ()
        ]
        self._tools = tuple(sorted(str(one.get("name")) for one in offered))
        name, number, step = next_step(*_gemini_conversation(request))
        if not request.get("tools"):  # a side question of the client's own
            name, number, step = None, 0, Step('{"reasoning": "", "next_speaker": "user"}')
        response_id, n = self.model.new_id("resp"), len(self.model.served)
        usage = {
            "promptTokenCount": 1100 + n,
            "candidatesTokenCount": 30 + n,
            "thoughtsTokenCount": 5,
            "cachedContentTokenCount": 500,
            "totalTokenCount": 1135 + 2 * n,
        }
        used = {"input_tokens": 1100 + n, "output_tokens": 35 + n}
        asked = [self._of_gemini(call) for call in step.calls if call.kind != "wait"]  # the tool waits
        if not asked and "complete_task" in self._tools:  # how a subagent ends
            asked = [{"name": "complete_task", "args": {"result": {"response": step.text}}}]
        calls = [{"call": f"{response_id}_{i}", **one} for i, one in enumerate(asked)]
        self._keep("gemini", name, number, response_id, step, used, calls, "call")
        if step.status != 200:
            error = {"code": step.status, "message": "the fake model refuses", "status": "INVALID_ARGUMENT"}
            return self._json({"error": error}, step.status)
        made = [{"functionCall": {"name": one["name"], "args": one["args"]}} for one in calls]
        candidate = {"content": {"role": "model", "parts": [{"text": step.text}, *made]}, "index": 0}
        answer = {"modelVersion": "fake", "responseId": response_id}
        last = {**answer, "candidates": [{**candidate, "finishReason": "STOP"}], "usageMetadata": usage}
        if not path.endswith("streamGenerateContent"):
            return self._json(last)
        return self._stream([last], response_id)

    def _of_gemini(self, call: Call) -> Json:
        path = str(self.model.project / call.path)
        if call.kind == "mcp":
            return {"name": f"mcp_locus_{call.path}", "args": json.loads(call.command)}
        if call.kind == "read":
            return {"name": "read_file", "args": {"file_path": path}}
        if call.kind == "edit":
            args = {"file_path": path, "old_string": call.old, "new_string": call.new, "instruction": "Edit"}
            return {"name": "replace", "args": args}
        if call.kind == "write":
            return {"name": "write_file", "args": {"file_path": path, "content": call.new}}
        if call.kind == "agent":
            task = {"agent_name": "generalist", "prompt": call.command}
            return {"name": "invoke_agent", "args": task}
        args = {"command": self._command(call), "description": "Run it"}
        return {"name": "run_shell_command", "args": args}

    def _command(self, call: Call) -> str:
        return call.command.replace("{scratch}", str(self.model.scratch))

    def _keep(
        self, api: str, name: str | None, number: int, message_id: str, step: Step, usage: Json,
        calls: list[Json], key: str,
    ) -> None:  # fmt: skip
        made = tuple(str(call[key]) for call in calls)
        self.model.served.append(
            Served(
                api,
                name,
                number,
                message_id,
                step.status,
                usage,
                made,
                self._tools,
                self._told,
                self._briefings,
                self._prompts,
                self._asked,
            )
        )


def _briefings_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        for part in value.split(_HEADING)[1:]:
            yield _HEADING + part
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _briefings_in(inner)


def _anthropic_conversation(request: Json) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    texts, calls = [], []
    for place, message in enumerate(request.get("messages") or ()):
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
        for block in blocks:
            if message.get("role") == "user" and block.get("type") == "text":
                texts.append((place, str(block.get("text"))))
            elif block.get("type") == "tool_use":
                calls.append((place, str(block.get("id"))))
    return texts, calls


def _anthropic_events(message: Json) -> list[Json]:
    started = {
        **message,
        "content": [],
        "stop_reason": None,
        "usage": {**message["usage"], "output_tokens": 1},
    }
    events: list[Json] = [{"type": "message_start", "message": started}]
    for i, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": i, "content_block": empty},
            {"type": "content_block_delta", "index": i, "delta": delta},
            {"type": "content_block_stop", "index": i},
        ]
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    used = {"output_tokens": message["usage"]["output_tokens"]}
    return [*events, {"type": "message_delta", "delta": ended, "usage": used}, {"type": "message_stop"}]


def _openai_conversation(request: Json) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    texts, calls = [], []
    items = request.get("input")
    for place, item in enumerate(items if isinstance(items, list) else ()):
        if item.get("role") == "user" or item.get("type") == "agent_message":  # of a person, of another agent
            texts.append((place, json.dumps(item.get("content"))))
        elif str(item.get("type")).endswith("_call"):
            calls.append((place, str(item.get("call_id"))))
    return texts, calls


def _openai_events(response: Json, output: list[Json], usage: Json) -> list[Json]:
    events: list[Json] = [{"type": "response.created", "response": {**response, "status": "in_progress"}}]
    for i, item in enumerate(output):
        events.append(
            {
                "type": "response.output_item.added",
                "output_index": i,
                "item": {**item, "status": "in_progress"},
            }
        )
        events.append({"type": "response.output_item.done", "output_index": i, "item": item})
    done = {**response, "status": "completed", "output": output, "usage": usage}
    events.append({"type": "response.completed", "response": done})
    return [{**event, "sequence_number": i} for i, event in enumerate(events)]


def _chat_conversation(request: Json) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    texts, calls = [], []
    for place, message in enumerate(request.get("messages") or ()):
        if message.get("role") == "user":
            texts.append((place, json.dumps(message.get("content"))))
        calls += [(place, str(call.get("id"))) for call in message.get("tool_calls") or ()]
    return texts, calls


def _gemini_conversation(request: Json) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Its calls have no ids that come back, so they are counted."""
    texts: list[tuple[int, str]] = []
    calls: list[tuple[int, str]] = []
    made = 0
    for place, content in enumerate(request.get("contents") or ()):
        parts = content.get("parts") or ()
        text = " ".join(str(part["text"]) for part in parts if "text" in part)
        if content.get("role") == "user" and _MARKER.search(text):
            texts.append((place, text))
            made = 0
        elif any("functionCall" in part for part in parts):
            calls.append((place, f"call_s{made}_0"))
            made += 1
    return texts, calls


def _function(name: str, arguments: Json) -> Json:
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}


def _codex_shell(command: str, tools: dict[str, str]) -> Json:
    if "exec_command" in tools:
        return _function("exec_command", {"cmd": command})
    if "shell_command" in tools:
        return _function("shell_command", {"command": command})
    return _function("shell", {"command": ["bash", "-lc", command]})


def _patch_of(call: Call) -> str:
    if call.kind == "write":
        added = "".join(f"+{line}\n" for line in call.new.splitlines())
        return f"*** Begin Patch\n*** Add File: {call.path}\n{added}*** End Patch\n"
    return f"*** Begin Patch\n*** Update File: {call.path}\n@@\n-{call.old}\n+{call.new}\n*** End Patch\n"
