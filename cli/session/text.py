"""Shared by the verbs of `locus session`: the `--agent` option, the stale rule, the table of sessions."""

from collections.abc import Sequence
from typing import Any

import click
import click.core

import eventlog
from eventlog.log.retained import Retention
from eventlog.memory import intent
from eventlog.memory.intent import Intent

from ..output import one_line, table
from ..times import when, zone

_NAMED_MAX = 5
_BY_HAND = "explicit"  # the reason of an end by command


# The option for the agent of a session.
agent_option = click.option(
    "--agent",
    metavar="NAME",
    envvar="LOCUS_AGENT",
    default="person",
    show_default=True,
    help="Whose session: the program's name, or LOCUS_AGENT.",
)


def meant(store: "eventlog.Store", session: str | None, agent: str) -> Intent:
    """The session of a command: the named one, else the active one of the agent; without a name and
    `--agent`, the only one that is active.

    Raises: NotFound, Ambiguous.
    """
    if session:
        try:
            return intent.find(store, session)
        except eventlog.Ambiguous:
            raise
        except eventlog.NotFound as error:
            raise eventlog.NotFound(f"{error}. `locus session ls --all` lists them.") from error
    if click.get_current_context().get_parameter_source("agent") is click.core.ParameterSource.DEFAULT:
        if (own := intent.active_of(store, agent)) is not None:
            return own
        active = intent.at_work(store)
        if len(active) == 1:
            return active[0]
        if active:
            names = ", ".join(f"{row.name} of {row.agent}" for row in active[:_NAMED_MAX])
            raise eventlog.Ambiguous(
                f"{len(active)} sessions are active: {names}. Name one of them, or its --agent."
            )
    return intent.must_be_active(store, agent)


def end_stale(store: "eventlog.Store") -> int:
    """Close the sessions that nobody ended within 24 hours, before sessions are shown."""
    return intent.end_stale(store, intent.now_us(store))


def retention_fields(retained: Retention, session_id: str) -> dict[str, Any]:
    """The retention of a session's contents, as fields for JSON."""
    release = retained.released.get(session_id)
    return {
        "released": release.rule if release is not None else None,
        "pinned": session_id in retained.pinned,
        "pinned_turns": sorted(turn for session, turn in retained.pinned_turns if session == session_id),
    }


def retention_words(fields: dict[str, Any]) -> list[str]:
    """The same in words; none for a session that is neither released nor pinned."""
    words = [f"released ({fields['released']})"] if fields["released"] else []
    words += ["pinned"] if fields["pinned"] else []
    return words + (
        [f"pinned turns {', '.join(map(str, fields['pinned_turns']))}"] * bool(fields["pinned_turns"])
    )


def session_table(rows: Sequence[Intent], retained: Retention | None = None) -> str:
    """One line for each session; nothing for none."""
    cells = [
        (
            row.name,
            one_line(row.agent),
            when(row.started_us),
            f"{row.turn_count:,}",
            _state(row, retained),
            one_line(row.focus + (f" [{', '.join(row.scope)}]" if row.scope else "")),
        )
        for row in rows
    ]
    heads = ("SESSION", "AGENT", f"STARTED ({zone()})", "TURNS", "STATE", "FOCUS")
    return table(heads, cells, right=(3,), drop=("TURNS", "AGENT", "STATE", "STARTED")) if cells else ""


def _state(row: Intent, retained: Retention | None) -> str:
    state = row.status
    if not row.is_active:
        state = f"ended ({row.end_reason})" if row.end_reason not in (None, _BY_HAND) else "ended"
    return ", ".join(
        [state, *(retention_words(retention_fields(retained, row.session_id)) if retained else ())]
    )
