"""A session of another project, imported beside those of this one by `locus import --all-projects`."""

import hashlib
from pathlib import Path

from tests.agents.claude_support import HOME, Teller, text, write
from tests.cli.support import locus_process

PROMPT, ANSWER, FILE = "Paint the zeppelin", "The zeppelin is painted", "zeppelin.txt"
COMMAND = "make zeppelin"


def import_elsewhere(work: Path, home: Path, ran_in: str = HOME) -> None:
    """Import into the store of `work` a session of Claude Code in a directory, by default one that is not on
    this machine: its turn adds a file, and a command in it fails."""
    id = hashlib.sha256(ran_in.encode()).hexdigest()[:8]
    session = f"{id}-0000-4000-8000-00000000000e"
    said = Teller(session, name=f"line-{id}", cwd=ran_in)
    file = {"file_path": f"{ran_in}/{FILE}", "content": "painted\n"}
    told = {"type": "create", "filePath": file["file_path"], "content": "painted\n", "structuredPatch": []}
    lines = [
        said.user(PROMPT),
        *said.call(f"m1{id}", f"toolu_1{id}", "Write", file, "created", told),
        *said.call(f"m2{id}", f"toolu_2{id}", "Bash", {"command": COMMAND}, "Error: no paint", failed=True),
        said.answer(f"m3{id}", text(ANSWER)),
    ]
    write(home / ".claude/projects" / ran_in.replace("/", "-") / f"{session}.jsonl", lines)
    done = locus_process("import", "claude-code", "--all-projects", cwd=work, HOME=str(home))
    assert done.code == 0, done.err
