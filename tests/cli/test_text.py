"""How the command line spells values, and how its tables keep their shape."""

import pytest

from eventlog import Result
from locus_cli import output, progress
from locus_cli.output import pairs, table


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (12_345, "12.3 kB"),
        (999_600, "1.0 MB"),
        (5 * 10**9, "5.0 GB"),
    ],
)
def test_sizes_have_three_digits(size_bytes: int, shown: str) -> None:
    """A size is shown in powers of a thousand with the unit that fits."""
    assert output.size(size_bytes) == shown


def test_counts_agree_with_their_noun() -> None:
    """One turn, but two turns; large numbers have separators."""
    assert (output.count(1, "turn"), output.count(0, "turn")) == ("1 turn", "0 turns")
    assert output.count(1234, "directory", "directories") == "1,234 directories"


def test_foreign_text_cannot_reach_the_terminal() -> None:
    """Escape sequences and direction marks of recorded text are made visible."""
    assert output.one_line("a\x1b[31mred\n  b") == "a\\x1b[31mred b"
    assert output.one_line("abc\u202etxt") == "abc\\u202etxt"
    assert output.lines("one\n\ttwo\r\x07") == "one\n\ttwo\\x0d\\x07"


def test_text_is_cut_to_columns_not_to_characters() -> None:
    """A wide character takes two columns, a combining one none."""
    assert output.columns("日本") == 4
    assert output.columns("e\u0301") == 1
    assert output.fit("日本語", 5) == "日本…"
    assert output.fit("abc", 3) == "abc"


def test_times_are_utc() -> None:
    """A time is shown in UTC whatever the machine's zone is; an unknown one is empty."""
    assert output.moment(1_772_366_400_000_000) == "2026-03-01 12:00"
    assert output.moment_exact(1_772_366_400_000_001) == "2026-03-01T12:00:00.000001Z"
    assert output.moment(None) == ""


def test_a_table_aligns_numbers_right_and_text_left() -> None:
    """Columns are as wide as their widest cell; trailing space is not printed."""
    assert table(("N", "NAME"), [("1", "a"), ("10", "bcd")], right=(0,)) == " N  NAME\n 1  a\n10  bcd\n"


def test_a_table_fits_a_narrow_terminal() -> None:
    """On a terminal the widest text gives way, numbers never do."""
    shown = table(("N", "NAME"), [("123456789", "x" * 100)], right=(0,), width=30)

    assert max(len(line) for line in shown.splitlines()) == 30
    assert "123456789" in shown
    assert "…" in shown


def test_pairs_without_a_value_are_left_out() -> None:
    """What is unknown is not shown as an empty line."""
    assert pairs([("a", "1"), ("long", ""), ("bb", "2")]) == "a   1\nbb  2\n"


def test_json_carries_a_version() -> None:
    """P8: every document and every line says the version of its shape."""
    assert b'"version": 1' in output.document({"a": 1})
    assert output.json_line({"a": 1}) == b'{"version":1,"a":1}\n'


def test_json_rows_are_one_array() -> None:
    """Rows of a query are an array of objects, also when there are none."""
    none, two = Result(("a",), (), [], False), Result(("a", "b"), (), [(1, None), (2, "x")], False)

    assert output.encoded(none, "json", to_file=True) == b"[]\n"
    assert output.encoded(two, "json", to_file=True) == b'[{"a":1,"b":null},\n {"a":2,"b":"x"}]\n'


def test_progress_tells_what_is_known() -> None:
    """Counts give a share and the time that is left; without them the time that has passed."""
    assert progress.line("commits", 100, 400, 2.0) == "commits: 100 of 400 (25 %), 6 s left"
    assert progress.line("sealing", 0, 0, 3.2) == "sealing: 3 s"
