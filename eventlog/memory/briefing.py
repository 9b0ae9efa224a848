"""The briefing: what a session should know of those before it, as text within a budget of tokens.

Makes lines of facts (docs/briefing.md has their form), a time, and what the reader is about. Pure, except
that `freshness` reads files: the same facts, time and files give the same bytes. Each line names the event
that it rests on, and each claim about a file says what became of the file. On the hook path: imports neither
`dataclasses` nor `re`.
"""

from eventlog.base.stop_words import QUESTION_STOP_WORDS
from eventlog.memory import codes, last_turn
from eventlog.memory.budget import Filled, Section, fill, tokens_of
from eventlog.memory.evidence import NOTE, cited, harmless, quoted
from eventlog.memory.freshness import FreshnessChecker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    Facts = dict[str, Any]

TOKENS = 1_000
STALE_HOURS = 24  # `intent.STALE_SESSION_HOURS`, which this path cannot import; a test compares them

# The most lines of each section; what is beyond them counts as left out.
_KNOWLEDGE, _WARNINGS, _ERRORS, _SESSIONS, _RELEVANT, _TURNS, _DECISIONS, _FILES = 5, 10, 5, 10, 10, 5, 10, 10
_HOUR_US = 3_600_000_000
_WORD_SIZE_MIN = 3
# A path within the scope counts as much as so many words of the focus.
_WITHIN = 4


class BriefingReader:
    """The reader: what the command line states, or nothing. `agent_session` is an agent's own id of the
    session that begins, which the briefing leaves out."""

    __slots__ = ("agent", "agent_session", "focus", "overlaps", "scope")

    def __init__(
        self,
        agent: "str | None" = None,
        focus: "str | None" = None,
        scope: "Sequence[str]" = (),
        *,
        agent_session: "str | None" = None,
        overlaps: bool = True,
    ) -> None:
        self.agent = agent
        self.focus = focus
        self.scope = scope
        self.agent_session = agent_session
        self.overlaps = overlaps


class Briefing:
    """The text, its tokens, the active sessions that it lists, and what was left out of it."""

    __slots__ = (
        "active_sessions",
        "focus",
        "left_out",
        "position",
        "scope",
        "scoped_by",
        "shown",
        "text",
        "tokens",
    )

    def __init__(self, filled: Filled, facts: "Facts", about: "_About", active: "list[Facts]") -> None:
        self.text = filled.text
        self.tokens = tokens_of(filled.text)
        self.shown = filled.shown
        self.left_out = filled.left_out
        self.position = int(facts["position"])
        self.active_sessions = active
        self.focus = about.focus
        self.scope = about.scope
        self.scoped_by = about.session


class _About:
    """What the briefing is about; `session` states it, None where the reader does."""

    __slots__ = ("focus", "scope", "session", "words")

    def __init__(self, focus: "str | None", scope: "Sequence[str]", session: "str | None") -> None:
        self.focus = focus
        self.scope = list(scope)
        self.session = session
        self.words = words_of(focus or "")


def briefing(
    facts: "Facts", reader: BriefingReader, looker: FreshnessChecker, now_us: int, tokens: int = TOKENS
) -> Briefing:
    """The briefing of these facts."""
    about, others, sections = parts(facts, reader, looker, now_us)
    return Briefing(fill(_head(facts, about), sections, tokens), facts, about, others)


def parts(
    facts: "Facts", reader: BriefingReader, looker: FreshnessChecker, now_us: int
) -> "tuple[_About, list[Facts], tuple[Section, ...]]":
    """What a briefing is about, the other active sessions, and its sections from the top to the bottom."""
    active = active_sessions(facts["sessions"], now_us)
    about = _about(reader, active)
    others = [
        session
        for session in active
        if reader.agent_session is None or session["agent_session_id"] != reader.agent_session
    ]
    maker = _Lines(looker, now_us, {file["path"]: file for file in facts["files"]})
    last = last_turn.last_of(facts["turns"])
    others_facts = {**facts, "turns": [turn for turn in facts["turns"] if turn is not last]}
    relevant, shown = _relevant(others_facts, about, maker)

    def newest(kind: str, title: str, line: "Callable[[Facts], str]", most: int, total: int) -> Section:
        """The newest facts of a kind that no section above shows."""
        new = [fact for fact in others_facts[kind] if fact["event"] not in shown]
        left = max(0, total - (len(others_facts[kind]) - len(new)))
        return Section(kind, title, [line(fact) for fact in new[:most]], left)

    decisions, errors, files = facts["decisions_total"], facts["errors_total"], len(facts["files"])
    sections = (
        last_turn.section(facts, last, lambda at: ago(at, now_us)),
        _warnings(facts, reader, {session["id"] for session in active}, maker),
        _sessions(others, now_us),
        relevant,
        newest("decisions", f"## Open decisions ({decisions:,})", maker.decision, _DECISIONS, decisions),
        newest("turns", "## Recent turns", maker.turn, _TURNS, 0),
        _codes(facts),
        newest("errors", f"## Unresolved errors ({errors:,})", maker.error, _ERRORS, errors),
        newest("files", "## Files changed last", maker.file, _FILES, files),
        _knowledge(facts),
    )
    return about, others, sections


def fields(made: Briefing, budget: int) -> "Facts":
    """A briefing as JSON has it."""
    return {
        "text": made.text,
        "tokens": made.tokens,
        "budget": budget,
        "measure": "words × 1.3",
        "position": made.position,
        "focus": made.focus,
        "scope": made.scope,
        "scoped_by": None if made.scoped_by is None else f"sess-{made.scoped_by}",
        "active_sessions": [f"sess-{session['id']}" for session in made.active_sessions],
        "shown": made.shown,
        "left_out": made.left_out,
    }


def active_sessions(sessions: "Iterable[Facts]", now_us: int) -> "list[Facts]":
    """The sessions that are not over at this time (S3-30), the latest first."""
    return [
        session
        for session in sessions
        if session["opened_us"] is None or now_us - session["opened_us"] <= STALE_HOURS * _HOUR_US
    ]


def session_line(session: "Facts", now_us: int) -> str:
    """A session as S3-28 has it."""
    scope = f" ({harmless(', '.join(session['scope']))})" if session["scope"] else ""
    started = f" — started {ago(session['opened_us'], now_us)}" if session["opened_us"] is not None else ""
    return (
        f"[sess-{session['id']}] {harmless(session['agent'], 40)}: {quoted(session['focus'])}{scope}{started}"
    )


def ago(at_us: int, now_us: int) -> str:
    """`30m ago`, `2h ago`, `3d ago`."""
    minutes = max(0, now_us - at_us) // 60_000_000
    if minutes < 60:
        return f"{minutes}m ago"
    return f"{minutes // 60}h ago" if minutes < 48 * 60 else f"{minutes // 1440}d ago"


def words_of(text: str) -> "frozenset[str]":
    """The words that say something, in lower case."""
    spaced = "".join(c if c.isalnum() else " " for c in text[:10_000].lower())
    return frozenset(w for w in spaced.split() if len(w) >= _WORD_SIZE_MIN and w not in QUESTION_STOP_WORDS)


def is_within(path: str, scope: "Iterable[str]") -> bool:
    """Whether a path is one of a scope, or below one."""
    for top in scope:
        directory = top.rstrip("/")
        if directory in ("", ".") or path.rstrip("/") == directory or path.startswith(f"{directory}/"):
            return True
    return False


def _about(reader: BriefingReader, active: "list[Facts]") -> _About:
    """What the reader states, else what the active session of its agent is about (S3-24, S3-25)."""
    if reader.focus is not None or reader.scope:
        return _About(reader.focus, reader.scope, None)
    sessions = [session for session in active if session["agent"] == reader.agent and session["declared"]]
    own = [s for s in sessions if reader.agent_session in (None, s["agent_session_id"])] or sessions
    if not own:
        return _About(None, (), None)
    session = max(own, key=lambda session: int(session["opened_position"]))
    return _About(session["focus"], session["scope"] or (), session["id"])


def _head(facts: "Facts", about: _About) -> "list[str]":
    name = harmless(facts["project"]["name"], 60)
    head = [
        f"# Briefing: {name} (repository {facts['project']['repo']}), events up to {facts['position']:,}",
        NOTE,
    ]
    scope = f" [{harmless(', '.join(about.scope))}]" if about.scope else ""
    if about.session is not None:
        head.append(f"Briefing scoped to session: {harmless(about.focus)}{scope}")
    elif about.focus or about.scope:
        head.append(f"Briefing scoped to: {harmless(about.focus)}{scope}")
    return head


def _knowledge(facts: "Facts") -> Section:
    project = facts["project"]
    lines = []
    if project["sessions"]:
        counts = [_count(project[name], name[:-1]) for name in ("sessions", "turns")]
        lines.append(f"- recorded: {' and '.join(counts)}")
    lines += [f"- {cited(fact['event'])} {quoted(fact['text'])}" for fact in facts["knowledge"][:_KNOWLEDGE]]
    more = max(0, len(facts["knowledge"]) - _KNOWLEDGE)
    return Section("knowledge", "## Project", lines, len(lines) + more)


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _warnings(facts: "Facts", reader: BriefingReader, active: "set[str]", maker: "_Lines") -> Section:
    """Warnings that agents left, and where sessions meet."""
    overlaps = facts["overlaps"] if reader.overlaps else []
    overlaps = [overlap for overlap in overlaps if active.issuperset(overlap["between"])]
    lines = [maker.overlap(overlap) for overlap in overlaps[:_WARNINGS]]
    lines += [maker.warning(warning) for warning in facts["warnings"][: _WARNINGS - len(lines)]]
    more = int(facts["overlaps_total"]) - len(facts["overlaps"]) if reader.overlaps else 0
    total = len(overlaps) + more + int(facts["warnings_total"])
    return Section("warnings", f"## Critical warnings ({total})", lines, total)


def _sessions(active: "list[Facts]", now_us: int) -> Section:
    lines = [session_line(session, now_us) for session in active[:_SESSIONS]]
    return Section("sessions", f"## Active Sessions ({len(active)})", lines, len(active))


def _codes(facts: "Facts") -> Section:
    """The codes of the last session, all of them, as lines of their own without a title (S4-1, S4-35)."""
    lines = codes.lines_left(facts["codes"], facts["project"]["name"])
    return Section("codes", "", [harmless(line) for line in lines], is_whole=True)


def _relevant(facts: "Facts", about: _About, maker: "_Lines") -> "tuple[Section, set[str]]":
    """What bears on the scope and the focus: the more words and paths the better, then the newer."""
    matches: "list[tuple[int, int, Callable[[Facts], str], Facts]]" = []
    if about.words or about.scope:
        for line, listed in (
            (maker.turn, facts["turns"]),
            (maker.decision, facts["decisions"]),
            (maker.file, facts["files"]),
            (maker.file, facts["more_files"]),
            (maker.other, facts["others"]),
        ):
            for fact in listed:
                score = _score(fact, about)
                if score:
                    matches.append((-score, -int(fact["position"]), line, fact))
        matches.sort(key=lambda each: each[:2])
    chosen = matches[:_RELEVANT]
    lines = [line(fact) for _, _, line, fact in chosen]
    section = Section("relevant", "## Relevant to the focus", lines, len(matches))
    return section, {fact["event"] for _, _, _, fact in chosen}


def _score(fact: "Facts", about: _About) -> int:
    paths = [fact["path"]] if fact.get("path") else fact.get("paths") or ()
    score = _WITHIN if about.scope and any(is_within(path, about.scope) for path in paths) else 0
    if about.words:
        text = " ".join(str(fact[name]) for name in ("text", "why", "outcome", "path") if fact.get(name))
        score += len(about.words & words_of(text))
    return score


class _Lines:
    """Makes the line of an item."""

    def __init__(self, looker: FreshnessChecker, now_us: int, files: "dict[str, Facts]") -> None:
        self._looker = looker
        self._now_us = now_us
        self._files = files

    def turn(self, fact: "Facts") -> str:
        outcome = f" → {quoted(fact['outcome'])}" if fact["outcome"] else ""
        return f"- {cited(fact['turn'] or fact['event'])} {quoted(fact['text'], 120)}{outcome}"

    def decision(self, fact: "Facts") -> str:
        why = f" because {quoted(fact['why'], 120)}" if fact["why"] else ""
        return f"- {cited(fact['event'])} {quoted(fact['text'])}{why}{self._on(fact['path'])}"

    def overlap(self, fact: "Facts") -> str:
        file = self._files.get(fact["path"])
        mark = "" if file is None else f" ({self._mark(file)})"
        return f"- {cited(*fact['events'])} overlap: {harmless(fact['words'])}{mark}"

    def warning(self, fact: "Facts") -> str:
        who = f"{harmless(fact['agent'], 40)}: " if fact["agent"] else ""
        return f"- {cited(fact['event'])} warning: {who}{quoted(fact['text'])}{self._on(fact['path'])}"

    def error(self, fact: "Facts") -> str:
        kind = harmless(fact["type"] or "error", 40)
        tool = f" in {harmless(fact['tool'], 40)}" if fact["tool"] else ""
        return f"- {cited(fact['event'])} {kind}{tool}: {quoted(fact['text'])}{self._on(fact['path'])}"

    def file(self, fact: "Facts") -> str:
        mark = self._mark(fact)
        when = f", {ago(fact['at'], self._now_us)}" if fact["at"] is not None else ""
        return f"- {cited(fact['event'])} {quoted(fact['path'])}: {fact['operation']}{when} ({mark})"

    def other(self, fact: "Facts") -> str:
        kind = harmless(fact["type"], 40)
        return f"- {cited(fact['event'])} {kind}: {quoted(fact['text'])}{self._on(fact['path'])}"

    def _mark(self, file: "Facts") -> str:
        return self._looker.mark(file["path"], file["hash"], deleted=file["operation"] == "delete")

    def _on(self, path: "str | None") -> str:
        """Of the file that an item is about, what became of it since the log knew it last."""
        if not path:
            return ""
        file = self._files.get(path)
        mark = self._looker.mark(path, None) if file is None else self._mark(file)
        return f" (on {quoted(path, 120)}: {mark})"
