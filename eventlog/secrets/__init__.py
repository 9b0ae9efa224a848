"""Secrets: how they are recognized, and kept out of the log, contents and exports (docs/secrets.md)."""
