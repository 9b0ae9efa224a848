"""The command line: `python -m benchmarks.secrets [--json FILE] [--gitleaks RULES] [--history DIR …] …`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.secrets import generator, measure
from benchmarks.secrets.gitleaks import Rules

_DOORS = ("hooks", "hook_contents", "bulk", "bulk_contents", "gitleaks")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and write the JSON asked for."""
    options = _parser().parse_args(arguments)
    rules = Rules(options.gitleaks) if options.gitleaks else None
    rows, missed = measure.recall(generator.kinds(), options.each, options.seed, rules)
    result: dict[str, Any] = {"seed": options.seed, "each": options.each, **_summary(rows)}
    if options.held_out_kinds:
        result["held_out"]["kinds"] = {name: row for name, row in rows.items() if row["held_out"]}
    if rules is not None:
        result["gitleaks"] = {"rules": rules.count, "without_expression": rules.left_out}
    for directory in options.corpus or (() if options.no_corpus else measure.default_corpora()):
        _say(f"source of {directory}")
        done = measure.false_finds(directory, options.corpus_mb * 1_000_000, rules)
        result.setdefault("false_finds", []).append(done)
    for directory in options.history or ():
        _say(f"history of {directory}")
        result.setdefault("histories", []).append(measure.history(directory, options.commits))
    _print(result)
    if options.misses:
        held_out = {kind.name for kind in generator.kinds(held_out=True)}
        for door, sample in missed:
            if sample.kind not in held_out and sample.kind in options.misses:
                print(f"{sample.kind} missed by {door}: {sample.text!r}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=2, ensure_ascii=False)
            file.write("\n")
    return 0


def _summary(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Of open kinds each; of held-out ones sums, so that nobody learns from a run which they are."""

    def part(held_out: bool) -> dict[str, Any]:
        some = [row for row in rows.values() if row["held_out"] == held_out]
        groups = sorted({row["group"] for row in some})
        return {
            "all": measure.shares(some),
            "groups": {name: measure.shares(r for r in some if r["group"] == name) for name in groups},
        }

    open_kinds = {name: row for name, row in rows.items() if not row["held_out"]}
    return {"open": {**part(False), "kinds": open_kinds}, "held_out": part(True)}


def _print(result: dict[str, Any]) -> None:
    print(f"{'recall':34}{'kinds':>6}" + "".join(f"{door:>15}" for door in _DOORS))
    for part in ("open", "held_out"):
        for name, row in [(part, result[part]["all"]), *sorted(result[part]["groups"].items())]:
            label = name if name == part else f"  {name}"
            shares = "".join(f"{_percent(row[door]):>15}" for door in _DOORS)
            print(f"{label:34}{row['kinds']:>6}{shares}")
    for row in result.get("false_finds", ()):
        theirs = f", gitleaks {row['gitleaks_per_mb']}" if "gitleaks_per_mb" in row else ""
        size = f"{row['finds']} in {row['bytes']:,} bytes"
        print(f"{row['corpus']}: {row['finds_per_mb']} finds/MB{theirs} ({size})")
    for row in result.get("histories", ()):
        share = 100 * row["incomplete"] / max(row["turns"], 1)
        print(f"{row['history']}: {row['incomplete']} of {row['turns']} turns incomplete ({share:.2f} %)")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.secrets", description="Measure what Locus takes for a secret."
    )
    parser.add_argument("--each", type=int, default=40, metavar="N", help="samples of each kind (40)")
    parser.add_argument("--seed", type=int, default=1, help="of the samples (1)")
    parser.add_argument("--json", metavar="FILE", help="also write everything measured as JSON")
    parser.add_argument(
        "--gitleaks", metavar="FILE", help="gitleaks' config/gitleaks.toml: a column beside ours"
    )
    parser.add_argument(
        "--corpus",
        nargs="+",
        metavar="DIR",
        help="source without secrets, instead of Python's library and what is installed",
    )
    parser.add_argument("--no-corpus", action="store_true", help="leave out the finds in ordinary source")
    parser.add_argument("--corpus-mb", type=int, default=60, metavar="N", help="so much of each corpus (60)")
    parser.add_argument("--history", nargs="+", metavar="DIR", help="import these git repositories")
    parser.add_argument("--commits", type=int, metavar="N", help="only the newest N of each history")
    parser.add_argument(
        "--held-out-kinds",
        action="store_true",
        help="also each held-out kind; not for authors of rules",
    )
    parser.add_argument("--misses", nargs="+", metavar="KIND", help="print the misses of these open kinds")
    return parser


if __name__ == "__main__":
    sys.exit(main())
