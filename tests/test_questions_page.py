"""docs/questions.md: each question is one SELECT, answered of golden stores and of true transcripts."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog import Store
from tests.cli.support import locus_process
from tests.golden import stores
from tests.test_sql_page import EXAMPLE, with_answers

PAGE = Path(__file__).parents[1] / "docs/questions.md"
STORE = "transcripts-first"  # of which the answers are
_QUESTIONS = [match[1] for match in EXAMPLE.finditer(PAGE.read_text(encoding="utf-8"))]
# Where agents write, by the names of `locus import` and of directories below LOCUS_TRANSCRIPTS.
_AGENTS = ("claude-code", "codex", "gemini", "opencode")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(stores.unpack(STORE, tmp_path_factory.mktemp("golden")).store) as store:
        yield store


def test_every_question_has_the_answer_below_it(store: Store) -> None:
    """S1-56: thirty questions, one plain SELECT each, are answered as docs/questions.md says.

    LOCUS_UPDATE=1 writes the present answers into the page instead of comparing.
    """
    made = with_answers(PAGE, store)

    assert len(_QUESTIONS) == 30
    assert PAGE.read_text(encoding="utf-8") == made


@pytest.mark.parametrize("name", [name for name in stores.names() if name != STORE])
def test_every_question_can_be_asked_of_any_store(name: str, tmp_path: Path) -> None:
    """S1-56: no question rests on what one agent's record happens to hold."""
    with Store.open(stores.unpack(name, tmp_path).store) as store:
        for question in _QUESTIONS:
            assert store.query(question).columns


def test_true_sessions_answer_most_questions(tmp_path: Path) -> None:
    """S1-56: of transcripts of true sessions nearly all have answers, not only columns."""
    places = [Path(one) for one in os.environ.get("LOCUS_TRANSCRIPTS", "").split(os.pathsep) if one]
    found = [(agent, path) for place in places for agent in _AGENTS for path in place.glob(f"{agent}*")]
    if len(found) < len(_AGENTS):
        pytest.skip("LOCUS_TRANSCRIPTS names no directory with sessions of these agents")
    locus_process("init", "--force", cwd=tmp_path)
    for agent, path in found:
        assert locus_process("import", agent, path, cwd=tmp_path).code in (0, 4)
    with Store.open(tmp_path / ".locus") as store:
        answers = [store.query(question).rows for question in _QUESTIONS]

    empty = [question for question, rows in zip(_QUESTIONS, answers, strict=True) if not rows]
    assert len(empty) <= 3, empty
