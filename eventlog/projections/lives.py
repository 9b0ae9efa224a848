"""What sessions are to each other: which continues which, and which are over though nobody ended them.

A session that is folded alone knows its own events. Here, of all sessions together (docs/session-life.md):
- A part of a conversation that no `session` event began extends the part before, and has its title and its
  state.
- An active session is over when a further part of its conversation began (`rollover`), when nothing
  happened in it since the next session of its agent was opened (`superseded`), and where there is an idle
  limit when that is over since its last event (`idle`). Whatever happens in it afterwards makes it active
  again, but for a rollover.
Pure text. One text serves the view `sessions` and the master, so there is one answer to which session is
active.
"""

from eventlog.projections.keyed import Keys, led, same

# Groups of commits: nobody is at work in them.
_HISTORY = "agent IS NOT DISTINCT FROM 'git'"


def safe(text: str) -> str:
    """`names.safe_context_name` in SQL."""
    return f"lower(regexp_replace({text}, '[^A-Za-z0-9_-]', '_', 'g'))"


# Of a row of the view `sessions`: whether no event ended it, so that its agent may go on in it at any moment.
MAY_GO_ON = (
    "(status = 'active' OR (end_reason IN ('superseded', 'idle') AND session_id NOT IN (SELECT session_id "
    "FROM events WHERE event_type = 'session' AND operation = 'end' AND session_id IS NOT NULL)))"
)

# The column `continues` of a session folded alone: empty where no event began it, so another may have.
NOT_BEGUN = "CASE WHEN {} IS NOT TRUE THEN '' END"

# Which log a session is of. In one log that is 0. Of several that are asked as one (docs/lake-questions.md)
# each has so many positions, and what is over in one says nothing of another.
POSITION_BITS = 40
OF_LOG = f"first_position >> {POSITION_BITS}"

# What one agent calls one session; a session of nobody's name is one by itself.
_CONVERSATION = "repo, agent, agent_session_id, CASE WHEN agent_session_id IS NULL THEN session_id END"


def lived(sessions: str, idle_hours: "float | None" = None, keys: Keys = ()) -> str:
    """All sessions with what they are to each other.

    Args: sessions: a relation with the columns of `definitions.SESSIONS`, each folded alone; idle_hours:
    how long nothing may happen in an active session; None for any time; keys: see keyed.py.
    """
    first = led(keys)
    idle = "false"
    if idle_hours is not None:
        idle = f"epoch_us(now()) - epoch_us(last_at) > {round(idle_hours * 3_600_000_000)}::HUGEINT"
    return f"""(
        WITH placed AS (
            SELECT {first}session_id, repo, agent, agent_session_id, status, extends, last_at, first_position,
                last_position, opened_position,
                lag(session_id) OVER conversation AS before,
                lag(context_id) OVER conversation AS before_context,
                before_context IS NOT NULL
                    AND (continues = '' OR list_contains(extends, before_context)) AS is_part,
                last_value(title IGNORE NULLS) OVER conversation AS known_title,
                last_value(status IGNORE NULLS) OVER conversation AS known_status,
                lead(opened_position) OVER opened AS next_opened,
                lead(started_at) OVER opened AS next_started
            FROM {sessions}
            WINDOW conversation AS (PARTITION BY {first}{_CONVERSATION} ORDER BY first_position),
                opened AS (PARTITION BY {first}repo, agent, {OF_LOG} ORDER BY opened_position)
        ), parted AS (
            SELECT *, coalesce(lead(is_part) OVER conversation, false)
                AND lead(first_position) OVER conversation > opened_position AS goes_on
            FROM placed WINDOW conversation AS (PARTITION BY {first}{_CONVERSATION} ORDER BY first_position)
        ), ended AS (
            SELECT {first}session_id, is_part, before, before_context, known_title, next_started,
                CASE WHEN is_part THEN known_status ELSE status END AS state,
                CASE WHEN state IS DISTINCT FROM 'active' OR {_HISTORY} THEN NULL
                    WHEN goes_on THEN 'rollover'
                    WHEN last_position < next_opened THEN 'superseded'
                    WHEN {idle} THEN 'idle' END AS reason
            FROM parted
        )
        SELECT s.* REPLACE (
            CASE WHEN e.is_part THEN coalesce(s.title, e.known_title) ELSE s.title END AS title,
            CASE WHEN e.reason IS NULL THEN e.state ELSE 'closed' END AS status,
            CASE WHEN e.reason IS NULL THEN s.end_reason ELSE e.reason END AS end_reason,
            CASE WHEN e.reason = 'superseded' THEN greatest(s.last_at, e.next_started)
                WHEN e.reason IS NOT NULL OR (e.is_part AND e.state <> 'active')
                THEN coalesce(s.ended_at, s.last_at) ELSE s.ended_at END AS ended_at,
            CASE WHEN NOT e.is_part OR list_contains(s.extends, e.before_context) THEN s.extends
                ELSE list_concat(CASE WHEN len(s.extends) > 0 OR s.repo IS NULL THEN s.extends
                    ELSE [{safe("s.repo")} || ':sessions'] END, [e.before_context]) END AS extends,
            CASE WHEN e.is_part THEN e.before END AS continues)
        FROM {sessions} AS s JOIN ended AS e ON {same(keys, "e", "s")}e.session_id = s.session_id)"""


def master(masters: str, sessions: str, idle_hours: float, keys: Keys = ()) -> str:
    """The masters, folded without an idle limit, with one."""
    first = led(keys)
    return f"""
        SELECT m.* REPLACE (
            a.active_session AS active_session, coalesce(a.active_sessions, 0) AS active_sessions)
        FROM {masters} AS m LEFT JOIN (
            SELECT {first}repo,
                arg_max(context_id, opened_position) AS active_session, count(*) AS active_sessions
            FROM {lived(sessions, idle_hours, keys)}
            WHERE status = 'active' GROUP BY {first}repo) AS a ON {same(keys, "a", "m")}a.repo = m.repo"""
