"""Which turns are under way, and whether their agents' processes live.

`live/<key>.told` of each captured directory names the turns that began there and have not ended. Each has
the agent's process, the time at which it started and the namespace of its number, so that another process
with that number is not taken for it. Reads small files and `/proc`, writes nothing. On the hook path.
"""

import os

from eventlog.base import jsontext
from eventlog.base.layout import LIVE_DIR, Layout

RUNNING, DEAD, UNKNOWN = "running", "dead", "unknown"

# A turn whose process is not known counts as under way for so long.
UNKNOWN_S_MAX = 3600
_FILE_SIZE_MAX = 64 << 10
_ANCESTORS_MAX = 16
# Programs between an agent and its hook, which end with the hook.
_BETWEEN_NAMES = (
    "sh bash dash zsh fish ksh busybox env timeout nice ionice setsid stdbuf flock sudo doas uv uvx direnv "
    "mise"
)
_BETWEEN = frozenset(_BETWEEN_NAMES.split())
_OURS = ("python", "locus")


class Process:
    """A process: its number, its start (`start_of`), and the namespace of both; None where unknown.

    As a text it is `NUMBER[:START[:NAMESPACE]]`; with a start, earlier versions take it for an unknown one.
    """

    __slots__ = ("namespace", "number", "started")

    def __init__(self, number: int, started: "int | None" = None, namespace: "str | None" = None) -> None:
        self.number = number
        self.started = started
        self.namespace = namespace

    def text(self) -> str:
        if self.started is None:
            return str(self.number)
        return ":".join([str(self.number), str(self.started), *([self.namespace] if self.namespace else [])])

    def is_near(self) -> bool:
        """Whether this process can see it if it is there."""
        return self.namespace is None or self.namespace == _namespace()

    def lives(self) -> bool:
        return lives(self.number, self.started)


def parse_process(text: str) -> "Process | None":
    """The process that a text names, None when it names none."""
    number, _, rest = text.partition(":")
    started, _, namespace = rest.partition(":")
    if not number.isdigit():
        return None
    return Process(int(number), int(started) if started.isdigit() else None, namespace or None)


class OpenTurn:
    """A turn under way: agent, the agent's ids of session and turn, its process (None where unknown), and the
    Unix time at which it began."""

    __slots__ = ("agent", "began_s", "process", "session", "turn")

    def __init__(self, agent: str, session: str, turn: str, process: "Process | None", began_s: int) -> None:
        self.agent = agent
        self.session = session
        self.turn = turn
        self.process = process
        self.began_s = began_s

    def names_process(self) -> bool:
        """Whether its process can be checked; else only time decides."""
        return self.process is not None and self.process.is_near()

    def state(self, now_s: float) -> str:
        """RUNNING while its process lives, DEAD when that is gone, UNKNOWN when it named none."""
        if self.process is not None and self.process.is_near():
            return RUNNING if self.process.lives() else DEAD
        return UNKNOWN if now_s - self.began_s <= UNKNOWN_S_MAX else DEAD


def parse_open(session: str, parts: "list[str]") -> "OpenTurn | None":
    """A turn from its entry [agent, turn, process, time] in the file; None for an entry of another shape."""
    if len(parts) != 4 or not parts[3].isdigit():
        return None
    return OpenTurn(parts[0], session, parts[1], parse_process(parts[2]), int(parts[3]))


def open_turns(layout: Layout) -> "list[OpenTurn]":
    """The turns under way in every directory of the store. A file that cannot be read counts as empty."""
    turns: "list[OpenTurn]" = []
    try:
        names = os.listdir(layout.directory(LIVE_DIR))
    except OSError:
        return turns
    for name in sorted(names):
        if name.endswith(".told"):
            turns += _read(layout.live(name))
    return turns


def dead_turns(layout: Layout, now_s: float) -> "list[OpenTurn]":
    """The turns whose process is gone, and that nobody has closed yet (docs/certainty.md §2)."""
    return [turn for turn in open_turns(layout) if turn.names_process() and turn.state(now_s) == DEAD]


def _read(path: str) -> "list[OpenTurn]":
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            value = jsontext.decode(os.pread(fd, _FILE_SIZE_MAX, 0))
        finally:
            os.close(fd)
        named = value["open"].items()
        parsed = [parse_open(str(session), [str(part) for part in parts]) for session, parts in named]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
    return [turn for turn in parsed if turn is not None]


def lives(process: int, started: "int | None" = None) -> bool:
    """Whether a process is there, and, where `started` is known, is still the same one. A zombie is gone."""
    facts = _stat_of(process)
    if facts is None:
        return not os.path.isdir("/proc/self") and _answers(process)
    return facts[2] != "Z" and (started is None or facts[1] == started)


def process_of(number: int) -> "Process":
    """The process that has a number now."""
    facts = _stat_of(number)
    return Process(number) if facts is None else Process(number, facts[1], _namespace())


def agent_process(named: "str | None" = None) -> "Process | None":
    """The process of the agent that started this hook, None where it is unknown.

    It is the `named` one, else the nearest ancestor that is no shell, no Python and none of the programs that
    people put around commands.
    """
    if named is not None and named.isdigit():
        return process_of(int(named))
    number = os.getppid()
    for _ in range(_ANCESTORS_MAX):
        facts = _stat_of(number)
        if number <= 1 or facts is None:
            return None
        parent, started, _, name = facts
        if name not in _BETWEEN and not name.startswith(_OURS):
            return Process(number, started, _namespace())
        number = parent
    return None


def _namespace() -> "str | None":
    """The namespace of process numbers that this process is in: numbers of two containers differ by it."""
    try:
        return os.readlink("/proc/self/ns/pid").partition("[")[2].rstrip("]") or None
    except OSError:
        return None


def _stat_of(process: int) -> "tuple[int, int, str, str] | None":
    """(parent, start, state, name) of a process, None where there is none."""
    try:
        fd = os.open(f"/proc/{process}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(fd, 4096)
        finally:
            os.close(fd)
    except OSError:
        return None
    head, _, rest = data.rpartition(b")")
    fields = rest.split()
    if len(fields) < 20:
        return None
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    return int(fields[1]), int(fields[19]), fields[0].decode("ascii", "replace"), name


def _answers(process: int) -> bool:
    """The same without `/proc`."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # another user's
    return True
