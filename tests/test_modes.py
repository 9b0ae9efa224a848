"""Who may look into a store: nobody but its owner, whatever the user's umask is (P5)."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.memory import codes_of_log
from eventlog.memory.codes_files import SessionContextInjector
from eventlog.store import Store
from locus_cli.main import run
from tests.cli.hook_support import HOOK, Agent
from tests.worktree.support import git

AT_START = "[briefing]\nat_start = true\n"


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def others(root: Path) -> dict[str, str]:
    """What is in the store with another mode than 0700 of a directory and 0600 of a file."""
    found = {}
    for path in [root, *root.rglob("*")]:
        mode = path.lstat().st_mode
        wanted = 0o700 if stat.S_ISDIR(mode) else 0o600
        if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) != wanted:
            found[str(path.relative_to(root))] = stat.filemode(mode)
    return found


class OwnAgent(Agent):
    """An agent whose hooks are processes of their own, so that they have the umask of this one."""

    def say(self, name: str, **fields: object) -> None:
        environ = {**os.environ, "LOCUS_NO_MAINTENANCE": "1", "LOCUS_HOOK_PATIENCE": "20"}
        reported = json.dumps(self.payload(name, **fields)).encode()
        done = subprocess.run(
            [*HOOK, self.name], input=reported, cwd=self.work, env=environ, capture_output=True
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert others(self.work / ".locus") == {}, name


def test_every_directory_and_file_is_its_owners_alone(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P5: after each hook and each kind of command, directories are 0700 and files 0600."""
    work = tmp_path / "work"
    work.mkdir(0o755)
    monkeypatch.chdir(work)
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    git(work, "init", "-q", "-b", "main")
    (work / "app.py").write_text("print('one')\n")
    (work / ".gitignore").write_text(".env\n")
    (work / ".env").write_text("TEA='green, from the hills'\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "first")
    root = work / ".locus"

    def locus(*words: str) -> None:
        assert run([*words]) == 0, words
        assert others(root) == {}, words

    locus("init")
    agent = OwnAgent(work)
    agent.start()
    agent.prompt("Change it")
    assert list((root / "live").glob("*.kept"))
    agent.write("new.py", "x = 1\n")
    agent.bash("rm app.py; exit 1")
    agent.stop()
    locus("session", "start", "--agent", "codex", "--focus", "Make tea", "--scope", "src/")
    locus("codes", "--next", "Pour it", "--export")
    (root / "config.toml").touch(0o600)
    (root / "config.toml").write_text(AT_START)
    locus("briefing")
    locus("search", "tea")
    locus("store", "seal")
    locus("import", "git")
    maintain = "import sys; from locus_cli.maintainer import main; main(sys.argv[1])"
    subprocess.run([sys.executable, "-c", maintain, str(root)], check=True)
    assert others(root) == {}, "maintenance"
    agent.prompt("Again")
    agent.write("new.py", "x = 2\n")
    agent.stop()
    locus("restore", "last", "--at", "start", "--yes")
    locus("restore", "--undo", "--yes")
    locus("store", "seal")
    locus("store", "compact", "--all")
    locus("store", "repack", "--all")
    locus("store", "gc", "--yes")
    locus("store", "rebuild")
    locus("store", "backup", str(tmp_path / "backup"))
    assert others(tmp_path / "backup") == {}
    locus("store", "erase", "--path", "new.py", "--yes")
    locus("session", "end", "--agent", "codex")
    newest = max((root / "log/journal").iterdir())
    with newest.open("ab") as file:  # bytes that fit nothing go to quarantine
        file.write(b"garbage")
    locus("store", "seal")
    agent.finish()


def test_directories_of_codes_are_private_from_the_beginning(umask: int, tmp_path: Path) -> None:
    """P5: also those above the one that is asked for, wherever the settings put them."""
    SessionContextInjector(tmp_path / "some/base")
    assert others(tmp_path / "some") == {}


def test_what_an_earlier_version_left_open_is_closed(tmp_path: Path) -> None:
    """P5: the next maintenance closes a directory of the store that the umask had opened."""
    with Store.init(tmp_path / ".locus", repo_hash="0123456789ab") as store:
        memory = Path(store.layout.briefing).parent
        memory.mkdir()
        memory.chmod(0o755)
        codes_of_log.export(store)
        assert others(Path(store.layout.root)) == {}
