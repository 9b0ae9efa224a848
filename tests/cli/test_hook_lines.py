"""Lines of what agents changed, from the hook to the figures."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from eventlog.replay import line_counts
from eventlog.serve import mcp_read
from eventlog.store import Store
from locus_cli.main import run
from tests.cli.hook_support import Agent, Codex, project


def maintain(root: Path) -> None:
    """The detached maintainer, waited for."""
    code = "import sys; from locus_cli.maintainer import main; main(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(root)], check=True)


def changes_in(told: Any) -> Iterator[tuple[Any, ...]]:
    """Path and lines of each change, wherever it stands in a document."""
    if isinstance(told, dict):
        if told.get("event_type") == "file":
            yield told["path"], told.get("lines_added"), told.get("lines_removed")
        told = list(told.values())
    if isinstance(told, list):
        for one in told:
            yield from changes_in(one)


@pytest.mark.fast
def test_every_change_of_an_agent_has_lines_and_its_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S1-31, S1-55, I21: whatever tool wrote a file, with SQL, `stats` and `timeline` of one mind, before and
    after maintenance counted, in the tail and sealed."""
    work = project(tmp_path)
    root = work / ".locus"

    def locus(*words: str) -> Any:
        return json.loads(printed(*words))

    def printed(*words: str) -> str:
        capsys.readouterr()
        assert run(["--store", str(root), *words, "--json"]) == 0
        return capsys.readouterr().out

    def lines_of(*words: str) -> list[Any]:
        return [json.loads(line) for line in printed(*words).splitlines()]

    agent = Agent(work)
    agent.start()
    agent.prompt("Change much")
    written = agent.write("new.txt", "1\n2\n3\n")
    edited = agent.edit("src/app.py", "print('one')", "print('two')")
    shell = agent.bash("sed -i 2d new.txt; printf 'a\\0' > binary; git rm -q readme.md")
    agent.stop()
    codex = Codex(work)
    codex.start()
    codex.prompt("Patch")
    patched = codex.patch("…", lambda: (work / "src/app.py").write_text("print('two')\nprint('three')\n"))
    codex.shell("mv new.txt moved.txt")
    codex.stop()
    wanted = {
        ("add", "new.txt", 3, 0, "Write", written),
        ("edit", "src/app.py", 1, 1, "Edit", edited),
        ("edit", "new.txt", 0, 1, "Bash", shell),
        ("add", "binary", None, None, "Bash", shell),
        ("delete", "readme.md", 0, 1, "Bash", shell),
        ("edit", "src/app.py", 1, 0, "apply_patch", patched),
    }
    ask = "select operation, path, lines_added, lines_removed, tool, tool_use_id from files"
    sums = "select sum(lines_added)::bigint as n, sum(lines_removed)::bigint as m from files"

    def check() -> None:
        found = {tuple(row.values()) for row in locus("sql", ask)}
        moved = {row for row in found if "moved.txt" in row}
        assert found - moved == wanted
        assert [row[:4] for row in moved] == [("rename", "moved.txt", 0, 0)]
        assert [tuple(row.values()) for row in locus("sql", sums)] == [(5, 3)]
        total = locus("stats")["stats"]["total"]
        assert (total["lines_added"], total["lines_removed"], total["lines_unknown"]) == (5, 3, 1)
        assert (total["tool_succeeded"], total["tool_failed"], total["tool_unknown"]) == (4, 0, 1)
        events = [e for e in locus("timeline", "last")["events"] if e["event_type"] == "file"]
        lines = {(e["path"], e["lines_added"], e["lines_removed"]) for e in events}
        assert lines == {("src/app.py", 1, 0), ("moved.txt", 0, 0)}

    check()
    maintain(root)
    assert (root / "index" / line_counts.NAME).exists()
    with Store.open(root) as store:
        store.seal()
    check()
    shown = lines_of("log", "--type", "file")
    logged = {(e["path"], e.get("lines_added"), e.get("lines_removed")) for e in shown}
    assert {row[1:4] for row in wanted} <= logged
    for words in (["duckdb", str(tmp_path / "log.duckdb")], ["atif", "--to", str(tmp_path / "log.atif")]):
        assert run(["--store", str(root), "export", *words]) == 0
    trajectories = [json.loads(line) for line in (tmp_path / "log.atif").read_text().splitlines()]
    assert {("readme.md", 0, 1), ("moved.txt", 0, 0)} <= set(changes_in(trajectories))
    with Store.open(root) as store:
        assert "edit src/app.py +1 −0" in "".join(mcp_read.timeline(store, "last"))
    with duckdb.connect(str(tmp_path / "log.duckdb"), read_only=True) as con:
        assert con.execute(sums).fetchall() == [(5, 3)]
    assert run(["--store", str(root), "stats"]) == 0
    assert "5 (4 worked, 0 failed, 1 unknown)" in capsys.readouterr().out
