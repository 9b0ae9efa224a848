"""Exports: what leaves a store for other programs, and what comes back from one.

    files         an output file that is whole and durable under its name, or absent
    withheld      which contents may leave the store at all (P5)
    wire          one record in the shape that LocusGraph stores: names, links, limits
    anchors       the final state of each context, as wire payloads
    locusgraph    the batch export, resumed from the ledger
    jsonl         the log as lines of JSON, lossless
    jsonl_import  such a file back into a store
    parquet       events and projections as plain Parquet files
    conversation  one session, as the next three need it
    atif          sessions as trajectories
    otlp          sessions as spans
    agent_trace   turns as attributions of lines

Exports may import the recorder, the store and every room below them; nothing below imports an export. Files
that the user names are written with plain system calls, as a replay writes its target.
"""
