"""A store with a word of its own in every kind of place, and what a policy has to let out for each to leave.

It is recorded through the true doors: hooks as processes, the commands, an import of a git history and of a
transcript, the Python interface. Words have no digit, so that none looks like an id.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.types import COLUMNS, LIST, TEXT
from eventlog.lake.policy import Policy
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store
from locus_cli.main import run
from tests.cli.support import GIT_ENVIRONMENT
from tests.secrets_made import made

Leaves = Callable[[Policy], bool]


def texts(policy: Policy) -> bool:
    return policy.texts


def paths(policy: Policy) -> bool:
    return policy.paths


def contents(policy: Policy) -> bool:
    return policy.contents


def people(policy: Policy) -> bool:
    return policy.people == "full"


def never(policy: Policy) -> bool:
    return False


def all_of(*classes: Leaves) -> Leaves:
    return lambda policy: all(leaves(policy) for leaves in classes)


LEAVES: dict[str, Leaves] = {}


def word(name: str, *classes: Leaves) -> str:
    """A word that leaves where all these classes do; none is the beginning of another."""
    LEAVES[f"canary{name}zz"] = all_of(*classes)
    return f"canary{name}zz"


# Columns whose values have a form that an append demands, or that no text of a column is.
_OF_FORM = {"event_id", "event_type", "tree_hash", "blobs", "before_hash", "after_hash", "path"}
_CLASS_OF_COLUMN = {"cwd": never, "worktree": never}
SESSION = "0b5f3c1e-0000-4000-8000-00000000c0de"


def record(base: Path) -> Path:
    """Record it below `base`; the project's directory."""
    LEAVES.clear()
    root = base / word("local", never) / "kiosk"
    root.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        _surround(patch, base, root)
        _record_history(root)
        assert run(["init"]) == 0
        assert run(["person", "--host", word("host", people)]) == 0
        assert run(["import", "git"]) == 0
        _record_hooks(root)
        assert run(["import", "claude-code", str(_transcript(base, root))]) == 0
        with Store.open(root / ".locus") as store:
            _record_programs(store)
            _record_columns(store)
            _record_bookkeeping(store)
            _name_a_tree(store)
            _record_what_is_denied_later(store)
        (root / ".locus/config.toml").write_text(f'[redaction]\ndeny = ["{word("denied", never)}"]\n')
    return root


def _surround(patch: pytest.MonkeyPatch, base: Path, root: Path) -> None:
    for name, value in GIT_ENVIRONMENT.items():
        patch.setenv(name, value)
    patch.setenv("GIT_AUTHOR_NAME", word("author", people))
    patch.setenv("GIT_COMMITTER_NAME", word("committer", people))
    patch.setenv("HOME", str(base / "home"))
    patch.setenv("LOCUS_NO_MAINTENANCE", "1")
    patch.setenv("LOCUS_HOOK_PATIENCE", "20")
    patch.delenv("XDG_DATA_HOME", raising=False)
    patch.chdir(root)


def _git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


def _record_history(root: Path) -> None:
    _git(root, "init", "-q", "-b", word("branch", texts))
    _git(root, "config", "user.name", word("person", people))
    _git(root, "config", "user.email", f"{word('email', people)}@example.org")
    (root / f"{word('gitpath', paths)}.txt").write_text(f"{word('gitcontent', contents)}\n")
    _git(root, "add", "-A")
    signed = f"Signed-off-by: {word('signer', texts, people)}"
    _git(root, "commit", "-qm", f"{word('subject', texts)} of it\n\n{word('body', texts)}\n\n{signed}")


def _hook(root: Path, name: str, cwd: Path | None = None, **fields: Any) -> None:
    payload = {
        "session_id": SESSION, "transcript_path": f"{root.parent}/t.jsonl", "cwd": str(cwd or root),
        "hook_event_name": name, **fields,
    }  # fmt: skip
    program = [sys.executable, "-m", "locus_cli.hook_entry", "claude-code"]
    subprocess.run(program, input=json.dumps(payload).encode(), check=True, cwd=root, env=dict(os.environ))


def _record_hooks(root: Path) -> None:
    turn = {"prompt_id": "c1a00000-0000-4000-8000-00000000aaaa"}
    _hook(root, "SessionStart", source="startup")
    _hook(root, "UserPromptSubmit", **turn, prompt=f"{word('slug', texts)} {word('prompt', texts)}")
    _record_bash(root, turn)
    _record_write(root, turn)
    _record_question(root, turn)
    _hook(
        root,
        word("hookname", texts).capitalize(),
        **turn,
        **{word("hookkey", texts): word("hookvalue", texts)},
    )
    _hook(root, "Stop", **turn, last_assistant_message=word("answer", texts), **{word("stopkey", texts): 1})


def _record_bash(root: Path, turn: dict[str, str]) -> None:
    args = {"command": f"echo {word('args', texts)} /home/{word('home', never)}/x"}
    call = {**turn, "tool_name": "Bash", "tool_use_id": "toolu_0001a", "tool_input": args}
    _hook(root, "PreToolUse", **call)
    long = f"{word('excerpt', texts)} {'.' * 20_000} {word('longresult', texts, contents)}"
    result = {"stdout": long, "stderr": word("result", texts), "interrupted": False}
    below = root / word("cwd", paths)
    below.mkdir()
    _hook(root, "PostToolUse", below, **call, tool_response=result, duration_ms=9)
    call = {**call, "tool_use_id": "toolu_0002a"}
    _hook(root, "PostToolUseFailure", **call, error=f"{word('error', texts)}", is_interrupt=False)


def _record_write(root: Path, turn: dict[str, str]) -> None:
    directory, name = word("directory", paths), word("file", paths)
    path, content = root / directory / f"{name}.py", f"{word('content', contents)} = 1\n" * 9
    call = {
        **turn, "tool_name": "Write", "tool_use_id": "toolu_0003a",
        "tool_input": {"file_path": str(path), "content": content},
    }  # fmt: skip
    _hook(root, "PreToolUse", **call)
    path.parent.mkdir()
    path.write_text(content)
    (root / "till.env").write_text(f"{word('withheld', never)}\ntoken={made()['github']}\n")
    result = {"type": "create", "filePath": str(path), "content": content, "originalFile": None}
    _hook(root, "PostToolUse", **call, tool_response=result, duration_ms=9)


def _record_question(root: Path, turn: dict[str, str]) -> None:
    """The keys of an object are a person's words: answers are under their questions."""
    question = f"{word('question', texts)}?"
    args = {"questions": [{"question": question, "header": "h", "options": []}]}
    call = {**turn, "tool_name": "AskUserQuestion", "tool_use_id": "toolu_0004a", "tool_input": args}
    _hook(root, "PreToolUse", **call)
    answers = {word("answerkey", texts): f"{word('chosen', texts)} {'.' * 20_000}"}
    _hook(
        root, "PostToolUse", **call, tool_response={"answers": answers, "usage": {word("usagekey", texts): 5}}
    )


def _transcript(base: Path, root: Path) -> Path:
    common = {
        "sessionId": "0b5f3c1e-0000-4000-8000-000000000777", "cwd": f"{root}/{word('linecwd', paths)}",
        "version": "2.1.330", "gitBranch": word("linebranch", texts),
    }  # fmt: skip
    prompt = "c1a00000-0000-4000-8000-00000000bbbb"
    usage = {"input_tokens": 10, "output_tokens": 5, "service_tier": word("tier", texts)}
    answer = {
        "role": "assistant", "id": "msg_a1b2c1", "model": "claude-opus-5", "usage": usage,
        "content": [{"type": "text", "text": word("said", texts)}],
    }  # fmt: skip
    lines: list[dict[str, Any]] = [
        {"type": "summary", "summary": word("linesummary", texts), "leafUuid": "u2"},
        {"type": "user", "uuid": "u1", "promptId": prompt, "timestamp": "2026-11-20T10:00:01.000Z",
         "message": {"role": "user", "content": f"{word('lineslug', texts)} {word('lineprompt', texts)}"}},
        {"type": "assistant", "uuid": "u2", "requestId": "req_1", "timestamp": "2026-11-20T10:00:02.000Z",
         word("linekey", texts): word("linevalue", texts), "message": answer},
    ]  # fmt: skip
    path = base / word("transcript", never) / "0b5f3c1e.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps({**common, **line}) + "\n" for line in lines))
    return path


def _record_programs(store: Store) -> None:
    """The Python interface, with words in whatever it takes."""
    recorder = Recorder(store, agent="script", branch=word("scriptbranch", texts), agent_version="1.0")
    recorder.start_session(f"{word('scriptslug', texts)} it", title=word("title", texts), intent={
        "focus": word("focus", texts), "scope": [word("scope", texts)],
    })  # fmt: skip
    turn = recorder.start_turn("Do it", intent_summary=word("intent", texts))
    turn.decision(
        word("decision", texts), word("reasoning", texts), alternatives_considered=[word("other", texts)]
    )
    turn.feedback(word("feedbacktype", texts), word("feedback", texts), sentiment=word("sentiment", texts))
    failure = word("errortype", texts)
    turn.error(
        failure, word("message", texts), file=f"{word('errorfile', paths)}.py", command=word("command", texts)
    )
    usage = {
        "input_tokens": 3,
        word("countkey", texts): 5,
        "cache": {word("cachekey", texts): 1},
        "note": "x",
    }
    turn.llm("claude-opus-5", payload={"usage": {**usage, "input": word("countword", texts)}})
    inner = {word("innerkey", texts): [word("innervalue", texts)], "path": word("innerpath", texts, paths)}
    turn.event(
        word("type", texts),
        {word("key", texts): inner, "usage": inner, "path": word("anypath", paths)},
    )
    turn.event("intent", {"message": "m", "author": {"name": word("authorofscript", people)}})
    turn.event("file", {"old_path": f"{word('oldpath', paths)}.py"}, path="b.py", operation="rename")
    turn.action("run", {"file_path": f"{word('argpath', texts, paths)}.py"}, related_to=[word("link", texts)])
    turn.end(
        outcome=word("outcome", texts), actions_taken=[word("action", texts)],
        decisions=[word("decided", texts)], files_read=[f"{word('fileread', paths)}.py"],
    )  # fmt: skip
    recorder.end_session(word("summary", texts), end_reason=word("endreason", texts))


def _record_columns(store: Store) -> None:
    """A word in every column of text that an append lets have one."""
    for name, kind in COLUMNS:
        if kind in (TEXT, LIST) and name not in _OF_FORM:
            planted = f"{word('column' + name.replace('_', ''), _CLASS_OF_COLUMN.get(name, texts))} x"
            value: Any = [planted, f"session:{planted}_a1b2c3d4"] if kind == LIST else planted
            store.append([{"event_type": "action", "session_id": "a1b2c3d4", name: value, "payload": {}}])
    named = [
        {"before_hash": f"md:{word('hash', texts)}"},
        {"path": f"{word('columnpath', paths)}/a.py"},
        {"context_id": f"session:{word('otherslug', texts)}_a1b2c3d4"},
        {"context_id": f"{word('contexttype', texts)}:a1b2c3d4_001_002"},
        {"event_type": f"{word('columntype', texts)} x", "session_id": "a1b2c3d4"},
        {"message_id": word("bareid", texts)},
    ]
    for columns in named:
        store.append([{"event_type": "action", "payload": {}, **columns}])


def _record_bookkeeping(store: Store) -> None:
    """Events of the store itself, which hold reasons, directories and names of users."""
    store.append(
        [
            {"event_type": "erasure", "operation": "end", "payload": {
                "erasure": "ab" * 16, "events": ["cd" * 16], "reason": word("erasing", texts),
                "who": word("user", people)}},
            {"event_type": "restore", "operation": "end", "payload": {
                "target": f"/attic/{word('target', never)}",
                "left": [[word("left", texts, paths), word("why", texts, paths)]]}},
            {"event_type": "cursor", "title": word("consumer", texts), "payload": {
                "consumer": word("consumers", texts), "position": 3}},
            {"event_type": "retention", "operation": "pin", "payload": {
                "session_id": "a1b2c3d4", "reason": word("retaining", texts)}},
            {"event_type": "withheld", "title": f"{word('withheldtitle', texts)}", "payload": {"kinds": []}},
        ]
    )  # fmt: skip


def _name_a_tree(store: Store) -> None:
    """An event of a program names a tree, and nothing but its type says what it is."""
    trees = [event["tree_hash"] for event in store.events(event_types=("snapshot",)) if event["tree_hash"]]
    store.append([{"event_type": "action", "blobs": [str(trees[-1])], "payload": {}}])


def _record_what_is_denied_later(store: Store) -> None:
    """A word that a person denies after it was recorded, wherever texts and paths are."""
    denied = word("denied", never)
    store.append(
        [
            {"event_type": "intent", "title": f"A {denied}", "branch": denied, "path": f"{denied}/a.py",
             "tool": denied, "message_id": f"{denied}1", "context_id": f"session:of-{denied}_a1b2c3d4",
             "payload": {"message": f"It is {denied}.", denied: 1}},
            {"event_type": "file", "path": f"src/{denied}.py", "payload": {"old_path": f"{denied}.py"}},
        ]
    )  # fmt: skip
    with store.blobs.writer() as writer:
        from eventlog.blobs.ids import to_text

        content = to_text(writer.put(f"{denied}\n".encode()))
        writer.flush()
        store.append([{"event_type": "file", "path": "c.py", "after_hash": content, "blobs": [content]}])
