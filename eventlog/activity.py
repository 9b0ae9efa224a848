"""Which turns are under way, and whether the processes behind them live.

`live/<key>.told` of each captured directory names the turns that began there and have not ended, with the
agent's process and the time at which that process started, so that a number given to another process later is
not taken for it. Reads small files and `/proc`, writes nothing. On the hook path.
"""

import os

from eventlog import jsontext
from eventlog.layout import LIVE_DIR, Layout

RUNNING, DEAD, UNKNOWN = "running", "dead", "unknown"

# A turn that says nothing of its process counts as under way for so long.
UNKNOWN_S_MAX = 3600
_FILE_SIZE_MAX = 64 << 10
_ANCESTORS_MAX = 16
# What stands between an agent and its hook.
_SHELLS = frozenset(
    ("sh", "bash", "dash", "zsh", "fish", "ksh", "busybox", "env", "timeout", "nice", "setsid")
)


class OpenTurn:
    """A turn under way: agent, the agent's ids of session and turn, its process (number and start, None where
    unknown; see `process_start`), and the Unix time at which it began."""

    __slots__ = ("agent", "began_s", "process", "session", "started", "turn")

    def __init__(
        self,
        agent: str,
        session: str,
        turn: str,
        process: "int | None",
        started: "int | None",
        began_s: int,
    ) -> None:
        self.agent = agent
        self.session = session
        self.turn = turn
        self.process = process
        self.started = started
        self.began_s = began_s

    def state(self, now_s: float) -> str:
        """RUNNING while its process lives, DEAD when that is gone, UNKNOWN when it named none."""
        if self.process is None:
            return UNKNOWN if now_s - self.began_s <= UNKNOWN_S_MAX else DEAD
        return RUNNING if lives(self.process, self.started) else DEAD


def parse_open(session: str, parts: "list[str]") -> "OpenTurn | None":
    """A turn as `told` names it: [agent, turn, process, time], behind it the start of the process where it
    is known. None when it is none of that shape."""
    if len(parts) not in (4, 5) or not parts[3].isdigit():
        return None
    process = int(parts[2]) if parts[2].isdigit() else None
    started = int(parts[4]) if len(parts) == 5 and parts[4].isdigit() else None
    return OpenTurn(parts[0], session, parts[1], process, started, int(parts[3]))


def open_turns(layout: Layout) -> "list[OpenTurn]":
    """The turns under way in every directory of the store. What cannot be read is none."""
    turns: "list[OpenTurn]" = []
    try:
        names = os.listdir(layout.directory(LIVE_DIR))
    except OSError:
        return turns
    for name in sorted(names):
        if name.endswith(".told"):
            turns += _read(layout.live(name))
    return turns


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


def process_start(process: int) -> "int | None":
    """When a process started, in clock ticks since boot; None where it is gone or the system does not say."""
    facts = _stat_of(process)
    return None if facts is None else facts[1]


def agent_process(named: "str | None" = None) -> "tuple[int, int | None] | None":
    """The process of the agent that started this hook, and its start: the one that is `named`, else the
    nearest ancestor that is no shell and no Python. None where there is none, or it is unknown."""
    if named is not None and named.isdigit():
        return int(named), process_start(int(named))
    process = os.getppid()
    for _ in range(_ANCESTORS_MAX):
        facts = _stat_of(process)
        if process <= 1 or facts is None:
            return None
        name, started, _, parent = facts[3], facts[1], facts[2], facts[0]
        if name not in _SHELLS and not name.startswith(("python", "locus")):
            return process, started
        process = parent
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
        return True  # somebody else's
    return True
