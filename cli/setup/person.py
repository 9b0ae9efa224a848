"""`locus person`: who is recorded as working here, and on which host."""

import os
from typing import TYPE_CHECKING

import click

from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..text import one_line

if TYPE_CHECKING:
    from eventlog.base.person import Person
    from eventlog.store import Store


@click.command("person")
@click.option("--name", metavar="NAME", help="Record this name from now on.")
@click.option("--email", metavar="ADDRESS", help="Record this address from now on.")
@click.option("--host", metavar="NAME", help="Record this name for the machine.")
@click.option("--off", is_flag=True, help="Record neither person nor host.")
@click.option("--on", is_flag=True, help="Record them, again as git's configuration has them.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    name: str | None,
    email: str | None,
    host: str | None,
    off: bool,
    on: bool,
    as_json: bool,
) -> None:
    """Show or set who is recorded as working here, and on which host.

    Each new session records it once. `locus init` and `locus hooks install` note the name in git's
    configuration; hooks only read that note, which lies with your own files and not in the store. What is
    recorded stays on this machine: no export and no answer to an agent has it unless config.toml allows it
    (docs/people.md). An empty NAME or ADDRESS is not recorded.
    """
    from eventlog.base import person

    has_changes = name is not None or email is not None or host is not None
    if off + on + has_changes > 1:
        raise click.UsageError("--off, --on and what is to be recorded exclude each other", ctx)
    with open_store(ctx) as store:
        noted = person.read(store.fs, os.environ, store.identity.store_id)
        if on:
            noted = _noted(store, _of_git(_directory(store)))
        elif off:
            noted = _noted(store, person.Person(off=True))
        elif has_changes:
            noted = _noted(store, _changed(ctx, noted, name, email, host))
        if as_json:
            put(document({"person": None if noted is None else _described(noted)}))
        else:
            put(_sentence(noted) + "\n")


def note_once(root: str, directory: str) -> None:
    """Note the name in git's configuration for `directory`, if nothing is noted for this user; report it.

    On a machine that the note does not name yet, its name is added.
    """
    from eventlog.base import identity, person
    from eventlog.base.fs import REAL
    from eventlog.base.layout import Layout

    store_id = identity.read(REAL, Layout(root)).store_id
    noted = person.read(REAL, os.environ, store_id)
    if noted is not None and (noted.off or noted.host is not None):
        return
    if noted is None:
        noted = _of_git(directory)
    noted.hosts[person.machine()] = person.machine()
    try:
        if person.write(REAL, os.environ, store_id, noted) is None:
            return
    except OSError as error:
        say(f"Who works here could not be noted, so sessions do not say it: {error}")
        return
    say(
        f"{_sentence(noted)} It stays on this machine (docs/people.md); `locus person --off` records neither."
    )


def _noted(store: "Store", who: "Person") -> "Person":
    from eventlog.base import person
    from eventlog.base.fs import translate_os_errors

    path = person.path_of(os.environ, store.identity.store_id)
    with translate_os_errors(path or "the home directory", "note who works here"):
        person.write(store.fs, os.environ, store.identity.store_id, who)
    return who


def _of_git(directory: str) -> "Person":
    """The name in git's configuration for `directory`, on this machine."""
    from eventlog.base import person
    from eventlog.base.repository import person_of

    name, email = (person.text(value) for value in person_of(directory))
    return person.Person(name, email, {person.machine(): person.machine()})


def _directory(store: "Store") -> str:
    return os.path.dirname(store.layout.root)


def _changed(
    ctx: click.Context, noted: "Person | None", name: str | None, email: str | None, host: str | None
) -> "Person":
    from eventlog.base import person

    present = person.Person() if noted is None or noted.off else noted
    for value, what in ((name, "--name"), (email, "--email"), (host, "--host")):
        if value and person.text(value) is None:
            raise click.UsageError(f"{what} is one line of printable text, at most 320 characters", ctx)
    return person.Person(
        present.name if name is None else person.text(name),
        present.email if email is None else person.text(email),
        present.hosts if host is None else {**present.hosts, person.machine(): person.text(host) or ""},
    )


def _described(noted: "Person") -> "dict[str, object]":
    host = None if noted.off else noted.host
    return {"recorded": not noted.off, "name": noted.name, "email": noted.email, "host": host}


def _sentence(noted: "Person | None") -> str:
    if noted is None:
        return "Nothing is noted for you in this store, so sessions do not say who works in them."
    if noted.off:
        return "Sessions do not say who works in them; `locus person --on` changes that."
    who = f"{noted.name or ''} <{noted.email}>".strip() if noted.email else noted.name or "an unknown person"
    return f"Sessions say who works in them: {one_line(who)}, on {noted.host or 'an unknown host'}."
