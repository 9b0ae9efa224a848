"""How much a question may see of who worked where, and wrote commits (P5, docs/people.md).

Whoever asks here sees all of it. What leaves the machine sees what `people` under [export] in config.toml
says: nothing by default, digests that are keyed with the store's own key, or all. One thread.
"""

from collections.abc import Callable, Mapping
from typing import Any

from blake3 import blake3

from eventlog import config, redaction
from eventlog.fs import FileSystem
from eventlog.layout import Layout

NO, DIGEST, FULL = config.PEOPLE
_DIGITS = 16

# Keys of payloads that name people or hosts: of a session's own events, of a commit's intent.
KEYS = ("person", "host", "author", "committer")

# Columns that tell whether a payload may name people.
OF_NAMES = frozenset(("event_type", "agent"))

# How the text of a name becomes a digest of it.
Digest = Callable[[str], str]


class People:
    """What of people a question may see: all, digests of it, or nothing."""

    __slots__ = ("digest", "mode")

    def __init__(self, mode: str = FULL, digest: "Digest | None" = None) -> None:
        assert mode in config.PEOPLE and (mode == DIGEST) == (digest is not None), mode
        self.mode = mode
        self.digest = digest


EVERYBODY = People()


def allowed(fs: FileSystem, layout: Layout, mode: "str | None" = None) -> People:
    """What may leave the store at `layout`: as `mode` says, else as its settings do."""
    mode = mode or config.read(fs, layout).people
    if mode != DIGEST:
        return People(mode)
    key = redaction.key_of((fs, layout))
    return People(mode, lambda text: f"person:{blake3(text.encode(), key=key).hexdigest()[:_DIGITS]}")


def names_people(event: Mapping[str, Any]) -> bool:
    """Whether the payload of an event may name people."""
    kind = event["event_type"]
    return bool(kind == "session" or (kind == "intent" and event["agent"] == "git"))


def within(people: People, event: Mapping[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """The payload of an event with as much of who worked where as may be seen."""
    if people.mode == FULL or not names_people(event):
        return payload
    kept = {name: value for name, value in payload.items() if name not in KEYS}
    if people.digest is None:
        return kept
    named = {name: payload[name] for name in KEYS if payload.get(name)}
    return kept | {name: _digested(people.digest, value) for name, value in named.items()}


def _digested(digest: Digest, who: Any) -> Any:
    """A host, or somebody: one digest of what the column `person` says."""
    if not isinstance(who, dict):
        return digest(str(who))
    name, email = who.get("name"), who.get("email")
    return {"name": digest(" ".join(part for part in (name, f"<{email}>" if email else None) if part))}
