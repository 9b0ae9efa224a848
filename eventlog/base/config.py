"""`.locus/config.toml`: what a person sets for one store. Everything has a default; no file is no error.

    [redaction]
    enabled = true                       # false: nothing is taken out and nothing is withheld
    allow = ["jwt", "sk_test_example"]   # kinds, or values, that are no secrets
    deny = ["acme-intranet", "/acme-[0-9]{6}/"]   # always secret: texts, and expressions between slashes

    [capture]
    include = ["build/**"]               # captured although git ignores it
    max_file_bytes = 67108864            # larger files are listed, not stored
    watcher = "watchman"                 # a watcher that runs already, which hooks may ask (docs/watcher.md)

    [retention]                          # what may be collected (docs/maintenance.md §4); nothing by default
    max_age_days = 180
    max_sessions = 500
    max_bytes = "5GB"

    [context]
    shared = true                        # share context by files in the repository (docs/shared-context.md)

    [memory]
    codes_base = "~/.cerberus"           # where continuity codes go (docs/codes.md); else the store

    [sessions]
    idle_hours = 12                      # when a session in which nothing happens is over; by default never

    [integrity]
    check_days = 7                       # how long a segment that matched its hash counts as checked

    [briefing]                           # what agents get when a session begins (docs/briefing.md)
    at_start = true                      # hooks that start a session print a briefing; by default nothing
    overlaps = true                      # and where sessions meet
    tokens = 600                         # how long it may be; 1000 by default

    [undo]                               # what an undo may be for agents (docs/undo.md)
    agents = true                        # `locus mcp` has undo_do, for the calling session; by default not
    tell = true                          # the session gets a notice at its next prompt; by default none

    [export]                             # what exports contain about people (docs/people.md)
    people = "digest"                    # "no", which is the default, keyed digests, or "full"

    [publish]                            # what `locus publish` lets out (docs/lake.md §3)
    texts = true                         # prompts, words of the model, titles, …; by default none
    contents = true                      # contents of files; by default none
    paths = false                        # no paths in the repository; by default they leave
    people = "full"                      # or "no"; keyed digests by default

A file that cannot be parsed stops nobody: the defaults apply, what the last good file denied stays denied,
and `problem` names the file, the line and what to do. Parsing TOML takes longer than a whole hook call, so
the parsed settings are stored in a derived twin, which is valid while it names the file's digest.

Whether captures keep ignored files that nothing could rebuild is set in a file of its own, `keep-ignored`:
an earlier version would use the defaults for everything if `config.toml` had a key that it does not know.
On the hook path.
"""

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.fs import FileSystem, read_file, replace
from eventlog.base.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SIZE_MAX = 1 << 20
_DENIED_SIZE_MIN = 4  # a shorter text would match everywhere


class _Size:
    """A number of bytes, written as "5GB"."""


class _People:
    """One of PEOPLE; true is the last, false the first of them."""


class _Watcher:
    """One of WATCHERS."""


WATCHMAN = "watchman"
WATCHERS = (WATCHMAN,)
# What exports may contain about who worked where: nothing, keyed digests, or all.
PEOPLE = ("no", "digest", "full")


_SECTIONS: "dict[str, dict[str, type]]" = {
    "redaction": {"enabled": bool, "allow": list, "deny": list},
    "capture": {"include": list, "max_file_bytes": int, "watcher": _Watcher},
    "retention": {"max_age_days": int, "max_sessions": int, "max_bytes": _Size},
    "context": {"shared": bool},
    "memory": {"codes_base": str},
    "briefing": {"at_start": bool, "overlaps": bool, "tokens": int},
    "export": {"people": _People},
    "integrity": {"check_days": int},
    "publish": {"texts": bool, "contents": bool, "paths": bool, "people": _People},
    "sessions": {"idle_hours": int},
    "undo": {"agents": bool, "tell": bool},
}
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


# What holds where the file says nothing. Without a limit the capture sets that of files; no other applies.
_DEFAULTS: "dict[str, object]" = {
    "enabled": True, "allow": (), "deny": (), "include": (), "max_file_bytes": None, "watcher": None,
    "max_age_days": None,
    "max_sessions": None, "max_bytes": None, "shared_context": False, "codes_base": None,
    "briefing_at_start": False, "briefing_overlaps": False, "briefing_tokens": None, "people": PEOPLE[0],
    "check_days": None, "idle_hours": None, "undo_agents": False, "undo_tell": False, "problem": None,
    "publish_texts": False, "publish_contents": False, "publish_paths": True, "publish_people": PEOPLE[1],
}  # fmt: skip
# The keys of the file that are called otherwise here.
_NAMES = {
    "shared": "shared_context", "at_start": "briefing_at_start", "overlaps": "briefing_overlaps",
    "tokens": "briefing_tokens", "agents": "undo_agents", "tell": "undo_tell",
}  # fmt: skip


class Config:
    """The settings of a store; those that `settings` does not name have their defaults."""

    __slots__ = tuple(_DEFAULTS)

    enabled: bool
    allow: "tuple[str, ...]"
    deny: "tuple[str, ...]"
    include: "tuple[str, ...]"
    max_file_bytes: "int | None"
    watcher: "str | None"
    max_age_days: "int | None"
    max_sessions: "int | None"
    max_bytes: "int | None"
    shared_context: bool
    codes_base: "str | None"
    briefing_at_start: bool
    briefing_overlaps: bool
    briefing_tokens: "int | None"
    people: str
    check_days: "int | None"
    idle_hours: "int | None"
    undo_agents: bool
    undo_tell: bool
    publish_texts: bool
    publish_contents: bool
    publish_paths: bool
    publish_people: str
    problem: "str | None"

    def __init__(self, **settings: object) -> None:
        for name, default in _DEFAULTS.items():
            setattr(self, name, settings.get(name, default))


def read(fs: FileSystem, layout: Layout) -> Config:
    """The settings of the store at `layout`. No file, and nothing in it, makes this raise."""
    try:
        if not fs.exists(layout.config_file):
            return Config()
        data = read_file(fs, layout.config_file, _SIZE_MAX)
    except (OSError, ValueError) as error:
        return _defaults(_twin(fs, layout), f"{layout.config_file} cannot be read: {error}")
    twin = _twin(fs, layout)
    digest = blake3(data).hexdigest()
    if twin.get("digest") == digest:
        return _config_of(twin)
    try:
        settings = _checked(_parse(data), data)
    except ValueError as error:
        return _defaults(twin, f"{layout.config_file}, {error}")
    _keep_twin(fs, layout, {"digest": digest, **settings})
    return _config_of(settings)


def keeps_ignored(fs: FileSystem, layout: Layout) -> "bool | None":
    """Whether captures keep ignored files that nothing could rebuild; None when nobody has decided.

    A file that cannot be read, or does not hold what `set_keeps_ignored` writes, decides nothing.
    """
    try:
        if not fs.exists(layout.keep_ignored):
            return None
        return {b"yes\n": True, b"no\n": False}.get(read_file(fs, layout.keep_ignored, 64))
    except (OSError, ValueError):
        return None


def set_keeps_ignored(fs: FileSystem, layout: Layout, retain: bool) -> None:
    """Decide it, durably. Raises: OSError."""
    tmp = layout.tmp(f"keep-ignored-{fs.random_bytes(8).hex()}")
    replace(fs, tmp, layout.keep_ignored, b"yes\n" if retain else b"no\n")


def _defaults(twin: "dict[str, Any]", why: str) -> Config:
    """The defaults, and what the last good file denied: a typing mistake must not let a secret through."""
    return Config(
        deny=tuple(twin.get("deny", ())),
        problem=f"{why}. Until that is mended the defaults apply.",
    )


def _parse(data: bytes) -> "dict[str, Any]":
    """Raises: ValueError naming the line."""
    import tomllib

    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line}: it is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        last = data.rstrip().count(b"\n") + 1
        where = str(error).replace("at end of document", f"at line {last}, the end")
        raise ValueError(f"it is not TOML: {where}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _checked(table: "dict[str, Any]", data: bytes) -> "dict[str, Any]":
    """The settings of a parsed file, flat. Raises: ValueError naming the line of the first wrong one."""
    settings: "dict[str, Any]" = {}
    sections = ", ".join(f"[{section}]" for section in _SECTIONS)
    for section, values in table.items():
        names = _SECTIONS.get(section)
        if names is None or not isinstance(values, dict):
            raise _wrong(data, section, f"there is no [{section}]; there are {sections}")
        for name, value in values.items():
            kind = names.get(name)
            if kind is None:
                raise _wrong(data, name, f"[{section}] has no {name}; it has {', '.join(names)}")
            if kind is _Size:
                value = _bytes_of(value)
                kind = int
            if kind is _People:
                value = {True: "full", False: "no"}.get(value, value) if isinstance(value, bool) else value
                if value not in PEOPLE:
                    raise _wrong(data, name, f"{name} must be one of {', '.join(PEOPLE)}, not {value!r}")
                kind = str
            if kind is _Watcher:
                if value not in WATCHERS:
                    raise _wrong(data, name, f"{name} must be one of {', '.join(WATCHERS)}, not {value!r}")
                kind = str
            if type(value) is not kind:
                words = {bool: "true or false", list: "a list of texts", int: "a number", str: "a text"}
                wanted = words[kind]
                if name == "max_bytes":
                    wanted, value = 'a size such as "5GB"', values[name]
                raise _wrong(data, name, f"{name} must be {wanted}, not {value!r}")
            if isinstance(value, list):
                for item in value:
                    _check_item(data, name, item)
            elif isinstance(value, int) and value < 0:
                raise _wrong(data, name, f"{name} cannot be below zero")
            elif section in ("retention", "sessions") and value == 0:
                raise _wrong(data, name, f"{name} cannot be zero; without it there is no such limit")
            settings[f"publish_{name}" if section == "publish" else name] = value
    return settings


def _bytes_of(value: object) -> "int | None":
    """5000000, "5 MB", "1.5GB" in bytes; None when it is no size."""
    if type(value) is int:
        return value
    if not isinstance(value, str):
        return None
    text = value.upper()
    number = text.rstrip("BKMGT")
    try:
        return round(float(number) * _UNITS[text[len(number) :]])
    except (KeyError, ValueError, OverflowError):
        return None


def _check_item(data: bytes, name: str, item: object) -> None:
    if not isinstance(item, str) or not item:
        raise _wrong(data, name, f"{name} must be a list of texts, and {item!r} is none")
    if name != "deny":
        return
    if is_expression(item):
        import re

        try:
            re.compile(item[1:-1].encode("utf-8"))
        except re.error as error:
            raise _wrong(data, item, f"{item} is no regular expression ({error})") from None
    elif len(item) < _DENIED_SIZE_MIN:
        raise _wrong(data, name, f"{item!r} is too short to be denied: it would be found in every text")


def is_expression(denied: str) -> bool:
    return len(denied) > 2 and denied[0] == denied[-1] == "/"


def _wrong(data: bytes, word: str, what: str) -> ValueError:
    """An error with the first line that contains `word`."""
    lines = data.split(b"\n")
    wanted = word.encode("utf-8", "replace")
    number = next((n for n, line in enumerate(lines, 1) if wanted in line), 1)
    return ValueError(f"line {number}: {what}")


def _config_of(settings: "dict[str, Any]") -> Config:
    """Args: settings: checked ones, by their names in the file."""
    named: "dict[str, Any]" = {}
    for name, value in settings.items():
        named[_NAMES.get(name, name)] = tuple(value) if isinstance(value, list) else value
    return Config(**named)


def _twin(fs: FileSystem, layout: Layout) -> "dict[str, Any]":
    """The stored settings of the last good file; empty when they are gone or damaged."""
    try:
        twin = jsontext.decode(read_file(fs, layout.config_twin, 2 * _SIZE_MAX))
        body = {name: value for name, value in twin.items() if name != "check"}
        return body if twin["check"] == blake3(jsontext.encode(body)).hexdigest() else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _keep_twin(fs: FileSystem, layout: Layout, body: "dict[str, Any]") -> None:
    """Store the parsed settings. They are derived, so nothing is synced; half a file fails its check."""
    data = jsontext.encode({**body, "check": blake3(jsontext.encode(body)).hexdigest()})
    try:
        replace(fs, layout.tmp(f"config-{fs.random_bytes(8).hex()}"), layout.config_twin, data, synced=False)
    except OSError:
        pass  # parsed again next time
