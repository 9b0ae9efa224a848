"""Long work says where it is: every command that may take long has a progress line around its work."""

from pathlib import Path

import pytest

from locus_cli.progress import Progress
from tests.cli.support import Locus, Recorded

# With what each works here; @OUT@ is a name that is free.
VERBS = (
    ("import", "git"),
    ("import", "claude-code", "@LINES@"),
    ("import", "jsonl", "@LOG@"),
    ("export", "jsonl", "--to", "@OUT@"),
    ("export", "parquet", "--to", "@OUT@"),
    ("export", "duckdb", "--to", "@OUT@"),
    ("export", "atif", "--to", "@OUT@"),
    ("export", "otlp", "--to", "@OUT@"),
    ("export", "agent-trace", "--to", "@OUT@"),
    ("export", "locusgraph", "--to", "@OUT@"),
    ("store", "verify"),
    ("store", "repair"),
    ("store", "repack"),
    ("store", "gc"),
    ("store", "backup", "@OUT@"),
    ("store", "salvage", "@OUT@"),
    ("store", "seal"),
    ("store", "compact"),
    ("store", "rebuild"),
    ("store", "du"),
    ("store", "erase", "--path", "data.bin", "--yes"),
    ("replay", "last:git", "--to", "@OUT@"),
    ("restore", "last:git", "--yes"),
    ("search", "--wait", "sample"),
    ("report", "--html", "@OUT@"),
    ("stats",),
    ("doctor",),
    ("sql", "select 1"),
)
_LINE = (
    '{"type":"user","uuid":"1","sessionId":"s","timestamp":"2026-03-01T12:00:00Z",'
    '"message":{"content":"Hi"}}\n'
)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_work_that_may_take_long_says_where_it_is(
    verb: "tuple[str, ...]", copied: Recorded, locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: also without a terminal, where a line comes every half minute (test_progress.py)."""
    (tmp_path / "lines.jsonl").write_text(_LINE)
    assert locus("export", "jsonl", "--to", tmp_path / "log.jsonl").code == 0
    names = {"@OUT@": tmp_path / "out", "@LINES@": tmp_path / "lines.jsonl", "@LOG@": tmp_path / "log.jsonl"}
    enter, begun = Progress.__enter__, tmp_path / "begun"

    def shown(self: Progress) -> Progress:
        begun.write_text(self._what)  # in a file, since some work is a child's
        return enter(self)

    monkeypatch.setattr(Progress, "__enter__", shown)
    ended = locus(*(names.get(word, word) for word in verb))

    assert ended.code in ((0, 1) if verb == ("doctor",) else (0, 4)), ended.err
    assert begun.read_text()
