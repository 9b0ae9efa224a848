"""The briefing that the hook prints when a session starts: the facts of `memory/briefing.json`, brought up to
date from the end of the journals, within a deadline.

No index, no segment, no DuckDB: a file of facts, then the frames after the byte that it names, as far as time
and bytes allow. What cannot be read is left out; the text says up to which event it goes. Writes nothing. On
the hook path when a session starts.
"""

import os
import time

from blake3 import blake3

from eventlog import agents
from eventlog.base import jsontext
from eventlog.base.errors import Corruption, EventLogError
from eventlog.base.fs import REAL, opened, read_file
from eventlog.base.layout import StoreFiles
from eventlog.log.frame import HEADER_SIZE, decode_frame, decode_header
from eventlog.log.line import decode_line
from eventlog.memory import codes
from eventlog.memory.briefing import TOKENS, BriefingReader, briefing
from eventlog.memory.facts import FORMAT, FactsFold, empty
from eventlog.memory.freshness import FreshnessChecker
from eventlog.memory.open_errors import kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from eventlog.base.config import Config
    from eventlog.base.identity import Identity
    from eventlog.base.layout import Layout
    from eventlog.blobs.store import BlobStore

    Facts = dict[str, Any]

DEADLINE_S = 0.25
_CACHE_SIZE_MAX = 4 << 20
_TAIL_SIZE_MAX = 1 << 20
_LOOKED_AT_BYTES_MAX = 4 << 20
_TYPES = (
    b"session", b"turn", b"file", b"action", b"mcp_action", b"decision", b"error", b"warning", b"code",
)  # fmt: skip
_TYPE = b'"event_type":"'
_CONTRADICTS = b'"contradicts":'
# What the payload of an action holds that leaves a code, or ends a failure.
_TELLING = (b"test", b"jest", b"spec", b'"todos"', b'"plan"', b'"new_string"', b'"content"')


def reads_answer(agent: str) -> bool:
    """Whether an agent reads what the hook prints that starts its session."""
    spec = agents.spec_of(agent)
    return spec is not None and spec.hooks is not None and spec.hooks.reads_answer


def lacks_facts(layout: "Layout", who: "Identity") -> bool:
    """Whether no facts are cached, and more is recorded than a hook reads by itself."""
    more = _begins_in_segments(layout) or os.path.exists(layout.journal(2))
    return more and not has_facts(layout, who)


def has_facts(layout: "Layout", who: "Identity") -> bool:
    """Whether facts are cached, however old."""
    return cached(layout, who) is not None


def answer(agent: str, text: str) -> bytes:
    """What the hook of an agent prints so that the agent reads `text`; nothing for one that cannot."""
    if not reads_answer(agent):
        return b""
    output = {"hookEventName": "SessionStart", "additionalContext": text}
    return jsontext.encode({"hookSpecificOutput": output}) + b"\n"


def at_start(
    agent: str,
    agent_session: "str | None",
    layout: "Layout",
    who: "Identity",
    settings: "Config",
    top: "str | None",
    facts: "Facts | None" = None,
) -> bytes:
    """What the hook of an agent's session that begins prints (docs/briefing.md). Args: facts: `cached`."""
    if not reads_answer(agent):
        return b""
    reader = BriefingReader(agent, agent_session=agent_session, overlaps=settings.briefing_overlaps)
    tokens = TOKENS if settings.briefing_tokens is None else settings.briefing_tokens
    now_us, deadline_s = time.time_ns() // 1000, time.monotonic() + DEADLINE_S
    text = text_at_start(layout, who, reader, top, tokens, now_us=now_us, deadline_s=deadline_s, facts=facts)
    return answer(agent, text) if text else b""


def text_at_start(
    layout: "Layout",
    who: "Identity",
    reader: BriefingReader,
    top: "str | None",
    tokens: int,
    *,
    now_us: int,
    deadline_s: float,
    facts: "Facts | None" = None,
) -> str:
    """The briefing of a session that begins; empty when nothing is known yet.

    Args: top: the working directory; deadline_s: of the monotonic clock; facts: `cached`, where it was asked.
    """
    facts = facts_now(layout, who, deadline_s, facts)
    if facts is None:
        return ""
    looker = FreshnessChecker(top, deadline_s=deadline_s, bytes_max=_LOOKED_AT_BYTES_MAX)
    made = briefing(facts, reader, looker, now_us, tokens)
    return made.text if any(made.shown.values()) else ""


def facts_now(
    layout: "Layout", who: "Identity", deadline_s: float, facts: "Facts | None" = None
) -> "Facts | None":
    """The cached facts with what the journals record since then; None without any."""
    facts = facts or cached(layout, who)
    blobs: "list[BlobStore]" = []

    def text_of(content_hash: object) -> str:
        """The text of a content, empty where it is missing, or where there is no time."""
        if content_hash is None or time.monotonic() > deadline_s:
            return ""
        if not blobs:
            from eventlog.blobs.store import BlobStore

            blobs.append(BlobStore(StoreFiles(REAL, layout, who.store_id)))
        return codes.text_in(blobs[0], content_hash)

    if facts is None:
        if _begins_in_segments(layout):
            return None
        facts = {**empty(who.project_name, who.repo_hash), "journal": 1, "offset": HEADER_SIZE}
    fold = FactsFold(facts, with_codes=True)
    try:
        for position, line in _lines(layout, who, facts["journal"], facts["offset"], deadline_s):
            if position >= facts["position"]:
                facts["position"] = position + 1
                event = _event(line, facts["errors"])
                if event is not None:
                    fold.take(position, *event)
    except (EventLogError, OSError):
        pass  # the cached facts alone
    return fold.end(text_of)


def _event(line: bytes, errors: "list[Facts]") -> "tuple[Facts, Facts] | None":
    """An event that may change the facts, and its payload; None for others, and for one that is damaged."""
    start = line.find(_TYPE) + len(_TYPE)
    kind = line[start : line.find(b'"', start)]
    if start < len(_TYPE) or (kind not in _TYPES and _CONTRADICTS not in line):
        return None
    try:
        event, data = decode_line(line)
        # Most actions leave no code; their payloads are the largest part of a journal.
        is_read = kind in _TYPES
        if kind in (b"action", b"mcp_action"):
            is_read = any(word in data for word in _TELLING) or _is_awaited(event, errors)
        payload = jsontext.decode(data) if is_read else {}
    except (EventLogError, ValueError, RecursionError):
        return None
    return (event, payload) if isinstance(payload, dict) else None


def _is_awaited(event: "Facts", errors: "list[Facts]") -> bool:
    """Whether a call may show that an error of this tool is over, or say what failed."""
    kind = kind_of(event.get("tool"))
    return event.get("success") is False or any(kind_of(error["tool"]) == kind for error in errors)


def _begins_in_segments(layout: "Layout") -> bool:
    """Whether the beginning of the log is in no journal any more, or nowhere."""
    return os.path.exists(layout.manifest(1)) or not os.path.exists(layout.journal(1))


def cached(layout: "Layout", who: "Identity") -> "Facts | None":
    """The facts that maintenance left; None where there are none, or they are damaged."""
    try:
        data = read_file(REAL, layout.briefing, _CACHE_SIZE_MAX)
        head, mark, body = data.partition(b',"facts":')
        digest = head.removeprefix(b'{"check":"').removesuffix(b'"').decode()
        if not mark or blake3(body.removesuffix(b"}\n")).hexdigest() != digest:
            return None
        facts = jsontext.decode(body.removesuffix(b"}\n"))
        if facts["format"] != FORMAT or facts["store"] != who.store_id.hex():
            return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return facts  # type: ignore[no-any-return]


def _lines(
    layout: "Layout", who: "Identity", number: int, offset: int, deadline_s: float
) -> "Iterator[tuple[int, bytes]]":
    """The lines after a byte of a journal, with their positions, and those of the later journals."""
    left = _TAIL_SIZE_MAX
    while left > 0:
        path = layout.journal(number)
        with opened(REAL, path) as fd:
            header = decode_header(os.pread(fd, HEADER_SIZE, 0), path)
            data = os.pread(fd, left, offset)
        if header.store_id != who.store_id or header.number != number:
            return
        size_read = 0
        while size_read < len(data):
            if time.monotonic() > deadline_s:
                return
            try:
                frame = decode_frame(data, size_read, offset + size_read, header.key, path)
            except Corruption:
                break  # the end, or what a writer has not written to the end
            yield from enumerate(frame.lines, frame.base)
            size_read += frame.size
        left -= len(data)
        number, offset = number + 1, HEADER_SIZE
        if not os.path.exists(layout.journal(number)):
            return
