"""Model calls count once, and what was merged into what can be asked (P3)."""

import json
import os
from pathlib import Path

from eventlog.store import Store
from tests.importers.test_importer import TURN, line, run, usage, write


def rows(store: Store, sql: str) -> "list[tuple[object, ...]]":
    return [tuple(row) for row in store.query(sql).rows]


def test_a_forked_file_adds_no_call_and_the_view_says_so(tmp_path: Path) -> None:
    """P3: a fork's file repeats its parent's lines under another session; its copies count nowhere."""
    fork = [{**one, "sessionId": "fork"} for one in json.loads(json.dumps(TURN))]
    own = [
        line(10, "user", "and a tax", promptId="prompt-2", session="fork"),
        line(
            11,
            "assistant",
            [{"type": "text", "text": "Done."}],
            session="fork",
            requestId="req_2",
            message={**usage(7), "id": "msg_a1b2c2"},
        ),
    ]
    with Store.init(tmp_path / ".locus") as store:
        first = run(store, write(tmp_path / "a.jsonl", TURN))
        second = run(store, write(tmp_path / "b.jsonl", fork + own))

        assert (first.calls, second.calls, second.copies) == (1, 1, 1)
        assert rows(store, "select message_id, completion_tokens from llm_calls order by 1") == [
            ("msg_a1b2c1", 40),
            ("msg_a1b2c2", 7),
        ]
        ((reason, same, elsewhere, tokens),) = rows(
            store,
            "select reason, d.message_id = 'msg_a1b2c1', d.session_id <> kept_session_id, "
            "d.completion_tokens "
            "from llm_duplicates d join llm_calls c on c.event_id = kept_event_id",
        )
        assert (reason, same, elsewhere, tokens) == ("fork", True, True, 40)
        assert rows(store, "select sum(completion_tokens) from sessions") == [(47,)]


def test_a_response_that_grew_between_two_imports_counts_with_its_last_usage(tmp_path: Path) -> None:
    """P3: the earlier figure of one response is listed as merged, with its reason."""
    path = write(tmp_path / "a.jsonl", TURN[:2])
    with Store.init(tmp_path / ".locus") as store:
        run(store, path)
        write(path, TURN)
        run(store, path)

        assert rows(store, "select completion_tokens from llm_calls") == [(40,)]
        assert rows(store, "select reason, completion_tokens from llm_duplicates") == [("grown", 3)]


def test_the_older_of_two_copies_counts_whichever_is_named_first(tmp_path: Path) -> None:
    """P3: a fork named before the file it was copied from is still the copy."""
    parent = write(tmp_path / "z.jsonl", TURN)
    fork = write(tmp_path / "a.jsonl", [{**one, "sessionId": "fork"} for one in TURN])
    os.utime(parent, (1, 1))
    with Store.init(tmp_path / ".locus") as store:
        run(store, fork, parent)

        owner = rows(store, "select agent_session_id from llm_calls join sessions using (session_id)")
        assert owner == [(TURN[0]["sessionId"],)]
