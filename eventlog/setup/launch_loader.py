"""Runs a hook's modules from one file instead of looking for each of them; `launch_modules` makes it.

This module is in that file itself and is run by the stub before any other module of ours, so it imports
nothing but what every Python has built in. A module runs from the file only while its source is the very
file it was compiled from: the same inode, not touched since. Else the usual import finds it.
"""

import posix
import sys
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType
    from typing import Any

    # inode, size, times of the last change of content and of inode
    Mark = tuple[int, int, int, int]
    # name, path of the source, whether it is a package, code
    Module = tuple[str, str, bool, CodeType]
    # names, (path, mark) of their sources; offset and size of the modules, in the order in which they run
    Group = tuple[Sequence[str], Sequence[tuple[str, Mark]], int, int]


def mark_of(path: str) -> "Mark":
    status = posix.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def load(fd: int, groups: "Sequence[Group]", extensions: "dict[str, str]") -> None:
    """Run the first group, and have the others run as a whole when the first module of each is imported.

    Args: fd: the file, which stays open.
    """
    sys.meta_path.insert(0, _Finder(fd, groups[1:], extensions))
    if _is_fresh(groups[0]):
        _run(fd, groups[0])


class _Finder:
    """Answers an import of what is in the file; an object for `sys.meta_path`."""

    def __init__(self, fd: int, groups: "Sequence[Group]", extensions: "dict[str, str]") -> None:
        self._fd = fd
        self._groups = {name: group for group in groups for name in group[0]}
        self._extensions = extensions

    def find_spec(self, name: str, *_of_package: object) -> "ModuleSpec | None":
        machinery: "Any" = sys.modules["_frozen_importlib"]
        library = self._extensions.get(name)
        if library is not None:
            if not posix.access(library, posix.R_OK):
                return None
            loader = sys.modules["_frozen_importlib_external"].ExtensionFileLoader(name, library)
            return machinery.ModuleSpec(name, loader, origin=library)  # type: ignore[no-any-return]
        group = self._groups.get(name)
        if group is None:
            return None
        for other in group[0]:
            self._groups.pop(other, None)
        if not _is_fresh(group):
            return None
        _run(self._fd, group)
        return machinery.ModuleSpec(name, self)  # type: ignore[no-any-return]

    def create_module(self, spec: "ModuleSpec") -> "ModuleType":
        return sys.modules[spec.name]

    def exec_module(self, module: "ModuleType") -> None:
        """It has run."""


def _is_fresh(group: "Group") -> bool:
    try:
        return all(mark_of(path) == mark for path, mark in group[1])
    except OSError:
        return False


def _run(fd: int, group: "Group") -> None:
    """Run modules one after the other: what each of them imports has run before it."""
    modules = sys.modules
    new = type(sys)
    for name, path, is_package, code in loads(posix.pread(fd, group[3], group[2])):
        if name in modules:
            continue
        module = new(name)
        parent, _, last = name.rpartition(".")
        module.__file__ = path
        module.__package__ = name if is_package else parent
        if is_package:
            module.__path__ = [path.rpartition("/")[0]]
        modules[name] = module
        try:
            exec(code, module.__dict__)
        except BaseException:
            modules.pop(name, None)
            raise
        if parent:
            setattr(modules[parent], last, module)
