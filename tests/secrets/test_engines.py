"""Hyperscan answers as RE2 does; its database is made once, and read only where the user alone writes."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import hyperscan
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base import jsontext
from eventlog.secrets import bulk_prefilter, engines, prefilter, table
from eventlog.secrets.engines import Matcher, by_hyperscan, by_re2, compiled
from tests.secrets_made import assigned, made

MATCHERS = (bulk_prefilter._in_contents(), bulk_prefilter._in_json())


@cache
def databases() -> tuple[Any, ...]:
    """Hyperscan's, of each matcher: half a second each."""
    return tuple(compiled(matcher._single) for matcher in MATCHERS)


def answers(texts: list[bytes]) -> list[list[bool]]:
    """The answers of RE2, for contents and for JSON, after those of Hyperscan were compared with them."""
    by_form = []
    for matcher, database in zip(MATCHERS, databases(), strict=True):
        expected = list(by_re2(matcher._joined, texts))
        assert by_hyperscan(database, texts) == expected
        by_form.append(expected)
    return by_form


def tokens() -> list[bytes]:
    """A token of each rule of the table, as short as the rule allows, and one byte shorter."""
    texts = []
    for beginning, (_, allowed, least, *_) in prefilter.RULES.items():
        front = b"12345678" if beginning == b":AA" else b""
        texts += [front + beginning + allowed[-1:] * size for size in (least, min(least, 16) - 1)]
    return texts


def test_engines_agree_about_every_rule() -> None:
    """P5: each rule's secrets, alone and in JSON, are suspected by both engines, and the same others."""
    secrets = [*made().values(), *(text for text, _ in assigned().values())]
    texts = [secret.encode() for secret in secrets] + tokens()
    spelled = [jsontext.encode({"a": text.decode("latin-1")}) for text in texts]
    names = [name + b": " + b"aB3 " * 5 for name in (*table.PASSWORDS, *table.OTHERS)]

    other_case = [name.decode("latin-1").swapcase().encode("latin-1", "replace") for name in names]

    contents, _ = answers([*texts, *names, *other_case])
    _, in_json = answers(spelled)

    assert all(contents[: len(secrets)]) and all(in_json[: len(secrets)])
    assert not all(contents)
    assert by_hyperscan(databases()[0], tokens())[::2] == [True] * len(prefilter.RULES)


PIECES = [
    *(text.encode() for text in made().values()),
    *(text.encode() for text, _ in assigned().values()),
    *prefilter.RULES,
    *table.PASSWORDS,
    *table.OTHERS,
    *(word + b"_Key" for word in table.KEYS_OF),
    *prefilter.CRYPTS,
    *prefilter.SETTERS,
    *table.COMMANDS,
    *(b"=", b": ", b"=>", b" -", b'"', b'\\"', b"\\n", b"\\u001b", b"\n", b"\t", b"://", b"@", b"{", b"$"),
    *(b"aB3dE6gH", b"x7" * 9, b"plain text", b"Bearer ", b"\0", bytes(range(128, 256)), "ñ Ñ é É".encode()),
]  # fmt: skip
texts_of_pieces = st.lists(st.sampled_from(PIECES) | st.binary(max_size=6), max_size=8)


@given(st.lists(texts_of_pieces, min_size=1, max_size=6), st.data())
def test_engines_agree_about_any_text(lists: "list[list[bytes]]", data: st.DataObject) -> None:
    """P5: planted, cut and joined secrets in any surroundings, in any case of letters."""
    texts = [b"".join(pieces) for pieces in lists]
    cut = data.draw(st.integers(0, 40))
    texts += [text[cut:] for text in texts] + [text.swapcase() for text in texts]

    answers(texts)
    answers([jsontext.encode({"a": text.decode("latin-1")}) for text in texts])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "WORTH_COMPILING_BYTES", 1000)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of expressions of each database that is made."""
    calls: list[int] = []

    def counted(expressions: Any, make: Callable[..., Any] = compiled) -> Any:
        calls.append(len(expressions))
        return make(expressions)

    monkeypatch.setattr(engines, "compiled", counted)
    return calls


def new(directory: Path) -> Matcher:
    return Matcher(["ab|cd"], ["ab", "cd"], {"XDG_CACHE_HOME": str(directory)})


@pytest.mark.usefixtures("small")
def test_a_database_is_made_once(tmp_path: Path, compilations: list[int]) -> None:
    """One process makes it, when it has matched enough; it and the next one match with it from then on."""
    first, text = new(tmp_path), b"cd" + b" " * 400

    assert [first.matches([text, b"a"]) for _ in range(2)] == [[True, False]] * 2
    assert compilations == [] and not os.listdir(tmp_path)

    assert [first.matches([text, b"a"]) for _ in range(9)] == [[True, False]] * 9
    assert compilations == [2]

    assert new(tmp_path).matches([b"b", b"xab"]) == [False, True]
    assert new(tmp_path)._database is None
    second = new(tmp_path)
    assert second.matches([b"cd"]) == [True] and second._database is not None
    assert compilations == [2]


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "change",
    [
        damage,
        cut,
        link,
        lambda path: path.chmod(0o620),
        lambda path: path.parent.chmod(0o777),
        lambda path: os.chown(path, 4711, -1),
    ],
)
def test_a_database_of_others_is_not_read(
    tmp_path: Path, compilations: list[int], change: Callable[[Path], object]
) -> None:
    """P5: a database decides what the process does, so it is read only where the user alone writes."""
    new(tmp_path).matches([b" " * 2000])
    (path,) = (tmp_path / "locus").iterdir()
    if os.geteuid() and "chown" in change.__code__.co_names:
        pytest.skip("only root gives files away")
    change(path)

    third = new(tmp_path)
    assert third.matches([b"cd", b"c"]) == [True, False]
    assert third._database is None
    assert third.matches([b"cd" * 1000]) == [True] and compilations == [2, 2]


@pytest.mark.usefixtures("small")
def test_without_hyperscan_re2_matches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is optional: where it is missing, or takes no expression, the answers stay."""
    monkeypatch.setattr(engines, "_hyperscan", lambda: None)
    without = new(tmp_path)
    assert [without.matches([b"ab" * 600, b"a"]) for _ in range(3)] == [[True, False]] * 3
    assert not os.listdir(tmp_path)

    monkeypatch.setattr(engines, "_hyperscan", lambda: hyperscan)
    odd = Matcher(["a"], ["(?<=b)a"], {})
    assert odd.matches([b"a" * 2000]) == [True] and odd._database is None


@pytest.mark.usefixtures("small")
def test_a_loaded_database_is_used_for_any_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of little text too, since it is loaded: nothing is left to be paid for."""
    matcher = new(tmp_path)
    monkeypatch.setattr(bulk_prefilter, "_in_json", lambda: matcher)
    assert bulk_prefilter._bulk_prefilter([b"cd"]) is None

    matcher.matches([b" " * 2000])
    assert bulk_prefilter._bulk_prefilter([b"cd", b"c"]) == [True, False]

    matcher = new(tmp_path)
    assert bulk_prefilter._bulk_prefilter([b"cd"]) is None
    assert bulk_prefilter._bulk_prefilter([b"cd", b" " * (256 << 10)]) == [True, False]
