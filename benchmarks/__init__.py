"""Benchmarks of Locus: every figure is paired with its anchor in the same run (docs/benchmarks.md).

Not part of the installed distribution. Run with `scripts/bench` or `python -m benchmarks`.
"""
