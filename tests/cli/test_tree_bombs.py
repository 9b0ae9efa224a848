"""Trees that name themselves over and over: 10^40 files in 40 directories. No command walks them (P4)."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from eventlog.blobs.ids import to_text
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY, FILE, SKIPPED, TreeEntry
from eventlog.mcp import read
from eventlog.recorder import lifecycle
from eventlog.store import Store
from tests.cli.support import Ended, Locus

LEVELS, NAMES = 40, 10
READS_MAX = 5_000  # of directories, by one command

DEEP = "d/" + "/".join("0" * LEVELS) + "/f"


def bomb(store: Store, content: bytes) -> str:
    """A tree whose directory `d` holds 10^40 files of one content, and as many that were not captured."""
    with store.blobs.writer() as writer:
        leaves = [
            TreeEntry(b"f", FILE, writer.put(content), len(content)),
            TreeEntry(b"s", SKIPPED, writer.put(b"it is a pipe"), 0),
        ]
        root = writer.put_tree(leaves)
        for _ in range(LEVELS):
            root = writer.put_tree([TreeEntry(b"%d" % n, DIRECTORY, root) for n in range(NAMES)])
        root = writer.put_tree([TreeEntry(b"d", DIRECTORY, root), leaves[0]])
        writer.flush()
    return to_text(root)


def plain(store: Store) -> str:
    with store.blobs.writer() as writer:
        root = writer.put_tree([TreeEntry(b"f", FILE, writer.put(b"plain\n"), 6)])
        writer.flush()
    return to_text(root)


@pytest.fixture(scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Turn 1 is of a plain tree, 2 and 3 of different bombs."""
    root = tmp_path_factory.mktemp("bombs") / ".locus"
    with Store.init(root, repo_hash="0123456789ab") as store:
        trees = [plain(store), bomb(store, b"one\n"), bomb(store, b"two\n")]
        events = []
        for number, tree in enumerate(trees, 1):
            events.append(lifecycle.turn_start("s1", number, "go"))
            before = trees[max(number - 2, 0)]
            events.append(lifecycle.snapshot("s1", number, lifecycle.TURN_START, before))
            events.append(lifecycle.snapshot("s1", number, lifecycle.TURN_END, tree))
        store.append(events)
    return root


@pytest.fixture
def bombs(_made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of such a store; whoever reads too many directories of it fails."""
    root = tmp_path / "work" / ".locus"
    shutil.copytree(_made, root)
    monkeypatch.chdir(root.parent)
    reads = 0
    get_tree = BlobStore.get_tree

    def get(blobs: BlobStore, id: bytes) -> tuple[TreeEntry, ...]:
        nonlocal reads
        reads += 1
        if reads > READS_MAX:
            pytest.fail(f"{READS_MAX} directories were read")
        return get_tree(blobs, id)

    monkeypatch.setattr(BlobStore, "get_tree", get)
    return root.parent


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("verify", 0),
        ("verify --deep", 0),
        ("gc --dry-run", 0),
        ("repack", 0),
        ("du", 0),
        ("du --by path", 0),
        ("du --by session", 0),
        ("rebuild", 0),
    ],
)
def test_a_process_that_keeps_a_store_reads_each_directory_once(
    bombs: Path, locus: Locus, words: str, code: int
) -> None:
    """I24: all that is stored is looked at, however often it is named."""
    ended = locus("store", *words.split())
    assert ended.code == code, ended.err


def refused(ended: Ended) -> None:
    assert ended.code == 3, ended
    assert "more than 10000000 files" in ended.err, ended.err


@pytest.mark.parametrize(
    "words",
    [
        ("diff", "s1_002"),
        ("diff", "s1_001", "s1_002"),
        ("diff", "s1_003", "s1_001"),
        ("diff", "s1_002", "s1_003", "--json"),
        ("replay", "s1_002", "--to", "out"),
        ("restore", "s1_002", "--dry-run"),
        ("restore", "s1_001", "--dry-run"),
        ("sql", "select count(*) from tree_at('s1_002')"),
        ("sql", "select count(*) from diff_between('s1_001', 's1_002')"),
    ],
)
def test_what_would_expand_one_is_refused(bombs: Path, locus: Locus, words: tuple[str, ...]) -> None:
    """P4: with the figure, and before anything is made."""
    refused(locus(*words))


def test_a_single_file_of_one_is_had(bombs: Path, locus: Locus) -> None:
    """`cat`, `file_at` and a replay of one path read the directories on the way."""
    assert locus("cat", f"s1_002:{DEEP}").text == "one\n"
    asked = locus("sql", "--json", f"select file_at('{DEEP}', 's1_003') as content")
    assert "two" in asked.text, asked.err
    ended = locus("replay", "s1_002", DEEP, "--to", "out")
    assert (ended.code, (bombs / "out" / DEEP).read_text()) == (0, "one\n")


def test_reports_leave_out_what_nobody_can_list(bombs: Path, locus: Locus) -> None:
    """What walks a tree for a figure does without it."""
    for words in (("show", "s1_002"), ("show", "s1"), ("timeline", "s1_002"), ("status",), ("stats",)):
        ended = locus(*words)
        assert ended.code == 0, ended.err
    assert locus("doctor").code in (0, 1)
    assert locus("export", "jsonl", "--contents", "--to", "log.jsonl").code == 0


def test_mcp_answers(bombs: Path) -> None:
    """P4: with what it can say, or with the refusal."""
    with Store.open(bombs / ".locus") as store:
        asked: list[Callable[[], object]] = [
            lambda: list(read.show(store, "s1_002")),
            lambda: list(read.diff(store, "s1_002")),
        ]
        for ask in asked:
            try:
                ask()
            except Exception as error:
                assert "more than 10000000 files" in str(error)
