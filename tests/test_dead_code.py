"""Every module that is installed is imported by something that ships: no wall is without its gate.

Reads files only. What ships begins at the programs of pyproject.toml and at the public names of `eventlog`;
from there it follows imports wherever they are in a file, `import_module` with the names beside it, the
tables of commands, and modules that another process is started with.
"""

import ast
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.test_house import ROOT, imports, modules

# Modules that nothing imports, and what brings them back. A module that is imported again leaves the list.
# Programs import these by name (docs/frameworks.md); nothing else of ours does.
_FRAMEWORKS = ("", ".claude_agent", ".langgraph", ".openai_agents", ".session")
DEAD: dict[str, str] = {
    f"eventlog.frameworks{name}": "examples/ and docs/frameworks.md" for name in _FRAMEWORKS
}

# It lists modules to pack beside the stub. To pack a module is not to import it.
PUBLIC = "eventlog/__init__.py"  # to offer a name is not to call it
PACKING = "eventlog.setup.launch_modules"
WALKED = "eventlog.agents"  # it imports each package below it

_DOTTED = re.compile(r"\b(?:eventlog|locus_cli)(?:\.\w+)*")


@cache
def shipped() -> dict[str, Path]:
    return modules("eventlog", "locus_cli")


def starts() -> set[str]:
    """The modules of the installed programs, and the public face."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {target.partition(":")[0] for target in project["scripts"].values()} | {"eventlog"}


@cache
def needed_by(name: str) -> frozenset[str]:
    """The modules of ours that this one imports, starts or names in a table, without their packages."""
    path = shipped()[name]
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    found = {*imports(name, path), *commands_listed(nodes), *computed(nodes)}
    if name != PACKING:
        found.update(named_in_text(nodes))
    if name == WALKED:
        found.update(below for below in shipped() if below.rpartition(".")[0] == WALKED)
    return frozenset(found & shipped().keys())


def commands_listed(nodes: list[ast.AST]) -> Iterator[str]:
    """`Entry(verb, module:function, summary)`: `LazyGroup` imports the module when the verb is used."""
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Entry" and len(node.args) == 3:
            yield f"locus_cli.{getattr(node.args[1], 'value', '').partition(':')[0]}"


def computed(nodes: list[ast.AST]) -> Iterator[str]:
    """`import_module(f"package.{…}")`: every module of the package that a text of the same file names."""
    for node in nodes:
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.JoinedStr):
            first = node.args[0].values[0]
            if ast.unparse(node.func).endswith("import_module") and isinstance(first, ast.Constant):
                yield from (f"{first.value}{text}" for text in texts(nodes))


def named_in_text(nodes: list[ast.AST]) -> Iterator[str]:
    """Modules that a text names: lazy names, `python -m`, the code of a stub or of another process."""
    for text in texts(nodes):
        for dotted in _DOTTED.findall(text):
            yield from (dotted, dotted.rpartition(".")[0])
        if text in ("eventlog", "locus_cli"):
            yield f"{text}.__main__"


def texts(nodes: list[ast.AST]) -> Iterator[str]:
    """Every string of the code that is not a docstring."""
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def reached(begin: Iterable[str], needs: Callable[[str], Iterable[str]]) -> set[str]:
    """Everything that `begin` needs, with the packages around it."""
    found: set[str] = set()
    waiting = list(begin)
    while waiting:
        name = waiting.pop()
        if name and name not in found:
            found.add(name)
            waiting += [name.rpartition(".")[0], *needs(name)]
    return found


def test_every_module_is_reached_by_something_that_ships() -> None:
    """A wall that nothing calls any more is found here, and one that is called again leaves the list."""
    dead = shipped().keys() - reached(starts(), needed_by)

    assert sorted(dead - DEAD.keys()) == [], "nothing that ships imports these: remove them, or say why not"
    assert sorted(DEAD.keys() - dead) == [], "these are imported again: take them off the list"
    for module in ("locus_cli.access", "eventlog.mcp.sql"):
        assert module not in reached(starts(), lambda name, lost=module: needed_by(name) - {lost})


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("eventlog", "eventlog.recorder.hooks"),
        ("locus_cli.root", "locus_cli.read.sql"),
        ("eventlog.agents", "eventlog.agents.gemini_cli"),
        ("eventlog.agents.gemini_cli", "eventlog.agents.gemini_cli.hooks"),
        ("eventlog.setup.launch", "locus_cli.hook_entry"),
        ("eventlog.mcp.install", "locus_cli.__main__"),
        ("locus_cli.hook_entry", "locus_cli.maintainer"),
    ],
)
def test_ways_to_import_are_followed(name: str, needs: str) -> None:
    """Lazy names, tables of commands, computed names, imports in functions, and code of other processes."""
    assert needs in needed_by(name)


def test_a_type_a_docstring_and_a_table_of_packing_are_no_imports() -> None:
    """What only names a module does not call it."""
    function = ast.parse('def f():\n    """See eventlog.store."""\n    return "eventlog.base.fs"\n')

    assert set(named_in_text(list(ast.walk(function)))) == {"eventlog.base.fs", "eventlog.base"}
    assert "eventlog.base.types" not in needed_by("locus_cli.hook_entry")
    assert "eventlog.memory.briefing_hook" not in needed_by(PACKING)


def test_functions_that_nothing_calls_are_those_of_the_page() -> None:
    """What docs/mutants.md says that nothing which ships calls is not named outside of its own module; once
    something calls it, it leaves the page."""
    page = (ROOT / "docs/mutants.md").read_text(encoding="utf-8").partition("\n## Called by nothing")[2]
    listed = dict(re.findall(r"^\| `(\w+)` in `([\w/.]+)` \|", page, re.M))
    texts_of = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in shipped().values()}
    called = {
        f"{name}: {path}"
        for name, home in listed.items()
        for path, text in texts_of.items()
        if path not in (home, PUBLIC) and re.search(rf"\b{name}\b", text)
    }

    assert listed and [n for n, home in listed.items() if not defines(texts_of[home], n)] == []
    assert sorted(called) == []


def defines(text: str, name: str) -> bool:
    return re.search(rf"^(?:def|class) {name}\b", text, re.M) is not None
