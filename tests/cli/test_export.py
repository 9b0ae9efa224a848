"""`locus export …` and `locus import jsonl`: what a person meets, disks that refuse included."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog.store import Store
from tests.cli.support import Ended, Locus, Recorded, locus_process


def one_line(err: str) -> bool:
    return err.startswith("locus: ") and err.count("\n") == 1 and "Traceback" not in err


def tree_of(place: Path) -> dict[str, tuple[object, ...]]:
    """Names, contents and exec bits below a directory."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(place.rglob("*")):
        name = str(path.relative_to(place))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_file():
            found[name] = (path.read_bytes(), path.stat().st_mode & 0o111)
    return found


def test_a_store_moves_as_lines(recorded: Recorded, locus: Locus, tmp_path: Path) -> None:
    """P1, P2: exported with contents and imported elsewhere, every turn replays to the same files."""
    assert locus("export", "jsonl", "--to", tmp_path / "log.jsonl", "--contents").code == 0
    (tmp_path / "new").mkdir()
    other = tmp_path / "new/.locus"
    assert locus("--store", other, "init").code == 0
    ended = locus("--store", other, "import", "jsonl", tmp_path / "log.jsonl")
    assert ended.code == 0 and "another repository" in ended.err

    for commit in recorded.commits:
        here, there = tmp_path / f"here-{commit}", tmp_path / f"there-{commit}"
        assert locus("replay", f"git:{commit}", "--to", here).code == 0
        assert locus("--store", other, "replay", f"git:{commit}", "--to", there).code == 0
        assert tree_of(there) == tree_of(here) != {}
    again = locus("--store", other, "import", "jsonl", tmp_path / "log.jsonl", "--json")
    assert json.loads(again.out)["import"]["events"] == 0


def test_lines_go_through_a_pipe(recorded: Recorded, locus: Locus, tmp_path: Path) -> None:
    """P8: `-` is standard output and standard input; words stay on stderr."""
    exported = locus("export", "jsonl", "--people", "full", "--to", "-")
    (tmp_path / "new").mkdir()
    assert locus("--store", tmp_path / "new/.locus", "init").code == 0
    ended = locus_process(
        "--store", tmp_path / "new/.locus", "import", "jsonl", "-", cwd=tmp_path, stdin=exported.out
    )

    assert exported.out.startswith(b'{"format":"locus jsonl"') and exported.out.endswith(b'"}\n')
    assert ended.code == 0 and ended.out == b""
    assert "no contents" in ended.err
    with Store.open(tmp_path / "new/.locus") as new, Store.open(recorded.store) as old:
        assert list(new.events()) == list(old.events())


def test_records_go_on_where_they_ended(copied: Recorded, locus: Locus, tmp_path: Path) -> None:
    """I36, P8: dry run, batch, nothing new, all again; the report says what was covered."""
    dry = json.loads(locus("export", "locusgraph", "--to", tmp_path / "a", "--dry-run", "--json").out)[
        "export"
    ]
    wet = json.loads(locus("export", "locusgraph", "--to", tmp_path / "a", "--json").out)["export"]
    none = locus("export", "locusgraph", "--to", tmp_path / "b")
    every = locus("export", "locusgraph", "--to", tmp_path / "c", "--all", "--graph", "mine")

    assert (dry["records"], dry["bytes"], dry["path"]) == (wet["records"], wet["bytes"], None)
    assert (wet["since"], wet["advanced"], wet["records"]["turns"]) == (0, True, 4)
    assert len((tmp_path / "a").read_bytes().splitlines()) == sum(wet["records"].values())
    assert none.code == 0 and "Nothing new" in none.err and not (tmp_path / "b").exists()
    assert every.code == 0 and b'"graph_id":"mine"' in (tmp_path / "c").read_bytes()


def test_parquet_files(recorded: Recorded, locus: Locus, tmp_path: Path) -> None:
    """P8: a directory of Parquet files, and a refusal where something exists."""
    ended = locus("export", "parquet", "--to", tmp_path / "out", "--json")
    rows = json.loads(ended.out)["export"]["rows"]

    assert rows["turns.parquet"] == 4 and (tmp_path / "out/events-00000.parquet").is_file()
    refused = locus("export", "parquet", tmp_path / "out")
    assert refused.code == 3 and one_line(refused.err) and "--force" in refused.err
    assert locus("export", "parquet", tmp_path / "out", "--force").code == 0
    for wrong in ((), ("--to", tmp_path / "one", tmp_path / "other")):
        ended = locus("export", "parquet", *wrong)
        assert ended.code == 2 and "--to DIRECTORY" in ended.err


@pytest.mark.parametrize("verb", [("export", "jsonl", "--to"), ("export", "locusgraph", "--to")])
def test_an_existing_file_stays(
    recorded: Recorded, locus: Locus, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    """P8: a file that exists is refused with exit code 3, and stays as it is."""
    (tmp_path / "there").write_text("precious")
    ended = locus(*verb, tmp_path / "there")

    assert ended.code == 3 and one_line(ended.err) and "--force" in ended.err
    assert (tmp_path / "there").read_text() == "precious"


@pytest.mark.parametrize(
    ("verb", "target"),
    [
        (("export", "jsonl", "--to"), "nowhere/log.jsonl"),
        (("export", "locusgraph", "--to"), "nowhere/out"),
        (("export", "parquet"), "nowhere/out"),
        (("export", "jsonl", "--to"), "/proc/locus.jsonl"),
        (("export", "parquet"), "/proc/locus"),
        (("import", "jsonl"), "missing.jsonl"),
        (("import", "jsonl"), "/proc"),
    ],
)
def test_a_place_that_does_not_work_is_one_line(
    recorded: Recorded, locus: Locus, tmp_path: Path, verb: tuple[str, ...], target: str
) -> None:
    """P8: no directory, no permission, no file: one line, exit code 1, nothing left behind."""
    ended = locus(*verb, target if target.startswith("/") else tmp_path / target)

    assert ended.code == 1 and one_line(ended.err), ended.err
    assert str(Path(target).parts[0]) in ended.err
    assert [path for path in tmp_path.iterdir() if path.name != "home"] == []  # where stores are noted


def with_file_limit(*arguments: object, cwd: Path, size: int) -> Ended:
    """Run `locus` where no file may grow beyond `size` bytes: a disk that is full at some moment."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    command = [sys.executable, "-m", "locus_cli", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, preexec_fn=limit, timeout=60)
    return Ended(done.returncode, done.stdout, done.stderr.decode())


@pytest.mark.parametrize(
    "verb",
    [
        ("export", "jsonl", "--contents", "--to"),
        ("export", "locusgraph", "--to"),
        ("export", "parquet"),
    ],
)
def test_a_full_disk_leaves_nothing(copied: Recorded, tmp_path: Path, verb: tuple[str, ...]) -> None:
    """I35, I36: an export that the disk cuts short has no file, no ledger entry, and says so in one line."""
    target = tmp_path / "out"
    with Store.open(copied.store) as store:
        before = store.journal.next_position()
    ended = with_file_limit(*verb, target, cwd=copied.root, size=700)

    assert ended.code == 1 and one_line(ended.err), ended.err
    assert "cannot be written" in ended.err and str(target) in ended.err
    assert [p.name for p in tmp_path.iterdir()] == ["copy"]
    with Store.open(copied.store) as store:
        assert store.journal.next_position() == before


def test_a_damaged_file(recorded: Recorded, locus: Locus, tmp_path: Path) -> None:
    """I11, P8: a damaged file is refused with 12 and its line; salvage takes the rest and ends with 4."""
    assert locus("export", "jsonl", "--to", tmp_path / "log.jsonl").code == 0
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "bad.jsonl").write_bytes(b"".join([*lines[:5], lines[5][:50] + b"\n", *lines[6:]]))
    (tmp_path / "new").mkdir()
    other = tmp_path / "new/.locus"
    assert locus("--store", other, "init").code == 0
    refused = locus("--store", other, "import", "jsonl", tmp_path / "bad.jsonl")
    assert (refused.code, one_line(refused.err)) == (12, True)
    assert "line 6" in refused.err and "--salvage" in refused.err
    with Store.open(other) as store:
        assert store.journal.next_position() == 0

    salvaged = locus("--store", other, "import", "jsonl", tmp_path / "bad.jsonl", "--salvage")
    assert salvaged.code == 4 and "line 6 skipped" in salvaged.err
    with Store.open(other) as store:
        assert store.journal.next_position() == len(lines) - 3


def test_options_that_contradict(recorded: Recorded, locus: Locus, tmp_path: Path) -> None:
    """P8: what makes no sense together is a usage error."""
    assert locus("export", "locusgraph", "--to", tmp_path / "a", "--all", "--since", "3").code == 2
    assert locus("export", "jsonl", "--to", "-", "--json").code == 2
    assert locus("export", "jsonl").code == 2
