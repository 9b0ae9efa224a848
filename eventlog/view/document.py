"""A page of one file: the client of the viewer with answers that were recorded in advance (docs/view.md).

The document loads nothing and sends nothing: its policy allows the script and the style in it, by their
hashes. Same answers, same bytes. Pure, but for reading the files of the client.
"""

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eventlog.view import client_files

# An answer's name below /api/ and its parameters; as the client spells it, JSON without spaces.
Key = tuple[str, tuple[tuple[str, str], ...]]

_ENTRY, _SOURCE, _RECORDED = "main", "source", "recorded"
# Modules of what no file can show: it answers nothing that was not asked in advance, and does not grow.
_LIVE_ONLY = frozenset(("growth", "live", "search", "sql", "stores"))
_IMPORT = re.compile(r"^import \{([^}]*)\} from '\./([a-z_]+)\.js';$", re.M)
_LOADED = re.compile(r"\bimport\('\./([a-z_]+)\.js'\)")
_EXPORT = re.compile(r"^export ((?:async function|function|class|const) (\w+))", re.M)
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


@dataclass(frozen=True, slots=True)
class Recording:
    """Answers of the viewer, and how a page of them begins.

    `ignored` has, by the first part of an answer's name, parameters that choose nothing here; `plain` is what
    a reader without scripts sees, a heading and its text each; `next` says what to do for what is not here.
    """

    title: str
    start: str
    sections: "Sequence[str]"
    answers: "Mapping[Key, Mapping[str, Any]]"
    ignored: "Mapping[str, Sequence[str]]" = field(default_factory=dict)
    plain: "Sequence[tuple[str, str]]" = ()
    next: "str | None" = None


def key(name: str, **parameters: object) -> Key:
    """The key of an answer; parameters that are None or empty do not count."""
    given = ((parameter, str(value)) for parameter, value in parameters.items() if value not in (None, ""))
    return name, tuple(sorted(given))


def document(recording: Recording) -> bytes:
    """The whole document, in UTF-8."""
    script, style = joined_script(), client_files.read("style.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    plain = "".join(f"<h2>{text(heading)}</h2><pre>{text(body)}</pre>" for heading, body in recording.plain)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{text(recording.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<noscript><h1>{text(recording.title)}</h1>{plain}</noscript>\n"
        f'<script type="application/octet-stream" id="recorded">{_packed(recording)}</script>\n'
        f'<script type="module">{script}</script>\n</body>\n</html>\n'
    ).encode("utf-8", "backslashreplace")


def text(value: str) -> str:
    """Foreign text as HTML: escaped, with control characters and marks of direction spelled out."""
    return html.escape(_UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", value), quote=True)


def joined_script() -> str:
    """The modules of the client as one, with `recorded` in place of the one that asks a server.

    Each becomes a function that is called once and gives what the module exports; no module may import one
    that imports it. What is loaded when it is needed is there from the beginning, or says that it is not.
    """
    seen: set[str] = set()
    return "\n".join(_with_imports(_ENTRY, seen)).replace("</", "<\\/").replace("<!--", "<\\!--")


def _with_imports(name: str, seen: "set[str]") -> "Iterator[str]":
    """The module, after those which it imports and before those which it loads later, each once."""
    if name in seen:
        return
    seen.add(name)
    code = client_files.read(f"{_RECORDED if name == _SOURCE else name}.js")
    for _, imported in _IMPORT.findall(code):
        yield from _with_imports(imported, seen)
    exported = ", ".join(of_name for _, of_name in _EXPORT.findall(code))
    body = _LOADED.sub(_loaded, _EXPORT.sub(r"\1", _IMPORT.sub(_taken, code)))
    yield f"const module_{name} = (() => {{\n{body}\nreturn {{{exported}}};\n}})();"
    for loaded in _LOADED.findall(code):
        if loaded not in _LIVE_ONLY:
            yield from _with_imports(loaded, seen)


def _taken(match: "re.Match[str]") -> str:
    """What a module imports, from the value of the one that exports it."""
    return f"const {{{match[1].replace(' as ', ': ')}}} = module_{match[2]};"


def _loaded(match: "re.Match[str]") -> str:
    """What a module loads when it needs it, as a promise."""
    return "module_source.absent()" if match[1] in _LIVE_ONLY else f"Promise.resolve(module_{match[1]})"


def _packed(recording: Recording) -> str:
    """What the page holds, gzipped, in base64. The time in gzip's header is 0."""
    value = {
        "start": recording.start,
        "sections": list(recording.sections),
        "ignored": {name: list(parameters) for name, parameters in recording.ignored.items()},
        "next": recording.next,
        "answers": {spell_key(of): answer for of, answer in recording.answers.items()},
    }
    data = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def spell_key(of: Key) -> str:
    """A key as the client's `JSON.stringify` spells it."""
    name, parameters = of
    return json.dumps([name, [list(pair) for pair in parameters]], ensure_ascii=False, separators=(",", ":"))


def _hash(inline: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()}"
