"""The client of the viewer as text: what its modules may contain, and that they can be joined (docs/view.md).

Reads files only: no browser is needed. What the modules do is tested in one, in tests/browser.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.view import client_files
from eventlog.view.document import joined_script

CLIENT = Path(__file__).resolve().parents[2] / "eventlog/view/client"
MODULES = sorted(path.name for path in CLIENT.glob("*.js"))
# Bytes of all modules as they are served. What one page loads is counted in tests/browser/test_loading.py.
SCRIPT_MAX, STYLE_MAX = 102_000, 15_000
_IMPORT = re.compile(r"^import \{([\w, ]+)\} from '\./(\w+)\.js';$", re.M)
_LOADED = re.compile(r"\bimport\('\./(\w+)\.js'\)")
_EXPORTED = re.compile(r"^export (?:(?:async )?function|class|const) (\w+)", re.M)


def _text(name: str) -> str:
    return (CLIENT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MODULES)
def test_no_html_is_made_from_text_and_no_text_runs(name: str) -> None:
    """P5: Only dom.js makes elements, and only of names and texts."""
    text = _text(name)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc|"
        r"createContextualFragment|setTimeout\(['\"]|\bstyle=|setAttribute\('style|\.href = ",
        text,
    )
    assert ("createElement" in text) == (name == "dom.js")
    if name not in ("source.js", "recorded.js"):
        assert not re.search(r"\bfetch\(|XMLHttpRequest|EventSource|WebSocket|sendBeacon", text)


@pytest.mark.parametrize("name", MODULES)
def test_imports_and_exports_have_one_form(name: str) -> None:
    """What a joiner reads: one line each, names that the other module exports, and no default."""
    text = _text(name)
    imports = _IMPORT.findall(text)
    assert len(re.findall(r"^\s*import\b", text, re.M)) == len(imports)
    assert len(re.findall(r"^\s*export\b", text, re.M)) == len(_EXPORTED.findall(text))
    for names, module in imports:
        assert set(names.split(", ")) <= set(_EXPORTED.findall(_text(f"{module}.js"))), module
    assert text.count("import(") == len(_LOADED.findall(text)) and "import.meta" not in text
    assert all((CLIENT / f"{module}.js").exists() for module in _LOADED.findall(text))


@pytest.mark.parametrize("name", MODULES)
def test_a_comment_has_its_lines_for_itself(name: str) -> None:
    """So what a browser gets is the module without whole lines; and no text goes over the end of one."""
    text = _text(name)
    for line in text.splitlines():
        assert line.replace("```", "").count("`") % 2 == 0, line
        assert "/*" not in line or re.match(r" */\*\*", line), line
    in_comments = "".join(re.findall(r"(?s)^ */\*\*.*?\*/$", text, re.M))
    assert len(re.findall(r"^ *\*", text, re.M)) == len(re.findall(r"^ *\*", in_comments, re.M))
    served = client_files.read(name)
    assert "/**" not in served and re.sub(r"\s", "", served) in re.sub(r"(?m)^ *(//|/?\*).*|\s", "", text)


def test_an_export_has_one_name() -> None:
    """A reader finds it by its name; but for `show`, by which every page is shown."""
    exported = [
        defined for name in MODULES if name != "recorded.js" for defined in _EXPORTED.findall(_text(name))
    ]
    twice = {name for name in exported if exported.count(name) > 1}
    assert twice == {"show"}


def test_every_export_is_imported_somewhere() -> None:
    """What no module asks for is no export."""
    imported = {
        name
        for module in MODULES
        for names, _ in _IMPORT.findall(_text(module))
        for name in names.split(", ")
    }
    # What is loaded when it is needed is taken from the module: `const {grow} = …`, `(await import(…)).grow`.
    taken = {
        name
        for module in MODULES
        for names in re.findall(r"\{(\w+(?:, \w+)*)\} = await import|import\([^)]*\)\)\.(\w+)", _text(module))
        for name in ", ".join(filter(None, names)).split(", ")
    }
    of_module = {"show", *re.findall(r"lake\.(\w+)", _text("main.js"))}
    exported = {name for module in MODULES for name in _EXPORTED.findall(_text(module))}
    assert exported - imported - taken - of_module == {"absent", "joined"}  # for documents, and a test


def _before(name: str, path: tuple[str, ...] = ()) -> Iterator[str]:
    assert name not in path, f"a circle of imports: {(*path, name)}"
    for _, module in _IMPORT.findall(_text(f"{name}.js")):
        yield from _before(module, (*path, name))
    yield name


def test_no_module_imports_one_that_imports_it() -> None:
    """And all of them are reached from main.js, at once or when they are needed."""
    reached, left = set[str](), {"main"}
    while left:
        name = left.pop()
        reached |= set(_before(name))
        left |= {module for of in reached for module in _LOADED.findall(_text(f"{of}.js"))} - reached
    assert {f"{name}.js" for name in reached} | {"recorded.js"} == set(MODULES)


def test_a_document_has_what_it_may_load() -> None:
    """One script without imports: each module once, after those that it takes from; nothing that is live."""
    script = joined_script()
    assert "import" not in re.sub(r"'[^'\n]*'|`[^`\n]*`", "", script)
    defined = re.findall(r"^const module_(\w+) = ", script, re.M)
    assert len(defined) == len(set(defined)) and {"main", "slider", "cost", "sessions"} <= set(defined)
    assert not {"live", "growth", "search", "sql"} & set(defined)
    for position, name in enumerate(defined):
        own = script[script.index(f"const module_{name} = ") :].partition("\n})();")[0]
        taken = re.findall(r"^const \{[^}]*\} = module_(\w+);", own, re.M)
        assert set(taken) <= set(defined[:position]), name


def test_the_client_is_small() -> None:
    """P7: of the scripts only what a browser gets of `locus view`."""
    scripts = "".join(client_files.read(name) for name in MODULES if name != "recorded.js").encode()
    assert len(scripts) <= SCRIPT_MAX
    assert len(_text("style.css").encode()) <= STYLE_MAX


def test_the_shell_holds_no_data_and_nothing_inline() -> None:
    """P5: the document that every address serves says nothing of the store, and runs nothing of its own."""
    shell = _text("index.html")
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*src=)|https?://", shell)
    assert 'rel="icon"' in shell  # a browser asks for one by itself otherwise
