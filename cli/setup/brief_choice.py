"""Whether hooks brief a new session: asked once, set (docs/briefing.md)."""

import os
import tomllib

import click

import eventlog
from eventlog.base import config
from eventlog.base.fs import REAL, read_file, replace, translate_os_errors
from eventlog.base.layout import Layout

from ..output import say
from ..streams import can_ask

_QUESTION = (
    "Brief agents when they begin a session (the last requests, their outcomes, what is left to do; up to "
    "1,000 tokens)?"
)
_BRIEFED = "New sessions get a briefing. `locus hooks install --no-brief` ends that."
_SILENT = "New sessions get no briefing. `locus hooks install --brief` changes that."
_SECTION, _KEY = "briefing", "at_start"
_SIZE_MAX = 1 << 20


def decide(layout: Layout, briefs: bool) -> None:
    """Set `[briefing] at_start` in config.toml, leave the rest as it is, and report it.

    Raises: Refused (no plain file, or one that is not TOML), EventLogError (it cannot be written).
    """
    text = _text(layout)
    path = layout.config_file
    try:
        new = _with(text, briefs)
        done = tomllib.loads(new)[_SECTION][_KEY] is briefs
    except (ValueError, KeyError, TypeError):
        done = False
    if not done:
        raise eventlog.Refused(f"{path} was not changed: set `{_KEY}` below `[{_SECTION}]` in it yourself.")
    if new != text:
        with translate_os_errors(path, "set that"):
            os.makedirs(os.path.dirname(layout.tmp("")), mode=0o700, exist_ok=True)
            tmp = layout.tmp(f"config-{REAL.random_bytes(8).hex()}")
            replace(REAL, tmp, path, new.encode())
    problem = config.read(REAL, layout).problem
    say(problem if problem is not None else _BRIEFED if briefs else _SILENT)


def settle(layout: Layout, briefs: bool | None) -> None:
    """Apply the option, else ask; a file that cannot be edited is named, and left as it is."""
    try:
        ask_once(layout) if briefs is None else decide(layout, briefs)
    except eventlog.EventLogError as error:
        say(str(error))


def ask_once(layout: Layout) -> None:
    """Ask on a terminal, where the default answer is yes; elsewhere it stays off (P4)."""
    try:
        decided = _KEY in tomllib.loads(_text(layout)).get(_SECTION, {})
    except (ValueError, TypeError, AttributeError, eventlog.EventLogError):
        return  # `locus doctor` reports its problem
    if decided:
        return
    if can_ask():
        decide(layout, click.confirm(_QUESTION, default=True, err=True))
    else:
        say(_SILENT)


def _text(layout: Layout) -> str:
    """Raises: Refused."""
    path = layout.config_file
    if not os.path.lexists(path):
        return ""
    try:
        return read_file(REAL, path, _SIZE_MAX).decode()
    except (OSError, ValueError) as error:
        raise eventlog.Refused(f"{path} cannot be read: {error}") from error


def _with(text: str, briefs: bool) -> str:
    """The text with the key: where it was, or first below its table, or in a new table at the end."""
    setting = f"{_KEY} = {'true' if briefs else 'false'}"
    lines, table, heading = text.splitlines(keepends=True), "", None
    for number, line in enumerate(lines):
        words = line.partition("#")[0].strip()
        if words.startswith("["):
            table = words.strip("[] \t")
            heading = number if table == _SECTION else heading
        elif table == _SECTION and words.partition("=")[0].strip() == _KEY:
            comment = line[line.index("#") :].rstrip("\r\n") if "#" in line else ""
            lines[number] = f"{setting}{'  ' + comment if comment else ''}\n"
            return "".join(lines)
    if heading is not None:
        ended = "" if lines[heading].endswith("\n") else "\n"
        lines[heading] += f"{ended}{setting}\n"
        return "".join(lines)
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}[{_SECTION}]\n{setting}\n"
