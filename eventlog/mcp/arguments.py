"""The arguments that several tools of `locus mcp` take.

The words are for a model that chooses between tools: the purpose, then the answer. An agent pays for them in
every request, so they are short, and an argument has one name, one form and one description in all tools;
earlier names, and names from elsewhere, are accepted as well.
"""

from typing import Annotated

from eventlog.mcp.call import Hint

Agent = Annotated[str, Hint(aliases=("agent",))]
Focus = Annotated[str, Hint("What you work on.")]
Paths = Annotated[list[str], Hint("Files and folders.", aliases=("paths",))]
Path = Annotated[str, Hint("A file or folder.")]
Phase = Annotated[str, Hint(choices=("planning", "implementation"))]
Reasoning = Annotated[str, Hint("Why.")]
Rows = Annotated[int, Hint(least=1, most=200)]
SessionId = Annotated[str, Hint(aliases=("session",))]
Tokens = Annotated[int, Hint("Tokens.", least=100, most=8000)]
# An agent, and its own id of a session.
AskingSession = tuple[str, str]
Words = Annotated[str, Hint('All must occur; "a phrase", begin*, -without.')]
