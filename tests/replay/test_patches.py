"""Diffs in git's form, held against git and patch themselves."""

import os
import subprocess
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.blobs.tree import legal_name
from eventlog.replay.diffs import Diff, diff
from eventlog.store import Store
from tests.blobs.support import Node, read_node
from tests.cli.support import GIT_ENVIRONMENT
from tests.conftest import examples
from tests.replay.states import file, link, program, state

_ODD = [
    b"a", b"b", b"c.txt", b"x y", b" lead", b"tail ", b"t\tab", b"n\nl", b'q"q',
    b"back\\slash", b"-dash", b"'",
    b"caf\xc3\xa9", b"caf\xe9", b"\x01", b"\x7f", b"dev",
]  # fmt: skip
_NAMES = st.sampled_from(_ODD) | st.binary(min_size=1, max_size=6).filter(
    lambda name: legal_name(name) is None and not name.lower().startswith(b".git")
)
_LINES = st.lists(
    st.sampled_from(
        [b"one", b"two", b"three", b"", b"cr\r", b"\r", b"caf\xe9", b"--- a/a", b"+++ b/a", b"@@ -1 +1 @@",
         b"\\ No newline at end of file", b"diff --git a/a b/a", b"\x0c", b"  ", b"-", b"+"]
    ),
    max_size=12,
)  # fmt: skip
_TEXT = st.tuples(_LINES, st.booleans()).map(lambda t: b"\n".join(t[0]) + (b"\n" if t[1] else b""))
_BINARY = st.binary(max_size=200).map(lambda data: b"\0" + data) | st.integers(0, 3).map(bytes)
_LEAF = (
    (_TEXT | _BINARY).map(file)
    | _TEXT.map(program)
    | st.sampled_from([b"a", b"../x", b"caf\xe9", b"no where", b"line\nbreak"]).map(link)
)
_TREES: st.SearchStrategy[Node] = st.recursive(
    st.dictionaries(_NAMES, _LEAF, max_size=5),
    lambda below: st.dictionaries(_NAMES, _LEAF | below.filter(bool), max_size=5),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.init(tmp_path_factory.mktemp("patches") / ".locus", repo_hash="0123456789ab") as store:
        yield store


def run(*command: str, cwd: str, stdin: bytes) -> None:
    done = subprocess.run(
        command, cwd=cwd, input=stdin, capture_output=True, env={**os.environ, **GIT_ENVIRONMENT}
    )
    assert done.returncode == 0, (done.stderr.decode(errors="replace"), stdin)


def applied(found: Diff, *command: str) -> Node:
    """What the program makes of the replayed start and the diff."""
    with tempfile.TemporaryDirectory() as directory:
        target = f"{directory}/tree"
        found.before.materialize(target)
        patch = b"".join(found.patch(binary=True))
        if patch:
            run(*command, cwd=target, stdin=patch)
        return without_empty(read_node(target))


def without_empty(node: Node) -> Node:
    """The tree as git sees it: no empty directories."""
    below = {name: without_empty(one) if isinstance(one, dict) else one for name, one in node.items()}
    return {name: one for name, one in below.items() if one != {}}


@settings(max_examples=examples(25, 3000))
@given(_TREES, _TREES)
def test_git_turns_the_start_into_the_end(store: Store, before: Node, after: Node) -> None:
    """P1: `git apply` of a diff onto the replayed start gives the replayed end: bytes, names, exec bits,
    symlinks, renames, empty files, missing last newlines, and binary files where they are asked for."""
    found = diff(state(store, before), state(store, after))

    assert applied(found, "git", "apply", "--whitespace=nowarn", "-") == without_empty(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({b"b": link(b"a")}, {b"a": link(b"a"), b"b": {b"a": link(b"a")}}),
        ({}, {b"tail ": {b"a": file(b"")}}),
        ({b"d": {b"x": file(b"1\n")}}, {b"d": file(b"1\n")}),
        ({b"d": file(b"1\n")}, {b"d": {b"d": file(b"1\n")}}),
        ({b"a": file(b"1\n")}, {b"a": link(b"b")}),
        ({b"a": program(b"1\n"), b"b": file(b"")}, {b"a": file(b"1\n"), b"c d": program(b"")}),
    ],
)
def test_what_gives_place_to_another_thing(store: Store, before: Node, after: Node) -> None:
    """P1: a symlink gives place to a directory, a file to a link, a folder to a file, and back."""
    found = diff(state(store, before), state(store, after))

    assert applied(found, "git", "apply", "-") == after


def test_text_applies_beside_a_binary_that_is_only_named(store: Store) -> None:
    """P1: without their contents binary files are named; git applies the rest when they are left out."""
    before: Node = {b"b": file(b"\0" * 9), b"t": file(b"1\r\n2")}
    after: Node = {b"b": file(b"\0" * 5000), b"t": file(b"1\r\n3"), b"n": program(b"")}
    found = diff(state(store, before), state(store, after))
    patch = b"".join(found.patch())

    assert b"Binary files a/b and b/b differ\n" in patch
    with tempfile.TemporaryDirectory() as directory:
        found.before.materialize(f"{directory}/tree")
        run("git", "apply", "--exclude=b", "-", cwd=f"{directory}/tree", stdin=patch)
        assert read_node(f"{directory}/tree") == {**after, b"b": before[b"b"]}
    assert applied(found, "git", "apply", "-") == after
