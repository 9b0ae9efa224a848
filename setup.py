"""Finds the packages. The rest is in pyproject.toml, which cannot map `cli/` to the package `locus_cli`."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["eventlog", "eventlog.*"]),
        "locus_cli",
        *(f"locus_cli.{name}" for name in find_packages("cli")),
    ],
    package_dir={"locus_cli": "cli"},
)
