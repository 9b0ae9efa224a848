"""A stranger's first minutes, a release, and what a page claims before there is one to publish."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests import test_house as house
from tests.test_scripts import ready_venv

ROOT = Path(__file__).resolve().parent.parent
NOBODY = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "A U Thor"), ("EMAIL", "author@example.org"))
}


class Checkout:
    """A repository with the files of this one, as they are on disk, and a virtual environment."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "locus"
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "LOCUS_"))},
            **NOBODY,
            "HOME": str(directory),
            "GIT_CONFIG_SYSTEM": os.devnull,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in filter(None, listed.decode().split("\0")):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, self.root / name)

    def commit(self) -> None:
        self.git("init", "-q")
        self.git("add", "--all")
        self.git("commit", "-q", "-m", "The files")
        self.environ["LOCUS_VENV"] = str(ready_venv(self.root.parent, self.root))

    def git(self, *arguments: str) -> str:
        command = ["git", *arguments]
        done = subprocess.run(
            command, cwd=self.root, env=self.environ, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def put_ci(self, body: str) -> None:
        """In the place of continuous integration, which takes longer than a test may."""
        (self.root / ".ci/run").write_text(f"#!/bin/sh\n{body}\n")

    def release(self, version: str) -> "subprocess.CompletedProcess[str]":
        command = [str(self.root / "scripts/release"), version]
        return subprocess.run(command, cwd=self.root, env=self.environ, capture_output=True, text=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    checkout = Checkout(tmp_path_factory.mktemp("release"))
    checkout.put_ci('grep -h "^__version__" eventlog/__init__.py >>"$HOME/ci"; exit "$(cat "$HOME/code")"')
    checkout.commit()
    (checkout.root.parent / "code").write_text("0")
    return checkout


@pytest.fixture
def checkout(made: Checkout) -> Checkout:
    """As it was committed first, without tags."""
    made.git("reset", "-q", "--hard", made.git("rev-list", "--max-parents=0", "HEAD"))
    made.git("clean", "-fdxq")
    for tag in made.git("tag", "--list").split():
        made.git("tag", "-d", tag)
    (made.root.parent / "ci").unlink(missing_ok=True)
    (made.root.parent / "code").write_text("0")
    return made


def test_a_release_is_checked_tagged_and_built(checkout: Checkout) -> None:
    """The checks run on the version that is tagged, and the files of `dist/` are built of the tag."""
    done = checkout.release("0.2.0")
    assert done.returncode == 0, done.stderr
    changelog = (checkout.root / "CHANGELOG.md").read_text()
    heads = re.findall(r"^## .*$", changelog, re.M)

    assert (checkout.root.parent / "ci").read_text() == '__version__ = "0.2.0"\n'
    assert heads[0] == "## [Unreleased]"
    assert re.fullmatch(r"## \[0\.2\.0\] - \d{4}-\d\d-\d\d", heads[1])
    assert re.search(rf"{re.escape(heads[1])}\n\n### Added\n", changelog)
    assert checkout.git("cat-file", "-t", "v0.2.0") == "tag"
    assert checkout.git("rev-parse", "v0.2.0^{commit}") == checkout.git("rev-parse", "HEAD")
    assert checkout.git("log", "-1", "--format=%s") == "Release 0.2.0"
    assert '"version": "0.2.0"' in checkout.git("show", "HEAD:plugins/claude-code/.claude-plugin/plugin.json")
    assert checkout.git("ls-tree", "HEAD", "tests/fixtures/installed/0.2.0/") != ""
    assert checkout.git("status", "--porcelain") == ""
    assert sorted(path.name for path in (checkout.root / "dist/0.2.0").iterdir()) == [
        "locus_eventlog-0.2.0-py3-none-any.whl",
        "locus_eventlog-0.2.0.tar.gz",
    ]
    assert "Nothing was uploaded" in done.stdout


def test_a_failed_check_leaves_everything_as_it_was(checkout: Checkout) -> None:
    """No commit, no tag, no file of it."""
    before = checkout.git("rev-parse", "HEAD")
    (checkout.root.parent / "code").write_text("1")
    done = checkout.release("0.2.0")

    assert done.returncode == 1
    assert "not released, and nothing is changed" in done.stderr
    assert checkout.git("rev-parse", "HEAD") == before
    assert checkout.git("status", "--porcelain") == "" and not (checkout.root / "dist").exists()
    assert checkout.git("tag", "--list") == ""


@pytest.mark.parametrize(
    ("version", "spoil", "problem"),
    [
        ("1.2", "", "three numbers"),
        ("01.2.3", "", "three numbers"),
        ("0.0.9", "", "does not follow 0.1.0"),
        ("0.2.0", "git tag v0.2.0", "v0.2.0 is a tag already"),
        ("0.1.0", "git tag v0.0.9", "does not follow 0.1.0"),
        ("0.2.0", "echo more >>README.md", "the working tree has changes"),
        ("0.2.0", "echo new >new", "the working tree has changes"),
        (
            "0.2.0",
            "printf '## [Unreleased]\\n\\n## [0.1.0] - 2026-01-01\\n\\n- all\\n' >CHANGELOG.md;"
            "git commit -qam less",
            "CHANGELOG.md has nothing below [Unreleased]",
        ),
    ],
)
def test_what_cannot_be_released_is_refused(
    checkout: Checkout, version: str, spoil: str, problem: str
) -> None:
    """Before any check is run or file is written."""
    subprocess.run(["sh", "-c", spoil], cwd=checkout.root, env=checkout.environ, check=True)
    before = checkout.git("status", "--porcelain"), checkout.git("tag", "--list")
    done = checkout.release(version)

    assert done.returncode == 1 and problem in done.stderr
    assert (checkout.git("status", "--porcelain"), checkout.git("tag", "--list")) == before
    assert not (checkout.root.parent / "ci").exists()


def test_a_stranger_gets_passing_tests_by_three_commands(tmp_path: Path) -> None:
    """Those of CONTRIBUTING.md, as they are there; of the tests one file is chosen."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    commands = re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S)[0].splitlines()
    origin = Checkout(tmp_path / "origin")
    origin.commit()
    clone = tmp_path / "locus"
    shutil.copytree(origin.root, clone)
    venv = ready_venv(tmp_path, clone)  # its stamp names the path and the pins of the clone
    shutil.rmtree(clone)
    script = "\n".join(commands).replace("REPOSITORY", f"'{origin.root}'")
    done = subprocess.run(
        ["sh", "-ec", script],
        cwd=tmp_path,
        env={**origin.environ, "LOCUS_VENV": str(venv), "PYTEST_ADDOPTS": "tests/test_ground.py"},
        capture_output=True,
        text=True,
    )

    assert len(commands) == 3
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^=+ \d+ passed in ", done.stdout, re.M)


# Files that say where Locus is and who makes it.
CLAIMS = [
    *ROOT.glob("*.md"),
    *(
        ROOT / name
        for name in ("CITATION.cff", "pyproject.toml", "LICENSE", ".claude-plugin/marketplace.json")
    ),
    ROOT / "plugins/claude-code/.claude-plugin/plugin.json",
    *(ROOT / ".github").rglob("*.md"),
]
KNOWN_HOSTS = {"keepachangelog.com", "semver.org"}


@pytest.mark.fast
@pytest.mark.parametrize("path", CLAIMS, ids=lambda path: path.name)
def test_no_address_is_claimed_before_there_is_one(path: Path) -> None:
    """No badge, no address of ours on the web, nobody to write to (docs/releasing.md)."""
    text = path.read_text(encoding="utf-8")
    hosts = {host for host in re.findall(r"https?://([\w.-]+)", text) if not host.startswith("127.")}

    assert hosts <= KNOWN_HOSTS
    assert [name for name in re.findall(r"[\w.+-]+@([\w-]+\.[\w.-]+)", text) if name != "example.org"] == []
    assert not re.search(r"!\[[^\]]*\]\(http", text)


@pytest.mark.fast
def test_what_is_to_be_filled_in_is_there() -> None:
    """Each file of the list in docs/releasing.md exists, and those that name authors name the same."""
    page = (ROOT / "docs/releasing.md").read_text(encoding="utf-8").partition("## To be filled in")[2]
    named = set(re.findall(r"`([\w./-]+\.(?:md|toml|cff|json|py)|LICENSE)`", page))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (author,) = project["authors"]

    assert len(named) >= 8 and [name for name in named if not (ROOT / name).is_file()] == []
    assert author.keys() == {"name"} and author["name"] in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert f'- name: "{author["name"]}"' in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert "REPOSITORY" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "urls" not in project


@pytest.mark.fast
def test_version_is_printed_once() -> None:
    """pyproject.toml takes the version from the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "eventlog.__version__"}


@pytest.mark.fast
def test_every_package_is_installed() -> None:
    """setup.py names each package directory, so that an installed Locus is whole; what is built is compared
    with what git tracks in tests/package."""
    arguments: dict[str, object] = {}
    code = (ROOT / "setup.py").read_text(encoding="utf-8").replace("find_packages, setup", "find_packages")
    exec(compile(code, "setup.py", "exec"), {"setup": arguments.update})
    present = {
        name for name, path in house.modules("eventlog", "locus_cli").items() if path.name == "__init__.py"
    }

    assert set(arguments["packages"]) == present  # type: ignore[call-overload]
    assert arguments["package_dir"] == {"locus_cli": "cli"}
