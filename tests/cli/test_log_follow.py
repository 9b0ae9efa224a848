"""`locus log --follow`, as a process on a log that grows."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog.store import Store
from tests.log.logs import event


@pytest.mark.parametrize("as_json", [True, False])
def test_events_are_shown_as_they_come_until_ctrl_c(tmp_path: Path, as_json: bool) -> None:
    """P8: the newest events oldest first, then each new one that fits; Ctrl-C ends with 130 and no words."""
    with Store.init(tmp_path / ".locus", repo_hash="0123456789ab", project_name="locus") as store:
        store.append([event(n, title=f"number {n}") for n in range(3)])
        command = [sys.executable, "-m", "locus_cli", "log", "--follow", "-n", "2", "--type", "action"]
        process = subprocess.Popen(
            [*command, *(["--json"] if as_json else [])],
            bufsize=0,  # what a buffer had read ahead, `communicate` would not give
            cwd=tmp_path,
            env={**os.environ, "LOCUS_DIR": str(tmp_path / ".locus")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline(), process.stdout.readline()]
            store.append([event(3, event_type="file"), event(4, title="number 4")])
            store.seal()
            lines.append(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            rest, words = process.communicate(timeout=60)
        finally:
            process.kill()

    assert (process.returncode, rest, words) == (130, b"", b"")
    if as_json:
        assert [json.loads(line)["title"] for line in lines] == ["number 1", "number 2", "number 4"]
    else:
        assert [line.split()[-1] for line in lines] == [b"1", b"2", b"4"]
