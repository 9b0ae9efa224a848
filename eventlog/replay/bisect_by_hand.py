"""A bisection that a person answers, kept between commands in `live/bisect.json` (docs/bisect.md, By hand).

The states are those that were recorded when it began. `stats` is None while files are being written, so
that a command that was killed there is noticed by the next one.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eventlog.base import jsontext
from eventlog.base.errors import NotFound, Refused
from eventlog.base.fs import FileSystem, read_file, replace, translate_os_errors
from eventlog.base.layout import Layout
from eventlog.base.paths import path_bytes, path_text
from eventlog.query.lookup import TurnRef
from eventlog.replay.bisect import BAD, GOOD, SKIP, Bench, Bisection, BisectState, FileStat, ReadTree

FORMAT = 1


@dataclass
class HandBisect:
    """One search: its states, the directory of the tested files, and the verdict on each state so far.

    `at` is the state whose files are in the directory. `is_ours`: the directory was made for this search.
    `deep`: it is to go on inside the turn that is found.
    """

    states: list[BisectState]
    left_out: int
    directory: str
    inode: int
    is_ours: bool
    links: list[tuple[str, str]] = field(default_factory=list)
    verdicts: list[tuple[int, str]] = field(default_factory=list)
    at: int | None = None
    stats: dict[bytes, FileStat] | None = None
    deep: bool = False

    @property
    def bisection(self) -> Bisection:
        bisection = Bisection(len(self.states))
        for index, verdict in self.verdicts:
            bisection.take(index, verdict)
        return bisection

    @property
    def first_bad(self) -> BisectState | None:
        """The first bad state. Of a turn whose calls cannot be told apart, its end; None while it is open."""
        bisection = self.bisection
        candidates = [self.states[index] for index in bisection.candidates]
        if bisection.next is not None:
            return None
        if len(candidates) == 1:
            return candidates[0]
        turn = candidates[-1].turn
        inside = [state for state in candidates if state.turn == turn and state.at != "start"]
        if len(inside) < len(candidates):
            return None
        return next((s for s in self.states if s.turn == turn and s.at == "end"), None)

    def go_inside(self, end: int, states: Sequence[BisectState], *, last_is_end: bool) -> None:
        """Go on through the states inside the turn whose end has this index, which was found.

        Args: last_is_end: the last of them has the very files of the end, which is bad.
        """
        self.states[end:end] = states
        more = len(states)
        self.verdicts = [(i + more if i >= end else i, verdict) for i, verdict in self.verdicts]
        if self.at is not None and self.at >= end:
            self.at += more
        if last_is_end:
            self.verdicts.append((end + more - 1, BAD))
        self.deep = False

    def say(self, index: int, verdict: str) -> None:
        """Take what a person says of a state. Raises: Refused, where an earlier answer says otherwise."""
        bisection = self.bisection
        if bisection.good < index < bisection.bad:
            self.verdicts.append((index, verdict))
            return
        known = GOOD if index <= bisection.good else BAD
        if verdict not in (known, SKIP):
            raise Refused(
                f"{self.states[index].turn.name} counts as {known} by earlier verdicts. `locus bisect "
                "log` lists them; `locus bisect reset` and `start` begin again."
            )

    def go_on(self, fs: FileSystem, layout: Layout, read: ReadTree) -> int | None:
        """Bring the directory to the state to test next; how many files that wrote, None without one."""
        index = self.bisection.next
        if index is None:
            save(fs, layout, self)
            return None
        bench = Bench(self.directory, read, self.links)
        if self.at is not None and self.stats is not None:
            bench.resume(self.states[self.at], self.stats)
        self.at, self.stats = index, None
        save(fs, layout, self)
        bench.go_to(self.states[index])
        self.stats = bench.stats
        save(fs, layout, self)
        return bench.written

    def is_there(self) -> bool:
        """Whether the directory of the search is where it was made."""
        try:
            return os.lstat(self.directory).st_ino == self.inode
        except OSError:
            return False

    def check_directory(self) -> None:
        """Raises: Refused where another directory is in its place; makes it again where it is gone."""
        if not os.path.lexists(self.directory):
            with translate_os_errors(self.directory, "make the directory of the tested files"):
                os.mkdir(self.directory, 0o700)
            self.inode, self.stats = os.lstat(self.directory).st_ino, None
            return
        if not self.is_there():
            raise Refused(
                f"{self.directory} is not the directory that `locus bisect start` made. "
                "`locus bisect reset` ends the search and leaves it alone."
            )


def load(fs: FileSystem, layout: Layout) -> HandBisect | None:
    """The search under way; None without one that can be read."""
    try:
        fields = jsontext.decode(read_file(fs, layout.bisect))
        return _decoded(fields) if fields["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def current(fs: FileSystem, layout: Layout) -> HandBisect:
    """The search under way. Raises: NotFound without one."""
    search = load(fs, layout)
    if search is None:
        raise NotFound("no search is under way. `locus bisect start` begins one.")
    return search


def save(fs: FileSystem, layout: Layout, search: HandBisect) -> None:
    fields = {
        "format": FORMAT,
        "states": [
            [s.turn.session_id, s.turn.turn, s.turn.since, s.turn.until, s.at, s.tree, s.between]
            for s in search.states
        ],
        "left_out": search.left_out,
        "directory": search.directory,
        "inode": search.inode,
        "is_ours": search.is_ours,
        "links": search.links,
        "verdicts": search.verdicts,
        "at": search.at,
        "deep": search.deep,
        "stats": None
        if search.stats is None
        else {path_text(path): list(stat) for path, stat in search.stats.items()},
    }
    tmp = layout.tmp(f"bisect-{fs.random_bytes(8).hex()}")
    with translate_os_errors(layout.bisect, "write"):
        replace(fs, tmp, layout.bisect, jsontext.encode(fields), synced=False)


def forget(fs: FileSystem, layout: Layout) -> None:
    with translate_os_errors(layout.bisect, "remove"):
        if fs.exists(layout.bisect):
            fs.unlink(layout.bisect)


def _decoded(fields: Mapping[str, Any]) -> HandBisect:
    stats = fields["stats"]
    return HandBisect(
        states=[
            BisectState(TurnRef(session, turn, since, until), at, tree, between)
            for session, turn, since, until, at, tree, between in fields["states"]
        ],
        left_out=fields["left_out"],
        directory=fields["directory"],
        inode=fields["inode"],
        is_ours=fields["is_ours"],
        links=[(name, leads_to) for name, leads_to in fields["links"]],
        verdicts=[(index, verdict) for index, verdict in fields["verdicts"]],
        at=fields["at"],
        stats=None if stats is None else {path_bytes(path): _file_stat(stat) for path, stat in stats.items()},
        deep=bool(fields.get("deep")),
    )


def _file_stat(values: list[int]) -> FileStat:
    inode, mode, size, mtime_ns = values
    return inode, mode, size, mtime_ns
