"""The programs of `examples/`, run as a reader would."""
