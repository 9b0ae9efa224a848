"""What a golden store is asked when it is made: every reading verb, of what this store holds.

The arguments are kept with the answers; later revisions ask exactly these, so this module serves makers only.
"""

import json
from typing import Any

from tests.golden.stores import Place

Json = dict[str, Any]

_VIEWS = (
    "events", "sessions", "turns", "actions", "files", "file_versions", "llm_calls", "llm_duplicates",
    "decisions", "errors", "hooks", "exports",
)  # fmt: skip
_ALWAYS = (
    ["log", "--json", "-n", "500"],
    ["log", "--events", "--json", "-n", "500"],
    ["session", "ls", "--all", "--json"],
    ["status", "--json"],
    ["who", "--json"],
    ["stats", "--by", "tool", "--json"],
    ["decisions", "--json"],
    ["errors", "--json"],
    ["codes", "--json"],
    ["briefing", "--focus", "price of tea", "--json"],
    ["search", "--wait", "--json", "tea"],
    ["store", "verify", "--deep", "--json"],
    ["export", "jsonl", "--contents", "--to", "-"],
    ["export", "atif", "--to", "-"],
    ["export", "otlp", "--contents", "--to", "-"],
    ["export", "agent-trace", "--to", "-"],
)
# What people read, of two stores.
_WORDS = (
    ["log"],
    ["log", "--events", "-n", "500"],
    ["session", "ls", "--all"],
    ["who"],
    ["status"],
    ["stats"],
    ["decisions"],
    ["errors", "--open"],
    ["codes"],
    ["briefing"],
    ["search", "--wait", "price"],
)
_SHARED = (
    ["context", "status", "--json"],
    ["context", "load", "prices"],
    ["context", "bundle", "prices", "--json"],
    ["context", "validate", "prices", "--json"],
    ["who"],
    ["briefing"],
)
# It notes in the log how far it came, so it is asked last.
_LAST = (["export", "locusgraph", "--to", "@OUT@/records.jsonl"],)


def questions(place: Place, *, words: bool, shared: bool) -> list[list[str]]:
    """The arguments of each question; with `words` also what is there in words only, or in both."""
    asked = [*_ALWAYS, *(_WORDS if words else ()), *(_SHARED if shared else ())]
    for view in _VIEWS:
        columns = ", ".join(f'"{row["column_name"]}"' for row in _rows(place, f"describe {view}"))
        asked.append(["sql", "--json", f"select {columns} from {view} order by all"])
    sessions = _values(place, "select session_id from sessions order by started_at, session_id")
    asked += [["show", session, "--json"] for (session,) in sessions]
    turns = [turn for (turn,) in _values(place, "select context_id from turns order by started_at, 1")]
    for turn in turns[: 6 if words else 2]:
        asked += [["diff", turn], ["timeline", turn, "--json"], ["replay", turn, "--to", "@OUT@/tree"]]
    if words:
        asked += [["show", turns[0]], ["timeline", turns[0]], ["diff", turns[0], "--json"]]
        asked += [["session", "show", session] for (session,) in sessions]
    asked += [["replay", turns[0], "--at", "start", "--to", "@OUT@/tree"]]
    asked += [["sql", "--json", f"select * from tree_at('{turns[0]}') order by path"]]
    return [*asked, *_contents(place), *_LAST]


def _contents(place: Place) -> list[list[str]]:
    """Of the first file that has a content: by turn, by hash, its history, and its event."""
    query = (
        "select f.event_id, f.path, f.after_hash, t.context_id from files f join turns t"
        " using (session_id, turn) where f.after_hash is not null order by f.position limit 1"
    )
    ((event, path, content, turn),) = _values(place, query)
    by_path = [["history", path], ["history", path, "--json"]]
    return [["cat", f"{turn}:{path}"], ["cat", content], ["show", event, "--json"], *by_path]


def _values(place: Place, query: str) -> list[list[Any]]:
    return [list(row.values()) for row in _rows(place, query)]


def _rows(place: Place, query: str) -> list[Json]:
    answer = place.ask(["sql", "--json", query])
    assert answer.code == 0, answer.err
    found: list[Json] = json.loads(answer.out)
    return found
