"""Export to LocusGraph: wire records, in batches, once (docs/locusgraph.md)."""
