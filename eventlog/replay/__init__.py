"""Replay: the tree of a turn or an event, one file of it, and the diff between two contents.

Replay is a fold of a turn's events over its snapshot, so the log alone is enough (P1). May import
query, projections, snapshots, the log and the ground floor; knows nothing of any agent.
"""
