"""`locus-hook AGENT`: the recorder that a coding agent's hooks start.

Reads one JSON object from standard input and records the call and the files that it changed, with
`eventlog.hooks.record`; this is the process around that. It never hurts the work that it records (P4): it
always exits 0, prints nothing but what a setting or a person asks for, ends within `_DEADLINE_S` and a
little, and imports no click, pyarrow, duckdb or orjson (I34). Failures are noted in
`.locus/tmp/hook-errors.log`. Without a store it does nothing.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from eventlog.agents.kit.call import Call
    from eventlog.base.types import Event
    from eventlog.hooks.deferred_lists import Job, Started

_USAGE = (
    "usage: locus-hook AGENT < hook.json\nRecords one hook call of a coding agent; prints nothing, exits 0."
)

# The first signal ends the capture of the directory, and the event is appended; the next one ends that.
_DEADLINE_S = 4.0
_DEADLINE_NEXT_S = 1.0
# A new session waits so long, recording included, for the facts of its briefing.
_FACTS_WITHIN_S = 2.0
_POLL_S = 0.01
_INPUT_SIZE_MAX = 32 << 20
_TEXT_SIZE_KEPT = 2 << 20
_TAIL_SIZE_KEPT = 64 << 10
_NOTES_SIZE_MAX = 64 << 10

# In an input too large to be parsed, these are searched in its first and its last bytes.
_NAMES = (
    "session_id", "prompt_id", "turn_id", "agent_id", "cwd", "hook_event_name", "tool_name", "tool_use_id",
)  # fmt: skip


def main() -> None:
    """Record the call on stdin. Always ends the process with exit code 0."""
    started_s = time.monotonic()
    root: "str | None" = None
    try:
        if len(sys.argv) > 1 and sys.argv[1] in ("-h", "--help"):
            print(_USAGE)
            return
        import _signal  # type: ignore[import-not-found]  # `signal` wraps it in enums, which cost more than the rest of a hook's imports

        _signal.signal(_signal.SIGALRM, _too_late)
        _signal.setitimer(_signal.ITIMER_REAL, _DEADLINE_S, _DEADLINE_NEXT_S)
        data, size = _read_input()
        from eventlog import agents
        from eventlog.base.fs import Detaching
        from eventlog.hooks import locate, record
        from eventlog.hooks.context import patience

        _signal.setitimer(_signal.ITIMER_REAL, _DEADLINE_S * patience(os.environ), _DEADLINE_NEXT_S)

        call = agents.interpret(_agent(sys.argv), payload_of(data, size))
        root = locate.find_store(call, os.environ)
        if root is not None:
            store = root

            def leave() -> "NoReturn":
                _end_without_recording(call, store, started_s, fs.wait)

            fs = Detaching(record.until_of(call, os.environ, time.monotonic()), leave)
            recorded = record.record(
                fs,
                store,
                call,
                os.environ,
                lambda error: note(store, error),
                started_s=started_s,
                input_size=size,
                start=_start_contents,
            )
            if not fs.is_detached:
                _answer(call, store, started_s)
            if call.moment in ("turn_end", "session_end"):
                from . import maintainer

                maintainer.start(store)
                if recorded.settings.briefing_at_start:
                    maintainer.start_missing_facts(store)  # the next session asks for them
    except BaseException as error:
        note(root, error)
    finally:
        _end()


def _end() -> "NoReturn":
    """Without the interpreter's clean-up: nothing is buffered, and no exit hook may raise."""
    try:
        sys.stdout.flush()
    finally:
        os._exit(0)


def _start_contents(job: "Job") -> "Started":
    from . import contents

    return contents.start(job)


def _end_without_recording(
    call: "Call", store: str, started_s: float, wait: "Callable[[], None]"
) -> "NoReturn":
    """Answer the agent, and end the process that it waits for; another process records meanwhile."""
    try:
        _answer(call, store, started_s)
    except BaseException as error:
        note(store, error)
    try:
        wait()
    finally:
        _end()


def _answer(call: "Call", store: str, started_s: float) -> None:
    """Write what the agent reads: of a new session the briefing, at a prompt what a person asked to tell."""
    if call.moment == "turn_start":
        from eventlog.base.fs import REAL
        from eventlog.base.layout import Layout
        from eventlog.hooks import state

        layout = Layout(store)
        if call.session is not None and state.notices_of(REAL, layout, call.session):
            from eventlog.hooks import notices  # of few prompts, and each module costs

            _write(notices.answer(REAL, layout, call))
    _brief(call, store, started_s)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def _brief(call: "Call", store: str, started_s: float) -> None:
    """Write the briefing of a new session for its agent (docs/briefing.md)."""
    if call.moment != "session":
        return
    operation = call.events[-1].get("operation")
    if operation != "start":
        from eventlog import agents

        spec = agents.spec_of(call.agent)
        if operation != "resume" or spec is None or spec.hooks is None or not spec.hooks.forgets_answer:
            return  # a resumed session has its context
    from eventlog.base import config, identity
    from eventlog.base.fs import REAL
    from eventlog.base.layout import Layout
    from eventlog.hooks import locate
    from eventlog.hooks.context import patience

    layout = Layout(store)
    settings = config.read(REAL, layout)
    if not settings.briefing_at_start:
        return
    from eventlog.memory import briefing_hook

    who = identity.read(REAL, layout)
    try:
        location = locate.find_directory(layout.root, call, os.environ)
    except (OSError, ValueError):
        location = None
    facts = briefing_hook.cached(layout, who)
    if facts is None and briefing_hook.reads_answer(call.agent) and briefing_hook.lacks_facts(layout, who):
        from . import maintainer

        until_s = started_s + _FACTS_WITHIN_S * patience(os.environ)
        _await(maintainer.start_facts(store), until_s)
    top = None if location is None else location.root
    _write(briefing_hook.at_start(call.agent, call.session, layout, who, settings, top, facts))


def _await(child: "int | None", until_s: float) -> None:
    """Wait for the end of a child, until a monotonic time; a slower one goes on by itself."""
    while child is not None and time.monotonic() < until_s and not os.waitpid(child, os.WNOHANG)[0]:
        time.sleep(_POLL_S)


def _agent(arguments: "list[str]") -> str:
    return arguments[1] if len(arguments) > 1 and arguments[1] else "unknown"


def _read_input() -> "tuple[bytes, int]":
    """Standard input and its size. A too large input is cut to its beginning and its end; all of it is read,
    so
    that the agent's write does not fail."""
    parts = []
    size = 0
    tail = b""
    while part := os.read(0, 1 << 16):  # what a pipe holds
        size += len(part)
        if size <= _INPUT_SIZE_MAX:
            parts.append(part)
        else:
            tail = (tail + part)[-_TAIL_SIZE_KEPT:]
    if size <= _INPUT_SIZE_MAX:
        return b"".join(parts), size
    return b"".join(parts)[:_TEXT_SIZE_KEPT] + tail, size


def payload_of(data: bytes, size: int) -> "Event":
    """The JSON object in `data`; anything else becomes a text."""
    from eventlog.base import jsontext

    if size == len(data):
        try:
            value = jsontext.decode(data)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return value
    excerpt = data[:_TEXT_SIZE_KEPT]
    return {
        **({} if size == len(data) else _named_in(data)),
        "text": excerpt.decode("utf-8", "backslashreplace"),
        "not_an_object": size == len(data),
        "cut": size > len(excerpt),
    }


def _named_in(data: bytes) -> "dict[str, str]":
    """The names that identify an event, as far as the ends of a large input show them.

    Agents write them before and after the large texts; the same names inside a text have escaped quotes.
    """
    values: "dict[str, str]" = {}
    for part in (data[:_TAIL_SIZE_KEPT], data[-_TAIL_SIZE_KEPT:]):
        for name in _NAMES:
            _, mark, rest = part.replace(b'": "', b'":"').partition(b'"%b":"' % name.encode())
            value, end, _ = rest.partition(b'"')
            if mark and end and len(value) < 4096 and b"\\" not in value:
                values.setdefault(name, value.decode("utf-8", "replace"))
    return values


def note(root: "str | None", error: BaseException) -> None:
    """Note a failure in a line of the log for people; start over when there are many."""
    if root is None:
        return
    try:
        if os.path.islink(f"{root}/tmp"):
            return  # the failure would be this one; and a note must not go elsewhere either
        path = f"{root}/tmp/hook-errors.log"
        text = f"{time.time():.0f} {type(error).__name__}: {error}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
        try:
            if os.fstat(fd).st_size > _NOTES_SIZE_MAX:
                os.ftruncate(fd, 0)
            os.write(fd, text.replace("\n", " ").encode("utf-8", "backslashreplace")[:2000] + b"\n")
        finally:
            os.close(fd)
    except BaseException:
        pass  # there is nowhere left to report it, and the agent's work goes on


def _too_late(_number: int, _frame: object) -> None:
    raise TimeoutError(f"not done within {_DEADLINE_S:g} s")


if __name__ == "__main__":
    main()
