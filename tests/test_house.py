"""The code base itself: who may import whom, what a hook loads, what is public, what is documented.

Reads files and asks the interpreter; needs neither git nor a store.
"""

import ast
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import blake3
import click
import pytest

from locus_cli.lazy import LazyGroup
from locus_cli.root import cli

ROOT = Path(__file__).resolve().parent.parent
PYTHON_ROOTS = {"eventlog": "eventlog", "locus_cli": "cli", "tests": "tests", "benchmarks": "benchmarks"}
TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".sh", ".json", ".yml", ".cfg", ""}
TEXT_DIRECTORIES = ("eventlog", "cli", "tests", "benchmarks", "scripts", "docs", ".ci")

# docs/design.md §1: a room imports from its own or from lower ones.
ROOM_RANKS = {
    "base": 0,
    "secrets": 1,
    "agents": 2,
    "log": 2,
    "blobs": 3,
    "projections": 3,
    "setup": 3,
    "check": 4,
    "query": 4,
    "worktree": 4,
    "checkout": 5,
    "gc": 5,
    "search": 5,
    "replay": 6,
    "hooks": 7,
    "restore": 7,
    "reports": 8,
    "undo": 8,
    "reading": 9,
    "store": 9,
    "multi_store": 10,
    "question": 10,
    "erasure": 10,
    "maintenance": 10,
    "recorder": 10,
    "exports": 11,
    "frameworks": 11,
    "lake": 12,
    "importers": 11,
    "memory": 11,
    "repair": 11,
    "retention": 11,
    "doctor": 12,
    "mcp": 13,
    "view": 13,
}
TOP = max(ROOM_RANKS.values()) + 1  # the commands
# Invariants of docs/design.md that no test can show yet, and what they wait for.
WAITING_INVARIANTS: dict[str, str] = {}


def modules(*packages: str) -> dict[str, Path]:
    """Module name → file, for the packages given (all of them by default)."""
    found = {}
    for package in packages or PYTHON_ROOTS:
        base = ROOT / PYTHON_ROOTS[package]
        for path in sorted(base.rglob("*.py")):
            parts = [package, *path.relative_to(base).with_suffix("").parts]
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def text_files() -> Iterator[Path]:
    for directory in TEXT_DIRECTORIES:
        for path in sorted((ROOT / directory).rglob("*")):
            if path.is_file() and path.suffix in TEXT_SUFFIXES and "__pycache__" not in path.parts:
                yield path
    for path in sorted(ROOT.iterdir()):
        if path.is_file() and path.suffix in TEXT_SUFFIXES and path.name != ".git":
            yield path


@dataclass(frozen=True)
class Outline:
    """What a file says of itself: read once for all tests of this module."""

    docstring: str | None
    imports: tuple[tuple[ast.Import | ast.ImportFrom, bool], ...]  # and whether only to check types
    functions: tuple[tuple[str, str | None], ...]
    classes: tuple[tuple[str, str | None], ...]
    names: tuple[tuple[int, str], ...]  # that the file gives, each with its line
    texts: tuple[str, ...]


@cache
def outline(path: Path) -> Outline:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    of: dict[type[ast.AST], list[Any]] = defaultdict(list)
    for node in nodes:
        of[type(node)].append(node)
    typing = {
        id(below)
        for branch in of[ast.If]
        if ast.unparse(branch.test).endswith("TYPE_CHECKING")
        for statement in branch.body
        for below in ast.walk(statement)
    }
    functions = [*of[ast.FunctionDef], *of[ast.AsyncFunctionDef]]
    return Outline(
        ast.get_docstring(tree),
        tuple((n, id(n) in typing) for n in (*of[ast.Import], *of[ast.ImportFrom])),
        tuple((n.name, ast.get_docstring(n)) for n in functions),
        tuple((n.name, ast.get_docstring(n)) for n in of[ast.ClassDef]),
        tuple(name for kind in _NAMING for node in of[kind] if (name := name_of(node)) is not None),
        tuple(n.value for n in of[ast.Constant] if isinstance(n.value, str)),
    )


_NAMING = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.arg, ast.Name, ast.Attribute, ast.alias
)  # fmt: skip


def imports(name: str, path: Path, *, typing_too: bool = False) -> Iterator[str]:
    """Every module that the file imports, wherever in the file; absolute names."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node, typing in outline(path).imports:
        if typing and not typing_too:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def rank_of(module: str) -> int | None:
    """Height of the room that a module belongs to, None when it is not ours."""
    parts = module.split(".")
    if parts[0] == "locus_cli":
        return TOP
    if parts[0] != "eventlog" or len(parts) == 1:
        return None
    return ROOM_RANKS.get(parts[1])


def test_rooms_import_downwards_only() -> None:
    """A module imports from its own room or from lower ones (docs/design.md §1)."""
    wrong = []
    for name, path in modules("eventlog", "locus_cli").items():
        if name == "eventlog":
            continue  # the public face resolves names from all rooms, lazily
        rank = rank_of(name)
        assert rank is not None, (
            f"{name} belongs to no room: add it to the table above and to docs/design.md §1"
        )
        for imported in imports(name, path):
            other = rank_of(imported)
            same_room = imported.split(".")[:2] == name.split(".")[:2] or rank == TOP
            if other is not None and (other > rank or (other == rank and not same_room)):
                wrong.append(f"{name} imports {imported}")

    assert wrong == []


# Imports within a function, of a module that needs this one: two halves of one thing, one of which few need.
LATE_IMPORTS = {
    ("eventlog.lake.tables", "eventlog.lake.derived"),
    ("eventlog.memory.codes", "eventlog.memory.codes_files"),
    ("eventlog.replay.line_counts", "eventlog.replay.linediff"),
    ("eventlog.worktree.statcache", "eventlog.worktree.statcache_upkeep"),
    ("locus_cli.hook_entry", "locus_cli.contents"),
}


def test_no_modules_import_one_another_in_a_circle() -> None:
    """Each module can be read after those that it imports, wherever in it they are imported."""
    ours = modules("eventlog", "locus_cli")
    needs = {
        name: {other for other in imports(name, path) if other in ours} - {name}
        for name, path in ours.items()
        if name != "eventlog"  # the public face resolves names from all rooms, lazily
    }
    for name, other in LATE_IMPORTS:
        needs[name].remove(other)

    assert list(TopologicalSorter(needs).static_order())


def test_an_agent_is_known_in_one_folder() -> None:
    """The package of an agent needs what all agents share and the ground, and no other agent's."""
    wrong = []
    for name, path in modules("eventlog").items():
        parts = name.split(".")
        if parts[1:2] != ["agents"] or len(parts) < 4:
            continue
        own = (f"eventlog.agents.{parts[2]}", "eventlog.agents.kit", "eventlog.base")
        for imported in imports(name, path):
            if imported.startswith("eventlog.") and not imported.startswith(own):
                wrong.append(f"{name} imports {imported}")

    assert wrong == []


# Modules that name an agent all the same, and why.
NAMES_AN_AGENT = {
    "cli/mcp/__init__.py": "entries of servers from before agents were named in them are its",
    "eventlog/frameworks/claude_agent.py": "sessions of its SDK are its",
    "eventlog/exports/otlp.py": "models are called like it",
}
HOMONYMS = {"atif", "cursor", "pi"}  # a format, a place in a log, a number


def test_an_agent_is_named_in_one_folder() -> None:
    """Its record is read everywhere; outside of its package no code has a text that is its name."""
    from eventlog import agents

    names = {name for spec in agents.specs() for name in (spec.name, spec.command_name)} - HOMONYMS
    users = set()
    for module, path in modules("eventlog", "locus_cli").items():
        if module.startswith("eventlog.agents."):
            continue
        for text in outline(path).texts:
            if names & {text, *re.findall(r"'([\w-]+)'", text)}:
                users.add(f"{path.relative_to(ROOT)}: {text[:60]}")

    assert {user.partition(":")[0] for user in users} == NAMES_AN_AGENT.keys(), users


def test_a_record_of_an_agent_is_sound() -> None:
    """Each field is one of the record, each module that it names is there and has what it is named for."""
    from eventlog import agents
    from eventlog.agents.kit.spec import FrozenRecord

    def check(record: FrozenRecord) -> None:
        fields = vars(record)
        assert fields.keys() <= type(record).__annotations__.keys()
        for name in type(record).__annotations__:
            getattr(record, name)  # what has no default is given
        for field in fields.values():
            if isinstance(field, FrozenRecord):
                check(field)
        with pytest.raises(AttributeError):
            record.name = "other"  # type: ignore[attr-defined]

    assert len(agents.specs()) >= 9
    for spec in agents.specs():
        check(spec)
        assert spec.home is not None or (spec.settings is None and spec.server is None)
        for module, function in (
            (spec.hooks and spec.hooks.adapter, "interpret"),
            (spec.hooks and spec.hooks.model_calls, "read_calls"),
            (spec.settings and spec.settings.plugin, "put_in"),
            (spec.settings and spec.settings.check, "check"),
            (spec.transcripts and spec.transcripts.reader, "recognises"),
        ):
            assert module is None or callable(getattr(agents.loaded(module), function))


# Words that say nothing of the thing (docs/glossary.md): as a whole identifier, and as a part of one.
NO_PARTS = frozenset(("said", "told", "heard", "place", "places", "behind", "due", "young", "sound"))
NO_NAMES = NO_PARTS | {"one", "ones", "found", "look", "looks", "looked", "keep", "kept", "many", "gate"}
NAMES_OF_THE_FIELD = ("in_place",)
PLACES = ("eventlog/lake/", "cli/lake/")  # where `place` names the thing: the bucket or folder of a lake
PROMISED_NAMES = {"eventlog/restore/plan.py": {"kept"}}  # docs/api.md has them


def name_of(node: ast.AST) -> tuple[int, str] | None:
    """The name that a node gives, with its line: of a function, class, parameter, field or variable."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return node.lineno, node.name
        case ast.arg():
            return node.lineno, node.arg
        case ast.Name(ctx=ast.Store()):
            return node.lineno, node.id
        case ast.Attribute(ctx=ast.Store()):
            return node.lineno, node.attr
        case ast.alias(asname=str(name)):
            return node.lineno, name
    return None


def says_nothing(name: str) -> bool:
    """Whether an identifier is made of words that name no thing."""
    words = re.sub("([a-z0-9])([A-Z])", r"\1_\2", name).lower().strip("_")
    for term in NAMES_OF_THE_FIELD:
        words = words.replace(term, "")
    return words in NO_NAMES or not NO_PARTS.isdisjoint(words.split("_"))


def test_identifiers_name_things() -> None:
    """One idea, one word (docs/glossary.md): no name of a private dialect, in code or as a module."""
    wrong = []
    for module, path in modules("eventlog", "locus_cli").items():
        term = "[Pp]laces?|PLACE" if str(path.relative_to(ROOT)).startswith(PLACES) else "$"
        if says_nothing(re.sub(term, "", module.rpartition(".")[2])):
            wrong.append(f"{path.relative_to(ROOT)}: the module")
        wrong += [
            f"{path.relative_to(ROOT)}:{line}: {name}"
            for line, name in outline(path).names
            if says_nothing(re.sub(term, "", name))
            and name not in PROMISED_NAMES.get(str(path.relative_to(ROOT)), ())
        ]

    assert wrong == []


def test_no_two_public_classes_share_a_name() -> None:
    """One name, one thing: but for the two that a seed gives to what `EngramStore` takes and answers."""
    homes: dict[str, list[str]] = {}
    for module, path in modules("eventlog", "locus_cli").items():
        for name, _ in outline(path).classes:
            if not name.startswith("_"):
                homes.setdefault(name, []).append(module)
    shared = {name for name, where in homes.items() if len(where) > 1}

    assert shared == {"Event", "Session"}


@pytest.mark.parametrize(
    ("library", "allowed"),
    [
        ("click", ("locus_cli",)),
        ("duckdb", ("eventlog.query", "eventlog.projections", "eventlog.exports")),
        (
            "pyarrow",
            (
                "eventlog.log",
                "eventlog.blobs.pack",
                # RE2 scans the contents of an import many times faster than Python.
                "eventlog.secrets.engines",
                "eventlog.projections",
                "eventlog.query",
                # Events are indexed from Arrow batches, and kept as such for showing hits.
                "eventlog.search",
                # Segments are rebuilt from the row groups that verify.
                "eventlog.repair",
                "eventlog.exports.locusgraph.locusgraph",
                "eventlog.lake",  # what is published are Parquet files
                # Rollouts may be zstd files; Python 3.11 reads none.
                "eventlog.agents.kit.lines",
                "locus_cli.output",
            ),
        ),
        # Extras, each for agents of that library.
        ("langchain_core", ("eventlog.frameworks.langgraph",)),
        ("agents", ("eventlog.frameworks.openai_agents",)),
        ("claude_agent_sdk", ("eventlog.frameworks.claude_agent",)),
        # An extra: only who asks for costs needs it.
        ("genai_prices", ("eventlog.query.prices",)),
        ("hyperscan", ("eventlog.secrets.engines",)),
        # Extras: only who sends, and who serves.
        ("urllib3", ("eventlog.exports.locusgraph.courier",)),
        *((name, ("eventlog.mcp",)) for name in ("mcp", "mcp_types", "anyio")),
        *((name, ("eventlog.view",)) for name in ("starlette", "uvicorn", "h11", "pygments")),
        # A line of an import is parsed as a whole: three times faster than by the standard library.
        (
            "orjson",
            (
                "eventlog.base.jsontext",
                "eventlog.log",
                # Millions of payloads are parsed while they are indexed.
                "eventlog.search",
                "eventlog.exports.jsonl",
                # The keys of each payload that is sent.
                "eventlog.exports.locusgraph.wire",
                "eventlog.lake",  # the payloads of all that is published
                "eventlog.importers",
                "eventlog.agents",
                "locus_cli.output",
            ),
        ),
    ],
)
def test_heavy_libraries_stay_in_their_rooms(library: str, allowed: tuple[str, ...]) -> None:
    """A heavy library is imported by the rooms that own it and by no other (I34)."""
    users = {
        name
        for name, path in modules("eventlog", "locus_cli").items()
        if any(imported.split(".")[0] == library for imported in imports(name, path))
    }

    assert {u for u in users if not u.startswith(allowed)} == set()


HEAVY_FOR_A_HOOK = {
    "click", "pyarrow", "duckdb", "orjson", "rich", "dataclasses", "uuid", "typing", "pathlib", "inspect",
    "re", "enum", "json", "subprocess", "signal", "concurrent", "threading", "collections", "contextlib",
    "functools", "operator", "binascii", "bisect",
}  # fmt: skip

HOOK_PROBE = """
import os, sys
sys.path[:0] = [{root!r}, {site!r}]
package = type(sys)("locus_cli")
package.__path__ = [{root!r} + "/cli"]
sys.modules["locus_cli"] = package
before = set(sys.modules)
import locus_cli.hook_entry
at_import = set(sys.modules) - before
os._exit = lambda code: None
for said in {inputs!r}:
    if said.endswith("PostToolUse"):
        open({target!r}, "w").write("two")
    os.dup2(os.open(said, os.O_RDONLY), 0)
    sys.argv = ["locus-hook", "claude-code"]
    locus_cli.hook_entry.main()
print(" ".join(sorted(at_import)))
print(" ".join(sorted(set(sys.modules) - before)))
"""


def test_a_hook_loads_no_heavy_module(tmp_path: Path) -> None:
    """I34: an edit recorded with a capture and a pack loads no click, pyarrow, duckdb, orjson, dataclasses,
    uuid, typing, pathlib, inspect, re, enum, json or collections, and no room but those of the hook path.

    Measured in an interpreter without site-packages hooks, so that only our imports count.
    """
    from eventlog.base import config
    from eventlog.store import Store

    work = tmp_path / "work"
    work.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    with Store.init(work / ".locus") as store:
        config.set_keeps_ignored(store.fs, store.layout, True)
    target = str(work / "a.py")
    shared = {
        "session_id": "s",
        "prompt_id": "p",
        "cwd": str(work),
        "tool_name": "Edit",
        "tool_use_id": "t_1ab2c",
    }
    result = {"filePath": target, "originalFile": "one", "structuredPatch": [{"lines": ["-one", "+two"]}]}
    inputs = []
    for name, fields in (
        ("UserPromptSubmit", {"prompt": "Change it"}),
        ("PreToolUse", {"tool_input": {"file_path": target}}),
        ("PostToolUse", {"tool_input": {"file_path": target}, "tool_response": result}),
    ):
        inputs.append(str(tmp_path / name))
        Path(inputs[-1]).write_text(json.dumps({**shared, "hook_event_name": name, **fields}))
    (work / "a.py").write_text("one")
    site = str(Path(blake3.__file__).parent.parent)
    probe = HOOK_PROBE.format(root=str(ROOT), site=site, inputs=inputs, target=target)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", probe], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    at_import, in_all = (set(line.split()) for line in done.stdout.splitlines())

    assert at_import <= {"locus_cli.hook_entry"}
    assert {name.split(".")[0] for name in in_all} & HEAVY_FOR_A_HOOK == set()
    rooms = {n.split(".")[1] for n in in_all if n.startswith("eventlog.")}
    assert rooms <= {"base", "secrets", "log", "agents", "blobs", "worktree", "hooks"}
    ours = [name for name in in_all if name.startswith("eventlog")]
    packages = [name for name in ours if any(other.startswith(f"{name}.") for other in ours)]
    assert len(ours) - len(packages) <= 55
    assert len(packages) <= 10
    with Store.open(work / ".locus") as store:
        recorded = list(store.events())
    assert [e["path"] for e in recorded if e["event_type"] == "file"] == ["a.py"]
    assert len(list((work / ".locus/snapshots/packs").iterdir())) > 0


@pytest.mark.parametrize("arguments", [["--help"], ["log", "--help"], ["--version"], ["store", "--help"]])
def test_words_alone_load_no_engine(arguments: list[str]) -> None:
    """Help and version load neither DuckDB nor pyarrow (I34 for people)."""
    probe = (
        "import sys\nfrom locus_cli.main import run\n"
        f"assert run({arguments!r}) == 0\n"
        "print([m for m in ('duckdb', 'pyarrow', 'eventlog.store') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)

    assert done.stderr.strip() == "[]"


def test_public_names_resolve_and_are_documented() -> None:
    """Every name of `eventlog.__all__` exists, and docs/api.md has a section or a row for exactly these."""
    import eventlog

    documented = re.findall(r"^(?:## |\| )`(\w+)`", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.M)

    assert all(getattr(eventlog, name) is not None for name in eventlog.__all__)
    assert sorted(documented) == sorted(eventlog.__all__)


# They run inside other programs or in the background, where each import counts (docs/hooks.md).
NO_COMMANDS = {"hook_entry", "contents", "maintainer", "live_costs", "statusline_entry"}


def test_commands_take_public_names_from_the_package() -> None:
    """A command is a client of `eventlog`: what is public it takes from there, not from a module below."""
    import eventlog

    homes = {f"{home}.{name}" for name, home in eventlog._HOME_OF.items()}
    wrong = [
        f"{name} imports {imported}"
        for name, path in modules("locus_cli").items()
        if name.rpartition(".")[2] not in NO_COMMANDS
        for imported in imports(name, path, typing_too=True)
        if imported in homes
    ]

    assert wrong == []


@pytest.mark.parametrize("name", ["Store", "Recorder", "Hooks"])
def test_public_methods_are_documented(name: str) -> None:
    """docs/api.md shows every public method of the public classes, and no other."""
    import eventlog

    text = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", text.split(f"## `{name}`", 1)[1], maxsplit=1, flags=re.M)[0]
    documented = set(re.findall(r"^- `(\w+)", section, re.M))
    own = {n for n in dir(getattr(eventlog, name)) if not n.startswith("_")}

    assert documented == own


def test_no_unknown_public_name() -> None:
    """Asking `eventlog` for a name it does not have is an AttributeError, as for any module."""
    import eventlog

    with pytest.raises(AttributeError, match="nonsense"):
        _ = eventlog.nonsense


def commands(group: click.Command, path: str = "locus") -> Iterator[tuple[str, click.Command]]:
    """Every command with the words that call it, groups included."""
    yield path, group
    if isinstance(group, LazyGroup):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from commands(command, f"{path} {name}")


def help_of(path: str, command: click.Command) -> str:
    """The help text of a command at 80 columns."""
    context: click.Context | None = None
    words = path.split()
    for i, word in enumerate(words):
        name = " ".join(words[: i + 1]) if i == 0 else word
        made = command if i == len(words) - 1 else click.Command(word)
        context = click.Context(made, info_name=name, parent=context, terminal_width=80, max_content_width=80,
                                help_option_names=["-h", "--help"])  # fmt: skip
    assert context is not None
    return command.get_help(context)


def test_every_command_and_option_is_documented() -> None:
    """docs/cli.md holds the help text of every command, word for word.

    LOCUS_UPDATE=1 writes the present help texts into the page instead of comparing.
    """
    page = ROOT / "docs/cli.md"
    text = page.read_text(encoding="utf-8")
    for path, command in commands(cli):
        block = f"## `{path}`\n\n```text\n{help_of(path, command)}\n```\n"
        pattern = re.compile(rf"## `{re.escape(path)}`\n\n```text\n.*?\n```\n", re.S)
        if os.environ.get("LOCUS_UPDATE") == "1":
            text = pattern.sub(lambda _, new=block: new, text) if pattern.search(text) else f"{text}\n{block}"
            page.write_text(text, encoding="utf-8")
        found = pattern.search(text)
        assert found is not None, f"docs/cli.md has no section for {path}"
        assert found[0] == block

    documented = re.findall(r"^## `(locus[^`]*)`$", text, re.M)
    assert sorted(documented) == sorted(path for path, _ in commands(cli))


def test_help_lists_say_what_the_commands_say() -> None:
    """The summary of a verb in a group's table is the first sentence of the verb's own help."""
    for path, group in commands(cli):
        if not isinstance(group, LazyGroup):
            continue
        for entries in group.sections.values():
            for entry in entries:
                command = group.get_command(click.Context(group), entry.name)
                assert command is not None
                first = (command.help or "").split("\n\n")[0].replace("\n", " ")
                assert first.startswith(entry.summary.rstrip(".")), f"{path} {entry.name}"
                assert command.name == entry.name


def test_every_module_has_a_docstring() -> None:
    """Each module opens by saying what it is."""
    without = [name for name, path in modules().items() if not outline(path).docstring]

    assert [name for name in without if not (name == "tests" or name.startswith("tests."))] == []
    assert [n for n in without if modules()[n].name != "__init__.py"] == []


def test_functions() -> Iterator[tuple[str, str]]:
    """(where, docstring) of every test function and state machine."""
    for name, path in modules("tests").items():
        reported = outline(path)
        tests = ((test, text or "") for test, text in reported.functions if test.startswith("test_"))
        for each, text in (*tests, *((kind, text or "a class") for kind, text in reported.classes)):
            yield f"{name}.{each}", text


test_functions.__test__ = False  # type: ignore[attr-defined]


def test_every_test_states_its_behaviour() -> None:
    """Each test function has a docstring that says what is expected."""
    assert [where for where, docstring in test_functions() if not docstring] == []


def test_every_invariant_has_a_test_or_a_reason() -> None:
    """I1…I38 are quoted by a test's docstring each, but for those that wait for a feature."""
    quoted = {n for _, docstring in test_functions() for n in re.findall(r"\bI\d+\b", docstring)}
    ranges = re.findall(r"\bI(\d+)[–-]I(\d+)\b", " ".join(d for _, d in test_functions()))
    quoted |= {f"I{n}" for first, last in ranges for n in range(int(first), int(last) + 1)}
    expected = {f"I{n}" for n in range(1, 39)}

    assert expected - quoted - set(WAITING_INVARIANTS) == set()
    assert quoted - expected == set()


def test_nothing_names_this_machine() -> None:
    """No file names a path of somebody's machine, a package index, or where packages come from."""
    places = [f"/{name}/" for name in ("work", "root", "opt")]
    words = [*places, "py" + "pi.org", "pythonhosted" + ".org", "index" + "-url", "find" + "-links"]
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in text_files()
        for word in words
        if word in path.read_text(encoding="utf-8", errors="replace")
    ]

    assert found == []


def test_constraints_are_plain_pins() -> None:
    """constraints.txt holds name==version lines, sorted, one for each package, and nothing else."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()

    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9A-Za-z.]*", line)] == []
    names = [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines]
    assert names == sorted(set(names))


def test_dependencies_are_pinned_and_explained() -> None:
    """Every dependency of pyproject.toml has its pin and its reason in docs/dependencies.md."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = list(project["project"]["dependencies"]) + list(project["build-system"]["requires"])
    for extra in project["project"].get("optional-dependencies", {}).values():
        wanted += (name for name in extra if not name.startswith("locus-eventlog["))
    names = {re.split(r"[<>=!~;\[ ]", requirement, maxsplit=1)[0] for requirement in wanted}
    pins = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    explained = set(
        re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs/dependencies.md").read_text(encoding="utf-8"), re.M)
    )

    assert names - pins == set()
    assert explained == names


def test_every_import_is_a_declared_dependency() -> None:
    """The packages import the standard library, each other and what pyproject.toml declares."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[<>=]", name)[0].replace("-", "_").lower() for name in requirements}

    to_run = names(project["dependencies"]) | {"eventlog", "locus_cli"}
    for extra in ("http", "meaning", "cost", "frames", "spark", "fast", "view"):
        to_run |= names(project["optional-dependencies"][extra])
    to_run |= {"langchain_core", "agents", "claude_agent_sdk"}  # frameworks
    to_run |= {"h11", "obstore", "pyiceberg", "sqlalchemy"}  # uvicorn's; lake, and what its catalogs raise
    to_run |= names(project["optional-dependencies"]["mcp"]) | {"mcp_types", "anyio"}  # which it brings along
    to_work = to_run | names(project["optional-dependencies"]["dev"])
    to_work |= {"tests", "benchmarks", "conftest", "psycopg2", "playwright", "axe_playwright_python"}
    to_work |= {"nbclient", "nbformat"}
    wrong = {
        f"{name} imports {imported}"
        for name, path in modules().items()
        for imported in imports(name, path, typing_too=True)
        if (top := imported.split(".")[0]) not in sys.stdlib_module_names
        and top not in (to_run if name.startswith(("eventlog", "locus_cli")) else to_work)
    }

    assert wrong == set()


def test_changelog_has_the_agreed_form() -> None:
    """CHANGELOG.md: versions with dates, newest first, each with known kinds of change."""
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    heads = [line for line in lines if line.startswith("## ")]
    kinds = {line for line in lines if line.startswith("### ")}

    assert lines[0] == "# Changelog"
    assert heads[0] == "## [Unreleased]"
    assert all(re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", head) for head in heads[1:])
    assert kinds <= {
        f"### {kind}" for kind in ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
    }


SCRIPTS = [
    ".ci/run",
    *(f"scripts/{name}" for name in ("bench", "check", "demo", "dist", "docs", "e2e", "mutants")),
    *(f"scripts/{name}" for name in ("release", "test", "_venv")),
]
STAGES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "scripts/ci.d").iterdir())


@pytest.mark.parametrize("name", [*SCRIPTS, *STAGES])
def test_scripts_are_plain_posix_shell(name: str) -> None:
    """Scripts are read by any POSIX shell: no bash words, and the syntax is accepted."""
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    subprocess.run(["sh", "-n", str(path)], check=True)

    assert name == "scripts/_venv" or text.startswith("#!/bin/sh\n")
    assert name == "scripts/_venv" or os.access(path, os.X_OK)
    assert not re.search(r"\[\[|\bfunction \w|\blocal \b|<<<|\$'|\bsource \b|pipefail|&>", text)


def test_ci_runs_what_the_readme_says() -> None:
    """S0-24: .ci/run runs, as stages, the README's test command and scripts/check: types, linter, tests."""
    run = (ROOT / ".ci/run").read_text(encoding="utf-8")
    steps = "".join((ROOT / stage).read_text(encoding="utf-8") for stage in STAGES).splitlines()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert "scripts/stages.py" in run
    assert "exec scripts/test -p tests.closing_line" in steps and "exec scripts/check" in steps
    assert "exec scripts/test -m long" in steps
    assert re.search(r"^scripts/test\b", readme, re.M)


def test_the_map_shows_every_room() -> None:
    """docs/architecture.md names each room with its floor and the first line of what it says of itself."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    listed = {
        room: (int(floor), line)
        for room, floor, line in re.findall(r"^\| `(\w+)` \| (\d+) \| (.*) \|$", page, re.M)
    }
    payload = {}
    for room, floor in ROOM_RANKS.items():
        home = ROOT / "eventlog" / room
        path = home / "__init__.py" if home.is_dir() else home.with_suffix(".py")
        payload[room] = floor, (outline(path).docstring or "").split("\n")[0]

    assert listed == payload


def test_the_map_names_what_is_there() -> None:
    """Each function and class that docs/architecture.md names is in the file that it names."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:cli/)?[\w/]+\.py)(?::([\w.]+))?`", page.partition("## The flows")[2])
    missing = []
    for file, name in named:
        path = ROOT / file if file.startswith("cli/") else ROOT / "eventlog" / file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        last = name.rpartition(".")[2]
        if not text or (last and not re.search(rf"^\s*(def|class) {last}\b", text, re.M)):
            missing.append(f"{file}:{name}")

    assert len(named) > 10
    assert missing == []
