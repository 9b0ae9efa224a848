"""Cursor. Transcripts only."""
