"""What is not as it should be in a lake, and what to do about each."""

from dataclasses import dataclass

PUBLISH = "run `locus publish` where the store is"
COMMIT = "run `locus lake commit` with the catalog"
MAINTAIN = "run `locus lake maintain` with the catalog, by somebody who may delete"
AGAIN = "run `locus publish --again` where the store is: with what it has it makes the object again"
RESTORE = "restore the object from a copy, or delete it and run `locus publish --again` where the store is"
READ = "run it again, by somebody who may read the tables"
FOLD = "run `locus lake fold --full` with the catalog"
FOLD_AGAIN = "delete it where it is still there, and run `locus lake fold --full` with the catalog"


@dataclass(frozen=True, slots=True)
class LakeFinding:
    """What is not as it should be, of which object or store, and what to do about it."""

    what: str
    where: str
    todo: str
