"""The context for a message: what the next turn should know, in one text and one budget (docs/memory.md).

The parts are those of the window (S1-27) with what a briefing tells beside them: project, goal, last turns,
relevant memories, warnings and errors, active sessions, decisions, files; then the bundle of a workstream,
within its own limits, and the codes of the last session, of which nothing is cut (S4-35). Pure reading.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from eventlog.memory import briefing_of_log, last_turn, window
from eventlog.memory.briefing import BriefingReader, parts
from eventlog.memory.budget import Section, fill, tokens_of
from eventlog.memory.evidence import NOTE, cited, harmless, quoted
from eventlog.memory.freshness import FreshnessChecker
from eventlog.memory.shared_nodes import ContextLoadNode
from eventlog.recorder.requests import Memory
from eventlog.store import Store

TOKENS = 2_500  # S4-33: 1,500 of memory and 1,000 of codes
_TEXT_SIZE_MAX = 300
# Of a briefing's parts those that the block of the message does not have.
_OF_BRIEFING = ("warnings", "sessions", "decisions", "turns", "errors", "files")


@dataclass(frozen=True, slots=True)
class MessageContext:
    """The text without the message, and what it counts. `parts` are in their order, each with its text; the
    message is the last of them. `tokens` is above `budget` only where the codes alone are."""

    block: window.ContextBlock
    text: str
    parts: "tuple[tuple[str, str], ...]"
    tokens: int
    budget: int
    position: int
    left_out: "dict[str, int]"


def context_for(
    store: Store,
    message: str,
    now_us: int,
    *,
    session_id: "str | None" = None,
    situation: "window.Situation | None" = None,
    agent: "str | None" = None,
    node: "ContextLoadNode | None" = None,
    tokens: int = TOKENS,
) -> MessageContext:
    """What to know for a message. The search index may be brought up to date.

    Args: session_id: the session that the message is of, None for a new one; node: loads the workstream whose
    bundle is a part. Raises: EventLogError.
    """
    block = window.context_block(store, message, session_id=session_id, situation=situation)
    looker = FreshnessChecker(briefing_of_log.working_directory(store))
    is_first = session_id is None
    return context_around(
        store, block, now_us, looker, is_first=is_first, agent=agent, node=node, tokens=tokens
    )


def context_around(
    store: Store,
    block: window.ContextBlock,
    now_us: int,
    looker: FreshnessChecker,
    *,
    is_first: bool,
    agent: "str | None" = None,
    node: "ContextLoadNode | None" = None,
    tokens: int = TOKENS,
) -> MessageContext:
    """The same around the block of a message. Args: is_first: the message begins a session."""
    facts = briefing_of_log.gather(store)
    shown = {memory.context_id for memory in block.recent_turns}
    shown |= {hit.memory.event_id for hit in block.relevant} | {
        hit.memory.context_id for hit in block.relevant
    }
    last = last_turn.last_of(facts["turns"]) if is_first else None
    for name in ("turns", "decisions", "warnings", "errors"):
        unshown = [fact for fact in facts[name] if fact["event"] not in shown or fact is last]
        if name != "turns":
            facts[f"{name}_total"] -= len(facts[name]) - len(unshown)
        facts[name] = unshown
    _, _, briefed = parts(facts, BriefingReader(agent), looker, now_us)
    named = {section.kind: section for section in briefed}
    goal = [quoted(block.session_goal, _TEXT_SIZE_MAX)] if block.session_goal else []
    bundled = [] if node is None else _bundle(node)
    sections = (
        Section("project", "## Project", [harmless(block.project), *map(_line, block.knowledge)]),
        Section("session_goal", "## Session goal", goal),
        Section("recent_turns", "## Turns of this session", [_line(memory) for memory in block.recent_turns]),
        Section("relevant", "## Relevant to the message", [_line(hit.memory) for hit in block.relevant]),
        *(named[kind] for kind in (*(("last",) if last else ()), *_OF_BRIEFING)),
        Section("bundle", "## Shared context", bundled, is_whole=True),
        named["codes"],
    )
    head = [f"# Context: {harmless(store.project_name, 60)}, events up to {facts['position']:,}", NOTE]
    # Codes are never cut: where they leave no room, they alone are shown, whatever they count.
    least = tokens_of("\n".join((*head, *named["codes"].lines))) + _LEFT_LINE if named["codes"].lines else 0
    filled = fill(head, sections, max(tokens, least))
    chosen = [
        (section.kind, "\n".join(section.lines[: filled.shown[section.kind]]))
        for section in sections
        if filled.shown[section.kind]
    ]
    return MessageContext(
        block,
        filled.text,
        (*chosen, ("current_input", block.current_input)),
        tokens_of(filled.text),
        tokens,
        facts["position"],
        filled.left_out,
    )


# The most that the line on what was left out counts.
_LEFT_LINE = 60


def fields(context: MessageContext) -> "dict[str, Any]":
    """As JSON has it."""
    return {
        "situation": context.block.situation.value,
        "text": context.text,
        "parts": [{"name": name, "text": text, "tokens": tokens_of(text)} for name, text in context.parts],
        "tokens": context.tokens,
        "budget": context.budget,
        "measure": "words × 1.3",
        "position": context.position,
        "left_out": context.left_out,
        "relevant": [
            {"event": hit.memory.event_id, "relevance": round(hit.relevance, 3)}
            for hit in context.block.relevant
        ],
    }


def _bundle(node: ContextLoadNode) -> "list[str]":
    """The lines of a workstream's bundle; its titles one level below that of the part."""
    made = node({}).get("context", {}).get(node.phase)
    lines = [] if made is None else made["bundle"].split("\n")
    return [f"#{line}" if line.startswith("## ") else harmless(line, len(line) + 1) for line in lines]


def _line(memory: Memory) -> str:
    day = "" if memory.at is None else f"{datetime.fromtimestamp(memory.at / 1e6, UTC):%Y-%m-%d} "
    return f"- {cited(*memory.cites)} {day}{quoted(memory.text, _TEXT_SIZE_MAX)}"
