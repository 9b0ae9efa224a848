"""The same answers for several stores at once: a turn is looked for in each, a file's history in all.

A name that fits turns of two stores is ambiguous. One thread at a time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from eventlog.base.errors import Ambiguous, NotFound
from eventlog.replay.answers import StoreAnswers

if TYPE_CHECKING:
    from eventlog.query.functions import Rows, Texts

_One = TypeVar("_One")


class ManyAnswers:
    """The answers of stores, by the names that the column `store` has."""

    def __init__(self, stores: dict[str, StoreAnswers]) -> None:
        self._stores = stores
        self._owner: dict[str, str] = {}

    def contents(self, paths: "Texts", turns: "Texts") -> "list[bytes | None]":
        return self._each(
            turns, lambda one, rows: one.contents([paths[i] for i in rows], [turns[i] for i in rows])
        )

    def places(self, turns: "Texts") -> "list[dict[str, Any] | None]":
        found = self._each(turns, lambda one, rows: one.places([turns[i] for i in rows]))
        return [
            None if place is None or name is None else {**place, "of_store": self._owner[name]}
            for name, place in zip(turns, found, strict=True)
        ]

    def trees(self, turns: "Texts") -> "Rows":
        return self._each(turns, lambda one, rows: one.trees([turns[i] for i in rows]))

    def diffs(self, before: "Texts", after: "Texts") -> "Rows":
        self._find_owners(after)
        return self._each(
            before, lambda one, rows: one.diffs([before[i] for i in rows], [after[i] for i in rows])
        )

    def histories(self, paths: "Texts") -> "Rows":
        of_each = [one.histories(paths) for one in self._stores.values()]
        return [
            None if path is None else [row for rows in of_each for row in rows[i] or ()]
            for i, path in enumerate(paths)
        ]

    def _each(
        self, turns: "Texts", answer: "Callable[[StoreAnswers, list[int]], list[_One | None]]"
    ) -> "list[_One | None]":
        """What each row's store answers, the rows of one store together."""
        self._find_owners(turns)
        rows: dict[str, list[int]] = {}
        for i, name in enumerate(turns):
            if name is not None:
                rows.setdefault(self._owner[name], []).append(i)
        found: list[_One | None] = [None] * len(turns)
        for store, places in rows.items():
            for i, one in zip(places, answer(self._stores[store], places), strict=True):
                found[i] = one
        return found

    def _find_owners(self, turns: "Texts") -> None:
        new = {name for name in turns if name is not None and name not in self._owner}
        for name in new:
            holders = [store for store, one in self._stores.items() if _has(one, name)]
            if len(holders) > 1:
                raise Ambiguous(f"{name!r} fits turns of several stores: {', '.join(holders)}.")
            if not holders:
                raise NotFound(f"no turn of these stores is called {name!r}.")
            self._owner[name] = holders[0]


def _has(one: StoreAnswers, name: str) -> bool:
    try:
        one.find([name])
    except Ambiguous:
        raise
    except NotFound:
        return False
    return True
