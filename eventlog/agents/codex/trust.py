"""Whether Codex runs our hooks: they may be switched off, and it leaves those out that nobody trusted."""

import os
import tomllib
from collections.abc import Iterable, Iterator

from eventlog.agents.kit.checks import SIZE_MAX, AgentFinding, Surroundings
from eventlog.base.fs import REAL, read_file


def check(surroundings: Surroundings) -> Iterator[AgentFinding]:
    """What `config.toml` says of hooks in general, and of those that are installed."""
    path = f"{surroundings.home}/config.toml"
    try:
        fields = tomllib.loads(read_file(REAL, path, SIZE_MAX).decode())
    except FileNotFoundError:
        fields = {}
    except (OSError, ValueError) as error:
        yield AgentFinding(
            f"{path} cannot be read ({error}), so it is not known whether hooks are on", "correct the file"
        )
        return
    features, hooks = fields.get("features"), fields.get("hooks")
    if isinstance(features, dict) and features.get("hooks") is False:
        yield AgentFinding(
            f"{path} turns hooks off", "remove `hooks = false` from [features]", is_problem=True
        )
    states = hooks.get("state") if isinstance(hooks, dict) else None
    trusted = [key for key, state in states.items() if _is_trusted(state)] if isinstance(states, dict) else []
    for file in surroundings.files:
        unknown = [event for event in file.events if not _has_key(trusted, file.path, event)]
        if len(unknown) == len(file.events) and _has_recorded_since(file.path, surroundings.last_us):
            continue  # it runs them, whatever it noted
        if unknown:
            what = (
                f"Codex has not noted that you trust {len(unknown)} of the {len(file.events)} hooks in "
                f"{file.path}; untrusted hooks are left out without a word"
            )
            yield AgentFinding(what, "start `codex` here, give the command /hooks, and trust them")


def _is_trusted(state: object) -> bool:
    return isinstance(state, dict) and "trusted_hash" in state


def _has_recorded_since(path: str, last_us: int | None) -> bool:
    """Whether hooks recorded something after their file was last written."""
    try:
        return last_us is not None and last_us * 1000 > os.stat(path).st_mtime_ns
    except OSError:
        return False


def _has_key(keys: Iterable[str], path: str, event: str) -> bool:
    """Whether Codex keeps something under `PATH:post_tool_use:GROUP:HANDLER` for an event of a file."""
    snake = "".join("_" + c.lower() if c.isupper() else c for c in event).lstrip("_")
    beginnings = tuple(f"{name}:{snake}:" for name in (path, os.path.realpath(path)))
    return any(key.startswith(beginnings) for key in keys)
