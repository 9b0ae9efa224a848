"""What the verbs of `locus context` share: their options, and how they reach the files."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from eventlog.memory.shared_store import ContextStore
    from eventlog.store import Store

F = TypeVar("F", bound=Callable[..., Any])


def phase_option(function: F) -> F:
    return click.option(
        "--phase",
        type=click.Choice(["planning", "implementation"]),
        default="planning",
        show_default=True,
        help="Which of the two; they are kept apart.",
    )(function)


def workstream_argument(function: F) -> F:
    return click.argument("workstream", metavar="WORKSTREAM")(function)


def contexts_of(store: "Store", *, whatever: bool = False) -> "ContextStore":
    """The shared context of the repository around the working directory. Raises: Refused when it is off."""
    from eventlog.base.errors import Refused
    from eventlog.base.repository import git_root
    from eventlog.memory.shared_nodes import is_enabled
    from eventlog.memory.shared_store import ContextStore

    contexts = ContextStore(store, git_root(os.getcwd()) or os.path.dirname(store.layout.root))
    if not whatever and not is_enabled(contexts):
        raise Refused(
            f"context is not shared here. To share it, set `shared = true` under [context] in "
            f"{store.layout.config_file}, or SHARED_CONTEXT_ENABLED=true."
        )
    return contexts
