"""Codex: its hooks, its rollouts, its tools and patches."""
