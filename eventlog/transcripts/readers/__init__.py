"""One reader for each format of transcripts (docs/adapters.md); `transcripts/formats.py` knows them all."""
