"""The wheel and the source distribution: that they are whole, and claim what is so."""

import email
import email.message
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.package.conftest import ROOT

PACKAGES = {"eventlog": "eventlog", "cli": "locus_cli"}
MADE = {"PKG-INFO", "setup.cfg"}  # by a build


def tracked(*directories: str) -> set[str]:
    """The files that git tracks, of some directories or all."""
    names = subprocess.run(
        ["git", "ls-files", "-z", *directories], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    return {name for name in names.split("\0") if name}


def metadata_of(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    """Modules, data, `py.typed` and the license, each with the bytes that git has, and nothing else."""
    expected = {}
    for name in tracked(*PACKAGES):
        top, _, rest = name.partition("/")
        expected[f"{PACKAGES[top]}/{rest}"] = (ROOT / name).read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    info = {name.partition("/")[2] for name in contents if ".dist-info/" in name}
    packed = {name: data for name, data in contents.items() if ".dist-info/" not in name}

    assert packed.keys() == expected.keys()
    assert packed == expected
    assert "eventlog/py.typed" in packed and "eventlog/secrets/own.toml" in packed
    assert info == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt"}


def test_the_source_has_everything_that_git_tracks(sdist: Path) -> None:
    """So that it can be changed, tested and built: docs, tests and their data, scripts, pins."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    packed = {name for name in names if not name.startswith("locus_eventlog.egg-info/")}

    assert packed - MADE == tracked()
    assert packed >= MADE


def test_the_source_builds_the_same_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    """`scripts/dist` makes it from the source distribution; made of the checkout it has the same bytes."""
    source, again = tmp_path / "source", tmp_path / "again"
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
        (source / name).chmod((ROOT / name).stat().st_mode)
    page = [sys.executable, str(ROOT / "scripts/package_page.py"), str(ROOT / "README.md")]
    (source / "README.md").write_bytes(subprocess.run(page, capture_output=True, check=True).stdout)
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--outdir",
        str(again),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in again.iterdir()] == [wheel.name]
    with zipfile.ZipFile(again / wheel.name) as ours, zipfile.ZipFile(wheel) as theirs:
        assert {name: ours.read(name) for name in ours.namelist()} == {
            name: theirs.read(name) for name in theirs.namelist()
        }


def test_the_metadata_claims_what_ran(wheel: Path) -> None:
    """No address that leads nowhere; the systems and Pythons are those that tests run on."""
    metadata = metadata_of(wheel)
    classifiers = metadata.get_all("Classifier", [])

    assert metadata["Name"] == "locus-eventlog"
    assert not {"Home-page", "Project-URL", "Author-email", "Maintainer-email"} & set(metadata.keys())
    assert [name for name in classifiers if name.startswith("Operating System")] == [
        "Operating System :: POSIX :: Linux"
    ]
    versions = [name for name in classifiers if re.search(r":: 3\.\d+$", name)]
    assert f"Programming Language :: Python :: 3.{sys.version_info.minor}" in versions
    assert versions == ["Programming Language :: Python :: 3.11"]
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_all_has_what_commands_can_use(wheel: Path) -> None:
    """The extra `all` brings each library that a command can use; others are named here with why not."""
    left_out = {
        "browser": "tests",
        "claude-agent": "who records its agents has it already",
        "dev": "tests and checks",
        "docs": "the site",
        "fast": "wheels are not to be had for every platform",
        "lake-tests": "tests",
        "langgraph": "who records its agents has it already",
        "openai-agents": "who records its agents has it already",
        "package-tests": "tests",
        "spark": "Java, and half a gigabyte",
    }
    extras = set(metadata_of(wheel).get_all("Provides-Extra", []))
    (everything,) = (
        line for line in metadata_of(wheel).get_all("Requires-Dist", []) if 'extra == "all"' in line
    )

    assert set(re.findall(r"\[(.*?)\]", everything)[0].split(",")) == extras - left_out.keys() - {"all"}


@pytest.mark.parametrize("program", ["locus", "locus-hook"])
def test_an_empty_environment_gets_the_programs(program: str) -> None:
    """The stage installs the wheel alone, and these are then on the PATH of its session of hooks."""
    if "LOCUS_INSTALLED" not in os.environ:
        pytest.skip("nothing is installed: the stage 30-package sets LOCUS_INSTALLED")

    assert os.access(Path(os.environ["LOCUS_INSTALLED"]) / "bin" / program, os.X_OK)
