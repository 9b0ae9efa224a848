"""The form of the code: how long files and functions are, what functions take, how much is docstrings.

Reads files; needs neither git nor a store.
"""

import ast
import re
from functools import cache
from pathlib import Path
from statistics import median, quantiles

from tests.test_house import ROOT, modules, text_files

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def functions_of(path: Path) -> list[Function]:
    return [node for node in nodes_of(path) if isinstance(node, Function)]


def parameters_of(function: Function) -> int:
    """How many, without self; of a command none, since they are its options."""
    if any(ast.unparse(line).startswith("click.command(") for line in function.decorator_list):
        return 0
    arguments = function.args
    given = [
        *arguments.posonlyargs,
        *arguments.args,
        arguments.vararg,
        *arguments.kwonlyargs,
        arguments.kwarg,
    ]
    return len([each for each in given if each is not None and each.arg not in ("self", "cls")])


def test_no_file_is_too_long() -> None:
    """A file can be read in one sitting; help texts and the columns of docs/sql.md are only looked up."""
    looked_up = re.compile(r"^```text\nUsage: .*?^```\n|^# Columns\n.*", re.S | re.M)
    lengths = {
        str(p.relative_to(ROOT)): len(looked_up.sub("", p.read_text(encoding="utf-8")).splitlines())
        for p in text_files()
    }

    limits = {name: 600 if name.startswith(("eventlog/", "cli/")) else 800 for name in lengths}
    assert {name: size for name, size in lengths.items() if size > limits[name]} == {}


# One parameter for each field of an event that a caller may give: names that docs promise.
WRITES_AN_EVENT = {
    "eventlog/mcp/write.py": {"store_error"},
    "eventlog/recorder/hooks.py": {"store_snapshot", "store_turn_event"},
    "eventlog/recorder/lifecycle.py": {"error", "snapshot", "turn_end"},
    "eventlog/recorder/recorder.py": {"error"},
}


def test_no_function_takes_nine_parameters() -> None:
    """What belongs together is one value; only commands, and what writes an event, take it field by field."""
    many: dict[str, set[str]] = {}
    for path in modules("eventlog", "locus_cli").values():
        for function in functions_of(path):
            if parameters_of(function) >= 9:
                many.setdefault(str(path.relative_to(ROOT)), set()).add(function.name)

    assert many == WRITES_AN_EVENT


def test_no_object_has_eighteen_fields_that_change() -> None:
    """A reader keeps the state of an object in mind: the fields that its methods assign after `__init__`."""
    many = {}
    for path in modules("eventlog", "locus_cli").values():
        for kind in nodes_of(path):
            if isinstance(kind, ast.ClassDef):
                methods = [n for n in kind.body if isinstance(n, Function) and n.name != "__init__"]
                changed = {
                    node.attr
                    for node in (below for method in methods for below in ast.walk(method))
                    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
                    if isinstance(node.value, ast.Name) and node.value.id == "self"
                }
                many[f"{path.relative_to(ROOT)}: {kind.name}"] = len(changed)

    assert {name: count for name, count in many.items() if count >= 18} == {}


def test_functions_are_short() -> None:
    """Half of the functions have at most 9 lines, nine of ten at most 24, with their docstrings."""
    lengths = [
        (function.end_lineno or function.lineno) - function.lineno + 1
        for path in modules("eventlog", "locus_cli").values()
        for function in functions_of(path)
    ]

    assert median(lengths) <= 9
    assert quantiles(lengths, n=10)[-1] <= 24


def test_a_tenth_of_the_code_is_docstrings() -> None:
    """A reader learns from a function itself what its arguments are, their units, and how it fails."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    lines = docstrings = 0
    for path in modules("eventlog", "locus_cli").values():
        lines += len(path.read_text(encoding="utf-8").splitlines())
        for node in nodes_of(path):
            if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
                text = node.body[0]
                docstrings += (text.end_lineno or text.lineno) - text.lineno + 1

    assert docstrings >= 0.1 * lines
