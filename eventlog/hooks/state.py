"""What hooks remember between calls: small derived files in `live/`, which may all be deleted (I22).

- `<worktree>.told`, the capture checkpoint: the tree whose changes are all in the log, and the turns under
  way in that directory. Read and written under the lock of the directory, after the append of these changes.
- `<worktree>.running`: tools that began and ended, a line each. It shows whose change the capture of another
  call has found.
- `<session>.calls`: notes of what was recorded of a session, a line each, so that the log need not be read.

The last two are appended to by single writes and may miss a line. Then a cause is lost, or an event is
written twice, which counts once (I8). Without a checkpoint the next capture starts over and records that.
Plain system calls: a file that cannot be read is absent, one that cannot be written stays. On the hook path.
"""

import os

from eventlog import agents
from eventlog.agents.kit.call import (
    SESSION,
    SESSION_END,
    TOOL,
    TOOL_START,
    TURN_END,
    TURN_START,
    Call,
    TranscriptOffset,
    int_of,
)
from eventlog.agents.kit.spec import FrozenRecord
from eventlog.agents.kit.tools import ANY
from eventlog.base import activity, jsontext
from eventlog.base.errors import LockTimeout
from eventlog.base.layout import LIVE_DIR, Layout
from eventlog.base.locks import WORKTREE, acquire
from eventlog.base.names import short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from eventlog.base.fs import FileSystem
    from eventlog.worktree.capture import Capture

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_CHECKPOINT_SIZE = 512  # a sector
_LINES_SIZE_MAX = 1 << 20  # of one file's end, the only part that is read
_RUNNING_SIZE_MAX = 256 << 10
# Why a turn gets its end from somebody else (docs/certainty.md §2).
GONE, SILENT = "process gone", "nothing heard for an hour"
SUPERSEDED, RESUMED = "superseded by a later prompt", "session resumed by another process"
SESSION_ENDED = "session ended"
_LOCK_WAIT_S = 0.02
NOTICE, DEFERRED = ".notice", ".deferred"
TURN_BOUNDARY = "turn", ""
_HEX = frozenset("0123456789abcdef")
_OPEN_MAX = 32  # so that all of it is on one page, which is written whole


def notices_of(fs: "FileSystem", layout: Layout, session: str) -> "list[str]":
    """The names of the notices for a session (`notices.py`), oldest first."""
    try:
        names = fs.listdir(layout.directory(LIVE_DIR))
    except OSError:
        return []
    return sorted(name for name in names if name.endswith(NOTICE) and name.startswith(f"{short(session)}-"))


class CaptureCheckpoint:
    """`tree` is None where nothing was recorded yet; `nonce` is new with each recorded tree and makes event
    ids.

    `passed` are the sessions with a turn under way for which another turn's capture has found changes since
    their own last one. `keeps`: captures keep ignored files; `tree_keeps`: the one of `tree` did. `files` is
    the number of files in the tree, None where it is not known. `has_gaps`: the last full capture had no time
    to compare every row, so a change that is found next may be older than it.
    """

    __slots__ = ("files", "has_gaps", "keeps", "nonce", "open", "passed", "tree", "tree_keeps")

    def __init__(
        self,
        tree: "bytes | None",
        nonce: str,
        open: "dict[str, list[str]]",
        passed: "frozenset[str]" = frozenset(),
    ) -> None:
        self.keeps = self.tree_keeps = self.has_gaps = False
        self.files: "int | None" = None
        self.tree = tree
        self.nonce = nonce
        # Agent's session → [agent, turn, process or "", unix time], of turns under way (`activity.OpenTurn`).
        self.open = open
        self.passed = passed

    def note_capture(self, session: "str | None", turn: "str | None", tree: bytes) -> None:
        """Note that a capture of this session has found `tree`; it counts in `turn`, if in any."""
        if tree != self.tree:
            self.passed |= self.open.keys()
        if session is not None and self.open.get(session, ("", None))[1] == turn:
            self.passed -= {session}


def read_checkpoint(layout: Layout, worktree: str) -> CaptureCheckpoint:
    try:
        stored = jsontext.decode(_read_end(layout.live(f"{worktree}.told")))
        tree = None if stored["tree"] is None else bytes.fromhex(stored["tree"])
        turns = {str(name): [str(part) for part in parts] for name, parts in stored["open"].items()}
        if (tree is None or len(tree) == 32) and all(
            len(parts) == 4 and parts[3].isdigit() for parts in turns.values()
        ):
            checkpoint = CaptureCheckpoint(
                tree, str(stored["nonce"]), turns, frozenset(map(str, stored.get("passed", ())))
            )
            checkpoint.keeps = stored.get("keeps") is True
            checkpoint.tree_keeps = stored.get("tree_keeps") is True
            checkpoint.has_gaps = stored.get("has_gaps") is True
            checkpoint.files = int_of(stored, "files")
            return checkpoint
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    return CaptureCheckpoint(None, os.urandom(8).hex(), {})


def write_checkpoint(layout: Layout, worktree: str, checkpoint: CaptureCheckpoint) -> None:
    """Write the checkpoint over the last one, without a sync. Raises: OSError.

    After a power cut it is read as absent, or as an earlier one, whose changes are recorded again under the
    same ids. It is written in one call and with one length unless many turns are under way: a new file, or
    growing an old one, takes longer.
    """
    turns = dict(list(checkpoint.open.items())[-_OPEN_MAX:])
    tree = None if checkpoint.tree is None else checkpoint.tree.hex()
    fields: "dict[str, object]" = {
        "tree": tree,
        "nonce": checkpoint.nonce,
        "open": turns,
        "files": checkpoint.files,
    }
    if passed := sorted(checkpoint.passed.intersection(turns)):
        fields["passed"] = passed
    fields |= {name: True for name in ("keeps", "tree_keeps", "has_gaps") if getattr(checkpoint, name)}
    path = layout.live(f"{worktree}.told")
    try:
        fd = os.open(path, _WRITE, 0o600)
    except FileNotFoundError:
        _make_directory(layout)
        fd = os.open(path, _WRITE, 0o600)
    try:
        data = jsontext.encode(fields).ljust(max(_CHECKPOINT_SIZE, os.fstat(fd).st_size))
        os.pwrite(fd, data, 0)
    finally:
        os.close(fd)


def abandoned_turns(
    checkpoint: CaptureCheckpoint, call: Call, now_s: float
) -> "dict[str, tuple[activity.OpenTurn, str]]":
    """The turns that nobody will end any more, as far as `call` knows: session → (turn, reason).

    Asked before a capture: an agent that dies during it may still change something after it.
    """
    abandoned = {}
    for session, parts in checkpoint.open.items():
        turn = activity.parse_open(session, parts)
        reason = None if turn is None else _reason(turn, call, now_s)
        if turn is not None and reason is not None:
            abandoned[session] = turn, reason
    return abandoned


def _reason(turn: activity.OpenTurn, call: Call, now_s: float) -> "str | None":
    own = turn.session == call.session
    if own and call.moment == SESSION_END:
        return SESSION_ENDED
    is_later = call.moment == TURN_START or (call.unheard and call.moment != TOOL_START)
    if own and (not (is_later or call.moment == SESSION) or call.turn == turn.turn):
        return None  # it goes on
    if turn.state(now_s) == activity.DEAD:
        return GONE if turn.names_process() else SILENT
    if own and is_later:
        return SUPERSEDED if call.turn is not None else None
    return RESUMED if own and not turn.names_process() else None


def process_of(agent: str, environ: "Mapping[str, str]") -> str:
    """The process of the agent that ran this hook, as these files have it; "" for an unknown one."""
    spec = agents.spec_of(agent)
    # Of an agent that runs within another one, that one's variable would name the wrong process.
    variable = None if spec is None or spec.hooks is None else spec.hooks.process_variable
    process = activity.agent_process(None if variable is None else environ.get(variable))
    return "" if process is None else process.text()


def note_open(
    checkpoint: CaptureCheckpoint, turn_key: "tuple[str, str, str]", process: str, now_ns: int
) -> None:
    """Note the turn `turn_key` (agent, session, turn) as under way, in a process (`process_of`)."""
    agent, session, turn = turn_key
    checkpoint.open.pop(session, None)  # to be last: it is the newest
    checkpoint.open[session] = [agent, turn, process, str(now_ns // 10**9)]


def stay_open(
    layout: Layout,
    checkpoint: CaptureCheckpoint,
    turn_key: "tuple[str, str, str]",
    process: str,
    now_ns: int,
) -> None:
    """Note a turn as under way whose tools are reported, where none is noted or its process seemed dead."""
    _, session, turn = turn_key
    noted = checkpoint.open.get(session)
    if noted is None and has_ended(layout, session, turn):
        return  # the hooks of its last tool and of its end ran beside one another
    current = None if noted is None else activity.parse_open(session, noted)
    if current is None or (current.turn == turn and current.state(now_ns / 1e9) == activity.DEAD):
        note_open(checkpoint, turn_key, process, now_ns)


class Closing:
    """The turns to close at one capture, as `state.abandoned_turns` gives them, and what closes them."""

    __slots__ = ("by", "turns")

    def __init__(self, turns: "dict[str, tuple[activity.OpenTurn, str]]", by: str) -> None:
        self.turns = turns
        self.by = by

    def dead(self) -> "frozenset[str]":
        """The sessions whose process is gone."""
        return frozenset(session for session, (_, reason) in self.turns.items() if reason == GONE)


class CaptureResult(FrozenRecord):
    """What a capture came to."""

    capture: "Capture"
    previous: "bytes | None"  # the tree that its changes start from
    switched: "bool | None"  # whether ignored files are kept from now on; None where that did not change
    closing: Closing | None  # the turns that it closes
    under_way: "list[Running]"  # the tools that may have made a change
    is_watched: bool  # it compared the paths that a watcher reported, not all


def is_another_turn(checkpoint: CaptureCheckpoint, call: Call) -> bool:
    """Whether the turn of the call is not the one under way. A capture in it is always recorded, since it
    comes after the end of the turn, if that has one."""
    return call.turn is not None and checkpoint.open.get(call.session or "", ("", None))[1] != call.turn


def open_turn(checkpoint: CaptureCheckpoint, call: Call, notes: "Calls") -> "str | None":
    """The turn of this session that nobody ended."""
    parts = checkpoint.open.get(call.session or "")
    if parts is None or short(parts[1]) in notes.ended:
        return None
    return parts[1]


def note_turn(
    layout: Layout, checkpoint: CaptureCheckpoint, call: Call, captured: bool, process: str, now_ns: int
) -> None:
    """Note in `checkpoint` which turn of the session is under way after this call.

    Args: captured: the capture was whole.
    """
    session, turn = call.session, call.turn
    assert session is not None
    if call.moment in (TURN_END, SESSION_END):
        if captured:  # else its unrecorded changes would pass for a person's
            checkpoint.open.pop(session, None)
    elif call.moment == TURN_START and turn is not None:
        note_open(checkpoint, (call.agent, session, turn), process, now_ns)
    elif call.moment == TOOL and turn is not None and "subagent_id" not in call.columns:
        stay_open(layout, checkpoint, (call.agent, session, turn), process, now_ns)


def keep_open(
    fs: "FileSystem",
    layout: Layout,
    worktree: str,
    turn: "tuple[str, str, str]",
    process: str,
    *,
    replaces: bool,
) -> None:
    """Note a turn as under way without a capture, so that it is closed when it dies: where the capture at its
    prompt failed, or that hook was killed. Raises: OSError.

    Args: turn: agent, session, turn; replaces: also where another one of its session is noted.
    """
    if not replaces and turn[1] in read_checkpoint(layout, worktree).open:
        return
    try:
        with acquire(fs, layout, WORKTREE + worktree, timeout_s=_LOCK_WAIT_S):
            checkpoint = read_checkpoint(layout, worktree)
            if replaces:
                note_open(checkpoint, turn, process, fs.time_ns())
            else:
                stay_open(layout, checkpoint, turn, process, fs.time_ns())
            write_checkpoint(layout, worktree, checkpoint)
    except LockTimeout:
        pass  # its next call notes it


class Running:
    """A tool under way: `cause` is the id of its action, `paths` are the `short` files an edit tool named,
    `kind` is what it may change (`tools.py`).

    `turn` is its `short` session and turn, `turn_key` its agent with both in full, with "" for the current
    turn of an agent that gives turns no ids. `late`: it has ended, and
    the directory was not captured since. `dead`: its process is gone. `by_subagent`: it may outlive its turn.
    `began_us`: the time of its start event, in microseconds; 0 where an earlier version noted it.
    """

    def __init__(self, words: "list[str]", turn_key: "tuple[str, str, str]", *, dead: bool = False) -> None:
        _, self.cause, session, turn, self.kind, self.tool_use_id, self.tool, *self.paths = words
        self.turn = session, turn
        self.turn_key = turn_key
        self.late = False
        self.dead = dead
        self.by_subagent = False
        self.began_us = 0


def note_begun(
    layout: Layout, worktree: str, call: Call, paths: "Iterable[bytes]", process: str, hook_time_us: int
) -> None:
    """Note the tool that `call` begins. A second note of it counts once.

    Args: paths: the files that it names; process: that of the agent, which a subagent's tool may outlive its
    turn in; hook_time_us: the time of events that have none of their own.
    """
    session, turn, cause, first = call.session, call.turn or "", call.tool.started_action_id, call.events[0]
    if session is None or cause is None:
        return
    names = ["_".join(str(first.get(name) or "-").split()) or "-" for name in ("tool_use_id", "tool")]
    words = ["begun", cause, short(session), short(turn), call.tool.kind or ANY, *names]
    lines = [[*words, *map(short, list(paths)[:64])]]
    if not turn or "subagent_id" in call.columns:
        word = "of" if "subagent_id" in call.columns else "in"
        owner = [word, cause, turn or "-", session, call.agent, process or "-"]
        lines += [owner] if all(len(word.split()) == 1 for word in owner) else []
    lines.append(["at", cause, str(int_of(first, "occurred_at") or hook_time_us)])
    _append(layout, f"{worktree}.running", lines)


def note_restarted(layout: Layout, worktree: str, session: str) -> None:
    """Note that the session has a new process: the tools of the last one ended with it."""
    _append(layout, f"{worktree}.running", [["anew", short(session)]])


def note_ended(layout: Layout, worktree: str, causes: "list[str]", *, late: bool = False) -> None:
    if causes:
        _append(layout, f"{worktree}.running", [["late" if late else "ended", cause] for cause in causes])


def running(
    layout: Layout, worktree: str, checkpoint: CaptureCheckpoint, dead: "frozenset[str]" = frozenset()
) -> "list[Running]":
    """The tools that began in a turn under way and did not end, or ended without a capture; the latest last.

    Those of subagents may outlive their turn: they count while the agent's process lives, or its session has
    a turn under way; those of a turn without an id until it ends. A dead tool stays until its end is noted.

    Args: dead: the sessions whose process is gone.
    """
    turns = {
        (short(session), short(turn)): (agent, session, turn)
        for session, (agent, turn, *_) in checkpoint.open.items()
    }
    dead_keys = {short(session) for session in dead}
    tools: "dict[str, Running]" = {}
    processes: "dict[str, str]" = {}  # of tools of subagents, and of turns without an id
    begun: "list[str]" = []
    for words in _lines(layout, f"{worktree}.running"):
        if words[0] == "begun" and len(words) >= 7:
            begun = words
            if (words[2], words[3]) in turns:
                tools[words[1]] = Running(words, turns[words[2], words[3]], dead=words[2] in dead_keys)
        elif words[0] in ("of", "in") and len(words) == 6 and begun[1:2] == words[1:2]:
            _, cause, turn, session, agent, processes[cause] = words
            tools[cause] = Running(begun, (agent, session, "" if turn == "-" else turn))
            tools[cause].by_subagent = words[0] == "of"
        elif words[0] == "anew" and words[-1] not in dead_keys:
            tools = {cause: tool for cause, tool in tools.items() if tool.turn[0] != words[-1]}
        elif words[0] == "at" and len(words) == 3 and words[1] in tools and words[2].isdecimal():
            tools[words[1]].began_us = int(words[2])
        elif words[0] == "ended" and len(words) == 2:
            tools.pop(words[1], None)
        elif words[0] == "late" and words[-1] in tools:
            tools[words[-1]].late = True
    for cause in processes.keys() & tools.keys():
        process = activity.parse_process(processes[cause])
        if process is not None and process.is_near():
            tools[cause].dead = not process.lives()
        elif tools[cause].by_subagent and tools[cause].turn_key[1] not in checkpoint.open:
            del tools[cause]
    return list(tools.values())


def trim_running(layout: Layout, worktree: str) -> None:
    """Start the file over when it is large and nothing is under way."""
    path = layout.live(f"{worktree}.running")
    try:
        if os.stat(path).st_size > _RUNNING_SIZE_MAX:
            os.unlink(path)
    except OSError:
        pass  # it is small, absent, or stays


class Calls:
    """What was recorded of a session so far. `actions` are ids of actions with how their capture went."""

    def __init__(self) -> None:
        self.named = False
        self.over = False  # the session has ended
        self.begun: "set[str]" = set()  # `short` turns
        self.ended: "set[str]" = set()  # the same
        self.actions: "dict[str, str]" = {}
        self.marks: "dict[str, TranscriptOffset]" = {}  # of transcripts, by their `short` path
        self.models: "list[tuple[str, str]]" = []  # key and nonce of the turn's, without ids
        self.turns: "list[str]" = []  # of an agent without ids of turns; the latest last
        self.prompts: "dict[str, str]" = {}  # `short` turns of such an agent, and prompts
        self.stamps: "dict[str, str]" = {}  # of these, a text that ends with the time it began at
        # What an import recorded before the hooks: (turn, microseconds, `short` prompt), and of calls without
        # ids the ids of their events, in order, by `short` turn, key and type.
        self.imported_turns: "list[tuple[str, int, str]]" = []
        self.imported_calls: "dict[tuple[str, ...], list[str]]" = {}
        # Tool calls that no id tells apart (`call_numbers.py`): of the turn, key, time and whether it began,
        # and what was noted of repeated ids, with `TURN_BOUNDARY` wherever a turn begins or ends.
        self.unnamed: "list[tuple[str, str, bool]]" = []
        self.repeats: "list[tuple[str, str]]" = []
        self.subagents: "dict[str, str]" = {}  # `short` subagent → the turn that started it
        self.trees: "dict[str, bytes]" = {}  # `short` turn → the tree of the capture at its start


class SessionNotes:
    """What is noted of the session of a call, and `lines` that are to be noted after the append."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.lines: "list[list[str]]" = []


def read_calls(layout: Layout, session: str) -> Calls:
    calls = Calls()
    for words in _lines(layout, f"{short(session)}.calls"):
        if words[0] == "named":
            calls.named = True
        elif words[0] in ("begins", "ends") and len(words) == 2:
            calls.repeats.append((words[0], words[1]))
        elif words[0] == "ended" and len(words) == 2:
            calls.ended.add(words[1])
            calls.repeats.append(TURN_BOUNDARY)
        elif words[0] == "begun" and len(words) in (2, 3, 4):
            calls.repeats.append(TURN_BOUNDARY)
            calls.begun.add(words[1])
            calls.ended.discard(words[1])
            calls.over = False
            calls.models.clear()  # they are counted within their turn
            if len(words) > 2 and words[2] not in calls.turns:
                calls.turns.append(words[2])
                calls.stamps[words[2]] = words[-1]
                calls.unnamed.clear()  # they are counted within their turn
        elif words[0] in ("asked", "answered") and len(words) == 3:
            calls.unnamed.append((words[1], words[2], words[0] == "asked"))
        elif words[0] == "model" and len(words) == 3:
            calls.models.append((words[1], words[2]))
        elif words[0] == "action" and len(words) == 3:
            calls.actions.setdefault(words[1], words[2])
        elif words[0] == "mark" and len(words) == 4 and words[2].isdigit() and words[3].isdigit():
            calls.marks[words[1]] = TranscriptOffset(int(words[2]), int(words[3]))
        elif words[0] == "prompt" and len(words) == 3:
            calls.prompts[words[1]] = words[2]
        elif words[0] == "tree" and len(words) == 3 and len(words[2]) == 64 and _HEX.issuperset(words[2]):
            calls.trees[words[1]] = bytes.fromhex(words[2])
        elif words[0] == "subagent" and len(words) == 3:
            calls.subagents[words[1]] = words[2]
        elif words[0] in ("opened", "over"):
            calls.over = words[0] == "over"
        elif words[0] == "imported" and len(words) == 4 and words[2].isdigit():
            calls.imported_turns.append((words[1], int(words[2]), words[3]))
        elif words[0] == "imported_call" and len(words) == 5:
            ids = calls.imported_calls.setdefault(tuple(words[1:4]), [])
            ids += () if words[4] in ids else (words[4],)
    return calls


def has_ended(layout: Layout, session: str, turn: str) -> bool:
    """Whether the notes of a session have an end of the turn, and no later beginning."""
    name = f"{short(session)}.calls"
    try:
        if f"ended {short(turn)}\n".encode() not in _read_end(layout.live(name)):
            return False  # as a rule: nothing need be parsed
    except OSError:
        return False
    return short(turn) in read_calls(layout, session).ended


def note_calls(layout: Layout, session: str, lines: "list[list[str]]", now_ns: "int | None" = None) -> None:
    """Append lines to the notes of a session; with `now_ns` the file's time is of the clock of the events,
    not of the file system, which may be another one and counts in steps.

    Lines: `named`; `opened`, `over`; `begun` and `ended` of a turn; `action` id state; `mark` path inode
    offset; `tree` of the capture at a turn's start: turn, id; `subagent` id turn; of an agent that names no
    turns `prompt` turn text, `asked` and `answered` of a tool call without an id: key, time; `model` of a
    model call without an id: key, nonce; `begins`, `ends` of one whose id is repeated: key; `imported` of
    a turn that an import recorded: turn, time, prompt; `imported_call` of its calls without ids: turn, key,
    type and id of an event."""
    if lines:
        _append(layout, f"{short(session)}.calls", lines, now_ns)


def _append(layout: Layout, name: str, lines: "list[list[str]]", now_ns: "int | None" = None) -> None:
    data = b"".join(" ".join(words).encode("utf-8", "replace") + b"\n" for words in lines)
    try:
        fd = os.open(layout.live(name), _APPEND, 0o600)
    except FileNotFoundError:
        _make_directory(layout)
        fd = os.open(layout.live(name), _APPEND, 0o600)
    try:
        os.write(fd, data)
        if now_ns is not None:
            os.utime(fd, ns=(now_ns, now_ns))
    finally:
        os.close(fd)


def _lines(layout: Layout, name: str) -> "list[list[str]]":
    try:
        data = _read_end(layout.live(name))
    except OSError:
        return []
    lines = (line.decode("utf-8", "replace").split(" ") for line in data.split(b"\n"))
    return [words for words in lines if words[0]]


def _read_end(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        size = os.fstat(fd).st_size
        data = os.pread(fd, min(size, _LINES_SIZE_MAX), max(0, size - _LINES_SIZE_MAX))
    finally:
        os.close(fd)
    return data if size <= _LINES_SIZE_MAX else data.partition(b"\n")[2]


def _make_directory(layout: Layout) -> None:
    """A store of an earlier version has none."""
    try:
        os.mkdir(layout.directory(LIVE_DIR), 0o700)
    except FileExistsError:
        pass
