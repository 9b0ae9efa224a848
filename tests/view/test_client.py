"""The client of the viewer as text: what its modules may contain, and that they can be joined (docs/view.md).

Reads files only: no browser is needed. What the modules do is tested in one, in tests/browser.
"""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CLIENT = Path(__file__).resolve().parents[2] / "eventlog/view/client"
MODULES = sorted(path.name for path in CLIENT.glob("*.js"))
# Bytes. The script goes over the wire zipped; unzipped it is what a reader of the code has before them.
SCRIPT_MAX, ZIPPED_MAX, STYLE_MAX = 120_000, 60_000, 15_000
_IMPORT = re.compile(r"^import \{([\w, ]+)\} from '\./(\w+)\.js';$", re.M)
_TOP_LEVEL = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class|var) (\w+)", re.M)
_EXPORTED = re.compile(r"^export (?:(?:async )?function|const) (\w+)", re.M)


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
    assert "import(" not in text and "import.meta" not in text


def test_names_at_the_top_are_unique_across_modules() -> None:
    """Joined into one script they do not meet; source.js and what replaces it share theirs."""
    seen: dict[str, str] = {}
    for name in MODULES:
        if name == "recorded.js":
            continue
        for defined in _TOP_LEVEL.findall(_text(name)):
            assert seen.setdefault(defined, name) == name, (defined, name, seen[defined])


def test_every_export_is_imported_somewhere() -> None:
    """What no module asks for is no export."""
    imported = {
        name
        for module in MODULES
        for names, _ in _IMPORT.findall(_text(module))
        for name in names.split(", ")
    }
    exported = {name for module in MODULES for name in _EXPORTED.findall(_text(module))}
    assert exported - imported == set()


def _before(name: str, path: tuple[str, ...] = ()) -> Iterator[str]:
    assert name not in path, f"a circle of imports: {(*path, name)}"
    for _, module in _IMPORT.findall(_text(f"{name}.js")):
        yield from _before(module, (*path, name))
    yield name


def test_no_module_imports_one_that_imports_it() -> None:
    """And all of them are reached from main.js."""
    assert {f"{name}.js" for name in _before("main")} | {"recorded.js"} == {*MODULES, "recorded.js"}


def test_the_client_is_small() -> None:
    """Of the scripts only what a browser gets of `locus view`."""
    scripts = "".join(_text(name) for name in MODULES if name != "recorded.js").encode()
    assert len(scripts) <= SCRIPT_MAX
    assert len(gzip.compress(scripts)) <= ZIPPED_MAX
    assert len(_text("style.css").encode()) <= STYLE_MAX


def test_the_shell_holds_no_data_and_nothing_inline() -> None:
    """P5: the document that every address serves says nothing of the store, and runs nothing of its own."""
    shell = _text("index.html")
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*src=)|https?://", shell)
    assert 'rel="icon"' in shell  # a browser asks for one by itself otherwise
