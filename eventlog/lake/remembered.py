"""What a store remembers of a place: a derived file that saves requests and decides nothing.

One line of JSON, then the ids of the contents in its packs. Whatever is wrong with the file, it is as if it
were not there. The holder of the lock `publish` writes it.
"""

from dataclasses import dataclass, field

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import PARSE_ERRORS
from eventlog.base.fs import FileSystem, read_file, replace, translate_os_errors
from eventlog.base.layout import Layout
from eventlog.blobs.ids import ID_SIZE
from eventlog.lake.chain import Chain, LiveFile
from eventlog.lake.policy import Policy

_FORMAT = 1


@dataclass(slots=True)
class Remembered:
    """The state of a store in a place after its last publish; names of files and packs are those of objects.

    All live files know `erasures`. `searched` says for what all packs were searched. `erased_to` is the
    number of the last rewrite after which objects are deleted, `swept` of the last after which all were.
    """

    chain: Chain
    policies: "dict[str, Policy]" = field(default_factory=dict)
    erasures: "frozenset[str]" = frozenset()
    packs: "dict[str, frozenset[bytes]]" = field(default_factory=dict)
    removed_packs: "frozenset[str]" = frozenset()
    searched: str = ""
    erased_to: int = 0
    swept: int = 0


def read(fs: FileSystem, layout: Layout, uri: str, store_id: bytes) -> "Remembered | None":
    """What was remembered of the place at `uri`; None without it, or where it cannot be read."""
    try:
        data = read_file(fs, _path(layout, uri))
        line, _, ids = data.partition(b"\n")
        head = jsontext.decode(line)
        if head["format"] != _FORMAT or head["place"] != uri or head["store"] != store_id.hex():
            return None
        if blake3(ids).hexdigest() != head["ids"]:
            return None
        texts = [Policy.decode(text) for text in head["policies"]]
        live = [LiveFile(name, base, end, size) for name, base, end, size, _ in head["live"]]
        policies = {name: texts[index] for name, _, _, _, index in head["live"]}
        packs = {}
        for name, count in head["packs"]:
            packs[name] = frozenset(ids[i : i + ID_SIZE] for i in range(0, count * ID_SIZE, ID_SIZE))
            ids = ids[count * ID_SIZE :]
        chain = Chain(store_id, live=live, number=head["number"])
        erasures, removed = frozenset(head["erasures"]), frozenset(head["removed_packs"])
        numbers = (head["searched"], head["erased_to"], head["swept"])
        return Remembered(chain, policies, erasures, packs, removed, *numbers)
    except (OSError, *PARSE_ERRORS):
        return None


def write(fs: FileSystem, layout: Layout, uri: str, state: Remembered) -> None:
    """Remember it. Raises: EventLogError of the disk."""
    texts = sorted({policy.encoded() for policy in state.policies.values()})
    index = {text: number for number, text in enumerate(texts)}
    ids = b"".join(id for ids in state.packs.values() for id in ids)
    head = {
        "format": _FORMAT,
        "place": uri,
        "store": state.chain.store_id.hex(),
        "number": state.chain.number,
        "policies": texts,
        "live": [
            [file.name, file.base, file.end, file.size, index[state.policies[file.name].encoded()]]
            for file in state.chain.live
        ],
        "erasures": sorted(state.erasures),
        "packs": [[name, len(ids)] for name, ids in state.packs.items()],
        "removed_packs": sorted(state.removed_packs),
        "searched": state.searched,
        "erased_to": state.erased_to,
        "swept": state.swept,
        "ids": blake3(ids).hexdigest(),
    }
    path = _path(layout, uri)
    tmp = layout.tmp(f"lake-{fs.random_bytes(8).hex()}")
    with translate_os_errors(path, "remember what was published"):
        replace(fs, tmp, path, jsontext.encode(head) + b"\n" + ids, synced=False)


def _path(layout: Layout, uri: str) -> str:
    return layout.lake(blake3(uri.encode()).hexdigest()[:16])
