"""Projections of the stores of a lake, made by the fold of every store (docs/lake-tables.md)."""
