"""A lake: stores of many machines in one place (docs/lake.md). Only its two commands import it.

Nothing that runs on one machine imports this room; it needs the extra `lake`.
"""
