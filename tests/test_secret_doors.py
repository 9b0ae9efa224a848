"""Hooks and imports look for secrets in two ways, and both see whatever the rules find in any shape."""

import base64
import os
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.secrets import generator
from eventlog.base.types import Event
from eventlog.secrets import prefilter, redaction, rules, table
from eventlog.secrets.bulk_prefilter import json_suspects, suspects
from eventlog.secrets.redaction import Redactor
from tests.secrets_made import assigned, made

HUNT = float(os.environ.get("LOCUS_HUNT", "0"))
AT_ONCE = 24  # texts of an example: preparing the expression takes longer than scanning one

SIGNS = ("=", " = ", ": ", ":", " := ", "=>", " => ", ">", " ", "\t=\t", '": "', "' : '", "', '", ": str = ")
QUOTES = ("{}", '"{}"', "'{}'", "`{}`", '\\"{}\\"', "r'{}'", "<{}>", "Bearer {}", '"token {}"', "({})")
# What is beside a secret: ends of escapes, and what JSON makes escapes of.
NOISE = ("\n", "\t", "\r\n", "\\n", "\\t", "%22", "\\u0022", "\x1b[1m", "\x1b[0m", "\0", "\x01", "\\",
         '"', "'", ",", ";", " ", "  ", "é", "\U0001f511", "\ud83d", "-", "--", " -p", "x", "0", "{", "}",
         "(", "&", "://", "@", "value", "name:", "[REDACTED:", "=", "==", "/", "a.b.c", "the next word", "$(",
         "<private>")  # fmt: skip


def names() -> list[str]:
    """All that say of a value that it is a secret."""
    every = (*table.PASSWORDS, *table.OTHERS, *(word + b"key" for word in table.KEYS_OF))
    return [name.decode() for name in every]


@cache
def samples() -> list[str]:
    """One text of each open kind: lines of files, cookies, commands and the rest."""
    return [s.text for kind in generator.kinds(held_out=False) for s in generator.samples(kind, 1)]


def value(random: Random) -> str:
    """What may be a secret under a name."""
    return random.choice((*made().values(), *VALUES))


VALUES = (assigned()["assignment"][1], assigned()["header"][1], "ab'cd-ef9!", "=xk8mq29z", "Harbor2024",
          "changeme", "ab;cd!ef9", "amber castle window violin", "3f323942-366e-4717-ba12-153c31d38020",
          "None", "${TOKEN}")  # fmt: skip


def token(random: Random) -> str:
    """By a row of the table, sometimes too short or too long."""
    front, (_, letters, least, most, _) = random.choice(list(prefilter.RULES.items()))
    size = random.choice((least, least, most or least + 40, least + 1, least - 1))
    run = "".join(random.choices(letters.decode(), k=size))
    before = random.choice(("", "", "123456789", "sk_", "s", "a1B2c3D4e5F6g7"))
    return before + front.decode() + run


def named(random: Random) -> str:
    """A name, as programs and settings spell it, a sign and a value."""
    name = random.choice(names())
    front = random.choice(
        ("", "", "my_", "DB_", "x-", "-", "--", "--a.", "db", "the ", "app.", "\t", "\\n", '"')
    )
    name = random.choice((str, str.upper, str.title))(front + name.replace("_", random.choice("_- ")))
    name += random.choice(("", "", "", "2", "_", "-", "_1", '"', "']", '\\"'))
    return name + random.choice(SIGNS) + random.choice(QUOTES).format(value(random))


def command(random: Random) -> str:
    """A command of the table with one of its options."""
    words, options, _ = random.choice(table.OPTIONS)
    option = random.choice(options).decode() + random.choice(("", " ", "=", "  ", " me:", "me%", " me,"))
    between = random.choice((" ", " -h db ", " \\\n  ", "\t", " --verbose ", " | cat "))
    return random.choice(words).decode() + between + option + random.choice(QUOTES).format(value(random))


def sample(random: Random) -> str:
    return random.choice(samples())


def encoded(random: Random) -> str:
    """A text in Base64, or in lines of it."""
    text = "".join(random.choice((token, named, sample))(random) for _ in range(random.randint(1, 3)))
    way = random.choice((base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes))
    return way(text.encode()).decode().strip("=")


def noise(random: Random) -> str:
    return "".join(random.choices(NOISE, k=random.randint(0, 4)))


SHAPES = (token, named, command, sample, encoded, noise)


@st.composite
def text(draw: st.DrawFn) -> str:
    """Shapes of the table, with noise between them, cut somewhere."""
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    random = Random(draw(st.integers(0, 1 << 32)))
    whole = "".join(noise(random) + shape(random) for shape in shapes) + noise(random)
    return whole if random.random() < 0.8 else whole[random.randrange(len(whole) + 1) :]


@settings(max_examples=6 if HUNT == 0 else int(HUNT * 5000), deadline=None)
@given(texts=st.lists(text(), min_size=AT_ONCE, max_size=AT_ONCE))
def test_both_scans_see_what_the_rules_find(texts: list[str]) -> None:
    """P5: a hook and an import write the same events and withhold the same contents: what the rules say that
    scan everything."""
    names = [whole[: whole.find("=")] for whole in texts[:6]]
    payloads: list[object] = [*texts, [texts[0]], {texts[0]: 1}]
    payloads += [*({name: VALUES[1]} for name in names), *([name, VALUES[0]] for name in names)]
    events: list[Event] = [{"event_type": "action", "payload": {"a": payload}} for payload in payloads]
    hooks, imports = Redactor(b"k" * 32), Redactor(b"k" * 32)
    imports.bulk_prefilter = json_suspects
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "_by_rules", rules.find)
        expected = [hooks._redacted(event) for event in events]
    assert [hooks.redact(event) for event in events] == expected
    assert imports.redact_all(events) == expected

    contents = [t.encode("utf-8", "surrogatepass") for t in texts]
    contents += [t.encode("utf-16", "replace") for t in texts[:4]]
    found = [bool(rules.find(prefilter.plain(data))) for data in contents]
    assert [bool(hooks.kinds_in(data)) for data in contents] == found
    assert [f for f, suspect in zip(found, suspects(contents), strict=True) if f > suspect] == []
