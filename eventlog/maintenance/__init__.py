"""Maintenance: what keeps a store small and fast beside its users, and copies of it."""
