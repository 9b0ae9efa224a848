"""The names of functions that a text defines, by the language that its file's name says.

Pure. What the format of continuity codes names, `def`, `func` and `function`, counts in every text; the rules
of a language see one line at a time and no comments or strings, so they miss and mistake what a parser would
not. Keywords are no names.
"""

import re

_ANY = r"\b(?:def|function\s*\*?)\s+(\w+)|\bfunc\s+(?:\([^()\n]*\)\s*)?(\w+)"
_ARGUMENTS = r"[ \t]*(?:<[^<>\n]*>)?[ \t]*\((?:[^(){};\n]|\([^()\n]*\))*"
# A definition may go on in the next line; a call or a declaration ends with a semicolon.
_OPEN_END = r"(?:\)[^;\n]*)?$"
_SCRIPT = (
    r"\b(?:const|let|var)\s+(\w+)\s*(?::[^=\n]+)?=\s*(?:async\s*)?(?:\([^()\n]*\)|\w+)\s*(?::[^=\n]+)?=>"
    r"|^[ \t]*(?:(?:public|private|protected|static|async|override|get|set)[ \t]+)*#?(\w+)"
    + _ARGUMENTS
    + r"\)[ \t]*(?::[^={\n]+)?\{"
)
_TYPED = (
    r"^[ \t]*(?:(?:public|private|protected|internal|static|final|abstract|async|override|virtual)[ \t]+)*"
    r"[\w.]+(?:<[^()\n]*>)?(?:\[\])*\??[ \t]+(\w+)" + _ARGUMENTS + _OPEN_END
)
_C = r"^(?:[A-Za-z_][\w:<>,]*[ \t*&]+)+(?:\w+::)*~?([A-Za-z_]\w*)" + _ARGUMENTS + _OPEN_END
_LANGUAGES = {
    "cjs js jsx mjs svelte ts tsx vue": _SCRIPT,
    "rs": r"\bfn\s+(\w+)",
    "kt kts": r"\bfun\s+(?:<[^<>\n]*>\s*)?(?:\w+\.)?(\w+)",
    "cs java": _TYPED,
    "c cc cpp cxx h hh hpp": _C,
}
_COMPILED = {
    suffix: re.compile(f"{_ANY}|{rule}", re.MULTILINE)
    for suffixes, rule in _LANGUAGES.items()
    for suffix in suffixes.split()
}
_DEFAULT = re.compile(_ANY)
_KEYWORDS = {
    "assert", "await", "case", "catch", "constructor", "delete", "do", "else", "for", "foreach", "function",
    "if", "lock", "new", "return", "sizeof", "super", "switch", "throw", "try", "typeof", "using",
    "while", "with", "yield",
}  # fmt: skip
# What a typed definition cannot begin with: `return f(x)` reads like one of a type `return`.
_NO_TYPE = re.compile(r"\s*(?:assert|await|case|delete|else|goto|new|return|throw|typedef|using|yield)\b")


def functions_in(text: str, path: str = "") -> "list[str]":
    """The names, in order of their definitions, as often as they are defined. `path`: of the file."""
    suffix = path.rpartition(".")[2].lower()
    rule = _COMPILED.get(suffix, _DEFAULT)
    found = []
    for match in rule.finditer(text):
        name = next(filter(None, match.groups()))
        if name not in _KEYWORDS and not (rule is not _DEFAULT and _NO_TYPE.match(match[0])):
            found.append(name)
    return found
