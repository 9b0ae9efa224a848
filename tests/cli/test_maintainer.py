"""The priority of the process that maintains while nobody waits."""

import os
import subprocess
import sys

import pytest

_SAY = """
import os, threading
from locus_cli.maintainer import step_back
step_back()
def say():
    print(os.nice(0), *sorted(os.sched_getaffinity(0)))
thread = threading.Thread(target=say)
thread.start()
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processors cannot be chosen here")
def test_maintenance_leaves_half_of_the_processors_to_others() -> None:
    """P4: the detached maintainer is nice and keeps to half of the processors, with all its threads."""
    output = subprocess.run([sys.executable, "-c", _SAY], capture_output=True, text=True, check=True)
    nice, *processors = map(int, output.stdout.split())
    there = sorted(os.sched_getaffinity(0))
    assert nice == min(os.nice(0) + 10, 19)
    assert processors == there[len(there) // 2 :]
    assert len(there) == 1 or len(processors) < len(there)
