"""`locus report`: the figures of a store as one file, the static form of the viewer's pages."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog import Store
from locus_cli.main import run
from tests.sql_demo import make_demo
from tests.view.test_share import Tags, answers, recorded

EVIL = "<script>alert(1)</script>\"' onload=x \u202egnp.exe \x1b[31m"
DAY_US = 86_400_000_000
AT = 1_780_000_000_000_000  # 2026-05-28


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The store of docs/sql.md with a commit, and a session whose every text is hostile."""
    with Store.open(make_demo(tmp_path_factory.mktemp("report") / "sample")) as store:
        of: dict[str, Any] = {"session_id": "zzzzzzzz", "turn": 1, "agent": "codex", "occurred_at": AT}
        git = {"session_id": "commitsx", "turn": 1, "agent": "git", "occurred_at": AT + DAY_US}
        store.append(
            [
                {**of, "event_type": "session", "operation": "start", "title": EVIL},
                {**of, "event_type": "turn", "operation": "start", "title": EVIL},
                {**of, "event_type": "action", "tool": EVIL, "success": False},
                {**of, "event_type": "error", "error_type": EVIL},
                {**of, "event_type": "file", "operation": "edit", "path": EVIL},
                {**of, "event_type": "llm", "model": EVIL, "prompt_tokens": 10, "completion_tokens": 2},
                {**of, "event_type": "llm", "model": "claude-opus-4-1", "prompt_tokens": 10_000,
                 "completion_tokens": 900},
                {**git, "event_type": "turn", "operation": "start", "title": "Commit"},
            ]
        )  # fmt: skip
        yield store.layout.root


def report(store: str, target: Path, *options: str) -> str:
    assert run(["--store", store, "report", "--html", str(target), *options]) == 0
    return target.read_text(encoding="utf-8")


def figures(page: str, by: str) -> dict[str, Any]:
    found = (answer for key, answer in answers(page, "figures").items() if json.loads(key)[1] == [["by", by]])
    return next(found)


def test_it_says_what_stats_says(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P7: one set of figures in both, and equal logs give equal pages."""
    page = report(store, tmp_path / "r.html", "--agent", "codex")
    assert run(["--store", store, "stats", "--agent", "codex", "--by", "model", "--json"]) == 0
    stats = json.loads(capsys.readouterr().out)["stats"]
    shown = figures(page, "model")

    assert shown["total"]["llm_calls"] == stats["total"]["llm_calls"] == 2
    assert float(shown["total"]["cost_usd"]) == pytest.approx(stats["total"]["cost_usd"])
    assert [row["key"] for row in shown["rows"]] == [row["key"] for row in stats["rows"]]
    assert "genai-prices" in shown["prices"] and shown["total"]["unpriced_calls"] == 1
    assert report(store, tmp_path / "again.html", "--agent", "codex") == page


def test_agents_are_not_drowned_by_commits(store: str, tmp_path: Path) -> None:
    """P7: commits of an imported history are counted apart where agents worked."""
    page = report(store, tmp_path / "r.html")

    assert "git" not in {row["key"] for row in figures(page, "agent")["rows"]}
    with Store.open(store) as opened:
        commits = opened.query("select count(*) from turns where agent = 'git'").rows[0][0]
    assert figures(page, "day")["commits"] == commits >= 1
    assert "commitsx" not in {session["session_id"] for session in recorded_sessions(page)}


def recorded_sessions(page: str) -> list[dict[str, Any]]:
    (answer,) = answers(page, "sessions").values()
    sessions: list[dict[str, Any]] = answer["sessions"]
    return sessions


def test_a_scope_narrows_all_of_it(store: str, tmp_path: Path) -> None:
    """P3: a span and an agent choose figures, sessions and errors alike; days are those of the zone."""
    page = report(
        store, tmp_path / "r.html", "--since", "2026-05-27", "--until", "2026-05-30", "--agent", "codex"
    )
    east = report(store, tmp_path / "e.html", "--agent", "codex", "--tz", "Pacific/Kiritimati")

    assert [session["session_id"] for session in recorded_sessions(page)] == ["zzzzzzzz"]
    assert figures(page, "day")["total"]["errors"] == len(answers(page, "errors").popitem()[1]["rows"]) == 1
    assert {row["key"] for row in figures(page, "day")["rows"]} == {"2026-05-28"}
    assert "2026-05-29" in {row["key"] for row in figures(east, "day")["rows"]}
    spines = answers(page, "spine")
    assert [turn["name"] for answer in spines.values() for turn in answer["turns"]] == ["zzzzzzzz_001"]


def test_recorded_text_stays_text(store: str, tmp_path: Path) -> None:
    """P5: titles, paths, models, tools, agents and errors are data in the page, and never markup."""
    page = report(store, tmp_path / "r.html")
    elements = Tags(page).elements

    assert [name for name, _ in elements].count("script") == 2
    assert not {"link", "img", "iframe", "object", "form", "a", "base"} & {name for name, _ in elements}
    assert "\u202e" not in page and "\x1b" not in page
    assert json.dumps(recorded(page)).count("<script>alert(1)</script>") >= 6
    assert not answers(page, "page") and not answers(page, "content")  # no prompt, no content of a file


def test_the_command_writes_one_private_file(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P5: `locus report --to FILE` (in 0.1 `--html`) makes one file of mode 0600, and replaces none."""
    target = tmp_path / "report.html"
    arguments = ["--store", store, "report", "--html", str(target)]
    assert run([*arguments, "--json"]) == 0
    assert run([*arguments[:-2], "--to", str(target)]) == 3

    assert os.listdir(tmp_path) == ["report.html"]
    assert target.stat().st_mode & 0o777 == 0o600
    assert "<title>sample – report</title>" in target.read_text(encoding="utf-8")
    assert '"bytes"' in capsys.readouterr().out


def test_an_empty_store_has_a_page(tmp_path: Path) -> None:
    """P7: nothing recorded is no error, and every figure is 0 or unknown."""
    with Store.init(tmp_path / ".locus") as store:
        root = store.layout.root
    page = report(root, tmp_path / "r.html")

    assert figures(page, "day")["total"]["turns"] == 0
    assert figures(page, "day")["total"]["cost_usd"] is None
