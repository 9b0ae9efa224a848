"""Which packs a merge would take, by their sizes alone. Every command asks, so it imports very little."""

from eventlog.base.fs import FileSystem
from eventlog.base.layout import PACK_DIR, Layout, parse_pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Fewer packs than these cost a reader less than a merge costs.
PACKS_MIN = 8


def is_worthwhile(fs: FileSystem, layout: Layout, bytes_max: int) -> bool:
    """Whether a merge of no more than so many bytes would pay, by the sizes of the packs alone."""
    sizes = {}
    for name in fs.listdir(layout.directory(PACK_DIR)):
        if parse_pack(name) is not None:
            try:
                sizes[name] = fs.stat(f"{layout.directory(PACK_DIR)}/{name}").st_size
            except FileNotFoundError:
                continue
    return bool(choose(sizes, bytes_max))


def choose(sizes: "Mapping[str, int]", bytes_max: "int | None" = None) -> "list[str]":
    """The packs to merge: the smallest ones, up to the largest that is smaller than twice all below it.

    What remains at least triples from pack to pack, so there are few of them, and a byte is merged again only
    after what it is in has grown by half. None when they are fewer than PACKS_MIN.

    Args: bytes_max: packs with which the inputs would be larger than this are left alone.
    """
    ordered = sorted((size, name) for name, size in sizes.items())
    below = count = 0
    for number, (size, _) in enumerate(ordered):
        if bytes_max is not None and below + size > bytes_max:
            break
        if number and size < 2 * below:
            count = number + 1
        below += size
    return [name for _, name in ordered[:count]] if count >= PACKS_MIN else []
