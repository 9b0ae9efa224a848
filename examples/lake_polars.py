"""How often turns of a team meet an error, by repository, from the tables of a lake, in polars
(docs/lake-questions.md).

python3 lake_polars.py sqlite:////srv/team/catalog.db
"""

import sys

import polars as pl
from pyiceberg.catalog import load_catalog

catalog = load_catalog("locus", uri=sys.argv[1])
turns = pl.scan_iceberg(catalog.load_table("lake.wide_turns"))

answer = (
    turns.group_by("repo")
    .agg(
        pl.len().alias("turns"),
        pl.col("tool_calls").sum(),
        (pl.col("errors") > 0).sum().alias("with_errors"),
        pl.col("tokens_used").sum(),
    )
    .sort("tokens_used", "repo", descending=[True, False])
    .collect()
)
print(answer.write_csv(), end="")
