"""Chats of Gemini CLI: both forms, each message reported once, whole."""

import hashlib
import json
from pathlib import Path
from typing import Any

from eventlog.doctor import gaps
from eventlog.importers import importer, sources
from eventlog.importers.importer import ImportReport
from eventlog.store import Store

SESSION = "7d9c2f7e-0000-4000-8000-000000000002"
HEAD = {"sessionId": SESSION, "projectHash": "00", "startTime": "2026-11-20T09:00:00.000Z", "kind": "main"}
CONTEXT = "<session_context>\nThis is the Gemini CLI.\n- **Workspace Directories:**\n  - /home/dev/shop\n"
TOKENS = {"input": 800, "output": 20, "cached": 300, "thoughts": 7, "tool": 5, "total": 832}


def message(number: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": f"m{number}",
        "timestamp": f"2026-11-20T09:00:{number:02d}.000Z",
        "type": kind,
        "content": content,
        **more,
    }


def edit(number: int, before: str, after: str) -> dict[str, Any]:
    return {
        "id": f"t{number}",
        "name": "replace" if before else "write_file",
        "args": {"file_path": "/home/dev/shop/a.py"},
        "status": "success",
        "result": [{"functionResponse": {"response": {"output": "written"}}}],
        "resultDisplay": {
            "filePath": "/home/dev/shop/a.py",
            "originalContent": before,
            "newContent": after,
            "isNewFile": not before,
            "diffStat": {"model_added_lines": 1, "model_removed_lines": 1 if before else 0},
        },
    }


FIRST = message(2, "gemini", "I write.", tokens=TOKENS, model="gemini-2.5-flash")
MESSAGES = [
    message(1, "user", [{"text": "<hook_context>be brief</hook_context>\n\nadd a price"}]),
    {**FIRST, "toolCalls": [edit(1, "", "price = 1\n")]},
    message(3, "user", [{"functionResponse": {"id": "t1"}}]),
    message(4, "gemini", "Done.", tokens=TOKENS, toolCalls=[edit(2, "price = 1\n", "price = 2\n")]),
]


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in store.query(sql).rows]


def import_of(store: Store, path: Path) -> ImportReport:
    return importer.run(store, "gemini-cli", sources.named("gemini-cli", [str(path)]))


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def check(store: Store) -> None:
    assert rows(store, "select title, user_request, outcome, tool_calls from turns") == [
        ("add a price", "add a price", "Done.", 2)
    ]
    assert rows(
        store,
        "select count(*), sum(prompt_tokens), sum(completion_tokens), sum(cache_read_tokens) from llm_calls",
    ) == [(2, 1610, 54, 600)]
    files = rows(store, "select operation, before_hash, after_hash, lines_added from files order by position")
    assert [(one[0], one[3]) for one in files] == [("add", 1), ("edit", 1)]
    assert store.blob(files[1][1]) == b"price = 1\n"
    assert store.blob(files[1][2]) == b"price = 2\n"


def test_messages_written_again_with_more_fields_count_once(tmp_path: Path) -> None:
    """P3: of the lines with one id the last counts; tokens from cache are part of the input, thoughts are not
    part of the output."""
    context = {"$set": {"messages": [message(0, "user", [{"text": CONTEXT}])]}}
    updated = {"$set": {"lastUpdated": "2026-11-20T09:00:09.000Z"}}
    lines = [HEAD, context, MESSAGES[0], FIRST, updated, *MESSAGES[1:], updated]
    path = tmp_path / "session.jsonl"
    with Store.init(tmp_path / ".locus") as store:
        import_of(store, written(path, lines[:4]))
        import_of(store, written(path, lines))
        check(store)
        assert import_of(store, path).unchanged == 1


def test_a_chat_that_is_one_document_is_read_too(tmp_path: Path) -> None:
    """The older form: the same session as one JSON object on many lines."""
    path = tmp_path / "session.json"
    with_context = [message(0, "user", CONTEXT), *MESSAGES]
    path.write_text(json.dumps({**HEAD, "messages": with_context}, indent=2))
    with Store.init(tmp_path / ".locus") as store:
        import_of(store, path)
        check(store)


def test_a_subagents_chat_is_read_with_its_session(tmp_path: Path) -> None:
    """P3: what a subagent asked, answered and called is under its session, in the turn that launched it,
    with its id; its model calls count, once, also when its chat grows or is met by itself."""
    chats = tmp_path / "chats"
    (chats / SESSION).mkdir(parents=True)
    launch = {
        "id": "t5", "name": "invoke_agent", "args": {"agent_name": "generalist", "prompt": "count"},
        "status": "success", "agentId": "helper-1", "timestamp": "2026-11-20T09:00:15.000Z",
    }  # fmt: skip
    answer = message(11, "gemini", "I ask.", tokens=TOKENS)
    main = [
        HEAD,
        *MESSAGES,
        message(10, "user", [{"text": "ask around"}]),
        answer,
        {**answer, "toolCalls": [launch]},
        message(16, "gemini", "It is done.", tokens=TOKENS),
        message(17, "user", [{"text": "thanks"}]),
    ]
    inner = [
        {**HEAD, "sessionId": "helper-1", "startTime": "2026-11-20T09:00:12.000Z", "kind": "subagent"},
        message(12, "user", [{"text": "count"}]),
        message(13, "gemini", "I edit.", tokens=TOKENS, toolCalls=[edit(4, "price = 2\n", "price = 4\n")]),
        message(14, "gemini", "Counted.", tokens=TOKENS),
    ]
    path, helper = chats / "session-2026-11-20T09-00-7d9c2f7e.jsonl", chats / SESSION / "helper-1.jsonl"
    with Store.init(tmp_path / ".locus") as store:
        written(path, main[:-3])
        written(helper, inner[:2])
        import_of(store, path)
        written(helper, inner)
        import_of(store, written(path, main))
        assert import_of(store, chats).unchanged == 1

        assert rows(store, "select user_request, outcome from turns order by context_id") == [
            ("add a price", "Done."), ("ask around", "It is done."), ("thanks", None),
        ]  # fmt: skip
        assert rows(
            store,
            "select event_type, operation, tool_use_id, turn from events where subagent_id = 'helper-1' "
            "order by position",
        ) == [
            ("subagent", "start", None, 2),
            ("transcript", "prompt", None, 2),
            ("message", "text", None, 2),
            ("llm", None, None, 2),
            ("action", None, "t4", 2),
            ("file", "edit", "t4", 2),
            ("message", "text", None, 2),
            ("llm", None, None, 2),
            ("subagent", "end", None, 2),
        ]
        assert rows(store, "select count(*) from llm_calls") == [(6,)]


def test_a_cancelled_call_is_a_refusal_and_changes_no_file(tmp_path: Path) -> None:
    """P7: what the user refused is an action that failed, with an error that says so."""
    refused = {**edit(3, "price = 2\n", "price = 3\n"), "status": "cancelled", "resultDisplay": None}
    lines = [HEAD, MESSAGES[0], message(5, "gemini", "", toolCalls=[refused])]
    with Store.init(tmp_path / ".locus") as store:
        import_of(store, written(tmp_path / "session.jsonl", lines))
        assert rows(store, "select tool, success from actions") == [("replace", False)]
        assert rows(store, "select error_type from errors") == [("refused",)]
        assert rows(store, "select count(*) from files") == [(0,)]


def test_a_session_that_goes_on_repeats_nothing(tmp_path: Path) -> None:
    """P3: a resumed chat starts over and lists all its messages: they are the ones before, turns too."""
    again = {"$set": {"messages": MESSAGES}}
    new = [message(8, "user", [{"text": "and one more"}]), message(9, "gemini", "Sure.", tokens=TOKENS)]
    with Store.init(tmp_path / ".locus") as store:
        import_of(store, written(tmp_path / "session-1.jsonl", [HEAD, *MESSAGES, HEAD, again, again, *new]))

        assert rows(store, "select user_request, outcome, tool_calls from turns order by context_id") == [
            ("add a price", "Done.", 2),
            ("and one more", "Sure.", 0),
        ]
        ends = "select count(*) from events where event_type = 'turn' and operation = 'end'"
        assert rows(store, ends) == [(2,)]
        assert rows(store, "select count(*) from llm_calls") == [(3,)]


def test_doctor_knows_an_imported_chat_by_the_id_inside(tmp_path: Path) -> None:
    """P7: the file's name holds only the beginning of the session's id."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    chats = home / ".gemini/tmp/project/chats"
    chats.mkdir(parents=True)
    head = {**HEAD, "projectHash": hashlib.sha256(str(project).encode()).hexdigest()}
    written(chats / f"session-2026-11-20T09-00-{SESSION[:8]}.jsonl", [head, *MESSAGES])
    environ = {"HOME": str(home)}
    with Store.init(project / ".locus") as store:
        asked = dict(gaps.checks(str(project), environ))["transcripts"]
        assert [one.level for one in asked(store)] == ["note"]
        importer.run(store, "gemini-cli", sources.of_agent("gemini-cli", str(project), environ))
        assert [one.level for one in asked(store)] == ["ok"]
