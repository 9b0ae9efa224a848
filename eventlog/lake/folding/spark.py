"""Runs tasks on Apache Spark, which hands them out and starts again those whose process was lost.

Nothing of Spark reads or writes data here: it needs no library for tables or storages, and no credentials
are sent to its workers, which have the settings of the storage in their environment. Imported for `--master`
alone; needs the extra `spark` and Java. One thread.
"""

import os
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

from eventlog.base.errors import EventLogError, NotFound, Unsupported
from eventlog.lake.folding import stored

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_REACH_S = 5.0  # for the host of a master
_WORKERS_S = 300.0  # for the first process on a worker: the cluster may be busy with others

# In what Spark says: the end of a traceback of Python, and of what went wrong otherwise.
_OF_PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
_OF_TASK = re.compile(r"most recent failure: .*? executor \w+\): (?:.*Reason: |[\w.]+: )?(.*)")
_OF_JAVA = re.compile(r"^: (?:[\w.$]+: )?(.*)", re.M)
_LACKS_PACKAGE = ("ModuleNotFoundError", "ImportError", "AttributeError: Can't get attribute")


def runner(master: str) -> "SparkRunner":
    """Runs tasks on the cluster of a master, for use in `with`. Raises: Unsupported, NotFound."""
    if shutil.which(_java()) is None:
        raise Unsupported(
            f"Spark needs Java 17 or newer, and {_java()} is not there. Install it (Debian: "
            "openjdk-17-jre-headless), or name its directory in JAVA_HOME."
        )
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise Unsupported(
            f"--master needs the library pyspark ({error}). Install it: pip install 'locus-eventlog[spark]'"
        ) from error
    _reach(master)
    return SparkRunner(master)


class SparkRunner:
    """Runs tasks on Spark, which starts with the first of them and ends with the `with` block."""

    def __init__(self, master: str) -> None:
        """Called by `runner`. Args: master: as Spark names it: `spark://HOST:PORT`, `local[2]`, `yarn`, …"""
        self._master = master
        self._context: Any = None

    def __call__(self, run: "Callable[[_Given], _Made]", tasks: "Sequence[_Given]") -> "Iterator[_Made]":
        """What `run` makes of each task, in their order, when all are done.

        `run` can be imported on the workers. Raises: what an error of ours says in a task, as in this
        process; EventLogError for all else that ends the work.
        """
        if not tasks:
            return
        self._context = self._context or _started(self._master)
        with _errors(self._master):
            outcomes = self._context.parallelize(tasks, len(tasks)).map(_Guarded(run, stored.CODE)).collect()
        for outcome in outcomes:
            if isinstance(outcome, _Failure):
                raise outcome.error()
            yield outcome

    def __enter__(self) -> "SparkRunner":
        return self

    def __exit__(self, *exc: object) -> None:
        if self._context is not None:
            _stop(self._context)
            self._context = None


@dataclass(frozen=True)
class _Failure:
    """An error of ours in a task: as a value, since it would be the same in a second try."""

    kind: "type[EventLogError]"
    text: str

    def error(self) -> EventLogError:
        return self.kind.__new__(self.kind, self.text)  # as it was made there: its arguments stayed there


@dataclass(frozen=True)
class _Guarded:
    """What a worker calls. `code` is that of the fold in the process that made the tasks."""

    run: "Callable[[Any], Any]"
    code: str

    def __call__(self, task: Any) -> Any:
        if self.code != stored.CODE:
            return _Failure(
                Unsupported, "a worker has this package in another version. Install the same there."
            )
        try:
            return self.run(task)
        except EventLogError as error:
            return _Failure(type(error), str(error))


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def _reach(master: str) -> None:
    """Raises: NotFound where nobody listens; Spark itself would try for a minute."""
    if not master.startswith("spark://"):
        return
    addresses = [urlsplit(f"//{address}") for address in master.removeprefix("spark://").split(",")]
    reason = ""
    for address in addresses:
        try:
            socket.create_connection((address.hostname, address.port or 7077), _REACH_S).close()
            return
        except (OSError, ValueError) as error:
            reason = str(error)
    raise NotFound(
        f"nobody answers at {master} ({reason}). Check the address and that the master runs; for a try on "
        "this machine: scripts/cluster"
    )


def _started(master: str) -> Any:
    """A running context, with a worker to run tasks. Raises: EventLogError."""
    from pyspark import SparkConf, SparkContext

    is_here = master.startswith("local")
    conf = SparkConf().setMaster(master).setAppName("locus lake fold")
    conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
    if is_here or urlsplit(master.partition(",")[0]).hostname in _LOOPBACK:
        conf.set("spark.driver.bindAddress", "127.0.0.1").set("spark.driver.host", "127.0.0.1")
    if is_here:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryFile() as log, _errors(master, log), _stderr_in(log):
        context = SparkContext(conf=conf)
    try:
        if not is_here:
            _wait_for_workers(context, master)
    except BaseException:
        _stop(context)
        raise
    return context


def _wait_for_workers(context: Any, master: str) -> None:
    """Wait until a process of a worker runs for this one. Raises: EventLogError."""
    until = time.monotonic() + _WORKERS_S
    with _errors(master):
        while context._jsc.sc().getExecutorMemoryStatus().size() < 2:  # the first is this process
            time.sleep(0.1)
            if context._jsc.sc().isStopped():
                raise NotFound(f"{master} is no master of this version of Spark. Check both.")
            if time.monotonic() > until:
                raise EventLogError(
                    f"{master} gave this work no process within {_WORKERS_S:.0f} s. See on its page whether "
                    "workers are free and have the memory of spark.executor.memory (1g by default)."
                )


def _stop(context: Any) -> None:
    """Stop Spark here and on the workers, with the Java process that this one started for it."""
    from pyspark import SparkContext

    gateway = context._gateway
    context.stop()
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    process = gateway.proc
    process.stdin.close()  # it ends with its input
    process.wait()


@contextmanager
def _stderr_in(log: "IO[bytes]") -> "Iterator[None]":
    """What processes started meanwhile write to stderr goes there: Spark says much while it starts."""
    sys.stderr.flush()
    stderr = os.dup(2)
    try:
        os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


@contextmanager
def _errors(master: str, log: "IO[bytes] | None" = None) -> "Iterator[None]":
    """Raise what Spark raises as an error of ours: the reason, without the traces of Java."""
    try:
        yield
    except EventLogError:
        raise
    except Exception as error:  # those of py4j and pyspark have no other common class
        report = _report(error, log)
        reason = _reason(report)
        if reason.startswith(_LACKS_PACKAGE):
            text = (
                f"the workers of {master} lack a package, or have it in another version ({reason}). Install "
                "'locus-eventlog[lake]' there as it is here, for the Python that PYSPARK_PYTHON names."
            )
        else:
            text = f"Spark at {master} ended the work: {reason.rstrip('.')}. Mend that, and run it again."
        raise EventLogError(text) from RuntimeError(report)


def _report(error: Exception, log: "IO[bytes] | None") -> str:
    """All that Spark says of an error. Without its Java process there is only what it printed before."""
    report = str(error)
    if log is not None:
        log.seek(0)
        report += "\n" + log.read().decode(errors="replace")
    return report


def _reason(report: str) -> str:
    for pattern in (_OF_PYTHON, _OF_TASK, _OF_JAVA):
        if reasons := pattern.findall(report):
            return str(reasons[-1]).strip()
    return report.strip().partition("\n")[0]
