"""Where secrets are looked for: each of these says of many samples at once whether theirs is taken out.

`hooks` and `bulk` are texts of events, as a hook redacts one and an import redacts many; `hook_contents` and
`bulk_contents` are contents of files, which are withheld as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.secrets.generator import Sample
from benchmarks.secrets.gitleaks import Rules
from eventlog.base.types import Event
from eventlog.secrets import bulk_prefilter
from eventlog.secrets.redaction import Redactor

_ENOUGH = 2 << 20  # bytes at which an import lends its scan to the redactor
_PIECE_MAX = 16  # characters of a secret that may stay where they are: a beginning that says whose it is

Door = Callable[[Sequence[Sample]], "list[bool | None]"]


def redactor() -> Redactor:
    """One with the rules alone."""
    return Redactor(b"\x07" * 32)


def hooks(samples: Sequence[Sample]) -> list[bool | None]:
    """None where the sample is a file in another encoding, which is no text of an event."""
    mine = redactor()
    return [_in_text(s, mine.redact(_event(s.text))) for s in samples]


def bulk(samples: Sequence[Sample]) -> list[bool | None]:
    mine = redactor()
    with bulk_prefilter.attached_to(mine):
        filler = _event("nothing to see here\n" * (_ENOUGH // 20 + 1))
        done = mine.redact_all([filler, *(_event(s.text) for s in samples)])
    return [_in_text(s, event) for s, event in zip(samples, done[1:], strict=True)]


def hook_contents(samples: Sequence[Sample]) -> list[bool | None]:
    mine = redactor()
    return [bool(mine.kinds_in(s.content)) for s in samples]


def bulk_contents(samples: Sequence[Sample]) -> list[bool | None]:
    mine = redactor()
    suspects = bulk_prefilter.suspects([s.content for s in samples])
    return [suspect and bool(mine.kinds_in(s.content)) for s, suspect in zip(samples, suspects, strict=True)]


def gitleaks(rules: Rules) -> Door:
    """Whether a match of gitleaks' rules overlaps the secret, or what is encoded in it."""

    def door(samples: Sequence[Sample]) -> list[bool | None]:
        found = rules.find([(s.path, s.content.decode(errors="replace")) for s in samples])
        return [
            any(_longest_piece(wanted, f.match) >= min(8, len(wanted)) for f in some for wanted in _wanted(s))
            for s, some in zip(samples, found, strict=True)
        ]

    return door


def is_taken_out(secret: str, rest: str) -> bool:
    """Whether no piece of the secret worth the name is in the rest."""
    return _longest_piece(secret, rest) <= min(max(4, len(secret) // 4), _PIECE_MAX)


def _in_text(sample: Sample, event: Event) -> bool | None:
    if sample.encoding != "utf-8":
        return None
    payload: Any = event["payload"]
    return is_taken_out(sample.secret, payload["result"])


def _event(text: str) -> Event:
    return {"event_type": "action", "tool": "Bash", "payload": {"result": text}}


def _wanted(sample: Sample) -> tuple[str, ...]:
    return (sample.secret, *sample.plain)


def _longest_piece(secret: str, text: str) -> int:
    """The length of the longest piece of the secret in the text."""
    best = 0
    for at in range(len(secret)):
        while at + best < len(secret) and secret[at : at + best + 1] in text:
            best += 1
    return best
