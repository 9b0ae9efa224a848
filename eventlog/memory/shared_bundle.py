"""The context bundle: what goes into a prompt, within a budget of characters, the same for the same entry.

Pure but for the state and the snippets it is given. Summaries and pointers, never contents (S2-4). Sections
have their own limits, and when the whole is too long they are shed in a fixed order; pinned rules and the
checkpoint always stay. Recorded text is quoted as data: one line an item, marked as what was noted before.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eventlog.memory.shared_entry import IMPLEMENTATION, PLANNING, Entry
from eventlog.memory.shared_state import Staleness

# (section, limit), in the order in which a bundle has them (S2-29, S2-30); characters.
SECTIONS = {
    PLANNING: (
        ("pinned", 350),
        ("checkpoint", 150),
        ("changes", 600),
        ("errors", 300),
        ("decisions", 600),
        ("summary", 800),
        ("pointers", 300),
        ("evidence", 150),
        ("retrieved", 300),
    ),
    IMPLEMENTATION: (
        ("pinned", 350),
        ("checkpoint", 150),
        ("changes", 600),
        ("errors", 300),
        ("checklist", 400),
        ("evidence", 150),
        ("retrieved", 200),
    ),
}
SIZE_MAX = {PLANNING: 2200, IMPLEMENTATION: 1700}
_SHED = {
    PLANNING: ("retrieved", "evidence", "pointers", "summary", "decisions", "errors", "changes"),
    IMPLEMENTATION: ("retrieved", "evidence", "checklist", "errors", "changes"),
}
ROLES = {  # characters of each role's answer (S2-31)
    "Product Owner": (400, 700),
    "Architect": (600, 900),
    "Developer": (700, 1000),
    "Validator": (300, 500),
}
_DECISIONS_MAX = 5
_STEPS_MAX = 3
RELEVANCE_MIN = 0.5
RULES = ("The repository's state is truth: it beats what is noted here.",)
_TITLES = {
    "pinned": "Rules",
    "checkpoint": "Checkpoint",
    "changes": "Changed since the checkpoint",
    "errors": "Last errors",
    "decisions": "Open decisions",
    "summary": "Summary",
    "pointers": "Files to read",
    "checklist": "Next steps",
    "evidence": "Evidence",
    "retrieved": "Found in earlier sessions",
}

# (relevance from 0 to 1, text, where it is from)
Snippet = tuple[float, str, str]


@dataclass(frozen=True, slots=True)
class Bundle:
    """`left_out` says for each shortened or shed section how many of its items are not there."""

    text: str
    left_out: "dict[str, int]"


def bundle(
    phase: str,
    entry: Entry,
    staleness: Staleness,
    *,
    diff: str = "",
    snippets: "Iterable[Snippet]" = (),
    sessions: "Mapping[str, Any] | None" = None,
    size_max: "int | None" = None,
) -> Bundle:
    """The bundle of an entry.

    Args:
        diff: what changed since the checkpoint; shown before every summary, and always when stale.
        snippets: what was found for the feature request; only what has RELEVANCE_MIN and more is taken.
        sessions: ids of tools' sessions on this machine.
        size_max: characters; the phase's own limit by default.
    """
    items = _items(phase, entry, staleness, diff, snippets, sessions)
    limit = min(size_max or SIZE_MAX[phase], SIZE_MAX[phase])
    left_out: dict[str, int] = {}
    parts: dict[str, str] = {}
    for name, section_max in SECTIONS[phase]:
        if items.get(name):
            parts[name], omitted = _section(name, items[name], section_max)
            if omitted:
                left_out[name] = omitted
    for name in _SHED[phase]:
        if _size(parts) <= limit:
            break
        if name in parts:
            over = _size(parts) - limit
            room = len(parts[name]) - over
            shorter, omitted = (
                _section(name, items[name], room) if room > len(_TITLES[name]) + 20 else ("", 0)
            )
            if shorter:
                parts[name], left_out[name] = shorter, omitted
            else:
                del parts[name]
                left_out[name] = len(items[name])
    return Bundle("\n\n".join(parts.values()), left_out)


def role_rounds(shared: Bundle) -> "list[tuple[str, str]]":
    """(role, instruction) of each round in one chat: the same bundle for everybody (S2-25)."""
    rounds = []
    for role, (least, most) in ROLES.items():
        instruction = (
            f"You are the {role}. Answer in {least} to {most} characters. State no fact that is not in the "
            "bundle, the repository, a tool's answer or the user's words; cite the file for each.\n"
            "Afterwards the chair adds a short decision log and the open questions."
        )
        rounds.append((role, f"{shared.text}\n\n{instruction}"))
    return rounds


def _items(
    phase: str,
    entry: Entry,
    staleness: Staleness,
    diff: str,
    snippets: "Iterable[Snippet]",
    sessions: "Mapping[str, Any] | None",
) -> "dict[str, list[str]]":
    items: dict[str, list[str]] = {"pinned": [*RULES, *_texts(entry.get("pinned_rules"))]}
    items["checkpoint"] = _checkpoint(entry, staleness, sessions)
    if staleness.changed or diff:
        changed = [f"{status} {path}" for status, path in staleness.changed]
        items["changes"] = [line for line in diff.splitlines() if line.strip()] or changed
    runs = entry.get("failed_runs") or [entry.get("last_run") or {}]
    items["errors"] = [_failure(run) for run in reversed(runs) if run.get("error")]
    decisions = [d for d in entry.get("open_decisions") or () if d.get("status", "open") == "open"]
    items["decisions"] = [f"{d.get('id')}: {d.get('text')}" for d in decisions[-_DECISIONS_MAX:]]
    summary = (entry.get("working_summary") or {}).get("text")
    if summary:
        trust = "STALE, not to be trusted: " if staleness.stale else ""
        items["summary"] = [f"{trust}{summary}"]
    items["pointers"] = [
        " ".join(filter(None, (str(p.get("role") or ""), str(p.get("path")))))
        for p in entry.get("file_pointers") or ()
    ]
    steps = [s for s in entry.get("checklist") or () if not s.get("done")]
    items["checklist"] = [str(s.get("text")) for s in steps[:_STEPS_MAX]]
    items["evidence"] = [
        f"{item.get('claim')}: {', '.join(_location(file) for file in item.get('files') or ())}"
        for item in reversed(entry.get("evidence_ledger") or ())
    ]
    relevant = [snippet for snippet in snippets if snippet[0] >= RELEVANCE_MIN]
    relevant.sort(key=lambda snippet: (-snippet[0], snippet[2]))
    items["retrieved"] = [f"{text} [{where}]" for _, text, where in relevant]
    return {name: items.get(name, []) for name, _ in SECTIONS[phase]}


def _checkpoint(entry: Entry, staleness: Staleness, sessions: "Mapping[str, Any] | None") -> "list[str]":
    checkpoint = entry.get("checkpoint") or {}
    head = str(checkpoint.get("git_head") or "no commit")[:12]
    state = f"STALE: {'; '.join(staleness.reasons)}" if staleness.stale else "fresh"
    lines = [f"{head}, {state}"]
    for tool, session in sorted((sessions or {}).items()):
        id_ = session.get("id") if isinstance(session, dict) else session
        lines.append(f"session of {tool}: {id_}")
    return lines


def _failure(run: "Mapping[str, Any]") -> str:
    step = f"{run['failed_step']}: " if run.get("failed_step") else ""
    return f"{step}{run['error']}; next: {run.get('next_action') or 'unknown'}"


def _section(name: str, items: "list[str]", size_max: int) -> "tuple[str, int]":
    """A section of at most `size_max` characters; how many items are not in it.

    One that is too long alone is cut.
    """
    text = f"## {_TITLES[name]}"
    shown = 0
    for item in items:
        line = "\n- " + " ".join(item.split())
        if len(text) + len(line) > size_max:
            room = size_max - len(text)
            if shown == 0 and room > 20:
                text += f"{line[: room - 1]}…"
                shown = 1
            break
        text += line
        shown += 1
    return (text, len(items) - shown) if shown else ("", len(items))


def _size(parts: "Mapping[str, str]") -> int:
    return sum(map(len, parts.values())) + 2 * max(0, len(parts) - 1)


def _texts(value: object) -> "list[str]":
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _location(file: "Mapping[str, Any]") -> str:
    return f"{file.get('path')}:{file.get('lines') or file.get('symbol')}"
