"""The tools of `locus mcp`: their names, their descriptions, their arguments.

The words are for a model that chooses between tools: the purpose, then the answer. An agent pays for them in
every request, so they are short, and an argument has one name, one form and one description in all tools;
earlier names, and names from elsewhere, are accepted as well.
"""

from eventlog.mcp import memory, read, sql, undo, write
from eventlog.mcp.call import FLAG, NUMBER, SHARE, TEXT, TEXTS, Parameter, Tool

_SESSION = Parameter("session_id", TEXT, aliases=("session",))
_TURN = Parameter("turn", TEXT, required=True)
_PATH = Parameter("path", TEXT, "A file or folder.")
_SCOPE = Parameter("scope", TEXTS, "Files and folders.", aliases=("paths",))
_PHASE = Parameter("phase", TEXT, default="planning", choices=("planning", "implementation"))
_REASONING = Parameter("reasoning", TEXT, "Why.")
_WORDS = 'All must occur; "a phrase", begin*, -without.'


def _limit(default: int) -> Parameter:
    return Parameter("limit", NUMBER, default=default, least=1, most=200)


def _focus(required: bool) -> Parameter:
    return Parameter("focus", TEXT, "What you work on.", required=required)


def tools_for(agent_id: str) -> tuple[Tool, ...]:
    """The tools for an agent, which is the default agent of a call (S3-17)."""
    agent = Parameter("agent_id", TEXT, default=agent_id, aliases=("agent",))
    return (*_recording(agent), *_reading(agent))


def _recording(agent: Parameter) -> tuple[Tool, ...]:
    return (
        Tool(
            "session_start",
            "Start a session",
            "Say what you begin to work on, for others and later sessions. Ends your active session.",
            write.session_start,
            (_focus(True), _SCOPE, agent, Parameter("description", TEXT, "More of it.")),
            writes=True,
            quotes=False,
        ),
        Tool(
            "session_end",
            "End a session",
            "Say that your work is over.",
            write.session_end,
            (_SESSION, agent),
            writes=True,
            quotes=False,
        ),
        Tool(
            "post_event",
            "Record an event",
            "What is worth knowing later.",
            write.post_event,
            (
                Parameter("event_type", TEXT, required=True, choices=tuple(write.POSTED), aliases=("type",)),
                Parameter(
                    "content", TEXT, "A sentence or two.", required=True, aliases=("message", "summary")
                ),
                agent,
                _SESSION,
                _PATH,
                _REASONING,
            ),
            writes=True,
            quotes=False,
        ),
        Tool(
            "store_decision",
            "Record a decision",
            "A choice that was made, and why.",
            write.store_decision,
            (
                Parameter("summary", TEXT, required=True, aliases=("decision", "content", "title")),
                _REASONING,
                Parameter(
                    "alternatives", TEXTS, "Not chosen.", aliases=("alternatives_considered", "options")
                ),
                Parameter("confidence", SHARE, "0 to 1."),
                agent,
                _SESSION,
            ),
            writes=True,
            quotes=False,
        ),
        Tool(
            "store_error",
            "Record an error",
            "Something failed.",
            write.store_error,
            (
                Parameter(
                    "context", TEXT, "Where, or the error's type.", required=True, aliases=("error_type",)
                ),
                Parameter("message", TEXT, required=True, aliases=("content", "error")),
                Parameter("command", TEXT, aliases=("command_or_file",)),
                Parameter("file", TEXT, aliases=("path",)),
                Parameter("line", NUMBER),
                Parameter("resolved", FLAG),
                Parameter("resolution", TEXT, "What helped.", aliases=("fix",)),
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
            write.store_feedback,
            (
                Parameter("message", TEXT, required=True, aliases=("content", "feedback")),
                Parameter(
                    "feedback_type",
                    TEXT,
                    choices=("approval", "rejection", "correction"),
                    aliases=("type", "kind"),
                ),
                Parameter("sentiment", TEXT, choices=("positive", "negative", "neutral")),
                agent,
                _SESSION,
            ),
            writes=True,
            quotes=False,
        ),
    )


def _reading(agent: Parameter) -> tuple[Tool, ...]:
    return (
        Tool(
            "list_sessions",
            "List sessions",
            "Sessions: about what, since when.",
            write.list_sessions,
            (Parameter("active_only", FLAG, default=True),),
        ),
        Tool(
            "briefing",
            "Briefing",
            "What to know before you begin: who is at work, what failed, what was decided and done.",
            memory.briefing_text,
            (
                _focus(False),
                _SCOPE,
                agent,
                Parameter("budget", NUMBER, "Tokens.", default=1000, least=100, most=8000),
            ),
        ),
        Tool(
            "context",
            "Context for a message",
            "What to know for a message: last turns, what bears on it, errors, codes.",
            memory.context_text,
            (
                Parameter("message", TEXT, required=True, aliases=("prompt", "query")),
                _SESSION,
                Parameter("workstream", TEXT),
                agent,
                Parameter("budget", NUMBER, "Tokens.", default=2500, least=100, most=8000),
            ),
        ),
        Tool(
            "who",
            "Who is at work",
            "Agents at work here, on what, and where two of them meet.",
            memory.who_text,
        ),
        Tool(
            "search",
            "Search the record",
            "Find words in all events and file contents, best first.",
            read.search,
            (
                Parameter("words", TEXT, _WORDS, required=True),
                Parameter("types", TEXTS, "decision, error, action, file, llm, …"),
                _PATH,
                _SESSION,
                _limit(10),
            ),
        ),
        Tool(
            "decisions",
            "Decisions",
            "What was decided and why.",
            read.decisions,
            (Parameter("words", TEXT, _WORDS), _PATH, _limit(20)),
        ),
        Tool(
            "timeline",
            "Timeline of a turn",
            "All events of a turn, in order.",
            read.timeline,
            (_TURN,),
        ),
        Tool(
            "show",
            "Show one thing",
            "All that is recorded of one event, turn or session.",
            read.show,
            (Parameter("name", TEXT, "Its id, or a beginning.", required=True),),
        ),
        Tool(
            "file_at",
            "A file as it was",
            "A file as it was in a turn.",
            read.file_at,
            (
                _TURN,
                Parameter("path", TEXT, _PATH.text, required=True),
                Parameter("at", TEXT, default="end", choices=("end", "start")),
            ),
        ),
        Tool(
            "diff",
            "What changed",
            "What changed in a turn, or until the end of another.",
            read.diff,
            (_TURN, Parameter("until", TEXT, "A later turn."), _SCOPE),
        ),
        Tool(
            "undo_plan",
            "Plan an undo",
            "What taking back a turn would change; a person carries it out.",
            undo.undo_plan,
            (Parameter("turn", TEXT), _SCOPE),
        ),
        Tool(
            "sql",
            "Ask in SQL",
            "One SELECT (DuckDB); `describe turns` shows columns. Views: events, "
            "sessions, turns (session_id, turn, title, outcome, model, tokens_used, commits_made), actions "
            "(tool, command, path, success), file_versions (path, lines_added, survived), decisions, errors, "
            "llm_calls and more.",
            sql.ask,
            (Parameter("query", TEXT, required=True, aliases=("sql",)),),
        ),
        Tool(
            "context_bundle",
            "Shared context",
            "What is shared of a workstream, and whether it still holds.",
            read.context_bundle,
            (
                Parameter("workstream", TEXT, required=True),
                _PHASE,
            ),
        ),
    )
