"""Agents of other libraries, with models that are scripted, recording themselves (docs/frameworks.md)."""
