"""Bytes that every later version must read: a whole store of format 1, and events of each schema version."""
