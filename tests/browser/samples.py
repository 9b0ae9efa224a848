"""Projects that were recorded by hooks, as a user has them."""

import datetime
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.hook_support import Agent
from tests.cli.support import git, locus_process, make_history

PROMPT = "Make tea cost 3\n\nIt is too cheap."
FAILS = "python3 -c 'import sys; print(1); sys.exit(3)'"

# Texts that run, load or deceive where a page takes them for more than text.
HOSTILE = (
    "<img src=x onerror=\"document.title='hurt'\">",
    "<script>document.title='hurt'</script>",
    "\"><svg onload=document.title='hurt'>",
    "javascript:document.title='hurt'",
    "\u202ecod.exe\u202c",
    "\x1b[31mred\x07",
    "\u2066isolate\ufeff",
)
HOSTILE_NAMES = (
    "<img src=x onerror=alert(1)>.md",
    "a\u202egnp.txt",
    "'; alert(1); '.js",
    "../..%2f.html".replace("/", "∕"),
)


@dataclass
class Sample:
    """A recorded project; `work` is its directory."""

    work: Path
    session: str = ""
    turns: list[str] = field(default_factory=list)

    def locus(self, *arguments: str) -> str:
        """What a command prints. Codes 0 and 4 are answers."""
        done = locus_process(*arguments, cwd=self.work)
        assert done.code in (0, 4), (arguments, done.err)
        return done.text

    def sql(self, question: str) -> list[list[str]]:
        lines = self.locus("sql", "--format", "csv", question).splitlines()
        return [line.split(",") for line in lines[1:]]

    def note_turns(self, agent: str = "claude-code") -> "Sample":
        """Take the session and the turns of the newest session of an agent."""
        rows = self.sql(
            f"select session_id, turn from turns where agent = '{agent}' order by started_at, turn"
        )
        self.session = rows[-1][0]
        self.turns = [f"{session}_{int(turn):03d}" for session, turn in rows if session == self.session]
        return self


def make_sample(place: Path) -> Sample:
    """A git history and a session of an agent that adds, changes, renames and deletes files of every kind."""
    work = place / "tea"
    make_history(work)
    (work / ".gitignore").write_text(".env\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "Ignore the environment", at=5)
    (work / ".env").write_text("TOKEN=of-nobody\n")
    sample = Sample(work)
    sample.locus("init")
    sample.locus("person", "--off")
    sample.locus("import", "git")
    agent = Agent(work)
    agent.start()
    _turns_of(agent, work)
    return sample.note_turns()


def _turns_of(agent: Agent, work: Path) -> None:
    _turn(agent, PROMPT, lambda: (agent.write("tea.py", "TEA = 2\nprint(TEA)\n"), agent.bash(FAILS)))
    _turn(agent, "Go on", lambda: agent.edit("tea.py", "TEA = 2", "TEA = 3"))
    (work / "notes.txt").write_text("by a person\n")  # by no turn
    _turn(agent, "Move it", lambda: agent.bash("mkdir lib && mv tea.py lib/tea.py && chmod +x lib/tea.py"))
    _turn(
        agent,
        "Turn a folder into a file",
        lambda: (agent.bash("rm -r src app"), agent.write("src", "now a file\n")),
    )
    _turn(agent, "Only say something", lambda: None)
    agent.finish()


def _turn(agent: Agent, prompt: str, does: Callable[[], object], words: str = "All done.") -> None:
    agent.prompt(prompt)
    does()
    agent.stop(words)


def make_hostile(place: Path) -> Sample:
    """A session whose title, prompt, words, names, contents, results and errors are hostile."""
    work = place / "hostile"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    (work / "first.txt").write_text("first\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", HOSTILE[0])
    sample = Sample(work)
    sample.locus("init")
    sample.locus("import", "git")
    agent = Agent(work)
    agent.start()
    for number, text in enumerate(HOSTILE):
        name = HOSTILE_NAMES[number % len(HOSTILE_NAMES)]
        _turn(
            agent,
            f"{text} one\n\n```\n{text}\n```",
            lambda name=name, text=text, number=number: (  # type: ignore[misc]
                agent.write(name, f"{text}\n{number}\n"),
                agent.bash(f"printf '%s' {_quoted(text)} >&2; exit 1"),
            ),
            words=text,
        )
    agent.finish()
    return sample.note_turns()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def claude_line(number: int, at: datetime.datetime, who: str, text: str) -> str:
    """A line of a transcript of Claude Code."""
    ids = [f"7f1d0000-0000-4000-8000-{n:012d}" for n in (number, number - 1)]
    message: dict[str, object] = {"role": who, "content": text}
    if who == "assistant":
        message |= {
            "id": f"msg_n{number}",
            "model": "claude-opus-4",
            "content": [{"type": "text", "text": text}],
        }
        message["usage"] = {"input_tokens": 10, "output_tokens": 5}
    fields = {
        "type": who, "message": message, "sessionId": "7f1d0000-0000-4000-8000-00000000abcd", "uuid": ids[0],
        "parentUuid": ids[1] if number else None, "timestamp": at.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "cwd": "/nowhere/tea", "version": "2.1.0", "isSidechain": False, "userType": "external",
    }  # fmt: skip
    return json.dumps(fields)


def imported(work: Path, lines: list[str]) -> Sample:
    """A project of which nothing is recorded but a transcript of Claude Code, which has no trees."""
    work.mkdir()
    file = work.with_suffix(".jsonl")
    file.write_text("\n".join(lines) + "\n")
    sample = Sample(work)
    sample.locus("init")
    sample.locus("import", "claude-code", str(file))
    return sample.note_turns()


def copied(sample: Sample, place: Path) -> Sample:
    """The same in a directory of its own, to be damaged, erased from, or gone on with."""
    work = place / sample.work.name
    shutil.copytree(sample.work, work, symlinks=True)
    return Sample(work, sample.session, list(sample.turns))


def bytes_of(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a directory, with its mode."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.is_symlink():
            found[os.path.relpath(path, directory)] = path.read_bytes(), path.stat().st_mode
    return found
