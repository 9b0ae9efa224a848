"""Every error a caller of Locus can meet, in one module.

    EventLogError            exit 1   anything below; catch this to catch all of them
    ├── InvalidEvent         exit 1   an event breaks the envelope's rules; nothing was written
    ├── NotFound             exit 1   no event, turn, blob, file or repository of that name
    │   ├── NoTree           exit 1   no files of this turn are known; 4 where it should have some
    │   ├── Ambiguous        exit 1   a prefix names more than one thing
    │   └── NoStore          exit 10  there is no store here
    ├── Unsupported          exit 1   the store needs a newer Locus, or this file system cannot hold one
    ├── NotDurable           exit 1   a sync failed; the event is not acknowledged and may be retried
    ├── QueryError           exit 1   the SQL is wrong, or ran into its limits
    ├── Refused              exit 3   unsafe or outside what the command may do
    │   └── Conflict         exit 3   the log is not at the expected position
    ├── LockTimeout          exit 11  another process held a lock past the deadline
    └── Corruption           exit 12  bytes on disk are not what was written

A message says what happened, where, and what to do next. The hook path imports this module,
so it imports nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class EventLogError(Exception):
    """Base of all errors; `exit_code` is what the command line ends with."""

    exit_code = 1


class InvalidEvent(EventLogError):
    """An event cannot be appended as given; nothing of its batch was written."""


class NotFound(EventLogError):
    """Nothing in the store has that name."""


class NoTree(NotFound):
    """A turn of which no tree was recorded. `known` is how well its files are known, a `Certainty`.

    When a tree was to be expected, the exit code is that of an uncertain answer.
    """

    def __init__(self, message: str, known: "Any") -> None:
        super().__init__(message)
        self.known = known
        if known.state != "none":
            self.exit_code = 4


class Ambiguous(NotFound):
    """A prefix fits more than one thing; the message lists some of them."""


class NoStore(NotFound):
    """No `.locus` directory was found; `locus init` makes one."""

    exit_code = 10


class Unsupported(EventLogError):
    """The store's format or a required feature is newer than this version of Locus."""


class NotDurable(EventLogError):
    """The write could not be made durable. It is not acknowledged; a retry is safe."""


class QueryError(EventLogError):
    """A query is not valid SQL, failed, or exceeded a limit."""


class Refused(EventLogError):
    """The request is unsafe as given; the message names the flag or the step that is missing."""

    exit_code = 3


class Conflict(Refused):
    """`expect_position` differs from the log's next position; nothing was written."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(
            f"the log's next position is {actual}, not {expected} as expected: another writer "
            f"appended first. Read the new events, then append with expect_position={actual}."
        )
        self.expected = expected
        self.actual = actual


class LockTimeout(EventLogError):
    """A lock was not granted before its deadline."""

    exit_code = 11


class Corruption(EventLogError):
    """A file does not hold what was written to it.

    Args: path of the file, byte offset (None when the whole file is meant), what was expected, the command
    that checks all such files.
    """

    exit_code = 12

    def __init__(
        self, path: str, what: str, offset: "int | None" = None, check: str = "locus store verify"
    ) -> None:
        where = path if offset is None else f"{path} at byte {offset}"
        super().__init__(f"{where}: {what}. Run `{check}` for the full picture.")
        self.path = path
        self.offset = offset
        self.what = what


# What parsing bytes that nothing vouches for may raise: pyarrow's errors are ValueErrors and others, and
# impossible sizes end in MemoryError. An OSError is the disk's.
PARSE_ERRORS = (
    EventLogError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    OverflowError,
    MemoryError,
    RuntimeError,
)


def why_unreadable(error: BaseException) -> str:
    """The one rule by which a check words an error of the disk, or one of PARSE_ERRORS, of a file."""
    if isinstance(error, Corruption):
        return error.what
    if isinstance(error, OSError):
        return f"the disk cannot read it ({error.strerror or error})"
    return (str(error) or type(error).__name__).splitlines()[0][:200]
