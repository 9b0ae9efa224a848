"""Reading: a turn as a page of blocks, which a terminal or a viewer renders (docs/reading.md)."""
