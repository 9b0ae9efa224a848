"""Which files were imported to their end, by inode, size and time: `live/imports.json`, derived (I22).

It saves an import from opening files that did not change; deleting it costs no more than that.
"""

import os

from eventlog.base import jsontext
from eventlog.base.fs import FileSystem, read_file, replace
from eventlog.base.layout import Layout

SourceStamps = dict[str, list[list[int]]]

_NAME = "imports.json"
_SIZE_MAX = 64 << 20
_VERSION_KEY, _VERSION = "", [[2]]


def read(fs: FileSystem, layout: Layout) -> SourceStamps:
    """Path of a source → its stamp; empty when nothing readable is there."""
    try:
        stamps = jsontext.decode(read_file(fs, layout.live(_NAME), _SIZE_MAX))
    except (OSError, ValueError):
        return {}
    if not isinstance(stamps, dict) or stamps.pop(_VERSION_KEY, None) != _VERSION:
        return {}  # an earlier version passed over lines that this one imports
    return stamps


def write(fs: FileSystem, layout: Layout, stamps: SourceStamps) -> None:
    """Save the stamps; if that fails, the next import is only slower."""
    tmp = layout.tmp(f"imports-{os.urandom(8).hex()}")
    try:
        if not fs.exists(layout.live("")):
            fs.mkdir(layout.live("").rstrip("/"))
        replace(
            fs, tmp, layout.live(_NAME), jsontext.encode({_VERSION_KEY: _VERSION, **stamps}), synced=False
        )
    except OSError:
        pass
