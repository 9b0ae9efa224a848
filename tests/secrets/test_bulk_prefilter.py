"""The first scan of an import for secrets misses nothing that the rules would find."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventlog.blobs.ids import blob_id, to_text
from eventlog.importers.git_history import import_git
from eventlog.secrets import rules
from eventlog.secrets.bulk_prefilter import attached_to, json_suspects, pays, suspects
from eventlog.secrets.engines import Matcher
from eventlog.secrets.redaction import Redactor
from eventlog.store import Store
from tests.agents.histories import History
from tests.secrets_made import assigned, made

SECRETS = [*made().values(), *(text for text, _ in assigned().values())]


def test_every_kind_of_secret_is_suspected() -> None:
    """P5: a content with any secret that the rules know is scanned closely; plain ones are not."""
    contents = [
        f"{front}{secret}{behind}".encode()
        for secret in SECRETS
        for front, behind in (("", ""), ("first line\n", "\nlast line"), ("\\n", "\\n"), ("é", "\0"))
    ]
    contents.append(f"key {made()['npm']}".encode("utf-16"))

    assert all(suspects(contents))
    assert suspects([b"", b"plain", b"import os\nkey = 1\n", bytes(range(256)) * 9]) == [False] * 4


NAME, WORD, TOKEN = "pass" + "word", assigned()["assignment"][1], assigned()["header"][1]


@pytest.mark.parametrize(
    "text",
    [
        f'{NAME}="ab\'cd-ef"',
        f"{NAME}: =xk8mq29z",
        f"{NAME}: str ==xk8mq29z",
        f"{NAME}>=xk8mq29z",
        f"--{NAME} kind = '{WORD}'",
        f"a_p_i_{'key'} = {TOKEN}",
        f"https://{'n' * 248}:{WORD[:6]}@h",
        f"{NAME} = ab;cd!ef9",
    ],
)
def test_odd_spellings_are_suspected(text: str) -> None:
    """P5: what only the rules' details make a secret is no exception, in contents and in JSON."""
    assert rules.find(text.encode())
    assert suspects([text.encode()]) == [True]
    assert json_suspects([json.dumps({"a": text}).encode()]) == [True]


def test_json_without_secrets_is_passed() -> None:
    """What only looks a little like a secret is not scanned closely: that is what the scan is for."""
    texts: list[Any] = [
        {"max_tokens": 12, "token": "none", "key": "a1b2c3d4e5f6", NAME: "as"},
        {"required": ["token", NAME], "url": "http://localhost:8080/a@b", "text": "the key: it turns"},
        ["--verbose", "x1y2z3x1y2z3", "ask-me-1234567890abcdef", f"if {NAME} == other\n\treturn token"],
    ]

    assert json_suspects([json.dumps(text).encode() for text in texts]) == [False] * 3


def test_it_is_lent_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A redactor has the scan while an import runs, and Python's where there is too little for it and no
    database that another test has loaded."""
    monkeypatch.setattr(Matcher, "has_database", lambda _self, _size: False)
    redactor = Redactor(b"k" * 32)
    with pytest.raises(ValueError, match="stop"), attached_to(redactor):
        assert redactor.bulk_prefilter is not None
        assert redactor.bulk_prefilter([b"{}"]) is None
        found = redactor.bulk_prefilter(
            [b'"' + b"x " * 1_000_000 + b'"', b'{"pass' + b'word":"%s"}' % WORD.encode()]
        )
        assert found == [False, True]
        raise ValueError("stop")

    assert redactor.bulk_prefilter is None
    assert pays([b" " * (2 << 20)]) and not pays([b" " * 1000])


def test_an_import_withholds_what_is_denied(tmp_path: Path) -> None:
    """P5: contents are scanned for what a person denied too, though the first scan knows nothing of it."""
    path = History().put(b"a", b"at acme-intranet\n").commit("1").write(str(tmp_path / "r"))
    (tmp_path / "s").mkdir()
    with Store.init(tmp_path / "s/.locus") as store:
        store._redactor = Redactor(b"k" * 32, deny=["acme-intranet"])
        import_git(store, path)

        assert store.withheld() == {to_text(blob_id(b"at acme-intranet\n"))}
