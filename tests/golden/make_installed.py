"""Keeps what `locus hooks install` of this version writes: `python -m tests.golden.make_installed`.

It goes to `tests/fixtures/installed/VERSION/`, once for each version, with names in place of this machine's
paths. `tests/agents/test_installed_before.py` reads it.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import blake3

import eventlog
from eventlog.setup import launch
from tests.cli.support import locus_process

ROOT = Path(eventlog.__file__).parent.parent
FIXTURES = ROOT / "tests/fixtures/installed"


def make(to: Path) -> None:
    """The stub, and the settings of each agent at the levels `local` and `project`."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        environ = {
            "HOME": directory,
            "XDG_DATA_HOME": f"{directory}/data",
            "XDG_STATE_HOME": f"{directory}/state",
        }
        share = Path(launch.stub_directory(environ["XDG_DATA_HOME"]))
        for level in ("local", "project"):
            project = home / level
            project.mkdir()
            done = locus_process("hooks", "install", "--agent", "all", f"--{level}", cwd=project, **environ)
            assert done.code == 0, done.err
            for file in sorted(path for path in project.rglob("*") if path.is_file()):
                name = "-".join(file.relative_to(project).parts).removeprefix(".")
                _keep(file, to / level / name, share)
        _keep(share / launch.STUB, to / f"{launch.STUB}.txt", share)


def _keep(file: Path, to: Path, share: Path) -> None:
    paths = {
        "SHARE": str(share),
        "PYTHON": sys.executable,
        "LIBRARY": str(Path(blake3.__file__).parent.parent),
        "SITE@/locus_cli": str(ROOT / "cli"),
        "SITE": str(ROOT),
    }
    text = file.read_text()
    for name, path in paths.items():
        text = text.replace(path, f"@{name}" if "@" in name else f"@{name}@")
    assert os.fspath(ROOT) not in text
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(text)


if __name__ == "__main__":
    place = FIXTURES / eventlog.__version__
    shutil.rmtree(place, ignore_errors=True)
    make(place)
