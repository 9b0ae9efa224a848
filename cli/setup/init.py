"""`locus init`: make a store."""

import os
import stat

import click

from eventlog.base.identity import TURN_LIMIT, TURN_LIMIT_MAX

from ..access import say


@click.command("init")
@click.argument("directory", required=False, type=click.Path())
@click.option("--name", metavar="NAME", help="The project's name. [default: the directory's]")
@click.option("--hooks", is_flag=True, help="Also install the hooks, as `locus hooks install` does.")
@click.option(
    "--keep-ignored/--leave-ignored",
    "keep_ignored",
    default=None,
    help="Whether to keep files that git ignores and nothing could rebuild. [default: kept in a new store]",
)
@click.option(
    "--turn-limit",
    type=click.IntRange(0, TURN_LIMIT_MAX),
    default=TURN_LIMIT,
    show_default=True,
    metavar="N",
    help="Turns of an agent's session, after which the next one continues it; 0: no limit. Cannot change.",
)
@click.option("--force", is_flag=True, help="Also in the home directory, in /, or on a shared file system.")
@click.pass_context
def command(
    ctx: click.Context,
    directory: str | None,
    name: str | None,
    hooks: bool,
    keep_ignored: bool | None,
    turn_limit: int,
    force: bool,
) -> None:
    """Make a store for this repository.

    The store is the directory .locus at the root of the git repository around the working
    directory; outside git, in the working directory itself; or in DIRECTORY when that is given.
    LOCUS_DIR or --store puts it elsewhere. Where a store exists already, nothing changes, except by
    --keep-ignored or --leave-ignored. A directory that hooks would refuse is refused, with the
    reason; one of yours that others may write to is closed to them.
    """
    from eventlog.base import identity
    from eventlog.base.repository import project_name_of, repo_hash_of
    from eventlog.multi_store import remember
    from eventlog.store import Store

    from .ignored_files import ask_once, decide
    from .person import note_once

    store_option = ctx.find_root().obj
    root, repository = _locations(store_option, directory)
    if directory is not None or not (store_option or os.environ.get("LOCUS_DIR")):
        identity.refuse_foreign(root)  # as each hook would
    mode = _mode_of(root)
    existed = os.path.isfile(f"{root}/STORE")
    hash_and_origin = repo_hash_of(repository)
    with Store.init(
        root,
        project_name=name or project_name_of(repository),
        repo_hash=hash_and_origin[0] if hash_and_origin else None,
        force=force,
        turn_limit=turn_limit or None,
    ) as store:
        remember(root, os.environ)
        result = "already there, nothing changed" if existed else "made"
        if mode is not None and mode != _mode_of(root):
            say(f"{root} could be written by others (mode {mode:o}); it has mode {_mode_of(root):o} now.")
        say(f"{root}: {result} (project {store.project_name}, repository {store.repo_hash})")
        if not existed and store.identity.repo_hash_origin == "random":
            say(
                "There is no whole git history here to name the repository after (no git, no commit, or "
                "a shallow clone), so it got a random name, kept in the store."
            )
        elif not existed:
            say("Next: `locus import git` records the git history, `locus status` shows what is there.")
        if keep_ignored is not None or not existed:
            decide(store.layout, keep_ignored is not False)
        elif not hooks:
            ask_once(store.layout)
    note_once(root, repository)
    if hooks:
        from ..hooks.install import install

        install(ctx, None, "local", dry_run=False, as_json=False)
    elif not existed:
        say("To record what coding agents do here: `locus hooks install`.")


def _mode_of(root: str) -> int | None:
    try:
        return stat.S_IMODE(os.stat(root).st_mode)
    except OSError:
        return None


def _locations(store_option: str | None, directory: str | None) -> tuple[str, str]:
    """(the `.locus` directory to make, the directory whose work it records)."""
    if directory is not None:
        directory = os.path.abspath(directory)
        return os.path.join(directory, ".locus"), directory
    from eventlog.base.repository import git_root

    here = os.getcwd()
    root = git_root(here) or here
    store_option = store_option or os.environ.get("LOCUS_DIR")
    return os.path.abspath(store_option) if store_option else os.path.join(root, ".locus"), root
