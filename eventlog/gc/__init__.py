"""Garbage collection of contents: which are live, how packs are merged, and how they leave."""
