"""How a hook is started: the command lines that agents run, and the stub file that the fastest one names.

The console script `locus-hook` starts Python with `site`: it searches site-packages, runs `.pth`
files and, in an editable install, an import hook, before it comes to our code. The stub leaves all that out:
`python -IS` knows the standard library only, and the stub adds the few directories that a hook needs.

A hook must never get in the agent's way (P4), whatever became of this installation since. So the line
starts nothing when interpreter or stub are gone (Python ends with 2 when it cannot open a file, which tells
an agent to *block*), throws away what the interpreter says, and the stub ends with 0 when our modules cannot
be imported.
"""

import os
import shlex
import sys

from eventlog import __version__, agents
from eventlog.base.errors import EventLogError
from eventlog.base.fs import FileSystem, read_file, translate_os_errors
from eventlog.setup import launch_modules

STUB = "locus-hook.py"
PROGRAM = "locus-hook"

# What a hook imports, and what it may come to import: compiled when the hooks are installed.
_COMPILED = ("", "base", "secrets", "log", "blobs", "worktree", "hooks", "memory", "agents", "agents/kit")

_STUB_TEXT = '''\
"""Starts the hook program of Locus {version}. Made by `locus hooks install`, which makes it anew."""

import gc
import sys

gc.disable()  # the process is gone before there is anything to collect
try:
    sys.path += {paths!r}
    package = type(sys)("locus_cli")
    package.__path__ = [{commands!r}]
    sys.modules["locus_cli"] = package
    try:
        import marshal, posix

        fd = posix.open({modules!r}, posix.O_RDONLY | posix.O_CLOEXEC)
        head = posix.read(fd, {head_size})
        version = sys.version.encode() + b"\\n"
        if head.startswith(version):
            loader, groups, extensions = marshal.loads(memoryview(head)[len(version) :])
            names = {{"__name__": "eventlog.setup.launch_loader"}}
            exec(loader, names)
            names["load"](fd, groups, extensions)
    except Exception:
        pass  # then each module is looked for
    from locus_cli.hook_entry import main
except BaseException:
    import os

    os._exit(0)  # an agent's hook never fails; `locus doctor` finds out why nothing is recorded
main()
'''


def portable_line(agent: str) -> str:
    """The line for files that go to other machines: the program by its name, nothing where it is unknown."""
    return f"command -v {PROGRAM} >/dev/null 2>&1 && exec {PROGRAM} {agent} 2>/dev/null; exit 0"


def fast_line(agent: str, stub: str, python: str = "") -> str:
    """The line for this machine: the interpreter, without its site, and the stub."""
    interpreter, script = shlex.quote(python or sys.executable), shlex.quote(stub)
    return (
        f"[ -x {interpreter} ] && [ -r {script} ] && "
        f"exec {interpreter} -IS {script} {agent} 2>/dev/null; exit 0"
    )


def status_line(program: str = "locus") -> dict[str, object]:
    """The status line of an agent's settings. Args: program: the path of `locus`, or its name."""
    return {"type": "command", "command": f"{shlex.quote(program)} statusline"}


def missing_program(command: str) -> "str | None":
    """The program of a status line of ours, None where it is there."""
    import shutil

    program = shlex.split(command)[0]
    return None if shutil.which(program) else program


def own_program() -> str:
    """The path of this installation's `locus`. Raises: EventLogError where there is none."""
    import sysconfig

    path = f"{sysconfig.get_path('scripts')}/locus"
    if not os.access(path, os.X_OK):
        raise EventLogError(f"there is no program {path}, which a status line would start. Use --project.")
    return path


def named_in(line: str, agent: str) -> tuple[str, str] | None:
    """(interpreter, stub) of a line that `fast_line` made, None for any other."""
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    if len(words) < 9 or line != fast_line(agent, words[7], words[2]):
        return None
    return words[2], words[7]


def make_stub(fs: FileSystem, commands: str, data_home: str) -> str:
    """Write the stub for this installation, compile what it imports; the stub's path.

    Args: commands: the directory of the package `locus_cli`; data_home: where the stub goes when this Python
    is not a virtual environment that we may write to. Raises: EventLogError.
    """
    if not sys.executable:
        raise EventLogError("this Python does not know its own path, so no hook can start it. Use --project.")
    compile_modules(commands)
    directory = stub_directory(data_home)
    path, modules = f"{directory}/{STUB}", f"{directory}/{launch_modules.MODULES}"
    text = _STUB_TEXT.format(
        version=__version__,
        paths=_paths(),
        commands=commands,
        modules=modules,
        head_size=launch_modules.HEAD_SIZE,
    ).encode()
    with translate_os_errors(path, "write the files that start hooks"):
        os.makedirs(directory, exist_ok=True)
        launch_modules.renew(fs, modules, commands)
        if not os.path.exists(path) or read_file(fs, path) != text:
            launch_modules.replace(fs, path, text)
    return path


def renew_modules(fs: FileSystem, commands: str, program: str) -> None:
    """Remake the file of modules beside the stub `program` when it is old. Never fails."""
    modules = f"{os.path.dirname(program)}/{launch_modules.MODULES}"
    if os.path.basename(program) == STUB and os.path.exists(modules):
        try:
            launch_modules.renew(fs, modules, commands)
        except Exception:
            pass  # it is not used, and hooks search for each of their modules


def stub_directory(data_home: str) -> str:
    """Where this installation's stub is: it goes with the virtual environment, if there is one."""
    if sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK):
        return f"{sys.prefix}/share/locus"
    from blake3 import blake3

    return f"{data_home}/locus/hook-{blake3(os.fsencode(sys.prefix)).hexdigest()[:16]}"


def stub_root(data_home: str) -> str:
    """The directory without which no hook of this installation starts: the virtual environment that holds the
    stub and the interpreter, else the stub's own."""
    directory = stub_directory(data_home)
    return sys.prefix if directory.startswith(f"{sys.prefix}/") else directory


def compile_modules(commands: str) -> None:
    """Compile the modules of a hook, so that no call pays for it; where we may not write, nothing happens."""
    import compileall
    import py_compile

    here, library = _packages()
    checked = py_compile.PycInvalidationMode.TIMESTAMP  # whatever SOURCE_DATE_EPOCH makes of the default
    for directory in (*(os.path.join(here, name) for name in _compiled()), library):
        compileall.compile_dir(directory, maxlevels=0, quiet=2, invalidation_mode=checked)
    compileall.compile_file(f"{commands}/hook_entry.py", quiet=2, invalidation_mode=checked)


def uncompiled(commands: str) -> list[str]:
    """The modules that a hook may import whose compiled form is missing or old."""
    import importlib.util

    here, _ = _packages()
    sources = [f"{commands}/hook_entry.py"]
    for name in _compiled():
        directory = os.path.join(here, name)
        sources += [os.path.join(directory, file) for file in os.listdir(directory) if file.endswith(".py")]
    return sorted(path for path in sources if not _is_compiled(path, importlib.util.cache_from_source(path)))


def _compiled() -> list[str]:
    """The directories of our package that are compiled: of agents, those that have hooks."""
    return [*_COMPILED, *(f"agents/{spec.name.replace('-', '_')}" for spec in agents.installable())]


def _is_compiled(source: str, compiled: str) -> bool:
    """Whether the header of the compiled file names this source: by its time and size, or by its hash."""
    try:
        with open(compiled, "rb") as file:
            header = file.read(16)
        status = os.stat(source)
    except OSError:
        return False
    if int.from_bytes(header[4:8], "little"):
        return True
    times = (int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)
    return (int.from_bytes(header[8:12], "little"), int.from_bytes(header[12:16], "little")) == times


def _paths() -> list[str]:
    """The directories that a hook's imports are found in, after the standard library."""
    return list(dict.fromkeys(os.path.dirname(package) for package in _packages()))


def _packages() -> tuple[str, str]:
    """The directories of `eventlog` and of the one library that a hook needs."""
    import blake3

    import eventlog

    return os.path.dirname(os.path.abspath(eventlog.__file__)), os.path.dirname(str(blake3.__file__))
