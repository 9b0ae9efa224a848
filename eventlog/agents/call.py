"""What one hook call of an agent says, before anything is looked at: the values that adapters give.

`Call` is what `interpret` of an adapter returns; `live.py` completes and writes it. The functions below
read hook input without trusting it: a value of the wrong kind is an unknown one. Pure; any thread may use
them. On the hook path.
"""

from eventlog.names import event_id_of
from eventlog.types import KIND_OF_TYPE, SOURCE_OF_TYPE, Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# The moments at which a working directory is looked at.
SESSION, TURN_START, TOOL_START, TOOL, TURN_END, SESSION_END = (
    "session",
    "turn_start",
    "tool_start",
    "tool",
    "turn_end",
    "session_end",
)

TEXT_SIZE_MAX = 4096  # of ids, names and paths that become columns
_TITLE_SIZE_MAX = 80


class Named:
    """A file that an edit tool says it changed.

    `original` is the text that the agent found in it, None when it does not say; `added` and `removed` are
    the lines that its own patch counts.
    """

    __slots__ = ("added", "original", "path", "removed")

    def __init__(
        self,
        path: str,
        original: "str | None" = None,
        added: "int | None" = None,
        removed: "int | None" = None,
    ) -> None:
        self.path = path
        self.original = original
        self.added = added
        self.removed = removed


class Call:
    """One hook call.

    `columns` are the envelope columns that all its events share; `events` are complete but for those, and
    come in the order in which they are to be written. `cause` is the id of the action that explains what a
    capture finds. `kind` is what its tool may change (`tools.py`), None for a call of no tool; `named` are
    the files that an edit tool names. `prompt` is a person's message, which names the turn (whose start is
    the first event) and may name the session. `finished` are the tools that are known to have ended;
    `repeats` says that their actions may have been recorded before, `settles` that every tool of the turn has
    ended by now. `transcripts` are files in which the agent keeps its model calls. `scope` is what the ids of
    tool calls are unique in, where that is not the agent.

    An agent that gives its turns and tool calls no ids says `stamp`, the time of the call, and `tool_call`,
    the tool and a digest of its arguments; `live_names.py` completes such a call. `unheard` is a call whose
    turn is new to the notes, because the hook of its prompt was killed. `begins` is the action of
    a tool that begins, `ended` are actions of tools that ended, where no id of the agent's tells them.
    """

    __slots__ = (
        "agent",
        "begins",
        "cause",
        "columns",
        "ended",
        "events",
        "finished",
        "kind",
        "moment",
        "named",
        "prompt",
        "repeats",
        "scope",
        "settles",
        "stamp",
        "tool_call",
        "transcripts",
        "unheard",
    )

    def __init__(self, agent: str, columns: Event) -> None:
        self.agent = agent
        self.columns = columns
        self.events: "list[Event]" = []
        self.moment: "str | None" = None
        self.named: "list[Named]" = []
        self.kind: "str | None" = None
        self.repeats = False
        self.settles = False
        self.cause: "str | None" = None
        self.scope: "str | None" = None
        self.prompt: "str | None" = None
        self.finished: "list[str]" = []
        self.transcripts: "list[str]" = []
        self.stamp: "str | None" = None
        self.tool_call: "tuple[str, str] | None" = None
        self.begins: "str | None" = None
        self.ended: "list[str]" = []
        self.unheard = False

    @property
    def session(self) -> "str | None":
        return text_of(self.columns, "agent_session_id")

    @property
    def turn(self) -> "str | None":
        return text_of(self.columns, "agent_turn_id")

    def action_id(self, tool_use_id: str) -> str:
        """The id of the action that a tool call becomes."""
        scope = () if self.scope is None else (self.scope,)
        return event_id_of(self.agent, "action", *scope, tool_use_id)

    def add(
        self, event_type: str, payload: "Mapping[str, object]", *key: "str | None", **columns: object
    ) -> Event:
        """One more event. `key` makes its id (docs/event-ids.md); a random id when a part is unknown."""
        event: Event = {
            "event_type": event_type,
            "event_kind": KIND_OF_TYPE.get(event_type, "observation"),
            "source": SOURCE_OF_TYPE.get(event_type, "system"),
        }
        event.update((name, value) for name, value in columns.items() if value is not None)
        event["payload"] = {name: value for name, value in payload.items() if value is not None}
        known = [part for part in key if part]
        if known and len(known) == len(key):
            event["event_id"] = event_id_of(self.agent, *known)
        self.events.append(event)
        return event


def columns_of(agent: str, said: "Mapping[str, object]", names: "Iterable[tuple[str, str]]") -> Event:
    """The shared columns: `names` are (column, name in the hook's input)."""
    columns: Event = {"agent": agent}
    for column, name in names:
        value = text_of(said, name)
        if value is not None:
            columns[column] = value
    return columns


def text_of(said: "Mapping[str, object]", name: str) -> "str | None":
    """A text that may become a column, or a part of a key; None when it is none."""
    value = said.get(name)
    if not isinstance(value, str) or not value or len(value) > TEXT_SIZE_MAX:
        return None
    return value.encode("utf-8", "replace").decode("utf-8")


def int_of(said: "Mapping[str, object]", name: str) -> "int | None":
    value = said.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**53:
        return None
    return int(value)


def object_of(said: "Mapping[str, object]", name: str) -> "dict[str, object]":
    value = said.get(name)
    return value if isinstance(value, dict) else {}


def without(said: "Mapping[str, object]", *names: str) -> "dict[str, object]":
    return {name: value for name, value in said.items() if name not in names}


def title_of(text: str) -> "str | None":
    """The first line that says something, cut at a word."""
    for line in text.split("\n", 50)[:50]:
        words = " ".join(line[:1000].split())
        if words:
            if len(words) <= _TITLE_SIZE_MAX:
                return words
            return words[:_TITLE_SIZE_MAX].rpartition(" ")[0][:_TITLE_SIZE_MAX] or words[:_TITLE_SIZE_MAX]
    return None


def raw(call: Call, said: "Mapping[str, object]", name: "str | None", *key: "str | None") -> None:
    """Keep a call as it came, as one event of type `hook`."""
    columns = {
        "operation": name,
        "tool": text_of(said, "tool_name"),
        "model": text_of(said, "model"),
        "tool_use_id": text_of(said, "tool_use_id"),
    }
    call.add("hook", said, "hook", name, *(key or (None,)), **columns)
