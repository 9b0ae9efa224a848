"""The command line: `python -m benchmarks [--small] [--only NAME …] [--json FILE] …`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import catalogue, machine, report
from benchmarks.frame import RUN_S, Bench, load_reach, run_row

REACH_FILE = os.path.join(os.path.dirname(__file__), "reach.toml")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rows asked for. Returns the exit code: 1 only with --strict and a row missed or not run."""
    options = _parser().parse_args(arguments)
    reach = load_reach(REACH_FILE)
    rows = catalogue.rows()
    if options.list:
        for row in rows:
            print(f"{row.name:18} {row.work}")
        return 0
    names = [name for given in options.only or [] for name in given]
    unknown = sorted(set(names) - {row.name for row in rows})
    if unknown:
        print(f"no row named {', '.join(unknown)}; --list shows all", file=sys.stderr)
        return 2
    chosen = [row for row in rows if not names or row.name in names]
    directory = tempfile.mkdtemp(prefix="locus-bench-", dir=options.dir or _default_directory())
    try:
        bench = Bench(
            "small" if options.small else "full",
            options.seed,
            directory,
            options.repo,
            options.transcripts,
            options.repos,
            options.events,
        )
        result: dict[str, Any] = {
            "machine": machine.machine(directory),
            "versions": machine.versions(),
            "seed": options.seed,
            "scale": bench.scale,
            "rows": [],
        }
        if result["machine"]["idle"] is False:
            print(f"others keep {result['machine']['busy']} processors busy: distrust times", file=sys.stderr)
        ends_at = time.monotonic() + RUN_S[bench.scale]
        for number, row in enumerate(chosen):
            print(f"[{number + 1}/{len(chosen)}] {row.name}: {row.work}", file=sys.stderr, flush=True)
            budget_s = (ends_at - time.monotonic()) / (len(chosen) - number)
            result["rows"].append(run_row(row, bench, reach[row.name], budget_s))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report.print_table(result)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=2, ensure_ascii=False)
            file.write("\n")
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            file.write(report.markdown(result))
    return int(options.strict and not all(row["met"] for row in result["rows"]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description="Measure Locus against its anchors.")
    parser.add_argument(
        "--small",
        action="store_true",
        help="a tenth of the work; takes a quarter of an hour, most of it preparations",
    )
    parser.add_argument("--only", nargs="+", action="append", metavar="NAME", help="only these rows")
    parser.add_argument("--json", metavar="FILE", help="also write everything measured as JSON")
    parser.add_argument("--markdown", metavar="FILE", help="also write the figures as a page")
    parser.add_argument("--seed", type=int, default=1, help="of the synthetic events and repository (1)")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    parser.add_argument(
        "--strict", action="store_true", help="exit 1 when a reach is missed or a row not run"
    )
    parser.add_argument(
        "--repo", metavar="PATH", help="import and replay this repository, not a synthetic one"
    )
    parser.add_argument(
        "--repos", metavar="DIR", help="repack the histories of the repositories in it, not this project's"
    )
    parser.add_argument(
        "--transcripts",
        metavar="DIR",
        help="import these, below a directory for each agent, not synthetic ones",
    )
    parser.add_argument(
        "--events", type=int, metavar="N", help="so many in the large logs, not 300,000 or 3 and 10 million"
    )
    parser.add_argument("--dir", metavar="DIR", help="work below this directory; its file system is measured")
    return parser


def _default_directory() -> str:
    """The directory for temporary files, unless it is in memory, where a sync costs nothing."""
    temporary = tempfile.gettempdir()
    return os.getcwd() if machine.file_system(temporary) in ("tmpfs", "ramfs") else temporary


if __name__ == "__main__":
    sys.exit(main())
