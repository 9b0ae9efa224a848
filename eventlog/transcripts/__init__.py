"""What agents left on disk of their sessions, turned into events (docs/transcripts.md).

Imports agents, recorder, store and below. `importer.run` is the one entry.
"""
