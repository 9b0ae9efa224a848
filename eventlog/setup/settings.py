"""An agent's settings file as text: our hooks put in and taken out, everything else left as it is.

Claude Code's and Gemini CLI's `settings.json` and Codex's `hooks.json` have one shape:

    {"hooks": {EVENT: [{"matcher": …, "hooks": [{"type": "command", "command": …, "timeout": …}]}]}}

The text is never rewritten: an edit inserts or cuts characters, in the file's own indentation and line
ends, so that numbers, escapes, spaces, comments and the order of keys stay what somebody made them. A
handler is *ours* when a word of its command is a file called `locus-hook` or `locus-hook.py`. Claude Code's
file may have a `statusLine` too, in the shape of a handler; ours has the command `…/locus statusline`.

Pure functions.
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from eventlog.base.errors import Refused

BOM = "\ufeff"
PROGRAMS = frozenset(("locus-hook", "locus-hook.py"))
STATUS_LINE = "statusLine"
_SPACE = " \t\r\n"
_INDENT = "  "

Handler = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Edit:
    """`text[start:end]` becomes `new`."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class JsonMember:
    """A member of an object, or an element of an array (`key` None). `start` is where its key begins."""

    key: str | None
    start: int
    value: "Value"

    @property
    def end(self) -> int:
        return self.value.end


@dataclass(frozen=True, slots=True)
class Value:
    """A JSON value and where it is; `items` is None for a scalar."""

    start: int
    end: int
    data: Any
    items: tuple[JsonMember, ...] | None = None

    def member(self, key: str) -> "Value | None":
        """The value of a key; of a key that comes twice the last one, as every agent reads it."""
        values = [item.value for item in self.items or () if item.key == key]
        return values[-1] if values else None


@dataclass(frozen=True, slots=True)
class Ours:
    """A handler of ours in a file."""

    event: str
    matcher: Any
    handler: Handler


def is_blank(text: str) -> bool:
    """Whether there is nothing in the file."""
    return not text.removeprefix(BOM).strip(_SPACE)


def is_empty(text: str, where: str, *, comments: bool = False) -> bool:
    """Whether the file is an object that holds nothing, not even a comment. Raises: as `parse`."""
    root = parse(text, where, comments=comments)
    return not root.data and not text[root.start + 1 : root.end - 1].strip(_SPACE)


def parse(text: str, where: str, *, comments: bool = False) -> Value:
    """The settings as values with their places.

    Args: comments: whether `//` and `/* */` count as white space, as the agent has it.
    Raises: Refused when the text is not a JSON object, or `hooks` does not have the shape above.
    """
    begin = len(BOM) if text.startswith(BOM) else 0
    if comments:
        text = _COMMENT.sub(_blank, text)
    try:
        json.loads(text[begin:], parse_constant=_no_constant)
        root = _value(text, _skip(text, begin))
    except json.JSONDecodeError as error:
        raise Refused(
            f"{where}: line {error.lineno}, column {error.colno}: not JSON ({error.msg}). Correct "
            f"the file; {'' if comments else 'comments and '}trailing commas are not JSON either."
        ) from error
    except (ValueError, RecursionError) as error:
        raise Refused(f"{where}: not JSON ({error}). Correct the file.") from error
    _refuse_shape(root, text, where)
    return root


def ours_in(root: Value) -> list[Ours]:
    """Every handler of ours."""
    hooks = root.member("hooks")
    return [
        Ours(event.key, group.value.data.get("matcher"), handler.value.data)
        for event in _items(hooks)
        for group in _items(event.value)
        for handler in _items(group.value.member("hooks"))
        if event.key is not None and is_ours(handler.value.data)
    ]


def is_ours(handler: object) -> bool:
    """Whether a handler starts our hook program."""
    if not isinstance(handler, Mapping):
        return False
    arguments = handler.get("args")
    commands = [handler.get("command"), *(arguments if isinstance(arguments, list) else ())]
    return any(os.path.basename(word) in PROGRAMS for command in commands for word in _words(command))


def status_line(root: Value) -> Any:
    """What the file has as status line, None where it has none."""
    member = root.member(STATUS_LINE)
    return None if member is None else member.data


def is_our_status_line(handler: object) -> bool:
    """Whether a status line runs our program and nothing else; one with more in its command is the user's."""
    words = _words(handler.get("command")) if isinstance(handler, Mapping) else []
    return len(words) == 2 and os.path.basename(words[0]) == "locus" and words[1] == "statusline"


def is_in(root: Value) -> bool:
    """Whether anything of ours is in the file."""
    return bool(ours_in(root)) or is_our_status_line(status_line(root))


def holds_exactly(root: Value, wanted: Mapping[str, Handler]) -> bool:
    """Whether the handlers of ours are those wanted, each once, for whatever the event is about."""
    handlers = [(own.event, json.dumps(own.handler, sort_keys=True)) for own in ours_in(root)]
    whole = all(own.matcher in (None, "", "*") for own in ours_in(root))
    return whole and sorted(handlers) == sorted(
        (event, json.dumps(handler, sort_keys=True)) for event, handler in wanted.items()
    )


def created(wanted: Mapping[str, Handler], shown: "Handler | None" = None) -> str:
    """A settings file that holds our hooks, the status line `shown` if there is one, and nothing else."""
    hooks = {event: [{"hooks": [handler]}] for event, handler in wanted.items()}
    document = {"hooks": hooks} | ({} if shown is None else {STATUS_LINE: shown})
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def insertion(
    text: str, root: Value, wanted: Mapping[str, Handler], shown: "Handler | None" = None
) -> list[Edit]:
    """The edits that put in a group of ours for every event wanted, and the status line `shown`; the text
    holds none of ours."""
    groups = {event: {"hooks": [handler]} for event, handler in wanted.items()}
    beside = [] if shown is None else [(STATUS_LINE, shown)]
    style = _Style(text, root)
    hooks = root.member("hooks")
    if hooks is None:
        every = {event: [group] for event, group in groups.items()}
        return [style.append(root, [("hooks", every), *beside])]
    missing = []
    edits = [style.append(root, beside)] if beside else []
    for event, group in groups.items():
        there = hooks.member(event)
        if there is None:
            missing.append((event, [group]))
        else:
            edits.append(style.append(there, [(None, group)]))
    if missing:
        edits.append(style.append(hooks, missing))
    return edits


def removal(text: str, root: Value) -> list[Edit]:
    """The edits that cut every handler of ours, and what then holds nothing: group, event, `hooks`; and our
    status line."""

    def of_handler(item: JsonMember) -> list[Edit] | None:
        return None if is_ours(item.value.data) else []

    def of_group(item: JsonMember) -> list[Edit] | None:
        return _cuts(item.value.member("hooks"), of_handler)

    def of_event(item: JsonMember) -> list[Edit] | None:
        return _cuts(item.value, of_group)

    def of_setting(item: JsonMember) -> list[Edit] | None:
        if item.key == STATUS_LINE and is_our_status_line(item.value.data):
            return None
        return _cuts(item.value, of_event) if item.key == "hooks" else []

    return _with_comments(text, root, _cuts(root, of_setting))


def member_put(text: str, root: Value, path: Sequence[str], value: Any, where: str) -> list[Edit]:
    """The edits that put a value where `path` leads, with the objects on the way there. It is not there yet.

    Raises: Refused when something on the way is no object.
    """
    style, container, rest = _Style(text, root), root, list(path)
    while len(rest) > 1 and (there := container.member(rest[0])) is not None:
        if there.items is None or not isinstance(there.data, dict):
            raise Refused(f"{where}: `{rest[0]}` is not an object. The agent cannot read this either.")
        container = there
        del rest[0]
    for key in reversed(rest[1:]):
        value = {key: value}
    return [style.append(container, [(rest[0], value)])]


def member_cut(text: str, root: Value, key: str, name: str) -> list[Edit]:
    """The edits that cut the member `name` of what `key` names, and that too where it then holds nothing."""

    def of_member(item: JsonMember) -> list[Edit] | None:
        return None if item.key == name else []

    def of_setting(item: JsonMember) -> list[Edit] | None:
        return _cuts(item.value, of_member) if item.key == key else []

    return _with_comments(text, root, _cuts(root, of_setting))


def apply(text: str, edits: Sequence[Edit]) -> tuple[str, list[Edit]]:
    """The text with the edits made, and the edits that take them back."""
    parts = []
    back = []
    at = grown = 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        assert edit.start >= at, "edits do not overlap"
        parts += [text[at : edit.start], edit.new]
        start = edit.start + grown
        back.append(Edit(start, start + len(edit.new), text[edit.start : edit.end]))
        grown += len(edit.new) - (edit.end - edit.start)
        at = edit.end
    return "".join([*parts, text[at:]]), back


# -- reading -----------------------------------------------------------------------------------

# A string, which may look like a comment inside, or a comment.
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)


def _comments(text: str) -> str:
    """The comments in a piece of a file: none is ours."""
    comments = [comment for comment in _COMMENT.findall(text) if not comment.startswith('"')]
    return "".join(f" {comment}\n" if comment.startswith("//") else f" {comment}" for comment in comments)


def _blank(match: "re.Match[str]") -> str:
    """White space in place of a comment, so that everything else stays where it is."""
    token = match[0]
    return token if token.startswith('"') else re.sub(r"[^\r\n]", " ", token)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _value(text: str, at: int) -> Value:
    """The value that begins at `at`, in a text that is known to be JSON."""
    if text[at] not in "{[":
        data, end = _DECODER.raw_decode(text, at)
        return Value(at, end, data)
    is_object = text[at] == "{"
    items = []
    here = _skip(text, at + 1)
    while text[here] not in "}]":
        start, key = here, None
        if is_object:
            key, here = _DECODER.raw_decode(text, here)
            here = _skip(text, _skip(text, here) + 1)
        value = _value(text, here)
        items.append(JsonMember(key, start, value))
        here = _skip(text, value.end)
        if text[here] == ",":
            here = _skip(text, here + 1)
    values = [item.value.data for item in items]
    data = dict(zip((item.key for item in items), values, strict=True)) if is_object else values
    return Value(at, here + 1, data, tuple(items))


_DECODER = json.JSONDecoder()


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _refuse_shape(root: Value, text: str, where: str) -> None:
    def refuse(value: Value, what: str) -> None:
        line = text.count("\n", 0, value.start) + 1
        raise Refused(f"{where}: line {line}: {what}. The agent cannot read this either.")

    if not isinstance(root.data, dict):
        refuse(root, "the file is not a JSON object")
    if sum(item.key == "hooks" for item in root.items or ()) > 1:
        refuse(root, "`hooks` is there twice")
    hooks = root.member("hooks")
    if hooks is None:
        return
    if not isinstance(hooks.data, dict):
        refuse(hooks, "`hooks` is not an object")
    keys = [item.key for item in hooks.items or ()]
    for item in hooks.items or ():
        if keys.count(item.key) > 1:
            refuse(item.value, f"`{item.key}` is there twice")
        if not isinstance(item.value.data, list):
            refuse(item.value, f"`{item.key}` is not an array")


def _items(value: Value | None) -> tuple[JsonMember, ...]:
    """The members of a container; none of what is no container, or not there."""
    return () if value is None or value.items is None else value.items


def _words(command: object) -> list[str]:
    import shlex

    if not isinstance(command, str):
        return []
    try:
        return shlex.split(command)
    except ValueError:  # an open quote: whatever it starts, it is not what we wrote
        return command.split()


# -- cutting -----------------------------------------------------------------------------------


def _cuts(container: Value | None, of_item: Callable[[JsonMember], list[Edit] | None]) -> list[Edit] | None:
    """The edits that cut items, each with one comma; None where all items go, and with them the container.

    Args: of_item: the edits within an item, None where it goes.
    """
    items = _items(container)
    within = [of_item(item) for item in items]
    if items and all(edits is None for edits in within):
        return None
    cuts = [edit for edits in within for edit in edits or ()]
    first = 0
    for is_gone, run in groupby(within, key=lambda edits: edits is None):
        last = first + len(list(run)) - 1
        if is_gone and first > 0:
            cuts.append(Edit(items[first - 1].end, items[last].end, ""))
        elif is_gone:
            cuts.append(Edit(items[0].start, items[last + 1].start, ""))
        first = last + 1
    return cuts


def _with_comments(text: str, root: Value, cuts: list[Edit] | None) -> list[Edit]:
    """Cuts that leave the comments within them; without cuts all of `root` is cut."""
    cuts = [Edit(root.start + 1, root.end - 1, "")] if cuts is None else cuts
    return [Edit(cut.start, cut.end, _comments(text[cut.start : cut.end])) for cut in cuts]


# -- putting in --------------------------------------------------------------------------------


class _Style:
    """How a file is laid out: its line ends, its indentation, or that it is on one line."""

    def __init__(self, text: str, root: Value) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        gap = text[root.start + 1 : root.items[0].start] if root.items else "\n"
        self.is_flat = bool(root.items) and "\n" not in gap
        self.indent = (_space_at(gap) if root.items and not self.is_flat else _INDENT) or _INDENT

    def append(self, container: Value, pairs: Sequence[tuple[str | None, Any]]) -> Edit:
        """The edit that adds members, or elements (their keys are None), at the container's end."""
        if container.items:
            first, last = container.items[0], container.items[-1]
            gap = self.text[container.start + 1 : first.start]
            if "\n" in gap:
                gap = self.newline + _space_at(gap)
                written = [self._spelled(key, value, gap) for key, value in pairs]
            else:
                gap = " " if self.text[_comma_after(self.text, first) :][:1] == " " else ""
                written = [self._flat(key, value) for key, value in pairs]
            return Edit(last.end, last.end, "".join(f",{gap}{item}" for item in written))
        comment = self.text[container.start + 1 : container.end - 1].rstrip(_SPACE)  # a comment, if anything
        if self.is_flat and not comment:
            inner = ", ".join(self._flat(key, value) for key, value in pairs)
            return Edit(container.start + 1, container.end - 1, inner)
        outer = self.newline + self._indent_of_line(container.start)
        gap = outer + self.indent
        written = [self._spelled(key, value, gap) for key, value in pairs]
        return Edit(container.start + 1, container.end - 1, comment + gap + f",{gap}".join(written) + outer)

    def _spelled(self, key: str | None, value: Any, gap: str) -> str:
        lines = json.dumps(value, indent=self.indent, ensure_ascii=False).split("\n")
        return _key(key) + gap.join(lines)

    def _flat(self, key: str | None, value: Any) -> str:
        return _key(key) + json.dumps(value, ensure_ascii=False)

    def _indent_of_line(self, at: int) -> str:
        line = self.text[self.text.rfind("\n", 0, at) + 1 : at].removeprefix(BOM)
        return line[: len(line) - len(line.lstrip(" \t"))]


def _space_at(gap: str) -> str:
    """The white space that the last line of `gap` begins with."""
    line = gap.rpartition("\n")[2]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _comma_after(text: str, item: JsonMember) -> int:
    """Where the text goes on after the comma that follows an item, or after its key's colon."""
    at = _skip(text, item.end)
    if text[at] == ",":
        return at + 1
    return text.index(":", item.start) + 1 if item.key is not None else at


def _key(key: str | None) -> str:
    return "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
