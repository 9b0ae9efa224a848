"""Which store a call is about, and whether its answer must name it.

The store around the server's own directory comes last: nobody said it. It is the one that a hook there would
record into, found by the same walls (`identity.find`), and each answer names it (docs/threat-model.md).
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from eventlog.agents.kit.spec import PROJECT_VARIABLE
from eventlog.base import identity
from eventlog.base.display import harmless
from eventlog.base.errors import NoStore, Refused

_PASS = "Pass the argument store, or start the server as `locus --store DIR mcp`"


@dataclass(frozen=True, slots=True)
class ServedStore:
    """What the server was told at its start: `pinned` by --store or LOCUS_DIR, `project` by the client;
    `around` is where it was started."""

    pinned: str | None = None
    project: str | None = None
    around: str | None = None

    @classmethod
    def of(cls, given: str | None, environ: Mapping[str, str]) -> "ServedStore":
        pinned = given or environ.get("LOCUS_DIR")
        project = environ.get(PROJECT_VARIABLE)
        absolute = project if project and os.path.isabs(project) else None
        try:
            around: str | None = os.getcwd()
        except OSError:
            around = None
        return cls(os.path.abspath(pinned) if pinned else None, absolute, around)

    def needs_roots(self, said: str | None) -> bool:
        """Whether the client must be asked for its roots."""
        return self.pinned is None and said is None

    def root(self, said: str | None, roots: Sequence[str] | None) -> tuple[str, bool]:
        """The `.locus` directory of a call, and whether nobody named it.

        Args: said: its argument `store`; roots: the client's, None when it has none to say.
        Raises: NoStore, Refused.
        """
        if said is not None:
            found = _named(said)
            if self.pinned is not None and os.path.realpath(found) != os.path.realpath(self.pinned):
                raise Refused(
                    f"this server was started for {self.pinned} and serves no other store. Leave the "
                    "argument store out."
                )
            return found, False
        if self.pinned is not None:
            return self.pinned, False
        if roots:
            return _of_roots(roots), False
        if self.project is not None:
            return _of_roots([self.project]), False
        if self.around is not None:
            return _of_roots([self.around]), True
        raise NoStore(f"the directory of the server is gone. {_PASS}.")


def directories(uris: Sequence[str]) -> list[str]:
    """The directories that `file://` URIs of roots name. Raises: Refused."""
    found = []
    for uri in uris:
        parts = urlsplit(uri)
        path = unquote(parts.path, errors="surrogateescape")
        if parts.scheme != "file" or parts.netloc not in ("", "localhost") or "\0" in path or not path:
            raise Refused(f"the root {harmless(uri[:200])} is no directory of this machine. {_PASS}.")
        found.append(path)
    return found


def _named(said: str) -> str:
    """The store that an argument names. Raises: NoStore, Refused."""
    path = os.path.expanduser(said)
    if not os.path.isabs(path) or "\0" in path:
        raise Refused(f"store must be an absolute path, not {harmless(said[:200])}.")
    if os.path.exists(f"{path}/STORE"):
        return path
    found = identity.find(path, {}) if os.path.isdir(path) else None
    if found is None:
        raise NoStore(f"no Locus store serves {harmless(path)}. `locus init` in the project makes one.")
    return found


def _of_roots(roots: Sequence[str]) -> str:
    found: dict[str, str] = {}
    for root in roots:
        store = identity.find(root, {})
        if store is not None:
            found.setdefault(os.path.realpath(store), store)
    where = ", ".join(harmless(root) for root in roots[:5])
    if not found:
        raise NoStore(f"no Locus store serves {where}. `locus init` in the project makes one. {_PASS}.")
    if len(found) > 1:
        stores = ", ".join(harmless(store) for store in list(found.values())[:5])
        raise Refused(
            f"the client's roots have several stores: {stores}. Pass one of them as the argument store."
        )
    return next(iter(found.values()))
