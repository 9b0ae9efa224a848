"""Capture of a working directory: which names it holds, which of them belong to a tree, and what changed."""
