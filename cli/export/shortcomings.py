"""What an export lacks of the log, and what it left out on purpose."""

from ..output import count, say

_SESSIONS_SHOWN = 10


def tell_shortcomings(lost: list[tuple[int, int]], payloads_cut: int, links_left_out: int) -> None:
    """Report what the records lack of the log."""
    for base, end in lost:
        say(f"Not exported: the events at positions {base:,} to {end - 1:,}, which damage took from the log.")
    if payloads_cut:
        say(f"{count(payloads_cut, 'payload')} shortened; each says where the whole of it is.")
    if links_left_out:
        say(f"{count(links_left_out, 'link')} left out: without a type, or beyond the limits.")


def tell_left_out(types: dict[str, int], sessions: dict[str, str]) -> None:
    """Report what was left out on purpose: events of other types, and sessions with the reason."""
    if types:
        named = ", ".join(f"{number:,} {kind}" for kind, number in sorted(types.items()))
        say(f"Left out: {count(sum(types.values()), 'event')} of the log's own housekeeping ({named}).")
    tell_sessions(sessions)


def tell_sessions(left_out: dict[str, str]) -> None:
    """Report how many sessions an export left out, and which for which reason."""
    if not left_out:
        return
    say(f"Left out: {count(len(left_out), 'session')}.")
    for session_id, reason in list(left_out.items())[:_SESSIONS_SHOWN]:
        say(f"  {session_id}: {reason}")
    if len(left_out) > _SESSIONS_SHOWN:
        say(f"  … and {len(left_out) - _SESSIONS_SHOWN:,} more; --json has all.")
