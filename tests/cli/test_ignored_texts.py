"""What shell commands show of ignored files that are kept: a table of what agents run (docs/secrets.md)."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.hook_support import Agent, events, notes, project, unique
from tests.cli.support import git, locus_process

# No rule for secrets knows these.
COLOUR, GREETING, HOST = "the plum tree is blue", "hello from a wide garden", "store7.shop.example"
SETTINGS = (
    f"# of this machine\nCOLOUR='{COLOUR}'\nGREETING=\"{GREETING}\"\nSTORE_HOST={HOST}\nMODE=development\n"
)
VALUES = (COLOUR, GREETING, HOST)

COMMANDS = (
    "cat .env",
    "cat ./.env",
    "cat .e*",
    "head -3 .env",
    "tail -n 3 .env",
    "grep plum .env",
    "grep -r plum .",
    "grep -rn plum . --include=.env",
    "grep -rh plum .",
    "grep -rhA1 plum .",
    "sed -n 1,3p .env",
    "awk -F= '{print $2}' .env",
    "sort .env",
    ". ./.env; echo $COLOUR",
    "set -a; . ./.env; set +a; printenv",
    "env $(grep HOST .env) printenv STORE_HOST",
    "python3 -c \"print(open('.env').read())\"",
    "python3 -c \"print(open('.' + 'env').read())\"",
    "python3 show.py",
    "f=.env; cat $f",
    "f=.en; cat ${f}v",
    "cat $(ls -A | grep env$)",
    "find . -name '.en*' -exec cat {} +",
    "ls -A | grep '^.env$' | xargs cat",
    "(cd src && cat ../.env)",
    "diff .env .env.example",
    "git diff --no-index /dev/null .env",
    "cp .env copy.txt && cat copy.txt && rm copy.txt",
    f"echo \"COLOUR='{COLOUR}'\" > .env.new; rm .env.new",
    f"cat > .env.new <<'END'\n{SETTINGS}END\nrm .env.new",
    f"printf 'STORE_HOST={HOST}\\n' | tee .env.new; rm .env.new",
    "cat < .env",
    "tar cf - .env | tar xOf -",
    f"curl -s http://127.0.0.1:9/ -H 'X-Greeting: {GREETING}'; true",
    "base64 .env",
    "python3 show.py | base64 -w0",
    "python3 show.py | tr a-z A-Z",
    "python3 show.py; rm .en?",
)
# What is another text by the time that it is shown.
CHANGED = ("python3 show.py | base64 -w0", "python3 show.py | tr a-z A-Z")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = project(tmp_path)
    (work / ".gitignore").write_text(".env*\n!.env.example\n")
    (work / ".env.example").write_text("MODE=development\nSHOP='the shop at the corner'\n")
    (work / "show.py").write_text("print(open('.env').read())\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "Begin")
    assert locus_process("init", "--keep-ignored", cwd=work).code == 0
    (work / ".env").write_text(SETTINGS + "SHOP='the shop at the corner'\nMAIN=src/app.py\n")
    return work


def test_no_command_of_the_table_has_a_value_recorded(work: Path) -> None:
    """P5: by hooks, in arguments and results; but where the command makes another text of it."""
    agent = Agent(work)
    agent.prompt("Look around")
    commands = {}
    for command in COMMANDS:
        done = subprocess.run(command, shell=True, cwd=work, capture_output=True, text=True)
        args = {"command": command, "description": "Run it"}
        commands[id := unique("toolu")] = command
        agent.end(id, "Bash", args, {"stdout": done.stdout, "stderr": done.stderr, "interrupted": False})
    leaking = []
    for item in events(work, "action"):
        text = json.dumps(item, default=str)
        if any(value in text or value.upper() in text for value in VALUES) or "IyBvZiB0aGlz" in text:
            leaking.append(commands[item["tool_use_id"]])
    assert notes(work) == ""
    assert leaking == list(CHANGED), f"{len(leaking)} of {len(COMMANDS)}"


def test_what_git_tracks_and_common_words_are_reported(work: Path) -> None:
    """P5: recorded are a value that the tracked example has, too, a common word, a path that is there."""
    agent = Agent(work)
    agent.prompt("Look around")
    agent.bash("cat .env.example; echo MODE is development at http://localhost:3000")
    agent.bash(f"echo {COLOUR}, and more")
    agent.bash("ls src/app.py")
    first, second, third = [one["payload"] for one in events(work, "action")]
    assert (third["args"]["command"], third["result"]["stdout"]) == ("ls src/app.py", "src/app.py\n")
    text = "MODE=development\nSHOP='the shop at the corner'\nMODE is development at http://localhost:3000\n"
    assert first["result"]["stdout"] == text
    assert second["args"]["command"] == "echo [LEFT OUT: of a file that git ignores], and more"
    assert second["result"]["stdout"] == "[LEFT OUT: of a file that git ignores], and more\n"


def test_a_damaged_note_of_kept_files_stops_nobody(work: Path) -> None:
    """I22: what it says is derived; the next capture writes it again."""
    agent = Agent(work)
    agent.prompt("Look around")
    (path,) = (work / ".locus/live").glob("*.kept")
    whole = path.read_bytes()
    for damaged in (b"", b"zz yy\n", whole[:-9], b"\xff" * 100):
        path.write_bytes(damaged)
        agent.bash("true")
        assert path.read_bytes() == whole and notes(work) == ""
