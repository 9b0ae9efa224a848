"""The entry of the program `locus`: `statusline` has no time for the imports of the other commands."""

import sys


def main() -> None:
    """Run `locus` with the process's arguments and end the process."""
    if sys.argv[1:] == ["statusline"]:
        from .statusline_entry import main as run
    else:
        from .main import main as run
    run()
