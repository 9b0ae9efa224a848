"""The events of a call, completed: names, model calls, the agent's words, and calls reported twice or never.

Reads the notes of the session and the transcripts of the agent; writes nothing. On the hook path.
"""

from eventlog import agents
from eventlog.agents.kit.call import SESSION, SESSION_END, TOOL, TURN_END, TranscriptOffset, title_of
from eventlog.base.names import (
    event_id_of,
    project_context,
    session_context,
    session_id_of,
    sessions_context,
    short,
    slugify,
)
from eventlog.base.types import Event
from eventlog.hooks import state
from eventlog.hooks.locate import HookDirectory
from eventlog.hooks.state import SessionNotes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from eventlog.hooks.context import HookContext

_TRANSCRIPT_BYTES = {SESSION_END: 1 << 20}
_TRANSCRIPT_BYTES_USUAL = 4 << 20


class Completion:
    """Completes the call of a context from the notes of its session."""

    def __init__(self, context: "HookContext", notes: SessionNotes) -> None:
        self.context = context
        self.call = context.call
        self.calls = notes.calls
        self.lines = notes.lines

    def run(self) -> None:
        """Complete events that need earlier notes: a session's name, model calls, calls reported twice."""
        call, session = self.call, self.call.session
        if session is None:
            return
        if call.may_duplicate:
            call.events = [
                event for event in call.events if str(event.get("event_id")) not in self.calls.actions
            ]
        if call.tool.all_ended and self.context.directory is not None:
            self._settle(self.context.directory, session)
        if call.moment == SESSION:
            self._add_master()
        if call.prompt is not None:
            # Before it is cut: half a secret is no longer recognised.
            prompt = self.context.redactor.text(call.prompt)
            call.events[0]["title"] = title_of(prompt)
            if not self.calls.named:
                self._add_name(session, prompt)
        for path in self._transcripts():
            self._add_from_transcript(path)

    def _settle(self, directory: HookDirectory, session: str) -> None:
        """Add an action for each tool of the turn that ended unreported, and have its changes captured.

        Tools of subagents go on: a request of the agent to its model does not concern them.
        """
        call = self.call
        checkpoint = state.read_checkpoint(self.context.layout, directory.key)
        turn = short(session), short(call.turn or "")
        reporting_hook = "AfterAgent" if call.moment == TURN_END else "PreModelRequest"
        ended = [
            tool
            for tool in state.running(self.context.layout, directory.key, checkpoint)
            if tool.turn == turn and not tool.late and not tool.by_subagent
        ]
        for tool in ended:
            tool_use_id = None if tool.tool_use_id == "-" else tool.tool_use_id
            event = call.add("action", {"told_by": reporting_hook}, tool=tool.tool, tool_use_id=tool_use_id)
            event["event_id"] = tool.cause
            call.tool.ended.append(tool.cause)
        if ended and call.moment == TURN_END:
            call.events = call.events[-len(ended) :] + call.events[: -len(ended)]
        elif ended:
            call.moment = TOOL
            call.tool.cause = ended[0].cause if len(ended) == 1 else None

    def _transcripts(self) -> "list[str]":
        """Those of the call, and those of subagents, whose last words are written when they are gone."""
        paths = self.call.transcripts
        if paths and self.call.moment in (TURN_END, SESSION_END):
            subagents_of = getattr(self._reader(), "subagents_of", None)
            if subagents_of is not None:
                paths = [*paths, *(below for path in paths for below in subagents_of(path))]
        return paths

    def _reader(self) -> "Any":
        """The module that reads model calls and words from what the agent writes."""
        spec = agents.spec_of(self.call.agent)
        module = None if spec is None or spec.hooks is None else spec.hooks.model_calls
        return None if module is None else agents.loaded(module)

    def _add_master(self) -> None:
        repo, name = self.context.who.repo_hash, self.context.who.project_name
        event = self.call.add(
            "sessions",
            {"total_sessions": 0},
            operation="start",
            title=name,
            context_id=sessions_context(repo),
            extends=[project_context(name, repo)],
        )
        event["event_id"] = event_id_of("locus", "sessions", repo)
        self.call.events.insert(0, self.call.events.pop())

    def _add_name(self, session: str, prompt: str) -> None:
        session_id = session_id_of(self.call.agent, session)
        slug = slugify(prompt[:2_000], session_id)
        self.call.add(
            "session",
            {"slug": slug},
            "session",
            session,
            "name",
            operation="update",
            title=title_of(prompt),
            context_id=session_context(slug, session_id),
            extends=[sessions_context(self.context.who.repo_hash)],
        )
        self.call.events.insert(0, self.call.events.pop())
        self.lines.append(["named"])

    def _add_from_transcript(self, path: str) -> None:
        key = short(path)
        previous = self.calls.marks.get(key) or TranscriptOffset()
        bytes_max = _TRANSCRIPT_BYTES.get(self.call.moment or "", _TRANSCRIPT_BYTES_USUAL)
        try:
            events, mark = self._read(path, previous, bytes_max)
        except FileNotFoundError:
            return  # this client keeps no transcript
        except OSError as error:
            self.context.note(error)
            return
        for event in events:
            turn = self.calls.subagents.get(short(str(event.get("subagent_id"))))
            if turn is not None:
                event["agent_turn_id"] = turn
        # Before the snapshot at the end of the turn that they belong to (S1-37).
        ends = ("snapshot", "turn")
        index = next((i for i, event in enumerate(self.call.events) if event["event_type"] in ends), None)
        index = 0 if index is None else index
        self.call.events[index:index] = events
        if (mark.inode, mark.offset) != (previous.inode, previous.offset):
            self.lines.append(["mark", key, str(mark.inode), str(mark.offset)])

    def _read(
        self, path: str, previous: TranscriptOffset, bytes_max: int
    ) -> "tuple[list[Event], TranscriptOffset]":
        reader = self._reader()
        if reader is None:
            return [], previous
        calls: "tuple[list[Event], TranscriptOffset]" = reader.read_calls(
            self.call.agent, path, previous, bytes_max, self.calls.stamps
        )
        return calls
