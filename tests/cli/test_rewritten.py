"""Git histories that were rewritten, and imports in parts: which turns are on the line."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.histories import History, git_tree_of_directory
from tests.cli.support import Locus, git


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus) -> Path:
    """A repository of four commits with an empty store, which is the working directory."""
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    git(root, "init", "-q", "-b", "main")
    for n in range(4):
        commit(root, f"c{n}")
    assert locus("init").code == 0
    return root


def commit(root: Path, title: str, *options: str) -> None:
    (root / "f").write_text(f"{title}\n")
    git(root, "add", "f")
    git(root, "commit", "-q", "-m", title, *options)


def rows(locus: Locus, sql: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(locus("sql", "--json", sql).out)
    return found


def rewritten(locus: Locus) -> list[str]:
    return [row["title"] for row in rows(locus, "select title from turns where rewritten order by title")]


def shown(locus: Locus, *arguments: str) -> list[str]:
    return [json.loads(line)["title"] for line in locus(*arguments, "--json").out.splitlines()]


def test_an_amended_commit_is_left_out(locus: Locus, project: Path) -> None:
    """P3: `log`, `history`, `stats` and `last` go by the line that git has now; --all has the rest."""
    locus("import", "git")
    commit(project, "c3 amended", "--amend")
    assert locus("import", "git", "--json").code == 0

    assert rewritten(locus) == ["c3"]
    assert shown(locus, "log") == ["c3 amended", "c2", "c1", "c0"]
    assert sorted(shown(locus, "log", "--all")) == ["c0", "c1", "c2", "c3", "c3 amended"]
    assert shown(locus, "history", "f") == ["c3 amended", "c2", "c1", "c0"]
    assert len(shown(locus, "history", "f", "--all")) == 5
    assert locus("cat", "last:f").out == b"c3 amended\n"
    for verb in (["log"], ["history", "f"], ["stats"], ["log", "--events"]):
        assert "1 turn of rewritten commits" in locus(*verb).err
    assert "rewritten" not in locus("log", "--events", "--all").err
    total = json.loads(locus("stats", "--json").out)
    assert (total["stats"]["total"]["turns"], total["stats"]["total"]["file_changes"]) == (4, 4)
    assert total["left_out"] == 1
    every = json.loads(locus("stats", "--json", "--all").out)["stats"]["total"]
    assert (every["turns"], every["file_changes"]) == (5, 5)


def test_the_old_line_comes_back(locus: Locus, project: Path) -> None:
    """A rebase drops commits, a reset brings them back, and nothing is recorded twice."""
    locus("import", "git")
    old = git(project, "rev-parse", "HEAD").strip()
    git(project, "reset", "-q", "--hard", "HEAD~2")
    commit(project, "new 2")
    commit(project, "new 3")
    locus("import", "git")
    assert rewritten(locus) == ["c2", "c3"]

    for _ in range(2):
        git(project, "reset", "-q", "--hard", old)
        report = json.loads(locus("import", "git", "--json").out)["import"]
        assert (report["commits"], report["rewritten"]) == (0, 2)
        assert rewritten(locus) == ["new 2", "new 3"]
        assert json.loads(locus("import", "git", "--json").out)["import"]["events"] == 0
        git(project, "reset", "-q", "--hard", "HEAD@{1}")
        locus("import", "git")
        assert rewritten(locus) == ["c2", "c3"]


def test_branches_are_lines_of_their_own(locus: Locus, project: Path) -> None:
    """What another recorded ref reaches is on a line; once that ref is rebased or deleted it is on none."""
    git(project, "checkout", "-q", "-b", "topic", "HEAD~1")
    commit(project, "topic 1")
    locus("import", "git")
    git(project, "checkout", "-q", "main")
    locus("import", "git")
    locus("import", "git", "--rev", "HEAD~1")
    assert rewritten(locus) == []

    git(project, "checkout", "-q", "topic")
    commit(project, "topic rebased", "--amend")
    git(project, "checkout", "-q", "main")
    locus("import", "git")
    assert rewritten(locus) == ["topic 1"]

    locus("import", "git", "--rev", "topic")
    assert rewritten(locus) == ["topic 1"]
    git(project, "branch", "-q", "-D", "topic")
    locus("import", "git")
    assert rewritten(locus) == ["topic 1", "topic rebased"]


def test_commits_of_merged_branches_are_recorded_when_asked_for(
    locus: Locus, project: Path, tmp_path: Path
) -> None:
    """P1: each is a turn with its files, in sessions that extend the one it began in; the line stays."""
    git(project, "checkout", "-q", "-b", "topic", "HEAD~2")
    for n in range(52):
        git(project, "commit", "-q", "--allow-empty", "-m", f"t{n}")
    commit(project, "topic")
    git(project, "checkout", "-q", "-b", "nested", "HEAD~1")
    (project / "other").write_text("other\n")
    git(project, "add", "other")
    git(project, "commit", "-q", "-m", "nested")
    git(project, "checkout", "-q", "topic")
    git(project, "merge", "-q", "--no-ff", "-m", "inner merge", "nested")
    git(project, "checkout", "-q", "main")
    git(project, "merge", "-q", "--no-ff", "-s", "ours", "-m", "outer merge", "topic")
    report = json.loads(locus("import", "git", "--json").out)["import"]
    assert (report["commits"], report["other_parents"]) == (5, 55)

    report = json.loads(locus("import", "git", "--all-parents", "--json").out)["import"]
    assert (report["commits"], report["skipped"], report["other_parents"]) == (55, 5, 0)
    assert json.loads(locus("import", "git", "--all-parents", "--json").out)["import"]["events"] == 0
    facts = "select event_id, session_id, turn from events where agent = 'git' order by all"
    parts = rows(locus, facts)
    placed = rows(locus, "select title from turns where line_place is not null order by line_place")
    assert [row["title"] for row in placed] == ["c0", "c1", "c2", "c3", "outer merge"]
    sessions = rows(locus, "select title, turn_count, len(extends) as links from sessions order by title")
    assert [tuple(row.values()) for row in sessions] == [
        ("c0", 5, 1),
        ("nested", 1, 2),
        ("t0", 50, 2),
        ("t50", 4, 2),
    ]
    for name in ("nested", "topic", "topic~1", "main"):
        out = tmp_path / name
        assert locus("replay", f"git:{git(project, 'rev-parse', name)}", "--to", out).code == 0
        assert git_tree_of_directory(str(out), {}) == git(project, "rev-parse", f"{name}^{{tree}}")
    assert rewritten(locus) == []

    (project / ".locus").rename(project.parent / "first")
    locus("init")
    locus("import", "git", "--all-parents")
    assert rows(locus, facts) == parts


def test_a_bare_repository_names_the_project_without_its_suffix(
    locus: Locus, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1-3: `kiosk.git` is the project kiosk, by `init` as by an import."""
    git(tmp_path, "clone", "-q", "--bare", str(project), "kiosk.git")
    monkeypatch.chdir(tmp_path / "kiosk.git")
    locus("init")
    locus("import", "git")
    names = rows(locus, "select project_name from sessions_master")
    assert names == [{"project_name": "kiosk"}]


def test_a_detached_head_is_no_line(locus: Locus, project: Path) -> None:
    """Looking at another commit drops nothing; an amended commit that no ref leads to is dropped."""
    git(project, "checkout", "-q", "--detach", "HEAD")
    locus("import", "git")
    git(project, "checkout", "-q", "HEAD~2")
    locus("import", "git")
    assert rewritten(locus) == []

    commit(project, "loose")
    locus("import", "git")
    commit(project, "loose again", "--amend")
    locus("import", "git")
    assert rewritten(locus) == ["loose"]


def test_a_line_whose_commits_are_gone_is_known_from_the_log(
    locus: Locus, project: Path, tmp_path: Path
) -> None:
    """A fresh clone has no dropped commits: what the branch led to is in the log."""
    locus("import", "git")
    git(project, "reset", "-q", "--hard", "HEAD~2")
    commit(project, "new")
    git(tmp_path, "clone", "-q", f"file://{project}", "clone")
    locus("import", "git", tmp_path / "clone")
    assert rewritten(locus) == ["c2", "c3"]


def test_a_limited_import_then_all_is_one_import(locus: Locus, project: Path, tmp_path: Path) -> None:
    """The same events under the same ids; sessions are closed and extend nothing that is not there."""
    history = History().put(b"f", b"")
    for n in range(110):
        history.commit(f"c{n}")
    path = history.write(str(tmp_path / "long"))
    facts = "select event_id, session_id, turn, extends, commit from events where agent = 'git' order by all"
    for limit in ("1", "70"):
        assert locus("import", "git", path, "--limit", limit).code == 0
        anchors = rows(
            locus,
            "select context_id, extends, status, ended_at is not null as ended, "
            "(select active_session from sessions_master) as active from sessions",
        )
        known = {row["context_id"] for row in anchors}
        assert {link for row in anchors for link in row["extends"] if link.startswith("session:")} <= known
        assert {(row["status"], row["ended"], row["active"]) for row in anchors} == {("closed", True, None)}
    assert locus("import", "git", path).code == 0
    parts = rows(locus, facts)
    places = rows(locus, "select line_place, session_id, turn from turns order by line_place")
    assert [row["line_place"] for row in places] == list(range(110))
    assert [row["turn"] for row in places] == [n % 50 + 1 for n in range(110)]

    (project / ".locus").rename(project.parent / "first")
    locus("init")
    locus("import", "git", path)
    assert rows(locus, facts) == parts
