"""Stands in for a coding agent: records one turn that runs a shell command (docs/howto.md).

python3 turn.py "What was asked" 'sed -i s/a/b/ file.py'
"""

import subprocess
import sys
from pathlib import Path

from eventlog import Recorder, Store


def contents() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}


request, command = sys.argv[1:]
with (
    Store.open() as store,
    Recorder(store, agent="example-agent").start_session(request) as session,
    session.start_turn(request, root=".") as turn,
):
    before = contents()
    done = subprocess.run(command, shell=True, check=False)
    result = {"exit": done.returncode}
    at = turn.action("shell", {"command": command}, result, success=done.returncode == 0)
    (call,) = store.events(at, at + 1)
    after = contents()
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            turn.file(path, before=before.get(path), after=after.get(path), cause=str(call["event_id"]))
    turn.snapshot(".")
    turn.end(title=request, outcome="done")
