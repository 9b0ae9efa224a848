"""A lake: stores of many machines in one place (docs/lake.md). Only commands about lakes import it.

Nothing that runs on one machine imports this room; it needs the extra `lake`.
"""
