"""The rows on publishing to a lake: they count what they say, on both sides."""

from pathlib import Path

import pytest

from benchmarks import catalogue
from benchmarks.frame import Bench, load_reach, reach_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("name", "reaches"), [("publish-requests", "≤ 1"), ("publish-bytes", "≤ 1.05")])
def test_a_publish_costs_the_same_after_many(
    name: str, reaches: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a dozen publications a publish takes the requests, and nearly the bytes, of the second."""
    pytest.importorskip("moto")
    (row,) = [row for row in catalogue.rows() if row.name == name]
    reach = reach_of(load_reach(str(ROOT / "benchmarks/reach.toml"))[name], "full")
    monkeypatch.setattr(Bench, "pick", lambda self, small, full: 12)
    with row.prepare(Bench("small", 1, str(tmp_path))) as sides:
        assert reach.text() == reaches and reach.met(sides.ours() / sides.anchor())
        assert {"requests at 1", "requests at 10", "bytes at 10"} == sides.facts.keys() - {"bytes at 1"}
