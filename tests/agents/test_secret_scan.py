"""The first look of an import for secrets misses nothing that the rules would find."""

import os
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import secret_rules
from eventlog.agents.git_history import import_git
from eventlog.agents.secret_scan import suspects
from eventlog.redaction import Redactor
from eventlog.snapshots.ids import blob_id, to_text
from eventlog.store import Store
from tests.agents.histories import History
from tests.secrets_made import assigned, made

HUNT = float(os.environ.get("LOCUS_HUNT", "0"))
SECRETS = [*made().values(), *(text for text, _ in assigned().values())]


def test_every_kind_of_secret_is_suspected() -> None:
    """P5: a content with any secret that the rules know is looked at closely; plain ones are not."""
    contents = [
        f"{front}{secret}{behind}".encode()
        for secret in SECRETS
        for front, behind in (("", ""), ("first line\n", "\nlast line"), ("\\n", "\\n"), ("é", "\0"))
    ]
    contents.append(f"key {made()['npm']}".encode("utf-16"))

    assert all(suspects(contents))
    assert suspects([b"", b"plain", b"import os\nkey = 1\n", bytes(range(256)) * 9]) == [False] * 4


@settings(max_examples=100 if HUNT == 0 else int(HUNT * 2000), deadline=None)
@given(
    parts=st.lists(
        st.one_of(st.sampled_from(SECRETS), st.text(alphabet="ab1:=\"' \n-_key<>/@\\", max_size=20)),
        max_size=6,
    )
)
def test_what_the_rules_find_is_suspected(parts: list[str]) -> None:
    """P5: where the rules find something, the first look saw reason to look."""
    data = "".join(parts).encode()

    assert suspects([data]) == [True] or not secret_rules.find(data)


def test_an_import_withholds_what_is_denied(tmp_path: Path) -> None:
    """P5: contents are looked at for what a person denied too, though the first look knows nothing of it."""
    path = History().put(b"a", b"at acme-intranet\n").commit("1").write(str(tmp_path / "r"))
    (tmp_path / "s").mkdir()
    with Store.init(tmp_path / "s/.locus") as store:
        store._redactor = Redactor(b"k" * 32, deny=["acme-intranet"])
        import_git(store, path)

        assert store.withheld() == {to_text(blob_id(b"at acme-intranet\n"))}
