"""The entry point of `locus`: runs a command and turns every ending into an exit code.

    0 ok · 1 error · 2 usage · 3 refused · 4 partial · 10 no store · 11 locked · 12 corruption
    130 interrupted · 141 the reader of our output went away

An error is one line on stderr, `locus: …`, or a JSON object there with `--json`. `LOCUS_DEBUG=1` shows the
traceback instead.
"""

import contextlib
import io
import itertools
import os
import sys
from collections.abc import Sequence

import click

import eventlog

from . import confine, exits, unused
from .access import start_maintenance
from .root import PipeClosedError, cli
from .streams import naming_stdout, opened, say, unread

_STREAMS = (
    (0, "stdin", os.O_RDONLY, "r"),
    (1, "stdout", os.O_RDONLY, "w"),
    (2, "stderr", os.O_WRONLY, "w"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `locus` with the process's arguments and end the process."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_closed_streams()
    unused.refuse()
    confine.is_own_process = True
    # Under PYTHONUNBUFFERED a write may be short, and the rest would be lost silently.
    if isinstance(raw := getattr(sys.stdout, "buffer", None), io.RawIOBase):
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), write_through=True)
    # Data is UTF-8 whatever the locale says; names that are not valid UTF-8 come out as they are.
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors=errors)
    code = run(words)
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    # Everything is written and closed. Leaving without the interpreter's clean-up saves its time, and
    # spares the thread pools of the libraries below a race that can abort a process at its exit.
    os._exit(code)


def _open_closed_streams() -> None:
    """Open those of the standard streams that our caller closed, before a file of a store gets their number.

    Standard output is opened for reading: a write to it fails, as with a closed file.
    """
    for number, name, flags, mode in _STREAMS:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # gets the lowest number that is free, which is this one
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def run(arguments: list[str]) -> int:
    """Run `locus` and return its exit code."""
    opened.clear()
    code = _run(arguments)
    start_maintenance()
    if positions := unread():
        _say_unread(arguments, positions, code or exits.PARTIAL)
        return code or exits.PARTIAL
    return code


def _run(arguments: list[str]) -> int:
    if "_LOCUS_COMPLETE" in os.environ:
        from . import complete as complete  # which knows bash better than click does
    try:
        ended = cli.main(arguments, prog_name="locus", standalone_mode=False)
        with naming_stdout():
            sys.stdout.flush()
    except (PipeClosedError, BrokenPipeError):
        _silence_stdout()
        return exits.PIPE_CLOSED
    except SystemExit as ending:  # so click ends a completion
        return int(ending.code or 0)
    except click.Abort:
        _say(arguments, "Interrupted", "interrupted", exits.INTERRUPTED)
        return exits.INTERRUPTED
    except Exception as error:
        if os.environ.get("LOCUS_DEBUG") == "1":
            raise
        kind, message, code = _explain(error)
        _say(arguments, kind, message, code)
        return code
    return ended if isinstance(ended, int) else 0


def _explain(error: Exception) -> tuple[str, str, int]:
    """(kind, message, exit code) of an error."""
    if isinstance(error, eventlog.EventLogError):
        return type(error).__name__, str(error), error.exit_code
    if isinstance(error, click.UsageError):
        return "Usage", _usage_message(error), exits.USAGE
    if isinstance(error, click.ClickException):
        return "Error", error.format_message(), error.exit_code
    if isinstance(error, FileNotFoundError) and error.filename is None and _is_nowhere():
        return "OSError", "the current directory was deleted. Change to one that exists (cd).", exits.ERROR
    if isinstance(error, OSError):
        where = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
        return "OSError", f"{where}{error.strerror or error}", exits.ERROR
    return (
        "Internal",
        f"this is a bug in Locus: {type(error).__name__}: {error}. LOCUS_DEBUG=1 shows where.",
        exits.ERROR,
    )


def _is_nowhere() -> bool:
    """Whether the current directory is gone, like that of a removed worktree."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _say_unread(arguments: list[str], positions: Sequence[range], code: int) -> None:
    """Print the last line of a command whose answer lacks damaged events."""
    from eventlog.base import display

    message = display.unread(positions)
    if _wants_json(arguments):
        from .output import json_line

        pairs = [[span.start, span.stop] for span in positions]
        fields = {"unread": pairs, "message": message, "exit_code": code}
        say(json_line(fields).decode().rstrip("\n"))
    else:
        say(f"locus: {message}")


def _usage_message(error: click.UsageError) -> str:
    message = error.format_message()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return message
    if isinstance(error, click.NoSuchOption) and error.option_name == "--store":
        return "--store is given before the command: locus --store DIR COMMAND. See `locus --help`."
    path = error.ctx.command_path if error.ctx is not None else "locus"
    ended = message if message.endswith(("?", "!")) else f"{message.rstrip('.')}."
    return f"{ended} See `{path} --help`."


def _say(arguments: list[str], kind: str, message: str, code: int) -> None:
    with contextlib.suppress(OSError):  # the exit code says the rest
        _write_error(arguments, kind, message, code)


def _write_error(arguments: list[str], kind: str, message: str, code: int) -> None:
    if _wants_json(arguments):
        from .output import json_line

        click.echo(
            json_line({"error": {"kind": kind, "message": message, "exit_code": code}}), err=True, nl=False
        )
    elif kind == "Usage" and message.startswith("Usage:"):
        click.echo(message, err=True)  # the help text, for a command without its verb
    else:
        click.echo("locus: " + " ".join(message.split("\n")), err=True)


def _wants_json(arguments: list[str]) -> bool:
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own or "--format=json" in own or ("--format", "json") in itertools.pairwise(own)


def _silence_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
