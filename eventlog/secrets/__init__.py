"""Secrets: what one looks like, and how none reaches the log, a content or an export (docs/secrets.md)."""
