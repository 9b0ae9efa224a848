"""Paths of this machine in texts that leave it: what the patterns find, found without trying them."""

import os

from hypothesis import example, given
from hypothesis import strategies as st

from eventlog.exports import local_paths
from eventlog.exports.local_paths import MARK, LocalPaths

PATHS = LocalPaths(["/home/someone/project"])
_PIECES = st.sampled_from(
    ('"', '":"', '"cwd":"', '"path":"', "/", "//", "~/", "file:", "file://host", "C:", "C:/", r"C:\\", "\\\\",
     ":/", " ", "/home/", "/tmp/", "/srv/", "home/x", "http://a/b", "name", "\\n", "é", ":", r"\"",
     '"hook_us":12,', ',"hook_us":1', "/home/someone/project", "/home/someone/project/a.py",
     os.path.expanduser("~"))
)  # fmt: skip


def plain(text: str) -> str:
    """The rules of the page, each pattern tried on the whole text."""
    text = local_paths._OF_HOOKS.sub("", text)
    text = local_paths._ESCAPED_SLASH.sub("/", text)
    if "/" not in text and ":\\" not in text:
        return text
    text = local_paths._VALUES.sub(rf'"\1":"{MARK}"', PATHS._relative(text))
    return PATHS._anywhere.sub(MARK, text)


@given(st.lists(_PIECES, max_size=12).map("".join))
@example('"cwd":"C:/x y"')
@example(r'"cwd":"C:\\x y"')
@example('"cwd":"/elsewhere/x y"')
@example('"uri":"file:x"')
@example("~/x")
def test_no_path_is_left_that_a_pattern_finds(text: str) -> None:
    """P5: what spares trying a pattern changes no answer."""
    assert PATHS.payload(text) == plain(text)


def test_a_text_without_a_path_of_a_person_tries_no_pattern() -> None:
    """Most texts have slashes, and no local path: none of the patterns is tried on them."""
    tried: list[str] = []

    class Pattern:
        def sub(self, mark: object, text: str) -> str:
            tried.append(text)
            return text

    paths = LocalPaths([])
    paths._anywhere = Pattern()  # type: ignore[assignment]
    assert paths.payload('{"args":{"file_path":"src/parser.py"},"result":"and/or, 1/2"}')
    assert tried == []
    paths.payload('{"result":"~/x"}')
    assert len(tried) == 1
