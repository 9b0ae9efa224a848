"""Creating objects where it is known that the storage refuses a second creation (docs/lake.md §2).

One thread.
"""

from eventlog.base.errors import Refused
from eventlog.lake.chain import prefix_of
from eventlog.lake.place import Place

_PROBE = b"Locus creates this object to see that the storage refuses to create it again.\n"


class Creator:
    """Creates the objects of one store in a place; before the first of them, `probe`."""

    def __init__(self, place: Place, store_id: bytes) -> None:
        self._place = place
        self._name = f"{prefix_of(store_id)}/probe"
        self._refuses_second = False

    def create(self, name: str, data: bytes) -> bool:
        """As `Place.create`. Raises: Refused where the storage ignores conditions; nothing was published."""
        if not self._refuses_second:
            self._probe()
        return self._place.create(name, data)

    def _probe(self) -> None:
        if self._place.create(self._name, _PROBE) and self._place.create(self._name, _PROBE):
            raise Refused(
                f"{self._place.uri}: the storage creates an object again that exists, so two publishers "
                "could overwrite each other. Nothing was published. Use a storage that honours If-None-Match."
            )
        self._refuses_second = True
