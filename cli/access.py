"""How the verbs reach the store of the command line, and what happens after they have answered."""

import contextlib
import os

import click

import eventlog
from eventlog.base import config

from .streams import opened, say

# Commands that report unreadable events themselves, or repair them.
_OF_DAMAGE = ("verify", "repair", "salvage")


def store_option() -> str | None:
    """What --store says, before the verb."""
    named: str | None = click.get_current_context().find_root().obj
    return named


def open_store(*, records: bool = False) -> "eventlog.Store":
    """The store of `--store`, LOCUS_DIR, or the nearest `.locus`. Raises: NoStore.

    A command that `records` notes the store as one of this user's, for `--all-stores`.
    """
    store = eventlog.Store.open(store_option())
    if click.get_current_context().info_name not in _OF_DAMAGE:
        opened.append(store)
    if records:
        from eventlog.multi_store import remember

        remember(store.layout.root, os.environ)
    if store.redactor.problem is not None:
        say(store.redactor.problem)
    return store


def start_maintenance() -> None:
    """After a command has answered: start the maintainer of each store that it opened and that needs it.

    No command waits for maintenance, and none fails for it. Commands about damage leave everything as it is.
    """
    from .maintainer import may_start, start, start_missing_facts

    for store in opened:
        with contextlib.suppress(eventlog.EventLogError, OSError):
            if config.read(store.fs, store.layout).briefing_at_start:
                start_missing_facts(store.layout.root)
            if may_start(store.layout.root) and _needs_maintenance(store):
                start(store.layout.root)


def _needs_maintenance(store: "eventlog.Store") -> bool:
    from eventlog.hooks.deferred_lists import worktrees_with_open_lists
    from eventlog.maintenance import upkeep
    from eventlog.retention.trigger import is_asked_for

    return (
        upkeep.is_needed(store)
        or store.fs.exists(store.layout.erasing)
        or bool(worktrees_with_open_lists(store.fs, store.layout))
        or is_asked_for(store.fs, store.layout)
    )
