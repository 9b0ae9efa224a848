"""Secrets are taken out of events: which, where, how they are marked, and what is left alone."""

import base64
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base import jsontext
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.base.types import Event
from eventlog.secrets import admission, assignments, redaction, rules
from eventlog.secrets.redaction import NOT_LOOKED_THROUGH, Redactor
from eventlog.store import Store
from tests.secrets_made import assigned, made

ROOT = Path(__file__).resolve().parent.parent.parent
HUNT = float(os.environ.get("LOCUS_HUNT", "0"))
MADE = made()
ASSIGNED = assigned()
WORD = ASSIGNED["assignment"][1]
MARK = re.compile(r"\[REDACTED:([a-z0-9-]+):([0-9a-f]{8})\]")
SURROUNDINGS = (
    "{}", "run --token {} now", "x={}", '"{}"', "https://h.example/?t={}&x=1", "\\n{}\\n",
    '{{\\"a\\":\\"{}\\"}}', "%22{}%22", "\x1b[32m{}\x1b[0m", "({})", "first\n{}\nlast", "é{}é",
)  # fmt: skip


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(b"k" * 32)


def event(payload: dict[str, Any], **columns: Any) -> Event:
    return {"event_type": "action", "payload": payload, **columns}


@pytest.mark.parametrize("name", MADE)
def test_a_token_is_found_in_every_surrounding(redactor: Redactor, name: str) -> None:
    """P5: a token with a form of its own is taken out of commands, JSON in text, colours and URLs."""
    secret = MADE[name]
    for surrounding in SURROUNDINGS:
        if name == "telegram" and surrounding.startswith("%22"):
            continue  # digits after digits: no one can tell where the number begins
        text = surrounding.format(secret)
        out = redactor.text(text)

        assert secret[4:-1] not in out, surrounding
        assert MARK.search(out), surrounding
        assert redactor.text(out) == out


@pytest.mark.parametrize("name", ASSIGNED)
def test_a_secret_is_known_by_its_name(redactor: Redactor, name: str) -> None:
    """P5: what is assigned to a password, key or token is taken out, in the spellings of many languages."""
    text, secret = ASSIGNED[name]
    out = redactor.text(text)

    assert secret not in out
    assert MARK.search(out)
    assert redactor.text(out) == out
    assert out.startswith(text[:4])  # what is around it stays


def test_every_place_in_an_event_is_scanned(redactor: Redactor) -> None:
    """P5: title, arguments, output, nested lists and keys of JSON; the event says that it was redacted."""
    secret, word = MADE["github"], ASSIGNED["json"][1]
    given_ = event(
        {
            "args": {"command": f"curl -H 'x: {secret}'", "argv": ["mysql", "--password", WORD]},
            "result": {"lines": [["a", {"deep": f"is {secret}"}]]},
            "env": {"API_KEY": word, "HOME": "/home/me"},
            secret: 1,
            "count": 7,
        },
        title=f"use {secret}",
        path=f"x/{secret}",
    )
    before = json.dumps(given_)
    out = redactor.redact(given_)

    assert json.dumps(given_) == before  # the given one is not changed
    assert out["redacted"] is True
    text = json.dumps(out)
    assert secret not in text and word not in text and WORD not in text
    assert out["payload"]["count"] == 7 and out["payload"]["env"]["HOME"] == "/home/me"  # type: ignore[index]
    assert redactor.redact(out) == out


def test_what_names_things_stays(redactor: Redactor) -> None:
    """P1: ids, hashes, links and the paths of file events are not touched; replay rests on them."""
    secret = MADE["aws"]
    names = {"event_id": "0" * 32, "after_hash": "blake3:" + "a" * 64, "agent_session_id": secret}
    given_ = event({"old_path": secret, "text": "x"}, **names, path=secret) | {"event_type": "file"}

    assert redactor.redact(given_) is given_


def test_an_event_without_secrets_is_the_same_object(redactor: Redactor) -> None:
    """P2: what holds no secret is not touched at all, so its bytes stay."""
    given_ = event({"args": {"command": "ls -l"}, "token_count": 12, "n": [1, None, "b"]})

    assert redactor.redact(given_) is given_
    assert redactor.redact_all([given_, given_]) == [given_, given_]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a <private>b</private> c", "a  c"),
        ("a <PRIVATE>b</Private> c <private>d</private>", "a  c "),
        ("a <private>b and the rest", "a "),
        ("<private>a<private>b</private>c</private>d", "d"),
        ("<private></private>x", "x"),
    ],
)
def test_private_blocks_go_as_a_whole(redactor: Redactor, text: str, left: str) -> None:
    """P5: what a person marks as private is not recorded, to the end where the block is not closed."""
    out = redactor.text(text)

    assert MARK.sub("", out) == left
    assert {kind for kind, _ in MARK.findall(out)} == {"private"}
    assert redactor.text(out) == out


NEAR = [
    "commit 3f2a9c0d1e2f3a4b5c6d7e8f90a1b2c3d4e5f607",
    "blake3:" + "0123456789abcdef" * 4,
    "uuid 123e4567-e89b-12d3-a456-426614174000",
    "integrity sha512-" + base64.b64encode(bytes(range(64))).decode(),
    "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 40).decode(),
    "password: str",
    "password = getpass()",
    "token = tokens[i1]",
    "api_key=os.environ['API_KEY_2']",
    "password = self.password2",
    "password='${DB_PASSWORD1}'",
    'token = "<your-token-1>"',
    "max_tokens=4096, token_count: 81920",
    '"primary_key": "abc123def456ghi789jkl"',
    "https://user:password@host.example/",
    "AKIAIOSFODNN7EXAMPLE",
    "sk-" + "x" * 48,
    "ghp_short",
    "class='sk-fading-circle-and-more-words-of-it'",
    "-----BEGIN PUBLIC KEY-----\n" + "A1b2" * 16,
    "the -----BEGIN PRIVATE KEY----- line",
    "Bearer of bad news, and authorization: required",
    "secret = [REDACTED:secret:0123abcd]",
]


@pytest.mark.parametrize("text", NEAR, ids=range(len(NEAR)))
def test_near_misses_stay(redactor: Redactor, text: str) -> None:
    """P2: ids, hashes, images, placeholders and code that only speaks of secrets are recorded as they are."""
    assert redactor.text(text) == text
    assert redactor.kinds_in(text.encode()) == ()


def test_this_project_holds_nothing_that_looks_like_a_secret(redactor: Redactor) -> None:
    """P5: no file of this project is taken for one with a secret: rules that cry wolf get switched off."""
    found = {}
    for folder in ("eventlog", "cli", "tests", "docs", "benchmarks", "scripts", ".ci"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
                kinds = redactor.kinds_in(path.read_bytes())
                if kinds:
                    found[str(path.relative_to(ROOT))] = kinds

    assert found == {}


def test_fingerprints_tell_equal_secrets_of_one_store_only(redactor: Redactor) -> None:
    """P5: the same secret has the same fingerprint in one store, another one in another store."""
    secret, other = MADE["github"], made(8)["github"]
    twice = MARK.findall(redactor.text(f"{secret} {secret} {other}"))
    elsewhere = MARK.findall(Redactor(b"j" * 32).text(secret))

    assert twice[0] == twice[1] != twice[2]
    assert elsewhere[0] != twice[0]


def test_a_store_keeps_its_key_to_itself(tmp_path: Path) -> None:
    """P5: the key of fingerprints is a file of 0600, made at the first secret, and found again."""
    with Store.init(tmp_path / ".locus") as store:
        store.append([event({"text": "plain"})])
        assert not os.path.exists(store.layout.redaction_key)
        first = store.redactor.text(MADE["npm"])
        found = os.stat(store.layout.redaction_key)
    with Store.open(tmp_path / ".locus") as store:
        again = store.redactor.text(MADE["npm"])

    assert first == again
    assert (found.st_mode & 0o777, found.st_size) == (0o600, 32 + 16)
    assert Redactor(key_location=(REAL, Layout(str(tmp_path / "nowhere")))).text(MADE["npm"]) != MADE["npm"]


def test_allowed_values_and_kinds_stay_and_denied_go(redactor: Redactor) -> None:
    """P5: what a person allows is recorded; what is denied, as text or expression, never is."""
    secret = MADE["github"]
    lenient = Redactor(b"k" * 32, allow=[secret, "jwt", "password"])
    strict = Redactor(b"k" * 32, deny=["acme-intranet", "/acme-[0-9]{6}/"])

    assert lenient.text(secret) == secret
    assert lenient.text(MADE["jwt"]) == MADE["jwt"]
    assert lenient.redact(event({"password": WORD}))["payload"] == {"password": WORD}
    assert lenient.text(MADE["npm"]) != MADE["npm"]
    out = strict.text("at acme-intranet, case acme-123456, acme-12")
    assert MARK.sub("", out) == "at , case , acme-12"
    assert strict.text(out) == out
    assert strict.kinds_in(b"x acme-intranet") == ("denied",)
    assert Redactor(enabled=False).text(secret) == secret
    assert Redactor(enabled=False).kinds_in(secret.encode()) == ()


def test_what_cannot_be_scanned_goes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: a failure of a rule takes the whole text out and raises nothing; the other texts stay."""
    find = rules.find

    def fails(data: bytes) -> Any:
        if b"strange" in data:
            raise ZeroDivisionError
        return find(data)

    monkeypatch.setattr(rules, "find", fails)
    out = Redactor(b"k" * 32).redact(event({"a": "strange token: x", "b": "plain"}))

    assert MARK.fullmatch(out["payload"]["a"])  # type: ignore[index]
    assert out["payload"]["b"] == "plain"  # type: ignore[index]
    assert Redactor(b"k" * 32).kinds_in(b"strange token: x") == ("unreadable",)


def test_a_scan_that_a_signal_ends_is_reported_as_one_without_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """P4, P5: what a hook's deadline broke off is not reported to hold a secret, nor to be unreadable."""

    def late(_: bytes) -> Any:
        raise TimeoutError

    monkeypatch.setattr(rules, "find", late)
    assert Redactor(b"k" * 32).kinds_in(b"strange token: x") == (NOT_LOOKED_THROUGH,)


def test_contents_tell_their_kinds(redactor: Redactor) -> None:
    """P5: a content is scanned in UTF-8 and UTF-16, whatever else is in it."""
    secret = MADE["stripe"]

    assert redactor.kinds_in(b"\0\xff" + secret.encode() + b"\0") == ("stripe-key",)
    assert redactor.kinds_in(f"key {secret}".encode("utf-16")) == ("stripe-key",)
    assert redactor.kinds_in(MADE["private key"].encode() + secret.encode()) == ("private-key", "stripe-key")
    assert redactor.kinds_in(b"<private>x</private>") == ()
    assert set(rules.KINDS) >= {"stripe-key", "private-key", "password", "jwt"}


def test_a_cut_private_key_goes_to_where_it_ends(redactor: Redactor) -> None:
    """P5: a key whose end was cut off by the tool that printed it is taken out too."""
    cut = MADE["private key"][:300]

    assert MARK.sub("", redactor.text(f"a\n{cut}")) == "a\n"
    assert "\\n" not in redactor.text(json.dumps({"k": MADE["private key"]}))


def test_the_gate_redacts_by_default() -> None:
    """P5: a writer that knows no settings gets the rules all the same."""
    out = admission.admit(REAL, event({"text": MADE["slack"]}))

    assert out["redacted"] is True
    assert MADE["slack"] not in str(out)


_text = st.text(alphabet=st.sampled_from("ab1:=\"' \n\\<>/@.-_~[]{}%"), max_size=60)
_parts = st.lists(
    st.one_of(
        _text,
        st.text(max_size=20),
        st.sampled_from([*MADE.values(), *(t for t, _ in ASSIGNED.values())]),
        st.sampled_from(
            ["<private>", "</private>", "[REDACTED:", "[REDACTED:jwt:0123abcd]", "password=", "://"]
        ),
        st.sampled_from(["-----BEGIN PRIVATE KEY-----", "Bearer ", '"', "api_key: ", "eyJ", "sk-"]),
    ),
    max_size=8,
)


@settings(max_examples=50 if HUNT == 0 else int(HUNT * 3000), deadline=None)
@given(parts=_parts)
def test_redacting_again_changes_nothing(parts: list[str]) -> None:
    """P5, P2: redacted text is a fixed point, holds no token, and JSON stays JSON, whatever is given."""
    redactor = Redactor(b"k" * 32)
    text = "".join(parts)
    once = redactor.text(text)
    out = redactor.redact(event({"a": text, text: [text]}, title=text))

    assert redactor.text(once) == once
    assert redactor.redact(out) is out
    assert not rules.find(MARK.sub("", once).encode("utf-8", "surrogatepass")) or MARK.search(once)
    json.loads(json.dumps(out))


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    ["eyJ", "sk-", "ghp_", "api_key: ", "-----BEGIN PRIVATE KEY-----", "<private>", "<private></private>",
     "://a:b",
     "bearer ", 'password="', "[REDACTED:jwt:12345678]", "AKIA", "key-", "12345678:AA", "Q~",
     "\\", "SG.", "=", "a"],
)  # fmt: skip
def test_hostile_text_takes_linear_time(
    redactor: Redactor, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: the bytes that the rules scan grow with the text, not with its square."""
    looked = 0
    run = rules._run

    def counted(data: bytes, at: int, allowed: bytes, most: int) -> int:
        nonlocal looked
        looked += min(most, len(data) - at)
        return run(data, at, allowed, most)

    monkeypatch.setattr(rules, "_run", counted)
    monkeypatch.setattr(assignments, "run", counted)
    effort = []
    for size in (1 << 16, 1 << 18):
        looked = 0
        rules.find((unit * (size // len(unit))).encode())
        effort.append(looked)

    assert effort[1] <= 6 * effort[0] + 10_000
    rules.find((unit * ((1 << 20) // len(unit))).encode())  # a megabyte of it comes back at all


def test_a_secret_in_the_name_of_a_file_does_not_leave() -> None:
    """P5: the log has the name of a file, by which a change is found again; what leaves has a mark instead,
    also in the payload as it is stored. An event of something else is not scanned twice."""
    redactor = Redactor(b"k" * 32)
    token = made()["npm"]
    event: Event = {
        "event_type": "file",
        "path": f"keys/{token}",
        "payload": {"old_path": f"{token}.txt", "n": 1},
    }

    assert redactor.redact(event) is event
    new = redactor.leaving(event)
    assert token not in str(new) and (new["event_type"], new["payload"]["n"]) == ("file", 1)
    as_stored = redactor.leaving({**event, "payload": jsontext.encode(event["payload"]).decode()})
    assert as_stored == {**new, "payload": jsontext.encode(new["payload"]).decode()}
    others: tuple[Event, ...] = ({**event, "event_type": "action"}, {"event_type": "file", "path": "a.py"})
    for other in others:
        assert redactor.leaving(other) is other


def test_whole_payloads_stay_out_of_the_log(tmp_path: Path) -> None:
    """P5: after an append no file of the store holds a secret of the event."""
    with Store.init(tmp_path / ".locus") as store:
        store.append([event({name: value}) for name, value in MADE.items()])
        store.append([event({"text": text}) for text, _ in ASSIGNED.values()])
        store.seal()
        store.reindex()
    secrets = [*MADE.values(), *(secret for _, secret in ASSIGNED.values())]
    data = b"".join(path.read_bytes() for path in (tmp_path / ".locus").rglob("*") if path.is_file())

    assert [secret for secret in secrets if secret.encode() in data] == []
    assert redaction.WITHHELD not in {e["event_type"] for e in Store.open(tmp_path / ".locus").events()}
