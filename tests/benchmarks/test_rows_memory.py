"""The rows on memory: that they measure what they say, on both sides."""

from __future__ import annotations

from pathlib import Path

from benchmarks import catalogue
from benchmarks.frame import TIME_UNIT, Bench, load_reach, reach_of

ROOT = Path(__file__).parents[2]


def test_codes_are_measured_beside_plain_json(tmp_path: Path) -> None:
    """S4-36: loading, formatting, saving and archiving of ten contexts, beside files of JSON."""
    (row,) = [row for row in catalogue.rows() if row.name == "codes"]
    reach = load_reach(str(ROOT / "benchmarks/reach.toml"))["codes"]

    assert row.unit == TIME_UNIT
    assert [reach_of(reach, scale).text() for scale in ("small", "full")] == ["≤ 3", "≤ 3"]
    with row.prepare(Bench("small", 1, str(tmp_path))) as sides:
        for side in (sides.ours, sides.anchor, sides.ours):
            assert side() > 0
        left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert left == []
    assert "10 files" in sides.size
