"""Every row, in the order in which they are run and printed."""

from __future__ import annotations

from benchmarks import (
    rows_append,
    rows_git,
    rows_hook,
    rows_hook_size,
    rows_keep,
    rows_lake,
    rows_lake_fold,
    rows_large,
    rows_log,
    rows_maintenance,
    rows_memory,
    rows_scale,
    rows_search,
    rows_send,
    rows_serve,
    rows_sql,
    rows_start,
    rows_transcripts,
    rows_tree,
    rows_undo,
    rows_view_browser,
)
from benchmarks.frame import Row


def rows() -> list[Row]:
    modules = (
        rows_append,
        rows_log,
        rows_git,
        rows_tree,
        rows_undo,
        rows_start,
        rows_sql,
        rows_hook,
        rows_hook_size,
        rows_large,
        rows_memory,
        rows_serve,
        rows_scale,
        rows_search,
        rows_send,
        rows_lake,
        rows_lake_fold,
        rows_transcripts,
        rows_keep,
        rows_maintenance,
        rows_view_browser,
    )
    return [row for module in modules for row in module.rows()]
