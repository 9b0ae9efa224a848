"""`locus export …`: what is recorded, as files for other programs."""

import click

from ..lazy import Entry, LazyGroup, Sections

SECTIONS: Sections = (
    (
        "To",
        (
            Entry("locusgraph", "export.locusgraph", "Write or send what is new as records for LocusGraph."),
            Entry("jsonl", "export.jsonl", "Write the log as lines of JSON, losslessly."),
            Entry("parquet", "export.tables:parquet", "Write events and projections as Parquet files."),
            Entry("duckdb", "export.tables:duckdb", "Write the log as one DuckDB file."),
            Entry(
                "atif",
                "export.conversations:atif",
                "Write sessions as trajectories in the Agent Trajectory Interchange Format.",
            ),
            Entry("otlp", "export.conversations:otlp", "Write sessions as spans in OTLP/JSON."),
            Entry(
                "agent-trace",
                "export.conversations:agent_trace",
                "Write which lines of which files a turn wrote.",
            ),
        ),
    ),
)


@click.command("export", cls=LazyGroup, sections=SECTIONS, subcommand_metavar="TO …")
def command() -> None:
    """Write what is recorded to files for other programs."""
