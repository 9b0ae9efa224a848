"""`locus blame`: which turn wrote each line of a file, and why (docs/blame.md)."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click

import eventlog
from eventlog.blobs.ids import blob_id, to_text
from eventlog.undo.blame import BlamedLine
from eventlog.undo.blame_cache import kept_blame

from .. import complete
from ..access import open_store
from ..options import json_option
from ..output import document, moment_exact, one_line, path_words, put
from ..times import when

_WORDS = {
    "outside": "by hand",
    "before": "before recording",
    "unknown": "not known",
    "restored": "merged by an undo",
    "now": "not recorded yet",
}
_TITLE_COLUMNS = 32
_SHARES = ("turn", "session", "agent", "person")
_NOT_COMMITTED = "0" * 40


@click.command("blame")
@click.argument("file", metavar="FILE[:LINE]", shell_complete=complete.paths)
@click.option("-L", "lines", metavar="FROM,TO", help="Only these lines.")
@click.option("-w", "ignore_spaces", is_flag=True, help="Ignore changes of white space within lines.")
@click.option("--at", "turn", metavar="TURN", help="The file as it was at the end of a turn.")
@click.option("--by", type=click.Choice(_SHARES), help="Count lines instead of listing them.")
@click.option("--porcelain", is_flag=True, help="The form of git blame --line-porcelain, for editors.")
@click.option("--show-withheld", is_flag=True, help="Also show a content that holds a secret.")
@json_option
def command(
    file: str,
    lines: str | None,
    ignore_spaces: bool,
    turn: str | None,
    by: str | None,
    porcelain: bool,
    show_withheld: bool,
    as_json: bool,
) -> None:
    """Show which turn wrote each line of a file, and why.

    Lines that a person wrote between turns, that were there before recording began, or that are not
    recorded yet are told apart. FILE:LINE shows one line in full. A file that holds a secret
    is refused with exit code 3, unless --show-withheld is given; --by shows no line.
    """
    path, number = _split(file)
    with open_store() as store:
        name, blamed = _blamed(store, path, turn, ignore_spaces)
        if not (show_withheld or by is not None):
            _refuse_withheld(store, name, blamed)
        shown = [line for line in blamed if line.number in _range(lines, number, len(blamed))]
        if as_json:
            put(document({"lines": [_as_json(line) for line in shown]}))
        elif porcelain:
            put(b"".join(_porcelain(shown, path)))
        elif by is not None:
            put(_shares(store, shown, by))
        elif number is not None:
            put(_whole(store, shown[0]))
        else:
            put(_table(store, shown))


def _split(file: str) -> tuple[str, int | None]:
    name, _, number = file.rpartition(":")
    return (name, int(number)) if name and number.isdigit() and not os.path.lexists(file) else (file, None)


def _range(lines: str | None, number: int | None, last: int) -> range:
    if number is not None:
        first = end = number
    elif lines is None:
        return range(1, last + 1)
    else:
        match = re.fullmatch(r"(\d+)(?:,(\+?)(\d+))?", lines)
        if match is None:
            raise click.UsageError("-L takes FROM,TO or FROM,+COUNT")
        first = int(match[1])
        end = last if match[3] is None else first + int(match[3]) - 1 if match[2] else int(match[3])
    if not 1 <= first <= last:
        raise click.UsageError(f"the file has {last:,} lines, and no line {first:,}")
    return range(first, end + 1)


def _blamed(
    store: "eventlog.Store", given: str, turn: str | None, ignore_spaces: bool
) -> tuple[str, list[BlamedLine]]:
    """The name of the file in the repository, and its lines."""
    from ..filters import names_of

    until, now = None, None
    if turn is not None:
        until = store.turn(turn).until
    elif os.path.isfile(given) and not os.path.islink(given):
        with open(given, "rb") as file:
            now = file.read()
    first: "eventlog.NotFound | None" = None
    for name in names_of(store, given):
        try:
            return name, kept_blame(store, name, now, ignore_spaces=ignore_spaces, until=until)
        except eventlog.NotFound as error:
            first = first or error
    raise first or eventlog.NotFound(f"{given} has no recorded version")


def _refuse_withheld(store: "eventlog.Store", name: str, lines: Sequence[BlamedLine]) -> None:
    """Raises: Refused where the content that would be shown is withheld, or the last one that is recorded."""
    withheld = store.withheld()
    if not withheld:
        return
    last = store.history(name, limit=1, rewritten=False)
    hashes = {to_text(blob_id(b"".join(line.text for line in lines))), *(v.after_hash for v in last)}
    if reasons := hashes & withheld:
        raise eventlog.Refused(
            f"{name} {store.why_withheld(*reasons)}, so its lines are withheld. --show-withheld shows them "
            "all the same; `--by turn` counts them."
        )


# -- showing ---------------------------------------------------------------------------------------------


def _table(store: "eventlog.Store", lines: Sequence[BlamedLine]) -> bytes:
    models = _models(store, lines)
    rows = [(*_columns(line, models), str(line.number), line.text) for line in lines]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(5)]
    out = []
    for *columns, text in rows:
        cells = [cell.ljust(width) for cell, width in zip(columns[:4], widths, strict=False)]
        number = columns[4].rjust(widths[4])
        out.append(f"{'  '.join(cells)}  {number}  ".encode() + _harmless(text) + b"\n")
    return b"".join(out)


def _columns(line: BlamedLine, models: dict[str, str]) -> tuple[str, str, str, str]:
    """The turn, the time, who, and what was asked."""
    version, kind = line.origin.version, line.origin.kind
    if version is None or kind != "version":
        at = "" if version is None else when(version.at)
        return ("", at, "", _WORDS[kind])
    turn = version.turn_name or ""
    who = " ".join(filter(None, (version.agent, models.get(turn))))
    title = one_line(version.title or version.user_request or "", _TITLE_COLUMNS)
    return turn, when(version.at), who, title


def _models(store: "eventlog.Store", lines: Sequence[BlamedLine]) -> dict[str, str]:
    """The model of each turn, by its name."""
    return _of_turns(store, lines, "model")


def _of_turns(store: "eventlog.Store", lines: Sequence[BlamedLine], column: str) -> dict[str, str]:
    """A column of the turns that wrote the lines, by their names."""
    sessions = sorted({line.origin.version.session_id or "" for line in lines if line.origin.version})
    rows = store.query(
        f"select context_id, {column} from turns "
        f"where list_contains($1, session_id) and {column} is not null",
        [sessions],
    ).rows
    return {name.removeprefix("turn:"): value for name, value in rows}


def _harmless(text: bytes) -> bytes:
    """A line for a terminal: its control characters are shown, and not sent."""
    shown = text.rstrip(b"\r\n").decode("utf-8", "replace").expandtabs()
    return "".join(c if c.isprintable() or c == " " else f"\\x{ord(c):02x}" for c in shown).encode()


def _shares(store: "eventlog.Store", lines: Sequence[BlamedLine], by: str) -> str:
    people = _of_turns(store, lines, "person") if by == "person" else {}

    def name_of(line: BlamedLine) -> str:
        version = line.origin.version
        if version is None or line.origin.kind != "version":
            return _WORDS[line.origin.kind]
        names = {"turn": version.turn_name, "session": version.session_id, "agent": version.agent,
                 "person": people.get(version.turn_name or "")}  # fmt: skip
        return one_line(names[by] or "not known")

    counted = Counter(map(name_of, lines)).most_common()
    return "".join(f"{count:>6,}  {100 * count / len(lines):5.1f} %  {name}\n" for name, count in counted)


def _whole(store: "eventlog.Store", line: BlamedLine) -> str:
    """All that is known of one line."""
    version, kind = line.origin.version, line.origin.kind
    text = _harmless(line.text).decode()
    if version is None or kind != "version":
        seen = "" if version is None else f", seen {when(version.at)}"
        return f"line {line.number}: {text}\n{_WORDS[kind]}{seen}\n"
    model = _models(store, [line]).get(version.turn_name or "")
    parts = [
        f"line {line.number}: {text}",
        f"turn     turn:{version.turn_name}",
        f"when     {when(version.at)}",
        f"who      {' '.join(filter(None, (version.agent, model)))}",
        f"asked    {one_line(version.user_request or version.title or 'not known')}",
        f"call     {_call(store, version)}" if version.cause else "",
        f"commit   {version.commit}" if version.commit else "",
        f"event    event:{version.event_id}",
        f"undo     locus undo {version.turn_name}",
    ]
    return "\n".join(filter(None, parts)) + "\n"


def _call(store: "eventlog.Store", version: "eventlog.FileVersion") -> str:
    rows = store.query(
        "select tool, coalesce(command, path, title) from actions where event_id = $1", [version.cause]
    ).rows
    return " ".join(one_line(str(part)) for part in rows[0] if part) if rows else f"event:{version.cause}"


def _porcelain(lines: Sequence[BlamedLine], path: str) -> Iterator[bytes]:
    for line in lines:
        version = line.origin.version if line.origin.kind == "version" else None
        id = _NOT_COMMITTED if version is None else f"{version.event_id}00000000"
        author = _WORDS[line.origin.kind] if version is None else version.agent or "unknown"
        seconds = (version.at or 0) // 1_000_000 if version is not None else 0
        summary = one_line(version.title or version.user_request or "") if version is not None else author
        head = [f"{id} {line.origin.line} {line.number} 1", f"author {author}", "author-mail <>",
                f"author-time {seconds}", "author-tz +0000", f"committer {author}", "committer-mail <>",
                f"committer-time {seconds}", "committer-tz +0000", f"summary {summary}",
                f"filename {path_words(path if version is None else version.path)}"]  # fmt: skip
        end = b"" if line.text.endswith(b"\n") else b"\n"
        yield "\n".join(head).encode() + b"\n\t" + line.text + end


def _as_json(line: BlamedLine) -> dict[str, Any]:
    version = line.origin.version
    known = {} if version is None else {
        "turn": version.turn_name, "event": version.event_id, "agent": version.agent,
        "at": moment_exact(version.at),
        "title": version.title, "commit": version.commit, "path": version.path,
    }  # fmt: skip
    return {
        "line": line.number,
        "text": line.text.decode("utf-8", "surrogateescape"),
        "origin": line.origin.kind,
        "line_there": line.origin.line,
        **known,
    }
