"""Serving: what other programs ask of a store through a protocol. May import every room of the engine."""
