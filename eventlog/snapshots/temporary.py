"""The names that files have before they get their own, while a replay or a restore puts them in their place.

Captures pass over them by `is_temporary`. Pure; a module of its own, because it is on the hook path and what
makes such files is not.
"""

import os

TEMPORARY = b".locus-new-"  # 16 hex digits follow, and perhaps `-` and a number
_MARK_SIZE = 16


def sibling() -> bytes:
    """A new name."""
    return TEMPORARY + os.urandom(_MARK_SIZE // 2).hex().encode("ascii")


def is_temporary(name: bytes) -> bool:
    """Whether a replay or a restore may have made this name, for a file that is on its way to another."""
    if not name.startswith(TEMPORARY):
        return False
    mark, dash, number = name[len(TEMPORARY) :].partition(b"-")
    hex_only = len(mark) == _MARK_SIZE and not mark.strip(b"0123456789abcdef")
    return hex_only and (not dash or number.isdigit())
