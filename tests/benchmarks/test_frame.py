"""The frame of the benchmarks: what becomes of samples, what a report holds, and that no row is silent."""

from __future__ import annotations

import io
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks import catalogue, machine, report
from benchmarks.frame import (
    RATE_UNIT,
    SCALES,
    TIME_UNIT,
    Bench,
    NotRunnable,
    Row,
    Sides,
    load_reach,
    reach_of,
    run_row,
)

ROOT = Path(__file__).parents[2]
MORE = {"better": "more", "small": 0.8, "full": 0.9}
LESS = {"better": "less", "small": 1.5, "full": 1.2}
ROW_KEYS = {"work", "scale", "anchor", "ours", "anchor_value", "unit", "ratio", "reach", "met"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench("small", 1, str(tmp_path))


def row_of(ours: list[float], anchor: list[float], unit: str = RATE_UNIT, **more: object) -> Row:
    """A row whose sides give these samples, the first of which is the warm-up."""

    @contextmanager
    def prepare(_: Bench) -> Iterator[Sides]:
        # A row that is sampled once more has the same samples again, without the warm-up.
        left, right = chain(ours, ours[1:]), chain(anchor, anchor[1:])
        yield Sides(
            ours=lambda: next(left),
            anchor=lambda: next(right),
            size="a few",
            rounds=len(ours) - 1,
            **more,  # type: ignore[arg-type]
        )

    return Row("some-row", "some work", "some anchor", unit, "neither writes", prepare)


def test_ratio_is_ours_by_anchor_of_the_medians(bench: Bench) -> None:
    """Medians decide, so one wild sample on either side changes neither the figures nor the ratio."""
    got = run_row(row_of([1, 10, 900, 12], [1, 20, 24, 0.001]), bench, MORE)
    assert (got["ours"], got["anchor_value"], got["ratio"]) == (12, 20, 0.6)
    assert got["ours_spread"] == [10, 900]
    assert got["anchor_spread"] == [0.001, 24]
    assert got["rounds"] == 6  # one pair of the three misses the reach, so it was sampled again


def test_first_round_is_dropped(bench: Bench) -> None:
    """The first round warms caches on both sides and is not among the samples."""
    got = run_row(row_of([1000, 2], [1000, 4]), bench, MORE)
    assert (got["ours_spread"], got["anchor_spread"]) == ([2, 2], [4, 4])


def test_sides_alternate(bench: Bench) -> None:
    """Ours and the anchor are sampled A B A B, so that a slow minute hits both."""
    order: list[str] = []

    def note(name: str) -> float:
        order.append(name)
        return 1.0

    @contextmanager
    def prepare(_: Bench) -> Iterator[Sides]:
        yield Sides(ours=lambda: note("A"), anchor=lambda: note("B"), size="", rounds=2)

    run_row(Row("r", "w", "a", TIME_UNIT, "", prepare), bench, LESS)
    assert "".join(order) == "ABABAB"


def test_busy_machine_gets_fewer_rounds_but_enough_for_a_median(bench: Bench) -> None:
    """A row that is late before it begins stops after two rounds; one in time has all of them."""
    samples: list[float] = [1.0] * 10

    def rounds(budget_s: float) -> int:
        return int(run_row(row_of(samples, samples), bench, MORE, budget_s)["rounds"])

    assert rounds(3600) == 9
    assert rounds(-1) == 2


@pytest.mark.parametrize(
    ("entry", "ours", "met"), [(MORE, 8.0, True), (MORE, 7.9, False), (LESS, 15.0, True), (LESS, 15.1, False)]
)
def test_reach_has_a_direction(bench: Bench, entry: dict[str, object], ours: float, met: bool) -> None:
    """A rate reaches at least its value, a time at most; the value itself is reached."""
    got = run_row(row_of([ours, ours], [10.0, 10.0]), bench, entry)
    assert got["met"] is met


@pytest.mark.parametrize(
    ("ours", "miss", "rounds"),
    [([8, 9, 9], None, 2), ([7, 7, 7], "real", 2), ([9, 9, 7, 7], "noise", 6), ([7, 7, 9, 9], None, 6)],
)
def test_a_miss_is_noise_where_a_pair_of_samples_meets_the_reach(
    bench: Bench, ours: list[float], miss: str | None, rounds: int
) -> None:
    """Where pairs differ about the reach, the row is sampled once more; a busy machine has no time for it."""
    row = row_of(ours, [10.0] * len(ours))
    got = run_row(row, bench, MORE)
    assert (got["miss"], got["met"], got["rounds"]) == (miss, miss is None, rounds)
    assert run_row(row, bench, MORE, budget_s=-1)["rounds"] == min(len(ours) - 1, 2)


def row_of_log(unit: str, cost: float) -> Row:
    """A row whose cost is so many times the events of the large log, as an exponent."""

    @contextmanager
    def prepare(bench: Bench) -> Iterator[Sides]:
        took = bench.log_events**cost
        value = bench.log_events / took if unit == RATE_UNIT else took
        yield Sides(lambda: value, lambda: value, size=f"{bench.log_events:,}", rounds=1, warm_up=False)

    return Row("some-row", "some work", "some anchor", unit, "neither writes", prepare, of_log=True)


@pytest.mark.parametrize("unit", [RATE_UNIT, TIME_UNIT])
@pytest.mark.parametrize("cost", [0.0, 0.5, 1.0, 2.0])
def test_a_row_of_the_log_is_measured_at_two_sizes(bench: Bench, unit: str, cost: float) -> None:
    """The exponent says how its cost grows: 0 not at all, 1 as the log does, whatever the unit."""
    got = run_row(row_of_log(unit, cost), bench, LESS)
    assert got["exponent"] == pytest.approx(cost)
    assert (got["size"], got["tenth"]["size"]) == ("300,000", "30,000")


def test_a_row_beside_a_smaller_log_has_the_exponent_of_its_ratio(bench: Bench) -> None:
    """Twice the cost in a log ten times as large is an exponent of 0.3."""
    got = run_row(row_of([20.0, 20.0], [10.0, 10.0], times_larger=10), bench, LESS)
    assert got["exponent"] == pytest.approx(0.301, abs=0.001)


def test_a_busy_machine_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others that use more than 0.15 of a processor are in the JSON and below the table."""
    for busy, idle in ((0.0, True), (0.14, True), (0.15, False), (1.9, False), (None, None)):
        monkeypatch.setattr(machine, "busy_processors", lambda _, busy=busy: busy)
        described = machine.machine(str(tmp_path))
        assert described["idle"] is idle
        console = Console(file=(out := io.StringIO()), width=200)
        report.print_table(
            {"scale": "small", "seed": 1, "rows": [], "machine": described, "versions": {}}, console
        )
        assert ("not idle" in out.getvalue()) is (idle is False)


def test_slow_disk_has_its_own_reach(bench: Bench) -> None:
    """Where the raw sync measured beside the row is slow, the row's value for slow disks counts."""
    entry = {**MORE, "slow_sync": {"from_ms": 0.2, "small": 3.0, "full": 3.0}}
    for sync_ms, value in ((0.15, 0.8), (0.2, 3.0)):
        got = run_row(row_of([1, 1], [1, 1], beside={"sync ms": lambda ms=sync_ms: ms}), bench, entry)
        assert got["reach"] == value
        assert got["beside"]["sync ms"] == sync_ms


def test_row_that_cannot_run_says_why(bench: Bench) -> None:
    """A row that cannot run, or fails, is reported with its reason and without figures; never left out."""

    def refusing(error: Exception) -> Row:
        @contextmanager
        def prepare(_: Bench) -> Iterator[Sides]:
            raise error
            yield

        return Row("r", "w", "a", TIME_UNIT, "", prepare)

    missing = run_row(refusing(NotRunnable("git is not installed")), bench, LESS)
    failing = run_row(refusing(ValueError("no such thing")), bench, LESS)
    assert missing["not_run"] == "git is not installed"
    assert failing["not_run"] == "failed: ValueError: no such thing"
    assert missing["ratio"] is None and missing["met"] is None
    assert "not run: git is not installed" in printed([missing])


def test_every_row_reports_the_same_keys(bench: Bench) -> None:
    """JSON rows have the keys that the report promises, whether the row ran or not."""
    got = run_row(row_of([1, 2], [1, 4]), bench, MORE)
    assert got.keys() >= ROW_KEYS
    assert (got["work"], got["scale"], got["reach"]) == ("some work", "small", 0.8)
    json.dumps(got, allow_nan=False)


def test_reach_table_names_every_row_at_both_scales() -> None:
    """reach.toml and the catalogue name the same rows, and each has a value for each scale."""
    table = load_reach(command.REACH_FILE)
    rows = catalogue.rows()
    assert [row.name for row in rows] == list(table)
    for row in rows:
        assert (table[row.name]["better"] == "more") == (row.unit == RATE_UNIT)
        assert all(reach_of(table[row.name], scale).value > 0 for scale in SCALES)


def test_list_names_the_rows_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """`--list` prints exactly the rows that have a reach value, in their order."""
    assert command.main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == list(load_reach(command.REACH_FILE))


def test_unknown_row_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """`--only` with a name that no row has ends with 2 instead of measuring nothing."""
    assert command.main(["--only", "append-1", "apend-4"]) == 2
    assert "apend-4" in capsys.readouterr().err


def test_table_shows_ours_anchor_ratio_and_reach(bench: Bench) -> None:
    """The printed table has both figures, their ratio, the reach with its direction, and the verdict."""
    text = printed([run_row(row_of([9, 1234.4], [9, 2468.8]), bench, MORE)])
    for part in ("some-row", "1,234/s", "2,469/s", "0.50×", "≥ 0.8", "no"):
        assert part in text


def test_the_page_of_figures_has_every_row_and_nothing_that_names_the_machine(bench: Bench) -> None:
    """Each row is on it: with its spread, or with the reason why it did not run."""

    def unable(_: Bench) -> AbstractContextManager[Sides]:
        raise NotRunnable("git is not installed")

    rows = [
        run_row(row_of([1.0, 3.0, 1.0, 2.0], [1.0, 1.0, 1.0, 1.0], TIME_UNIT), bench, LESS),
        run_row(replace(row_of([], []), name="other-row", prepare=unable), bench, LESS),
    ]
    about = {"machine": {**machine.machine(bench.directory), "idle": True}, "versions": machine.versions()}
    page = report.markdown({"scale": "small", "seed": 1, "rows": rows, **about})
    assert "| `some-row` | 2.00 s | 1.00 s | 2.00 | 1.00, 3.00 | ≤ 1.5 | **no**: noise |  |" in page
    assert "- `other-row`: git is not installed" in page
    assert "an idle machine" in page and platform.node() not in page and bench.directory not in page


def test_workload_repeats_for_a_seed_and_its_blocks_share_no_id() -> None:
    """The same seed gives the same events; blocks repeat texts but never an event id."""
    from benchmarks.workload import Blocks, generate
    from eventlog.log.line import decode_line

    assert generate(7, 300) == generate(7, 300)
    assert generate(7, 300) != generate(8, 300)
    blocks = Blocks(7, 300)
    lines = blocks.block(0) + blocks.block(1)
    ids = [decode_line(line)[0]["event_id"] for line in lines]
    assert len(set(ids)) == len(ids) == 600


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_repository_repeats_for_a_seed(tmp_path: Path) -> None:
    """The same seed gives the same commits, by their ids, and the number of them that was asked for."""
    from benchmarks.repository import make_repository

    def commits(name: str, seed: int) -> list[str]:
        make_repository(str(tmp_path / name), seed, commits=30, files=12)
        listed = subprocess.check_output(["git", "-C", str(tmp_path / name), "rev-list", "main"], text=True)
        return listed.split()

    once = commits("a", 5)
    assert len(once) == 30
    assert commits("b", 5) == once
    assert commits("c", 6)[0] != once[0]


def test_file_system_is_the_one_that_holds_the_directory(tmp_path: Path) -> None:
    """The machine's description names the file system of the benchmark's own directory."""
    output = subprocess.run(["stat", "-f", "-c", "%T", "/proc"], capture_output=True, text=True, check=False)
    if output.returncode:
        pytest.skip("this system's stat does not name file systems")
    assert machine.file_system("/proc") == output.stdout.strip() == "proc"
    assert machine.machine(str(tmp_path))["file_system"] != "proc"


def test_one_row_end_to_end(tmp_path: Path) -> None:
    """`python -m benchmarks --small --only append-1 --json FILE` measures, prints and writes, and exits 0."""
    file = tmp_path / "figures.json"
    command_line = [sys.executable, "-m", "benchmarks", "--small"]
    done = subprocess.run(
        [*command_line, "--only", "append-1", "--json", str(file), "--dir", str(tmp_path), "--seed", "3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(file.read_text(encoding="utf-8"))
    assert answer.keys() >= {"machine", "versions", "seed", "rows"}
    assert answer["seed"] == 3
    (row,) = answer["rows"]
    assert row["not_run"] is None
    assert row["ours"] > 0 and row["anchor_value"] > 0 and row["beside"]["sync ms"] > 0
    assert list(tmp_path.iterdir()) == [file], "the benchmark left files behind"
    assert "append-1" in done.stdout


def printed(rows: list[dict[str, object]]) -> str:
    console = Console(file=io.StringIO(), width=200)
    payload = {
        "scale": "small",
        "seed": 1,
        "rows": rows,
        "machine": {"cores": 2, "idle": True},
        "versions": {},
    }
    report.print_table(payload, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
