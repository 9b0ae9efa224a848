"""The numbers of tool calls that no id tells apart: their agent gives none, or the same again.

They are counted again from the notes of the session (`state.Calls`). Pure. On the hook path, but loaded only
for such an agent.
"""

from eventlog.hooks.state import TURN_BOUNDARY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class UnnamedCalls:
    """Tool calls without ids, known by their request (`key`) and time: the number of each in its turn.

    An end belongs to the last beginning of the same key that has none. Equal calls are interchangeable,
    except one that was refused before and has no end.
    """

    def __init__(self, calls: "Iterable[tuple[str, str, bool]]") -> None:
        """Args: calls: key, time, and whether it began, in the order of the notes."""
        self._asked: "dict[str, int]" = {}  # how many of each key
        self._numbers: "dict[tuple[str, str, bool], int]" = {}  # by key, time, asked
        self._open: "dict[str, list[int]]" = {}
        for key, stamp, asked in calls:
            self._take(key, stamp, asked)

    def _take(self, key: str, stamp: str, asked: bool) -> None:
        if (key, stamp, asked) in self._numbers:
            return  # reported by two hooks
        waiting = self._open.setdefault(key, [])
        if asked or not waiting:
            number = self._asked[key] = self._asked.get(key, -1) + 1
        else:
            number = waiting.pop()
        if asked:
            waiting.append(number)
        self._numbers[key, stamp, asked] = number

    def number(self, key: str, stamp: str, *, asked: bool) -> int:
        """The number of a call that was taken; 0 when the notes lost it."""
        return self._numbers.get((key, stamp, asked), 0)


class Repeats:
    """Tool calls whose ids the agent repeats, known by session, id and arguments (`key`): the number of each.

    One that begins while an equal one is under way is that one, reported by two hooks.
    """

    def __init__(self, notes: "Iterable[tuple[str, str]]") -> None:
        """Args: notes: `begins` and `ends` of calls, each with its key, and `TURN_BOUNDARY`."""
        self._last: "dict[str, int]" = {}
        self._open: "set[str]" = set()
        for word, key in notes:
            if (word, key) == TURN_BOUNDARY:
                self._open.clear()  # calls that were refused before have no end of their own
            elif word == "ends":
                self._open.discard(key)
                self._last.setdefault(key, 0)
            elif key not in self._open:
                self._open.add(key)
                self._last[key] = self._last.get(key, -1) + 1

    def number(self, key: str) -> int:
        """The number of the last one; 0 when the notes lost it."""
        return self._last.get(key, 0)
