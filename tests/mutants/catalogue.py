"""The catalogue of mutants: the TOML files beside this module, one for each part of the design.

A mutant is one step taken away: the text `old`, which is in the file `path` exactly once, becomes
`new`, and each of `tests` fails. What holds no longer is named by `breaks` (invariants of docs/design.md
§17), `walls` (attacks of docs/threat-model.md, each by the beginning of its row) and `requirements` (numbers
of docs/requirements.md). `survives` says why no test notices yet; docs/mutants.md lists these mutants. Pure
values; anybody may read them at once.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Mutant:
    """See the module's docstring. Tests are named as pytest takes them: file::function."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]
    breaks: str = ""
    walls: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    survives: str = ""

    @property
    def invariants(self) -> frozenset[int]:
        return frozenset(int(number) for number in re.findall(r"\bI(\d+)\b", self.breaks))

    def applied(self, text: str) -> str:
        """The text of the file with this change. Raises: ValueError unless `old` is there once."""
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.name}: its text is {found} times in {self.path}, not once")
        if self.old == self.new:
            raise ValueError(f"{self.name}: it changes nothing")
        return text.replace(self.old, self.new)


def read_all() -> tuple[Mutant, ...]:
    """Every mutant, by file and in the order of the files."""
    found = []
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
            lists = {name: tuple(entry.get(name, ())) for name in ("tests", "walls", "requirements")}
            found.append(Mutant(**{**entry, **lists}))
    return tuple(found)


MUTANTS = read_all()
