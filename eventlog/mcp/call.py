"""Tools, each a function with the decorator `tool`; and calls, checked against its signature.

A tool's parameters are those of the function after the store: a type is its kind, a parameter without a
default is required, and `Annotated` adds what a signature cannot say. Nothing here knows the protocol.
`ToolCall.answer` opens the store, asks, closes it, and returns one page of text with the fields for programs;
it may be called from any thread, several at a time.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from types import NoneType
from typing import Any, TypeVar, get_args

from eventlog.base.display import harmless, unread
from eventlog.base.errors import Refused
from eventlog.log.tail_memory import TailMemory
from eventlog.mcp import page
from eventlog.query.people import allowed
from eventlog.store import Store

TEXT, NUMBER, SHARE, FLAG, TEXTS = "string", "integer", "number", "boolean", "array"
_TEXT_SIZE_MAX = 200_000

# The tails of stores as the calls of this process have read them, by directory and id.
_TAILS: dict[tuple[str, bytes], TailMemory] = {}


@dataclass(frozen=True, slots=True)
class Hint:
    """What the signature of a tool cannot say of a parameter; `aliases` are other names for it."""

    text: str = ""
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = 1_000_000
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter(Hint):
    """One argument of a tool. `default` None means no default."""

    name: str
    kind: str
    required: bool = False
    default: Any = None

    def schema(self) -> dict[str, Any]:
        """The argument in JSON Schema. Only the refusal states bounds: agents pay for each word here."""
        schema: dict[str, Any] = {"type": self.kind}
        if self.text:
            schema["description"] = self.text
        if self.kind == TEXTS:
            schema["items"] = {"type": "string"}
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.default is not None:
            schema["default"] = self.default
        return schema

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
            fits = isinstance(value, list) and all(_is_text(item) for item in value)
            wanted = "a list of texts"
        else:
            fits = _is_text(value) and (not self.choices or value in self.choices)
            wanted = (
                f"one of {', '.join(self.choices)}"
                if self.choices
                else f"a text of at most {_TEXT_SIZE_MAX:,} characters"
            )
            if fits and self.required and not value.strip():
                fits, wanted = False, "a text that is not blank"
        if not fits:
            raise Refused(f"{self.name} must be {wanted}, not {harmless(repr(value)[:80])}.")
        return value


def _is_text(value: Any) -> bool:
    """Whether a text can be stored: JSON can spell halves of surrogate pairs, UTF-8 cannot."""
    if not isinstance(value, str) or len(value) > _TEXT_SIZE_MAX:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


_KINDS = {str: TEXT, int: NUMBER, float: SHARE, bool: FLAG, list[str]: TEXTS}
STORE = Parameter(name="store", kind=TEXT, text="Project directory.")
CURSOR = Parameter(name="cursor", kind=TEXT)
MAX_CHARS = Parameter(name="max_chars", kind=NUMBER, least=page.CHARS_MIN, most=page.CHARS_MAX)


@dataclass(frozen=True, slots=True)
class WriteReceipt:
    """The answer of a tool that writes: a text, and the ids of what it wrote."""

    text: str
    event_id: str | None = None
    session_id: str | None = None


Answer = str | Iterable[str] | WriteReceipt
# The fields for programs; with the text, since many clients show their model nothing else.
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
    quotes: bool = True  # its answer quotes the record, and has pages
    changes_files: bool = False  # of the working directory, and only where a person switched that on

    @property
    def all_parameters(self) -> tuple[Parameter, ...]:
        return (*self.parameters, *((MAX_CHARS, CURSOR) if self.quotes else ()), STORE)

    def schema(self, *, names_store: bool = True) -> dict[str, Any]:
        """Its arguments in JSON Schema. Args: names_store: whether a call may name its store."""
        shown = [parameter for parameter in self.all_parameters if names_store or parameter is not STORE]
        required = [parameter.name for parameter in shown if parameter.required]
        schema = {"type": "object", "properties": {parameter.name: parameter.schema() for parameter in shown}}
        return {**schema, "required": required} if required else schema

    def output_schema(self) -> dict[str, Any]:
        """Its answer in JSON Schema."""
        names = ("text", "cursor") if self.quotes else ("text", "event_id", "session_id")
        properties = {name: {"type": "string"} for name in names}
        return {"type": "object", "properties": properties}

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, with defaults; null counts as absent. Raises: Refused."""
        parameters = {parameter.name: parameter for parameter in self.all_parameters}
        arguments = self._named(arguments)
        strange = sorted(set(arguments) - set(parameters))
        if strange:
            names = ", ".join(harmless(name[:40]) for name in strange[:5])
            raise Refused(f"{self.name} takes no argument {names}. It takes {', '.join(parameters)}.")
        stated = {name: value for name, value in arguments.items() if value is not None}
        missing = [
            parameter.name
            for parameter in self.parameters
            if parameter.required and parameter.name not in stated
        ]
        if missing:
            raise Refused(f"{self.name} needs the argument {' and '.join(missing)}.")
        return {
            name: parameter.checked(stated[name]) if name in stated else parameter.default
            for name, parameter in parameters.items()
        }

    def _named(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with aliases replaced by the names that they stand for. Raises: Refused."""
        meant = {alias: parameter.name for parameter in self.all_parameters for alias in parameter.aliases}
        named: dict[str, Any] = {}
        for name, value in arguments.items():
            if value is not None and named.get(meant.get(name, name)) is not None:
                raise Refused(f"{self.name} was given {meant.get(name, name)} twice, under two names.")
            if value is not None or name not in meant:
                named[meant.get(name, name)] = value
        return named


REGISTERED: dict[str, Tool] = {}
_Function = TypeVar("_Function", bound=Callable[..., Answer])


def tool(
    title: str, *, name: str | None = None, writes: bool = False, changes_files: bool = False
) -> Callable[[_Function], _Function]:
    """Register a function as the tool of its name, with its docstring as description.

    Its keyword-only parameters are no arguments of a call: `tools_for` gives them.
    """

    def register(run: _Function) -> _Function:
        _, *parameters = inspect.signature(run, eval_str=True).parameters.values()  # the first is the store
        known = name or run.__name__
        REGISTERED[known] = Tool(
            name=known,
            title=title,
            text=" ".join((run.__doc__ or "").split()),
            run=run,
            parameters=tuple(_parameter(stated) for stated in parameters if not _is_given(stated)),
            writes=writes,
            quotes=not writes,
            changes_files=changes_files,
        )
        return run

    return register


def _is_given(stated: inspect.Parameter) -> bool:
    return stated.kind is inspect.Parameter.KEYWORD_ONLY


def _parameter(stated: inspect.Parameter) -> Parameter:
    """A parameter of a function: of a kind, with a hint or not, and perhaps None."""
    types = [item for item in get_args(stated.annotation) if item is not NoneType]
    hinted = types[0] if NoneType in get_args(stated.annotation) and len(types) == 1 else stated.annotation
    kind, hint = get_args(hinted) if hasattr(hinted, "__metadata__") else (hinted, Hint())
    required = stated.default is stated.empty
    default = None if required else stated.default
    known = asdict(hint)
    return Parameter(name=stated.name, kind=_KINDS[kind], required=required, default=default, **known)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A checked call; `store` is the argument of that name."""

    tool: Tool
    arguments: dict[str, Any] = field(default_factory=dict)
    store: str | None = None

    @classmethod
    def of(cls, tool: Tool, raw: Mapping[str, Any]) -> "ToolCall":
        """Raises: Refused."""
        arguments = tool.checked(raw)
        return cls(tool, arguments, arguments.pop("store"))

    def answer(self, root: str, unnamed: bool = False) -> Structured:
        """The answer of the store at `root`, by `Tool.output_schema`. Raises: EventLogError.

        Args: unnamed: the call did not name the store, so the answer does.
        """
        named = f"Store: {harmless(root)}\n" if unnamed else ""
        arguments = dict(self.arguments)
        chars, cursor = arguments.pop("max_chars", None), arguments.pop("cursor", None)
        with Store.open(root) as store:
            store.tail_memory = _TAILS.setdefault((root, store.identity.store_id), store.tail_memory)
            store.people = allowed(store.fs, store.layout)
            result = self.tool.run(store, **arguments)
            if isinstance(result, WriteReceipt):
                return _receipt(result, named)
            text = page.text_of([result] if isinstance(result, str) else result)
            text = store.redactor.text(text)  # names of files may hold a secret
            if store.unread:
                text = f"{unread(store.unread)}\n{text}"
        shown, following = page.page(text, cursor, chars or page.CHARS)
        answer = {"text": page.RECORD + named + shown}
        return answer if following is None else {**answer, "cursor": following}


def _receipt(receipt: WriteReceipt, named: str) -> Structured:
    ids = {"event_id": receipt.event_id, "session_id": receipt.session_id}
    return {"text": page.text_of([named + receipt.text]), **{k: v for k, v in ids.items() if v is not None}}
