"""What an agent's own check gets from `locus doctor`, and what it answers (`SettingsSpec.check`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

SIZE_MAX = 8 << 20  # of a settings file


@dataclass(frozen=True, slots=True)
class HookFile:
    """A settings file with hooks of ours, and their events."""

    path: str
    events: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where the agent's hooks are installed.

    `last_us` is when they were last heard of, in microseconds since 1970; `read_settings` gives the values of
    a JSON file with comments, and raises OSError, ValueError or EventLogError.
    """

    home: str
    directory: str
    files: tuple[HookFile, ...]
    last_us: int | None
    read_settings: Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class AgentFinding:
    """Something worth knowing, or a problem: then hooks record nothing, or less."""

    what: str
    next_step: str | None = None
    is_problem: bool = False
