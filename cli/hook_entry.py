"""`locus-hook AGENT`: the raw recorder that a coding agent's hooks start.

Reads one JSON object from standard input and appends it, as it is, as one event of type `hook`. It
never hurts the work it watches (P4): it exits 0 whatever happens, prints nothing, ends within
`_DEADLINE_S`, touches the journal only, and imports no click, pyarrow, duckdb or orjson (I34). What
went wrong is noted in `.locus/tmp/hook-errors.log`. Without a store it does nothing.

What the fields of an agent's hooks mean is the business of adapters; this program reads only the
few names that agents share, to place the event in a session and a turn.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eventlog.types import Event

_USAGE = (
    "usage: locus-hook AGENT < hook.json\nRecords one hook call of a coding agent; prints nothing, exits 0."
)

_DEADLINE_S = 5
_LOCK_TIMEOUT_S = 2.0
# A frame of the journal holds 16 MiB. JSON escapes may make a text six times longer than it is.
_INPUT_SIZE_MAX = 8 << 20
_TEXT_SIZE_KEPT = 2 << 20
_NOTES_SIZE_MAX = 64 << 10

# Column ← the names that agents give it in their hook payloads, in order of preference.
_COLUMN_OF = (
    ("agent_session_id", ("session_id", "sessionId", "conversation_id")),
    ("agent_turn_id", ("prompt_id", "turn_id")),
    ("tool_use_id", ("tool_use_id", "tool_call_id")),
    ("cwd", ("cwd",)),
    ("tool", ("tool_name",)),
    ("operation", ("hook_event_name",)),
    ("model", ("model",)),
)


def main() -> None:
    """Record what stdin says. Ends the process with exit code 0, always."""
    root: "str | None" = None
    try:
        if len(sys.argv) > 1 and sys.argv[1] in ("-h", "--help"):
            print(_USAGE)
            return
        import signal  # costs as much as `json`, which imports the same enum

        signal.signal(signal.SIGALRM, _too_late)
        signal.alarm(_DEADLINE_S)
        event = event_of(_agent(sys.argv), _read_input())
        root = _find_store(event)
        if root is not None:
            _append(root, event)
    except BaseException as error:
        _note(root, error)
    finally:
        # Without the interpreter's clean-up: nothing is buffered, and no exit hook may raise.
        sys.stdout.flush()
        os._exit(0)


def event_of(agent: str, data: bytes) -> "Event":
    """The event for what a hook was given. Pure, but for the clock and the random id of the gate."""
    payload = _payload(data)
    event: "Event" = {
        "event_type": "hook",
        "event_kind": "observation",
        "source": "system",
        "agent": agent,
        "payload": payload,
    }
    for column, names in _COLUMN_OF:
        for name in names:
            value = payload.get(name)
            if isinstance(value, str) and value:
                event[column] = value
                break
    if "tool_use_id" in event:
        # The agent's own key: a hook that is installed twice is still one event.
        from eventlog.names import event_id_of

        key = ("hook", str(event.get("operation", "")), str(event["tool_use_id"]))
        event["event_id"] = event_id_of(agent, *key)
    return event


def _agent(arguments: "list[str]") -> str:
    return arguments[1] if len(arguments) > 1 and arguments[1] else "unknown"


def _read_input() -> bytes:
    parts = []
    size = 0
    while size <= _INPUT_SIZE_MAX:
        part = os.read(0, 1 << 20)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _payload(data: bytes) -> "dict[str, object]":
    """The JSON object in `data`; what is not one is kept as text."""
    from eventlog import jsontext

    if len(data) <= _INPUT_SIZE_MAX:
        try:
            value = jsontext.decode(data)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return value
    kept = data[:_TEXT_SIZE_KEPT]
    return {
        "text": kept.decode("utf-8", "backslashreplace"),
        "not_an_object": len(data) <= _INPUT_SIZE_MAX,
        "cut": len(kept) < len(data),
    }


def _find_store(event: "Event") -> "str | None":
    """The store of LOCUS_DIR, of the agent's working directory, or of ours."""
    from eventlog import identity

    cwd = event.get("cwd")
    if isinstance(cwd, str) and os.path.isdir(cwd):
        found = identity.find(cwd, os.environ)
        if found is not None:
            return found
    return identity.find(os.getcwd(), os.environ)


def _append(root: str, event: "Event") -> None:
    from eventlog import gate, identity
    from eventlog.fs import REAL
    from eventlog.layout import Layout
    from eventlog.log.journal import Journal
    from eventlog.log.line import encode_line

    layout = Layout(root)
    who = identity.read(REAL, layout)
    line = encode_line(gate.admit(REAL, {**event, "repo": who.repo_hash}))
    journal = Journal(REAL, layout, who.store_id, lock_timeout_s=_LOCK_TIMEOUT_S)
    journal.append([line])


def _note(root: "str | None", error: BaseException) -> None:
    """Keep a line about a failure for whoever looks into it; start over when there are many."""
    if root is None:
        return
    try:
        import time

        path = f"{root}/tmp/hook-errors.log"
        text = f"{time.time():.0f} {type(error).__name__}: {error}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
        if os.fstat(fd).st_size > _NOTES_SIZE_MAX:
            os.ftruncate(fd, 0)
        os.write(fd, text.replace("\n", " ").encode("utf-8", "backslashreplace")[:2000] + b"\n")
    except BaseException:
        pass  # there is nobody left to tell, and the agent's work goes on


def _too_late(_number: int, _frame: object) -> None:
    raise TimeoutError(f"not recorded within {_DEADLINE_S} s")


if __name__ == "__main__":
    main()
