"""The facts of a briefing, event by event: the one fold that every rendering reads (docs/memory.md).

Events come from two sources: the index (`briefing_of_log`) and the end of the journals (`briefing_hook`).
What an event means for the next session is decided here alone. Pure. On the hook path.
"""

from eventlog import agents
from eventlog.base.names import session_id_of
from eventlog.memory import codes, last_turn
from eventlog.memory.open_errors import OpenErrors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Facts = dict[str, Any]

FORMAT = 5
# Each list keeps so many of the newest; of files there are more, since one turn changes many.
NEWEST = 50
FILES = 200

_OPENING = ("start", "resume", "clear", "fork")
_COUNTED = ("warnings", "errors", "decisions")
_LISTS = (*_COUNTED, "turns", "files")
_HISTORY = "git"  # the agent of imported commits: nobody is at work in its sessions


def empty(project_name: str, repo: str) -> "Facts":
    """The facts of a log without events."""
    return {
        "position": 0,
        "project": {"name": project_name, "repo": repo, "sessions": None, "turns": None},
        **{name: [] for name in (*_LISTS, "knowledge", "sessions", "overlaps")},
        **{name: [] for name in ("more_files", "others", "codes")},
        **{f"{name}_total": 0 for name in (*_COUNTED, "overlaps")},
    }


def is_of_project(event: "Facts", repo: str) -> bool:
    """Whether an event or session counts as one of this project, as `projections.elsewhere` says it."""
    agent = event.get("agent")
    if agent == "git":
        return True
    if event.get("repo") is not None:
        return bool(event["repo"] == repo)
    if event.get("agent_session_id") is None or not isinstance(agent, str):
        return True
    spec = agents.spec_of(agent)
    return spec is None or spec.name != agent or spec.transcripts is None


class FactsFold:
    """Brings facts up to date, event by event, oldest first; `end` completes them."""

    def __init__(self, facts: "Facts", *, with_codes: bool = False) -> None:
        """Args: with_codes: whether the codes of sessions are brought up to date, too."""
        self.facts = facts
        self._captures = {}
        if with_codes:
            self._captures = {fact["session"]: codes.AutoCapture.of_facts(fact) for fact in facts["codes"]}
        self._with_codes = with_codes
        # The latest event last, so that an event is appended.
        for name in _LISTS:
            facts[name].reverse()
        self._sessions: "dict[str, Facts]" = {fact["id"]: fact for fact in reversed(facts["sessions"])}
        self._seen = {fact["event"] for name in _LISTS for fact in facts[name]}
        self._errors = OpenErrors(facts["errors"])
        self._ids: "dict[tuple[str, str], str]" = {}  # of sessions, by agent and its id
        # The event that is taken.
        self._position = 0
        self._event: "Facts" = {}
        self._payload: "Facts" = {}
        self._session: "str | None" = None

    def take(self, position: int, event: "Facts", payload: "Facts") -> None:
        """One event, after those before it in its source. One of another project is no fact of this one."""
        if event["event_id"] in self._seen or not is_of_project(event, self.facts["project"]["repo"]):
            return
        self._seen.add(event["event_id"])
        self._position, self._event, self._payload = position, event, payload
        self._session = session = self._session_of_event()
        if session in self._sessions:
            self._sessions[session] = {**self._sessions.pop(session), "last_position": position}
        if event.get("contradicts"):
            contexts = event["contradicts"]
            self._drop("decisions", [fact for fact in self.facts["decisions"] if fact["context"] in contexts])
        kind = event["event_type"]
        if kind != "error":
            self._take_codes()
        if kind in ("session", "turn", "file", "decision", "error", "warning"):
            getattr(self, f"_take_{kind}")()
        elif kind in ("action", "mcp_action"):
            self._close_errors(lambda: self._errors.take_call(session, event, payload))

    def end(self, text_of: "Callable[[object], str] | None" = None) -> "Facts":
        """The facts as JSON has them, each list with the newest first.

        Args: text_of: the text of a content's hash; it is asked for the session alone whose codes are shown.
        """
        facts = self.facts
        for name in _LISTS:
            facts[name].reverse()
            del facts[name][NEWEST if name != "files" else FILES :]
        facts["sessions"] = list(reversed(self._sessions.values()))
        if self._with_codes:
            last = codes.last([capture.facts() for capture in self._captures.values()])
            if last is not None and text_of is not None:
                self._captures[last["session"]].read(text_of)
            left = [capture.facts() for capture in self._captures.values()]
            facts["codes"] = sorted(left, key=lambda fact: (-fact["at_us"], -fact["position"]))
        return facts

    def _session_of_event(self) -> "str | None":
        event = self._event
        session: "Any" = event.get("session_id")
        agent, theirs = event.get("agent"), event.get("agent_session_id")
        if session is None and isinstance(agent, str) and isinstance(theirs, str):
            session = self._ids.get((agent, theirs)) or session_id_of(agent, theirs)
            self._ids[agent, theirs] = session
            if session not in self._sessions:
                parts = [id for id, fact in self._sessions.items() if fact["agent_session_id"] == theirs]
                session = parts[-1] if parts else session
        return session  # type: ignore[no-any-return]

    def _take_codes(self) -> None:
        session = self._session
        if not self._with_codes or self._event["event_type"] not in codes.TYPES or session is None:
            return
        if session not in self._captures:
            self._captures[session] = codes.AutoCapture(session, self.facts["project"]["name"])
        payload = self._payload
        self._captures[session].take(self._event, lambda: payload, self._at() or 0, self._position)

    # -- sessions ------------------------------------------------------------------------------

    def _take_session(self) -> None:
        session = self._session
        if session is None or self._event.get("agent") == _HISTORY:
            return
        operation = self._event.get("operation")
        stored = self._sessions.get(session)
        if operation == "end":
            self._sessions.pop(session, None)
        elif stored is not None:
            if not stored["declared"] and self._event.get("title"):
                stored["focus"] = self._event["title"]
        elif operation in _OPENING:
            self._sessions[session] = self._opened(session)

    def _opened(self, session: str) -> "Facts":
        """A session that begins: it supersedes the one of its agent, and takes over what was declared."""
        event, payload = self._event, self._payload
        focus, scope = payload.get("focus"), payload.get("scope")
        opened = {
            "id": session,
            "agent": event.get("agent") or "",
            "agent_session_id": event.get("agent_session_id"),
            "repo": event.get("repo"),
            "focus": focus or event.get("title") or self.facts["project"]["name"],
            "declared": bool(focus),
            "scope": [path for path in scope if isinstance(path, str)] if isinstance(scope, list) else None,
            "opened_us": self._at(),
            "opened_position": self._position,
            "last_position": event.get("last_position", self._position),
            "event": event["event_id"],
        }
        for other in list(self._sessions.values()):
            if (other["repo"], other["agent"]) != (opened["repo"], opened["agent"]):
                continue
            is_before = other["opened_position"] < self._position
            if is_before and other["declared"] and not focus and other["agent_session_id"] is None:
                opened |= {name: other[name] for name in ("focus", "declared", "scope")}
            if other["last_position"] < self._position:
                del self._sessions[other["id"]]
        return opened

    # -- lists ---------------------------------------------------------------------------------

    def _take_turn(self) -> None:
        event, payload, turns = self._event, self._payload, self.facts["turns"]
        if event.get("operation") not in ("start", "end"):
            return
        is_open = event["operation"] == "start"
        start: "Facts" = {}
        if not is_open and "first_position" not in event:  # the index gives whole turns, a journal their ends
            started = [turn for turn in turns if turn["open"] and turn["session"] == self._session]
            if started:
                turns.remove(start := started[-1])
        asked = last_turn.shortened(payload.get("user_message")) or start.get("asked")
        turns.append(
            {
                "turn": event.get("context_id") or start.get("turn"),
                "event": event["event_id"],
                "session": self._session,
                "agent": event.get("agent"),
                "text": event.get("title") or start.get("text") or asked or "",
                "asked": asked,
                "outcome": last_turn.shortened(payload.get("outcome")),
                "status": payload.get("status"),
                "open": is_open,
                "paths": list(event.get("files_modified") or ())[:NEWEST],
                "at": self._at(),
                "began": event.get("first_position", start.get("began", self._position)),
                "position": self._position,
            }
        )

    def _take_file(self) -> None:
        event, files = self._event, self.facts["files"]
        path, operation = event.get("path"), event.get("operation")
        if not isinstance(path, str) or operation == "read":
            return
        files[:] = [file for file in files if file["path"] != path]
        files.append(
            {
                "path": path,
                "hash": event.get("after_hash"),
                "operation": operation or "edit",
                "event": event["event_id"],
                "at": self._at(),
                "position": self._position,
            }
        )

    def _take_decision(self) -> None:
        event, text, why = self._event, self._payload.get("decision"), self._payload.get("reasoning")
        if event.get("resolved") is not True:
            self._add(
                "decisions",
                {
                    "event": event["event_id"],
                    "text": text if isinstance(text, str) else event.get("title") or "",
                    "why": why if isinstance(why, str) else None,
                    "path": event.get("path"),
                    "context": event.get("context_id"),
                    "position": self._position,
                },
            )

    def _take_warning(self) -> None:
        event, payload = self._event, self._payload
        if event.get("resolved") is not True:
            texts = [payload.get(name) for name in ("message", "content", "text", "warning")]
            text = next((text for text in texts if isinstance(text, str)), event.get("title") or "")
            named = {name: event.get(name) for name in ("agent", "path")}
            self._add("warnings", {"event": event["event_id"], **named, "text": text})

    def _take_error(self) -> None:
        event, payload = self._event, self._payload
        if event.get("resolved") is True:
            self._close_errors(lambda: self._errors.take_mark(event))
            return
        error = self._errors.take_error(self._session, event, payload, self._position)
        if error is not None:
            self._add("errors", error)
            self._take_codes()

    def _close_errors(self, step: "Callable[[], object]") -> None:
        """Errors that are over after a step count no more, nor do they leave a blocker."""
        before = list(self.facts["errors"])
        step()
        if len(before) == len(self.facts["errors"]):
            return
        over = {error["event"] for error in before} - {error["event"] for error in self.facts["errors"]}
        self.facts["errors_total"] -= len(over)
        for capture in self._captures.values() if over else ():
            capture.forget(over)

    def _add(self, name: str, fact: "Facts") -> None:
        self.facts[name].append(fact)
        self.facts[f"{name}_total"] += 1

    def _drop(self, name: str, dropped: "list[Facts]") -> None:
        self.facts[name][:] = [fact for fact in self.facts[name] if fact not in dropped]
        self.facts[f"{name}_total"] -= len(dropped)

    def _at(self) -> "int | None":
        return self._event.get("occurred_at") or self._event.get("recorded_at")
