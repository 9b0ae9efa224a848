"""Export to LocusGraph: what goes on the wire, in batches, once (docs/locusgraph.md)."""
