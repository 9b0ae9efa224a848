"""What may leave the store: the one place that every export asks (P5).

Secrets are taken out of events before they are written, so the text of an event in the log may leave.
What may not leave is a content that the store keeps for replay on this machine only. Such a content is
called withheld, and everything made from it (its bytes, a diff) is withheld with it. Nothing marks a
content as withheld yet; what does will be asked here. Pure; any thread.
"""

WITHHELD = "withheld: it is kept for replay on this machine only"

_withheld: frozenset[str] = frozenset()


def may_leave(content_hash: str) -> bool:
    """Whether the content of that hash, and what is made of it, may be exported."""
    return content_hash not in _withheld
