"""Unified diffs, held against those that real programs write."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.agents.kit.unified import agrees, apply_patch

LINES = st.lists(st.sampled_from(["a", "b", "", " c", "\td", "-e", "+f", "\\ g", "@@ h", "é\r", "--- i"]))
ENDS = st.sampled_from(["\n", "\r\n"])


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Contents with many equal lines, both line ends, and none at the end now and then."""
    text = "".join(line + draw(ENDS) for line in draw(LINES))
    return text.encode() if draw(st.booleans()) else text.encode().removesuffix(b"\n").removesuffix(b"\r")


def diff(tmp_path: Path, before: bytes, after: bytes, program: str, context: int = 3) -> str:
    (tmp_path / "before").write_bytes(before)
    (tmp_path / "after").write_bytes(after)
    if program == "git":
        command = ["git", "diff", "--no-index", "--no-ext-diff", "--text", "--no-color"]
    else:
        command = ["diff", "--text"]
    done = subprocess.run(
        [*command, f"-U{context}", "before", "after"], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.decode()


@pytest.fixture(scope="module", params=["git", "diff"])
def program(request: pytest.FixtureRequest) -> str:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not here")
    return str(request.param)


@given(before=texts(), after=texts(), context=st.integers(0, 3))
def test_a_diff_of_a_real_program_gives_the_content_after(
    program: str, tmp_path_factory: pytest.TempPathFactory, before: bytes, after: bytes, context: int
) -> None:
    """P7: applied to the content before, a diff gives exactly the content after; and it agrees with it."""
    patch = diff(tmp_path_factory.mktemp("diff"), before, after, program, context)
    assert apply_patch(before, patch) == after
    assert agrees(before, patch)


@given(before=texts(), after=texts(), other=texts())
def test_a_diff_that_does_not_fit_gives_nothing_or_what_the_real_program_gives(
    tmp_path_factory: pytest.TempPathFactory, before: bytes, after: bytes, other: bytes
) -> None:
    """P7: on a content that it was not made of, a diff gives no wrong one: None, or what git makes of it."""
    tmp_path = tmp_path_factory.mktemp("other")
    patch = diff(tmp_path, before, after, "git")
    found = apply_patch(other, patch)
    if found is None or before == after:
        return
    (tmp_path / "before").write_bytes(other)
    (tmp_path / "a.patch").write_text(patch.replace("b/after", "b/before"), newline="")
    command = ["git", "apply", "--unidiff-zero", "a.patch"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "before").read_bytes() == found


@given(before=texts(), patch=st.text(alphabet="@-+ 0123,ab\n\\"))
def test_no_text_makes_it_fail(before: bytes, patch: str) -> None:
    """Whatever is given as a diff, there is an answer."""
    apply_patch(before, patch)
    agrees(before, patch)


def test_damaged_diffs_give_nothing() -> None:
    """P7: lines that are missing or too many, a place that is not there, a newline lost in the middle."""
    before = b"a\nb\nc\n"
    whole = "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c"
    assert apply_patch(before, whole) == b"a\nB\nc\n"
    for patch in (
        "@@ -1,3 +1,3 @@\n a\n-b\n+B",
        "@@ -1,2 +1,3 @@\n a\n-b\n+B\n c",
        "@@ -9,1 +9,1 @@\n-b\n+B",
        "@@ -9,0 +9,1 @@\n+B",
        "@@ -0,1 +0,1 @@\n-b\n+B",
        "@@ -2,1 +2,1 @@\n-b\n+B\n\\ No newline at end of file",
        "@@ what @@\n-b\n+B",
        "Binary files differ",
    ):
        assert apply_patch(before, patch) is None, patch
    assert apply_patch(before, "") == before


def test_agreement_passes_over_white_space_only() -> None:
    """A diff that shows tabs as spaces agrees with the content; one that shows another line does not."""
    before = b"if a:\r\n\tb = 1\r\n"
    assert agrees(before, "@@ -1,2 +1,2 @@\n if a:\n-   b = 1\n+   b = 2")
    assert not agrees(before, "@@ -1,2 +1,2 @@\n if a:\n-   c = 1\n+   b = 2")
    assert not agrees(before, "@@ -5,1 +5,1 @@\n-   b = 1\n+   b = 2")
