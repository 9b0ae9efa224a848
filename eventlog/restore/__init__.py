"""Restore: a plan, and carrying it out so that a kill leaves the way back and forth (docs/design.md §18)."""
