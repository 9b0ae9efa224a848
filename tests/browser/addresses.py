"""An address of every page of the viewer, for a recorded project."""

from tests.browser.samples import Sample


def addresses(sample: Sample) -> dict[str, str]:
    first, second, third, _, last = (sample.turns * 5)[:5] if len(sample.turns) < 5 else sample.turns[:5]
    event = sample.sql(
        f"select event_id from events where session_id = '{sample.session}' order by position limit 1"
    )
    path = sample.sql(
        "select path from events where event_type = 'file' and operation <> 'read' and agent <> 'git' "
        "order by position desc limit 1"
    )[0][0].strip('"')
    return {
        "sessions": "/",
        "session": f"/s/{sample.session}",
        "repository": "/repo",
        "turn": f"/turn/{first}",
        "start of a turn": f"/turn/{third}@start",
        "text": f"/turn/{second}?file=run.sh",
        "change": f"/turn/{second}?file=tea.py&mode=change",
        "blame": f"/turn/{second}?file=tea.py&mode=blame",
        "history": f"/turn/{second}?file=tea.py&mode=history",
        "compare": f"/turn/{first}..{last}",
        "event": f"/event/{event[0][0]}",
        "versions": f"/file?path={path}",
        "search": "/search?q=tea",
        "cost": "/cost?by=agent",
        "errors": "/errors",
        "decisions": "/decisions",
        "sql": "/sql?q=select+turn,+title+from+turns+order+by+turn+limit+3",
        "no such page": "/nowhere",
    }


# The pages that a project with hostile texts has as well, by the names of `addresses`.
NAMES = (
    "sessions", "session", "repository", "turn", "start of a turn", "text", "change", "blame", "history",
    "compare", "event", "versions", "search", "cost", "errors", "decisions", "sql", "no such page",
)  # fmt: skip
