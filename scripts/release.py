"""Makes a release on this machine: scripts/release VERSION. Uploads nothing (docs/releasing.md).

Writes the version and the changelog's section, runs .ci/run, commits, tags, and builds into dist/. Where a
check fails, the files are as they were, and there is neither a commit nor a tag.
"""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
MODULE, PLUGIN, CHANGELOG = (
    ROOT / name
    for name in ("eventlog/__init__.py", "plugins/claude-code/.claude-plugin/plugin.json", "CHANGELOG.md")
)
INSTALLED = ROOT / "tests/fixtures/installed"
UNRELEASED = "## [Unreleased]\n"


def fail(problem: str) -> NoReturn:
    sys.exit(f"release: {problem}")


def run(*command: str) -> str:
    """What a command prints. Raises: CalledProcessError."""
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def current_version() -> str:
    return re.findall(r'^__version__ = "(.*)"$', MODULE.read_text(encoding="utf-8"), re.M)[0]


def refuse(version: str) -> None:
    """Refuse what cannot be released: before anything is written."""
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version):
        fail(f"{version}: a version is three numbers, such as 1.2.3")
    if run("git", "tag", "--list", f"v{version}"):
        fail(f"v{version} is a tag already")
    before = current_version()
    if numbers(version) < numbers(before) or (version == before and run("git", "tag", "--list", "v*")):
        fail(f"{version} does not follow {before}")
    if run("git", "status", "--porcelain"):
        fail("the working tree has changes: commit or stash them")
    if not unreleased():
        fail("CHANGELOG.md has nothing below [Unreleased]")


def unreleased() -> str:
    """The section of the changelog that becomes this release's."""
    section = CHANGELOG.read_text(encoding="utf-8").partition(UNRELEASED)[2].partition("\n## [")[0]
    return section.strip() if re.search(r"^- ", section, re.M) else ""


def edit(version: str) -> None:
    """Write the version everywhere, and keep what `locus hooks install` of it writes."""
    today = datetime.now(UTC).date().isoformat()
    text = CHANGELOG.read_text(encoding="utf-8")
    CHANGELOG.write_text(
        text.replace(UNRELEASED, f"{UNRELEASED}\n## [{version}] - {today}\n", 1), encoding="utf-8"
    )
    for path, pattern in ((MODULE, r'(?m)^(__version__ = )".*"$'), (PLUGIN, r'("version": )"[^"]*"')):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(pattern, rf"\g<1>{json.dumps(version)}", text, count=1), encoding="utf-8")
    if not (INSTALLED / version).exists():
        subprocess.run([sys.executable, "-m", "tests.golden.make_installed"], cwd=ROOT, check=True)


def take_back(version: str) -> None:
    """Give the files the bytes that they had."""
    run("git", "checkout", "-q", "HEAD", "--", ".")
    run("git", "clean", "-fdq", "--", str((INSTALLED / version).relative_to(ROOT)))


def release(version: str) -> None:
    try:
        edit(version)
        subprocess.run([str(ROOT / ".ci/run")], cwd=ROOT, check=True)
    except BaseException:  # Ctrl-C too
        take_back(version)
        raise
    run("git", "add", "--all")
    run("git", "commit", "-q", "-m", f"Release {version}")
    run("git", "tag", "-a", f"v{version}", "-m", f"Locus {version}")
    subprocess.run([str(ROOT / "scripts/dist"), str(ROOT / "dist" / version)], cwd=ROOT, check=True)
    print(
        f"Tagged v{version}; dist/{version} has the files. Nothing was uploaded: docs/releasing.md goes on."
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        fail("usage: scripts/release VERSION")
    refuse(sys.argv[1])
    try:
        release(sys.argv[1])
    except (subprocess.CalledProcessError, KeyboardInterrupt) as error:
        fail(f"not released, and nothing is changed: {error}")
