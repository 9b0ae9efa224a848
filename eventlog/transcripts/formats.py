"""Which reader understands which agent's transcripts. Pure."""

from typing import Any, Protocol

from eventlog.transcripts.draft import Draft


class Reader(Protocol):
    """One for each source; the same lines give the same drafts."""

    def __init__(self, draft: Draft) -> None: ...

    def take(self, said: "dict[str, Any]") -> None:
        """A line that is a JSON object; a value of the wrong kind is an unknown one."""

    def end(self) -> None:
        """What is still pending at the end."""


def reader_of(agent: str) -> type[Reader]:
    from eventlog.transcripts import claude_code

    return {"claude-code": claude_code.Reader}[agent]
