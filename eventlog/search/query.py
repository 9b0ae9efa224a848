"""A search query: words, `wor*`, "phrases", -not; as words of the index, and as marks in a text.

Pure. The input is cut into words as texts are, so no part of it is ever an operator of the index. A query
without a meaning is refused in one sentence.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property

from eventlog.base.errors import QueryError
from eventlog.search import tokenizer
from eventlog.search.passages import PHRASE_WORDS
from eventlog.search.tokenizer import Tokenizer

SIZE_MAX = 2_000
TERMS_MAX = 32


@dataclass(frozen=True, slots=True)
class Phrase:
    """Consecutive words of the index. `is_prefix`: the last may go on."""

    tokens: "tuple[str, ...]"
    is_prefix: bool


@dataclass(frozen=True)
class Term:
    """One word or phrase. `is_prefix`: its last word may go on."""

    text: str
    is_prefix: bool = False
    is_unwanted: bool = False

    @cached_property
    def phrases(self) -> "tuple[Phrase, ...]":
        """The phrases to ask the index for: the term as a whole, or its consecutive pieces."""
        whole, pieces = tokenizer.words_in(self.text), tokenizer.pieces_in(self.text)
        spelled = [pieces] if tokenizer.is_unspaced(self.text) else [whole, pieces]
        with closing(Tokenizer()) as cutter:
            tokens = dict.fromkeys(cutter.tokens(" ".join(spelling)) for spelling in spelled)
        return tuple(Phrase(sequence, self.is_prefix) for sequence in tokens)

    @property
    def is_long(self) -> bool:
        """Whether the index holds only its beginning."""
        return any(len(phrase.tokens) > PHRASE_WORDS for phrase in self.phrases)

    def spans(self, text: str, low: str) -> "Iterator[tuple[int, int]]":
        """Where it is in a text. Args: low: the text after `tokenizer.folded`."""
        for match in self._pattern.finditer(low):
            start, end = match.span()
            if not tokenizer.is_word_start(text, start):
                continue
            if self.is_prefix:
                while end < len(text) and text[end].isalnum():
                    end += 1
            elif not tokenizer.is_word_end(text, end):
                continue
            yield start, end

    @cached_property
    def _pattern(self) -> "re.Pattern[str]":
        spelled = [tokenizer.words_in(self.text), tokenizer.pieces_in(self.text)]
        either = dict.fromkeys(
            r"[\W_]*".join(re.escape(tokenizer.folded(word)) for word in spelling)
            for spelling in spelled
            if spelling
        )
        return re.compile("|".join(either))


@dataclass(frozen=True)
class Query:
    """A parsed query. With `any_word` a text needs to hold only one of the terms."""

    terms: "tuple[Term, ...]"
    any_word: bool = False

    def marks(self, text: str) -> "list[tuple[int, int, int]]":
        """Where the wanted terms are in a text: (start, end, number of the term), in order."""
        low = tokenizer.folded(text)
        wanted = (term for term in self.terms if not term.is_unwanted)
        return sorted(
            (start, end, number) for number, term in enumerate(wanted) for start, end in term.spans(text, low)
        )

    @cached_property
    def is_long(self) -> bool:
        """Whether the index holds only the beginning of a phrase."""
        return any(term.is_long for term in self.terms)

    def holds_long(self, text: str) -> bool:
        """Whether a text that the index proposes holds the long phrases in full."""
        low = tokenizer.folded(text)
        if self.any_word and any(not term.is_long and any(term.spans(text, low)) for term in self.terms):
            return True
        long = [term for term in self.terms if term.is_long]
        return all(any(True for _ in term.spans(text, low)) != term.is_unwanted for term in long)


def parse(text: str, *, any_word: bool = False) -> Query:
    """Parse a query. Raises: QueryError."""
    if len(text) > SIZE_MAX:
        raise QueryError(f"that is more than {SIZE_MAX:,} characters; look for the few words that matter")
    terms = tuple(dict.fromkeys(_terms(text)))
    if not any(not term.is_unwanted for term in terms):
        more = " besides what to leave out" if terms else ": no letter or digit is in it"
        raise QueryError(f"{text.strip()!r} says nothing to look for{more}. Give at least one word.")
    if len(terms) > TERMS_MAX:
        raise QueryError(f"that is more than {TERMS_MAX} words; look for the few that matter")
    return Query(terms, any_word)


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
        if tokenizer.words_in(phrase):
            yield Term(phrase, bool(star), bool(sign))
