"""The file that a hook's modules come from, on a copy of the sources, by the stub that agents start."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eventlog.setup import launch_modules
from eventlog.store import Store
from tests.setup.test_install import ROOT, count

MAKE = """
import sys
sys.path[:0] = [{root!r}]
import eventlog
from eventlog.setup import launch
from eventlog.base.fs import REAL
assert eventlog.__file__.startswith({root!r})
sys.prefix = sys.base_prefix
print(launch.make_stub(REAL, {root!r} + "/cli", {data!r}))
"""
EDIT = b"""{"session_id": "s", "prompt_id": "p", "hook_event_name": "PostToolUse", "tool_name": "Bash",
"tool_use_id": "t%d", "cwd": "%b", "tool_input": {"command": "make"}}"""


class Installed:
    """A copy of the sources, its stub, and a store; `call` is one hook call."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "copy"
        for name in ("eventlog", "cli"):
            shutil.copytree(ROOT / name, self.root / name, ignore=shutil.ignore_patterns("__pycache__"))
        self.work = directory / "work"
        self.work.mkdir()
        Store.init(self.work / ".locus").close()
        self.make()
        self.calls = 0

    def make(self) -> None:
        code = MAKE.format(root=str(self.root), data=str(self.root / "data"))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.stub = Path(done.stdout.strip())
        self.modules = self.stub.with_name(launch_modules.MODULES)

    def call(self) -> list[str]:
        """The files of ours that the call's modules were looked for in."""
        self.calls += 1
        done = subprocess.run(
            [sys.executable, "-v", "-IS", str(self.stub), "claude-code"],
            input=EDIT % (self.calls, os.fsencode(self.work)),
            capture_output=True,
            env={**os.environ, "LOCUS_NO_MAINTENANCE": "1", "LOCUS_HOOK_PATIENCE": "20"},
            cwd=self.work,
            timeout=60,
        )
        assert done.returncode == 0 and done.stdout == b""
        assert count(self.work / ".locus") >= self.calls
        lines = done.stderr.decode().splitlines()
        loaded = [line for line in lines if line.startswith("# code object from")]
        return [line for line in loaded if str(self.root) in line or "blake3" in line]


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def test_a_hook_searches_for_no_module(installed: Installed) -> None:
    """I34: with one read of the directory and a pack, all modules of a hook come from one file."""
    (installed.work / "new.py").write_text("print(1)\n")
    assert installed.call() == []
    assert list((installed.work / ".locus/snapshots/packs").iterdir())
    assert installed.call() == []


def test_a_changed_source_never_runs_old(installed: Installed) -> None:
    """A module that was changed since the file was made is the one that runs, whatever its size and time."""
    for name in ("eventlog/agents/claude_code/hooks.py", "eventlog/worktree/capture.py"):
        source = installed.root / name
        found = source.stat()
        text = source.read_text()
        source.write_text(text.replace("On the hook path.", "on the hook path.", 1))
        os.utime(source, ns=(found.st_atime_ns, found.st_mtime_ns))
        assert source.stat().st_size == found.st_size and source.stat().st_mtime_ns == found.st_mtime_ns
        looked_for = installed.call()
        assert any(Path(name).stem in line for line in looked_for), name
        assert not launch_modules.is_current(installed.modules.read_bytes())
        installed.make()
        assert installed.call() == []


FIRST = """
import importlib, marshal, os, posix, sys
sys.path += {paths!r}
package = type(sys)("locus_cli")
package.__path__ = [{commands!r}]
sys.modules["locus_cli"] = package
fd = posix.open({modules!r}, posix.O_RDONLY)
head = posix.read(fd, {head_size})
loader, groups, extensions = marshal.loads(head[len(sys.version) + 1 :])
names = {{"__name__": "eventlog.setup.launch_loader"}}
exec(loader, names)
names["load"](fd, groups, extensions)
modules = [name for group in groups[1:] for name in group[0]]
print(len(modules))
sys.stdout.flush()
for name in modules:
    if os.fork():
        _, status = os.wait()
        if status:
            print(name)
    else:
        try:
            importlib.import_module(name)
        except BaseException as error:
            print(repr(error), end=" in ")
            sys.stdout.flush()
            os._exit(1)
        os._exit(0)
"""


def test_any_module_may_be_the_first_that_a_hook_needs(installed: Installed) -> None:
    """P4: what several agents need runs without the package of any of them."""
    stub = installed.stub.read_text()
    (paths,) = (ast.literal_eval(found) for found in re.findall(r"sys\.path \+= (.*)", stub))
    code = FIRST.format(
        paths=paths,
        commands=str(installed.root / "cli"),
        modules=str(installed.modules),
        head_size=launch_modules.HEAD_SIZE,
    )
    done = subprocess.run([sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=True)
    counts, *failed = done.stdout.splitlines()

    assert int(counts) > 50
    assert failed == []


def test_a_bad_file_of_modules_is_passed_over(installed: Installed) -> None:
    """P4: torn, empty, gone or of another Python: the hook records as usual."""
    good = installed.modules.read_bytes()
    version, _, rest = good.partition(b"\n")
    bad = [
        b"",
        good[:200],
        good[: launch_modules.HEAD_SIZE + 100],
        b"3.0.0\n" + rest,
        version + b"\n" + bytes(100),
    ]
    for data in bad:
        installed.modules.write_bytes(data)
        assert installed.call(), data[:40]
    installed.modules.unlink()
    assert installed.call()


def test_what_only_people_read_is_left_out() -> None:
    """I34: no docstrings, annotations, types or line numbers are laid out; what a class says of its fields
    stays, and everything else runs as it is."""
    text = '"""Words."""\nTYPE_CHECKING = False\nif TYPE_CHECKING:\n    import nowhere\n'
    text += 'N: "int" = 2\nM: "int"\n'
    text += 'class C:\n    """Words."""\n    size: "int"\n'
    text += 'def f(a: "int", *b: "int", c: "int" = 1, **d: "int") -> "int":\n'
    text += '    """Words."""\n    return a * N\n'
    code = launch_modules._compiled(ast.parse(text), "module")
    made: dict[str, Any] = {}
    exec(code, made)

    assert (made["f"](3), made["f"].__annotations__, made["f"].__doc__) == (6, {}, None)
    assert made["C"].__annotations__ == {"size": "int"} and made["C"].__doc__ is None
    assert "__annotations__" not in made and "nowhere" not in str(code.co_names)
    assert code.co_linetable == b""


def test_maintenance_rewrites_an_old_file(installed: Installed) -> None:
    """What an upgrade left old is rebuilt beside the first maintenance, from what is there then."""
    source = installed.root / "eventlog/agents/kit/spec.py"
    source.write_text(source.read_text() + "\n# changed\n")
    assert installed.call()
    code = (
        f"import sys; sys.path[:0] = [{str(installed.root)!r}]\n"
        "package = type(sys)('locus_cli'); package.__path__ = [sys.path[0] + '/cli']\n"
        "sys.modules['locus_cli'] = package\n"
        "from locus_cli.maintainer import main\n"
        f"main({str(installed.work / '.locus')!r}, {str(installed.stub)!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)
    assert installed.call() == []
