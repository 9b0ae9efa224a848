"""Importers: transcripts that agents left on disk, and git histories, turned into events once."""
