"""What a tool is: its name, its parameters, what it runs; and calls, checked against that.

Nothing here knows the protocol. `answer` opens the store, asks, closes it, and gives one page of text and
what programs want of it; it may be called from any thread, several at a time.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eventlog.base.display import harmless, unread
from eventlog.base.errors import Refused
from eventlog.log.tail_memory import TailMemory
from eventlog.mcp import page
from eventlog.query.people import allowed
from eventlog.store import Store

TEXT, NUMBER, SHARE, FLAG, TEXTS = "string", "integer", "number", "boolean", "array"
_TEXT_SIZE_MAX = 200_000

# What the calls of this process have read of the tails of stores, by directory and id.
_TAILS: dict[tuple[str, bytes], TailMemory] = {}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool. `default` None is none given; `aliases` are names that are taken for it."""

    name: str
    kind: str
    text: str = ""
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = 1_000_000
    aliases: tuple[str, ...] = ()

    def schema(self) -> dict[str, Any]:
        """The argument in JSON Schema. Bounds are told by the refusal: agents pay for each word here."""
        said: dict[str, Any] = {"type": self.kind}
        if self.text:
            said["description"] = self.text
        if self.kind == TEXTS:
            said["items"] = {"type": "string"}
        if self.choices:
            said["enum"] = list(self.choices)
        if self.default is not None:
            said["default"] = self.default
        return said

    def checked(self, value: Any) -> Any:
        """The value. Raises: Refused."""
        fits: bool
        if self.kind == NUMBER:
            fits = isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most
            wanted = f"a whole number from {self.least:,} to {self.most:,}"
        elif self.kind == SHARE:
            fits = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
            wanted = "a number from 0 to 1"
        elif self.kind == FLAG:
            fits, wanted = isinstance(value, bool), "true or false"
        elif self.kind == TEXTS:
            fits = isinstance(value, list) and all(_is_text(one) for one in value)
            wanted = "a list of texts"
        else:
            fits = _is_text(value) and (not self.choices or value in self.choices)
            wanted = (
                f"one of {', '.join(self.choices)}"
                if self.choices
                else f"a text of at most {_TEXT_SIZE_MAX:,} characters"
            )
            if fits and self.required and not value.strip():
                fits, wanted = False, "a text that says something"
        if not fits:
            raise Refused(f"{self.name} must be {wanted}, not {harmless(repr(value)[:80])}.")
        return value


def _is_text(value: Any) -> bool:
    """Whether a text can be kept: JSON can spell halves of characters, which UTF-8 cannot."""
    if not isinstance(value, str) or len(value) > _TEXT_SIZE_MAX:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


STORE = Parameter("store", TEXT, "Project directory.")
CURSOR = Parameter("cursor", TEXT)
MAX_CHARS = Parameter("max_chars", NUMBER, least=page.CHARS_MIN, most=page.CHARS_MAX)


@dataclass(frozen=True, slots=True)
class WriteReceipt:
    """What a tool that writes answers: words, and what it wrote."""

    text: str
    event_id: str | None = None
    session_id: str | None = None


Answer = str | Iterable[str] | WriteReceipt
# What programs get: the text as well, since many clients show their model nothing else.
Structured = dict[str, str]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `run` gets the store and the arguments by name."""

    name: str
    title: str
    text: str
    run: Callable[..., Answer]
    parameters: tuple[Parameter, ...] = ()
    writes: bool = False
    quotes: bool = True  # what it answers was recorded, and is paged

    @property
    def all_parameters(self) -> tuple[Parameter, ...]:
        return (*self.parameters, *((MAX_CHARS, CURSOR) if self.quotes else ()), STORE)

    def schema(self, *, names_store: bool = True) -> dict[str, Any]:
        """What it takes, in JSON Schema; `names_store` whether a call may say which store it is about."""
        shown = [one for one in self.all_parameters if names_store or one is not STORE]
        required = [one.name for one in shown if one.required]
        said = {"type": "object", "properties": {one.name: one.schema() for one in shown}}
        return {**said, "required": required} if required else said

    def output_schema(self) -> dict[str, Any]:
        """What it answers, in JSON Schema."""
        names = ("text", "cursor") if self.quotes else ("text", "event_id", "session_id")
        properties = {name: {"type": "string"} for name in names}
        return {"type": "object", "properties": properties, "required": ["text"]}

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, with defaults; null is not given. Raises: Refused."""
        known = {one.name: one for one in self.all_parameters}
        given = self._named(given)
        strange = sorted(set(given) - set(known))
        if strange:
            names = ", ".join(harmless(name[:40]) for name in strange[:5])
            raise Refused(f"{self.name} takes no argument {names}. It takes {', '.join(known)}.")
        said = {name: value for name, value in given.items() if value is not None}
        missing = [one.name for one in self.parameters if one.required and one.name not in said]
        if missing:
            raise Refused(f"{self.name} needs the argument {' and '.join(missing)}.")
        return {name: one.checked(said[name]) if name in said else one.default for name, one in known.items()}

    def _named(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with aliases replaced by what they stand for. Raises: Refused."""
        meant = {alias: one.name for one in self.all_parameters for alias in one.aliases}
        said: dict[str, Any] = {}
        for name, value in given.items():
            if value is not None and said.get(meant.get(name, name)) is not None:
                raise Refused(f"{self.name} was given {meant.get(name, name)} twice, under two names.")
            if value is not None or name not in meant:
                said[meant.get(name, name)] = value
        return said


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A checked call; `store` is the argument of that name."""

    tool: Tool
    arguments: dict[str, Any] = field(default_factory=dict)
    store: str | None = None

    @classmethod
    def of(cls, tool: Tool, given: Mapping[str, Any]) -> "ToolCall":
        """Raises: Refused."""
        arguments = tool.checked(given)
        return cls(tool, arguments, arguments.pop("store"))

    def answer(self, root: str, unnamed: bool = False) -> Structured:
        """The answer by the store at `root`, as `Tool.output_schema` has it. Raises: EventLogError.

        Args: unnamed: nobody said which store, so the answer says it.
        """
        named = f"Store: {harmless(root)}\n" if unnamed else ""
        arguments = dict(self.arguments)
        chars, cursor = arguments.pop("max_chars", None), arguments.pop("cursor", None)
        with Store.open(root) as store:
            store.tail_memory = _TAILS.setdefault((root, store.identity.store_id), store.tail_memory)
            store.people = allowed(store.fs, store.layout)
            said = self.tool.run(store, **arguments)
            if isinstance(said, WriteReceipt):
                return _receipt(said, named)
            text = page.text_of([said] if isinstance(said, str) else said)
            text = store.redactor.text(text)  # names of files may hold a secret
            if store.unread:
                text = f"{unread(store.unread)}\n{text}"
        shown, following = page.page(text, cursor, chars or page.CHARS)
        answer = {"text": page.RECORD + named + shown}
        return answer if following is None else {**answer, "cursor": following}


def _receipt(said: WriteReceipt, named: str) -> Structured:
    ids = {"event_id": said.event_id, "session_id": said.session_id}
    return {"text": page.text_of([named + said.text]), **{k: v for k, v in ids.items() if v is not None}}
