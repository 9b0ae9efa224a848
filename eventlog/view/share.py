"""One session as a page of one file: which answers go in, and what of them does not (docs/view.md).

One thread, that of the stores.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from eventlog.base.errors import EventLogError, NotFound
from eventlog.view.answers import answer
from eventlog.view.cleaning import Cleaner
from eventlog.view.document import Key, Recording, key
from eventlog.view.shortened import shorten
from eventlog.view.stores import ViewedStores

# How much of files goes in: nothing but names; differences; contents that turns made too; all contents.
NONE, CHANGES, CHANGED, ALL = FILES = ("none", "changes", "changed", "all")

_PLAIN_MAX = 2_000  # characters of a prompt without scripts
_COMMAND = "locus view shows all of it, beside the store that recorded it."


@dataclass(frozen=True, slots=True)
class SharedParts:
    """What a page is to hold. `first` and `last` number turns of the session, from 1; None is its end."""

    first: "int | None" = None
    last: "int | None" = None
    files: str = CHANGES
    outputs: bool = True


@dataclass(frozen=True, slots=True)
class SharedSession:
    """A page that could be written, and what a person should know before.

    `left_out` says of what, and why, how often it was left out; `removed` counts what was taken out of texts.
    """

    recording: Recording
    title: str
    turns: int
    turns_of_session: int
    files: int
    contents: int
    left_out: "Mapping[str, int]"
    removed: "Mapping[str, int]"


def shared_session(stores: ViewedStores, session: str, parts: SharedParts, cleaner: Cleaner) -> SharedSession:
    """The page of a session of the first store, by its id. Raises: NotFound, Corruption."""
    spine = _asked(stores, "spine", session=session) | {"resume": None}
    whole = len(spine["turns"])
    first, last = (parts.first or 1) - 1, parts.last or whole
    if not spine["turns"][first:last]:
        raise NotFound(f"session {session} has {whole} turns, and none of those that are asked for")
    maker = _Maker(stores, parts, cleaner)
    raw = shorten(spine, first, last)
    spine = maker.add("spine", raw, session=session)
    maker.add("stores", _asked(stores, "stores"))
    (row,) = _sessions_of(stores, session)
    sessions = maker.add("sessions", {"v": 1, "sessions": [row], "more": False, "choices": {}})
    for turn in spine["turns"]:
        maker.add_page(turn["name"])
    if parts.files != NONE:
        for change, shown in zip(_changes(raw), _changes(spine), strict=True):
            maker.add_change(change, shown.path)
    if parts.files in (CHANGED, ALL):
        maker.add_contents(spine, everything=parts.files == ALL)
    title = sessions["sessions"][0]["title"] or f"Session {session}"
    recording = Recording(title, f"/s/{session}", [], maker.answers, plain=maker.plain, next=_COMMAND)
    return SharedSession(
        recording=recording,
        title=title,
        turns=len(spine["turns"]),
        turns_of_session=whole,
        files=len(spine["paths"]),
        contents=maker.contents,
        left_out=dict(maker.left_out),
        removed=dict(cleaner.removed),
    )


def _asked(stores: ViewedStores, name: str, **parameters: str) -> "dict[str, Any]":
    return answer(stores, f"/api/{name}", parameters)


def _sessions_of(stores: ViewedStores, session: str) -> "list[dict[str, Any]]":
    rows = _asked(stores, "sessions", session=session)["sessions"]
    return [row | {"resume": None, "doing": None} for row in rows]


class _Change(NamedTuple):
    """A file that changed between two moments, as the client asks for it."""

    before: str
    after: str
    path: str


def _changes(spine: "Mapping[str, Any]") -> "Iterator[_Change]":
    """What each stop changed, from the moment that the client compares it with."""
    names = [turn["name"] for turn in spine["turns"]]
    starts = {stop["turn"] for stop in spine["stops"] if stop["at"] == "start"}
    for stop, changes in zip(spine["stops"], spine["changes"], strict=True):
        turn = stop["turn"]
        name = names[turn]
        earlier = names[turn - 1] if turn else None
        after = name if stop["at"] == "end" else f"{name}@start"
        before = f"{name}@start" if stop["at"] == "end" and turn in starts else earlier
        if before is None or stop["base"] < 0:
            continue
        for number, *_ in changes:
            yield _Change(before, after, spine["paths"][number])


@dataclass(slots=True)
class _Maker:
    """Collects the answers of a page."""

    stores: ViewedStores
    parts: SharedParts
    cleaner: Cleaner
    answers: "dict[Key, dict[str, Any]]" = field(default_factory=dict)
    left_out: "dict[str, int]" = field(default_factory=dict)
    plain: "list[tuple[str, str]]" = field(default_factory=list)
    contents: int = 0

    def add(self, name: str, answered: "dict[str, Any]", **parameters: str) -> "dict[str, Any]":
        cleaned = self.cleaner.answer(answered)
        self.answers[key(name, **parameters)] = cleaned
        return cleaned

    def leave_out(self, why: str) -> None:
        self.left_out[why] = self.left_out.get(why, 0) + 1

    def add_page(self, turn: str) -> None:
        page = _asked(self.stores, "page", turn=turn)
        blocks = [self._block(block) for block in page["blocks"]]
        page = self.add("page", {**page, "blocks": blocks}, turn=turn)
        prompts = [block["text"] for block in page["blocks"] if block.get("author") == "user"]
        self.plain.append((page["title"] or turn, "\n\n".join(prompts)[:_PLAIN_MAX]))

    def _block(self, block: "dict[str, Any]") -> "dict[str, Any]":
        """The block as far as it is wanted: results of calls and differences can be left out."""
        if block["kind"] == "call" and not self.parts.outputs and block["result"]:
            self.leave_out("result of a call (--no-outputs)")
            block = {**block, "result": "", "cut": None}
        if "changes" in block and self.parts.files == NONE:
            block = {**block, "changes": [{**change, "diff": None} for change in block["changes"]]}
        return block

    def add_change(self, change: _Change, shown_path: str) -> None:
        """Args: shown_path: the path as the client knows it, after cleaning."""
        asked = {"a": change.before, "b": change.after, "path": change.path}
        try:
            answered = _asked(self.stores, "change", **asked)
        except EventLogError as error:
            self.leave_out(f"difference ({type(error).__name__})")
            return
        if answered["why"] is not None:
            self.leave_out(f"difference: {answered['why']}")
        self.add("change", answered, **asked | {"path": shown_path})

    def add_contents(self, spine: "Mapping[str, Any]", *, everything: bool) -> None:
        """The contents that stops made; with `everything` those of the first stop too."""
        seen: set[tuple[str, str]] = set()
        for stop, changes in zip(spine["stops"], spine["changes"], strict=True):
            if stop["base"] < 0 and not everything:
                continue
            for number, content, *_ in changes:
                if content is None or str(content) in spine["withheld"]:
                    continue
                of = spine["hashes"][content], spine["paths"][number]
                if of not in seen:
                    seen.add(of)
                    self._add_content(*of)

    def _add_content(self, hash: str, path: str) -> None:
        try:
            answered = _asked(self.stores, f"content/{hash}", path=path)
        except EventLogError as error:
            self.leave_out(f"content ({type(error).__name__})")
            return
        for why in ("withheld", "erased", "damaged"):
            if answered[why] is not None:
                self.leave_out(f"content: {why}")
        self.contents += answered["text"] is not None
        self.add(f"content/{hash}", answered, path=path)
