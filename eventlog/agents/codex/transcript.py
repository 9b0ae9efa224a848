"""Rollouts of Codex, from the bare lines of 2025 to the items of 0.169: a reader (docs/adapters.md).

What it rests on: the first `session_meta` names the thread; a turn has an id that hooks have too; a prompt or
an answer is in the file twice, as item and as event; what a tool did is between its call and its
output. A file may hold lines of several versions.
"""

from collections.abc import Callable, Mapping
from typing import Any

from eventlog.agents.codex import copies, texts, tools, usage
from eventlog.agents.codex.copies import histories_in as histories_in
from eventlog.agents.codex.texts import prompt_rest
from eventlog.agents.codex.words_tail import EVENT, ITEM, Texts
from eventlog.agents.kit.call import int_of, known, object_of, text_of, without
from eventlog.agents.kit.draft import Draft, digest_of, rest_of
from eventlog.agents.kit.times import time_of
from eventlog.agents.kit.words import objects_of, text_in
from eventlog.base.names import event_id_of
from eventlog.base.types import Event

AGENT = "codex"
SUFFIXES = (".jsonl", ".jsonl.zst")

# Of lines, what columns hold or what another event records.
_OF_SESSION = frozenset(("id", "session_id", "cwd", "cli_version"))
_OF_END = frozenset(("type", "turn_id", "root_turn_id", "last_agent_message", "duration_ms"))
# The items that were lines of their own in 2025.
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")
_BARE = frozenset((*_CALLS, "function_call_output", "custom_tool_call_output", "message", "reasoning"))
_LINES = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted"))


def directories_of_transcripts(environ: "Mapping[str, str]") -> list[str]:
    """Where Codex keeps its rollouts (docs/adapters.md)."""
    home = environ.get("CODEX_HOME") or f"{environ.get('HOME', '')}/.codex"
    return [f"{home}/sessions", f"{home}/archived_sessions"]


def recognises(record: "dict[str, Any]") -> bool:
    """Whether a line is one of this format."""
    if isinstance(record.get("payload"), dict):
        return record.get("type") in _LINES
    if "record_type" in record or ("id" in record and "timestamp" in record and "instructions" in record):
        return True
    return record.get("type") in _BARE and ("role" in record or "call_id" in record or "summary" in record)


class CodexReader:
    """Reads one thread's lines."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._tools = tools.PendingCalls(draft)
        self._early: list[dict[str, Any]] = []  # lines before the first that names the session
        self._number = 0
        self._thread = ""
        self._meta: dict[str, Any] = {}
        self._subagent: str | None = None
        self._bare = True  # lines without time and kind, as in 2025
        self._cwd: str | None = None
        self._model: str | None = None
        # The turn that items belong to; of a subagent, that of its session.
        self._turn: str | None = None
        self._begun: set[str] = set()
        self._prompts = 0
        self._texts = Texts()
        self._context: dict[str, Any] = {}
        # A text that the next line may say again: what takes it, the text, all else, its columns.
        self._held: tuple[str, dict[str, Any], Event, int, bool] | None = None
        # The prompt that an event may repeat: that of an item, or of the event before it.
        self._item_prompt: str | None = None
        self._last_prompt: str | None = None
        self._usage = usage.Usage()
        self._copy = copies.Copy()
        self._raws: dict[tuple[str, str], int] = {}  # (turn, digest) → how many lines are kept as they are

    def take(self, record: "dict[str, Any]") -> None:
        payload = record.get("payload")
        kind = record.get("type")
        if not isinstance(payload, dict):
            self._take_bare(record, kind)
            return
        self._bare = False
        if kind == "session_meta":
            self._number += 1
            self._settle_held()
            self._session_meta(record, payload)
        elif self._draft.session is None:
            self._early.append(record)
        else:
            self._number += 1
            self._line(record, str(kind), payload)

    def end(self) -> None:
        draft = self._draft
        if draft.session is None and self._early:
            draft.begin_session("", {})
        early, self._early = self._early, []
        for record in early:
            self.take(record)
        self._settle_held()
        if self._copy.is_under_way:
            return  # it has nothing of its own yet
        self._tools.end()

    # -- lines -----------------------------------------------------------------------------------

    def _take_bare(self, record: "dict[str, Any]", kind: object) -> None:
        """A line of 2025, or none of this format."""
        if self._draft.session is None:
            if text_of(record, "id") is None or kind is not None:
                self._early.append(record)
                return
            self._number += 1
            self._session_meta(record, record)
            return
        self._number += 1
        self._draft.of_line = self._columns(text_of(record, "timestamp"))
        if isinstance(kind, str) and kind in _BARE:
            self._response_item(record)
        else:
            self._settle_held()
            self._raw(record, text_of(record, "record_type") or (kind if isinstance(kind, str) else None))

    def _line(self, record: "dict[str, Any]", kind: str, payload: "dict[str, Any]") -> None:
        draft = self._draft
        draft.of_line = self._columns(text_of(record, "timestamp"))
        if self._copy.begins(kind, payload, draft.of_line):
            if not self._copy.ends(kind, payload, draft.of_line):
                self._pass_over(payload)
                return
            self._end_copy()
        if kind == "response_item":
            self._response_item(payload)
        elif kind == "event_msg":
            self._event(payload)
        elif kind == "turn_context":
            self._settle_held()
            self._turn_context(payload)
        elif kind == "token_usage_record":
            self._settle_held()
            self._usage_record(payload)
        else:
            self._settle_held()
            self._raw(payload, kind)

    def _columns(self, timestamp: str | None) -> Event:
        turn = self._turn or self._draft.turn
        return known(occurred_at=time_of(timestamp), cwd=self._cwd, agent_turn_id=turn)

    def _raw(self, record: "dict[str, Any]", kind: str | None) -> None:
        event = self._draft.raw(record, kind, *self._key("transcript", record)[1:])
        self._name_former(event, self._draft.session or "", record)

    def _key(self, event_type: str, record: "dict[str, Any]") -> "tuple[str, ...]":
        """The key of a line without an id, which a copy of it in another file has too."""
        turn, digest = str(self._draft.of_line.get("agent_turn_id") or ""), digest_of(record)
        nth = self._raws[turn, digest] = self._raws.get((turn, digest), 0) + 1
        return event_type, self._draft.session or "", self._thread, turn, digest, str(nth)

    def _name_former(self, event: Event, session: str, record: "dict[str, Any]") -> None:
        """The id that versions before 0.2 gave an event, with the number of its line."""
        key = (str(event["event_type"]), session, self._thread, str(self._number), digest_of(record))
        event["former_id"] = event_id_of(AGENT, *[part for part in key if part])

    # -- the session -----------------------------------------------------------------------------

    def _session_meta(self, record: "dict[str, Any]", payload: "dict[str, Any]") -> None:
        draft = self._draft
        thread = text_of(payload, "id") or ""
        draft.of_line = self._columns(text_of(record, "timestamp"))
        version = text_of(payload, "cli_version")
        if draft.session is not None:
            if thread != self._thread:
                self._copy.begin(self._thread, thread, draft.of_line)
                self._copy.count(payload)
            elif not self._copy.is_under_way:  # resumed
                if version is not None:
                    draft.columns["agent_version"] = version
                meta = self._meta
                fresh = {name: value for name, value in payload.items() if meta.get(name) != value}
                self._raw(fresh, "session_meta")
            return
        self._thread, self._meta = thread, payload
        self._cwd = draft.cwd = text_of(payload, "cwd")
        if self._cwd is not None:
            draft.of_line["cwd"] = self._cwd
        git = object_of(payload, "git")
        draft.commit = text_of(git, "commit_hash")
        if version is not None:
            draft.columns["agent_version"] = version
        source = payload.get("source")
        spawn = object_of(source, "subagent") if isinstance(source, dict) else {}
        parent = text_of(payload, "parent_thread_id") or text_of(
            object_of(spawn, "thread_spawn"), "parent_thread_id"
        )
        session = text_of(payload, "session_id")
        if session is None or session == thread:
            session = parent
        details = without(payload, *_OF_SESSION)
        if text_of(payload, "session_id") not in (None, thread):
            details["session_id"] = payload["session_id"]
        branch = text_of(git, "branch")
        if payload.keys() == {"id"}:
            draft.enter_session(thread)  # of a copy that says no more
        elif session is None or session == thread or not (parent or isinstance(source, dict)):
            # The line is written after the first prompt: the session is older.
            at = time_of(text_of(payload, "timestamp"))
            draft.begin_session(thread, details, branch=branch, occurred_at=at)
        else:
            self._begin_subagent(session, thread, details, spawn)
        fork = text_of(payload, "forked_from_id")
        if fork is not None:
            self._copy.expect(thread, fork)
        early, self._early = self._early, []
        for early_record in early:
            self.take(early_record)

    def _begin_subagent(
        self, session: str, thread: str, details: "dict[str, Any]", spawn: "dict[str, object]"
    ) -> None:
        """A thread that works for a session: its lines are that session's."""
        draft = self._draft
        draft.enter_session(session)  # its start is in the file of its own thread
        self._subagent = thread
        draft.columns["subagent_id"] = thread
        role = object_of(spawn, "thread_spawn")
        title = text_of(role, "agent_role") or text_of(role, "agent_nickname")
        draft.subagent("start", thread, details, title=title)

    def _pass_over(self, payload: "dict[str, Any]") -> None:
        """A copied line: it says where the thread's own begin, and nothing more."""
        self._copy.count(payload)
        kind = text_of(payload, "type")
        if kind == "token_count":
            self._usage.pass_over(payload)
        elif kind is None or kind == "task_started":
            self._model = text_of(payload, "model") or self._model
            if self._subagent is not None:
                self._turn = text_of(payload, "turn_id") or self._turn

    def _end_copy(self) -> None:
        """The copy is over; its last line may be the thread's own."""
        answer = self._copy.take_answer() if self._copy.is_under_way else None
        self._copy.tell(self._draft)
        if answer is not None:
            self._raw(answer, "response_item/function_call_output")

    # -- turns -----------------------------------------------------------------------------------

    def _enter_turn(self, payload: "dict[str, Any]") -> None:
        """The turn that the next lines belong to."""
        if self._subagent is None:
            turn = text_of(payload, "turn_id")
        else:
            root, own = text_of(payload, "root_turn_id"), text_of(payload, "turn_id")
            turn = root if root != own else None
        if turn is not None and turn != self._turn:
            self._turn = turn
            self._texts.clear()
        if self._turn is not None:
            self._draft.of_line["agent_turn_id"] = self._turn

    def _prompt(self, text: str, rest: "dict[str, Any]") -> None:
        """A person's message: it begins the turn under way, or is one more of it."""
        draft = self._draft
        if self._subagent is not None:
            self._raw({"message": text, **rest}, "prompt")
            return
        turn = self._turn
        self._prompts += 1
        if turn is not None and turn in self._begun:
            payload = {"message": text, "origin": "user", **rest}
            draft.event("intent", payload, "intent", turn, str(self._prompts), source="user")
            return
        if turn is None:
            turn = f"{self._thread}:{self._prompts}"
            self._texts.clear()
        self._begun.add(turn)
        intent = draft.begin_turn(turn, text, occurred_at=copies.made_at(turn, after=self._thread))
        intent["payload"] = {**object_of(intent, "payload"), **rest}

    def _works(self) -> None:
        """The model does something: where nobody asked, a turn begins without a prompt."""
        turn = self._turn
        if turn is not None and self._subagent is None and turn not in self._begun:
            self._begun.add(turn)
            at = copies.made_at(turn, after=self._thread)
            self._draft.begin_turn(turn, "", origin="no_prompt", occurred_at=at)

    def _end_turn(self, payload: "dict[str, Any]") -> None:
        draft = self._draft
        rest = without(payload, *_OF_END)
        kind = text_of(payload, "type") or ""
        last, duration_ms = payload.get("last_agent_message"), int_of(payload, "duration_ms")
        repeats = self._usage.take_repeats()
        if repeats:
            rest["token_counts_repeated"] = repeats
        turn = self._turn or draft.turn
        if self._subagent is not None:
            own = text_of(payload, "turn_id") or str(self._number)
            draft.subagent("end", self._subagent, {"outcome": last, **rest}, own, duration_ms=duration_ms)
            return
        if turn is None or turn not in self._begun:
            self._raw(payload, f"event_msg/{kind}")
            return
        own_id = text_of(payload, "turn_id")
        if own_id is not None and own_id != turn:
            rest["turn_id"] = own_id  # of a review: of the turn that asked for it
        outcome = last if isinstance(last, str) else draft.outcome
        began_at = copies.made_at(turn, after=self._thread)
        if draft.is_copy and began_at is not None and duration_ms is not None:
            draft.of_line["occurred_at"] = began_at + duration_ms * 1_000
        draft.event(
            "turn", {"outcome": outcome, **rest}, "turn", turn, "end", kind, operation="end", source="agent",
            status="completed" if kind == "task_complete" else "interrupted", duration_ms=duration_ms,
        )  # fmt: skip
        draft.outcome = None
        self._turn = None
        self._texts.clear()

    def _turn_context(self, payload: "dict[str, Any]") -> None:
        self._enter_turn(payload)
        self._model = text_of(payload, "model") or self._model
        cwd = text_of(payload, "cwd")
        if cwd is not None:
            self._cwd = self._draft.of_line["cwd"] = cwd
            if self._draft.cwd is None:
                self._draft.cwd = cwd
        before, self._context = self._context, payload
        fresh = {name: value for name, value in payload.items() if before.get(name) != value}
        self._raw(fresh, "turn_context")

    # -- what user and model said ----------------------------------------------------------------

    def _response_item(self, item: "dict[str, Any]") -> None:
        kind = item.get("type")
        if kind == "message" and item.get("role") == "assistant":
            self._settle_held(item)
            self._say("text", text_in(item.get("content")), ITEM, rest_of(item, texts.OF_MESSAGE))
            return
        self._settle_held()
        if kind == "message" and item.get("role") == "user":
            self._hold("user", item)
        elif kind == "reasoning":
            self._reasoning(item)
        elif isinstance(kind, str) and self._tools.takes(kind):
            self._works()
            self._tools.item(kind, item)
        else:
            self._raw(item, f"response_item/{kind}")

    def _settle_held(self, item: "dict[str, Any] | None" = None) -> None:
        """Tell the text that is held; `item` is an answer's that may be the same one."""
        if self._held is None:
            return
        (kind, held, columns, number, was_imported), self._held = self._held, None
        draft = self._draft
        now, draft.of_line = draft.of_line, columns
        here, self._number = self._number, number
        if kind == "user":
            text = text_in(held.get("content"))
            if texts.is_of_client(text, bare=self._bare):
                self._raw(held, "response_item/message/user")
            else:
                self._item_prompt = text
                self._prompt(text, prompt_rest(held))
        else:
            text = held["message"]
            same = item is not None and text_in(item.get("content")) == text
            rest = rest_of(held, texts.OF_USER)
            more = rest_of(item, texts.OF_MESSAGE) if same and item else {}
            self._say("text", text, EVENT, {**more, **rest})
            self._draft.add_rest("message", more, was_imported=was_imported)
        draft.of_line, self._number = now, here
        if draft.turn is not None and self._turn is None:
            now["agent_turn_id"] = draft.turn

    def _hold(self, kind: str, record: "dict[str, Any]") -> None:
        line = self._draft.line
        self._held = (kind, record, self._draft.of_line, self._number, line is not None and line.is_imported)

    def _say(self, kind: str, text: str, channel: int, rest: "dict[str, Any]") -> bool:
        """Record what the model said or thought, unless the other channel had it; whether that was done."""
        nth = self._texts.nth(kind, text, channel)
        if not nth:
            return False
        self._works()
        draft = self._draft
        if self._model is not None:
            draft.of_line["model"] = self._model
        turn = draft.of_line.get("agent_turn_id") or draft.session
        where = f"{self._subagent or ''}:{turn}"
        draft.message(kind, text, kind, where, digest_of(text), str(nth), **rest)
        return True

    def _reasoning(self, item: "dict[str, Any]") -> None:
        rest = rest_of(item, texts.OF_REASONING)
        for part in objects_of(item.get("summary")):
            text = part.get("text")
            if isinstance(text, str) and text and self._say("reasoning", text, ITEM, rest):
                rest = {}
        if rest.keys() - {"id"}:  # a sealed thought is for its provider alone; an id says nothing
            self._raw(rest, "response_item/reasoning")

    def _prompt_event(self, text: str, payload: "dict[str, Any]") -> None:
        """A prompt as the client's event has it; the item before it may be the same one."""
        rest = {name: value for name, value in payload.items() if name not in texts.OF_USER and value}
        held = self._held
        if held is not None and held[0] == "user" and text in text_in(held[1].get("content")):
            self._held = None
            item = prompt_rest(held[1])
            if "content" in item:
                rest.pop("images", None)
            self._prompt(text, {**item, **rest})
            self._draft.add_rest("intent", rest, was_imported=held[4])
        else:
            self._settle_held()
            if text not in (self._item_prompt, self._last_prompt):  # a review says it twice
                self._prompt(text, rest)
        self._item_prompt = None
        self._last_prompt = text

    # -- events of the client --------------------------------------------------------------------

    def _event(self, payload: "dict[str, Any]") -> None:
        kind = text_of(payload, "type") or ""
        message = payload.get("message")
        item = object_of(payload, "item")
        if kind == "user_message" and isinstance(message, str):
            self._prompt_event(message, payload)
            return
        if kind == "item_completed" and self._turn is None:
            self._enter_turn(payload)
        if kind == "item_completed" and item.get("type") == "UserMessage":
            self._prompt_event(text_in(item.get("content")), {})
            return
        self._settle_held()
        self._last_prompt = None
        if kind == "agent_message" and isinstance(message, str):
            self._hold("agent", payload)
        elif kind == "item_completed":
            self._item_completed(payload, item)
        else:
            meaning = _MEANINGS.get(kind)
            if meaning is not None:
                meaning(self, payload)
            elif self._tools.ends(kind):
                self._works()
                self._tools.details(kind, payload, text_of(payload, "call_id"))
            else:
                self._raw(payload, f"event_msg/{kind}")

    def _item_completed(self, payload: "dict[str, Any]", item: "dict[str, Any]") -> None:
        kind = text_of(item, "type") or ""
        if kind == "AgentMessage":
            rest = rest_of(item, frozenset(("type", "content")))
            self._hold("agent", {"message": text_in(item.get("content")), **rest})
        elif self._tools.ends(kind):
            self._works()
            self._tools.details(kind, item, text_of(item, "id"))
        else:
            self._raw(payload, f"item_completed/{kind}")

    def _task_started(self, payload: "dict[str, Any]") -> None:
        self._enter_turn(payload)
        self._raw(payload, "event_msg/task_started")

    def _agent_reasoning(self, payload: "dict[str, Any]") -> None:
        text = payload.get("text")
        if isinstance(text, str) and text:
            self._say("reasoning", text, EVENT, {})

    def _settings(self, payload: "dict[str, Any]") -> None:
        self._model = text_of(object_of(payload, "thread_settings"), "model") or self._model
        self._raw(payload, "event_msg/thread_settings_applied")

    def _failure(self, payload: "dict[str, Any]") -> None:
        fields, key = rest_of(payload, ("type",)), self._key("error", payload)
        event = self._draft.error(fields, *key, error_type="api_error")
        self._name_former(event, "", payload)

    def _usage_record(self, payload: "dict[str, Any]") -> None:
        if self._turn is None:
            self._enter_turn(payload)
        self._works()
        scope = self._subagent or str(self._draft.of_line.get("agent_turn_id") or self._thread)
        self._usage.record(self._draft, payload, self._model, scope, f"{self._thread}:{self._number}")

    def _token_count(self, payload: "dict[str, Any]") -> None:
        counted = self._usage.count(payload)
        if counted is None:
            return
        if "usage" not in counted:
            self._raw(counted, "event_msg/token_count")
            return
        self._works()
        turn = self._draft.of_line.get("agent_turn_id") or self._thread
        where = f"{turn}" if self._subagent is None else f"{self._subagent}:{turn}"
        self._usage.tell(self._draft, counted, self._model, self._subagent or f"{turn}", where)


_MEANINGS: "dict[str, Callable[[CodexReader, dict[str, Any]], None]]" = {
    "task_started": CodexReader._task_started,
    "task_complete": CodexReader._end_turn,
    "turn_aborted": CodexReader._end_turn,
    "token_count": CodexReader._token_count,
    "agent_reasoning": CodexReader._agent_reasoning,
    "thread_settings_applied": CodexReader._settings,
    "error": CodexReader._failure,
    "stream_error": CodexReader._failure,
}


READER = CodexReader
