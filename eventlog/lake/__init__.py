"""Stores of many machines in one place: publishing, tables, replay from there (docs/lake.md).

Nothing that runs on one machine imports this room; it needs the extra `lake`.
"""
