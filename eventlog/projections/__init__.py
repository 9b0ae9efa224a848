"""Projections: turns, sessions, the sessions master and model calls, folded from the log.

It owns everything under `index/` of a store. It imports the log room and the ground floor, and DuckDB,
which it shares with the query room above it. `definitions` is text that anything may import.
"""
