"""A file system that is really full, at each verb that writes: nothing acknowledged is lost (I1, I35)."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.full_disk import VERBS, Disk, prepare

HUNT = bool(os.environ.get("LOCUS_HUNT"))
SEED = int(os.environ.get("LOCUS_SEED", "1"))
ROOMS = (0, 4096, 24_576, 90_112)
SPACE = ("unshare", "--mount")


def can_mount() -> bool:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    made = subprocess.run([*SPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False)
    return made.returncode == 0


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Disk:
    if not can_mount():
        pytest.skip("only root may mount a file system")
    made = Disk(tmp_path_factory.mktemp("full"), "tmpfs")
    prepare(made)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("verb", list(VERBS) if HUNT else random.Random(SEED).sample(list(VERBS), 2))
def test_a_verb_meets_a_full_file_system(verb: str, disk: Disk) -> None:
    """I1, I35, P4: it says so in a documented code or is not hindered, all is read meanwhile, and with room
    again it does its work, verify finds nothing, and every kept turn has the files that it had."""
    rooms = map(str, ROOMS if HUNT else ROOMS[:2])
    command = [*SPACE, sys.executable, "-m", "tests.full_disk", str(disk.directory), disk.kind, verb, *rooms]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    for item in map(json.loads, done.stdout.splitlines()):
        print(item)
        assert item["code"] in (0, 1, 3)
        assert "Traceback" not in item["err"] and (item["code"] == 0 or "locus: " in item["err"])
        assert item["log"] == (12 if verb == "repair" and item["code"] else 0)
        assert item["lost"] == []
        assert item["again"][0] == (4 if verb == "salvage" else 0), item["again"]
        assert item["verified"] == [0, ""]
        assert len(item["changed"]) == (2 if verb == "erase" else 0)
        assert [name for name in item["left"] if not name.startswith(("clock", "statcache-", "hook-"))] == []
