"""Repair: what is damaged, what still verifies, and setting aside the rest (docs/damage.md)."""
