"""Completion in a shell: turns with titles, sessions, agents, recorded paths."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import Recorded, locus_process


def offered(line: str, cwd: Path) -> list[str]:
    """What bash would be given for a line that ends at the cursor, without the kinds."""
    ended = locus_process(
        cwd=cwd, COMP_LINE=line, COMP_POINT=str(len(line)), _LOCUS_COMPLETE="bash_complete",
        LOCUS_NO_MAINTENANCE="1",
    )  # fmt: skip
    assert (ended.code, ended.err) == (0, "")
    return [row.partition(",")[2] for row in ended.text.split("\n") if row]


def test_turns_are_offered_newest_first_with_their_titles(recorded: Recorded) -> None:
    """P8: wherever a turn is wanted, `last` and the turns that begin so, each with what it was about."""
    root = recorded.root
    for verb in ("timeline", "show", "undo", "diff", "replay", "restore", "compare"):
        rows = offered(f"locus {verb} ", root)
        assert rows[0] == "last  (the newest turn)" and rows[1].endswith(
            "_004  (Rename the readme, add data)"
        )
    newest = rows[1].split()[0]

    assert offered(f"locus timeline {newest}", root) == [newest]
    assert offered(f"locus timeline turn:{newest[:10]}", root)[0].startswith(newest)
    assert offered("locus timeline las", root) == ["last"]
    assert offered("locus timeline nothing-like-it", root) == []


def test_sessions_and_agents_are_offered(recorded: Recorded) -> None:
    """A session by its id, an agent by its name, also after an option."""
    session = offered("locus timeline ", recorded.root)[1][:8]

    assert offered("locus log --session ", recorded.root) == [session]
    assert offered("locus session show ", recorded.root) == [session]
    assert offered("locus session ls --agent ", recorded.root) == ["git"]


def test_recorded_paths_are_offered_a_level_at_a_time(recorded: Recorded) -> None:
    """P8: of the whole log for `history` and `blame`, of one turn for `cat`; from where the person is."""
    root = recorded.root

    assert {"src/", "app", "run.sh", r"READ\ ME\ é.md"} <= set(offered("locus history ", root))
    assert offered("locus blame src/", root) == ["src/app.py"]
    assert offered("locus history ", root / "src") == ["app.py"]
    assert "src/" in offered("locus cat last:", root) and "README.md" not in offered("locus cat last:R", root)
    assert offered("locus cat last:src/", root) == ["src/app.py"]
    assert offered("locus cat git:", root) == offered("locus cat last:app/x", root) == []


def test_nothing_is_offered_without_a_store(tmp_path: Path) -> None:
    """A shell that completes shows no error."""
    assert offered("locus timeline ", tmp_path) == []
    assert "timeline" in offered("locus timel", tmp_path)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_script_for_bash_gives_what_is_offered(recorded: Recorded) -> None:
    """In a real bash the printed function fills the list, also for a name with a colon."""
    script = locus_process("completion", "bash", cwd=recorded.root).text
    line = "locus cat last:sr"
    program = (
        f"{script.replace('$1', sys.executable + ' -m locus_cli')}\ncompopt() {{ :; }}\n"
        f"COMP_LINE='{line}' COMP_POINT={len(line)}\n_locus_completion locus\n"
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )

    done = subprocess.run(["bash", "-c", program], cwd=recorded.root, capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("src/\n", "")
