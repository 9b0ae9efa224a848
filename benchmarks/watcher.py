"""A Watchman server of the benchmark's own, and a desk whose hooks ask it (docs/watcher.md)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.frame import NotRunnable
from benchmarks.rows_hook import Desk
from eventlog import Store
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.hooks import watches
from eventlog.hooks.watched import Watch

_START_S = 20


@contextmanager
def watched(desk: Desk) -> Iterator[None]:
    """Have the hooks of a desk ask Watchman, which watches its directory."""
    with _server() as socket:
        _tell(socket, "watch", desk.root)
        settings = f"{desk.root}/.locus/config.toml"
        with open(settings, "w", encoding="ascii") as file:
            file.write('[capture]\nwatcher = "watchman"\n')
        try:
            (place,) = watches.note_all(
                REAL, Layout(f"{desk.root}/.locus"), {"WATCHMAN_SOCK": socket}
            ).values()
            if not isinstance(place, Watch):
                raise NotRunnable(f"no watcher reports the directory: {place}")
            _check(desk)
            yield
        finally:
            os.unlink(settings)


def _check(desk: Desk) -> None:
    """Make sure that hooks compare what Watchman reports."""
    desk.said("UserPromptSubmit", prompt="Go on")  # which has time for a full capture, and notes a clock
    for number in range(5):  # on a busy machine an answer may come too late
        with open(f"{desk.root}/changed", "w", encoding="ascii") as file:
            file.write(f"{number}\n")
        desk.shell(False)
        with Store.open(f"{desk.root}/.locus") as store:
            ((by,),) = store.query(
                "select json_extract_string(payload, '$.capture.by') from events "
                "where event_type = 'snapshot' order by position desc limit 1"
            ).rows
        if by == "watchman":
            return
    raise NotRunnable("five hooks in turn got no answer from Watchman")


@contextmanager
def _server() -> Iterator[str]:
    """A server that nobody else asks; its socket."""
    program = shutil.which("watchman")
    if program is None:
        raise NotRunnable("there is no program `watchman`")
    with tempfile.TemporaryDirectory() as place:
        files = [f"--{name}={place}/{name}" for name in ("sockname", "statefile", "logfile", "pidfile")]
        quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        process = subprocess.Popen([program, "--foreground", *files], start_new_session=True, **quiet)
        try:
            until = time.monotonic() + _START_S
            while not os.path.exists(f"{place}/sockname"):
                if time.monotonic() > until:
                    raise NotRunnable("Watchman does not start")
                time.sleep(0.01)
            yield f"{place}/sockname"
        finally:
            process.terminate()
            process.wait(_START_S)


def _tell(socket: str, name: str, root: str) -> None:
    command = ["watchman", f"--sockname={socket}", "--no-spawn", name, root]
    done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode or b'"error"' in done.stdout:
        raise NotRunnable(f"watchman {name}: {(done.stdout + done.stderr).decode(errors='replace')}")
