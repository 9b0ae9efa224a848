"""Stores that share sessions, made up: what each published, and a slow answer to what counts."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from eventlog.base import jsontext
from eventlog.base.types import LIFECYCLE_TYPES
from eventlog.lake.chain import publication_name
from eventlog.lake.outgoing import SCHEMA, encoded
from eventlog.lake.place import Place
from eventlog.lake.policy import Policy
from eventlog.lake.source import identity_of

Row = dict[str, Any]
AT = 1_770_000_000_000_000  # 2026-02-02T02:40:00Z
WEEK = 7 * 86_400_000_000


def table_of(store_id: bytes, rows: "Iterable[Row]") -> "pa.Table":
    """Events at the positions 0, 1, … as published files have them."""
    placed = [{**_apart(row), "position": n, "store_id": store_id.hex()} for n, row in enumerate(rows)]
    return pa.Table.from_pylist(placed, SCHEMA)


def publish_rows(place: Place, store_id: bytes, rows: "Iterable[Row]", cuts: "Iterable[int]" = ()) -> None:
    """Publish events at the positions 0, 1, …; in several files where there are cuts."""
    placed = table_of(store_id, rows)
    bounds = sorted({0, len(placed), *(cut for cut in cuts if cut < len(placed))})
    for base, end in pairwise(bounds):
        table = placed.slice(base, end - base)
        identity = identity_of([table])
        keys = {
            "format": "1", "store_id": store_id.hex(), "base": str(base), "end": str(end),
            "last_event_id": identity.last_event_id, "ids": identity.digest, "policy": Policy().encoded(),
            "erasures": "[]", "packs": "[]",
        }  # fmt: skip
        data = encoded([table], {f"locus.{key}": value for key, value in keys.items()})
        assert place.create(publication_name(store_id, base), data)


def _apart(row: Row) -> Row:
    """A row as a published file has it."""
    payload = jsontext.encode(row.get("payload", {})).decode()
    is_anchor = row["event_type"] in ("session", "turn")
    return {
        **row,
        "payload": None if is_anchor else payload,
        "anchor_payload": payload if is_anchor else None,
    }


def event(
    number: int, event_type: str, session_id: "str | None", turn: "int | None" = None, **columns: Any
) -> Row:
    """An event of a made-up agent; its id says its number."""
    return {
        "event_id": f"{number:032x}",
        "event_type": event_type,
        "session_id": session_id,
        "turn": turn,
        "turn_id": None if turn is None else f"{turn:03d}",
        "agent": "probe",
        "repo": "aaaaaaaaaaaa",
        "occurred_at": AT + number * 1_000_000,
        "recorded_at": AT + number * 1_000_000,
        **columns,
    }


@st.composite
def stores(draw: st.DrawFn) -> "list[list[Row]]":
    """The logs of two or three stores: parts of common sessions, each in its own order of sessions."""
    sessions = draw(st.integers(1, 4))
    common = [_session(draw, number) for number in range(sessions)]
    logs = []
    for store in range(draw(st.integers(2, 3))):
        log: list[Row] = []
        for number in draw(st.permutations(range(sessions))):
            wanted = draw(st.sampled_from(("all", "none", "first", "some")))
            rows = common[number]
            if wanted == "first":
                rows = rows[: draw(st.integers(0, len(rows)))]
            elif wanted == "some":
                rows = [row for row in rows if draw(st.booleans())]
            shift = draw(st.sampled_from((0, 0, 1)))
            log += [] if wanted == "none" else [_moved(row, shift) for row in rows]
        own = event(900 + store, "ref", None)
        everybodys = event(999, "ref", None)
        logs.append([*log, own, everybodys] if draw(st.booleans()) else [everybodys, *log])
    return logs


def _session(draw: st.DrawFn, number: int) -> "list[Row]":
    """The events of a session: turns with an agent's id or without one, calls that come again elsewhere."""
    session_id = f"session{number}"
    rows = [event(number * 100, "session", session_id, operation="start")]
    for turn in range(1, draw(st.integers(1, 3)) + 1):
        key = draw(st.sampled_from((None, f"key{turn}")))
        for _ in range(draw(st.integers(0, 3))):
            kind = draw(st.sampled_from(("turn", "llm", "llm", "action", "error")))
            columns: Row = {"agent_turn_id": key}
            if kind == "turn":
                columns["operation"] = draw(st.sampled_from(("start", "end")))
            if kind == "llm":
                columns["message_id"] = draw(
                    st.sampled_from((None, f"m{number}", "msg_01AbCd", "msg_02AbCd"))
                )
                columns["prompt_tokens"] = draw(st.sampled_from((None, 10, 20)))
                columns["completion_tokens"] = draw(st.sampled_from((None, 1, 2)))
            rows.append(event(number * 100 + len(rows), kind, session_id, turn, **columns))
    return rows


def _moved(row: Row, shift: int) -> Row:
    """The same event, where the store began to number turns elsewhere."""
    turn = row["turn"]
    return row if turn is None else {**row, "turn": turn + shift, "turn_id": f"{turn + shift:03d}"}


def tokens_of(logs: "list[list[Row]]") -> "tuple[int, int, int]":
    """How many calls there are over all stores, and their tokens: of rows of one call the largest counts."""
    best: dict[Any, tuple[int, int]] = {}
    for row in (row for log in logs for row in log if row["event_type"] == "llm"):
        key = row["message_id"] or row["event_id"]
        figures = tuple(
            -1 if row[name] is None else row[name] for name in ("completion_tokens", "prompt_tokens")
        )
        best[key] = max(best.get(key, (-1, -1)), figures)
    return len(best), sum(max(p, 0) for _, p in best.values()), sum(max(c, 0) for c, _ in best.values())


def homes_of(logs: "list[list[Row]]") -> "dict[str, int]":
    """The home of each session: the store with most of its events that are no anchors, else the first."""
    events: dict[str, Counter[int]] = {}
    for number, log in enumerate(logs):
        for row in log:
            if row["session_id"] is not None:
                is_counted = row["event_type"] not in LIFECYCLE_TYPES
                events.setdefault(row["session_id"], Counter())[number] += is_counted
    return {session: min(c, key=lambda store: (-c[store], store)) for session, c in events.items()}


TEAM = {"Ann <ann@example.org>": "desk", "Ben <ben@example.org>": "lap"}
STORES = [bytes([number]) * 16 for number in (1, 2, 3)]
# The person who worked, in which repository and week, and the events of it.
Work = tuple[str, str, int, "list[Row]"]


def work(number: int, person: str, repo: str, week: int) -> "list[Row]":
    """A session of a person with two turns of one call each, in a week."""
    name, _, email = person.rstrip(">").partition(" <")
    who = {"person": {"name": name, "email": email}, "host": TEAM[person]}
    who_worked = {"actor": person, "host": TEAM[person]}
    columns: Row = {
        **who_worked,
        "repo": repo,
        "occurred_at": AT + week * WEEK,
        "recorded_at": AT + week * WEEK,
    }
    rows = [event(number, "session", f"session{number}", operation="start", payload=who, **columns)]
    for turn in (1, 2):
        at = number + 3 * turn
        own_id = f"m{at}" if turn == 1 else None  # a call without an id of its provider is its event
        spent = {"model": "m", "message_id": own_id, "prompt_tokens": number, "completion_tokens": turn}
        rows.append(event(at, "turn", f"session{number}", turn, operation="start", **columns))
        rows.append(event(at + 1, "llm", f"session{number}", turn, **spent, **columns))
    return rows


def publish_team(place: Place) -> "list[Work]":
    """Publish four sessions of two people from two machines; the second and the third are on both."""
    ann, ben = TEAM
    plan = [(ann, "a" * 12, 0), (ann, "b" * 12, 1), (ben, "a" * 12, 1), (ben, "a" * 12, 2)]
    made = [(*cell, work(100 * number, *cell)) for number, cell in enumerate(plan)]
    for store_id, numbers in ((STORES[1], (0, 1, 2)), (STORES[0], (2, 3, 1))):
        publish_rows(place, store_id, [row for number in numbers for row in made[number][3]], cuts=(4,))
    return made
