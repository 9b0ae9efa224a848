"""A briefing's first lines: what was asked last, what came of it, what is left. Pure; on the hook path."""

from eventlog.memory import codes
from eventlog.memory.budget import Section
from eventlog.memory.evidence import cited, harmless, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Facts = dict[str, Any]

# The most characters of a request and of an outcome: their beginning and their end.
SIZE_MAX = 2_000
_NEXT = 4
_DONE = (None, "completed")


def shortened(text: object) -> "str | None":
    """A text as facts have it: cut in its middle, None where there is none."""
    if not isinstance(text, str) or not text.strip():
        return None
    return text if len(text) <= SIZE_MAX else f"{text[: SIZE_MAX // 2]} … {text[-SIZE_MAX // 2 :]}"


def last_of(turns: "list[Facts]") -> "Facts | None":
    """The newest turn of an agent, where there is one; else the newest, such as a commit."""
    return next((turn for turn in turns if turn["agent"] != "git"), turns[0] if turns else None)


def section(facts: "Facts", last: "Facts | None", ago: "Callable[[int], str]") -> Section:
    """Three lines or a few more. Args: ago: a time in words."""
    if last is None:
        return Section("last", "## Last turn", [])
    turn = cited(last["turn"] or last["event"])
    when = "" if last["at"] is None else f"{ago(last['at'])}, "
    who = harmless(last["agent"], 40) or "somebody"
    did = "did" if last["agent"] == "git" else "was asked"
    lines = [f"- {turn} {when}{who} {did}: {quoted(last['asked'] or last['text'])}"]
    if last["agent"] != "git":
        lines += [f"- {turn} came of it: {_outcome(last)}", *_left(facts, last, turn)]
    return Section("last", "## Last turn", lines)


def _outcome(last: "Facts") -> str:
    outcome = quoted(last["outcome"]) if last["outcome"] else None
    if last["open"]:
        return "its end is not recorded" + (f"; so far {outcome}" if outcome else "")
    if last["status"] not in _DONE:
        return harmless(last["status"], 40) + (f"; the last words were {outcome}" if outcome else "")
    return outcome or "not recorded"


def _left(facts: "Facts", last: "Facts", turn: str) -> "list[str]":
    lines = []
    question = _question(last["outcome"] or "")
    if question:
        lines.append(f"- {turn} left: an answer to {quoted(question)}")
    session = last["session"]
    codes_left = codes.last(facts["codes"])
    if codes_left is not None and codes_left["session"] == session:
        todo = [line for line in codes.lines_left(facts["codes"], "") if line.startswith("next:")]
        more = f" and {len(todo) - _NEXT} more" if len(todo) > _NEXT else ""
        if todo:
            listed = ", ".join(quoted(code, 120) for code in todo[:_NEXT])
            lines.append(f"- [sess-{session}] left: {listed}{more}")
    failed = [error for error in facts["errors"] if error["session"] == session]
    failed = [error for error in failed if error["position"] >= last["began"]]
    if failed:
        error, more = failed[0], f", nor {len(failed) - 1} more" if len(failed) > 1 else ""
        kind = harmless(error["tool"] or error["type"] or "error", 40)
        what = f"{kind} {quoted(error['target'] or error['text'], 120)}"
        lines.append(f"- {cited(error['event'])} left: {what} failed, and was not seen to work since{more}")
    if not lines and (last["open"] or last["status"] not in _DONE):
        return [f"- {turn} left: the request itself, which did not come to its end"]
    return lines or [f"- {turn} left: nothing that is recorded"]


def _question(outcome: str) -> str:
    """The sentence that an agent's last words end with, where it is a question."""
    words = outcome.rstrip(" \t\r\n*_`")
    if not words.endswith(("?", "？")):
        return ""
    line = words.splitlines()[-1]
    starts = [line.rfind(mark, 0, -1) + len(mark) for mark in (". ", "! ", "? ", ": ") if mark in line[:-1]]
    return line[max(starts, default=0) :].strip(" -*_#>")
