"""Undo: taking back what a turn, a call or a session changed, and keeping what came later (docs/undo.md)."""
