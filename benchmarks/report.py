"""The tables of a run: what it prints, and the page that docs keep."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.frame import BYTES_UNIT, MEMORY_UNIT, RATE_UNIT, REQUESTS_UNIT, Reach


def print_table(result: dict[str, Any], console: Console | None = None) -> None:
    """One line a row, then what was printed beside the rows, then the machine."""
    console = console or Console(width=None if Console().is_terminal else 150)
    table = Table(title=f"Locus benchmarks, {result['scale']} scale, seed {result['seed']}")
    for name in ("row", "work", "anchor"):
        table.add_column(name, overflow="fold")
    for name in ("ours", "anchor value", "ratio", "reach"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("met")
    for row in result["rows"]:
        table.add_row(*_cells(row))
    console.print(table)
    for row in result["rows"]:
        for line in _notes(row):
            console.print(Text(line))
    if result["machine"]["idle"] is False:
        console.print(Text("The machine was not idle when this began: distrust times.", "yellow"))
    payload = {**result["machine"], **result["versions"]}
    console.print(Text("; ".join(f"{name} {value}" for name, value in payload.items())))


_SHOWN = (
    "cpu",
    "cores",
    "kernel",
    "file_system",
    "python",
    "duckdb",
    "pyarrow",
    "sqlite",
    "git",
    "orjson",
    "blake3",
)


def markdown(result: dict[str, Any]) -> str:
    """The figures of a run as a page: each row with its ratio, where its samples lay, and whether it is met.

    Nothing in it names the machine, only what kind it is.
    """
    facts = {**result["machine"], **result["versions"]}
    idle = "an idle machine" if facts["idle"] else "a machine with other work"
    kind = ", ".join(f"{name.replace('_', ' ')} {facts[name]}" for name in _SHOWN if name in facts)
    lines = [
        f"# Figures of one run, {result['scale']} scale",
        "",
        f"Made by `scripts/bench --markdown`, seed {result['seed']}, on {idle}: {kind}.",
        "[Benchmarks](benchmarks.md) has what each row pairs, what bounds it and where the misses come from.",
        "*Least, greatest* are the ratios of neighbouring samples; a miss is *noise* where one of them meets",
        "the reach. *Exponent* is how the cost grows with the log: 0 not at all, 1 as the log does.",
        "",
        "| row | ours | anchor | ratio | least, greatest | reach | met | exponent |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [_line(row) for row in result["rows"] if row["ratio"] is not None]
    not_run = [row for row in result["rows"] if row["ratio"] is None]
    if not_run:
        lines += ["", "Not run:", "", *(f"- `{row['name']}`: {row['not_run']}" for row in not_run)]
    return "\n".join(lines) + "\n"


def _line(row: dict[str, Any]) -> str:
    low, high = row["ratio_spread"]
    cells = [
        f"`{row['name']}`",
        figure(row["ours"], row["unit"]),
        figure(row["anchor_value"], row["unit"]),
        f"{row['ratio']:.2f}",
        f"{low:.2f}, {high:.2f}",
        Reach(row["reach"], row["better"] == "more").text(),
        "yes" if row["met"] else f"**no**: {row['miss']}",
        "" if row["exponent"] is None else f"{row['exponent']:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def _cells(row: dict[str, Any]) -> list[str | Text]:
    reach = Reach(row["reach"], row["better"] == "more").text()
    if row["ratio"] is None:
        return [row["name"], row["work"], row["anchor"], "–", "–", "–", reach, Text("not run", "yellow")]
    met = Text("yes", "green") if row["met"] else Text(f"no: {row['miss']}", "red")
    return [
        row["name"],
        row["work"],
        row["anchor"],
        figure(row["ours"], row["unit"]),
        figure(row["anchor_value"], row["unit"]),
        f"{row['ratio']:.2f}×",
        reach,
        met,
    ]


def _notes(row: dict[str, Any]) -> list[str]:
    if row["ratio"] is None:
        return [f"{row['name']}: not run: {row['not_run']}"]
    unit = row["unit"]
    low, high = row["ratio_spread"]
    spreads = [
        f"{name} {figure(values[0], unit)} to {figure(values[1], unit)}"
        for name, values in (("ours", row["ours_spread"]), ("anchor", row["anchor_spread"]))
    ]
    beside = [
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in row["beside"].items()
    ]
    parts = [row["size"], f"{row['rounds']} rounds", *spreads, f"ratio {low:.2f} to {high:.2f}", *beside]
    if row["tenth"] is not None:
        tenth = row["tenth"]
        parts.append(f"at a tenth: {figure(tenth['ours'], unit)}, ratio {tenth['ratio']:.2f}")
    if row["exponent"] is not None:
        parts.append(f"exponent {row['exponent']:.2f}")
    return [f"{row['name']}: {'; '.join(parts)}"]


def figure(value: float, unit: str) -> str:
    """A measured value with its unit, to three figures."""
    if unit == RATE_UNIT:
        return f"{value:,.0f}/s"
    if unit == BYTES_UNIT:
        return f"{value:,.0f} B"
    if unit == REQUESTS_UNIT:
        return f"{value:,.0f}"
    if unit == MEMORY_UNIT:
        return f"{value:,.0f} MB"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.3g} ms"
