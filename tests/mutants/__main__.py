"""Tries mutants: python -m tests.mutants [NAME…] [--json FILE] [--list] [--processes N]

For each mutant every test it names is run on the sound code, where it must pass (once for all mutants),
and on the mutant, where it must fail. A test that takes five times as long as on the sound code, and a
minute, counts as failed. Prints a table, and the names of those that survive; exit code 1 when one
survives that docs/mutants.md does not list, or one is killed that it lists.
"""

import argparse
import json
import queue
import sys
import tempfile
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.mutants.catalogue import MUTANTS, Mutant
from tests.mutants.ground import Ground, Run

_OUTPUT_SHOWN = 4000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What each of a mutant's tests reported of it, in their order."""

    mutant: Mutant
    runs: tuple[Run, ...]

    @property
    def is_killed(self) -> bool:
        return bool(self.runs) and all(run.outcome in ("failed", "hangs") for run in self.runs)

    @property
    def is_expected(self) -> bool:
        """Whether it is killed, or survives as the catalogue says."""
        return self.is_killed != bool(self.mutant.survives)

    @property
    def seconds(self) -> float:
        return sum(run.seconds for run in self.runs)

    def to_json(self) -> dict[str, object]:
        runs = [
            {"test": test, "outcome": run.outcome, "case": run.failed, "seconds": round(run.seconds, 1)}
            for test, run in zip(self.mutant.tests, self.runs, strict=True)
        ]
        return {
            "name": self.mutant.name,
            "breaks": sorted(f"I{number}" for number in self.mutant.invariants),
            "walls": list(self.mutant.walls),
            "requirements": list(self.mutant.requirements),
            "killed": self.is_killed,
            "seconds": round(self.seconds, 1),
            "tests": runs,
        }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=(__doc__ or "").split("\n\n", 1)[1])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a mutant, or the beginning of its name")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts there")
    parser.add_argument("--list", action="store_true", help="only name them")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="so many at once (2)")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the tests printed")
    given = parser.parse_args(arguments)
    chosen = [m for m in MUTANTS if not given.names or m.name.startswith(tuple(given.names))]
    if not chosen:
        parser.error("no mutant has such a name; --list shows them")
    if given.list:
        for mutant in chosen:
            print(f"{mutant.name}  [{takes_away(mutant)}]  {mutant.path}")
        return 0
    started = time.monotonic()
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="locus-mutants-") as scratch:
        trial = Trial(Path(scratch).resolve(), given.processes)
        with ThreadPoolExecutor(given.processes) as pool:
            for verdict in pool.map(trial.verdict, chosen):
                verdicts.append(verdict)
                show(verdict, verbose=given.verbose)
    seconds = time.monotonic() - started
    killed = sum(verdict.is_killed for verdict in verdicts)
    print(f"{len(verdicts)} mutants, {killed} killed, {seconds:.0f} s")
    strange = [verdict for verdict in verdicts if not verdict.is_expected]
    for words, some in (
        ("survived", [verdict for verdict in verdicts if not verdict.is_killed]),
        ("survived, and not listed", [verdict for verdict in strange if not verdict.is_killed]),
        ("killed, though listed", [verdict for verdict in strange if verdict.is_killed]),
    ):
        if some:
            print(f"{words}: {', '.join(verdict.mutant.name for verdict in some)}")
    if given.json:
        found = {"seconds": round(seconds, 1), "mutants": [verdict.to_json() for verdict in verdicts]}
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if strange else 0


def takes_away(mutant: Mutant) -> str:
    """What holds no longer, in few words."""
    return "; ".join(filter(None, (mutant.breaks, *mutant.walls, " ".join(mutant.requirements))))


def show(verdict: Verdict, *, verbose: bool) -> None:
    mutant = verdict.mutant
    payload = "killed" if verdict.is_killed else "SURVIVED"
    print(f"{payload:8} {verdict.seconds:6.1f} s  {mutant.name}  [{takes_away(mutant)}]", flush=True)
    for test, run in zip(mutant.tests, verdict.runs, strict=True):
        if verbose or not verdict.is_killed:
            print(f"         {run.outcome:7} {run.seconds:6.1f} s  {test}", flush=True)
        if verbose:
            print(run.output[-_OUTPUT_SHOWN:], flush=True)


class Trial:
    """Tries mutants in several copies at once. Whoever needs a test first runs it on the sound code."""

    def __init__(self, scratch: Path, processes: int) -> None:
        self._grounds: queue.Queue[Ground] = queue.Queue()
        for number in range(processes):
            self._grounds.put(Ground(scratch / str(number)))
        self._sound: dict[str, Future[Run]] = {}
        self._mutex = threading.Lock()

    def verdict(self, mutant: Mutant) -> Verdict:
        ground = self._grounds.get()
        try:
            runs = [self._tried(ground, mutant, test) for test in mutant.tests]
        finally:
            self._grounds.put(ground)
        return Verdict(mutant, tuple(runs))

    def _tried(self, ground: Ground, mutant: Mutant, test: str) -> Run:
        sound = self._on_sound_code(ground, test)
        if sound.outcome != "passed":
            return replace(sound, outcome="red without it")
        return ground.mutated(mutant, test, sound.seconds)

    def _on_sound_code(self, ground: Ground, test: str) -> Run:
        with self._mutex:
            asked = test not in self._sound
            found = self._sound.setdefault(test, Future())
        if asked:
            try:
                found.set_result(ground.sound(test))
            except BaseException as error:
                found.set_exception(error)
        return found.result()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
