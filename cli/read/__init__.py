"""Verbs that show what is recorded."""
