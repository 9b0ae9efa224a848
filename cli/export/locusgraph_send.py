"""`locus export locusgraph --server`: sending, following, and the status of a server."""

import dataclasses
import datetime
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import eventlog
from eventlog.exports.locusgraph import send as sending
from eventlog.exports.locusgraph.courier import RealClock
from eventlog.exports.locusgraph.deliveries import RefusedRecord, endpoints
from eventlog.exports.locusgraph.endpoint import Endpoint, endpoint_of, key_from
from eventlog.exports.locusgraph.send import EndpointStatus, SendProgress, SendReport
from eventlog.recorder import sessions

from ..access import open_store
from ..exits import PARTIAL, exit_with, usage_error
from ..output import count, document, put, say, size
from ..progress import Progress
from .shortcomings import tell_left_out, tell_shortcomings

_FAILURES_SHOWN = 10


def run(server: str | None, arguments: dict[str, Any], as_json: bool) -> None:
    """Do what the options say with `server`."""
    endpoint = None if server is None else endpoint_of(server, arguments["graph"], arguments["api"])
    if arguments["retry_failed"] and (
        arguments["follow"] or arguments["since"] is not None or arguments["session"]
    ):
        raise usage_error("--retry-failed goes with neither --follow, --since, --all nor --session")
    if arguments["follow"] and arguments["dry_run"]:
        raise usage_error("give either --follow or --dry-run")
    if arguments["status"]:
        _status(endpoint, as_json)
    else:
        assert endpoint is not None
        _send(endpoint, arguments, as_json)


def _send(endpoint: Endpoint, arguments: dict[str, Any], as_json: bool) -> None:
    from eventlog.exports.locusgraph.courier import PATIENCE_S, Courier, RealClock, check_library

    clock = RealClock()
    courier = None
    check_library()  # also where nothing is sent: a count uses the same code
    if not arguments["dry_run"]:
        key = key_from(os.environ)
        patience_s = None if arguments["follow"] else PATIENCE_S
        courier = Courier(endpoint, key, clock, patience_s=patience_s, per_minute=arguments["rate"])
    with open_store() as store:
        options = sending.Options(
            since=arguments["since"],
            session_id=_session(store, arguments["session"]),
            limit=arguments["limit"],
            batch=min(arguments["batch"], endpoint.events_max)
            if endpoint.api == "0.x"
            else arguments["batch"],
            payload_bytes_max=arguments["max_payload"],
            diffs=not arguments["no_diffs"],
            include=frozenset(arguments["include"]),
        )
        if courier is None:
            report = sending.plan(store, endpoint, options)
        else:
            with _stopping(clock), Progress("sending records", with_rate=True) as progress:
                report = sending.send(
                    store,
                    endpoint,
                    courier,
                    clock,
                    options,
                    retry_failed=arguments["retry_failed"],
                    follow=arguments["follow"],
                    progress=_shown_progress(progress, as_json),
                )
            courier.close()
    if as_json:
        put(document({"export": {**dataclasses.asdict(report), "dry_run": arguments["dry_run"]}}))
    else:
        _tell(report, arguments["dry_run"], arguments["follow"])
    if report.failures or report.lost or (report.stopped and not arguments["follow"]):
        exit_with(PARTIAL)


def _shown_progress(progress: Progress, as_json: bool) -> SendProgress:
    """Shows the progress of sending on stderr."""

    class Shown(SendProgress):
        shows_share = True

        def going(self, report: SendReport) -> None:
            done = report.tried + report.known
            progress(done, max(done, report.expected))

        def trouble(self, text: str) -> None:
            progress.say(text)

        def all_sent(self, report: SendReport) -> None:
            if not as_json:
                say(f"Sent {count(report.total, 'record')} so far, up to position {report.reached:,}.")

    return Shown()


def _session(store: "eventlog.Store", name: str | None) -> str | None:
    if name is None:
        return None
    return sessions.named(store, name).session_id


@contextmanager
def _stopping(clock: RealClock) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM ends the work cleanly, a second one at once."""

    def stop(number: int, _frame: object) -> None:
        clock.stop.set()
        signal.signal(number, former[number])

    former: dict[int, Any] = {n: signal.signal(n, stop) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _tell(report: SendReport, dry_run: bool, follow: bool) -> None:
    groups = ", ".join(f"{number:,} {group}" for group, number in report.records.items())
    if dry_run:
        say(f"Would send {count(report.requests, 'call')}, {size(report.bytes)}, to {report.server}.")
    elif report.total:
        answers = ", ".join(f"{number:,} {name}" for name, number in sorted(report.answers.items()))
        sent = f"{count(report.total, 'record')} ({groups}; {size(report.bytes)})"
        say(f"Sent {sent} to {report.server}: {answers}.")
    elif report.tried or report.failures:
        say(f"{report.server} took none of the {count(report.tried, 'record')} that were sent.")
    elif report.stopped:
        say(f"{report.server} took nothing.")
    elif not report.stopped:
        say(f"Nothing new for {report.graph_id!r}: the exports have come to position {report.reached:,}.")
    tell_shortcomings(report.lost, report.payloads_cut, report.links_left_out)
    tell_left_out(report.not_included, report.sessions_left_out)
    if report.gone:
        say(f"{count(report.gone, 'record')} refused earlier are no longer in the log, and were dropped.")
    if report.stopped:
        more = "" if follow else " The next export goes on from there."
        say(f"Stopped; everything before position {report.reached:,} is delivered.{more}")
    _tell_failures(report.failures)


def _tell_failures(failures: list[RefusedRecord]) -> None:
    for failure in failures[:_FAILURES_SHOWN]:
        verb = "Not taken yet" if failure.passing else "Refused"
        say(f"{verb}: {failure.context_id}: {failure.reason}")
    if len(failures) > _FAILURES_SHOWN:
        say(f"… and {len(failures) - _FAILURES_SHOWN:,} more; --status --json has all.")
    if any(failure.passing for failure in failures):
        say("Later exports send again what was not taken yet.")
    if any(not failure.passing for failure in failures):
        say("--retry-failed sends refused records again, and replaces what the server holds for them.")


def _status(endpoint: Endpoint | None, as_json: bool) -> None:
    with open_store() as store:
        chosen = endpoints(store) if endpoint is None else [endpoint]
        statuses = [(target, sending.status(store, target)) for target in chosen]
    if as_json:
        put(document({"servers": [_fields(target, status) for target, status in statuses]}))
        return
    if not statuses:
        say("Nothing was sent anywhere yet: locus export locusgraph --server URL --graph ID")
    put("\n".join(_text(target, status) for target, status in statuses))


def _fields(endpoint: Endpoint, status: EndpointStatus) -> dict[str, Any]:
    delivered = status.delivered
    return {
        "server": endpoint.server,
        "graph_id": endpoint.graph_id,
        "api": endpoint.api,
        "position": delivered.position,
        "next_position": status.next_position,
        "behind": status.lag,
        "answers": dict(delivered.counts),
        "contexts": len(delivered.states),
        "failed": [_failure(failure) for failure in status.failures],
        "last_at": _moment(delivered.last_at),
        "last_error": delivered.last_error,
        "next_step": _next_step(status),
    }


def _text(endpoint: Endpoint, status: EndpointStatus) -> str:
    delivered = status.delivered
    counts = ", ".join(f"{number:,} {name}" for name, number in sorted(delivered.counts.items())) or "none"
    lag = f"{count(status.lag, 'event')} behind"
    lines = [
        f"{endpoint.server}  {endpoint.graph_id}  ({endpoint.api})",
        f"  position  {delivered.position:,} of {status.next_position:,}; {lag}",
        f"  answers   {counts}",
        f"  last      {_moment(delivered.last_at) or 'never'}",
    ]
    if delivered.last_error is not None:
        lines.append(f"  ended by  {delivered.last_error}")
    lines += _failures(status.failures)
    lines.append(f"  next      {_next_step(status)}")
    return "\n".join(lines) + "\n"


def _failure(failure: RefusedRecord) -> dict[str, Any]:
    later = _moment(failure.next_at * 1_000_000) if failure.passing else None
    return {**dataclasses.asdict(failure), "passing": failure.passing, "next_at": later}


def _failures(failures: list[RefusedRecord]) -> list[str]:
    """The first failures by name, and how many there are for each reason."""
    named = []
    for failure in failures[:_FAILURES_SHOWN]:
        state = "later  " if failure.passing else "refused"
        named.append(f"  {state}   {failure.context_id or failure.key}: {failure.reason}")
    reasons = Counter(failure.reason for failure in failures).most_common(_FAILURES_SHOWN)
    return [*named, *(f"  in all    {reason} ({number:,})" for reason, number in reasons)]


def _next_step(status: EndpointStatus) -> str:
    if status.delivered.last_error is not None:
        return "correct the error above, then export again: it continues from the position"
    if status.lag:
        return "export again: it continues from the position"
    if any(not failure.passing for failure in status.failures):
        return "--retry-failed sends refused records again"
    if status.failures:
        return "nothing to do: the next export sends again what was not taken yet"
    return "nothing to do"


def _moment(time_us: int | None) -> str | None:
    if time_us is None:
        return None
    return (
        datetime.datetime.fromtimestamp(time_us // 1_000_000, datetime.UTC).isoformat().replace("+00:00", "Z")
    )
