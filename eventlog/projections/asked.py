"""What people decided and refused when an agent asked them, as its calls show it (docs/anchors.md).

Such a call is what it was recorded as; the views `decisions` and `feedback` have a row for it beside the
events of these types, with the place of the call. Pure text.
"""

from eventlog.projections import calls

# Of an event: whether `decisions` may have a row for it.
_ASKING = "tool IN ('ExitPlanMode', 'AskUserQuestion') AND success"
MAY_DECIDE = f"event_type = 'decision' OR {calls.ARE_CALLS} AND {_ASKING}"
_ANSWERS = "TRY_CAST(TRY(json_extract(payload, '$.result.answers')) AS MAP(VARCHAR, VARCHAR))"
_QUESTIONS = (
    "TRY(json_transform(json_extract(payload, '$.args.questions'), "
    """'[{"question":"VARCHAR","options":[{"label":"VARCHAR"}]}]'))"""
)


def decisions(events: str) -> str:
    """Events of type `decision`: those recorded, plans that were accepted, questions that were answered."""
    plan = "coalesce({}, {})".format(
        *(f"TRY(json_extract_string(payload, '$.{source}.plan'))" for source in ("args", "result"))
    )
    options = (
        f"flatten(list_transform(list_filter({_QUESTIONS}, lambda q: q.question = asked.key), "
        "lambda q: list_transform(q.options, lambda o: o.label)))"
    )
    return f"""(
        SELECT * FROM {events} WHERE event_type = 'decision'
        UNION ALL BY NAME
        SELECT * EXCLUDE (line) REPLACE ('decision' AS event_type, 'decision' AS event_kind, line AS title,
            json_object('decision', line)::VARCHAR AS payload)
        FROM (SELECT *, trim(regexp_extract({plan}, '[^#\\s][^\\n]*')) AS line FROM {events}
            WHERE {calls.ARE_CALLS} AND tool = 'ExitPlanMode' AND success) WHERE line <> ''
        UNION ALL BY NAME
        SELECT * EXCLUDE (asked) REPLACE ('decision' AS event_type, 'decision' AS event_kind,
            asked.key || ' ' || asked.value AS title,
            json_object('decision', asked.key || ' ' || asked.value, 'alternatives_considered',
                list_filter({options}, lambda o: o <> asked.value))::VARCHAR AS payload)
        FROM (SELECT *, unnest(map_entries({_ANSWERS})) AS asked FROM {events}
            WHERE {calls.ARE_CALLS} AND tool = 'AskUserQuestion' AND success))"""


def feedback(events: str) -> str:
    """Events of type `feedback`: those recorded, and as rejections the calls that were refused."""
    words = [f"TRY(json_extract_string(payload, '$.{name}'))" for name in ("shown", "result", "message")]
    reply = "coalesce({}, {})".format(
        *(f"TRY(json_extract_string(payload, '$.{name}'))" for name in ("reply", "response"))
    )
    return f"""(
        SELECT * FROM {events} WHERE event_type = 'feedback'
        UNION ALL BY NAME
        SELECT * REPLACE ('feedback' AS event_type, 'feedback' AS event_kind, json_object(
            'type', 'rejection', 'message', coalesce({", ".join(words)}))::VARCHAR AS payload)
        FROM {events} AS one WHERE ({calls.ARE_CALLS} AND {calls.was_refused(events)})
            OR (event_type = 'hook' AND operation = 'permission.replied' AND {reply} = 'reject'))"""
