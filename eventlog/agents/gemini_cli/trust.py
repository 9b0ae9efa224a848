"""Whether an interactive Gemini CLI takes the directory for one whose hooks may run."""

import os
from collections.abc import Iterator

from eventlog.agents.kit.checks import AgentFinding, Surroundings
from eventlog.base.errors import EventLogError


def check(surroundings: Surroundings) -> Iterator[AgentFinding]:
    """What `trustedFolders.json` says of the directory; without that file, the agent asks when it starts."""
    path, directory = f"{surroundings.home}/trustedFolders.json", surroundings.directory
    try:
        rules = surroundings.read_settings(path)
    except FileNotFoundError:
        return
    except (OSError, ValueError, EventLogError) as error:
        yield AgentFinding(f"it is not known whether {directory} is trusted ({error})")
        return
    rule_of = {
        os.path.dirname(name) if rule == "TRUST_PARENT" else name: rule for name, rule in rules.items()
    }
    above = [name for name in rule_of if f"{directory}/".startswith(name.rstrip("/") + "/")]
    if above and rule_of[max(above, key=len)] == "DO_NOT_TRUST":
        what = f"{path} says that you do not trust {directory}, where Gemini CLI then runs no hook"
        yield AgentFinding(what, "start `gemini` here, give the command /permissions")
