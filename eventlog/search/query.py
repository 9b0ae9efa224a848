"""What a person looks for: words, `wor*`, "phrases", -not; as an expression of FTS5, and as marks in a text.

Pure. Every text of the expression stands in quotes with its quotes doubled, so nothing that is typed is ever
an operator. A query that cannot mean anything is refused in one sentence.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from eventlog.errors import QueryError
from eventlog.paths import beginnings_below
from eventlog.search import words

SIZE_MAX = 2_000
TERMS_MAX = 32

# Begins the words of the column `facets`, which hold type and session. FTS5 takes it for a letter, and nobody
# can look for it. So no other column need be named, which would make a search half as slow again.
FACET = "\ue001"


@dataclass(frozen=True, slots=True)
class Term:
    """One word or phrase. `is_prefix`: its last word may go on."""

    text: str
    is_prefix: bool = False
    is_unwanted: bool = False


@dataclass(frozen=True)
class Query:
    """A parsed query. With `any_word` a text needs to hold only one of the terms."""

    terms: "tuple[Term, ...]"
    any_word: bool = False

    def expression(self, facets: "Sequence[str]" = ()) -> str:
        """What FTS5 is asked. Args: facets: expressions of `facet` that must hold too."""
        wanted = [_expression(term) for term in self.terms if not term.is_unwanted]
        unwanted = [_expression(term) for term in self.terms if term.is_unwanted]
        found = (" OR " if self.any_word else " AND ").join(wanted)
        for expression in facets:
            found = f"({found}) AND {expression}"
        if unwanted:
            found = f"({found}) NOT ({' OR '.join(unwanted)})"
        return found

    def marks(self, text: str) -> "list[tuple[int, int, int]]":
        """Where the wanted terms stand in a text: (start, end, number of the term), in order."""
        low = words.folded(text)
        found = []
        for number, (pattern, is_prefix) in enumerate(self._patterns):
            for match in pattern.finditer(low):
                start, end = match.span()
                if not words.is_word_start(text, start):
                    continue
                if is_prefix:
                    while end < len(text) and text[end].isalnum():
                        end += 1
                elif not words.is_word_end(text, end):
                    continue
                found.append((start, end, number))
        return sorted(found)

    @cached_property
    def _patterns(self) -> "list[tuple[re.Pattern[str], bool]]":
        made = []
        for term in self.terms:
            if not term.is_unwanted:
                spelled = [words.words_in(term.text), words.pieces_in(term.text)]
                either = dict.fromkeys(
                    r"[\W_]*".join(re.escape(words.folded(word)) for word in one) for one in spelled if one
                )
                made.append((re.compile("|".join(either)), term.is_prefix))
        return made


def parse(text: str, *, any_word: bool = False) -> Query:
    """The query that a text means. Raises: QueryError."""
    if len(text) > SIZE_MAX:
        raise QueryError(f"that is more than {SIZE_MAX:,} characters; look for the few words that matter")
    terms = tuple(dict.fromkeys(_terms(text)))
    if not any(not term.is_unwanted for term in terms):
        more = " besides what to leave out" if terms else ": no letter or digit is in it"
        raise QueryError(f"{text.strip()!r} says nothing to look for{more}. Give at least one word.")
    if len(terms) > TERMS_MAX:
        raise QueryError(f"that is more than {TERMS_MAX} words; look for the few that matter")
    return Query(terms, any_word)


def type_facet(event_types: "Sequence[str]") -> str:
    """The expression that lets through these types, and perhaps others spelled alike."""
    return f"({' OR '.join(_quoted(type_word(name)) for name in event_types)})"


def session_facet(session: str) -> str:
    """The expression that lets through sessions that begin so, and perhaps others spelled alike."""
    return f"{_quoted(session_word(session))} *"


def path_facet(path: str) -> "str | None":
    """The expression that lets through this path and what is below it, and perhaps others spelled alike."""
    spelled = dict.fromkeys(" ".join(words.words_in(text)) for text in (path, *beginnings_below(path)))
    facets = [f"path : ^ {_quoted(text)}" for text in spelled]
    return f"({' OR '.join(facets)})" if all(spelled) else None


def type_word(event_type: str) -> str:
    return f"{FACET}t" + "".join(c for c in event_type.lower() if c.isalnum())


def session_word(session: "str | None") -> str:
    return f"{FACET}s" + "".join(c for c in (session or "").lower() if c.isalnum())


_TOKEN = re.compile(r'(-?)"([^"]*)"(\*?)|(\S+)')


def _terms(text: str) -> "Iterator[Term]":
    text = text.replace("\0", " ")
    if text.count('"') % 2:
        raise QueryError(f'{text.strip()!r} has a quote (") that is not closed. Close it, or leave it out.')
    for sign, phrase, star, word in _TOKEN.findall(text):
        if word:
            sign, word = ("-", word[1:]) if word.startswith("-") else ("", word)
            star, word = ("*", word.rstrip("*")) if word.endswith("*") else ("", word)
            phrase = word
        if words.words_in(phrase):
            yield Term(phrase, bool(star), bool(sign))


def _expression(term: Term) -> str:
    """The term as it stands, or its pieces one behind the other."""
    star = " *" if term.is_prefix else ""
    whole = words.words_in(term.text)
    pieces = words.pieces_in(term.text)
    either = [] if words.is_unspaced(term.text) else [_quoted(" ".join(whole)) + star]
    if pieces != whole or not either:
        either.append(_quoted(" ".join(pieces)) + star)
    return f"({' OR '.join(either)})"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
