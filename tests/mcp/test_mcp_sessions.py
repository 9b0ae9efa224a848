"""What the tools about sessions do to sessions that nobody ended."""

import time
from pathlib import Path

from eventlog.mcp.call import ToolCall
from eventlog.mcp.tools import tools_for
from eventlog.memory import intent
from eventlog.recorder import lifecycle
from eventlog.store import Store

HOUR_US = 3_600_000_000


def test_a_start_closes_what_nobody_ended_for_a_day(tmp_path: Path) -> None:
    """S3-29, S3-30, S3-31, S3-34: a session that crashed 25 hours ago is over as of 24 hours after it began,
    one of 23 hours ago is not."""
    root, now_us = tmp_path / ".locus", time.time_ns() // 1000
    with Store.init(root) as store:
        for agent, hours in (("crashed", 25), ("busy", 23)):
            sid, at = f"{agent:0<8}", now_us - hours * HOUR_US
            begun = lifecycle.session_start(sid, agent, "Go", store.repo_hash, agent=agent, occurred_at=at)
            store.append([begun])
    tool = next(one for one in tools_for("claude-code") if one.name == "session_start")
    ToolCall.of(tool, {"focus": "Tidy up"}).answer(str(root))

    with Store.open(root) as store:
        assert {one.agent for one in intent.listed(store)} == {"busy", "claude-code"}
        [end] = [e for e in store.events(event_types=["session"]) if e["operation"] == "end"]
        assert (end["agent"], end["occurred_at"]) == ("crashed", now_us - HOUR_US)
