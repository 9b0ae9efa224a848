"""Gemini CLI: its hooks and its chat files."""
