"""Frameworks: callbacks with which agents of other libraries record themselves (docs/frameworks.md)."""
