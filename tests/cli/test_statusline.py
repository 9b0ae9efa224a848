"""`locus statusline`: one line for an agent's status bar, within the budget of a hook (P4, I34)."""

import json
import os
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import blake3
import pytest

from eventlog.base.names import short
from eventlog.store import Store
from tests.cli.hook_support import Agent
from tests.cli.support import Locus
from tests.test_house import HEAVY_FOR_A_HOOK

ROOT = Path(__file__).resolve().parents[2]
MODEL = "claude-sonnet-4-5"


def shown(said: Any, cwd: Path, **environment: str) -> str:
    """The line, from the command as agents start it; it is one, and nothing else is stated."""
    data = said if isinstance(said, bytes) else json.dumps(said).encode()
    done = subprocess.run(
        [sys.executable, "-m", "locus_cli", "statusline"],
        input=data,
        cwd=cwd,
        capture_output=True,
        env={**os.environ, **environment},
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode()
    assert text.count("\n") == 1 and text.endswith("\n") and text[:-1].isprintable()
    return text[:-1]


def said_by(agent: Agent, **fields: Any) -> dict[str, Any]:
    """What Claude Code 2.1 gives to its status line."""
    place = {"current_dir": str(agent.work), "project_dir": str(agent.work)}
    return {
        "hook_event_name": "Status",
        "session_id": agent.session,
        "model": {"id": MODEL, "display_name": "Sonnet"},
        "workspace": place,
        "cost": {"total_cost_usd": 9.75},
        **fields,
    }


def test_the_line_follows_the_session(work: Path, tmp_path: Path) -> None:
    """P7: a session is not recorded until a hook reported it, then in a turn, then between turns."""
    agent = Agent(work, environ={"CLAUDE_PID": str(os.getpid())})
    unknown = "session – · today –"
    assert shown(said_by(agent), tmp_path) == f"locus: not recorded · {unknown}"
    agent.start()
    turn = agent.prompt("Go")
    assert shown(said_by(agent), tmp_path) == f"locus: recording turn {turn[:8]} · {unknown}"
    agent.stop()
    assert shown(said_by(agent), tmp_path) == f"locus: recorded · {unknown}"
    assert shown(said_by(Agent(work)), tmp_path) == f"locus: not recorded · {unknown}"
    inside = work / "deep"
    inside.mkdir()
    assert shown({"session_id": agent.session, "cwd": str(inside)}, tmp_path).startswith("locus: recorded")


def test_the_line_says_what_needs_attention(work: Path) -> None:
    """P1, P4: a turn whose agent was killed and that nobody closed yet; hooks that failed within a day."""
    process = subprocess.Popen(["sleep", "600"])
    agent = Agent(work, environ={"CLAUDE_PID": str(process.pid)})
    agent.start()
    turn = agent.prompt("Go")
    process.kill()
    process.wait()
    now_s = int(time.time())
    (work / ".locus/tmp/hook-errors.log").write_text(
        f"{now_s - 90_000} OSError: old\n{now_s - 60} TimeoutError: late\nno time\n{now_s} OSError: new\n"
    )

    line = shown(said_by(agent), work)
    assert line.startswith(f"locus: interrupted turn {turn[:8]} · ")
    assert line.endswith(" · 1 to close · 2 hook errors")


def test_a_directory_without_a_store_is_not_recorded(tmp_path: Path) -> None:
    """P7: also where the store is one that hooks refuse."""
    assert shown({"cwd": str(tmp_path)}, tmp_path) == "locus: not recorded"
    (tmp_path / ".locus").mkdir()
    (tmp_path / ".locus/STORE").write_text("{}")
    assert shown({"cwd": str(tmp_path)}, tmp_path).startswith("locus: not recorded")


GARBAGE = {
    "nothing": b"",
    "text": b"hello\n",
    "binary": bytes(range(256)) * 9,
    "cut": b'{"session_id": "s", "workspa',
    "deep": b"[" * 200_000,
    "array": b"[1, 2]",
    "kinds": b'{"session_id": 7, "cwd": ["x"], "workspace": "w", "cost": null}',
    "paths": b'{"session_id": "a\\u0000b\\n", "cwd": "\\u0000", "workspace": {"project_dir": "\\ud800"}}',
    "escapes": b'{"session_id": "\\u001b[2J", "cwd": "/nowhere"}',
    "large": b'{"session_id": "' + b"x" * (3 << 20) + b'"}',
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_gives_a_line_and_exit_code_0(name: str, work: Path) -> None:
    """P4: whatever is on stdin, and whatever became of the files that the line is read from."""
    assert shown(GARBAGE[name], work).startswith("locus: not recorded")
    live = work / ".locus/live"
    live.mkdir(exist_ok=True)
    (live / "costs").write_bytes(GARBAGE[name])
    (live / f"{short('s')}.told").write_bytes(GARBAGE[name])
    (work / ".locus/tmp/hook-errors.log").write_bytes(GARBAGE[name])
    assert shown({"session_id": "s", "cwd": str(work)}, work).startswith("locus: not recorded")


def test_escapes_in_ids_stay_words(work: Path) -> None:
    """What a terminal would obey is not printed."""
    agent = Agent(work, environ={"CLAUDE_PID": str(os.getpid())})
    agent.turn = "\x1b[2J\u202e1"
    agent.say("UserPromptSubmit", prompt="Go")
    assert "recording turn ?[2J?1" in shown(said_by(agent), work)


def test_it_ends_while_nobody_ends_its_input(work: Path) -> None:
    """P4: an input that stays open, and files that block who opens them, hold nothing up."""
    process = subprocess.Popen(
        [sys.executable, "-m", "locus_cli", "statusline"], cwd=work, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b'{"session_id":')
    process.stdin.flush()
    assert process.wait(timeout=30) == 0
    assert process.stdout.read().decode() == "locus: –\n"
    process.stdin.close()
    process.stdout.close()
    os.mkfifo(work / ".locus/live/costs")
    assert shown({"cwd": str(work)}, work) == "locus: not recorded · session – · today –"


PROBE = """
import os, sys
sys.path[:0] = [{root!r}, {site!r}]
package = type(sys)("locus_cli")
package.__path__ = [{root!r} + "/cli"]
sys.modules["locus_cli"] = package
before = set(sys.modules)
import locus_cli.start
def end(code):
    loaded = sorted(set(sys.modules) - before)
    sys.stdout.write(" ".join([str(code), *loaded]))
    sys.stdout.flush()
    leave(0)
leave, os._exit = os._exit, end
sys.argv = ["locus", "statusline"]
locus_cli.start.main()
"""


def test_it_loads_no_heavy_module(work: Path) -> None:
    """I34: with a turn, costs and failures to tell of, it loads as little as a hook."""
    agent = Agent(work, environ={"CLAUDE_PID": str(os.getpid())})
    agent.prompt("Go")
    write_costs(work, {"day": time.strftime("%Y-%m-%d"), "today": ["1", 0], "sessions": {}})
    (work / ".locus/tmp/hook-errors.log").write_text(f"{time.time():.0f} OSError: new\n")
    probe = PROBE.format(root=str(ROOT), site=str(Path(blake3.__file__).parent.parent))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", probe],
        input=json.dumps(said_by(agent)).encode(),
        capture_output=True,
        check=True,
        cwd=work,
    )
    line, _, rest = done.stdout.decode().partition("\n")
    code, *loaded = rest.split()

    assert line.endswith("today $1.00 · 1 hook error") and code == "0"
    assert {name.partition(".")[0] for name in loaded} & HEAVY_FOR_A_HOOK == set()
    assert len([name for name in loaded if name.startswith("eventlog")]) <= 25


def write_costs(work: Path, costs: dict[str, Any]) -> None:
    (work / ".locus/live/costs").write_text(json.dumps({"format": 1, **costs}))


def test_costs_are_shown_as_they_were_counted(work: Path) -> None:
    """P7: dollars as people read them, "+" where calls have no price, "–" for another day or session."""
    agent = Agent(work)
    agent.prompt("Go")
    today = time.strftime("%Y-%m-%d")
    write_costs(
        work, {"day": today, "today": ["1234.567", 2], "sessions": {short(agent.session): ["0.0123", 0]}}
    )
    assert " · session $0.0123 · today $1,234.57+" in shown(said_by(agent), work)
    assert " · session – · today $1,234.57+" in shown(said_by(Agent(work)), work)
    write_costs(work, {"day": "2020-02-02", "today": ["1", 0], "sessions": {short(agent.session): [None, 3]}})
    assert " · session – · today –" in shown(said_by(agent), work)
    write_costs(work, {"format": 2, "day": today, "today": ["1", 0]})
    assert " · session – · today –" in shown(said_by(agent), work)


def maintain(work: Path) -> None:
    code = "import sys; from locus_cli.maintainer import main; main(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(work / ".locus")], check=True, timeout=120)


def test_maintenance_counts_what_the_line_shows(work: Path, locus: Locus) -> None:
    """P3: session and day cost what `locus stats` and SQL say; nothing is written while nothing changed."""
    pytest.importorskip("genai_prices")
    agent = Agent(work)
    agent.start()
    agent.prompt("Go")
    usage = {"input_tokens": 100_000, "output_tokens": 20_000}
    lines = [
        {
            "type": "assistant",
            "requestId": f"r{n}",
            "message": {"id": f"m{n}", "model": model, "usage": usage},
        }
        for n, model in enumerate((MODEL, MODEL, "model-of-nobody"))
    ]
    agent.transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))
    agent.stop()
    maintain(work)

    with Store.open(work / ".locus") as store:
        ((cost, unpriced),) = store.query("select cost_usd, unpriced_calls from sessions").rows
    assert isinstance(cost, Decimal) and cost > 1 and unpriced == 1
    told = json.loads(locus("--store", work / ".locus", "stats", "--json").out)
    assert str(cost.normalize()) in json.dumps(told)
    line = shown(said_by(agent), work)
    assert line == f"locus: recorded · session ${cost:,.2f}+ · today ${cost:,.2f}+"
    file = work / ".locus/live/costs"
    known = json.loads(file.read_text())
    assert known["prices"].startswith("genai-prices ") and file.stat().st_mode & 0o777 == 0o600
    before = file.stat().st_mtime_ns
    maintain(work)
    assert file.stat().st_mtime_ns == before
    file.unlink()
    assert "session – · today –" in shown(said_by(agent), work)


def test_the_command_among_the_others_says_the_same(work: Path, tmp_path: Path, locus: Locus) -> None:
    """With `--store` it goes through the other commands' door, and has their help."""
    assert b"status bar" in locus("statusline", "--help").out
    done = subprocess.run(
        [sys.executable, "-m", "locus_cli", "--store", str(work / ".locus"), "statusline"],
        input=b"{}", cwd=tmp_path, capture_output=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout.decode()) == (0, "locus: not recorded · session – · today –\n")


def test_hooks_show_and_doctor_know_the_line(
    work: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: whether the status line is ours, whether it went from the file, and whether its program did."""
    monkeypatch.chdir(work)
    again = "`locus hooks install --agent claude-code --local --statusline`"

    def told(shown: str, found: str) -> None:
        assert shown in locus("hooks", "show").text and found in locus("doctor").text

    assert locus("hooks", "install", "--agent", "claude-code").code == 0
    told(f"status  not ours; {again} sets it", "no status line of ours")
    assert locus("hooks", "install", "--agent", "claude-code", "--statusline").code == 0
    settings = work / ".claude" / "settings.local.json"
    answer = json.loads(settings.read_text())
    told(f"status  {answer['statusLine']['command']}", "its status line in")

    answer["statusLine"]["command"] = "/gone/locus statusline"
    settings.write_text(json.dumps(answer))
    told("gone    /gone/locus", "stays empty: /gone/locus is not there")
    del answer["statusLine"]
    settings.write_text(json.dumps(answer))
    told(f"status  ours is gone; {again} sets it", "had our status line")
