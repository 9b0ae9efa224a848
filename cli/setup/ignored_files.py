"""Whether a store keeps ignored files that nothing could rebuild: asked once, set (docs/install.md)."""

import sys
from typing import TYPE_CHECKING

import click

from ..access import say

if TYPE_CHECKING:
    from eventlog.base.layout import Layout

KEPT_TEXT = (
    "Files that git ignores and that nothing could rebuild (.env and the like, local databases, up to 5 MB) "
    "are kept for replay and restore on this machine, and withheld from all that leaves it. "
    "`locus init --leave-ignored` switches that off."
)
LEFT_TEXT = (
    "Files that git ignores are left out. `locus init --keep-ignored` keeps those that nothing could rebuild."
)
_QUESTION = (
    "Keep files that git ignores and that nothing could rebuild (.env and the like, local databases, up to "
    "5 MB) for replay and restore on this machine, withheld from all that leaves it?"
)
_UNDECIDED = (
    "Files that git ignores are left out, also those that nothing could rebuild, such as .env: a restore "
    "cannot bring them back. `locus init --keep-ignored` keeps these, withheld from all that leaves this "
    "machine; "
    "`locus init --leave-ignored` leaves it as it is, and no command says this again."
)


def decide(layout: "Layout", keeps: bool) -> None:
    """Set it, and report it."""
    from eventlog.base import config
    from eventlog.base.fs import REAL, translate_os_errors

    with translate_os_errors(layout.keep_ignored, "note that choice"):
        config.set_keeps_ignored(REAL, layout, keeps)
    say(KEPT_TEXT if keeps else LEFT_TEXT)


def ask_once(layout: "Layout") -> None:
    """Ask on a terminal, or explain how to decide, where it is undecided."""
    from eventlog.base import config
    from eventlog.base.fs import REAL

    if config.keeps_ignored(REAL, layout) is not None:
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        decide(layout, click.confirm(_QUESTION, default=True, err=True))
    else:
        say(_UNDECIDED)
