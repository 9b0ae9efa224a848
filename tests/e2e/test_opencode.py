"""OpenCode, recorded live and then imported from its own database: what both say is in the log once."""

import json
import sqlite3
from typing import Any

import pytest

from .desk import Desk
from .scenarios import SCENARIOS
from .test_turns import actions, agree, calls_of

SAME = ("turn", "intent", "action", "llm", "file", "snapshot", "tool_start", "error", "subagent")


@pytest.fixture(autouse=True)
def only_opencode(request: pytest.FixtureRequest) -> None:
    if request.getfixturevalue("client").agent != "opencode":
        pytest.skip("about OpenCode")


def imported(desk: Desk) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(desk.locus("import", "opencode", "--json"))["import"]
    return found


def kept(desk: Desk) -> list[dict[str, object]]:
    return [dict(event) for event in desk.events(*SAME)]


def test_what_was_recorded_live_is_imported_once(desk: Desk) -> None:
    """P3: turns, tool calls, model calls, files, errors and subagents that the plugin reported are found
    again in the database and are not added a second time; texts are added, once."""
    session = None
    for scenario in ("edit", "bad-input", "shell", "failing", "agents"):
        done = desk.run(scenario, resume=session)
        assert done.code == 0, done.err
        session = desk.session()
        agree(desk)
    assert set(actions(desk)) == calls_of(desk)
    before = kept(desk)

    report = imported(desk)
    assert kept(desk) == before
    assert report["sessions"] == 1 and report["problems"] == [] and report["calls"] == 0
    messages: list[dict[str, Any]] = [dict(event) for event in desk.events("message")]
    texts = [event["payload"]["text"] for event in messages]
    assert {SCENARIOS[name][-1].text for name in ("edit", "shell", "failing")} <= set(texts)
    assert len({event["event_id"] for event in messages}) == len(messages)
    assert imported(desk)["unchanged"] == 1

    desk.run("more", resume=session)
    events = len(kept(desk))
    assert imported(desk)["sources"] == 1
    assert len(kept(desk)) == events
    agree(desk)


def test_the_database_alone_says_what_happened(bare: Desk) -> None:
    """P3: a session that nobody recorded has, imported, the prompts, calls, tokens and files that it had."""
    for scenario in ("edit", "edits"):
        assert bare.run(scenario).code == 0
    data = bare.home.path / ".local/share/opencode"
    # The file `-shm` is memory that readers share: each says there what it is reading.
    before = {path.name: path.read_bytes() for path in data.glob("opencode.db*") if path.suffix != ".db-shm"}

    assert imported(bare)["sessions"] == 2
    assert set(actions(bare)) == calls_of(bare)
    agree_on_tokens(bare)
    files = [(str(one["path"]), one.get("after_hash") is not None) for one in bare.events("file")]
    # The second session shows a file that git does not have so, and a read does not tell its last line end.
    assert files == [("kiosk.py", True), ("kiosk.py", False), *[("lib/prices.py", True)] * 2]
    assert {name: (data / name).read_bytes() for name in before} == before
    with sqlite3.connect(f"file:{data}/opencode.db?mode=ro", uri=True) as rows:
        assert rows.execute("select count(*) from session").fetchone() == (2,)


def agree_on_tokens(desk: Desk) -> None:
    served = sorted((one.usage["input_tokens"], one.usage["output_tokens"]) for one in desk.served())
    assert desk.rows("select prompt_tokens, completion_tokens from llm_calls order by all") == served
