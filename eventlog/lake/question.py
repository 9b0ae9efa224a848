"""One untrusted SELECT about a lake, in a process of its own, as `eventlog.question` has it for a store.

The child opens what was read of the place, in the directory of the `LakeLog`. It asks the place nothing.
"""

import os
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from eventlog import question
from eventlog.lake.one_machine import LakeLog

if TYPE_CHECKING:
    from eventlog.query.engine import Limits, Result


def ask(log: LakeLog, sql: str, *, limits: "Limits | None" = None) -> "Result":
    """The answer of `log.query`. Raises: as `eventlog.question.ask`."""
    return question.ask_program(__name__, log.described(), sql, limits=limits)


def _opening(about: Mapping[str, Any]) -> "nullcontext[LakeLog]":
    return nullcontext(LakeLog.of(about))


if __name__ == "__main__":
    code = question.main(_opening)
    # DuckDB's threads may still be busy with an interrupted statement.
    os._exit(code)
