"""The first scan for secrets, of the bytes that are written anyway, misses nothing that the rules find."""

import json
from typing import Any

import pytest

from eventlog.base import jsontext
from eventlog.base.types import Event
from eventlog.log.line import encode_line
from eventlog.secrets import redaction
from eventlog.secrets.bulk_prefilter import json_suspects
from eventlog.secrets.redaction import Redactor
from tests.secrets_made import assigned, made

MADE = made()
ASSIGNED = assigned()
WORD = ASSIGNED["assignment"][1]
TOKEN = ASSIGNED["header"][1]
PRIVATE = "".join(("<pri", "vate>a quiet word</pri", "vate>"))
PLAIN = "nothing to see in this text about a token, a key and a pass"

# Text around a secret: what JSON writes as an escape is right beside it, and pairs of surrogates.
BESIDE = ("\n{}\n", "\t{}\t", '"{}"', "\\{}\\", "\r\n{}\r\n", "\x01 {} \x1f", "\x1b[1m{}\x1b[0m",
          "\U0001f511{}\U0001f511",
          "\ud83d {} \udd11", "'{}'", "\x7f{}\x7f", "\\n{}\\n",
          "\\u0022{}\\u0022", "%22 {}%22", "é{}é", "{}")  # fmt: skip

SECRETS = {
    **{name: (value, value) for name, value in MADE.items()},
    **ASSIGNED,
    "private": (PRIVATE, "quiet word"),
    "private in capitals": (PRIVATE.upper(), "QUIET WORD"),
    "private without an end": (PRIVATE[:-10] + "\n\"", "quiet word"),
    "tab before the value": (f"api_{'key'}\t=\t{TOKEN}", TOKEN),
    "tabs after bearer": (f"Bearer\t\t{TOKEN}", TOKEN),
    "key with a number": (f"api-{'key'}2 : {TOKEN}", TOKEN),
    "flag after a line": (f"run\n--api-{'token'}\t{TOKEN}", TOKEN),
    "flag with dots": (f"run --db.{'password'} {WORD}", WORD),
    "command after a control character": (f"\x01mongosh -p{WORD} shop", WORD),
    "flag in quotes": (f"run '-{'password'}' {WORD}", WORD),
    "url with a tab before": (f"\thttps://me:{TOKEN}@h.example/", TOKEN),
}  # fmt: skip


def place(text: str, where: str) -> Event:
    payload: dict[str, Any] = {"n": 1, "plain": PLAIN}
    event: Event = {"event_id": "0" * 32, "event_type": "action", "event_kind": "action", "source": "agent"}
    if where in redaction.TEXT_COLUMNS or where == "path":
        event[where] = text
    elif where == "value":
        payload["text"] = text
    elif where == "name":
        payload[text] = 1
    elif where == "deep":
        payload["a"] = [[1, {"b": ({"c": [None, text]},)}]]
    elif where == "deep name":
        payload["a"] = [{"b": {text: PLAIN}}]
    return {**event, "payload": payload}


PLACES = (*redaction.TEXT_COLUMNS, "path", "value", "name", "deep", "deep name")


def encode(event: Event) -> bytes:
    return encode_line(event, jsontext.encode_fast, jsontext.encode_without_floats)


def looking_at_many() -> Redactor:
    """One that scans as an import does, which it would not for so little."""
    redactor = Redactor(b"k" * 32)
    redactor.bulk_prefilter = json_suspects
    return redactor


@pytest.mark.parametrize("name", SECRETS)
def test_no_line_holds_a_secret_wherever_it_is(name: str) -> None:
    """P5: whatever JSON makes of what is beside a secret, at no place of an event does it reach a line."""
    redactor = Redactor(b"k" * 32)
    text, secret = SECRETS[name]
    many: list[Event] = []
    for beside in BESIDE:
        whole = beside.format(text)
        if redactor.text(whole) == whole:
            continue  # such as digits before a token that begins with digits: nobody can tell
        events = [place(whole, where) for where in PLACES]
        for event, where, line in zip(events, PLACES, redactor.lines(events, encode), strict=True):
            assert json.dumps(secret)[1:-1].encode() not in line, (beside, where)
            assert b'"redacted":true' in line, (beside, where)
            assert redactor.lines([event], encode) == [line]
            assert encode(redactor.redact(event)) == line
        many += events
    assert redactor.text(f" {text} ") != f" {text} "
    bulk = looking_at_many()
    assert bulk.lines(many, encode) == redactor.lines(many, encode)
    assert bulk.redact_all(many) == redactor.redact_all(many)


@pytest.mark.parametrize(
    "name", ["password", "API_KEY", "my password", "x-auth-token", "api_key_", "api-key-_2", "Client Secret9"]
)
def test_values_are_found_by_their_names_and_flags(name: str) -> None:
    """P5: the key of a value, or the flag before it in a list, says that it is a secret."""
    redactor = Redactor(b"k" * 32)
    flag = "--" + name.replace(" ", "-")
    for payload in ({name: TOKEN}, {"a": [{"b": {name: TOKEN}}]}, {"argv": ["run", flag, TOKEN]},
                    {"argv": [[flag, TOKEN, "b"]]}, {"argv": [f"--db.{flag[2:]}", TOKEN]}):  # fmt: skip
        event = {**place("", ""), "payload": payload}
        (line,) = redactor.lines([event], encode)

        assert TOKEN.encode() not in line
        assert b'"redacted":true' in line
        assert looking_at_many().lines([event], encode) == [line]


def test_lines_of_many_are_those_of_each() -> None:
    """P5, P2: of many events those with a secret are changed, and the bytes of all others stay."""
    redactor = Redactor(b"k" * 32)
    events = [place(MADE["npm"] if i % 7 == 3 else PLAIN, PLACES[i % len(PLACES)]) for i in range(64)]
    lines = redactor.lines(events, encode)

    assert lines == [encode(redactor.redact(event)) for event in events]
    assert [i for i in range(64) if lines[i] != encode(events[i])] == [i for i in range(64) if i % 7 == 3]
    assert looking_at_many().lines(events, encode) == lines
    assert Redactor(enabled=False).lines(events, encode) == [encode(event) for event in events]


@pytest.mark.parametrize(
    "denied", ['say "please"', "tab\there", "C:\\acme\\keys", "naïve plan", "/acme-[0-9]+/"]
)
def test_denied_texts_are_found_in_json(denied: str) -> None:
    """P5: a denied text that JSON spells with escapes, and an expression, is found in what is written."""
    redactor = Redactor(b"k" * 32, deny=[denied])
    text = f"so {'acme-17' if denied.startswith('/') else denied}."
    for where in ("title", "value", "name", "deep"):
        (line,) = redactor.lines([place(text, where)], encode)

        assert b"REDACTED:denied:" in line
        redactor.bulk_prefilter = json_suspects  # which knows nothing of it
        assert redactor.lines([place(text, where)], encode) == [line]
    assert redactor.lines([place("so", "value")], encode) == [encode(place("so", "value"))]


def test_a_scan_that_fails_is_made_in_another_way() -> None:
    """P5: where the scan of many gives up, each event is scanned as if there were none."""

    def fails(_: object) -> list[bool]:
        raise MemoryError

    for look in (fails, lambda _: None):
        redactor = Redactor(b"k" * 32)
        redactor.bulk_prefilter = look
        events = [place(MADE["npm"] if i == 70 else PLAIN, "value") for i in range(80)]

        lines = redactor.lines(events, encode)
        assert [i for i, line in enumerate(lines) if b"REDACTED" in line] == [70]
        assert redactor.redact_all(events)[70] is not events[70]


def test_what_cannot_be_encoded_is_checked_first() -> None:
    """P5: an event that JSON cannot hold is refused, and the refusal does not say the secret in it."""
    redactor = Redactor(b"k" * 32)
    deep: Any = MADE["npm"]
    for _ in range(100_000):
        deep = [deep]
    (line,) = redactor.lines([{**place("", ""), "payload": {"a": deep}}], encode)

    assert MADE["npm"].encode() not in line and b"withheld" in line


def test_deep_nesting_alone_is_no_reason() -> None:
    """P5, P2: what is nested too deeply to follow stays where only the first scan saw a secret."""
    redactor = Redactor(b"k" * 32)
    for text, holds in (("token: is a word", False), (MADE["npm"], True)):
        deep: Any = {"a": text, "b": [("c", 1)]}
        for _ in range(700):
            deep = [deep]
        event = {**place("", ""), "payload": {"a": deep}}

        assert (redactor.redact(event) is not event) is holds
