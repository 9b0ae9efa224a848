"""Events as coding agents make them, the same for the same seed, as many as one wants.

A block of events is generated one by one: three sessions at a time take turns, each turn is a start,
a snapshot, an intent, then rounds of model call, tool action and file change with the occasional
decision, error and feedback, a snapshot and an end. Sizes follow what agents write: most payloads a
few hundred bytes, some outputs several thousand.

Every id of a block carries one marker. `Blocks` makes further blocks by replacing the marker in the
encoded lines, so that millions of events cost little more than copying them; their sessions, events
and messages are then all different, as in a log of many sessions, and only the texts repeat.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from eventlog import Store
from eventlog.base.types import KIND_OF_TYPE, SOURCE_OF_TYPE, Event
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import FILE, TreeEntry
from eventlog.log.line import encode_line

MARK = "feedbeefcafe"  # 12 hex digits, so that an event id stays 32 hex digits whatever replaces them
BLOCK_EVENTS = 30_000
_LANES = 3
_CONTENTS = 256
_FIRST_TIME_US = 1_735_689_600_000_000  # 2025-01-01
_REPO = "0b5e55ed0b5e"
_WORDS_TEXT = (
    "the parser reads a header before the body and fails when its length is odd so we move that check "
    "into one place return early keep the lock short write the test first then make it pass rename this "
    "function its callers expect None on a missing key add retry with a deadline log every refusal "
    "update docs cache token refresh session index query column journal segment commit branch merge"
)
WORDS = _WORDS_TEXT.split()
_TOOLS = ("Read", "Edit", "Bash", "Grep", "Write", "Glob")
_MODELS = ("model-large-1", "model-small-1")
_ERRORS = ("AssertionError", "TypeError", "TimeoutError", "SyntaxError")


def generate(seed: int, count: int) -> list[Event]:
    """The first `count` events of the seed's stream, in the order in which they are appended."""
    stream = _stream(Random(seed))
    return [next(stream) for _ in range(count)]


def with_stored_contents(store: Store, events: list[Event]) -> list[Event]:
    """The events with hashes of contents and trees that the store has: they are put there."""
    with store.blobs.writer() as writer:
        contents = [writer.put(b"content %d\n" % number) for number in range(_CONTENTS)]
        trees = [writer.put_tree([TreeEntry(b"file", FILE, content, 0)]) for content in contents]
        writer.flush()
    stored = {"before_hash": contents, "after_hash": contents, "tree_hash": trees}
    return [_naming(event, stored) for event in events]


def _naming(event: Event, stored: dict[str, list[bytes]]) -> Event:
    named = {
        column: to_text(ids[int(str(event[column])[-8:], 16) % _CONTENTS])
        for column, ids in stored.items()
        if event.get(column) is not None
    }
    return {**event, **named, "blobs": list(named.values())} if named else event


class Blocks:
    """Journal lines of a seed: block after block, without end.

    Args: seed; block_events, how many different events there are before texts repeat; contents: a store that
    gets the contents which the events name.
    """

    def __init__(self, seed: int, block_events: int = BLOCK_EVENTS, *, contents: Store | None = None) -> None:
        events = generate(seed, block_events)
        events = events if contents is None else with_stored_contents(contents, events)
        self._lines = b"\n".join(map(encode_line, events))
        self._count = block_events

    def lines(self) -> Iterator[bytes]:
        number = 0
        while True:
            yield from self.block(number)
            number += 1

    def block(self, number: int) -> list[bytes]:
        lines = self._lines.replace(MARK.encode(), b"%012x" % number).split(b"\n")
        assert len(lines) == self._count
        return lines


def _stream(rng: Random) -> Iterator[Event]:
    texts = _Texts(rng)
    time_us = _FIRST_TIME_US
    sessions = iter(range(1, 1 << 40))
    lanes = [_session(rng, texts, next(sessions)) for _ in range(_LANES)]
    while True:
        lane = rng.randrange(_LANES)
        step = next(lanes[lane], None)
        if step is None:
            lanes[lane] = _session(rng, texts, next(sessions))
            continue
        for event in step:
            time_us += rng.randrange(20_000, 4_000_000)
            event["occurred_at"] = time_us
            event["recorded_at"] = time_us + rng.randrange(500, 9_000)
            yield event


def _session(rng: Random, texts: _Texts, number: int) -> Iterator[list[Event]]:
    """One session, in the steps in which an agent's hooks would append it."""
    make = _Maker(rng, texts, number)
    yield [make("session", "start", title=texts.sentence(), payload={"cwd": "/home/dev/project"})]
    for turn in range(1, rng.randrange(4, 40)):
        make.agent_turn_id = f"{MARK}-{number}-{turn}"
        title = texts.sentence()
        yield [
            make("turn", "start", title=title),
            make.snapshot("turn_start"),
            make("intent", title=title, payload={"text": texts.text(1, 6), "attachments": []}),
        ]
        for _ in range(rng.randrange(2, 9)):
            yield list(make.round())
        if rng.random() < 0.05:
            yield [make("feedback", payload={"text": texts.text(1, 3), "rating": rng.choice((-1, 1))})]
        status = "completed" if rng.random() < 0.93 else "interrupted"
        yield [make.snapshot("turn_end"), make("turn", "end", status=status)]
    make.agent_turn_id = None
    yield [make("session", "end", status="completed", payload={"end_reason": "exit"})]


class _Maker:
    """Makes the events of one session."""

    def __init__(self, rng: Random, texts: _Texts, number: int) -> None:
        self.rng = rng
        self.texts = texts
        self.agent_turn_id: str | None = None
        self._session = f"{MARK}-{number}"
        self._branch = rng.choice(("main", "fix-parser", "feature/index"))

    def __call__(
        self,
        kind: str,
        operation: str | None = None,
        *,
        payload: dict[str, object] | None = None,
        **columns: object,
    ) -> Event:
        event: Event = {
            "event_id": f"{MARK}{self.rng.getrandbits(80):020x}",
            "event_type": kind,
            "event_kind": KIND_OF_TYPE[kind],
            "source": SOURCE_OF_TYPE[kind],
            "agent": "bench",
            "agent_version": "1.4.2",
            "agent_session_id": self._session,
            "repo": _REPO,
            "cwd": "/home/dev/project",
            "branch": self._branch,
        }
        if self.agent_turn_id is not None:
            event["agent_turn_id"] = self.agent_turn_id
        if operation is not None:
            event["operation"] = operation
        event.update(columns)
        event["payload"] = payload or {}
        return event

    def snapshot(self, operation: str) -> Event:
        tree = self.texts.hash()
        return self(
            "snapshot",
            operation,
            tree_hash=tree,
            blobs=[tree],
            payload={"files": self.rng.randrange(40, 4000)},
        )

    def round(self) -> Iterator[Event]:
        """A model call, the tool it asked for, and what that changed."""
        rng, texts = self.rng, self.texts
        read = rng.randrange(2_000, 150_000)
        yield self(
            "llm",
            model=rng.choice(_MODELS),
            message_id=f"msg_{MARK}{rng.getrandbits(48):012x}",
            request_id=f"req_{MARK}{rng.getrandbits(48):012x}",
            prompt_tokens=read,
            completion_tokens=rng.randrange(20, 3_000),
            cache_read_tokens=read * 9 // 10,
            duration_ms=rng.randrange(600, 40_000),
            success=True,
            payload={"stop_reason": "tool_use", "text": texts.text(0, 6)},
        )
        tool, path, works = rng.choice(_TOOLS), texts.path(), rng.random() < 0.92
        tool_use_id = f"toolu_{MARK}{rng.getrandbits(48):012x}"
        output = texts.text(12, 60) if rng.random() < 0.15 else texts.text(1, 8)
        yield self(
            "action",
            tool=tool,
            tool_use_id=tool_use_id,
            path=path,
            duration_ms=rng.randrange(3, 9_000),
            success=works,
            status="success" if works else "error",
            payload={"input": {"file_path": path, "description": texts.sentence()}, "output": output},
        )
        if not works:
            yield self(
                "error",
                tool_use_id=tool_use_id,
                error_type=rng.choice(_ERRORS),
                resolved=rng.random() < 0.6,
                payload={"message": texts.sentence(), "stack": texts.text(3, 10)},
            )
        elif tool in ("Edit", "Write"):
            before, after = texts.hash(), texts.hash()
            yield self(
                "file",
                "edit" if tool == "Edit" else "add",
                path=path,
                tool_use_id=tool_use_id,
                before_hash=before,
                after_hash=after,
                lines_added=rng.randrange(1, 120),
                lines_removed=rng.randrange(0, 60),
                blobs=[before, after],
                payload={"language": "python"},
            )
        if rng.random() < 0.06:
            yield self(
                "decision",
                title=texts.sentence(),
                payload={"rationale": texts.text(2, 6), "alternatives": [texts.sentence() for _ in range(2)]},
            )


class _Texts:
    """Sentences, paths and hashes, drawn from pools so that drawing one is cheap."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._sentences = [
            " ".join(rng.choices(WORDS, k=rng.randrange(5, 16))).capitalize() + "." for _ in range(4_000)
        ]
        self._paths = [
            f"src/{rng.choice(WORDS)}/{rng.choice(WORDS)}_{number}.py".lower() for number in range(600)
        ]

    def sentence(self) -> str:
        return self._rng.choice(self._sentences)

    def text(self, least: int, most: int) -> str:
        return "\n".join(self._rng.choices(self._sentences, k=self._rng.randint(least, most)))

    def path(self) -> str:
        return self._rng.choice(self._paths)

    def hash(self) -> str:
        return f"blake3:{self._rng.getrandbits(256):064x}"
