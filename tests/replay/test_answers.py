"""Functions of SQL that know of files: held against git, the Python API, and what must not leave."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog import Recorder, Store
from eventlog.base.errors import Ambiguous, Corruption, NotFound
from eventlog.erasure import erasure
from eventlog.importers.git_history import import_git
from tests.cli.support import git, make_history
from tests.secrets_made import made

SECRET = f"token = {made()['github']}\n".encode()


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded repository, with a content that holds a secret and one that was erased."""
    root = tmp_path_factory.mktemp("answers") / "sample"
    make_history(root)
    (root / "secret.txt").write_bytes(SECRET)
    (root / "gone.txt").write_bytes(b"to be forgotten\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Add what should not be here", at=5)
    with Store.init(root / ".locus") as store:
        import_git(store, str(root))
        recorder = Recorder(store, agent="probe")
        turn = recorder.start_turn("Tell of a file")
        turn.file("told.txt", before=None, after=b"told\n")
        turn.file("told.txt", before=b"told\n", after=b"told twice\n")
        turn.end(title="Told")
    return root


@pytest.fixture(scope="module")
def store(work: Path) -> Iterator[Store]:
    with Store.open(work / ".locus") as store:
        yield store


def commits(work: Path) -> list[str]:
    return git(work, "rev-list", "--reverse", "HEAD").split()


def in_git(work: Path, commit: str, path: str) -> bytes | None:
    done = subprocess.run(
        ["git", "-C", str(work), "cat-file", "blob", f"{commit}:{path}"], capture_output=True
    )
    return done.stdout if done.returncode == 0 else None


def test_contents_at_every_turn_are_those_of_git(work: Path, store: Store) -> None:
    """P1, S1-53: every path at every turn, joined in one statement, is what git has for the commit."""
    found = store.query(
        'select distinct v.path, t."commit", blob_at(v.path, t.context_id), file_at(v.path, t.context_id) '
        "from turns as t, file_versions as v where t.agent = 'git' and v.agent = 'git' and v.path <> $1",
        ["secret.txt"],
    ).rows

    assert len(found) == 5 * 7
    for path, commit, content, text in found:
        expected = in_git(work, commit, path)
        assert content == expected
        binary = expected is None or b"\0" in expected
        assert text == (None if binary or expected is None else expected.decode())


def test_versions_have_the_content_that_they_name(store: Store) -> None:
    """`file_at(path, turn_name)` of a view's own columns is the content with the hash after."""
    rows = store.query(
        "select path, operation, after_hash, blob_at(path, turn_name), bytes from file_versions "
        "where agent = 'git' and path <> 'secret.txt'"
    ).rows

    assert len(rows) == 8
    for path, operation, after_hash, content, size in rows:
        assert (store.blob(after_hash), size) == (content, len(content)), (path, operation)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("file_at('told.txt', 'last')", "told twice\n"),
        ("blob_at('told.txt', 'last')", b"told twice\n"),
        ("file_at('README.md', session_id, 1)", "# Sample\n"),
        ("file_at('README.md', session_id || '_1')", "# Sample\n"),
        ("file_at('README.md', 'turn:' || session_id || '_001')", "# Sample\n"),
        ("file_at('app', session_id, 3)", "src/app.py"),
        ("file_at('data.bin', session_id, 4)", None),
        ("octet_length(blob_at('data.bin', session_id, 4))", 256),
        ("file_at('src', session_id, 4)", None),
        ("file_at('src/none.py', session_id, 4)", None),
        ("file_at('src/app.py/none', session_id, 4)", None),
        ("file_at('\"broken', session_id, 4)", None),
        ("file_at(NULL, session_id, 4)", None),
        ("file_at('README.md', NULL)", None),
        ("file_at('README.md', session_id, NULL)", None),
        ("file_at('secret.txt', session_id, 5)", None),
        ("blob_at('secret.txt', session_id, 5)", None),
    ],
)
def test_a_file_at_a_turn(store: Store, expression: str, value: object) -> None:
    """P5, P7: text, bytes, or null where there is no such file, no text, or a secret in it."""
    (row,) = store.query(f"select {expression} from turns where agent = 'git' and turn = 1").rows

    assert row == (value,)


def test_a_turn_is_named_as_everywhere(work: Path, store: Store) -> None:
    """P8: a commit, a unique beginning and `last` name a turn; what names none, or two, is an error."""
    first = commits(work)[0]
    session = store.turn(f"git:{first}").session_id

    assert store.query(f"select file_at('README.md', 'git:{first}')").rows == [("# Sample\n",)]
    assert store.query("select of_turn from timeline('last'), (select 1 as of_turn) limit 1").rows == [(1,)]
    with pytest.raises(NotFound, match="no turn is called 'nobody'"):
        store.query("select file_at('README.md', 'nobody')")
    with pytest.raises(Ambiguous, match="fits several turns"):
        store.query(f"select file_at('README.md', '{session}')")


def test_a_timeline_is_that_of_the_api(store: Store) -> None:
    """S1-55: `timeline` gives the events that `Store.timeline` gives, in their order."""
    for (name,) in store.query("select context_id from turns").rows:
        ids = [event["event_id"] for event in store.timeline(name)]
        assert store.query("select event_id from timeline($1)", [name]).rows == [(id,) for id in ids]


def test_trees_and_differences(work: Path, store: Store) -> None:
    """P1: a tree's files are those that git lists; a difference has the paths and lines of `Store.diff`."""
    first, *_, last = commits(work)
    listed = {
        (path, oid)
        for line in git(work, "-c", "core.quotePath=false", "ls-tree", "-r", last).split("\n")
        for (_, _, oid), path in [(line.partition("\t")[0].split(), line.partition("\t")[2])]
    }
    rows = store.query("select path, kind, bytes, content_hash from tree_at($1)", [f"git:{last}"]).rows

    assert {row[0] for row in rows} == {path for path, _ in listed}
    assert {row[0]: row[1] for row in rows}["run.sh"] == "executable"
    assert all(len(store.blob(row[3])) == row[2] for row in rows)

    changes = store.query(
        "select path, old_path, operation, lines_added, lines_removed, diff from diff_between($1, $2)",
        [f"git:{first}", f"git:{last}"],
    ).rows
    reported = [
        (file.path, file.old_path, file.operation) for file in store.diff(f"git:{first}", f"git:{last}")
    ]
    by_path = {row[0]: row for row in changes}
    assert [row[:3] for row in changes] == reported
    assert by_path["src/app.py"][3:5] == (2, 1) and "+print('zwei')" in by_path["src/app.py"][5]
    assert by_path["secret.txt"][3:] == (None, None, None)
    assert by_path["data.bin"][3:] == (None, None, None)


def test_table_functions_join_by_column(store: Store) -> None:
    """S1-53: a function in FROM takes a column of what comes before it, so turns join their changes."""
    rows = store.query(
        "select t.turn, d.path, d.operation from turns as t, diff_between(t.context_id) as d "
        "where t.agent = 'git' order by all"
    ).rows
    recorded = store.query("select path, lines_added, lines_removed from diff_between('last')").rows
    versions = store.query("select turn_name, operation, user_request from history_of('told.txt')").rows

    assert rows[:3] == [(1, "README.md", "add"), (1, "src/app.py", "add"), (2, "src/app.py", "edit")]
    assert recorded == [("told.txt", 1, 0)]
    assert [(v[1], v[2]) for v in versions] == [("edit", "Tell of a file"), ("add", "Tell of a file")]
    assert versions[0][0] == store.turn("last").name


def test_names_of_a_question_do_not_reach_into_functions(store: Store) -> None:
    """A question's own table called `events` or `turns` changes no function's answer."""
    shadow = "with events as (select 1), turns as (select 2) select count(*) from timeline('last')"

    assert store.query(shadow).rows == [(len(store.timeline("last")),)]


def test_functions_are_given_as_arrow_too(store: Store) -> None:
    """The same answer as an Arrow table."""
    assert store.sql("select file_at('told.txt', 'last') as text").to_pydict() == {"text": ["told twice\n"]}


def test_an_erased_content_is_null(work: Path, tmp_path: Path) -> None:
    """P5: what was erased is null in SQL, as text and in differences, and the rest is there."""
    root = tmp_path / "copy"
    shutil.copytree(work, root, symlinks=True)
    with Store.open(root / ".locus") as store:
        turn = f"git:{commits(work)[-1]}"
        ask = "select file_at('gone.txt', $1), file_at('README.md', $1), file_at('run.sh', $1) is not null"
        assert store.query(ask, [turn]).rows == [("to be forgotten\n", None, True)]
        plan = erasure.plan_path(store, "gone.txt")
        erasure.erase(store, plan)
    with Store.open(root / ".locus") as store:
        assert store.query(ask, [turn]).rows == [(None, None, True)]
        rows = store.query("select path, diff from diff_between($1)", [turn]).rows
        assert ("gone.txt", None) in rows or "gone.txt" not in dict(rows)


def test_damage_is_reported_not_hidden(work: Path, tmp_path: Path) -> None:
    """P1: bytes that are not what was written are an error, never a null or another text."""
    root = tmp_path / "copy"
    shutil.copytree(work / ".locus", root)
    for pack in (root / "snapshots/packs").rglob("*.evp"):
        data = bytearray(pack.read_bytes())
        data[40 : len(data) - 2_000] = bytes(len(data) - 2_040) if len(data) > 2_040 else b""
        data[30] ^= 0xFF
        os.chmod(pack, 0o600)
        pack.write_bytes(data)
    with Store.open(root) as store, pytest.raises(Corruption):
        store.query("select file_at(path, turn_name) from file_versions")


_WITHOUT_NUMPY = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numpy":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "numpy" else find(name, *more)
from eventlog import Store
with Store.open(sys.argv[1]) as store:
    print(store.query(sys.argv[2]).rows)
print("numpy" in sys.modules)
"""


def test_the_functions_need_no_package_that_an_installation_lacks(work: Path, store: Store) -> None:
    """Where numpy cannot be imported the functions answer as where it can, and leave nothing of that name."""
    turn = f"git:{commits(work)[0]}"
    question = f"select file_at('README.md', '{turn}'), (select count(*) from tree_at('{turn}'))"
    expected = store.query(question).rows

    command = [sys.executable, "-c", _WITHOUT_NUMPY, str(work / ".locus"), question]
    done = subprocess.run(command, capture_output=True, text=True)

    assert done.stdout.splitlines() == [str(expected), "False"], done.stderr
    assert expected[0][0] is not None
