"""Lines of what agents changed, from the hook to the figures."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from eventlog.base import identity
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.hooks import stored_contents
from eventlog.mcp import read
from eventlog.replay import line_counts
from eventlog.store import Store
from eventlog.worktree import staging
from eventlog.worktree.userfiles import UserFiles
from locus_cli.main import run
from tests.cli.hook_support import Agent, Codex, project
from tests.cli.test_hook_contents import after_a_tool, begun

ASK = "select operation, path, lines_added, lines_removed from files order by operation, path"


def maintain(root: Path) -> None:
    """The detached maintainer, waited for."""
    code = "import sys; from locus_cli.maintainer import main; main(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(root)], check=True)


def changes_in(told: Any) -> Iterator[tuple[Any, ...]]:
    """Path and lines of each change, wherever it is in a document."""
    if isinstance(told, dict):
        if told.get("event_type") == "file":
            yield told["path"], told.get("lines_added"), told.get("lines_removed")
        told = list(told.values())
    if isinstance(told, list):
        for one in told:
            yield from changes_in(one)


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
        assert "edit src/app.py +1 −0" in "".join(read.timeline(store, "last"))
    with duckdb.connect(str(tmp_path / "log.duckdb"), read_only=True) as con:
        assert con.execute(sums).fetchall() == [(5, 3)]
    assert run(["--store", str(root), "stats"]) == 0
    assert "5 (4 worked, 0 failed, 1 unknown)" in capsys.readouterr().out


def test_a_change_of_deferred_contents_has_lines_once_they_are_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S1-31, P7: large files whose contents the hook left to be stored later, on either side of a change."""
    work = project(tmp_path)
    layout = Layout(str(work / ".locus"))
    lines = "".join(f"{n} {'x' * 1000}\n" for n in range(1100))
    begun(work)
    for name in ("big.txt", "old.txt", "lost.txt"):
        (work / name).write_text(lines)
    (job,) = after_a_tool(work).jobs
    kept = [file for file in job.files if file.path != b"lost.txt"]
    copies = staging.stage(REAL, layout, UserFiles(), str(work), kept)
    (work / "big.txt").write_text(lines + "one more\n")
    (work / "old.txt").write_text("short now\n")
    (work / "lost.txt").write_text(lines + "the first are lost\n")
    after_a_tool(work)  # nobody has stored anything yet

    def rows() -> list[tuple[Any, ...]]:
        with Store.open(work / ".locus") as store:
            found = store.query(ASK).rows
            assert store.query(ASK.replace("files", "file_versions")).rows == found
            events = [dict(event) for event in store.events(event_types=["file"])]
            store.line_counts.fill(events)
            shown = {(e["operation"], e["path"], e["lines_added"], e["lines_removed"]) for e in events}
            shown |= {(v.operation, v.path, v.lines_added, v.lines_removed) for v in store.history("old.txt")}
            assert shown == set(found)
        return found

    paths = ("big.txt", "lost.txt", "old.txt")
    unknown = [(operation, path, None, None) for operation in ("add", "edit") for path in paths]
    assert rows() == unknown
    stored_contents.store_all(REAL, layout, identity.read(REAL, layout), copies=copies, copied=str(work))
    wanted = [
        ("add", "big.txt", 1100, 0), ("add", "lost.txt", None, None), ("add", "old.txt", 1100, 0),
        ("edit", "big.txt", 1, 0), ("edit", "lost.txt", None, None), ("edit", "old.txt", 1, 1100),
    ]  # fmt: skip
    assert rows() == wanted
    maintain(Path(layout.root))
    with Store.open(work / ".locus") as store:
        assert store.count_lines() == 0, "maintenance has counted these, too"
        store.seal()
    assert rows() == wanted
    capsys.readouterr()
    assert run(["--store", layout.root, "stats", "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["stats"]["total"]
    assert (total["lines_added"], total["lines_removed"], total["lines_unknown"]) == (2202, 1100, 2)
    assert run(["--store", layout.root, "export", "duckdb", str(tmp_path / "log.duckdb")]) == 0
    with duckdb.connect(str(tmp_path / "log.duckdb"), read_only=True) as con:
        assert con.execute(ASK).fetchall() == wanted
