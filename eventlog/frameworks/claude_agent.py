"""The Claude Agent SDK: hooks that record its sessions as those of Claude Code, whose hooks they are.

Their interface: `ClaudeAgentOptions.hooks` of claude-agent-sdk 0.2. Each call goes to
`locus-hook claude-code` in a process of its own, so that all of docs/hooks.md holds: none of it raises,
and it ends in time.
"""

import asyncio
import json
import sys
from typing import Any

from claude_agent_sdk import HookMatcher

# Those that the SDK has; it has none for the beginning and end of a session.
EVENTS = (
    "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "SubagentStart", "SubagentStop",
    "Stop", "PreCompact", "Notification",
)  # fmt: skip
_TIMEOUT_S = 10
_PROGRAM = (sys.executable, "-m", "locus_cli.hook_entry", "claude-code")


def recording_hooks() -> dict[str, list[Any]]:
    """`ClaudeAgentOptions(hooks=recording_hooks())`: into the store of the session's working directory.

    Where `locus hooks install` was run and `setting_sources` reads those settings, each call is reported
    twice; the second report adds nothing.
    """
    return {event: [HookMatcher(hooks=[_record], timeout=_TIMEOUT_S)] for event in EVENTS}


async def _record(payload: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
    """Give one call to the hook program. The empty answer means: go on."""
    try:
        process = await asyncio.create_subprocess_exec(
            *_PROGRAM,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=payload["cwd"],
        )
        await process.communicate(json.dumps(payload).encode())
    except Exception:
        pass  # an agent works on without its record; `locus doctor` shows what is missing
    return {}
