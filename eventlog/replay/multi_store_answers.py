"""The same answers for several stores at once: each store is searched for a turn, all for a file's history.

A name that matches turns of two stores is ambiguous. One thread at a time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from eventlog.base.errors import Ambiguous, NotFound
from eventlog.replay.answers import StoreAnswers

if TYPE_CHECKING:
    from eventlog.query.functions import Rows, Texts

_Answer = TypeVar("_Answer")


class MultiStoreAnswers:
    """The answers of stores, by their names in the column `store`."""

    def __init__(self, stores: dict[str, StoreAnswers]) -> None:
        self._stores = stores
        self._owner: dict[str, str] = {}

    def contents(self, paths: "Texts", turns: "Texts") -> "list[bytes | None]":
        return self._each(StoreAnswers.contents, turns, paths, turns)

    def turn_ranges(self, turns: "Texts") -> "list[dict[str, Any] | None]":
        ranges = self._each(StoreAnswers.turn_ranges, turns, turns)
        return [
            None if turn_range is None or name is None else {**turn_range, "of_store": self._owner[name]}
            for name, turn_range in zip(turns, ranges, strict=True)
        ]

    def trees(self, turns: "Texts") -> "Rows":
        return self._each(StoreAnswers.trees, turns, turns)

    def diffs(self, before: "Texts", after: "Texts") -> "Rows":
        self._find_owners(after)
        return self._each(StoreAnswers.diffs, before, before, after)

    def histories(self, paths: "Texts") -> "Rows":
        of_each = [answers.histories(paths) for answers in self._stores.values()]
        return [
            None if path is None else [row for rows in of_each for row in rows[i] or ()]
            for i, path in enumerate(paths)
        ]

    def _each(
        self, answer: "Callable[..., list[_Answer | None]]", turns: "Texts", *columns: "Texts"
    ) -> "list[_Answer | None]":
        """The answer of the store of each row's turn, with the rows of one store asked together."""
        self._find_owners(turns)
        rows: dict[str, list[int]] = {}
        for i, name in enumerate(turns):
            if name is not None:
                rows.setdefault(self._owner[name], []).append(i)
        results: list[_Answer | None] = [None] * len(turns)
        for store, indices in rows.items():
            of_store = ([column[i] for i in indices] for column in columns)
            for i, result in zip(indices, answer(self._stores[store], *of_store), strict=True):
                results[i] = result
        return results

    def _find_owners(self, turns: "Texts") -> None:
        new = {name for name in turns if name is not None and name not in self._owner}
        for name in new:
            holders = [store for store, answers in self._stores.items() if _has(answers, name)]
            if len(holders) > 1:
                raise Ambiguous(f"{name!r} fits turns of several stores: {', '.join(holders)}.")
            if not holders:
                raise NotFound(f"no turn of these stores is called {name!r}.")
            self._owner[name] = holders[0]


def _has(answers: StoreAnswers, name: str) -> bool:
    try:
        answers.find([name])
    except Ambiguous:
        raise
    except NotFound:
        return False
    return True
