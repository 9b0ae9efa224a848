"""The parameters of a question as text, checked: what is missing or unknown is refused by name."""

from collections.abc import Mapping
from typing import NamedTuple

from eventlog.base.errors import InvalidEvent, NotFound
from eventlog.query.lookup import TurnRef
from eventlog.view.stores import ViewedStore

_SIZE_MAX = 8_192
_AT = ("start", "end")


class BadParameter(InvalidEvent):
    """A parameter that is missing, unknown, or not what it should be."""


class Moment(NamedTuple):
    """The start or the end (`at`) of a turn."""

    turn: TurnRef
    at: str


class Parameters:
    """Those of one question. Each method raises BadParameter."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        for name, value in given.items():
            if name not in known:
                raise BadParameter(f"unknown parameter {name[:40]!r}; there are {', '.join(known)}")
            if len(value) > _SIZE_MAX:
                raise BadParameter(f"{name} is longer than {_SIZE_MAX:,} characters")
        self._given = given

    def text(self, name: str) -> str | None:
        """None where it is absent or empty."""
        return self._given.get(name) or None

    def required(self, name: str) -> str:
        value = self.text(name)
        if value is None:
            raise BadParameter(f"{name} is missing")
        return value

    def number(self, name: str, default: int, most: int) -> int:
        """A number from 0 to `most`."""
        value = self.text(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit() and len(value) < 19 and int(value) <= most):
            raise BadParameter(f"{name} is {value[:40]!r}, and no number up to {most:,}")
        return int(value)

    def flag(self, name: str) -> bool:
        value = self.text(name)
        if value not in (None, "0", "1"):
            raise BadParameter(f"{name} is neither 0 nor 1")
        return value == "1"

    def moment(self, name: str, viewed: ViewedStore) -> Moment:
        """`TURN`, `TURN@start` or `TURN@end`. Raises: NotFound, Ambiguous too."""
        return moment(self.required(name), viewed)


def moment(text: str, viewed: ViewedStore) -> Moment:
    """Raises: BadParameter, NotFound, Ambiguous."""
    turn, _, at = text.partition("@")
    if at and at not in _AT:
        raise BadParameter(f"a moment is TURN, TURN@start or TURN@end, and not {text[:80]!r}")
    if not turn:
        raise NotFound("no turn is named")
    return Moment(viewed.turn(turn), at or "end")
