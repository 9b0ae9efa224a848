"""What only hooks or only transcripts recorded, and which sessions on disk the log does not have. Reads only.

For `locus doctor` (P7): a recorder that misses something has to say so.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from eventlog import agents
from eventlog.agents.kit.lines import FileSource, names_in
from eventlog.base import jsontext
from eventlog.base.errors import EventLogError, NotFound
from eventlog.doctor.store import NOTE, OK, DoctorFinding
from eventlog.importers import sources
from eventlog.importers.known_sessions import LogFacts
from eventlog.store import Store

_NOTES = "select agent, payload from events where event_type = 'import' order by position"
_SHOWN = 5


def checks(
    directory: str, environ: Mapping[str, str]
) -> "list[tuple[str, Callable[[Store], Iterable[DoctorFinding]]]]":
    """What the doctor asks, of the project at `directory`."""
    return [
        ("transcripts", lambda store: _not_imported(store, directory, environ)),
        ("gaps", _recorded_by_one_side),
    ]


def _not_imported(store: Store, directory: str, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Sessions of this repository that an agent left on disk and the log knows nothing of."""
    known = LogFacts(store).sessions
    for spec in agents.importable():
        if spec.transcripts is None or not spec.transcripts.is_deleted:
            continue  # it stays to be imported later
        agent = spec.name
        try:
            on_disk = sources.of_agent(agent, directory, environ)
        except (NotFound, EventLogError):
            continue  # it keeps nothing here
        unknown = [source for source in on_disk if known.get(agent, set()).isdisjoint(_names_of(source))]
        if unknown:
            oldest = min(map(_changed_s, unknown))
            days = max(0, int((store.fs.time_ns() / 1e9 - oldest) // 86_400))
            ago = "1 day" if days == 1 else f"{days:,} days"
            what = (
                f"{_some(len(unknown), len(on_disk))} of {agent} in this repository "
                f"{'is' if len(unknown) == 1 else 'are'} not in the log; {_oldest(len(unknown))} "
                f"last written {ago} ago, and agents delete theirs after weeks"
            )
            yield DoctorFinding(NOTE, "transcripts", what, f"`locus import {spec.command_name}`")
        elif on_disk:
            has = "has its" if len(on_disk) == 1 else "have their"
            what = f"{_all(len(on_disk))} of {agent} in this repository {has} session in the log"
            yield DoctorFinding(OK, "transcripts", what)


def _recorded_by_one_side(store: Store) -> Iterator[DoctorFinding]:
    """Tool calls that a transcript has and no hook reported, or the other way round."""
    gaps: dict[tuple[str, str], dict[str, int]] = {}
    for agent, text in store.query(_NOTES).rows:
        note = jsontext.decode(text)
        if isinstance(note.get("gaps"), dict):
            gaps[agent, str(note.get("agent_session_id"))] = note["gaps"]
    for name, words in (
        ("hooks_missed", "are in the transcript, from which they were imported, and no hook reported them"),
        ("transcript_missed", "were reported by hooks and are not in the transcript"),
    ):
        of_sessions = {key: counts[name] for key, counts in gaps.items() if counts.get(name)}
        for (agent, session), count in list(of_sessions.items())[-_SHOWN:]:
            yield DoctorFinding(NOTE, "gaps", f"{agent} session {session}: {count:,} tool calls {words}")
        if len(of_sessions) > _SHOWN:
            yield DoctorFinding(NOTE, "gaps", f"and {len(of_sessions) - _SHOWN:,} more sessions like these")
    if gaps and not any(any(counts.values()) for counts in gaps.values()):
        what = f"hooks and transcripts have the same tool calls in {len(gaps):,} sessions"
        yield DoctorFinding(OK, "gaps", what)


def _some(number: int, of: int) -> str:
    return "the only transcript" if of == 1 else f"{number:,} of {of:,} transcripts"


def _all(number: int) -> str:
    return "the only transcript" if number == 1 else f"all {number:,} transcripts"


def _oldest(number: int) -> str:
    return "it was" if number == 1 else "the oldest was"


def _names_of(source: FileSource) -> list[str]:
    """Texts of which one is the id of the source's session; of a row in a database its name has it."""
    try:
        head = source.head()
    except (EventLogError, OSError):
        head = []
    return [*names_in(head), source.path.rpartition("#")[2]]


def _changed_s(source: FileSource) -> float:
    try:
        return source.touched_s()
    except OSError:
        return float("inf")
