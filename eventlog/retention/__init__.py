"""Retention: which sessions' contents may go, and the plan that collects them (docs/maintenance.md §4)."""
