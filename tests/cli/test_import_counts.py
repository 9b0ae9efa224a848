"""What `locus import git` counts: the events that the log got, and contents that look like secrets."""

import json
from pathlib import Path

from tests.cli.support import git, locus_process
from tests.secrets_made import made


def test_an_import_of_commits_says_how_many_contents_look_like_secrets(tmp_path: Path) -> None:
    """P5: the number and what lists them, once each; its count of events agrees with `status`."""
    secret = made()["npm"]
    git(tmp_path, "init", "-q", "-b", "main")
    for number in range(3):
        (tmp_path / "settings.py").write_text(f"token = '{secret}'\nnumber = {number}\n" if number else "")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", f"Change {number}", at=number)
    assert locus_process("init", cwd=tmp_path).code == 0

    first = locus_process("import", "git", "--json", cwd=tmp_path)
    report = json.loads(first.out)["import"]
    status = json.loads(locus_process("status", "--json", cwd=tmp_path).out)["status"]
    assert (first.code, report["withheld"], report["events"]) == (0, 2, status["events"])
    ((paths, kinds),) = {
        (tuple(one["paths"]), tuple(one["kinds"]))
        for one in json.loads(
            locus_process("sql", "--format", "json", "from withheld_contents", cwd=tmp_path).out
        )
    }
    assert paths == ("settings.py",) and "npm-token" in kinds

    (tmp_path / "other.py").write_text(f"token = '{secret}'\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "One more", at=9)
    again = locus_process("import", "git", cwd=tmp_path)
    assert "1 content looks like it holds a secret" in again.err
    assert 'locus sql "from withheld_contents"' in again.err
