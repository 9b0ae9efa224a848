"""Context ids, slugs, session ids, event ids: how things are called.

Ids are `{type}:{name}`, two layers, no more (S0-22, S1-4). Names are parsed from the right, because
a slug may hold anything of `[a-z0-9-]` and ids never hold `_`. Pure functions; on the hook path.
"""

from blake3 import blake3

_SESSION_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
SESSION_ID_SIZE = 8
SLUG_SIZE_MAX = 30
SLUG_SIZE_MIN = 4

# Words that carry no meaning in a request. Dropping them turns "Fix the JWT refresh bug in auth
# middleware" into the seed's `fix-jwt-refresh…` (requirement ruling c5).
_STOP_WORDS_TEXT = (
    "a an and are as at be by can could do for from i in into is it its me my of on or our please "
    "so that the then this to up us we with would you your"
)
STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())


def safe_context_name(text: str) -> str:
    """ASCII letters, digits, `_` and `-` are kept, the rest becomes `_`; lower case."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in text).lower()


def sanitize_context_id(text: str) -> str:
    """A context id as it goes over the wire: two layers, lower case, nothing but `[a-z0-9_-]` in each.

    The first colon parts type and name; where one of them is empty there is no type, and all that is
    not allowed is dropped rather than replaced, the colon too (docs/locusgraph.md).
    """
    kind, colon, name = text.strip().partition(":")
    if colon and kind and name:
        return f"{safe_context_name(kind)}:{safe_context_name(name)}"
    return "".join(c for c in text.lower() if c.isascii() and (c.isalnum() or c in "_-"))


def slugify(text: str, session_id: str) -> str:
    """The slug of a session from its first message.

    Kebab-case, at most 30 characters, whole words where they fit, never ending in `-`. A message
    too vague for one (under 4 characters) gives `session-{session_id}`.
    """
    spaced = "".join(c if c.isascii() and c.isalnum() else " " for c in text.lower())
    words = spaced.split()
    words = [w for w in words if w not in STOP_WORDS] or words
    slug = ""
    for word in words:
        longer = f"{slug}-{word}" if slug else word
        if len(longer) > SLUG_SIZE_MAX:
            break
        slug = longer
    if not slug and words:
        slug = words[0][:SLUG_SIZE_MAX]
    return slug if len(slug) >= SLUG_SIZE_MIN else f"session-{session_id}"


def session_id_of(agent: str, agent_session_id: str) -> str:
    """Eight characters of `[0-9a-z]`, the same for the same agent and agent's session."""
    return _base36(blake3(b"locus session\0" + _key(agent, agent_session_id)).digest(8))


def next_session_id(agent: str, session_id: str) -> str:
    """The id of the session that continues one after the turn limit: the same for everybody."""
    return session_id_of(agent, f"after:{session_id}")


def random_session_id(random: bytes) -> str:
    """A session id for a caller without a key; `random` is 8 random bytes."""
    return _base36(random)


def event_id_of(agent: str, *key: str) -> str:
    """The id of an event that the agent itself can name; 32 hex digits (docs/event-ids.md).

    Where the key is global (a line's uuid, a tool call id) it must leave the session out, so that
    a fork's copy of the line is the same event.
    """
    return blake3(b"locus event\0" + _key(agent, *key)).digest(16).hex()


def turn_id_of(turn: int) -> str:
    """Three digits with leading zeros, growing past 999."""
    return f"{turn:03d}"


def sessions_context(repo_hash: str) -> str:
    return f"{safe_context_name(repo_hash)}:sessions"


def project_context(project_name: str, repo_hash: str) -> str:
    """The project anchor that the sessions master extends."""
    return f"knowledge:{safe_context_name(project_name)}_{safe_context_name(repo_hash)}"


def session_context(slug: str, session_id: str) -> str:
    return f"session:{safe_context_name(slug)}_{session_id}"


def turn_context(session_id: str, turn: int) -> str:
    return f"turn:{session_id}_{turn:03d}"


def event_context(event_type: str, session_id: str, turn: int, seq: int) -> str:
    return f"{safe_context_name(event_type)}:{session_id}_{turn:03d}_{seq:03d}"


def context_of_event(event_type: str, event_id: str) -> str:
    """The context of an event that belongs to no session."""
    return f"{safe_context_name(event_type)}:{event_id}"


def _key(*parts: str) -> bytes:
    """Parts joined so that no two different lists of parts give the same bytes."""
    text = "".join([f"{len(part)}:{part}" for part in parts])
    if text.isascii():
        return text.encode()
    encoded = [part.encode("utf-8", "surrogateescape") for part in parts]
    return b"".join(b"%d:%b" % (len(part), part) for part in encoded)


def _base36(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    digits = []
    for _ in range(SESSION_ID_SIZE):
        number, digit = divmod(number, 36)
        digits.append(_SESSION_ALPHABET[digit])
    return "".join(digits)


def short(text: "str | bytes") -> str:
    """16 hex digits that stand for a text, in the notes of hooks and in names of files."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return blake3(data).hexdigest()[:16]
