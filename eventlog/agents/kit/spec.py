"""What Locus has to know of an agent, as one record: the package of each agent states an `AgentSpec`.

Everything that installs, records, imports, examines or serves reads these records (`agents/__init__.py`) and
knows no agent by name. Modules are named by their dotted names and imported when they are needed, so that a
hook call of one agent loads no other agent's code. On the hook path: imports nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import dataclass_transform
if not TYPE_CHECKING:

    def dataclass_transform(**_: bool) -> object:
        return lambda cls: cls


JSON, TOML = "json", "toml"
# In the entry of a server: what each agent calls the program and its arguments, or both together.
PROGRAM, ARGUMENTS, COMMAND_LINE = "{program}", "{arguments}", "{command line}"
# Claude Code's variable for the project's directory, which other agents set for hooks made for it.
PROJECT_VARIABLE = "CLAUDE_PROJECT_DIR"


@dataclass_transform(kw_only_default=True, frozen_default=True)
class FrozenRecord:
    """Fields by name; their defaults are in the class, and nothing changes them afterwards.

    A dataclass in all but its imports, which cost a hook more than its own.
    """

    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} is fixed")


class HomeSpec(FrozenRecord):
    """Where the user's own files of the agent are: `folder` in the directory that `variable` names, else in
    `default` of the home directory."""

    variable: str
    default: str = ""
    folder: str = ""


class HookSpec(FrozenRecord):
    """What the agent's hooks give and take. Read on the hook path."""

    adapter: str  # module with `interpret(payload) -> Call`
    # Module with `read_calls(agent, path, offset, bytes_max, stamps)`, for the model calls and words that
    # transcripts alone have, and maybe `subagents_of(path)`, the transcripts that belong to one.
    model_calls: str | None = None
    process_variable: str | None = None  # which hooks find the agent's process id in
    reads_answer: bool = False  # the agent reads what the hook prints that begins a session
    # The hook at a prompt, whose answer the agent reads as well; None where it does not, or nobody tried it.
    answered_prompt: str | None = None
    forgets_answer: bool = False  # and does not keep it, so that a resumed session needs it again
    # Neither turns nor tool calls have ids that hooks and transcripts share, so the adapter makes them:
    # `call_key`, `digest_of`, `without_context`.
    makes_ids: bool = False
    tells_outcome_of_calls: bool = False  # whether a model call succeeded is known by hooks alone
    spells_arguments: bool = False  # otherwise than transcripts do: the adapter's `words_of` compares them


class SettingsSpec(FrozenRecord):
    """Where our hooks are registered: a JSON file of the agent, or a `plugin` file of ours."""

    events: "tuple[str, ...]"
    file: str  # below `AgentSpec.folder` of the project, and below the user's home of the agent
    local_file: str | None = None  # of the project, for one user alone; None: the same file
    plugin: str | None = None  # module that makes the file: `text`, `put_in`, `taken_out`, …
    has_comments: bool = False  # the agent reads comments in JSON
    timeout_unit: int = 1  # per second
    timeouts_s: "tuple[tuple[str, int], ...]" = ()  # of events for which the agent allows less
    has_status_line: bool = False
    counts_each_hook: bool = False  # an event that starts two hooks counts its model call twice
    next_step: str | None = None  # what is left to do after the installation
    missing_step: str | None = None  # what may be left to do where hooks have recorded nothing yet
    check: str | None = None  # module with `check(surroundings) -> Iterator[AgentFinding]`, for the doctor


class ServerSpec(FrozenRecord):
    """Where the agent looks for MCP servers, and what an entry looks like."""

    files: "tuple[str, ...]"  # of the project; the first that exists, else the last
    user_files: "tuple[str, ...]"  # the same, below the user's home of the agent
    is_beside_home: bool = False  # the user's file, unless `HomeSpec.variable` is set
    format: str = JSON
    key: str = "mcpServers"
    entry: "tuple[tuple[str, object], ...]" = (("command", PROGRAM), ("args", ARGUMENTS))
    has_comments: bool = False
    needs_store: bool = False  # the agent does not tell servers the project, so its entry names the store
    next_step: str | None = None  # what to know after the installation in a project
    next_step_of_user: str | None = None


class TranscriptSpec(FrozenRecord):
    """What the agent leaves on disk."""

    reader: str  # module; `agents/formats.py` says what it has
    is_found: bool = (
        True  # `directories_of_transcripts` of the module says where it is kept; else files are named
    )
    is_deleted: bool = False  # by the agent, after some weeks
    copies_lack_times: bool = False  # a copy of another transcript may be without times


class AgentSpec(FrozenRecord):
    """An agent: `name` is what events, payloads and hooks call it; its package is called so too, with `_`."""

    name: str
    title: str
    verb: str | None = None  # after `locus import` and `locus mcp --agent`, where it is not `name`
    program: str | None = None
    resume: "tuple[str, ...]" = ()  # goes on with a conversation; the agent's id of it follows
    home: HomeSpec | None = None
    folder: str = ""  # in a project
    hooks: HookSpec | None = None
    settings: SettingsSpec | None = None
    server: ServerSpec | None = None
    transcripts: TranscriptSpec | None = None
    session_variable: str | None = None  # which an MCP server finds the session in that it serves
    stop_reason_key: str | None = None  # of payloads of model calls, where it is not `stop_reason`
    counts_calls_late: bool = False  # model calls are reported after the tools that they asked for

    @property
    def command_name(self) -> str:
        """What the command line calls it."""
        return self.verb or self.name
