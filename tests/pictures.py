"""Pictures of a terminal for README and docs, made of what commands print there: `python -m tests.pictures`.

The session is that of the tutorial (examples/session.py). A picture holds its text once more as `<desc>`, for
those who cannot see it, and for the test that compares it with what the commands print now. It names fonts of
the reader's machine and loads nothing.
"""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from html import escape, unescape
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.pages import ROOT, environment

PICTURES = ROOT / "docs/pictures"
WIDTH = 96
# A picture, its commands, and what a person answers.
SCENES = {
    "show": (["locus show {first}"], ""),
    "undo": (["locus show last", "locus undo", "cat .env"], "y"),
}
_SVG = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<desc>@TEXT@</desc>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    for name, text in play().items():
        (PICTURES / f"{name}.svg").write_text(drawn(name, text), encoding="utf-8")


def play() -> dict[str, str]:
    """What a terminal shows of each scene, with its escape sequences."""
    with tempfile.TemporaryDirectory() as directory:  # a short name, so that no line with it is cut
        return played_in(Path(directory))


def played_in(directory: Path) -> dict[str, str]:
    variables = {**environment(directory), "TERM": "xterm-256color", "LOCUS_PAGER": "cat", "TZ": "UTC"}
    subprocess.run(
        [directory / "bin/record-kiosk"], cwd=directory, env=variables, check=True, capture_output=True
    )
    kiosk = directory / "kiosk"
    log = subprocess.run(
        ["locus", "log"], cwd=kiosk, env=variables, check=True, capture_output=True, text=True
    )
    (first,) = re.findall(r"^\w+_001", log.stdout, re.M)
    shown = {}
    for name, (commands, answer) in SCENES.items():
        text = ""
        for command in commands:
            command = command.format(first=first)
            text += f"\x1b[1m$ {command}\x1b[0m\n" + on_terminal(kiosk, command, variables, answer)
        shown[name] = text.replace(str(directory), "~")
    return shown


def on_terminal(cwd: Path, command: str, variables: dict[str, str], answer: str) -> str:
    """What a command writes on a terminal, where `answer` is given to a question."""
    child, leader = pty.fork()
    if child == 0:
        os.chdir(cwd)
        os.execvpe("sh", ["sh", "-c", f"sleep 0.2; {command}"], variables)
    fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 200, WIDTH, 0, 0))
    written = b""
    while True:
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # Linux says so when the last one closed the other end
            break
        written += chunk
        if written.rstrip().endswith((b"?", b"]", b":")) and answer and b"[y/N]" in written:
            os.write(leader, answer.encode() + b"\n")
            answer = ""
        if not chunk:
            break
    os.close(leader)
    os.waitpid(child, 0)
    return written.decode().replace("\r\n", "\n")


def drawn(name: str, text: str) -> str:
    """The picture of a terminal that shows `text`."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    seen = Text.from_ansi(text.rstrip("\n"))
    console.print(seen)
    svg = console.export_svg(title="locus", code_format=_SVG, unique_id=name)
    return re.sub(r"[ \t]+$", "", svg, flags=re.M).replace("@TEXT@", escape(seen.plain, quote=False))


def text_of(picture: Path) -> str:
    """The text that a picture shows."""
    (text,) = re.findall(r"<desc>(.*?)</desc>", picture.read_text(encoding="utf-8"), re.S)
    return unescape(text)


if __name__ == "__main__":
    sys.exit(main())
