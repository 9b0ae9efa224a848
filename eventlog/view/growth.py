"""How a spine grew since an earlier answer: what differs, for a client that has the rest (docs/view.md).

Two answers are compared, and the turns at the beginning that are the same in both are left out. So nothing
has to be known of which events change what, and an event that changes the past costs the turns from there on.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, takewhile, zip_longest
from typing import Any

ANSWERS_MAX = 4  # answers that clients may have: one for each page that follows a session or the repository

Answer = dict[str, Any]


class GivenSpines:
    """The newest answers `spine` that were given. One thread."""

    def __init__(self) -> None:
        # By session and position; None where two answers differ that have these in common.
        self._answers: dict[tuple[str | None, int], Answer | None] = {}

    def answer(self, now: Answer, after: int | None) -> Answer:
        """`now`; or, where the answer up to the position `after` is known, how it grew since."""
        before = None if after is None else self._answers.get((now["session"], after))
        if before is None:
            self._note(now)
            return now
        part = grown(before, now)
        size = part["from"]
        once = {name: before[name][: size[name]] + part[name] for name in ("turns", "stops", "hashes")}
        self._note(now | once)  # so that what stays is in memory once
        return part

    def _note(self, now: Answer) -> None:
        key = now["session"], now["until"]
        known = self._answers.pop(key, now)
        self._answers[key] = now if known == now else None
        if len(self._answers) > ANSWERS_MAX:
            del self._answers[next(iter(self._answers))]


def grown(before: Answer, now: Answer) -> Answer:
    """`now` without what `before` has, too; its members: docs/view.md."""
    turns = _same_turns(before, now)
    stops = next((n for n, stop in enumerate(now["stops"]) if stop["turn"] >= turns), len(now["stops"]))
    staying = list(chain.from_iterable(now["changes"][:stops]))
    used = {row[0] for row in staying} | {row[5] for row in staying if row[5] is not None}
    hashes = max((row[1] for row in staying if row[1] is not None), default=-1) + 1
    return {
        **now,
        "from": {"turns": turns, "stops": stops, "hashes": hashes, "paths": len(now["paths"])},
        "paths": [[number, path] for number, path in enumerate(now["paths"]) if number not in used],
        "hashes": now["hashes"][hashes:],
        "turns": now["turns"][turns:],
        "stops": now["stops"][stops:],
        "changes": now["changes"][stops:],
    }


def _same_turns(before: Answer, now: Answer) -> int:
    """How many turns at the beginning are the same, with their stops and what these changed."""
    turns = zip(before["turns"], now["turns"], strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], turns))
    numbers = {path: number for number, path in enumerate(now["paths"])}
    pairs = zip_longest(_stops(before, [numbers.get(path) for path in before["paths"]]), _stops(now, None))
    for earlier, later in pairs:
        if earlier != later:
            return min([same, *(int(stop["turn"]) for stop, _ in filter(None, (earlier, later)))])
    return same


def _stops(answer: Answer, numbers: Sequence[int | None] | None) -> Iterator[tuple[Answer, list[Any]]]:
    """Each stop with its changes: paths by other numbers where these are given, contents by their hashes."""
    hashes = answer["hashes"]
    for stop, changes in zip(answer["stops"], answer["changes"], strict=True):
        rows = []
        for path, hash, *middle, old in changes:
            if numbers is not None:
                path, old = numbers[path], None if old is None else numbers[old]
            rows.append((path, None if hash is None else hashes[hash], *middle, old))
        yield stop, rows
