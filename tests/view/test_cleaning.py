"""What is taken out of answers before they leave the machine."""

import pytest

from eventlog.query.people import FULL, People
from eventlog.secrets.redaction import Redactor
from eventlog.view.cleaning import HOME, PERSON, SECRET, USER, Cleaner
from tests.secrets_made import made

KEY = made()["private key"].split("\n")


def cleaner(mode: str = FULL, **of_machine: str) -> Cleaner:
    return Cleaner(Redactor(b"k" * 32), People(mode), **of_machine)


def test_a_secret_over_several_lines_of_a_content_is_left_out() -> None:
    """P5: no line of a key looks like a secret; the whole content is looked at, and replaced by a note."""
    lines = [[["kw", line[:4]], ["", line[4:]]] for line in ["before", *KEY, "after"]]
    cleaning = cleaner()
    text = cleaning.answer({"text": lines})["text"]

    assert KEY[1] not in str(text) and "secret" in str(text)
    assert cleaning.removed[SECRET] == 1


def test_a_secret_over_several_lines_of_a_difference_is_left_out() -> None:
    """P5: the same in a difference, whose header and numbers stay."""
    lines = [["+", None, number, line] for number, line in enumerate(["before", *KEY], 1)]
    (hunk,) = cleaner().answer({"hunks": [{"header": "@@ -0,0 +1,4 @@", "lines": lines}]})["hunks"]

    assert KEY[1] not in str(hunk) and KEY[1][4:12] not in str(hunk)
    assert hunk["header"] == "@@ -0,0 +1,4 @@" and len(hunk["lines"]) == len(lines)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/srv/ada/notes/a.py", "~/notes/a.py"),
        ("cd /srv/ada && ls", "cd ~ && ls"),
        ("/srv/adam/a.py", "/srv/adam/a.py"),
        ("-rw-r--r-- 1 ada ada 12 a.py", "-rw-r--r-- 1 user user 12 a.py"),
        ("adaptive ada-1 x.ada", "adaptive ada-1 x.ada"),
        ("blake3:" + "ab" * 32, "blake3:" + "ab" * 32),
    ],
)
def test_the_home_directory_and_the_users_name_are_replaced(text: str, clean: str) -> None:
    """P5: as a path and as a word, and nothing that only begins so."""
    cleaning = cleaner(home="/srv/ada", user="ada")

    assert cleaning.answer({"x": [{"y": text}]}) == {"x": [{"y": clean}]}
    assert cleaning.removed[HOME] + cleaning.removed[USER] == (text != clean)


def test_people_stay_only_as_a_setting_says() -> None:
    """P5: without leave a person is null, in any answer; with leave the answer stays as it is."""
    answer = {
        "sessions": [{"person": "Ada <ada@example.org>", "title": "T"}],
        "n": 1,
        "none": None,
        "yes": True,
    }
    cleaning = cleaner("no")

    assert cleaning.answer(answer)["sessions"] == [{"person": None, "title": "T"}]
    assert cleaning.removed[PERSON] == 1
    assert cleaner().answer(answer) == answer


def test_a_short_name_is_a_word_of_many_texts() -> None:
    """P7: names that are words everywhere are left alone."""
    assert cleaner(user="al").answer({"x": "al dente"}) == {"x": "al dente"}
    assert cleaner(user="root").answer({"x": "the root"}) == {"x": "the root"}
