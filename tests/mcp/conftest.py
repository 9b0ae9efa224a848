"""Fixtures: `locus` in this process, in an environment of its own."""

from tests.cli.conftest import _own_environment, locus

__all__ = ["_own_environment", "locus"]
