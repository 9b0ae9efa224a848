"""The three figures: recall on samples, finds in ordinary source, turns whose diff is incomplete."""

from __future__ import annotations

import json
import os
import sysconfig
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.process import git, locus, run
from benchmarks.secrets import doors
from benchmarks.secrets.generator import Kind, Sample, samples
from benchmarks.secrets.gitleaks import Rules
from eventlog.secrets import bulk_prefilter

_FILE_BYTES_MAX = 1 << 20
_AT_ONCE_BYTES = 8 << 20
_MARK = "[REDACTED:"
_KINDS = (
    "select k, count(*) from (select unnest(kinds) as k from withheld_contents) group by k order by 2 desc"
)


def recall(
    kinds: Sequence[Kind], each: int, seed: int, rules: Rules | None = None
) -> tuple[dict[str, dict[str, Any]], list[tuple[str, Sample]]]:
    """Of each kind how many samples there are and how many each door finds; (door, sample) of each miss."""
    named: dict[str, doors.Door] = {
        "hooks": doors.hooks,
        "hook_contents": doors.hook_contents,
        "bulk": doors.bulk,
        "bulk_contents": doors.bulk_contents,
    }
    if rules is not None:
        named["gitleaks"] = doors.gitleaks(rules)
    made = [sample for kind in kinds for sample in samples(kind, each, seed)]
    rows: dict[str, dict[str, Any]] = {
        kind.name: {"group": kind.group, "held_out": kind.is_held_out, "samples": each} for kind in kinds
    }
    missed: list[tuple[str, Sample]] = []
    for name, door in named.items():
        found: dict[str, list[bool]] = defaultdict(list)
        for sample, answer in zip(made, door(made), strict=True):
            if answer is not None:
                found[sample.kind].append(answer)
                if not answer:
                    missed.append((name, sample))
        for kind in kinds:
            rows[kind.name][name] = sum(found[kind.name]) if kind.name in found else None
    return rows, missed


def shares(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Of some kinds together: for each door the mean of their recalls, so that every kind counts alike."""
    rows = list(rows)
    result: dict[str, Any] = {"kinds": len(rows)}
    for door in ("hooks", "hook_contents", "bulk", "bulk_contents", "gitleaks"):
        each = [row[door] / row["samples"] for row in rows if row.get(door) is not None]
        result[door] = round(sum(each) / len(each), 4) if each else None
    return result


def false_finds(directory: str, most_bytes: int, rules: Rules | None = None) -> dict[str, Any]:
    """What is found in ordinary source: nobody has looked through it, so a true secret counts, too.

    Finds are marks in the redacted text; `files` are contents that would be withheld.
    """
    mine = doors.redactor()
    sizes = finds = withheld = files = hers = unlike = 0
    kinds: Counter[str] = Counter()
    her_rules: Counter[str] = Counter()
    places: list[str] = []
    for some in _texts(directory, most_bytes):
        suspects = bulk_prefilter.suspects([text.encode() for _, text in some])
        for (path, text), suspect in zip(some, suspects, strict=True):
            files += 1
            sizes += len(text.encode())
            names = mine.kinds_in(text.encode())
            withheld += bool(names)
            unlike += bool(names) and not suspect
            if not names:
                continue
            old, new = text.count(_MARK), mine.text(text)
            count = new.count(_MARK) - old
            finds += count
            kinds.update(new[at + len(_MARK) :].split(":")[0] for at in _all(new, _MARK))
            places.append(f"{path}: {count} {', '.join(names)}")
        if rules is not None:
            for found in rules.find(some):
                hers += len(found)
                her_rules.update(f.rule for f in found)
    per_mb = sizes / 1e6 or 1
    result: dict[str, Any] = {
        "corpus": os.path.basename(os.path.abspath(directory)),
        "files": files,
        "bytes": sizes,
        "finds": finds,
        "finds_per_mb": round(finds / per_mb, 3),
        "files_withheld": withheld,
        "missed_by_first_look": unlike,
        "kinds": dict(kinds.most_common()),
        "places": places,
    }
    if rules is not None:
        result |= {"gitleaks": hers, "gitleaks_per_mb": round(hers / per_mb, 3)}
        result["gitleaks_rules"] = dict(her_rules.most_common())
    return result


def default_corpora() -> list[str]:
    """The standard library, and what is installed beside this interpreter."""
    paths = sysconfig.get_paths()
    return [paths["stdlib"], paths["purelib"]]


def history(repository: str, commits: int | None) -> dict[str, Any]:
    """How many turns have a change whose content, before or after, is withheld."""
    with tempfile.TemporaryDirectory(prefix="locus-secrets-") as directory:
        run([git(), "init", "-q", directory])
        run([*locus(), "init", directory])
        limit = ["-n", str(commits)] if commits else []
        run([*locus(), "import", "git", *limit, repository], cwd=directory)
        touched = (
            "from files f join withheld_contents w on w.hash = f.before_hash or w.hash = f.after_hash "
            "where f.session_id is not null"
        )
        return {
            "history": os.path.basename(os.path.abspath(repository)),
            "turns": _ask(directory, "select count(*) from turns")[0][0],
            "incomplete": _ask(directory, f"select count(distinct (f.session_id, f.turn)) {touched}")[0][0],
            "withheld": _ask(directory, "select count(*) from withheld_contents")[0][0],
            "kinds": dict(_ask(directory, _KINDS)),
            "paths": dict(
                _ask(
                    directory,
                    f"select f.path, count(distinct (f.session_id, f.turn)) n {touched} "
                    "group by f.path order by n desc, f.path limit 20",
                )
            ),
        }


def _ask(directory: str, query: str) -> list[list[Any]]:
    lines = run([*locus(), "sql", query, "--json"], cwd=directory).stdout.decode()
    return [list(row) if isinstance(row, list) else list(row.values()) for row in _rows(json.loads(lines))]


def _rows(answer: Any) -> list[Any]:
    return list(answer["rows"]) if isinstance(answer, dict) else list(answer)


def _texts(directory: str, most_bytes: int) -> Iterator[list[tuple[str, str]]]:
    """(path, text) of the files that are UTF-8 and at most a MiB, in the order of their paths, in portions.

    What is installed below the directory is not of it.
    """
    some: list[tuple[str, str]] = []
    size = total = 0
    for path in sorted(Path(directory).rglob("*")):
        inside = path.relative_to(directory)
        if {"site-packages", "__pycache__", ".git", ".locus"} & set(inside.parts) or not path.is_file():
            continue
        if path.is_symlink() or path.stat().st_size > _FILE_BYTES_MAX:
            continue
        data = path.read_bytes()
        if b"\0" in data:
            continue
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        if total + len(data) > most_bytes:
            break
        some.append((inside.as_posix(), text))
        size, total = size + len(data), total + len(data)
        if size >= _AT_ONCE_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _all(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)
