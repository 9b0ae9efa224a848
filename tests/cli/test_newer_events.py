"""What the command line says of events that a newer Locus wrote."""

import json
from pathlib import Path

import pytest

from eventlog.store import Store
from tests.cli.support import Locus
from tests.log.logs import event


def test_an_event_of_a_newer_locus_is_shown_and_named(
    locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I23, P7: it is shown as it is, with words on stderr; log and timeline list it among the others."""
    with Store.init(tmp_path / ".locus", repo_hash="0123456789ab", project_name="locus") as store:
        store.append([event(0), event(1, schema_version=7, payload={"new": True})])
    monkeypatch.chdir(tmp_path)

    ended = locus("show", f"{1:032x}", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["event"]["payload"] == {"new": True}
    assert ended.err == "This event was written by a newer Locus (schema version 7); it is shown as it is.\n"
    assert locus("show", f"{0:032x}").err == ""
    assert len(locus("log", "--events", "--json").text.splitlines()) == 2
