"""A tree that is changed path by path."""

from hypothesis import given
from hypothesis import strategies as st

from eventlog.blobs.ids import tree_id
from eventlog.blobs.tree import DIRECTORY, FILE, TreeEntry, decode_tree, encode_tree
from eventlog.replay.edited_tree import EditedTree, no_trees

_PATHS = st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=4).map(b"/".join)
_STEPS = st.lists(st.tuples(st.sampled_from(["put", "remove", "write", "reopen"]), _PATHS, st.integers(0, 3)))


class Trees:
    """Encodings by id, and how many were written."""

    def __init__(self) -> None:
        self.encodings: dict[bytes, bytes] = {}
        self.written = 0

    def write(self, encoding: bytes) -> bytes:
        self.encodings[tree_id(encoding)] = encoding
        self.written += 1
        return tree_id(encoding)

    def read(self, id: bytes) -> tuple[TreeEntry, ...]:
        return decode_tree(self.encodings[id])

    def files(self, root: bytes, prefix: bytes = b"") -> dict[bytes, bytes]:
        found = {}
        for entry in self.read(root):
            if entry.kind == DIRECTORY:
                found.update(self.files(entry.id, prefix + entry.name + b"/"))
            else:
                found[prefix + entry.name] = entry.id
        return found


@given(_STEPS)
def test_it_holds_what_a_dict_of_paths_holds(steps: list[tuple[str, bytes, int]]) -> None:
    """P1: after any changes the written tree has the files of a plain dict, and no empty directory."""
    trees, model = Trees(), dict[bytes, bytes]()
    tree = EditedTree(no_trees)
    for step, path, value in steps:
        if step == "put":
            for other in [p for p in model if p.startswith(path + b"/") or path.startswith(p + b"/")]:
                del model[other]
            model[path] = bytes([value]) * 32
            tree.put(path, FILE, model[path], value)
        elif step == "remove":
            for other in [p for p in model if p == path or p.startswith(path + b"/")]:
                del model[other]
            tree.remove(path, prune=True)
        elif step == "write":
            tree.write(trees.write)
        else:
            tree = EditedTree(trees.read, tree.write(trees.write))
    root = tree.write(trees.write)

    assert trees.files(root) == model
    assert root == EditedTree(trees.read, root).write(trees.write)
    assert all(encode_tree(decode_tree(encoding)) == encoding for encoding in trees.encodings.values())
    assert all(trees.read(e.id) for _, e in _directories(trees, root))
    for path, id in model.items():
        entry = tree.get(path)
        assert entry is not None and entry.id == id


def test_only_changed_directories_are_encoded_again() -> None:
    """A change in one directory writes that directory and those above it, whatever else there is."""
    trees = Trees()
    tree = EditedTree(no_trees)
    for folder in range(20):
        tree.put(b"top/%d/file" % folder, FILE, bytes(32), 0)
    tree.write(trees.write)
    trees.written = 0
    tree.put(b"top/7/file", FILE, b"x" * 32, 1)
    tree.write(trees.write)

    assert trees.written == 3


def test_removing_without_pruning_keeps_the_directory() -> None:
    """P1: a working tree keeps the empty directory that a deleted file leaves behind."""
    trees = Trees()
    tree = EditedTree(no_trees)
    tree.put(b"a/b", FILE, bytes(32), 0)

    assert tree.remove(b"a/b", prune=False)
    assert not tree.remove(b"a/b", prune=False)
    assert [e.name for e in trees.read(tree.write(trees.write))] == [b"a"]


def _directories(trees: Trees, root: bytes) -> list[tuple[bytes, TreeEntry]]:
    found = []
    for entry in trees.read(root):
        if entry.kind == DIRECTORY:
            found.append((entry.name, entry))
            found += _directories(trees, entry.id)
    return found
