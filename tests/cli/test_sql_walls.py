"""The walls around `locus sql`, through the command itself: also where several stores are asked."""

import shutil
from pathlib import Path

import pytest

from tests.cli.support import Locus, Recorded

ENDLESS = "select count(*) from range(10000000) a, range(10000000) b where a.range + b.range < 0"


@pytest.fixture(params=["one store", "several stores"])
def stores(request: pytest.FixtureRequest, recorded: Recorded, tmp_path: Path) -> list[object]:
    """The options of `locus sql` that name one store, and two."""
    if request.param == "one store":
        return []
    shutil.copytree(recorded.store, tmp_path / ".copied")
    return ["--store", recorded.store, "--store", tmp_path / ".copied"]


def test_questions_to_several_stores_have_the_same_walls(
    stores: list[object], locus: Locus, tmp_path: Path
) -> None:
    """P5, F11: a file is not a table, nothing is written, set or attached, of one store as of several."""
    secret, out = tmp_path / "secret.csv", tmp_path / "out.csv"
    secret.write_text("word\ncanary\n")
    for text in (f"select * from '{secret}'", f"from read_csv('{secret}')"):
        ended = locus("sql", text, *stores)
        assert ended.code in (1, 3) and ended.out == b"" and "canary" not in ended.err, text
    writing = (f"copy (select 1) to '{out}'", f"attach '{out}'", "set threads = 1", "create table t (a int)")
    for text in writing:
        ended = locus("sql", text, *stores)
        assert (ended.code, ended.out) == (3, b""), (text, ended)
    assert not out.exists()


def test_questions_to_several_stores_end_in_time(stores: list[object], locus: Locus) -> None:
    """P8: a question that would never end is stopped, and the answer says after how long."""
    ended = locus("sql", ENDLESS, "--timeout", "0.2", *stores)

    assert (ended.code, ended.out) == (1, b"") and "stopped after 0.2 s" in ended.err
