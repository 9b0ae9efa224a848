"""SQL: one SELECT over segments, tail and index, in safe mode.

It owns no file. It imports projections, the log room, the ground floor, and DuckDB; pyarrow only when
the caller wants an Arrow table.
"""
