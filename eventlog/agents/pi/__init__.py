"""pi. Transcripts only."""
