"""Makes the file that holds a hook's modules: `locus-hook.modules`, beside the stub.

Half of a hook's time would go into finding sixty modules, each with a dozen system calls. The file holds
their code, in groups of what is needed together, each with what they import at their beginning. It is
derived: the stub and `launch_loader` use it only for the very Python it was made by and for sources that
nobody touched since, and without it everything is imported as usual.

    sys.version in UTF-8, a newline
    marshal of (code of `launch_loader`, groups, extensions), types as in `launch_loader`; up to HEAD_SIZE
    marshal of each group's modules

Texts that describe code, annotations and line numbers are left out: nobody sees a traceback of a hook, and
what is not read and laid out in memory takes no time.

May be called at any time, by several processes at once: the file is replaced as a whole.
"""

import ast
import marshal
import os
import sys
from collections.abc import Iterator
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from importlib.util import find_spec, resolve_name
from types import CodeType
from typing import Any

from eventlog import agents
from eventlog.base.fs import FileSystem, opened, read_file, write_all
from eventlog.setup import launch_loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eventlog.setup.launch_loader import Group, Mark, Module

MODULES = "locus-hook.modules"
HEAD_SIZE = 65_536

# What each hook runs, what a capture of the directory adds, and what single moments need.
_ROOTS = (
    (
        "locus_cli.hook_entry",
        "eventlog.hooks.record",
        "eventlog.hooks.locate",
        "eventlog.agents.kit.tools",
        "eventlog.hooks.ignored_texts",
    ),
    (
        "eventlog.blobs.store",
        "eventlog.worktree.capture",
        "eventlog.hooks.file_events",
        "eventlog.hooks.deferred_lists",
    ),
    ("eventlog.blobs.groups",),
    ("eventlog.blobs.idx",),
    ("eventlog.worktree.git_held",),
    ("eventlog.worktree.ignore",),
    ("eventlog.hooks.enrich",),
    ("eventlog.hooks.closing",),
    ("eventlog.hooks.watched",),
    ("eventlog.hooks.synthetic_ids",),
    ("eventlog.agents.unadapted",),
    ("locus_cli.maintainer",),
    ("locus_cli.contents", "eventlog.worktree.staging", "eventlog.blobs.deferred"),
    ("eventlog.memory.briefing_hook",),
)


def encode(commands: str) -> bytes:
    """The bytes of the file. Args: commands: the directory of the package `locus_cli`."""
    known: set[str] = set()
    extensions: dict[str, str] = {}
    groups: "list[Group]" = []
    bodies = []
    offset = HEAD_SIZE
    for roots in _all_roots(commands, known):
        modules, sources = _group(roots, commands, known, extensions)
        if not groups:
            path = str(launch_loader.__file__)
            tree, mark = _parsed(path)
            loader = _compiled(tree, path)
            sources.append((path, mark))
        body = marshal.dumps(tuple(modules))
        groups.append((tuple(module[0] for module in modules), tuple(sources), offset, len(body)))
        bodies.append(body)
        offset += len(body)
    head_values: Any = loader, tuple(groups), extensions
    head = _version() + marshal.dumps(head_values)
    if len(head) > HEAD_SIZE:
        raise ValueError(f"the paths of {commands} are too long for {MODULES}")
    return b"".join((head.ljust(HEAD_SIZE, b"\0"), *bodies))


def _all_roots(commands: str, known: set[str]) -> Iterator[tuple[str, ...]]:
    """The roots of each group. Args: known: the modules of the groups before."""
    yield from _ROOTS
    hooks = [spec.hooks for spec in agents.specs() if spec.hooks is not None]
    # In groups of their own, for hooks of other agents never read them.
    of_agents = [name for each in hooks for name in (each.adapter, each.model_calls) if name is not None]
    for root in of_agents:
        # A group runs as a whole: what more than one agent may need runs without the package of any.
        package = root.rpartition(".")[0]
        needed = _group((root,), commands, set(known), {})[0]
        yield from ((name,) for name, *_ in needed if not name.startswith(package) and name not in known)
    yield from ((root,) for root in of_agents)


def is_current(data: bytes) -> bool:
    """Whether a file of these bytes was made by this Python of the sources there are."""
    version = _version()
    if not data.startswith(version):
        return False
    try:
        _, groups, _ = marshal.loads(data[len(version) :])
        return all(launch_loader.mark_of(path) == mark for group in groups for path, mark in group[1])
    except (OSError, ValueError, EOFError, TypeError):
        return False


def renew(fs: FileSystem, path: str, commands: str) -> None:
    """Write the file at `path` where it is old or missing. Raises: OSError."""
    try:
        if is_current(read_file(fs, path)):
            return
    except FileNotFoundError:
        pass
    replace(fs, path, encode(commands))


def replace(fs: FileSystem, path: str, data: bytes) -> None:
    """Put a file at `path`, whole at any moment: hooks may be starting. Raises: OSError."""
    beside = f"{path}.{fs.random_bytes(8).hex()}"
    with opened(fs, beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644) as fd:
        write_all(fs, fd, data)
        fs.fsync(fd)
    fs.rename(beside, path)


def _version() -> bytes:
    return sys.version.encode() + b"\n"


def _group(
    roots: tuple[str, ...], commands: str, known: set[str], extensions: dict[str, str]
) -> "tuple[list[Module], list[tuple[str, Mark]]]":
    """The modules that `roots` import at their beginning and that are not `known`, and their sources."""
    modules: list[Module] = []
    sources: list[tuple[str, Mark]] = []

    def visit(name: str) -> None:
        if name in known:
            return
        known.add(name)
        parent = name.rpartition(".")[0]
        if parent and parent != "locus_cli":
            visit(parent)
        path, is_package = _source(name, commands, extensions)
        if path is None:
            return
        tree, mark = _parsed(path)
        for imported in _imports(tree, name, is_package):
            visit(imported)
        modules.append((name, path, is_package, _compiled(tree, path)))
        sources.append((path, mark))

    for root in roots:
        visit(root)
    return modules, sources


def _source(name: str, commands: str, extensions: dict[str, str]) -> tuple[str | None, bool]:
    """(path of a module's source, whether it is a package); no path for one that has none."""
    if name.startswith("locus_cli."):
        return f"{commands}/{name.partition('.')[2]}.py", False
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None, False
    if spec is None or spec.origin is None:
        return None, False
    if isinstance(spec.loader, ExtensionFileLoader):
        extensions[name] = spec.origin
    if not isinstance(spec.loader, SourceFileLoader):
        return None, False
    return spec.origin, spec.submodule_search_locations is not None


def _parsed(path: str) -> "tuple[ast.Module, Mark]":
    mark = launch_loader.mark_of(path)  # looked at first: what is changed after this shows
    with open(path, "rb") as file:
        return ast.parse(file.read(), path), mark


def _compiled(tree: ast.Module, path: str) -> CodeType:
    """The code of a module, without what only people read."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node, False):
            node.body[:1] = [] if len(node.body) > 1 else [ast.copy_location(ast.Pass(), node.body[0])]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    # What a class says of its fields stays: it may be asked for.
    tree.body = [statement for statement in map(_without_types, tree.body) if statement is not None] or [
        ast.Pass()
    ]
    code = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True, optimize=0)
    return _without_lines(code)


def _without_types(statement: ast.stmt) -> ast.stmt | None:
    """A statement of a module, without what only a type checker reads; None when that is all of it."""
    if (
        isinstance(statement, ast.If)
        and isinstance(statement.test, ast.Name)
        and statement.test.id == "TYPE_CHECKING"
    ):
        return None
    if isinstance(statement, ast.AnnAssign):
        if statement.value is None:
            return None
        return ast.copy_location(ast.Assign([statement.target], statement.value), statement)
    return statement


def _without_lines(code: CodeType) -> CodeType:
    below = (
        _without_lines(constant) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_linetable=b"", co_consts=tuple(below))


def _imports(tree: ast.Module, name: str, is_package: bool) -> Iterator[str]:
    """What a module imports when it runs; of a name that may be a module, both readings."""
    package = name if is_package else name.rpartition(".")[0]
    for node in tree.body:
        for statement in node.body if isinstance(node, ast.Try) else [node]:
            if isinstance(statement, ast.Import):
                yield from (alias.name for alias in statement.names)
            elif isinstance(statement, ast.ImportFrom):
                base = resolve_name("." * statement.level + (statement.module or ""), package)
                yield base
                yield from (f"{base}.{alias.name}" for alias in statement.names if alias.name != "*")
