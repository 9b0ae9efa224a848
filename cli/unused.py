"""Libraries that no command needs, and that other libraries load where they are installed.

pyarrow loads numpy, and pandas as soon as it makes an array; DuckDB asks for both. Together they take longer
than most commands.
"""

import sys
from typing import Any

_UNUSED = frozenset(("numpy", "pandas"))


def refuse() -> None:
    """Let this process not find them any more, as where they are not installed.

    None in their place in `sys.modules` would not do: Cython takes it for the module.
    """
    if not any(isinstance(finder, _Without) for finder in sys.meta_path):
        sys.meta_path[:] = map(_Without, sys.meta_path)


class _Without:
    """A finder of modules that does not find these."""

    def __init__(self, finder: Any) -> None:
        self._finder = finder

    def find_spec(self, name: str, *where: Any) -> Any:
        return None if name in _UNUSED else self._finder.find_spec(name, *where)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)
