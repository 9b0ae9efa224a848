"""What SQL says of a log, against counts made of what the log was made from, by other means than ours."""

import base64
from collections import Counter
from pathlib import Path
from typing import Any

from eventlog.store import Store
from locus_cli.main import run
from tests.agents.test_captured_sessions import FIXTURES, Played, visible
from tests.cli.support import git, make_history


def test_sql_says_of_sessions_what_their_raw_calls_say(tmp_path: Path) -> None:
    """P3, S1-53: prompts, tool calls, failures, tokens and files in SQL are those that a client's hook calls
    and transcripts tell, each counted once."""
    played = Played(FIXTURES / "claude-code-2.1.330/trouble.jsonl", tmp_path)
    played.play()
    calls = [step["call"] for step in played.steps]

    def values_of(moment: str, key: str) -> list[Any]:
        return [call[key] for call in calls if call["hook_event_name"] == moment]

    begun = dict(
        zip(values_of("PreToolUse", "tool_use_id"), values_of("PreToolUse", "tool_name"), strict=True)
    )
    went_well, failed = (
        set(values_of("PostToolUse", "tool_use_id")),
        values_of("PostToolUseFailure", "tool_use_id"),
    )
    lines = [line for step in played.steps for some in step.get("transcript", {}).values() for line in some]
    tokens = {}
    for line in lines:
        usage = line.get("message", {}).get("usage")
        if line["type"] == "assistant" and usage and line["message"]["model"] != "<synthetic>":
            read = sum(
                usage.get(f"{kind}input_tokens") or 0 for kind in ("", "cache_creation_", "cache_read_")
            )
            tokens[line["message"]["id"]] = (read, usage["output_tokens"])

    with Store.open(played.project / ".locus") as store:
        actions = store.query("select tool_use_id, tool, success from actions").rows
        assert sorted(id for id, _, _ in actions) == played.head["tool_calls"]
        assert {tool for id, tool, _ in actions if begun.get(id, tool) != tool} == set()
        assert {id for id, _, success in actions if success} == went_well
        assert [row[0] for row in store.query("select tool_use_id from errors").rows] == failed
        sessions = store.query("select agent_session_id, turn_count, errors from sessions").rows
        prompts, errors = (
            Counter(values_of(moment, "session_id")) for moment in ("UserPromptSubmit", "PostToolUseFailure")
        )
        assert sorted(sessions) == sorted((id, count, errors[id]) for id, count in prompts.items())
        llm_calls = store.query(
            "select message_id, prompt_tokens, completion_tokens from llm_calls "
            "where completion_tokens is not null"
        ).rows
        assert {id: (read, written) for id, read, written in llm_calls} == tokens
        (sums,) = store.query("select sum(tokens_used), sum(llm_calls), sum(tool_calls) from sessions").rows
        assert sums == (sum(map(sum, tokens.values())), len(tokens), len(actions))
        states = store.query(
            "select s.agent_turn_id, f.path, blob_at(f.path, t.context_id) from turns as t "
            "join (select distinct session_id, turn, agent_turn_id from events where event_type = 'intent') "
            "as s using (session_id, turn), tree_at(t.context_id) as f"
        ).rows
    files = {(turn, path): content for turn, path, content in states}
    trees = {
        (turn, path): None if path in played.late.get(turn, ()) else _content(*entry)
        for turn, tree in played.trees.items()
        for path, entry in visible(tree).items()
    }
    assert files == trees


def _content(kind: str, text: str) -> bytes:
    return text.encode() if kind == "link" else base64.b64decode(text)


def test_sql_says_of_a_history_what_git_says(tmp_path: Path) -> None:
    """P3, S1-53: commits, changed paths, lines and contents in SQL are those that git tells of it."""
    root = tmp_path / "sample"
    commits = make_history(root)
    assert run(["--store", str(tmp_path / "store"), "init"]) == 0
    assert run(["--store", str(tmp_path / "store"), "import", "git", str(root)]) == 0
    changes, contents = [], []
    for commit in commits:
        fields = git(root, "diff-tree", "-r", "--root", "-M", "--no-commit-id", "--numstat", "-z", commit)
        rest = fields.rstrip("\0").split("\0")
        while rest:
            added, removed, path = rest.pop(0).split("\t")
            old = None if path else rest.pop(0)
            lines = [None if count == "-" else int(count) for count in (added, removed)]
            changes.append((commit, path or rest.pop(0), old, *lines))
        names = git(root, "ls-tree", "-r", "-z", "--name-only", commit).rstrip("\0").split("\0")
        contents += [(commit, name, git(root, "rev-parse", f"{commit}:{name}")) for name in names]

    with Store.open(tmp_path / "store") as store:
        titles = store.query('select "commit", title from turns order by first_position').rows
        assert titles == [(commit, git(root, "log", "-1", "--format=%s", commit)) for commit in commits]
        found = store.query(
            'select "commit", path, old_path, lines_added, lines_removed from file_versions'
        ).rows
        assert sorted(found, key=str) == sorted(changes, key=str)
        blobs = store.query(
            'select t."commit", f.path, blob_at(f.path, t.context_id) '
            "from turns as t, tree_at(t.context_id) as f"
        ).rows
        sums = store.query("select count(*), sum(event_count) from turns").rows
        events = store.query("select count(*) from events where seq is not null").rows
    assert sums == [(len(commits), *events[0])]
    made = {(commit, path): content for commit, path, content in blobs}
    assert made.keys() == {(commit, path) for commit, path, _ in contents}
    for commit, path, id in contents:
        data = made[commit, path]
        (root / "one").write_bytes(data)
        assert git(root, "hash-object", "--no-filters", "one") == id, path
