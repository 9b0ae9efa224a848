"""`locus statusline` as a process: JSON of an agent in, one line for its status bar out.

Agents run it after every message, so it has the budget of a hook (P4, I34): it exits 0 whatever happens,
ends within `_DEADLINE_S`, and imports no click, pyarrow, duckdb or orjson. `start.py` comes here first.
"""

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_DEADLINE_S = 1.0
_INPUT_SIZE_MAX = 1 << 20
_FAILED = "locus: –"


class _TooLate(BaseException):
    """The time is over. Not an OSError, which would be taken for that of a file."""


def main() -> None:
    """Print the line. Always ends the process with exit code 0."""
    try:
        import _signal  # type: ignore[import-not-found]  # `signal` costs more than the rest (hook_entry.py)

        _signal.signal(_signal.SIGALRM, _too_late)
        _signal.setitimer(_signal.ITIMER_REAL, _DEADLINE_S)
        shown = text(os.environ)
        _signal.setitimer(_signal.ITIMER_REAL, 0)
    except BaseException:
        shown = _FAILED
    try:
        os.write(1, f"{shown}\n".encode("utf-8", "replace"))
    except BaseException:
        pass  # its reader has gone
    os._exit(0)


def text(environ: "Mapping[str, str]") -> str:
    """The line for the JSON on stdin; a terminal, or any other value, counts as {}. Raises: anything."""
    from eventlog.base import jsontext
    from eventlog.reports import status_line

    try:
        payload = {} if os.isatty(0) else jsontext.decode(_read_input())
    except (OSError, ValueError, RecursionError):
        payload = {}
    return status_line.line(payload if isinstance(payload, dict) else {}, environ, time.time())


def _read_input() -> bytes:
    """Standard input; all of it is read, so that the agent's write does not fail."""
    parts = []
    size = 0
    while part := os.read(0, 1 << 16):
        size += len(part)
        if size <= _INPUT_SIZE_MAX:
            parts.append(part)
    return b"".join(parts)


def _too_late(_number: int, _frame: object) -> None:
    raise _TooLate


if __name__ == "__main__":
    main()
