"""A Python without what Linux alone has, and the tests that it runs (docs/testing.md#a-python-without-linux)."""
