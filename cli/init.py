"""`locus init`: make a store."""

import os

import click

from .access import say


@click.command("init")
@click.argument("directory", required=False, type=click.Path())
@click.option("--name", metavar="NAME", help="The project's name. [default: the directory's]")
@click.option("--force", is_flag=True, help="Also in the home directory, in /, or on a shared file system.")
@click.pass_context
def command(ctx: click.Context, directory: str | None, name: str | None, force: bool) -> None:
    """Make a store for this repository.

    The store is the directory .locus at the root of the git repository around the working
    directory; outside git, in the working directory itself; or in DIRECTORY when that is given.
    Where a store is already, nothing changes.
    """
    from eventlog.store import Store

    root = _store_root(ctx.find_root().obj, directory)
    existed = os.path.isfile(f"{root}/STORE")
    with Store.init(root, project_name=name, force=force) as store:
        said = "already there, nothing changed" if existed else "made"
        say(f"{root}: {said} (project {store.project_name}, repository {store.repo_hash})")
        if not existed and store.identity.repo_hash_origin == "random":
            say(
                "There is no whole git history here to name the repository after (no git, no commit, or "
                "a shallow clone), so it got a random name, kept in the store."
            )
            return
    if not existed:
        say("Next: `locus import git` records the git history, `locus status` shows what is there.")


def _store_root(given: str | None, directory: str | None) -> str:
    """The `.locus` directory to make."""
    if directory is not None:
        return os.path.join(os.path.abspath(directory), ".locus")
    given = given or os.environ.get("LOCUS_DIR")
    if given:
        return os.path.abspath(given)
    from eventlog.repository import git_root

    here = os.getcwd()
    return os.path.join(git_root(here) or here, ".locus")
