"""`locus` with a task for each store, however small, and several for one of some thousand events.

python -m tests.cluster.small_tasks ARGUMENTS…
"""

import sys

from eventlog.lake.folding import driver, plan
from locus_cli.main import run

if __name__ == "__main__":
    plan.TASK_POSITIONS = 0
    driver.fold.__kwdefaults__["positions_max"] = 2_000
    sys.exit(run(sys.argv[1:]))
