"""Bringing the projections of a lake up to what was published (docs/lake-tables.md §2)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from eventlog.lake.folding.task import Folded, Task
from eventlog.lake.place import Place

# Runs tasks wherever it likes, in any order, and gives what each made.
Runner = Callable[[Callable[[Task], "list[Folded]"], Sequence[Task]], Iterator["list[Folded]"]]


@dataclass(slots=True)
class FoldedLake:
    """What a fold did.

    `folded` stores of all `stores`, `in_full` of these from nothing; names of the files that tables name
    now and did before, the `rows` of the first by table; and what was `left`, with the reason.
    """

    stores: int = 0
    folded: int = 0
    in_full: int = 0
    added: "list[str]" = field(default_factory=list)
    removed: "list[str]" = field(default_factory=list)
    rows: "dict[str, int]" = field(default_factory=dict)
    left: "list[str]" = field(default_factory=list)


def in_process(run: "Callable[[Task], list[Folded]]", tasks: "Sequence[Task]") -> "Iterator[list[Folded]]":
    """The runner of this process: one task after the other, each on all processors."""
    return map(run, tasks)


def fold(place: Place, catalog_uri: str, *, runner: Runner = in_process, full: bool = False) -> FoldedLake:
    """Fold every store that is not up to date, and commit what came of it.

    Args: full: fold every store from nothing. Raises: NotFound without the tables; Refused where others
    changed them at each try; EventLogError of the storage or the catalog.
    """
    raise NotImplementedError
