"""The briefing as the hook gets it that starts a session: the facts of `memory/briefing.json`, brought up to
date by the journal's end, within a deadline.

No index, no segment, no DuckDB: a file of facts, then the frames behind the byte it names, as far as time and
bytes allow. What cannot be read is left out; the text says up to which event it goes. Writes nothing. On the
hook path, of this one moment.
"""

import os
import time

from blake3 import blake3

from eventlog import agents
from eventlog.base import jsontext
from eventlog.base.errors import Corruption, EventLogError
from eventlog.base.fs import REAL
from eventlog.base.names import session_id_of
from eventlog.log.frame import HEADER_SIZE, decode_frame, decode_header
from eventlog.log.line import decode_line
from eventlog.memory import codes, last_turn
from eventlog.memory.briefing import FORMAT, TOKENS, BriefingReader, briefing
from eventlog.memory.freshness import FreshnessChecker
from eventlog.memory.open_errors import OpenErrors, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from eventlog.base.config import Config
    from eventlog.base.identity import Identity
    from eventlog.base.layout import Layout
    from eventlog.blobs.store import BlobStore

    Facts = dict[str, Any]

DEADLINE_S = 0.25
# Each kind of facts keeps so many of the newest.
_NEWEST = 50
_CACHE_SIZE_MAX = 4 << 20
_TAIL_SIZE_MAX = 1 << 20
_LOOKED_AT_BYTES_MAX = 4 << 20
_TYPES = (
    b"session", b"turn", b"file", b"action", b"mcp_action", b"decision", b"error", b"warning", b"code",
)  # fmt: skip
_TYPE = b'"event_type":"'
# What the payload of an action holds that leaves a code, or ends a failure.
_TELLING = (b"test", b"jest", b"spec", b'"todos"', b'"plan"', b'"new_string"', b'"content"')


def reads_answer(agent: str) -> bool:
    """Whether an agent reads what the hook prints that starts its session."""
    spec = agents.spec_of(agent)
    return spec is not None and spec.hooks is not None and spec.hooks.reads_answer


def lacks_facts(layout: "Layout", who: "Identity") -> bool:
    """Whether there are no kept facts, and more is recorded than a hook reads by itself."""
    more = _begins_in_segments(layout) or os.path.exists(layout.journal(2))
    return more and not has_facts(layout, who)


def has_facts(layout: "Layout", who: "Identity") -> bool:
    """Whether there are kept facts, however old."""
    return _kept(layout, who) is not None


def answer(agent: str, text: str) -> bytes:
    """What the hook of an agent prints so that the agent reads `text`; nothing for one that cannot."""
    if not reads_answer(agent):
        return b""
    said = {"hookEventName": "SessionStart", "additionalContext": text}
    return jsontext.encode({"hookSpecificOutput": said}) + b"\n"


def at_start(
    agent: str,
    agent_session: "str | None",
    layout: "Layout",
    who: "Identity",
    settings: "Config",
    top: "str | None",
) -> bytes:
    """What the hook of an agent's session that begins prints (docs/briefing.md)."""
    if not reads_answer(agent):
        return b""
    reader = BriefingReader(agent, agent_session=agent_session, overlaps=settings.briefing_overlaps)
    tokens = TOKENS if settings.briefing_tokens is None else settings.briefing_tokens
    now_us, deadline_s = time.time_ns() // 1000, time.monotonic() + DEADLINE_S
    text = text_at_start(layout, who, reader, top, tokens, now_us=now_us, deadline_s=deadline_s)
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
) -> str:
    """The briefing of a session that begins; empty when nothing is known yet.

    Args: top: the working directory; deadline_s: of the monotonic clock.
    """
    facts = facts_now(layout, who, deadline_s)
    if facts is None:
        return ""
    looker = FreshnessChecker(top, deadline_s=deadline_s, bytes_max=_LOOKED_AT_BYTES_MAX)
    made = briefing(facts, reader, looker, now_us, tokens)
    return made.text if any(made.shown.values()) else ""


def facts_now(layout: "Layout", who: "Identity", deadline_s: float) -> "Facts | None":
    """The kept facts with what the journals say since; None without any."""
    facts = _kept(layout, who)
    blobs: "list[BlobStore]" = []

    def text_of(content_hash: object) -> str:
        """The text of a content, empty where there is none to be had, or no time."""
        if content_hash is None or time.monotonic() > deadline_s:
            return ""
        if not blobs:
            from eventlog.blobs.store import BlobStore

            blobs.append(BlobStore(REAL, layout, who.store_id))
        return codes.text_in(blobs[0], content_hash)

    if facts is None:
        if _begins_in_segments(layout):
            return None
        facts = _nothing(who)
    fold = _Fold(facts, text_of)
    try:
        for position, line in _lines(layout, who, facts["journal"], facts["offset"], deadline_s):
            if position >= facts["position"]:
                fold.take(position, line)
    except (EventLogError, OSError):
        pass  # the kept facts alone
    fold.end()
    return facts


def _begins_in_segments(layout: "Layout") -> bool:
    """Whether the beginning of the log is in no journal any more, or nowhere."""
    return os.path.exists(layout.manifest(1)) or not os.path.exists(layout.journal(1))


def _kept(layout: "Layout", who: "Identity") -> "Facts | None":
    try:
        fd = os.open(layout.briefing, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, "rb", buffering=0) as file:
            data = file.read(_CACHE_SIZE_MAX)
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


def _nothing(who: "Identity") -> "Facts":
    lists = ("knowledge", "sessions", "overlaps", "warnings", "errors", "turns", "decisions", "files")
    return {
        "position": 0,
        "journal": 1,
        "offset": HEADER_SIZE,
        "project": {"name": who.project_name, "repo": who.repo_hash, "sessions": None, "turns": None},
        **{name: [] for name in (*lists, "more_files", "others", "codes")},
        **dict.fromkeys(("overlaps_total", "warnings_total", "errors_total", "decisions_total"), 0),
    }


def _lines(
    layout: "Layout", who: "Identity", number: int, offset: int, deadline_s: float
) -> "Iterator[tuple[int, bytes]]":
    """The lines behind a byte of a journal, with their positions, and those of the journals behind it."""
    left = _TAIL_SIZE_MAX
    while left > 0:
        path = layout.journal(number)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            header = decode_header(os.pread(fd, HEADER_SIZE, 0), path)
            data = os.pread(fd, left, offset)
        finally:
            os.close(fd)
        if header.store_id != who.store_id or header.number != number:
            return
        at = 0
        while at < len(data):
            if time.monotonic() > deadline_s:
                return
            try:
                frame = decode_frame(data, at, offset + at, header.key, path)
            except Corruption:
                break  # the end, or what a writer has not written to the end
            yield from enumerate(frame.lines, frame.base)
            at += frame.size
        left -= len(data)
        number, offset = number + 1, HEADER_SIZE
        if not os.path.exists(layout.journal(number)):
            return


class _Fold:
    """Brings facts up to date, event by event, in the order of the log; `end` says that it is over."""

    def __init__(self, facts: "Facts", text_of: "Callable[[object], str]") -> None:
        self._facts = facts
        self._text_of = text_of
        self._codes = {one["session"]: codes.AutoCapture.of_facts(one) for one in facts["codes"]}
        self._sessions: "dict[str, Facts]" = {one["id"]: one for one in facts["sessions"]}
        self._seen = {
            one["event"]
            for name in ("warnings", "errors", "decisions", "files", "turns")
            for one in facts[name]
        }
        self._errors = OpenErrors(facts["errors"])
        # The event that is taken in.
        self._position = 0
        self._event: "Facts" = {}
        self._said: "Facts" = {}
        self._session: "str | None" = None

    def take(self, position: int, line: bytes) -> None:
        self._facts["position"] = position + 1
        at = line.find(_TYPE) + len(_TYPE)
        kind = line[at : line.find(b'"', at)]
        if at < len(_TYPE) or kind not in _TYPES:
            return
        try:
            event, payload = decode_line(line)
            # Most actions leave no code; their payloads are the largest part of a journal.
            is_call = kind in (b"action", b"mcp_action")
            is_read = not is_call or any(word in payload for word in _TELLING) or self._awaits(event)
            said = jsontext.decode(payload) if is_read else {}
        except (EventLogError, ValueError, RecursionError):
            return
        if not isinstance(said, dict) or event["event_id"] in self._seen:
            return
        self._seen.add(event["event_id"])
        agent, theirs = event.get("agent"), event.get("agent_session_id")
        session: "Any" = event.get("session_id")
        if session is None and isinstance(agent, str) and isinstance(theirs, str):
            session = session_id_of(agent, theirs)
            parts = [id for id, one in self._sessions.items() if one.get("agent_session_id") == theirs]
            session = parts[0] if session not in self._sessions and parts else session
        known = self._sessions.get(str(session))
        if known is not None:
            known["last_position"] = position
        self._position, self._event, self._said, self._session = position, event, said, session
        if kind != b"error":
            self._take_codes(kind.decode())
        if kind != b"code":
            getattr(self, f"_take_{kind.decode()}")()
        self._facts["sessions"] = sorted(
            self._sessions.values(), key=lambda one: int(one["last_position"]), reverse=True
        )

    def end(self) -> None:
        """Facts of codes as JSON has them; contents are read for the session alone whose codes are told."""
        left = codes.last([one.facts() for one in self._codes.values()])
        if left is not None:
            self._codes[left["session"]].read(self._text_of)
        found = [one.facts() for one in self._codes.values()]
        self._facts["codes"] = sorted(found, key=lambda one: (-one["at_us"], -one["position"]))

    def _awaits(self, event: "Facts") -> bool:
        """Whether a call may show that an error of this tool is over, or say what failed."""
        kinds = [kind_of(one["tool"]) for one in self._facts["errors"]]
        return event.get("success") is False or kind_of(event.get("tool")) in kinds

    def _take_codes(self, kind: str) -> None:
        session, event, said = self._session, self._event, self._said
        if kind not in codes.TYPES or session is None:
            return
        if session not in self._codes:
            self._codes[session] = codes.AutoCapture(session, self._facts["project"]["name"])
        one = self._codes[session]
        at: int = event.get("occurred_at") or event.get("recorded_at") or 0
        one.take(event, lambda: said, at, self._position)

    def _take_session(self) -> None:
        session = self._session
        if session is None:
            return
        operation = self._event.get("operation")
        known = self._sessions.get(session)
        if operation == "end":
            self._sessions.pop(session, None)
        elif known is not None:
            if not known["declared"] and self._event.get("title"):
                known["focus"] = self._event["title"]
        elif operation in ("start", "resume", "clear", "fork"):
            self._sessions[session] = self._opened(session)

    def _opened(self, session: str) -> "Facts":
        """A session that begins; it follows the one of its agent, and takes over what was declared for it."""
        focus, scope = self._said.get("focus"), self._said.get("scope")
        one = {
            "id": session,
            "agent": self._event.get("agent") or "",
            "agent_session_id": self._event.get("agent_session_id"),
            "focus": focus or self._event.get("title") or self._facts["project"]["name"],
            "declared": bool(focus),
            "scope": [path for path in scope if isinstance(path, str)] if isinstance(scope, list) else None,
            "opened_us": self._event.get("occurred_at") or self._event.get("recorded_at"),
            "opened_position": self._position,
            "last_position": self._position,
            "event": self._event["event_id"],
        }
        before = [s for s in self._sessions.values() if s["agent"] == one["agent"]]
        for other in before:
            if other["declared"] and not one["declared"] and other["agent_session_id"] is None:
                one |= {name: other[name] for name in ("focus", "declared", "scope")}
            if other["last_position"] < self._position:
                del self._sessions[other["id"]]
        return one

    def _take_turn(self) -> None:
        session = self._session
        operation = self._event.get("operation")
        if operation not in ("start", "end"):
            return
        turns = self._facts["turns"]
        begun: "Facts" = next((one for one in turns if one["open"] and one["session"] == session), {})
        if operation == "end" and begun:
            turns.remove(begun)
        asked = last_turn.kept(self._said.get("user_message"))
        one = {
            "turn": None,
            "event": self._event["event_id"],
            "session": session,
            "agent": self._event.get("agent"),
            "text": self._event.get("title") or asked or "",
            "asked": asked,
            "outcome": last_turn.kept(self._said.get("outcome")),
            "status": self._said.get("status"),
            "open": operation == "start",
            "paths": [],
            "at": self._event.get("occurred_at") or self._event.get("recorded_at"),
            "began": self._position,
            "position": self._position,
        }
        if operation == "end" and begun:
            one |= {name: begun[name] for name in ("turn", "asked", "began")}
            one["text"] = self._event.get("title") or begun["text"]
        self._add("turns", one)

    def _take_file(self) -> None:
        path = self._event.get("path")
        if not isinstance(path, str) or self._event.get("operation") == "read":
            return
        files = self._facts["files"]
        files[:] = [one for one in files if one["path"] != path]
        self._add(
            "files",
            {
                "path": path,
                "hash": self._event.get("after_hash"),
                "operation": self._event.get("operation") or "edit",
                "event": self._event["event_id"],
                "at": self._event.get("occurred_at") or self._event.get("recorded_at"),
                "position": self._position,
            },
        )

    def _take_decision(self) -> None:
        if self._event.get("resolved") is not True:
            text, why = self._said.get("decision"), self._said.get("reasoning")
            one = {
                "event": self._event["event_id"],
                "text": text if isinstance(text, str) else self._event.get("title") or "",
                "why": why if isinstance(why, str) else None,
                "path": self._event.get("path"),
                "position": self._position,
            }
            self._add("decisions", one, counted=True)

    def _take_action(self) -> None:
        before = {one["event"] for one in self._facts["errors"]}
        self._errors.take_call(self._session, self._event, self._said)
        self._note_over(before)

    _take_mcp_action = _take_action

    def _take_error(self) -> None:
        before = {one["event"] for one in self._facts["errors"]}
        one = self._errors.take_error(self._session, self._event, self._said, self._position)
        self._note_over(before)
        if one is not None:
            self._add("errors", one, counted=True)
            self._take_codes("error")

    def _note_over(self, before: "set[str]") -> None:
        """What errors were open and are not any more count no more, nor do they leave a blocker."""
        over = before.difference(one["event"] for one in self._facts["errors"])
        self._facts["errors_total"] -= len(over)
        for one in self._codes.values() if over else ():
            one.forget(over)

    def _take_warning(self) -> None:
        if self._event.get("resolved") is not True:
            text = (
                self._said.get("message")
                or self._said.get("content")
                or self._said.get("text")
                or self._event.get("title")
            )
            one = {
                "event": self._event["event_id"],
                "agent": self._event.get("agent"),
                "path": self._event.get("path"),
                "text": str(text or ""),
            }
            self._add("warnings", one, counted=True)

    def _add(self, name: str, one: "Facts", *, counted: bool = False) -> None:
        found = self._facts[name]
        found.insert(0, one)
        del found[_NEWEST if name != "files" else 4 * _NEWEST :]
        if counted:
            self._facts[f"{name}_total"] += 1
