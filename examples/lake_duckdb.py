"""What models cost a team in tokens, from the tables of a lake, in DuckDB (docs/lake-questions.md).

python3 lake_duckdb.py sqlite:////srv/team/catalog.db
"""

import sys

import duckdb
from pyiceberg.catalog import load_catalog

catalog = load_catalog("locus", uri=sys.argv[1])
calls = (
    catalog.load_table("lake.wide_calls")
    .scan(selected_fields=("agent", "model", "session_id", "prompt_tokens", "completion_tokens"))
    .to_arrow()
)  # only these columns are read

answer = duckdb.sql("""
    select agent, model, count(*) as calls, count(distinct session_id) as sessions,
        sum(prompt_tokens)::bigint as read, sum(completion_tokens)::bigint as written
    from calls group by all order by read desc nulls last, agent, model
""")
print(*answer.columns, sep=",")
for row in answer.fetchall():
    print(*row, sep=",")
