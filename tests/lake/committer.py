"""Commits or maintains until it is killed: python -m tests.lake.committer PLACE CATALOG commit|maintain."""

import sys

from eventlog.base.errors import EventLogError
from eventlog.lake import maintain as maintaining
from eventlog.lake import tables
from eventlog.lake.place import open_place

if __name__ == "__main__":
    place = open_place(sys.argv[1])
    tables.init(place, sys.argv[2])
    print("ready", flush=True)
    while True:
        try:
            if sys.argv[3] == "maintain":
                maintaining.maintain(place, sys.argv[2], files_min=3)
            else:
                tables.commit(place, sys.argv[2])
        except EventLogError as error:
            if error.exit_code != 3:  # others committed at each try
                raise
