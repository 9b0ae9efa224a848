"""The notebook of a team's week, executed by a real kernel."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from eventlog import Recorder, Store

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples/team_week.ipynb"


def team(directory: Path) -> list[str]:
    """Three stores with turns of some days, the last one of a project whose name is a tag."""
    paths = []
    today = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    for number, project in enumerate(("kiosk", "shop", "<b>mall</b>")):
        path = directory / f"project{number}" / ".locus"
        path.parent.mkdir()
        with Store.init(path, project_name=project, repo_hash=f"{number:012}") as store:
            for day in range(number + 1):
                when = int((today - timedelta(days=day)).timestamp() * 1e6)
                with Recorder(store, agent="example", occurred_at=when).start_session("Work") as session:
                    for _ in range(day + 1):
                        with session.start_turn("A request") as turn:
                            turn.llm("m-1", prompt_tokens=1000, completion_tokens=10)
        paths.append(str(path))
    return paths


def cells(answers: Any, kind: str) -> list[str]:
    return [
        "".join(output["data"][kind])
        for cell in answers.cells
        for output in cell.get("outputs", [])
        if kind in output.get("data", {})
    ]


def test_the_notebook_plots_the_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two plots, a table that Locus shows itself and one of pandas, with the figures of all three stores."""
    reason = "nbclient, ipykernel or matplotlib is not installed: the stage 35-examples has them"
    nbclient = pytest.importorskip("nbclient", reason=reason)
    pytest.importorskip("ipykernel", reason=reason)
    pytest.importorskip("matplotlib", reason=reason)
    import nbformat

    monkeypatch.setenv("LOCUS_STORES", ":".join(team(tmp_path)))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    sessions, days = cells(notebook, "text/html")

    assert [len(image) > 1000 for image in cells(notebook, "image/png")] == [True, True]
    assert "<p>6 rows</p>" in sessions and "<b>mall" not in sessions and "&lt;b&gt;mall" in sessions
    assert days.count("1010") == 3 and days.count("2020") == 2 and days.count("3030") == 1


@pytest.mark.fast
def test_the_notebook_is_kept_without_its_answers() -> None:
    """What is in the repository is a program, and no picture of somebody's data."""
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None
