"""Erasing the past: texts, contents and names, everywhere the store has them (docs/maintenance.md §7)."""
