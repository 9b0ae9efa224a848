"""The adapter that docs/adapters.md shows is one that works."""

import json
import sys
import types
from pathlib import Path

import pytest

from eventlog.agents import formats
from eventlog.importers import importer, sources
from eventlog.store import Store

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"

LINES = [
    {"run": "r7", "by": "human", "say": "add a price", "at": "2026-11-20T10:00:00Z", "in": "/home/dev/shop"},
    {"run": "r7", "say": "I write it.", "tokens": {"read": 50, "wrote": 4}, "mood": "calm"},
    {
        "run": "r7",
        "do": {"tool": "write", "path": "/home/dev/shop/a.py", "content": "1\n"},
        "gave": "written",
    },
    {"run": "r7", "sneeze": True},
]


def test_the_adapter_in_the_documentation_imports_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: the worked example as it stands on the page takes in a session once, file and odd line too."""
    _, _, rest = PAGE.read_text().partition("## How to write an adapter")
    code = rest.partition("```python\n")[2].partition("```")[0]
    assert 30 <= len(code.splitlines()) < 100
    module = types.ModuleType("eventlog.agents.tinker")
    exec(compile(code, str(PAGE), "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(formats._MODULES, "tinker", "tinker")
    path = tmp_path / "r7.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))

    with Store.init(tmp_path / ".locus") as store:
        for expected in (True, False):
            report = importer.run(store, "tinker", sources.named("tinker", [str(path)]))
            assert (report.problems, bool(report.events)) == ([], expected)
            (tmp_path / ".locus/live/imports.json").unlink(missing_ok=True)

        assert [tuple(r) for r in store.query("select user_request, outcome from turns").rows] == [
            ("add a price", "I write it.")
        ]
        assert [
            tuple(r) for r in store.query("select prompt_tokens, completion_tokens from llm_calls").rows
        ] == [(50, 4)]
        ((name, content),) = store.query("select path, after_hash from files").rows
        assert (name, store.blob(content)) == ("a.py", b"1\n")
        said = repr([event["payload"] for event in store.events()])
        assert "calm" in said and "sneeze" in said
