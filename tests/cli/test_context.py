"""`locus context`: from a refusal to a bundle, as a person meets it."""

import json
from pathlib import Path

import pytest

from tests.cli.support import Locus
from tests.memory.test_shared import git


@pytest.fixture
def work(tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a.py").write_text("def number():\n    return 1\n", "utf-8")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "begin")
    monkeypatch.chdir(root)
    assert locus("init").code == 0
    return root


def test_from_off_to_a_bundle_that_is_stale(work: Path, locus: Locus) -> None:
    """S2-5, S2-7, S2-12, S2-15, S2-17, S2-18, S2-19, S2-20, S2-26, S2-36: off, and how to turn it on; then
    write, bundle, change, validate, load."""
    refused = locus("context", "load", "parser")
    assert (refused.code, "[context]" in refused.err) == (3, True)
    (work / ".locus/config.toml").write_text("[context]\nshared = true\n", "utf-8")
    update = work.parent / "update.json"
    update.write_text(
        json.dumps({"working_summary": {"text": "numbers"}, "feature_request": "read"}), "utf-8"
    )
    unverified = locus("context", "write", "parser", update)
    assert (unverified.code, "verified checkpoint" in unverified.err) == (3, True)
    written = locus("context", "write", "parser", update, "--tests-passed", "--diff-applied")
    assert (written.code, written.err) == (0, "")
    assert locus("context", "load", "parser").code == locus("context", "validate", "parser").code == 0
    assert not list((work / ".locus/index").glob("search-*")), "what prints no bundle searches for nothing"
    fresh = locus("context", "bundle", "parser")
    assert list((work / ".locus/index").glob("search-*"))
    assert fresh.text.splitlines()[-2:] == ["## Summary", "- numbers"]
    for other in ("lexer", "printer"):
        assert locus("context", "write", other, update, "--tests-passed", "--diff-applied").code == 0
    assert locus("context", "bundle", "parser").text == fresh.text
    assert locus("context", "validate", "parser").code == 0

    (work / "a.py").write_text("changed\n", "utf-8")
    checked = locus("context", "validate", "parser", "--json")
    assert (checked.code, json.loads(checked.out)["scan_again"]) == (3, ["a.py"])
    status = json.loads(locus("context", "status", "--json").out)
    assert {(row["workstream_id"], row["stale"]) for row in status["entries"]} == {
        (name, True) for name in ("lexer", "parser", "printer")
    }
    assert "STALE: tracked files changed" in locus("context", "bundle", "parser").text
    loaded = json.loads(locus("context", "load", "parser").out)
    assert (loaded["stale"], loaded["entry"]["feature_request"]) == (True, "read")
    git(work, "checkout", "-q", "-b", "other")
    assert "feature_request" not in json.loads(locus("context", "load", "parser").out)["entry"]


def test_an_update_that_is_none_is_reported(work: Path, locus: Locus) -> None:
    """P6: what is wrong with it, and nothing is written."""
    (work / ".locus/config.toml").write_text("[context]\nshared = true\n", "utf-8")
    for data, words in (
        (b"{", "this is no JSON"),
        (b"[]", "a JSON object"),
        (b'{"checklist": 3}', "must be a list"),
    ):
        (work.parent / "update").write_bytes(data)
        ended = locus("context", "write", "parser", work.parent / "update")
        assert (ended.code, words in ended.err, ended.out) == (1, True, b"")

    assert not (work / "data").exists()
    assert locus("context", "write", "parser").code == 2
