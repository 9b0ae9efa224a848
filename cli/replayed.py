"""What `locus replay` and `locus lake replay` answer: the same words, the same JSON, the same exit codes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from eventlog.base.paths import path_text
from eventlog.worktree.entries import BY_CHOICE

from .exits import PARTIAL, exit_with
from .output import certainty_json, count, document, ignored_text, one_line, path_words, put, say, size

if TYPE_CHECKING:
    from eventlog import TreeState
    from eventlog.checkout.materialize import Report


def show_replayed(
    state: "TreeState", report: "Report", what: "Mapping[str, str]", paths: "Sequence[str]", *, as_json: bool
) -> None:
    """Print what was written and what was not; ends the command with 4 where something is missing.

    Args: what: the turn, the moment and the directory, in the order of the JSON; paths: those asked for.
    """
    # Files of the turn that are missing: lost since, or never captured. Both make it partial.
    absent = [(_text(path), reason) for path, reason in (*report.missing, *report.skipped)]
    submodules = [(_text(path), commit) for path, commit in report.submodules]
    if as_json:
        put(
            document(
                {
                    **what,
                    "files": report.files,
                    "bytes": report.bytes,
                    "symlinks": report.symlinks,
                    "directories": report.dirs,
                    "ignored": state.ignored_count,
                    "certainty": certainty_json(state.certainty),
                    "missing": [{"path": path, "reason": reason} for path, reason in absent],
                    "submodules": [{"path": path, "commit": commit} for path, commit in submodules],
                }
            )
        )
    else:
        links = f", {count(report.symlinks, 'symlink')}" if report.symlinks else ""
        say(f"{what['turn']} → {what['to']}: {count(report.files, 'file')} ({size(report.bytes)}){links}")
        if not state.certainty.exact:
            put(f"{state.certainty.state}: {one_line(state.certainty.why)}\n")
        for path, reason in absent:
            if path == "." and reason == state.certainty.why:
                continue  # it was printed already
            put(f"not reproduced: {path_words(path)}: {one_line(reason)}\n")
        if state.ignored_count:
            put(f"{ignored_text(state.ignored_count)}\n")
        for path, commit in submodules:
            put(f"submodule, left empty: {path_words(path)} at {one_line(commit)}\n")
    named = {path.rstrip("/") for path in paths}
    if any(reason not in BY_CHOICE or path in named for path, reason in absent):
        exit_with(PARTIAL)


def _text(path: bytes | str) -> str:
    return path_text(path) if isinstance(path, bytes) else path
