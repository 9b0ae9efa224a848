"""What the tools of an agent do to files: one record for each agent, which its adapter makes.

A tool that the record does not know may write anything. Pure. On the hook path.
"""

from eventlog.agents.kit.call import TOOL, TOOL_START, EditedFile, ToolUse, object_of, text_of
from eventlog.base.paths import patch_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from eventlog.agents.kit.call import Call

# What a tool may change: the files that it names; anything; nothing itself, because it waits for calls that
# are reported on their own; nothing at all.
EDITS, ANY, WAITS, QUIET = "edits", "any", "waits", "quiet"

# Instead of what tools say of files that git ignores and that a store keeps (`ignored_texts.py`).
LEFT_OUT = "[LEFT OUT: of a file that git ignores]"


class AgentTools:
    """The tools of one agent, by the names that it gives them.

    `edits` change the files that they name and nothing else: tool → its argument with the path, or several
    of which one is given; `patches`: tool → its argument with a patch that names them. `waits` have others do
    the work, `quiet` ones change no file. `prefix` is what the agent's hooks put before a name that its
    model and its transcripts do not have.
    """

    __slots__ = ("edits", "patches", "prefix", "quiet", "waits")

    def __init__(
        self,
        *,
        edits: "Mapping[str, tuple[str, ...]]",
        quiet: str,
        waits: str = "",
        patches: "Mapping[str, str] | None" = None,
        prefix: str = "",
    ) -> None:
        self.edits = edits
        self.patches = patches or {}
        self.quiet = frozenset(quiet.split())
        self.waits = frozenset(waits.split())
        self.prefix = prefix

    def name(self, payload: "Mapping[str, object]") -> "str | None":
        """The tool of a hook's input, by the name that the agent's model calls it."""
        tool = text_of(payload, "tool_name")
        if tool is None or not self.prefix or not tool.startswith(self.prefix):
            return tool
        own = tool[len(self.prefix) :]
        return own if own in self.waits or own in self.quiet else tool

    def kind(self, tool: "str | None") -> str:
        """EDITS, ANY, WAITS or QUIET."""
        if tool in self.edits or tool in self.patches:
            return EDITS
        return QUIET if tool in self.quiet else WAITS if tool in self.waits else ANY

    def begin(self, call: "Call", use: ToolUse, payload: "Mapping[str, object]") -> None:
        """A tool begins. Args: payload: what the agent says besides its arguments."""
        call.add_of_tool("tool_start", use, {"args": use.args, **payload}, source="agent")
        call.moment = TOOL_START
        self._describe(call, use)

    def end(
        self,
        call: "Call",
        use: ToolUse,
        payload: "Mapping[str, object]",
        *,
        success: "bool | None",
        error: "str | None" = None,
        error_type: str = "tool_failure",
        **columns: object,
    ) -> None:
        """A tool has ended. Args: payload: its result, and what else is known; error: why it failed."""
        call.add_of_tool("action", use, {"args": use.args, **payload}, success=success, **columns)
        call.tool.cause = call.tool.ended[0] if call.tool.ended else None
        if error is not None:
            failure = {"message": error, "tool": use.name, "command": use.command}
            marks = {"error_type": error_type, "resolved": False, "related_to": ["errors"]}
            call.add_of_tool("error", use, failure, **marks)
        self._describe(call, use)
        if call.tool.kind != QUIET:
            call.moment = TOOL

    def _describe(self, call: "Call", use: ToolUse) -> None:
        """Say in `call` what its tool may change."""
        call.tool.kind = self.kind(use.name)
        call.tool.named = list(map(EditedFile, self.paths(use.name, use.args)))
        if call.tool.kind == EDITS and not call.tool.named:
            call.tool.kind = ANY  # nobody knows what it edits

    def paths(self, tool: "str | None", arguments: object) -> "list[str]":
        """The files that a call of an edit tool names, in order, each once; none for other tools."""
        given = object_of({"": arguments}, "")
        for name in self.edits.get(tool or "", ()):
            path = text_of(given, name)
            if path is not None:
                return [path]
        patch = given.get(self.patches.get(tool or "", ""))
        return patch_paths(patch) if isinstance(patch, str) else []
