"""Pages whose commands are run: what they print is compared in shape with what is below them.

Ids, hashes, dates, times, sizes and paths may differ from those shown, words and structure may not.
LOCUS_UPDATE=1 writes the present output into the page. A comment `<!-- before: COMMAND -->` is a command
that a page runs and does not show, such as one that makes the store it is about.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"

# The project of docs/tutorial/ten-minutes.md, recorded: pages begin with it where they need a session.
_RECORD_KIOSK = r"""#!/bin/sh
set -e
mkdir kiosk && cd kiosk && git init -q
printf 'PRICES = {\n    "tea": 2,\n    "cake": 3,\n}\n' > prices.py
printf 'tea,40\ncake,12\n' > stock.csv
echo 'TILL=kiosk' > .env && echo '.env' > .gitignore
git add -A && git commit -q -m "Open the kiosk"
locus init && locus hooks install --agent codex && python3 ~/locus/examples/session.py
"""
_CONSOLE = r"(?<=^```console\n).*?(?=^```$)"
_RUN = re.compile(rf"^<!-- before: ([^\n]*) -->$|{_CONSOLE}", re.M | re.S)
_MARK = "\x01"
_DATE = "2026-03-01T12:00:00+00:00"
_SHAPES = (
    (r"\S*/\.locus\b", "STORE"),
    (r"(who works in them): .*, on \S+\. It", r"\1: WHO. It"),
    (r"\S*/index/|\b\d{20}-[0-9a-f]{8}\.duckdb", "INDEX"),
    (r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?)?", "DATE"),
    (r"\b\d\d:\d\d:\d\d\b", "TIME"),
    (r"\b[0-9a-z]{8}_(\d{3})\b", r"SID_\1"),
    (r"\b[0-9a-f]{7,}…?", "HEX"),
    (r"\b[\d.]+ (?:B|kB|MB)\b", "SIZE"),
    (r"(?: · |  )[\d.]+ m?s(?= ·|$)", ""),  # is there when it was long enough
    (r"━+", "━"),
    (r"\bjust now\b|\b\d+ (?:s|min) ago\b", "AGE"),
    (r"\b[\d.]+ m?s\b", "SECONDS"),
    (r"\b\d{4}-W\d\d\b", "WEEK"),
    (r"[ \t]+", " "),
    (r" +$", ""),
)


def blocks(kind: str, page: Path = README) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


def shape(text: str) -> str:
    for pattern, word in _SHAPES:
        text = re.sub(pattern, word, text, flags=re.M)
    return text


def environment(directory: Path) -> dict[str, str]:
    """A `locus` on the PATH, a home of its own, and a git that is nobody's."""
    bin_directory = directory / "bin"
    bin_directory.mkdir(exist_ok=True)
    python = shlex.quote(sys.executable)
    programs = {
        "locus": f'#!/bin/sh\nexec {python} -m locus_cli "$@"\n',
        "python3": f'#!/bin/sh\nexec {python} "$@"\n',
        "record-kiosk": _RECORD_KIOSK,
    }
    for name, text in programs.items():
        (bin_directory / name).write_text(text)
        (bin_directory / name).chmod(0o755)
    (directory / "locus").symlink_to(ROOT) if not (directory / "locus").exists() else None
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "You"), ("EMAIL", "you@example.org"), ("DATE", _DATE))}  # fmt: skip
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "LOCUS_", "XDG_"))
    }
    return {
        **own,
        **who,
        "PATH": f"{bin_directory}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(directory),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }


def run_page(page: Path, directory: Path) -> list[str]:
    """What each command that a page shows prints, both streams together, in one shell so that `cd` lasts."""
    script = ""
    for match in _RUN.finditer(page.read_text(encoding="utf-8")):
        if match[1] is not None:
            script += f"{{ {match[1]}; }} > /dev/null 2>&1\n"
        for command, _ in () if match[1] is not None else parse(match[0]):
            script += f"printf '{_MARK}'\n{command}\n"
    done = subprocess.run(
        ["sh", "-c", f"exec 2>&1\n{script}"],
        cwd=directory,
        env=environment(directory),
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=400,
    )
    text = done.stdout.replace(str(directory), "~").replace(str(ROOT), "~/locus")
    assert "~/locus/eventlog" not in text and "this is a bug in Locus" not in text, text
    return text.split(_MARK)[1:]


def parse(block: str) -> list[tuple[str, str]]:
    """(command, what it prints) of a console block."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.M)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def shown_by(page: Path) -> list[tuple[str, str]]:
    """(command, what is below it) of all console blocks of a page."""
    return [pair for block in blocks("console", page) for pair in parse(block)]


def compare_printed(page: Path, printed: list[str]) -> None:
    """Each command of a page prints what is below it; LOCUS_UPDATE=1 writes what it prints."""
    if os.environ.get("LOCUS_UPDATE") == "1":
        left = iter(printed)

        def updated(match: "re.Match[str]") -> str:
            return "".join(f"$ {command}\n{next(left)}" for command, _ in parse(match[0]))

        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(_CONSOLE, updated, text, flags=re.M | re.S), encoding="utf-8")
    shown = shown_by(page)
    for (command, text), seen in zip(shown, printed, strict=True):
        assert shape(seen) == shape(text), f"$ {command}"


def check_page(page: Path, directory: Path) -> None:
    """Run a page in an empty directory, and compare."""
    compare_printed(page, run_page(page, directory))
