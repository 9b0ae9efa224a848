"""A Python without what Linux alone has (docs/testing.md#a-python-without-linux)."""
