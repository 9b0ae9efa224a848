"""Who works in a store, and on which host: what hooks may record of it without asking git.

    $XDG_DATA_HOME/locus/people/<store id>.json     (`~/.local/share/locus/people/…`)
    {"name": "…", "email": "…", "hosts": {"<name of the machine>": "<what is recorded>"}}   or   {"off": true}

`locus init`, `locus hooks install` and `locus person` write it; docs/people.md gives the reason why it is in
the user's home and not in the store. A machine that `hosts` does not name is unknown (P7), as in a home
directory that several machines share. A file that cannot be read counts as empty. On the hook path.
"""

import os

from eventlog.base import jsontext
from eventlog.base.fs import FileSystem, read_file, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_SIZE_MAX = 65_536
_TEXT_SIZE_MAX = 320  # of an address by RFC 5321, and then some


class Person:
    """Name and address as git has them, and what is recorded of each machine, by its name.

    With `off` nothing is recorded.
    """

    __slots__ = ("email", "hosts", "name", "off")

    def __init__(
        self,
        name: "str | None" = None,
        email: "str | None" = None,
        hosts: "dict[str, str] | None" = None,
        *,
        off: bool = False,
    ) -> None:
        self.name = name
        self.email = email
        self.hosts = hosts or {}
        self.off = off

    @property
    def host(self) -> "str | None":
        """What is recorded of this machine; None where nobody noted it."""
        return self.hosts.get(machine())

    def start_fields(self, *, host: bool = True) -> "dict[str, object]":
        """The keys `person` and `host` of the payload of a session's start, as far as they are known."""
        if self.off:
            return {}
        who = {key: value for key, value in (("name", self.name), ("email", self.email)) if value}
        fields: "dict[str, object]" = {"person": who} if who else {}
        if host and self.host:
            fields["host"] = self.host
        return fields


def machine() -> str:
    """The name of this machine, without its domain."""
    return os.uname().nodename.partition(".")[0]


def path_of(environ: "Mapping[str, str]", store_id: bytes) -> "str | None":
    """The path of the file about this user in that store; None without a home."""
    home = environ.get("HOME")
    data = environ.get("XDG_DATA_HOME") or (f"{home}/.local/share" if home else None)
    return f"{data}/locus/people/{store_id.hex()}.json" if data else None


def read(fs: FileSystem, environ: "Mapping[str, str]", store_id: bytes) -> "Person | None":
    """The person in the file; None when there is no file, or it cannot be read."""
    path = path_of(environ, store_id)
    try:
        if path is None or not fs.exists(path):
            return None
        fields = jsontext.decode(read_file(fs, path, _SIZE_MAX))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    hosts = fields.get("hosts")
    named = {} if not isinstance(hosts, dict) else {str(key): text(value) for key, value in hosts.items()}
    return Person(
        text(fields.get("name")),
        text(fields.get("email")),
        {key: value for key, value in named.items() if value},
        off=fields.get("off") is True,
    )


def start_fields(fs: FileSystem, environ: "Mapping[str, str]", store_id: bytes) -> "dict[str, object]":
    """`Person.start_fields` of the person who works here; empty where that is unknown."""
    person = read(fs, environ, store_id)
    return {} if person is None else person.start_fields()


def write(fs: FileSystem, environ: "Mapping[str, str]", store_id: bytes, person: Person) -> "str | None":
    """Write the file; its path, None without a home. Raises: OSError."""
    path = path_of(environ, store_id)
    if path is None:
        return None
    fields: "dict[str, object]" = {"off": True} if person.off else {}
    fields |= {"name": person.name, "email": person.email, "hosts": person.hosts}
    data = jsontext.encode({key: value for key, value in fields.items() if value}) + b"\n"
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    replace(fs, f"{path}-{fs.random_bytes(8).hex()}", path, data)
    return path


def text(value: object) -> "str | None":
    """A text that names a person: one line of printable characters; None when it is none."""
    if not isinstance(value, str):
        return None
    words = " ".join(value.split())
    return words if words and words.isprintable() and len(words) <= _TEXT_SIZE_MAX else None
