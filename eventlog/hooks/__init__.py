"""Live recording: from one hook call of an agent to the events that it makes (docs/hooks.md)."""
