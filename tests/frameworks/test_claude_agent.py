"""The Claude Agent SDK with a scripted Claude Code, which speaks the SDK's protocol and starts no program."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from eventlog import Store
from tests.frameworks.conftest import turns

sdk = pytest.importorskip(
    "claude_agent_sdk", reason="claude-agent-sdk is not installed: the stage 35-examples has it"
)

from eventlog.frameworks import claude_agent  # noqa: E402


class ScriptedClaude(sdk.Transport):  # type: ignore[name-defined, misc, unused-ignore]
    """Calls the hooks that the SDK registered, as Claude Code does, and then ends the turn."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.hooks: dict[str, list[str]] = {}
        self.answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.script: asyncio.Task[None] | None = None

    async def connect(self) -> None: ...

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None: ...

    async def close(self) -> None: ...

    async def write(self, data: str) -> None:
        for line in filter(None, data.splitlines()):
            message = json.loads(line)
            if message["type"] == "control_request":
                self._register(message["request"].get("hooks") or {})
                done = {"subtype": "success", "request_id": message["request_id"], "response": {}}
                self.inbox.put_nowait({"type": "control_response", "response": done})
            elif message["type"] == "control_response":
                response = message["response"]
                self.answers[response["request_id"]].set_result(response)
            elif message["type"] == "user":
                self.script = asyncio.create_task(self._work(message["message"]["content"]))

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while True:
            yield await self.inbox.get()

    def _register(self, hooks: dict[str, Any]) -> None:
        for event, matchers in hooks.items():
            self.hooks[event] = [name for matcher in matchers for name in matcher["hookCallbackIds"]]

    async def _hook(self, event: str, **fields: Any) -> None:
        payload = {
            "hook_event_name": event,
            "session_id": "11111111-2222-4333-8444-555555555555",
            "transcript_path": str(self.work.parent / "none.jsonl"),
            "cwd": str(self.work),
            "prompt_id": "p-1",
            **fields,
        }
        for callback in self.hooks.get(event, []):
            number = f"hook-{len(self.answers)}"
            self.answers[number] = asyncio.get_running_loop().create_future()
            request = {
                "subtype": "hook_callback",
                "callback_id": callback,
                "input": payload,
                "tool_use_id": None,
            }
            self.inbox.put_nowait({"type": "control_request", "request_id": number, "request": request})
            answer = await self.answers[number]
            assert (answer["subtype"], answer["response"]) == ("success", {}), answer

    async def _work(self, prompt: str) -> None:
        call = {
            "tool_name": "Write",
            "tool_input": {"file_path": str(self.work / "notes.txt"), "content": "two\n"},
            "tool_use_id": "toolu_x1",
        }
        await self._hook("UserPromptSubmit", prompt=prompt)
        await self._hook("PreToolUse", **call)
        (self.work / "notes.txt").write_text("two\n")
        await self._hook("PostToolUse", **call, tool_response={"type": "update"})
        await self._hook("Stop", stop_hook_active=False, last_assistant_message="Done.")
        self.inbox.put_nowait(
            {
                "type": "result",
                "subtype": "success",
                "duration_ms": 1,
                "duration_api_ms": 1,
                "is_error": False,
                "num_turns": 1,
                "session_id": "s",
                "result": "Done.",
            }
        )


async def converse(work: Path, prompt: str) -> list[Any]:
    options = sdk.ClaudeAgentOptions(cwd=str(work), hooks=claude_agent.recording_hooks())
    transport = ScriptedClaude(work)
    async with sdk.ClaudeSDKClient(options, transport=transport) as client:
        await client.query(prompt)
        messages = [message async for message in client.receive_response()]
    assert transport.script is not None and transport.script.exception() is None
    return messages


def test_a_session_is_recorded_as_one_of_claude_code(store: Store, work: Path, tmp_path: Path) -> None:
    """The request, the tool, the bytes it changed; the turn replays from its start and its end."""
    messages = asyncio.run(converse(work, "Write two"))

    assert messages[-1].result == "Done."
    assert [row[:2] for row in turns(store)] == [("Write two", "completed")]
    assert store.query(
        "select agent, event_type, path from events where event_type in ('action', 'file')"
    ).rows == [
        ("claude-code", "action", "notes.txt"),
        ("claude-code", "file", "notes.txt"),
    ]
    assert (store.file("last", "notes.txt", at="start"), store.file("last", "notes.txt")) == (
        b"one\n",
        b"two\n",
    )


def test_every_event_of_the_sdk_is_one_that_locus_reads() -> None:
    """What the SDK has and Claude Code's hooks of ours want; permission requests are to be answered."""
    from typing import get_args

    from claude_agent_sdk import types

    from eventlog import agents

    spec = agents.spec_of("claude-code")
    assert spec is not None and spec.settings is not None
    offered = {name for part in get_args(types.HookEvent) for name in (get_args(part) or (part,))}

    assert set(claude_agent.EVENTS) == offered & set(spec.settings.events)


def test_a_recorder_that_cannot_start_does_not_stop_the_agent(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the program, the session has its answer."""
    monkeypatch.setattr(claude_agent, "_PROGRAM", ("/nowhere/python",))

    assert asyncio.run(converse(work, "Write two"))[-1].result == "Done."
