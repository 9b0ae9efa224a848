"""Patches without line numbers, applied to contents that are known: exactly, or not at all."""

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.agents.kit.patches import apply_section, edits_of, patch_in

LINES = st.lists(st.sampled_from(["a", "b", "c", "", " x", "+", "-"]), max_size=12)


def section(*lines: str) -> str:
    return "\n".join(["*** Update File: a.py", *lines])


@given(LINES, LINES)
def test_a_patch_with_all_its_context_gives_what_it_says(before: list[str], after: list[str]) -> None:
    """P7: with the whole file as context there is one place for each line, and the result is exact."""
    marked = [line for line in difflib.ndiff(before, after) if not line.startswith("?")]
    patch = section("@@", *(line[0] + line[2:] for line in marked))
    result = apply_section("".join(f"{line}\n" for line in before).encode(), patch)

    if before:
        blank = after[-1:] == [""]  # clients differ in whether such an end stays
        assert result == (None if blank else "".join(f"{line}\n" for line in after).encode())


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        ("a\nb\na\nb\n", ["@@", " a", "-b", "+c"], "a\nc\na\nb\n"),  # the first place
        ("f\na\ng\na\n", ["@@ g", "-a", "+b"], "f\na\ng\nb\n"),  # after the line that is named
        ("a\nx\na\nx\n", ["@@", "-a", "+b", "@@", "-a", "+c"], "b\nx\nc\nx\n"),  # one after the other
        ("a\nb\na\n", ["@@", "-a", "+z", "*** End of File"], "a\nb\nz\n"),  # at the end
        ("a\n", ["@@", "+b"], "a\nb\n"),  # nothing to find: at the end
        ("a", ["@@", "-a", "+b"], "b\n"),  # the client ends a file with a newline
        ("a\n", ["-a", "+b"], "b\n"),  # the first needs no mark
        ("  a\n", ["@@", "-a", "+b"], None),  # Codex may be lenient here: unknown
        ("a\n", ["@@ gone", "-a", "+b"], None),
        ("a\r\n", ["@@", "+b"], None),  # which end the new line has depends on the version
        ("a\n", ["@@", "?a"], None),
        ("", ["@@", ""], None),
    ],
)
def test_a_hunk_is_found_where_codex_finds_it_or_nowhere(
    before: str, lines: list[str], after: str | None
) -> None:
    """P7: what is not there exactly is unknown, not guessed."""
    result = apply_section(before.encode(), section(*lines))
    assert result == (None if after is None else after.encode())


def test_a_patch_names_its_files() -> None:
    """P7: added, updated, moved and deleted files, in the order of the text, with counts of lines."""
    text = (
        "*** Begin Patch\n*** Add File: a\n+1\n+2\n*** Update File: b\n*** Move to: c\n@@\n-x\n+y\n+z\n"
        "*** Delete File: d\n*** End Patch"
    )
    found = [
        (one.kind, one.path, one.old_path, one.content, one.added, one.removed) for one in edits_of(text)
    ]

    assert found == [
        ("write", "a", None, "1\n2\n", 2, None),
        ("patch", "c", "b", None, 2, 1),
        ("delete", "d", None, None, None, None),
    ]
    assert patch_in(f"cd x && apply_patch <<'EOF'\n{text}\nEOF") == text
    assert patch_in("*** Begin Patch\n*** Add File: a\n+1") is None


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_patch_is_too_strange(text: str, before: str) -> None:
    """P7: any text is read as a patch, which may be none."""
    whole = patch_in(f"*** Begin Patch\n*** Update File: a\n{text}\n*** End Patch")
    assert whole is not None
    for edit in edits_of(whole):
        if edit.patch is not None:
            apply_section(before.encode("utf-8", "surrogatepass"), edit.patch)
