"""How much a question may see of people: who worked where, who wrote commits (P5, docs/people.md).

A question on this machine sees all of it. Data that leaves the machine has what `people` under [export] in
config.toml says: nothing by default, digests that are keyed with the store's own key, or all. One thread.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from blake3 import blake3

from eventlog.base import config, jsontext
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.secrets import redaction

NO, DIGEST, FULL = config.PEOPLE
_DIGITS = 16

# Keys of payloads that name people or hosts: of a session's own events, of a commit's intent.
KEYS = ("person", "host", "author", "committer")

# Columns that decide whether a payload may name people.
OF_NAMES = frozenset(("event_type", "agent"))

# Names in texts, as patterns that Python and DuckDB read alike: the words after `Signed-off-by:` and the
# like, in a text and in JSON; and the owner of a home in a path, also where an agent spells a path with
# dashes.
_BY = r"(?:[A-Za-z]+-)+[Bb][Yy]:[ \t]*"
TRAILER = rf"((?:^|[\r\n])[ \t]*{_BY})[^\r\n]+"
TRAILER_IN_JSON = rf'((?:"|\\n|\\r)[ \t]*{_BY})(?:[^"\\]|\\[^nr])+'
_NAME = r"""[^/\\"'\s:;,<>|()\[\]{}]+"""
_BEGINS = r"(?:^|\\[nrt]|file://|[^\w.\-/\\])"  # a path, and no directory of a project
_SEP = r"(?:/|\\{1,2})"
HOME = rf"({_BEGINS}(?:[A-Za-z]:)?{_SEP}(?:home|Users){_SEP}|/-(?:home|Users)-){_NAME}"
MARK = "person"
_TRAILER, _TRAILER_IN_JSON, _HOME = map(re.compile, (TRAILER, TRAILER_IN_JSON, HOME))
_IN_ONE_LINE = re.compile(rf"({_BY})\S.*")
_SIGNS = ("home", "Users")

# Makes a digest of the text of a name.
Digest = Callable[[str], str]


class People:
    """How much of people a question may see: all, digests, or nothing. `homes`: whether names of homes stay,
    because the caller removes all paths of this machine.
    """

    __slots__ = ("digest", "homes", "mode")

    def __init__(self, mode: str = FULL, digest: "Digest | None" = None, *, homes: bool = False) -> None:
        assert mode in config.PEOPLE and (mode == DIGEST) == (digest is not None), mode
        self.mode = mode
        self.digest = digest
        self.homes = homes or mode == FULL


EVERYBODY = People()


def allowed(fs: FileSystem, layout: Layout, mode: "str | None" = None, *, homes: bool = False) -> People:
    """How much may leave the store at `layout`: according to `mode`, else to its settings."""
    mode = mode or config.read(fs, layout).people
    if mode != DIGEST:
        return People(mode, homes=homes)
    key = redaction.key_of((fs, layout))
    digest: Digest = lambda text: f"person:{blake3(text.encode(), key=key).hexdigest()[:_DIGITS]}"  # noqa: E731
    return People(mode, digest, homes=homes)


def text_without(people: People, text: str, *, is_json: bool = False) -> str:
    """A text, or a JSON text, without names in a recognizable form."""
    if people.mode == FULL:
        return text
    if "-by:" in text or "-By:" in text or "-BY:" in text:
        text = (_TRAILER_IN_JSON if is_json else _TRAILER).sub(rf"\g<1>{MARK}", text)
    if not people.homes and any(sign in text for sign in _SIGNS):
        text = _HOME.sub(rf"\g<1>{MARK}", text)
    return text


def line_without(people: People, text: str) -> str:
    """As `text_without`, for a text whose lines were joined: all that follows may be a name."""
    return text_without(people, text if people.mode == FULL else _IN_ONE_LINE.sub(rf"\g<1>{MARK}", text))


def names_people(event: Mapping[str, Any]) -> bool:
    """Whether the payload of an event may name people."""
    kind = event["event_type"]
    return bool(kind == "session" or (kind == "intent" and event["agent"] == "git"))


def within(people: People, event: Mapping[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """The payload of an event with only as much of its person and host as may be seen."""
    if people.mode == FULL or not names_people(event):
        return payload
    shown = {name: value for name, value in payload.items() if name not in KEYS}
    if people.digest is None:
        return shown
    named = {name: payload[name] for name in KEYS if payload.get(name)}
    return shown | {name: digested(people.digest, value) for name, value in named.items()}


def payload_within(
    people: People, event: Mapping[str, Any], text: str, decode: "Callable[[str], Any]" = jsontext.decode
) -> str:
    """The payload of an event as JSON text, with only as much of people as may be seen.

    A text of which nothing is taken out keeps its bytes. Args: decode: reads JSON text.
    """
    text = text_without(people, text, is_json=True)
    if people.mode == FULL or not names_people(event):
        return text
    payload = decode(text)
    visible = within(people, event, payload) if isinstance(payload, dict) else payload
    return text if visible == payload else jsontext.encode_fast(visible).decode("utf-8")


def digested(digest: Digest, who: Any) -> Any:
    """A host, or a person: one digest of the column `person`."""
    if not isinstance(who, dict):
        return digest(str(who))
    name, email = who.get("name"), who.get("email")
    return {"name": digest(" ".join(part for part in (name, f"<{email}>" if email else None) if part))}
