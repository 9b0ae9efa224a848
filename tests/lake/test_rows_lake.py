"""The rows on publishing to a lake: they count what they say, on both sides."""

from math import log
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


def test_a_fold_is_measured_at_two_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a lake of three stores the row has costs, what a further event costs and exponents."""
    pytest.importorskip("moto")
    (row,) = [row for row in catalogue.rows() if row.name == "lake-fold"]
    monkeypatch.setattr(Bench, "pick", lambda self, small, full: 1_000)
    with row.prepare(Bench("small", 1, str(tmp_path), events=3_000)) as sides:
        assert sides.ours() > 0 and sides.anchor() > 0
        facts = sides.facts
    assert sides.size == "3,000 events in 3 stores, beside it 1,000 in one"
    for fold in ("first", "next"):
        for events in ("1,000", "3,000"):
            assert "LIST" in str(facts[f"{fold} at {events}: kinds"])
        small, large = (float(facts[f"{fold} at {events}: requests"]) for events in ("1,000", "3,000"))
        assert float(facts[f"{fold}: requests for each further event"]) == (large - small) / 2_000
        assert float(facts[f"{fold}: requests, exponent"]) == log(large / small) / log(3)
    assert float(facts["first at 3,000: bytes of events per event"]) > 0
