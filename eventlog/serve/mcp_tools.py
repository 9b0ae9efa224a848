"""The tools of `locus mcp`: what they are called, what they say of themselves, what they take.

The words are for a model that chooses between tools: what for, then what it gives. Names and words of
arguments are kept short, since an agent pays for them in every request.
"""

from eventlog.serve import mcp_memory, mcp_read, mcp_sql, mcp_write
from eventlog.serve.mcp_call import FLAG, NUMBER, TEXT, TEXTS, Parameter, Tool

_SESSION = Parameter("session_id", TEXT, "The session (sess-…); by default the agent's active one.")
_TURN = Parameter(
    "turn", TEXT, "turn:SID_TID, SID_TID, a unique beginning, git:COMMIT, or last.", required=True
)
_PATH = Parameter(
    "path", TEXT, "Only this file, or what is below this directory; from the repository's root."
)


def _limit(default: int) -> Parameter:
    return Parameter("limit", NUMBER, "At most so many.", default=default, least=1, most=200)


def tools_for(agent_id: str) -> tuple[Tool, ...]:
    """The tools as an agent is shown them, which is meant where a call does not say which (S3-17)."""
    agent = Parameter("agent_id", TEXT, "Which agent you are.", default=agent_id)
    return (
        Tool(
            "session_start",
            "Start a session",
            "Say what you are about to work on, so that other agents and later sessions know. Ends the "
            "session that "
            "you have active.",
            mcp_write.session_start,
            (
                Parameter("focus", TEXT, "What you work on, in a few words.", required=True),
                Parameter("scope", TEXTS, "Paths that it concerns."),
                agent,
                Parameter("description", TEXT, "More of it."),
            ),
            writes=True,
            quotes=False,
        ),
        Tool(
            "session_end",
            "End a session",
            "Say that a session is over.",
            mcp_write.session_end,
            (_SESSION, agent),
            writes=True,
            quotes=False,
        ),
        Tool(
            "list_sessions",
            "List sessions",
            "Which sessions there are, what each is about, and since when.",
            mcp_write.list_sessions,
            (Parameter("active_only", FLAG, "Leave out those that ended.", default=True),),
        ),
        Tool(
            "post_event",
            "Record an event",
            "Record something worth knowing later: a discovery, decision, warning, mutation or outcome.",
            mcp_write.post_event,
            (
                Parameter(
                    "event_type", TEXT, "Which of these.", required=True, choices=tuple(mcp_write.POSTED)
                ),
                Parameter("content", TEXT, "What it is, in a sentence or two.", required=True),
                agent,
                _SESSION,
                Parameter("path", TEXT, "The file that it is about, from the repository's root."),
                Parameter("reasoning", TEXT, "Why."),
            ),
            writes=True,
            quotes=False,
        ),
        Tool(
            "store_decision",
            "Record a decision",
            "Record a choice that was made, and why.",
            mcp_write.store_decision,
            (
                Parameter("summary", TEXT, "What was decided.", required=True),
                Parameter("reasoning", TEXT, "Why."),
                agent,
                _SESSION,
            ),
            writes=True,
            quotes=False,
        ),
        Tool(
            "store_error",
            "Record an error",
            "Record that something failed.",
            mcp_write.store_error,
            (
                Parameter("context", TEXT, "Where, or the error's type.", required=True),
                Parameter("message", TEXT, "What was said.", required=True),
                Parameter("command_or_file", TEXT, "The command, or the file."),
                agent,
                _SESSION,
            ),
            writes=True,
            quotes=False,
        ),
        Tool(
            "store_feedback",
            "Record feedback",
            "Record what the user said of the work.",
            mcp_write.store_feedback,
            (
                Parameter("message", TEXT, "What was said.", required=True),
                Parameter("sentiment", TEXT, "How.", choices=("positive", "negative", "neutral")),
                agent,
                _SESSION,
            ),
            writes=True,
            quotes=False,
        ),
        Tool(
            "briefing",
            "Briefing",
            "What a new session should know: who is at work, what failed, what was decided and done. Each "
            "line names "
            "its event, and says whether the files it speaks of are still so.",
            mcp_memory.briefing_text,
            (
                Parameter("focus", TEXT, "What you work on; by default your active session's focus."),
                Parameter("scope", TEXTS, "Paths that it concerns."),
                agent,
                Parameter("budget", NUMBER, "Its size in tokens.", default=1000, least=100, most=8000),
            ),
        ),
        Tool(
            "who",
            "Who is at work",
            "Which agents have active sessions here, on what, which files they touched, and where two of "
            "them meet.",
            mcp_memory.who_text,
        ),
        Tool(
            "search",
            "Search the record",
            "Find words in all recorded events and file contents, the best places first.",
            mcp_read.search,
            (
                Parameter("words", TEXT, 'All must be there; "a phrase", begin*, -without.', required=True),
                Parameter("types", TEXTS, "Only these: decision, error, action, file, llm, feedback, …"),
                _PATH,
                Parameter("session", TEXT, "Only this session."),
                _limit(10),
            ),
        ),
        Tool(
            "timeline",
            "Timeline of a turn",
            "Everything that happened in a turn, in order.",
            mcp_read.timeline,
            (_TURN,),
        ),
        Tool(
            "show",
            "Show one thing",
            "All that is recorded of one event, turn or session.",
            mcp_read.show,
            (
                Parameter(
                    "name",
                    TEXT,
                    "An event's id, a session's, a turn, or the beginning of one.",
                    required=True,
                ),
            ),
        ),
        Tool(
            "file_at",
            "A file as it was",
            "The recorded bytes of a file at the end, or the start, of a turn.",
            mcp_read.file_at,
            (
                _TURN,
                Parameter("path", TEXT, "The file, from the repository's root.", required=True),
                Parameter("at", TEXT, "Which moment of the turn.", default="end", choices=("end", "start")),
            ),
        ),
        Tool(
            "diff",
            "What changed",
            "What changed in a turn, or from the end of one to the end of another; a unified diff.",
            mcp_read.diff,
            (
                _TURN,
                Parameter("until", TEXT, "The later turn."),
                Parameter("paths", TEXTS, "Only these files and directories."),
            ),
        ),
        Tool(
            "decisions",
            "Decisions",
            "What was decided and why, newest first.",
            mcp_read.decisions,
            (Parameter("words", TEXT, "Only those that these words bear on."), _PATH, _limit(20)),
        ),
        Tool(
            "sql",
            "Ask in SQL",
            "One SELECT over the record (DuckDB): views events, sessions, turns, files, actions, decisions, "
            "errors, "
            "llm_calls and more; `describe events` shows columns.",
            mcp_sql.ask,
            (Parameter("query", TEXT, "One SELECT.", required=True),),
        ),
        Tool(
            "context_bundle",
            "Shared context",
            "What is shared of a workstream: rules, decisions, evidence, and whether it still holds.",
            mcp_read.context_bundle,
            (
                Parameter("workstream", TEXT, "Its name.", required=True),
                Parameter(
                    "phase", TEXT, "Which.", default="planning", choices=("planning", "implementation")
                ),
            ),
        ),
    )
