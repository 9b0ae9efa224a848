"""Texts that hold a secret of a known kind, the same for the same seed.

A kind is a table of `tokens.toml` or `services.toml` (a form of its own), of `places.toml` (what is
around it gives it away), or of `held_out.toml`:

    group, vendor, source   what it is, whose, and where its form can be read up
    shape                   a template of the secret (shapes.py)
    parts                   templates that the shape or a text encodes
    names                   names of settings that hold it; it also occurs where no name says what it is
    only_named              true: it does not, since nobody could tell it from other texts there
    texts                   templates of what holds it, in place of those of `contexts.toml`; a first line
                            `@path` names the file
    encoding                of the file's bytes, when it is not UTF-8

A third of the kinds is held out: `is_held_out` says which, by the kind's name alone.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.secrets.shapes import render

_HERE = Path(__file__).parent
OPEN_FILES = ("tokens.toml", "services.toml", "places.toml")
HELD_OUT_FILE = "held_out.toml"

_USERS = ("alice", "deploy", "svc-build", "postgres", "root", "ci-runner", "jmeyer", "app")
_HOSTS = ("db.internal", "api.acme-shop.net", "10.20.4.17", "staging.acme.dev", "mirror.corp.lan")


@dataclass(frozen=True)
class Kind:
    """A row of the table; see the module's docstring."""

    name: str
    group: str
    vendor: str
    source: str
    shape: str
    names: tuple[str, ...] = ()
    only_named: bool = False
    texts: tuple[str, ...] = ()
    encoding: str = "utf-8"
    parts: dict[str, str] = field(default_factory=dict)

    @property
    def is_held_out(self) -> bool:
        return is_held_out(self.name)


@dataclass(frozen=True)
class Sample:
    """One text with one secret.

    `secret` is how it is spelled in `text`; `plain`, what is encoded in it; `path`, the file it is of, or "";
    `is_named`, whether a name or the place says what it is; `content`, the file's bytes.
    """

    kind: str
    text: str
    secret: str
    plain: tuple[str, ...]
    path: str
    is_named: bool
    encoding: str

    @property
    def content(self) -> bytes:
        return self.text.encode(self.encoding)


def is_held_out(name: str) -> bool:
    """Whether a kind is kept from whoever writes rules: the digest of its name decides, nobody's choice."""
    return hashlib.sha256(name.encode()).digest()[0] % 3 == 0


def kinds(*, held_out: bool | None = None) -> list[Kind]:
    """All kinds, or the open or held-out ones."""
    files = [*(() if held_out else OPEN_FILES), *(() if held_out is False else (HELD_OUT_FILE,))]
    return [_kind(name, row) for file in files for name, row in _table(file).items()]


def samples(kind: Kind, each: int, seed: int = 1) -> Iterator[Sample]:
    """`each` texts with a new secret of that kind; every kind of text comes before one comes again."""
    random = Random(f"{seed} {kind.name}")
    contexts = _contexts(kind)
    order: list[tuple[str, bool]] = []
    for _ in range(each):
        if not order:
            order = random.sample(contexts, len(contexts))
        template, is_named = order.pop()
        yield _sample(kind, template, is_named, random)


def _sample(kind: Kind, template: str, is_named: bool, random: Random) -> Sample:
    given = {"user": random.choice(_USERS), "host": random.choice(_HOSTS), **_spellings(kind, random)}
    parts: dict[str, str] = {}
    for name, part in kind.parts.items():
        parts[name] = render(part, random, given, parts)
    secret = render(kind.shape, random, given, parts)
    path, template = _path(template)
    text = render(template, random, {**given, "secret": secret}, parts)
    return Sample(kind.name, text, secret, tuple(parts.values()), path, is_named, kind.encoding)


def _path(template: str) -> tuple[str, str]:
    if not template.startswith("@"):
        return "", template
    path, _, rest = template[1:].partition("\n")
    return path, rest


def _spellings(kind: Kind, random: Random) -> dict[str, str]:
    """A setting's name in the ways of languages."""
    name = random.choice(kind.names or (f"{kind.vendor.upper().replace(' ', '_')}_VALUE",))
    words = name.lower().split("_")
    return {
        "NAME": name.upper(),
        "name": "_".join(words),
        "kebab": "-".join(words),
        "camel": words[0] + "".join(word.capitalize() for word in words[1:]),
        "vendor": kind.vendor,
    }


def _contexts(kind: Kind) -> list[tuple[str, bool]]:
    if kind.texts:
        return [(text, True) for text in kind.texts]
    table = _table("contexts.toml")
    named = [(text, True) for text in table["named"]] if kind.names else []
    return named if kind.only_named else named + [(text, False) for text in table["unnamed"]]


def _kind(name: str, row: dict[str, Any]) -> Kind:
    tuples = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
    return Kind(name=name, **{**row, **tuples})


def _table(file: str) -> dict[str, Any]:
    with open(_HERE / file, "rb") as stream:
        return tomllib.load(stream)
