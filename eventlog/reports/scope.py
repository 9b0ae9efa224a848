"""What figures count: a span of time, an agent, a project, a person, a session. Pure."""

from dataclasses import dataclass

# The pseudo-agent that imported commits have.
COMMITS = "git"

_OF_PROJECT = "(repo = {0} or repo in (select repo from sessions_master where project_name = {0}))"


@dataclass(frozen=True, slots=True)
class Scope:
    """What is counted; None is all of it. Times are in µs since 1970, `until` is the first one beyond.

    `project` is a repository's hash, or the name of its project. Without `commits` what an import of a git
    history recorded is left out.
    """

    since: "int | None" = None
    until: "int | None" = None
    agent: "str | None" = None
    project: "str | None" = None
    person: "str | None" = None
    session: "str | None" = None
    commits: bool = True

    def condition(self, at: str) -> str:
        """An SQL condition on rows with columns `agent`, `repo`, `person` and `session_id`.

        Args: at: the expression of a row's time.
        """
        parts = [
            "true" if self.since is None else f"epoch_us({at}) >= {self.since:d}",
            "true" if self.until is None else f"epoch_us({at}) < {self.until:d}",
            "true" if self.project is None else _OF_PROJECT.format(_text(self.project)),
            "true" if self.commits else f"agent is distinct from {_text(COMMITS)}",
        ]
        columns = {"agent": self.agent, "person": self.person, "session_id": self.session}
        parts += [f"{name} = {_text(value)}" for name, value in columns.items() if value is not None]
        return " and ".join(part for part in parts if part != "true") or "true"


ALL = Scope()


def _text(value: str) -> str:
    """A literal of SQL. DuckDB has no escapes in it but the doubled quote; a zero byte ends no statement."""
    return "'" + value.replace("'", "''").replace("\0", "") + "'"
