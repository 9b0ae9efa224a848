"""Check: one walk over all parts of a store, whose findings carry their repair (docs/damage.md §4)."""
