"""What became of changes of files: what undid one, whether it is still there, which commit has it.

Only hashes of contents are compared, so an answer is exact or null, and no content is read. A change is later
than another one that happened before it; of the same time, or where one has none, by its place in their
session. Commits that no line reaches any more neither put back nor change what is there. docs/sql.md
("Joined columns") is the rule. Pure text, computed where a question names one of the columns.
"""

from eventlog.projections import definitions as d

OF_VERSION: d.Columns = (
    (
        "reverted_by",
        "VARCHAR",
        "turn whose change put back what was there before "
        "({session_id}_{turn_id}; outside turns its event id)",
    ),
    ("survived", "BOOLEAN", "whether the newest version of the path has the content that this change made"),
    ("committed_in", "VARCHAR", "first imported commit since then that has this content at this path"),
)
OF_TURN: d.Columns = (
    ("reverted_by", "VARCHAR", "turn with which the last of its files was as before; null while one is not"),
)

# Of a change: whether a content that should be there is unknown (P7).
NO_BEFORE = "before_hash IS NULL AND operation IS DISTINCT FROM 'add'"
NO_AFTER = "after_hash IS NULL AND operation IS DISTINCT FROM 'delete'"

_NEVER = "'-infinity'::TIMESTAMPTZ"


def of_versions(events: str) -> str:
    """For each change that `file_versions` lists: its position, and `OF_VERSION`."""
    return f"""
        WITH change AS ({_changes(events)}), back AS ({_put_back("change", "change", "true")}),
        newest AS ({_newest("change")}), held AS (
            SELECT e.position,
                arg_min(c."commit", {{'r': c.rewritten, 'at': c.happened, 'p': c.position}}) AS found
            FROM change AS e JOIN change AS c ON {_same_file("c", "e")} AND c.after = e.after
            WHERE c.agent = 'git' AND c.happened >= date_trunc('second', e.happened) GROUP BY e.position)
        SELECT position, back.reverter.name AS reverted_by,
            CASE WHEN after = newest.content THEN true
                WHEN after IS NOT NULL AND newest.content IS NOT NULL
                AND (e.happened IS NOT NULL OR newest.session_id IS NOT DISTINCT FROM e.session_id) THEN false
                END AS survived,
            held.found AS committed_in
        FROM change AS e LEFT JOIN back USING (position) LEFT JOIN held USING (position)
        LEFT JOIN newest ON {_same_file("newest", "e")}"""


def of_turns(events: str) -> str:
    """For each turn all of whose files are as they were before it: session, turn, and `OF_TURN`."""
    other = "(l.session_id, l.turn) IS DISTINCT FROM (e.session_id, e.turn)"
    return f"""
        WITH change AS ({_changes(events)}), net AS (
            SELECT session_id, turn, repo, path, arg_min_null(from_path, position) AS from_path,
                arg_min_null(before, position) AS before, arg_max_null(after, position) AS after,
                max(happened) AS happened, max(position) AS position
            FROM change WHERE turn IS NOT NULL GROUP BY session_id, turn, repo, path
        ), back AS ({_put_back("net", "change", other)})
        SELECT session_id, turn, max(back.reverter).name AS reverted_by
        FROM net LEFT JOIN back USING (position) WHERE before IS DISTINCT FROM after OR before IS NULL
        GROUP BY session_id, turn HAVING bool_and(back.reverter IS NOT NULL)"""


def _changes(events: str) -> str:
    """The changes, with the contents before and after: null where unknown, empty where there was none."""
    return f"""
        SELECT position, agent, e.session_id, e.turn, e.repo, "commit", e.path,
            {d.HAPPENED_AT} AS happened,
            coalesce(CASE WHEN operation = 'rename' THEN TRY(json_extract_string(payload, '$.old_path')) END,
                e.path) AS from_path,
            CASE WHEN NOT ({NO_BEFORE}) THEN coalesce(before_hash, '') END AS before,
            CASE WHEN NOT ({NO_AFTER}) THEN coalesce(after_hash, '') END AS after,
            coalesce(e.session_id || '_' || turn_id, event_id) AS name, gone.turn IS NOT NULL AS rewritten
        FROM {events} AS e
        LEFT JOIN ({d.rewritten(events)}) AS gone ON gone.session_id = e.session_id AND gone.turn = e.turn
        WHERE event_type = 'file' AND operation IS DISTINCT FROM 'read' AND path IS NOT NULL"""


def _put_back(changes: str, later: str, other: str) -> str:
    """Of each change the first one later that brought back its content before, as time, position and name."""
    return f"""
        SELECT e.position, min({{'at': coalesce(l.happened, {_NEVER}), 'position': l.position,
                'name': l.name}}) AS reverter
        FROM {changes} AS e JOIN {later} AS l ON l.repo IS NOT DISTINCT FROM e.repo
            AND l.path = e.from_path AND l.from_path = e.path AND l.after = e.before
        WHERE NOT l.rewritten AND ({other}) AND (e.before <> e.after OR e.path <> e.from_path)
            AND (l.happened > e.happened
                OR (l.session_id IS NOT DISTINCT FROM e.session_id AND l.position > e.position
                    AND (l.happened <> e.happened) IS NOT TRUE))
        GROUP BY e.position"""


def _newest(changes: str) -> str:
    """What each path holds: the content after its newest change; none where a rename took it away."""
    order = f"{{'at': coalesce(happened, {_NEVER}), 'position': position}}"
    return f"""
        SELECT repo, path, arg_max_null(after, {order}) AS content,
            arg_max_null(session_id, {order}) AS session_id
        FROM (
            SELECT repo, path, after, session_id, happened, position FROM {changes} WHERE NOT rewritten
            UNION ALL SELECT repo, from_path, '', session_id, happened, position FROM {changes}
            WHERE NOT rewritten AND from_path <> path)
        GROUP BY repo, path"""


def _same_file(file: str, other: str) -> str:
    return f"{file}.repo IS NOT DISTINCT FROM {other}.repo AND {file}.path = {other}.path"
