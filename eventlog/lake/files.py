"""The objects of a place as pyiceberg reads and writes files: metadata of tables go the way of all else.

A table needs the settings of the place and no others, an object is one request, and nothing is written
over. Any thread.
"""

import io
from types import TracebackType
from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile

from eventlog.base.errors import NotFound, Refused
from eventlog.lake.place import Place, open_place

# The property of a catalog that names the place.
PLACE = "locus.place"


class PlaceIO(FileIO):  # type: ignore[misc]
    """Files at the addresses below a place."""

    def __init__(self, properties: "dict[str, str]") -> None:
        """Called by pyiceberg with the properties of the catalog."""
        super().__init__(properties)
        self._place = open_place(properties[PLACE])

    def new_input(self, location: str) -> "ObjectInput":
        return ObjectInput(self._place, location)

    def new_output(self, location: str) -> "ObjectOutput":
        return ObjectOutput(self._place, location)

    def delete(self, location: "str | InputFile | OutputFile") -> None:
        address = location if isinstance(location, str) else location.location
        self._place.delete(name_at(self._place, address))


class ObjectInput(InputFile):  # type: ignore[misc]
    """An object to read whole: metadata of tables are small."""

    def __init__(self, place: Place, location: str) -> None:
        super().__init__(location)
        self._place = place
        self._name = name_at(place, location)

    def __len__(self) -> int:
        return len(self._place.read(self._name))

    def exists(self) -> bool:
        try:
            self._place.read_end(self._name, 1)
        except NotFound:
            return False
        return True

    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002 -- pyiceberg's signature
        if self._name.endswith(".parquet"):
            return self._place.open(self._name)
        try:
            return io.BytesIO(self._place.read(self._name))
        except NotFound as error:
            raise FileNotFoundError(str(error)) from error


class ObjectOutput(OutputFile):  # type: ignore[misc]
    """An object to create."""

    def __init__(self, place: Place, location: str) -> None:
        super().__init__(location)
        self._place = place
        self._name = name_at(place, location)

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> ObjectInput:
        return ObjectInput(self._place, self.location)

    def create(self, overwrite: bool = False) -> "_Upload":  # noqa: ARG002 -- pyiceberg's signature
        return _Upload(self._place, self._name)


class _Upload(io.BytesIO):
    """What is written becomes an object when it is closed, and nothing where an error came before."""

    def __init__(self, place: Place, name: str) -> None:
        super().__init__()
        self._place = place
        self._name = name

    def __exit__(
        self, kind: "type[BaseException] | None", error: "BaseException | None", trace: "TracebackType | None"
    ) -> None:
        if kind is not None:
            super().close()
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        data = self.getvalue()
        super().close()
        # Names hold a random part, so one that is there has these bytes: an answer was lost.
        if not self._place.create(self._name, data) and self._place.read(self._name) != data:
            raise Refused(f"{self._place.address(self._name)} is there already, with other bytes")


def name_at(place: Place, location: str) -> str:
    """The name of an object by its address. Raises: Refused for one outside of the place."""
    if not location.startswith(f"{place.uri}/"):
        raise Refused(
            f"the catalog's table names {location}, which is not in {place.uri}. Name the place that the "
            "tables were made for, or another catalog."
        )
    return location.removeprefix(f"{place.uri}/")
