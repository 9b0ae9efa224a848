"""`locus compare`: two attempts at one task, through the hook program and the command."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.hook_support import Agent, project
from tests.cli.support import Locus


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Two sessions that begin with the same files: the second after the first was undone by hand."""
    root = project(tmp_path_factory.mktemp("compare"))
    for number, (lines, extra) in enumerate((("fast\n", "one.py"), ("slow\n", "two.py"))):
        agent = Agent(root)
        agent.start()
        agent.prompt(f"Attempt {number}")
        agent.write("both.py", lines)
        agent.write("same.py", "same\n")
        agent.write(extra, "1\n")
        agent.bash("false" if number else "true")
        agent.stop(f"Done {number}")
        for name in ("both.py", "same.py", extra):
            if not number:
                (root / name).unlink()
    return root, []


@pytest.fixture
def work(recorded: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(recorded[0])
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    return recorded[0]


def names(locus: Locus) -> list[str]:
    """The turns, oldest first."""
    rows = [json.loads(line) for line in locus("log", "--json").text.splitlines()]
    return [str(row["context_id"]) for row in reversed(rows)]


def compared(locus: Locus, a: str, b: str) -> Any:
    ended = locus("compare", a, b, "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.text)["compare"]


def test_two_attempts_side_by_side(work: Path, locus: Locus) -> None:
    """P8: requests, outcomes, figures, unknown ones as that; files by what the sides did to them, and whether
    they began alike."""
    a, b = names(locus)
    done = compared(locus, a, b)

    assert [done[side]["request"] for side in "ab"] == ["Attempt 0", "Attempt 1"]
    assert [done[side]["outcome"] for side in "ab"] == ["Done 0", "Done 1"]
    assert [done[side]["errors"] for side in "ab"] == [0, 1]
    assert [done[side]["cost_usd"] for side in "ab"] == [None, None]
    # The hooks recorded no model call, so the tokens are unknown.
    assert [done[side][f"{part}_tokens"] for side in "ab" for part in ("prompt", "completion")] == [None] * 4
    assert done["files"] == {
        "same": ["same.py"], "only_a": ["one.py"], "only_b": ["two.py"], "differently": ["both.py"],
        "began_alike": True,
    }  # fmt: skip
    shown = locus("compare", a, b, "--diff").text
    assert "Attempt 0" in shown and "both, differently  1 file" in shown
    assert "-fast" in shown and "+slow" in shown
    tokens, cost = (line.split() for line in shown.splitlines() if line.startswith(("tokens", "cost")))
    assert (tokens, cost) == (["tokens", "unknown", "unknown"], ["cost", "unknown", "unknown"])


def test_sessions_are_compared_by_all_their_turns(work: Path, locus: Locus) -> None:
    """`session:ID` is the first request, the last outcome, and the sum over its turns."""
    a, b = (f"session:{name.removeprefix('turn:').rpartition('_')[0]}" for name in names(locus))
    done = compared(locus, a, b)

    assert done["a"]["turns"] == [names(locus)[0].removeprefix("turn:")] and done["a"]["turns"] != done["b"]
    assert done["files"]["differently"] == ["both.py"]
    assert locus("compare", a, "session:nothing1").code == 1


def test_other_beginnings_are_reported(work: Path, locus: Locus) -> None:
    """Compared with itself nothing differs; with another start, that is stated."""
    a, _ = names(locus)
    done = compared(locus, a, a)["files"]

    assert done["began_alike"] and done["only_a"] == done["only_b"] == done["differently"] == []
