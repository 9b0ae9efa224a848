"""Settings outlive caches: no installation that is in one is named in them, as uvx and pipx run make them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import git

TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# This file is a cache directory tag.\n"
ROOT = Path(__file__).resolve().parents[2]
PATHS = (ROOT, *(path for path in sys.path if path.endswith("-packages")))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an environment that runs Locus: as uv lays its own out, but for the tag."""
    cache = tmp_path_factory.mktemp("user") / "uv"
    environment = cache / "archive-v0/jEh9eccrSstn5kWZ"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    (site,) = environment.glob("lib/python3*/site-packages")
    (site / "locus_cli").symlink_to(ROOT / "cli")
    (site / "all.pth").write_text("".join(f"{path}\n" for path in PATHS))
    return cache


@pytest.fixture
def project(tmp_path: Path, cache: Path) -> Path:
    (cache / "CACHEDIR.TAG").write_text(TAG)
    project = tmp_path / "project"
    (project / ".claude").mkdir(parents=True)
    git(project, "init", "-q")
    return project


def run(cache: Path, project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    home = project.parent / "home"
    home.mkdir(exist_ok=True)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LOCUS_", "XDG_", "GIT_"))
    }
    command = [str(next(cache.glob("archive-v0/*/bin/python"))), "-m", "locus_cli", *arguments]
    return subprocess.run(
        command,
        cwd=project,
        env={**kept, "HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def settings(project: Path) -> list[str]:
    return [path.name for path in (project / ".claude").iterdir()]


@pytest.mark.parametrize("arguments", [(), ("--user",), ("--statusline",), ("--dry-run",)])
def test_hooks_of_a_cached_installation_are_refused(
    cache: Path, project: Path, arguments: tuple[str, ...]
) -> None:
    """P4: Exit 3, the cache and two commands are named, and no file is written anywhere."""
    done = run(cache, project, "hooks", "install", "--agent", "claude-code", *arguments)

    assert (done.returncode, done.stdout) == (3, "")
    assert f"is in a cache, {cache}," in done.stderr
    assert re.search(r"`uv tool install (\S+)` or `pipx install \1`", done.stderr), done.stderr
    assert "then `locus hooks install`" in done.stderr
    assert settings(project) == []
    assert list((project.parent / "home").iterdir()) == []


def test_a_new_store_says_so_too(cache: Path, project: Path) -> None:
    """`init --hooks` makes the store, which needs no installation to stay, and then refuses the hooks."""
    done = run(cache, project, "init", "--hooks")

    assert done.returncode == 3
    assert "is in a cache" in done.stderr
    assert (project / ".locus/STORE").is_file()
    assert settings(project) == []


def test_a_server_of_a_cached_installation_is_refused(cache: Path, project: Path) -> None:
    """P4: Settings of the user would name its path; those of a project name a program by its name alone."""
    done = run(cache, project, "mcp", "install", "--agent", "claude-code", "--scope", "user")

    assert done.returncode == 3
    assert "is in a cache" in done.stderr and "then `locus mcp install --scope user`" in done.stderr
    assert list((project.parent / "home").iterdir()) == []


def test_hooks_that_name_no_path_are_installed(cache: Path, project: Path) -> None:
    """--project names the program `locus-hook`, wherever each machine has it."""
    done = run(cache, project, "hooks", "install", "--agent", "claude-code", "--project")

    assert done.returncode == 0, done.stderr
    assert settings(project) == ["settings.json"]


@pytest.mark.parametrize("tag", ["inside", "other"])
def test_an_environment_that_stays_is_used(cache: Path, project: Path, tag: str) -> None:
    """P4: a tag inside of the environment, as uv puts one into its tools, is none of a cache around it;
    nor is a file of that name with other contents."""
    (cache / "CACHEDIR.TAG").unlink()
    if tag == "inside":
        next(cache.glob("archive-v0/*/bin")).with_name("CACHEDIR.TAG").write_text(TAG)
    else:
        (cache / "CACHEDIR.TAG").write_text("a note of mine\n")
    done = run(cache, project, "hooks", "install", "--agent", "claude-code")

    assert done.returncode == 0, done.stderr
    assert settings(project) == ["settings.local.json"]
