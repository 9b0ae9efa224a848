"""Every row, in the order in which they are run and printed."""

from __future__ import annotations

from benchmarks import rows_append, rows_git, rows_log, rows_scale, rows_start
from benchmarks.frame import Row


def rows() -> list[Row]:
    return [*rows_append.rows(), *rows_log.rows(), *rows_git.rows(), *rows_start.rows(), *rows_scale.rows()]
