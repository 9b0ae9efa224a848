"""When calls of models and tools began, as far as the times of other events of their turn show.

An event is written when what it tells of has ended. Where it does not say how long that took, its
neighbours do: a model begins to answer when it is asked, by a prompt or the last result of a tool, and a
tool runs from the answer that asked for it. That holds for times that agents wrote line by line, also years
ago; docs/times.md says what it does not tell. Pure text, computed where a question names one of the
columns, and stored nowhere.
"""

from eventlog import agents
from eventlog.projections import definitions as d

# Of the views `llm_calls` and `actions`, beside what their own events say.
COLUMNS: d.Columns = (
    ("started_at", d.TIME, "when it began: `occurred_at` less how long it took"),
    (
        "derived_ms",
        "BIGINT",
        "how long it took as the times of other events show, where `duration_ms` is unknown (docs/times.md)",
    ),
)

_BEGUN_AT = "begun_at"
_VALUES = (
    f"CASE WHEN duration_ms IS NULL THEN {_BEGUN_AT} ELSE "
    "TRY(make_timestamptz(epoch_us(occurred_at) - 1000 * greatest(duration_ms, 0))) END AS started_at, "
    f"CASE WHEN duration_ms IS NULL THEN (epoch_us(occurred_at) - epoch_us({_BEGUN_AT})) // 1000 END "
    "AS derived_ms"
)
_OWN_STOPS = "".join(
    f", CASE WHEN agent = '{spec.name}' "
    f"THEN TRY(json_extract_string(payload, '$.{spec.stop_reason_key}')) END"
    for spec in agents.specs()
    if spec.stop_reason_key is not None
)
_STOP = f"coalesce(TRY(json_extract_string(payload, '$.stop_reason')){_OWN_STOPS}) AS stop_reason"
_LATE = ", ".join(f"'{spec.name}'" for spec in agents.specs() if spec.counts_calls_late) or "NULL"
_ASKS = "(event_type = 'intent' OR (event_type = 'subagent' AND operation = 'start'))"
_ENDS = "(event_type = 'turn' AND operation = 'end')"
_ANSWERS = "event_type IN ('llm', 'message')"
_WORK = "session_id, turn, subagent_id"
_TOOLS = f"event_type IN {d.TOOL_TYPES}"


def llm_calls(events: str, beaten: str, *, derived: bool) -> str:
    """The calls of `definitions.llm_calls` with `COLUMNS`; without `derived` from their own events alone."""
    calls = f"event_type = 'llm' AND position NOT IN ({beaten})"
    begun = _with_begun(events, _of_models(events, calls) if derived else None)
    return f"SELECT {d.quoted(d.names_of(d.LLM_CALLS))}, {_VALUES}, {_STOP} FROM {begun} WHERE {calls}"


def actions(events: str, calls: str, *, derived: bool) -> str:
    """The relation `calls` of calls of tools with `COLUMNS`."""
    return f"(SELECT *, {_VALUES} FROM {_with_begun(calls, _of_tools(events) if derived else None)})"


def _with_begun(calls: str, begun: "str | None") -> str:
    if begun is None:
        return f"(SELECT *, NULL::TIMESTAMPTZ AS {_BEGUN_AT} FROM {calls})"
    return f"(SELECT e.*, {_BEGUN_AT} FROM {calls} AS e LEFT JOIN ({begun}) AS b ON b.position = e.position)"


def _of_models(events: str, calls: str) -> str:
    """When calls of models began; unknown where another one was answered since they were asked, and where
    their turn was over before.

    `calls` is the condition on events that are calls.
    """
    where = f"({calls}) OR {_ASKS} OR {_TOOLS} OR {_ENDS}"
    asked_at = f"event_type <> 'llm' AND NOT {_ENDS}"
    timed = _timed(events, where, asked_at=asked_at, answered_at="event_type = 'llm'", ended_at=_ENDS)
    return f"""
        SELECT position, CASE WHEN asked_at < occurred_at AND (answered_at < asked_at) IS NOT FALSE
            AND (ended_at < asked_at) IS NOT FALSE AND is_counted_late IS NOT TRUE
            THEN asked_at END AS {_BEGUN_AT}
        FROM ({timed}) WHERE event_type = 'llm'"""


def _of_tools(events: str) -> str:
    """When calls of tools began: as an event of their start says, else with the answer that asked for them;
    unknown where a prompt came since, for then a person called."""
    where = f"{_ANSWERS} OR {_ASKS} OR event_type = 'tool_start' OR {_TOOLS}"
    timed = _timed(events, where, asked_at=_ASKS, answered_at=_ANSWERS)
    return f"""
        SELECT position, CASE WHEN own_at < occurred_at THEN own_at
            WHEN answered_at < occurred_at AND (asked_at < answered_at) IS NOT FALSE
                AND is_counted_late IS NOT TRUE
            THEN answered_at END AS {_BEGUN_AT}
        FROM (
            SELECT *, max(CASE WHEN event_type = 'tool_start' AND tool_use_id IS NOT NULL
                THEN occurred_at END) OVER (PARTITION BY session_id, tool_use_id) AS own_at
            FROM ({timed}))
        WHERE {_TOOLS}"""


def _timed(events: str, where: str, **latest: str) -> str:
    """Events of known time, each with the latest times before it of some others of its turn or subagent.

    `is_counted_late`: the agent (`AgentSpec.counts_calls_late`) reported a model call after the tools that it
    asked for, so the order says neither when the answer ended nor what it answers.

    Args: latest: the name of a column, and the condition on the others.
    """
    columns = ", ".join(
        f"max(occurred_at) FILTER ({of}) OVER before AS {name}" for name, of in latest.items()
    )
    return f"""
        SELECT position, event_type, session_id, tool_use_id, occurred_at, {columns},
            agent IN ({_LATE}) AND min(occurred_at) FILTER ({_TOOLS}) OVER (PARTITION BY {_WORK})
                <= min(occurred_at) FILTER (event_type = 'llm') OVER (PARTITION BY {_WORK}) AS is_counted_late
        FROM {events}
        WHERE session_id IS NOT NULL AND occurred_at IS NOT NULL AND ({where})
        WINDOW before AS (PARTITION BY {_WORK} ORDER BY occurred_at, position
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"""
