"""What calls of tools did, to what, and which files they read, for the anchors of turns (docs/anchors.md).

The arguments of a call are in its payload, which no fold reads: all of this is computed where a question
names it, and stored nowhere. Pure text.
"""

from itertools import chain

from eventlog.base import exploring
from eventlog.base.types import COMMAND_ARGUMENTS, DIRECTORY_ARGUMENTS, PATH_ARGUMENTS
from eventlog.projections import definitions as d

ARE_CALLS = f"event_type IN {d.TOOL_TYPES}"
COMMAND: d.Columns = (("command", "VARCHAR", "the command line that the call ran"),)

ACTIONS_MAX = 100
_TARGET_SIZE_MAX = 120

# What tools do, by the names that agents give them, in small letters. Others go by their own name.
_VERBS = {
    "read": exploring.READ_TOOLS,
    "write": exploring.WRITE_TOOLS,
    "edit": exploring.EDIT_TOOLS,
    "delete": exploring.DELETE_TOOLS,
    "run": "bash shell exec_command local_shell run_shell_command run_terminal_cmd run_in_terminal "
    "powershell",
    "search": exploring.SEARCH_TOOLS,
    "list": exploring.LIST_TOOLS,
    "fetch": exploring.FETCH_TOOLS,
    "ask": "askuserquestion ask_user request_user_input question",
    "plan": "todowrite todo_write write_todos update_plan",
    "delegate": "task agent spawn_agent",
}
# Of the one tool that does several things; its arguments say which.
_EDITORS = "('str_replace_editor', 'str_replace_based_edit_tool')"
_CHANGES = "('write', 'edit', 'delete')"

_ARGUMENTS_OF = {
    "run": COMMAND_ARGUMENTS,
    "search": ("pattern", "query", "search_term", "regex", "file_name"),
    "fetch": ("url", "uri"),
    "delegate": ("description", "prompt"),
}

# A command of a shell that reads files by plain names; line numbers of sed are taken out before.
_NAME = r"[\pL0-9_./@%+=:,^][\pL0-9_./@%+=:,^-]*"
_OPTION = r"-[nc] ?\+?[0-9]+|-[0-9]+|-[A-Za-z]+"
_READS = f"^(?:cat|nl|head|tail|sed-n)(?: (?:{_OPTION}))*((?: {_NAME})+)$"
_PLAIN = r"^[^''\"$`\\<>;()*?\[\]{}#~!\n]*"
_COMPLAINT = r"\b(cat|head|tail|nl|sed): "
# A call that was refused, or of which an agent tells no more than that it is over, is no action taken.
_UNKNOWN = "success IS NULL AND contains(payload, '\"told_by\":')"
_ARGUMENTS = tuple(dict.fromkeys((*PATH_ARGUMENTS, *DIRECTORY_ARGUMENTS, *chain(*_ARGUMENTS_OF.values()))))


def argument(names: "tuple[str, ...]") -> str:
    """The first of a call's arguments that is there, as text; words of a list are joined by blanks."""
    return _text(f"TRY(json_extract(payload, {[f'$.args.{name}' for name in names]}))")


def _text(arguments: str) -> str:
    # The list is here once: what is in a statement twice is planned twice.
    words = "array_to_string(TRY_CAST(x AS VARCHAR[]), ' ')"
    text = f"CASE json_type(x) WHEN 'VARCHAR' THEN x ->> '$' WHEN 'ARRAY' THEN {words} END"
    return f"[{text} FOR x IN {arguments} IF x IS NOT NULL][1]"


def with_command(calls: str) -> str:
    return f"(SELECT *, {argument(COMMAND_ARGUMENTS)} AS command FROM {calls})"


def with_path(calls: str, events: str, named: str = argument(PATH_ARGUMENTS)) -> str:
    """Calls of tools with the file that each is about: of its event, of the only file that it changed, else
    as its arguments name it (`named`), from the session's first directory where it lies below that."""
    return f"""(
        SELECT r.* EXCLUDE (named) REPLACE (coalesce(r.path, changed.path,
            CASE WHEN starts_with(r.named, home || '/') THEN r.named[len(home) + 2:]
                WHEN starts_with(r.named, './') THEN r.named[3:] ELSE r.named END) AS path)
        FROM (SELECT *, {named} AS named FROM {calls}) AS r
        LEFT JOIN (SELECT cause, min(path) AS path FROM {events}
            WHERE event_type = 'file' AND cause IS NOT NULL
            GROUP BY cause HAVING min(path) = max(path)) AS changed ON changed.cause = r.event_id
        LEFT JOIN (SELECT session_id, arg_min(cwd, position) AS home FROM {events}
            WHERE cwd IS NOT NULL GROUP BY session_id) AS began ON began.session_id = r.session_id)"""


def of_turns(events: str) -> str:
    """`actions_taken` and `files_read` of each (session_id, turn) that has calls, as its events show them."""
    # Each payload is parsed once: `given` has the arguments of `_ARGUMENTS`.
    given = [f"$.args.{name}" for name in _ARGUMENTS]
    calls = f"""(
        SELECT *, {_given(COMMAND_ARGUMENTS)} AS command FROM (
            SELECT position, event_id, session_id, turn, tool, path, cwd, success,
                TRY(json_extract(payload, {given})) AS given,
                regexp_matches(payload, '{_COMPLAINT}') AS complains
            FROM {events} AS one WHERE {ARE_CALLS} AND turn IS NOT NULL AND ({_UNKNOWN}) IS NOT TRUE
            AND ({was_refused(events)}) IS NOT TRUE))"""
    named = _given(PATH_ARGUMENTS)
    return f"""
        WITH calls AS MATERIALIZED (
            SELECT *, {_verb()} AS verb FROM {with_path(calls, events, named)}
            LEFT JOIN (SELECT session_id, arg_min(cwd, position) AS home FROM {events}
                WHERE cwd IS NOT NULL GROUP BY session_id) AS starts USING (session_id)
        ), changes AS (
            SELECT cause, session_id, turn,
                list({{'path': path, 'operation': if(operation = 'delete', operation, NULL)}}
                    ORDER BY position) AS changed
            FROM {events} WHERE event_type = 'file' AND cause IS NOT NULL AND path IS NOT NULL
            AND operation IS DISTINCT FROM 'read' GROUP BY ALL
        ), acts AS (
            SELECT session_id, turn, position, place, coalesce(change.operation, verb) AS verb,
                coalesce(change.path, {_target()}) AS target
            FROM (SELECT calls.*, unnest(coalesce(changed, [NULL])) AS change,
                    unnest(range(coalesce(len(changed), 1))) AS place
                FROM calls LEFT JOIN changes ON verb IN {_CHANGES} AND cause = event_id
                    AND changes.session_id = calls.session_id AND changes.turn = calls.turn)
        ), texts AS (
            SELECT session_id, turn, concat_ws(' ', verb, {_one_line("target")}) AS act,
                min({{'position': position, 'place': place}}) AS first
            FROM acts GROUP BY ALL
        ), taken AS (
            SELECT session_id, turn, list(act ORDER BY first) AS acts FROM texts WHERE act <> '' GROUP BY ALL
        ), names AS (
            SELECT session_id, turn, path FROM calls
            WHERE verb = 'read' AND success IS NOT FALSE AND path IS NOT NULL
            UNION ALL {_of_shells()}
        ), readings AS (
            SELECT session_id, turn, list_sort(list(DISTINCT path)) AS files FROM names GROUP BY ALL
        )
        SELECT session_id, turn,
            CASE WHEN len(acts) > {ACTIONS_MAX} THEN list_append(acts[:{ACTIONS_MAX}],
                format('… and {{}} more', len(acts) - {ACTIONS_MAX})) ELSE acts END AS actions_taken,
            coalesce(files, []) AS files_read
        FROM taken FULL JOIN readings USING (session_id, turn)"""


def was_refused(events: str) -> str:
    """Whether a call `one` was refused: its error says so, or its result is what a person's refusal gives."""
    texts = ("The user doesn''t want to proceed", "The user doesn''t want to take this action")
    result = "TRY(json_extract_string(one.payload, '$.result'))"
    return f"""one.success = false AND ({" OR ".join(f"starts_with({result}, '{text}')" for text in texts)}
        OR (one.session_id, one.tool_use_id) IN (SELECT (session_id, tool_use_id) FROM {events}
            WHERE event_type = 'error' AND error_type = 'refused' AND session_id IS NOT NULL
            AND tool_use_id IS NOT NULL))"""


def _given(names: "tuple[str, ...]") -> str:
    values = ", ".join(f"given[{_ARGUMENTS.index(name) + 1}]" for name in names)
    return _text(f"[{values}]")


def _verb() -> str:
    verbs = {tool: verb for verb, tools in _VERBS.items() for tool in tools.split()}
    return (
        f"CASE WHEN lower(tool) IN {_EDITORS} THEN CASE command WHEN 'view' THEN 'read' "
        f"WHEN 'create' THEN 'write' ELSE 'edit' END ELSE coalesce(MAP {verbs}[lower(tool)], tool) END"
    )


def _target() -> str:
    own = " ".join(f"WHEN '{verb}' THEN {_given(names)}" for verb, names in _ARGUMENTS_OF.items())
    return f"coalesce(CASE verb {own} END, path, CASE WHEN verb NOT IN {_CHANGES} THEN command END)"


def _one_line(text: str) -> str:
    words = f"trim(regexp_replace({text}, '\\s+', ' ', 'g'))"
    return (
        f"nullif(CASE WHEN len({words}) > {_TARGET_SIZE_MAX} THEN {words}[:{_TARGET_SIZE_MAX - 1}] || '…' "
        f"ELSE {words} END, '')"
    )


def _of_shells() -> str:
    """The files that commands of shells read for certain; one whose names are not plain, or which may go on
    after a failure, says it of its first part alone."""
    shell = r"^(\S*/)?(ba|z|da)?sh -l?c "
    goes_on = "(len(plain) < len(script) OR contains(script, '||') OR success IS NULL)"
    moves = "starts_with(parts[1], 'cd ')"
    script = f"regexp_replace(trim(command), '{shell}', '')"
    for pattern, plain in (
        (r"\bsed -n (''[0-9,p;$]+''|\"[0-9,p;$]+\"|[0-9,p;]+)", "sed-n"),
        (rf"''({_NAME})''|\"({_NAME})\"", r"\1\2"),
    ):
        script = f"regexp_replace({script}, '{pattern}', '{plain}', 'g')"
    return f"""
        SELECT session_id, turn, {_within("name")} AS path FROM (
            SELECT session_id, turn, home, unnest(string_split(trim(names), ' ')) AS name,
                CASE WHEN {moves} THEN {_absolute("parts[1][4:]", "base")} ELSE base END AS base
            FROM (
                SELECT session_id, turn, home, base, parts, regexp_extract(unnest(list_transform(
                    CASE WHEN {goes_on} THEN parts[:CASE WHEN {moves} THEN 2 ELSE 1 END] ELSE parts END,
                    lambda part: split_part(part, ' | ', 1))), '{_READS}', 1) AS names
                FROM (
                    SELECT *, regexp_extract(script, '{_PLAIN}') AS plain,
                        list_transform(string_split(script, ' && '), lambda part: trim(part)) AS parts
                    FROM (
                        SELECT session_id, turn, home, success,
                            coalesce({_given(DIRECTORY_ARGUMENTS)}, cwd, home) AS base, {script} AS script
                        FROM calls WHERE verb = 'run' AND success IS NOT FALSE AND NOT complains))
                WHERE NOT contains(array_to_string(parts[2:], ' '), 'cd '))
            WHERE names <> '')
        WHERE NOT contains(name, '..') AND NOT starts_with(name, '/dev/')"""


def _absolute(name: str, base: str) -> str:
    return f"CASE WHEN starts_with({name}, '/') THEN {name} ELSE {base} || '/' || {name} END"


def _within(name: str) -> str:
    """A file's name in `base` as anchors have it: below the session's first directory without that."""
    plain = f"regexp_replace({name}, '^(\\./)+', '')"
    full = _absolute(plain, "base")
    return (
        f"CASE WHEN base IS NULL THEN {plain} WHEN starts_with({full}, home || '/') "
        f"THEN ({full})[len(home) + 2:] ELSE {full} END"
    )
