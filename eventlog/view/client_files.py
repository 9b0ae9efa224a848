"""The files of the client, as a browser gets them (docs/view.md)."""

import os
import re
from importlib import resources

SCRIPT = ".js"
_KINDS = (SCRIPT, ".css", ".html", ".svg")
_COMMENT = re.compile(r"^[ ]*(?://|/?\*).*\n|^[ ]+", re.M)


def names() -> list[str]:
    """Of all files, sorted."""
    every = (file.name for file in resources.files(__package__).joinpath("client").iterdir())
    return sorted(name for name in every if os.path.splitext(name)[1] in _KINDS)


def read(name: str) -> str:
    """A file of the client; a module without its comments, which are for readers of the sources."""
    text = resources.files(__package__).joinpath("client", name).read_text(encoding="utf-8")
    return without_comments(text) if name.endswith(SCRIPT) else text


def without_comments(script: str) -> str:
    """A module without the lines that are comments, and without indentation.

    A comment has its lines for itself, and no text goes over the end of a line: tests/view/test_client.py.
    """
    return _COMMENT.sub("", script)
