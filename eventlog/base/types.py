"""The envelope: every column of an event, its type, and who fills it.

Parquet, Arrow and SQL use the same names and types. Integers are int64, times are microseconds
since 1970 UTC (`timestamp[us, UTC]` in Parquet and SQL, plain integers in journals and in Python),
lists are lists of text. A column that is unknown is null and absent from the journal line (P7).

In Python an event is a plain dict from column name to value, with `payload` as a dict of its own.
The hook path imports this module, so it holds no dataclasses.
"""

INT, TEXT, BOOL, TIME, LIST, JSON = "int", "text", "bool", "time", "list", "json"
TIME_MIN, TIME_MAX = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 to 9999

# In the order in which they are written, everywhere.
COLUMNS: "tuple[tuple[str, str], ...]" = (
    # identity
    ("position", INT),  # assigned by the log
    ("event_id", TEXT),  # 32 hex digits; equal id = the same event
    ("event_type", TEXT),  # session, turn, sessions, intent, action, file, snapshot, …: an open set
    ("event_kind", TEXT),  # fact, observation, action, decision, feedback
    ("source", TEXT),  # system, user, agent, executor, validator
    ("schema_version", INT),
    ("redacted", BOOL),
    # numbering: folds of the log (log/numbering.py); a caller's own value wins
    ("session_id", TEXT),
    ("turn", INT),
    ("turn_id", TEXT),
    ("seq", INT),
    ("context_id", TEXT),
    ("extends", LIST),
    ("related_to", LIST),
    ("reinforces", LIST),
    ("contradicts", LIST),
    # what the agent reports
    ("agent", TEXT),
    ("agent_version", TEXT),
    ("agent_session_id", TEXT),
    ("agent_turn_id", TEXT),
    ("tool_use_id", TEXT),
    ("subagent_id", TEXT),
    ("message_id", TEXT),
    ("request_id", TEXT),
    ("cause", TEXT),  # event id of the action that made a file event
    # where
    ("repo", TEXT),  # repo_hash
    ("worktree", TEXT),
    ("cwd", TEXT),
    ("branch", TEXT),
    ("commit", TEXT),
    # when
    ("occurred_at", TIME),
    ("recorded_at", TIME),
    # promoted from the payload, so that projections and SQL parse no JSON in the hot path
    ("title", TEXT),
    ("status", TEXT),
    ("tool", TEXT),
    ("path", TEXT),  # repository-relative, "/" between names; see paths.py for odd bytes
    (
        "operation",
        TEXT,
    ),  # lifecycle: start, end, update; file: add, edit, delete, rename; snapshot: turn_start, turn_end
    ("model", TEXT),
    ("prompt_tokens", INT),  # everything the model read, cache included
    ("completion_tokens", INT),  # reasoning included
    ("reasoning_tokens", INT),
    ("cache_read_tokens", INT),
    ("cache_write_tokens", INT),
    ("cache_write_1h_tokens", INT),
    ("duration_ms", INT),
    ("success", BOOL),
    ("error_type", TEXT),
    ("resolved", BOOL),
    ("before_hash", TEXT),
    ("after_hash", TEXT),
    ("tree_hash", TEXT),
    ("lines_added", INT),
    ("lines_removed", INT),
    # references: every blob and tree this event needs (what garbage collection marks)
    ("blobs", LIST),
    # the rest
    ("payload", JSON),
)

COLUMN_NAMES = tuple(name for name, _ in COLUMNS)
COLUMN_KINDS = dict(COLUMNS)

# What a writer may put on a journal line: all but the position (the frame has it) and the payload.
ENVELOPE_NAMES = tuple(n for n in COLUMN_NAMES if n not in ("position", "payload"))

SCHEMA_VERSION = 1

# Lifecycle events move anchors; all other types are timeline events and get a `seq`.
LIFECYCLE_TYPES = ("session", "turn", "sessions")

# Those whose payload holds keys of an anchor: `log/segment.py` keeps these payloads in a column apart.
ANCHOR_TYPES = ("session", "turn")

# S1-38 and the lifecycle rows of S1-18, S1-23, S1-17.
KIND_OF_TYPE = {
    "intent": "observation",
    "action": "action",
    "file": "action",
    "snapshot": "fact",
    "decision": "decision",
    "error": "observation",
    "llm": "action",
    "feedback": "feedback",
    "session": "fact",
    "sessions": "fact",
    "turn": "observation",
}

# S1-29 … S1-38: the source where the caller gives none.
SOURCE_OF_TYPE = {
    "intent": "user",
    "action": "executor",
    "file": "executor",
    "snapshot": "system",
    "decision": "agent",
    "error": "system",
    "llm": "system",
    "feedback": "user",
    "session": "system",
    "sessions": "system",
    "turn": "system",
}

# S1-52, in the form of requirement ruling c8: bare categories locally, mapped at export.
RELATED_OF_TYPE = {"file": ["editor"], "decision": ["decisions"], "error": ["errors"]}

# The names that tools, those of MCP servers too, give to the path that a call is about, and to a command: the
# first that is there counts.
PATH_ARGUMENTS = (
    "file_path", "filePath", "notebook_path", "absolute_path", "target_file", "relative_path", "filepath",
    "file_name", "filename", "file", "path", "dir_path",
)  # fmt: skip
# The directory in which a command runs.
DIRECTORY_ARGUMENTS = ("workdir", "cwd")
COMMAND_ARGUMENTS = ("command", "cmd", "script", "commandLine", "command_line")

Event = dict[str, object]
