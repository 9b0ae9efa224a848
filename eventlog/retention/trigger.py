"""Whether the maintainer should plan a collection. Every command asks, so this imports little."""

from eventlog.base import config
from eventlog.base.fs import FileSystem
from eventlog.base.layout import CONDEMNED_DIR, Layout


def is_asked_for(fs: FileSystem, layout: Layout) -> bool:
    """Whether there are rules that release, or condemned packs whose day is over. Reads no event."""
    settings = config.read(fs, layout)
    rules = (settings.max_age_days, settings.max_sessions, settings.max_bytes)
    return any(rule is not None for rule in rules) or has_old_condemned(fs, layout)


def has_old_condemned(fs: FileSystem, layout: Layout) -> bool:
    """Whether a pack was condemned long enough ago to be unlinked."""
    names = fs.listdir(layout.directory(CONDEMNED_DIR))
    if not names:
        return False
    from eventlog.gc.condemn import AGE_S_MIN, old_enough

    return any(old_enough(fs, names, AGE_S_MIN))
