"""Libraries that no command needs, and that other libraries load where they are installed.

pyarrow loads numpy, and pandas as soon as it makes an array; DuckDB asks for both. Together they take longer
than most commands.
"""

import sys

_UNUSED = ("numpy", "pandas")


def refuse() -> None:
    """Let later imports of them fail in this process, as where they are not installed."""
    for name in _UNUSED:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
