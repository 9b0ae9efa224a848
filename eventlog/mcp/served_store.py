"""The store of a call, and whether its answer must name it.

The store around the server's own directory comes last, since no one named it. It is the store of a hook
there, found by the same rules (`identity.find`), and each answer names it (docs/threat-model.md).
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
    """The directories from the server's start: `pinned` by --store or LOCUS_DIR, `project` by the client,
    `around` its working directory."""

    pinned: str | None = None
    project: str | None = None
    around: str | None = None

    @classmethod
    def of(cls, store_option: str | None, environ: Mapping[str, str]) -> "ServedStore":
        pinned = store_option or environ.get("LOCUS_DIR")
        project = environ.get(PROJECT_VARIABLE)
        absolute = project if project and os.path.isabs(project) else None
        try:
            around: str | None = os.getcwd()
        except OSError:
            around = None
        return cls(os.path.abspath(pinned) if pinned else None, absolute, around)

    def needs_roots(self, named: str | None) -> bool:
        """Whether the client must be asked for its roots."""
        return self.pinned is None and named is None

    def root(self, named: str | None, roots: Sequence[str] | None) -> tuple[str, bool]:
        """The `.locus` directory of a call, and whether no one named it.

        Args: named: its argument `store`; roots: the client's, None when it has none.
        Raises: NoStore, Refused.
        """
        if named is not None:
            root = _named(named)
            if self.pinned is not None and os.path.realpath(root) != os.path.realpath(self.pinned):
                raise Refused(
                    f"this server was started for {self.pinned} and serves no other store. Leave the "
                    "argument store out."
                )
            return root, False
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
    paths = []
    for uri in uris:
        parts = urlsplit(uri)
        path = unquote(parts.path, errors="surrogateescape")
        if parts.scheme != "file" or parts.netloc not in ("", "localhost") or "\0" in path or not path:
            raise Refused(f"the root {harmless(uri[:200])} is no directory of this machine. {_PASS}.")
        paths.append(path)
    return paths


def _named(text: str) -> str:
    """The store that an argument names. Raises: NoStore, Refused."""
    path = os.path.expanduser(text)
    if not os.path.isabs(path) or "\0" in path:
        raise Refused(f"store must be an absolute path, not {harmless(text[:200])}.")
    if os.path.exists(f"{path}/STORE"):
        return path
    root = identity.find(path, {}) if os.path.isdir(path) else None
    if root is None:
        raise NoStore(f"no Locus store serves {harmless(path)}. `locus init` in the project makes one.")
    return root


def _of_roots(roots: Sequence[str]) -> str:
    stores_by_path: dict[str, str] = {}
    for root in roots:
        store = identity.find(root, {})
        if store is not None:
            stores_by_path.setdefault(os.path.realpath(store), store)
    where = ", ".join(harmless(root) for root in roots[:5])
    if not stores_by_path:
        raise NoStore(f"no Locus store serves {where}. `locus init` in the project makes one. {_PASS}.")
    if len(stores_by_path) > 1:
        stores = ", ".join(harmless(store) for store in list(stores_by_path.values())[:5])
        raise Refused(
            f"the client's roots have several stores: {stores}. Pass one of them as the argument store."
        )
    return next(iter(stores_by_path.values()))
