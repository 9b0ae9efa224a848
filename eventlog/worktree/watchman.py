"""Questions to a Watchman server that runs already, by its socket (docs/watcher.md).

A question is a JSON array and a newline, the answer a JSON object in one line (Watchman's "socket
interface"). Nothing is started. On the hook path of a store with the setting, so without the modules `socket`
and `json`.
"""

import _socket
import os
import time
from struct import Struct

from eventlog.base import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ANSWER_SIZE_MAX = 256 << 10
_PART_SIZE = 64 << 10
_CREDENTIALS = Struct("iII")  # pid, uid, gid (unix(7))
_SYNC_SHARE = 0.75  # of the time is the server's, which then says so itself
_NO_NAMES = frozenset(("", ".", ".."))
_NEVER = frozenset("\0\ufffd")  # the second is what a name that is no UTF-8 may have become


class NoAnswer(Exception):
    """There is no answer that can be relied on. Its text says why."""


def ask(server: str, name: str, root: "str | None" = None, until: float = 0.0, **options: object) -> "Any":
    """The answer of the server at a socket, an object without `error` and `warning`.

    Args: name: of the command; root: the watched directory that it is about; until: monotonic time; options:
    of the command, to which the time for its `sync_timeout` is added.
    Raises: NoAnswer.
    """
    command: "list[object]" = [name] if root is None else [name, root]
    if root is not None and name != "get-config":
        left_s = until - time.monotonic()
        command.append({**options, "sync_timeout": max(1, int(left_s * 1000 * _SYNC_SHARE))})
    try:
        with_socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            with_socket.setblocking(False)
            with_socket.connect(server)
            check_peer(*peer_of(with_socket))
            question = jsontext.encode(command) + b"\n"
            if with_socket.send(question) < len(question):
                raise NoAnswer("it does not take the question")
            answer = jsontext.decode(_line(with_socket, until))
        finally:
            with_socket.close()
    except (OSError, ValueError, RecursionError) as error:
        raise NoAnswer(f"{server}: {error}") from None
    if not isinstance(answer, dict):
        raise NoAnswer("its answer is no object")
    for problem in ("error", "warning"):
        if problem in answer:
            raise NoAnswer(str(answer[problem]))
    return answer


def peer_of(connection: _socket.socket) -> "tuple[int, int]":
    """(process, user) at the other end. Raises: OSError, NoAnswer where the system does not tell."""
    option = getattr(_socket, "SO_PEERCRED", None)
    if option is None:
        raise NoAnswer("this system does not say which process listens to a socket")
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(_socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return pid, uid


def check_peer(pid: int, uid: int) -> None:
    """Refuse a server of another user, and one that sees other directories under our paths.

    Raises: NoAnswer, OSError.
    """
    if uid != os.geteuid():
        raise NoAnswer(f"it is a server of user {uid}")
    if os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt"):
        raise NoAnswer("it runs in another container")


def _line(connection: _socket.socket, until: float) -> bytes:
    """The answer up to its newline. Raises: NoAnswer, OSError."""
    import select

    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    answer = b""
    while not answer.endswith(b"\n"):
        left_s = until - time.monotonic()
        if left_s <= 0 or not poll.poll(left_s * 1000):
            raise NoAnswer("it does not answer in time")
        part = connection.recv(_PART_SIZE)
        if not part:
            raise NoAnswer("it ended the connection")
        answer += part
        if len(answer) > ANSWER_SIZE_MAX:
            raise NoAnswer("its answer is too long")
    return answer


def query(
    server: str, root: str, since: str, *, relative: str, left_out: "list[str]", until: float
) -> "dict[str, Any]":
    """What changed in a directory since a clock. Raises: NoAnswer.

    Args: relative: the directory, below `root`, or ""; left_out: paths in it that do not count, with
    everything below them.
    """
    options: "dict[str, object]" = {
        "since": since,
        "fields": ["name"],
        "empty_on_fresh_instance": True,
        "expression": [
            "not",
            [
                "anyof",
                *(part for path in left_out for part in (["name", path, "wholename"], ["dirname", path])),
            ],
        ],
    }
    if relative:
        options["relative_root"] = relative
    return ask(server, "query", root, until, **options)  # type: ignore[no-any-return]


def clock_in(answer: "dict[str, Any]", instance: str) -> str:
    """The clock of an answer. Raises: NoAnswer where it is none of the watch `instance`."""
    clock = answer.get("clock")
    if not isinstance(clock, str) or instance_of(clock) != instance:
        raise NoAnswer("it was restarted, or made a new watch")
    return clock


def instance_of(clock: str) -> str:
    """The part of a clock that tells servers, and watches of one server, apart."""
    return clock.rpartition(":")[0]


def paths_in(answer: "dict[str, Any]", count_max: int) -> "frozenset[bytes]":
    """The paths of an answer. Raises: NoAnswer where they are not all that changed since its `since`."""
    names = answer.get("files")
    if answer.get("is_fresh_instance") is not False or not isinstance(names, list):
        raise NoAnswer("it does not know what has changed")
    if len(names) > count_max:
        raise NoAnswer("too much has changed")
    return frozenset(map(_path_of, names))


def _path_of(name: object) -> bytes:
    """Raises: NoAnswer."""
    if not isinstance(name, str) or _NO_NAMES.intersection(name.split("/")) or _NEVER.intersection(name):
        raise NoAnswer(f"it reports a name that is none: {name!r}")
    try:
        return name.encode("utf-8")
    except UnicodeEncodeError:
        raise NoAnswer("it reports a name that is no UTF-8") from None
