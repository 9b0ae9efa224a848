"""Claims and their evidence: nothing is done, fixed or finished because somebody says so (S2-14).

Reads the files that evidence points to, below one root and never through a symlink; changes nothing.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from blake3 import blake3

from eventlog.base.errors import Refused

_SAYS_DONE = re.compile(r"\b(?:done|implemented|fixed|completed|finished|resolved|shipped)\b", re.IGNORECASE)
_DENIED = re.compile(
    r"(?:\b(?:not|never|nothing|to be|cannot be|until|isn't|aren't|wasn't)(?:\s+\w+)?|n't)\s+$", re.I
)
_LINES = re.compile(r"L?(\d+)(?:\s*[-–]\s*L?(\d+))?")
_SIZE_MAX = 16 << 20


@dataclass(frozen=True, slots=True)
class Doubt:
    """A claim that cannot be let through, and why."""

    claim: str
    why: str


def says_done(text: str) -> bool:
    """Whether a text claims that something is done; words inside of others, and denials, are no claim."""
    return any(not _DENIED.search(text[: match.start()]) for match in _SAYS_DONE.finditer(text))


def claims_in(text: str) -> "list[str]":
    """The lines and sentences of a text that claim that something is done."""
    parts = re.split(r"\n+|(?<=[.!?])\s+", text)
    return [part.strip(" -*\t") for part in parts if says_done(part)]


def claims_of(entry: "Mapping[str, Any]") -> "list[str]":
    """What an entry, or an update of one, claims: its summary's claims, and each step that is done."""
    summary = entry.get("working_summary")
    claims = claims_in(str((summary if isinstance(summary, dict) else {}).get("text") or ""))
    for step in entry.get("checklist") or ():
        text = str(step.get("text") or "")
        claims += [text] if step.get("done") else claims_in(text)
    return claims


def doubts(root: str, ledger: "Iterable[Mapping[str, Any]]", claims: "Iterable[str]" = ()) -> "list[Doubt]":
    """What of a ledger, and of the claims beside it, is not shown.

    A claim is shown by an entry of the ledger whose claim it has, whole or in part.
    """
    doubted = []
    shown = []
    for item in ledger:
        claim = str(item.get("claim", ""))
        why = why_not(root, item) if says_done(claim) or item.get("files") else None
        if why is not None:
            doubted.append(Doubt(claim, why))
        else:
            shown.append(claim)
    for claim in claims:
        if not any(claim in evidence or evidence in claim for evidence in shown if evidence):
            doubted.append(Doubt(claim, "no evidence names it"))
    return doubted


def refuse_doubts(root: str, ledger: "Iterable[Mapping[str, Any]]", claims: "Iterable[str]" = ()) -> None:
    """Raises: Refused with every claim that has no evidence."""
    doubted = doubts(root, ledger, claims)
    if doubted:
        listed = "; ".join(f"{doubt.claim!r}: {doubt.why}" for doubt in doubted[:5])
        more = f"; and {len(doubted) - 5} more" if len(doubted) > 5 else ""
        raise Refused(
            f"claims without evidence: {listed}{more}. Name files with lines or a symbol for each, or do not "
            "say that it is done. Nothing was written."
        )


def why_not(root: str, item: "Mapping[str, Any]") -> "str | None":
    """Why an item of the ledger is no evidence; None when it is."""
    files = item.get("files")
    if not isinstance(files, list) or not files:
        return "it names no file"
    for file in files:
        why = _why_not_located(root, file)
        if why is not None:
            return why
    return None


def with_hashes(root: str, ledger: "Iterable[Mapping[str, Any]]") -> "list[dict[str, Any]]":
    """The ledger with the hash of what each file holds now: `freshness` compares it later."""
    return [
        {
            **item,
            "files": [{**file, "hash": hash_of(root, str(file.get("path", "")))} for file in _files(item)],
        }
        for item in ledger
    ]


def freshness(root: str, file: "Mapping[str, Any]") -> str:
    """`same`, `changed` or `gone` against the noted hash; `unknown` without one."""
    now = hash_of(root, str(file.get("path", "")))
    if now is None:
        return "gone"
    noted = file.get("hash")
    return "unknown" if noted is None else "same" if noted == now else "changed"


def hash_of(root: str, path: str) -> "str | None":
    data = _read(root, path)
    return None if data is None else f"blake3:{blake3(data).hexdigest()}"


def _files(item: "Mapping[str, Any]") -> "Iterator[Mapping[str, Any]]":
    files = item.get("files")
    yield from (file for file in files if isinstance(file, dict)) if isinstance(files, list) else ()


def _why_not_located(root: str, file: object) -> "str | None":
    if not isinstance(file, dict) or not isinstance(file.get("path"), str):
        return "a file of it has no path"
    path, lines, symbol = file["path"], file.get("lines"), file.get("symbol")
    data = _read(root, path)
    if data is None:
        return f"{path} is no file of the repository"
    if lines is None and symbol is None:
        return f"{path} has neither lines nor a symbol"
    if lines is not None:
        match = _LINES.fullmatch(str(lines).strip())
        if match is None:
            return f"{path}: {lines!r} are no lines; L10-L40 are"
        first, last = int(match[1]), int(match[2] or match[1])
        count = data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
        if not 1 <= first <= last <= count:
            return f"{path} has no lines {lines}: it has {count}"
    if symbol is not None and not re.search(rb"(?<!\w)" + re.escape(str(symbol).encode()) + rb"(?!\w)", data):
        return f"{path} has no {symbol}"
    return None


def _read(root: str, path: str) -> "bytes | None":
    """A regular file below `root`, reached without a symlink; None for anything else."""
    parts = path.split("/")
    if not path or path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        return None
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = below
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(parts[-1], flags, dir_fd=fd), "rb") as file:
            return file.read(_SIZE_MAX)
    except (OSError, ValueError):
        return None
    finally:
        os.close(fd)
