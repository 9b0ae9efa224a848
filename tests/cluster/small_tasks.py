"""`locus` with a task for each store, however small: python -m tests.cluster.small_tasks ARGUMENTS…"""

import sys

from eventlog.lake.folding import plan
from locus_cli.main import run

if __name__ == "__main__":
    plan.TASK_POSITIONS = 0
    sys.exit(run(sys.argv[1:]))
