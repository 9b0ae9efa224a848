"""What may leave a store for a lake: the settings of `[publish]`, and the classes of columns (docs/lake.md).

An allow list. A column says to which class it belongs and, where it is a figure, which values are: a writer
may put any text into any column, and what does not look like the figure that it should be counts as text.
`payload_keys.py` has the same for the keys of payloads. Values and pure functions; any thread.
"""

import builtins
import re
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from functools import cache
from typing import NamedTuple

from eventlog import agents
from eventlog.base import config, jsontext
from eventlog.base.errors import Corruption
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.base.types import COLUMN_NAMES
from eventlog.log.numbering import default_context

# The classes. Figures always leave, what is local never.
FIGURES, TEXTS, PATHS, PEOPLE, CONTENTS, LOCAL = "figures", "texts", "paths", "people", "contents", "local"


@dataclass(frozen=True, slots=True)
class Policy:
    """Which classes leave beside figures. `people` is one of config.PEOPLE."""

    texts: bool = False
    contents: bool = False
    paths: bool = True
    people: str = config.PEOPLE[1]

    @classmethod
    def of(cls, fs: FileSystem, layout: Layout) -> "Policy":
        """The policy that the settings of the store at `layout` ask for. Raises nothing."""
        settings = config.read(fs, layout)
        return cls(
            settings.publish_texts, settings.publish_contents, settings.publish_paths, settings.publish_people
        )

    def encoded(self) -> str:
        """As JSON, sorted by key: what the metadata of published files have."""
        return jsontext.encode(dict(sorted(asdict(self).items()))).decode()

    @classmethod
    def decode(cls, text: str, location: str = "the policy of a published file") -> "Policy":
        """Raises: Corruption, which names `location`."""
        try:
            policy = cls(**jsontext.decode(text))
        except (ValueError, TypeError) as error:
            raise Corruption(location, f"it is no policy: {error}") from error
        flags = (policy.texts, policy.contents, policy.paths)
        if not all(isinstance(flag, bool) for flag in flags) or policy.people not in config.PEOPLE:
            raise Corruption(location, f"it is no policy: {text}")
        return policy

    def widens(self, other: "Policy") -> bool:
        """Whether it lets something out that the other holds back."""
        pairs = ((self.texts, other.texts), (self.contents, other.contents), (self.paths, other.paths))
        degree = config.PEOPLE.index
        return any(own and not former for own, former in pairs) or degree(self.people) > degree(other.people)

    @property
    def classes(self) -> "frozenset[str]":
        """The classes of which something leaves."""
        return _classes(self.texts, self.contents, self.paths, self.people)


@cache
def _classes(texts: bool, contents: bool, paths: bool, people: str) -> "frozenset[str]":
    asked = {TEXTS: texts, PATHS: paths, CONTENTS: contents and texts, PEOPLE: people != config.PEOPLE[0]}
    return frozenset({FIGURES, *(name for name, leaves in asked.items() if leaves)})


# -- words of closed sets ------------------------------------------------------------------------


def _words(text: str) -> "frozenset[str]":
    return frozenset(text.split())


EVENT_TYPES = _words(
    "session turn sessions intent action mcp_action file snapshot decision error llm llm_copy feedback "
    "message tool_start subagent hook transcript import mismatch ref restore retention maintenance erasure "
    "withheld content context cursor code test_run git_op project_convention skill tool_schema tool_usage"
)
# What events of another type are called where their type may not leave.
OTHER = "other"

KINDS = _words("fact observation action decision feedback")
SOURCES = _words("system user agent executor validator")
STATUSES = _words("active closed completed failed interrupted rewritten")
_HOOK_NAMES = frozenset(
    event for spec in agents.specs() if spec.settings is not None for event in spec.settings.events
)
OPERATIONS = _HOOK_NAMES | _words(
    "start end update resume startup clear compact fork stale add edit delete rename read type mode "
    "turn_start turn_end tool text reasoning advance deliver stored write take release hold pin unpin "
    "rewritten collect repack repair hook grown repeated malformed oversized original rest line_completed "
    "copied_history compact_summary subagent_meta interrupted next done decision blocker complete push pull "
    "commit checkout"
)
_EXCEPTIONS = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
)
ERROR_TYPES = _EXCEPTIONS | _words(
    "tool_failure interrupted refused api_error client unknown rate_limit authentication_failed "
    "billing_error server_error invalid_request max_output_tokens overloaded timeout test_failure"
)
CATEGORIES = _words(
    "decisions editor errors terminal tools user_intent decision:decisions action:editor observation:errors "
    "fact:sessions action:terminal fact:tools observation:user_intent"
)


# -- forms of figures ----------------------------------------------------------------------------

Form = Callable[[str], object]  # true of a text that is such a figure

# An id has a digit, and no blank: a word that somebody wrote has none, or has none of these forms.
is_id: Form = re.compile(r"(?=[^0-9]*[0-9])[A-Za-z0-9_][A-Za-z0-9_.:=-]{0,127}").fullmatch
# One of ours, or what looks like an id that a client brought.
is_session_id: Form = re.compile(r"[0-9a-z]{8}|(?=[^0-9]*[0-9])[A-Za-z0-9][A-Za-z0-9.:=-]{0,127}").fullmatch
# Of a program: an agent, a model, a tool. One word.
is_name: Form = re.compile(r"(?!.*//)[A-Za-z0-9_][A-Za-z0-9_.:/+\[\]-]{0,127}").fullmatch
is_version: Form = re.compile(r"(?=[^0-9]*[0-9])[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}").fullmatch
is_hex: Form = re.compile(r"[0-9a-f]{7,128}").fullmatch
is_hash: Form = re.compile(r"blake3:[0-9a-f]{64}|(?:md5|sha1|sha256|sha512|git):[0-9a-f]{16,128}").fullmatch
is_event_id: Form = re.compile(r"[0-9a-f]{32}").fullmatch
is_number: Form = re.compile(r"[0-9]{1,18}").fullmatch


def is_path(text: str) -> bool:
    """Whether it is a path below the root of a project, and not one of this machine."""
    return bool(text) and text[0] not in "/~\\" and "\0" not in text and not _is_of_machine(text)


def _is_of_machine(text: str) -> bool:
    return text[1:3] in (":\\", ":/") or text.startswith("file:") or ".." in text.split("/")


# -- columns -------------------------------------------------------------------------------------

# What becomes of a value that is no figure, and no text may leave: nothing, or a keyed digest, so that what
# had the same value still has the same one; `other` of a type; of a context id also its form.
DROPPED, DIGESTED, NAMED_OTHER, AS_CONTEXT = "dropped", "digested", "named other", "as a context"


class Column(NamedTuple):
    """The class of a column's values that have `form`; without one, of all. Others count as texts."""

    leaves_with: str
    form: "Form | None" = None
    otherwise: str = DROPPED


_NUMBERS = (
    "position schema_version redacted turn seq occurred_at recorded_at prompt_tokens completion_tokens "
    "reasoning_tokens cache_read_tokens cache_write_tokens cache_write_1h_tokens duration_ms success "
    "resolved lines_added lines_removed"
)
_ID_COLUMN = Column(FIGURES, is_id, DIGESTED)
_CONTEXT = Column(FIGURES, None, AS_CONTEXT)

COLUMNS: "dict[str, Column]" = {
    **dict.fromkeys(_NUMBERS.split(), Column(FIGURES)),
    "event_id": Column(FIGURES, is_event_id, DIGESTED),
    "event_type": Column(FIGURES, EVENT_TYPES.__contains__, NAMED_OTHER),
    "event_kind": Column(FIGURES, KINDS.__contains__),
    "source": Column(FIGURES, SOURCES.__contains__),
    "session_id": Column(FIGURES, is_session_id, DIGESTED),
    "turn_id": Column(FIGURES, is_number),
    "context_id": _CONTEXT,
    "extends": _CONTEXT,
    "related_to": _CONTEXT,
    "reinforces": _CONTEXT,
    "contradicts": _CONTEXT,
    "agent": Column(FIGURES, is_name, DIGESTED),
    "agent_version": Column(FIGURES, is_version),
    "agent_session_id": _ID_COLUMN,
    "agent_turn_id": _ID_COLUMN,
    "tool_use_id": _ID_COLUMN,
    "subagent_id": _ID_COLUMN,
    "message_id": _ID_COLUMN,
    "request_id": _ID_COLUMN,
    "cause": _ID_COLUMN,
    "repo": Column(FIGURES, is_hex, DIGESTED),
    "worktree": Column(LOCAL),
    "cwd": Column(PATHS),  # where it is inside of the project, relative to that; else it is local
    "branch": Column(TEXTS),
    "commit": Column(FIGURES, is_hex),
    "title": Column(TEXTS),  # but for those that name the project or a content (`outgoing.py`)
    "status": Column(FIGURES, STATUSES.__contains__),
    "tool": Column(FIGURES, is_name, DIGESTED),
    "path": Column(PATHS, is_path),
    "operation": Column(FIGURES, OPERATIONS.__contains__),
    "model": Column(FIGURES, is_name, DIGESTED),
    "error_type": Column(FIGURES, ERROR_TYPES.__contains__),
    "before_hash": Column(FIGURES, is_hash),
    "after_hash": Column(FIGURES, is_hash),
    "tree_hash": Column(FIGURES, is_hash),
    "blobs": Column(FIGURES, is_hash),
    "payload": Column(TEXTS),  # key by key: `payload_keys.py`
}

assert COLUMNS.keys() == set(COLUMN_NAMES), COLUMNS.keys() ^ set(COLUMN_NAMES)


# -- context ids ---------------------------------------------------------------------------------


class Contexts:
    """Context ids without what may not leave of them.

    Args: digest: makes a digest of a text and the word for what it is; own: ids that name only the store;
    holds_secret: whether a text holds one.
    """

    def __init__(
        self,
        digest: "Callable[[str, str], str]",
        own: "Collection[str]",
        holds_secret: "Callable[[str], bool]" = lambda _: False,
    ) -> None:
        self._digest = digest
        self._own = frozenset(own)
        self._holds_secret = holds_secret
        self._session_ids: dict[str, str] = {}  # what stands for each

    def without_texts(self, text: str) -> str:
        """A session's without its slug, an event's without the name of an unknown type; else a digest."""
        if text in CATEGORIES or text in self._own:
            return text
        kind, _, name = text.partition(":")
        if kind == "session" and "_" in name:
            return default_context(self._session_id(name.rpartition("_")[2]))
        if name == "sessions" and is_hex(kind):
            return text
        if kind in EVENT_TYPES and is_event_id(name):
            return text
        return self._numbered(kind, name, 1 if kind == "turn" else 2) or self._digest("context", text)

    def _session_id(self, text: str) -> str:
        shown = self._session_ids.get(text)
        if shown is None:
            may_leave = is_session_id(text) and not self._holds_secret(text)
            shown = self._session_ids[text] = text if may_leave else self._digest("id", text)
        return shown

    def _numbered(self, kind: str, name: str, count: int) -> "str | None":
        """`kind:session_number…`, with so many numbers."""
        session_id, *numbers = name.rsplit("_", count)
        if len(numbers) != count or not all(map(is_number, numbers)):
            return None
        known_kind = kind if kind in EVENT_TYPES else OTHER
        return "_".join((f"{known_kind}:{self._session_id(session_id)}", *numbers))


def narrower(policy: Policy, other: Policy) -> Policy:
    """What both let out."""
    return Policy(
        policy.texts and other.texts,
        policy.contents and other.contents,
        policy.paths and other.paths,
        min(policy.people, other.people, key=config.PEOPLE.index),
    )
