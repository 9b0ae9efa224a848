"""Looking by meaning, with an embedding of our own making and with a real model made here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.base.errors import NotFound
from eventlog.search import find, index, query
from eventlog.search.meaning import Model, load
from eventlog.store import Store
from tests.maintenance.support import make_store
from tests.search.test_index import event_of, ids

TOPICS = (
    ("slow", "performance", "latency", "fast"),
    ("login", "password", "auth"),
    ("colour", "css", "theme"),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with make_store(tmp_path / ".locus") as opened:
        opened.append(
            [
                event_of(1, "reduce latency of the parser", event_type="decision"),
                event_of(2, "password reset mail", event_type="decision"),
                event_of(3, "dark theme", event_type="intent"),
                event_of(4, "performance", event_type="action"),
            ]
        )
        yield opened


class Topics:
    """One dimension for each topic: how many of its words a text holds."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        return [[float(sum(word in text for word in topic)) for topic in TOPICS] for text in texts]


def test_events_are_found_by_meaning(store: Store) -> None:
    """S1-53, S1-60: what says the same in other words is found, what holds the words comes first."""
    embed = Topics()
    model = Model("topics", embed)
    slow = find.search(store, query.parse("slow"), model=model)
    again = find.search(store, query.parse("fast parser"), model=model)

    assert find.search(store, query.parse("slow")).hits == []
    assert ids(slow) == [1] and slow.hits[0].snippet is not None
    assert ids(again)[0] == 1
    assert embed.asked.count("reduce latency of the parser") == 1  # kept, not embedded for each search
    store.append([event_of(9, "auth is slow", event_type="error")])
    assert sorted(ids(find.search(store, query.parse("performance"), model=model))) == [1, 4, 9]
    narrow = find.Filters(event_types=("error",))
    assert ids(find.search(store, query.parse("performance"), narrow, model=model)) == [9]


def test_vectors_go_with_the_index(store: Store) -> None:
    """I22, I30: they are in the same file, and are made again from the log."""
    model = Model("topics", Topics())
    find.search(store, query.parse("slow"), model=model)
    Path(index.path_of(store.layout)).unlink()

    assert ids(find.search(store, query.parse("slow"), model=model)) == [1]
    assert ids(find.search(store, query.parse("slow"), model=Model("other", Topics()))) == [1]


def test_a_model_is_a_directory_on_this_machine(tmp_path: Path) -> None:
    """P5: nothing is fetched; what is no directory, or holds no model, is refused in one line."""
    with pytest.raises(NotFound, match="nothing is fetched"):
        load("somebody/some-model")
    pytest.importorskip("model2vec")
    with pytest.raises(NotFound, match="holds no model2vec model"):
        load(str(tmp_path))


def test_a_real_model_is_loaded_and_asked(store: Store, tmp_path: Path) -> None:
    """S1-60: a model2vec model that was saved here is read from its directory and finds by meaning."""
    model2vec = pytest.importorskip("model2vec")
    tokenizers = pytest.importorskip("tokenizers")
    numpy = pytest.importorskip("numpy")
    words = ["[UNK]", *(word for topic in TOPICS for word in topic)]
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    vectors = numpy.array([[0.0] * 3] + [[float(word in t) for t in TOPICS] for word in words[1:]])
    model2vec.StaticModel(vectors, made).save_pretrained(str(tmp_path / "model"))

    found = find.search(store, query.parse("slow"), model=load(str(tmp_path / "model")))

    assert ids(found) == [1]
