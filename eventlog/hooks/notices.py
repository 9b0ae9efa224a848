"""Notices: what a session gets at its next prompt, once, because a person asked for it (docs/undo.md).

A file of `live/` each, `<session>-<time>-<event>.notice`, named by the event that it is about. The hook that
renames it away prints it, so of two hooks of one prompt only one does. Derived: a deleted notice is not
printed. On the hook path at a prompt.
"""

from eventlog import agents
from eventlog.agents.kit.call import TURN_START, Call
from eventlog.base import jsontext
from eventlog.base.fs import FileSystem, read_file, replace
from eventlog.base.layout import Layout
from eventlog.base.names import short
from eventlog.hooks.state import NOTICE, notices_of

_SIZE_MAX = 8_000  # agents cut longer ones


def prompt_event(agent: str) -> "str | None":
    """The hook of an agent at a prompt, where the agent reads what it prints."""
    spec = agents.spec_of(agent)
    return None if spec is None or spec.hooks is None else spec.hooks.answered_prompt


def leave(fs: FileSystem, layout: Layout, agent: str, session: str, event: str, text: str) -> None:
    """Leave a notice for the next prompt of an agent's session. Raises: OSError."""
    data = jsontext.encode({"agent": agent, "text": text[:_SIZE_MAX]})
    name = f"{short(session)}-{fs.time_ns():020d}-{event}{NOTICE}"
    replace(fs, layout.tmp(f"notice-{fs.random_bytes(8).hex()}"), layout.live(name), data)


def withdraw(fs: FileSystem, layout: Layout, session: str, event: str) -> bool:
    """Take a notice away that no prompt had yet; whether there was one."""
    names = [name for name in notices_of(fs, layout, session) if name.endswith(f"-{event}{NOTICE}")]
    return any(_take(fs, layout, name) is not None for name in names)


def answer(fs: FileSystem, layout: Layout, call: Call) -> bytes:
    """What the hook of a prompt prints so that its session reads its notices; they are gone then."""
    event = prompt_event(call.agent)
    if call.moment != TURN_START or call.session is None or event is None or "subagent_id" in call.columns:
        return b""
    texts = []
    for name in notices_of(fs, layout, call.session):
        notice = _take(fs, layout, name)
        if notice is not None and notice["agent"] == call.agent:
            texts.append(notice["text"])
    if not texts:
        return b""
    output = {"hookEventName": event, "additionalContext": "\n".join(texts)[:_SIZE_MAX]}
    return jsontext.encode({"hookSpecificOutput": output}) + b"\n"


def _take(fs: FileSystem, layout: Layout, name: str) -> "dict[str, str] | None":
    """A notice, which is gone then; None for one that another process has taken, or that is damaged."""
    taken = layout.tmp(f"notice-{fs.random_bytes(8).hex()}")
    try:
        fs.rename(layout.live(name), taken)
        try:
            notice = jsontext.decode(read_file(fs, taken, 4 * _SIZE_MAX))
        finally:
            fs.unlink(taken)
        return {"agent": str(notice["agent"]), "text": str(notice["text"])}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
