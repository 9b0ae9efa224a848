"""Takes from a starting interpreter what macOS has not: `tests.macos.interpreter` appends it to `encodings`.

It runs in each process of that interpreter, also with `-I` and `-S`, before any module of ours or the library
is loaded: so names are gone from `posix` before `os` copies them, and nothing has opened a file yet.
What stays is Linux underneath: names are bytes, and case matters.
"""


def _mask():
    import _io
    import builtins
    import errno
    import posix
    import sys

    # Python's documentation: "Availability" without macOS.
    functions = (
        "copy_file_range", "eventfd", "eventfd_read", "eventfd_write", "fdatasync", "getrandom", "getresgid",
        "getresuid", "getxattr", "listxattr", "memfd_create", "pidfd_open", "pipe2", "posix_fadvise",
        "posix_fallocate", "removexattr", "sched_getaffinity", "sched_getparam", "sched_getscheduler",
        "sched_rr_get_interval", "sched_setaffinity", "sched_setparam", "sched_setscheduler", "setresgid",
        "setresuid", "setxattr", "splice",
    )  # fmt: skip
    constants = ("O_TMPFILE", "O_PATH", "O_DIRECT", "O_LARGEFILE", "O_NOATIME", "O_RSYNC")
    families = ("POSIX_FADV_", "MFD_", "GRND_", "XATTR_", "RWF_", "EFD_", "SPLICE_")
    for name in dir(posix):
        if name in functions or name in constants or name.startswith(families):
            delattr(posix, name)
    posix._have_functions = [name for name in posix._have_functions if name != "HAVE_FEXECVE"]
    sys.platform = "darwin"

    def is_linux(path):
        if isinstance(path, int):
            return False
        path = posix.fspath(path)
        return path.startswith(b"/proc/" if isinstance(path, bytes) else "/proc/") or path in (
            "/proc",
            b"/proc",
        )

    def without_proc(function):
        def call(path=".", *arguments, **options):
            if is_linux(path):
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            return function(path, *arguments, **options)

        call.__name__ = function.__name__
        call.__qualname__ = function.__name__
        return call

    for name in ("open", "stat", "lstat", "listdir", "scandir", "readlink", "access", "statvfs"):
        setattr(posix, name, without_proc(getattr(posix, name)))
    builtins.open = _io.open = without_proc(_io.open)

    def mask_fcntl(module):
        full_sync, clone = 51, 0x40049409  # F_FULLFSYNC of macOS, FICLONE of Linux
        real_fcntl, real_ioctl = module.fcntl, module.ioctl

        def fcntl(fd, command, argument=0):
            if command == full_sync:
                posix.fsync(fd if isinstance(fd, int) else fd.fileno())
                return 0
            return real_fcntl(fd, command, argument)

        def ioctl(fd, request, *arguments):
            if request == clone:
                raise OSError(errno.ENOTTY, "Inappropriate ioctl for device")
            return real_ioctl(fd, request, *arguments)

        module.fcntl, module.ioctl, module.F_FULLFSYNC = fcntl, ioctl, full_sync
        for name in ("F_ADD_SEALS", "F_GET_SEALS", "F_SETPIPE_SZ", "F_GETPIPE_SZ", "F_OFD_SETLK", "F_NOTIFY"):
            if hasattr(module, name):
                delattr(module, name)

    def mask_select(module):
        for name in [name for name in dir(module) if name.lower().startswith("epoll")]:
            delattr(module, name)

    def mask_signal(module):
        for name in ("sigtimedwait", "sigwaitinfo", "SIGRTMIN", "SIGRTMAX", "SIGPWR", "SIGSTKFLT"):
            if hasattr(module, name):
                delattr(module, name)

    def mask_resource(module):
        if hasattr(module, "prlimit"):
            del module.prlimit

    masks = {"fcntl": mask_fcntl, "select": mask_select, "_signal": mask_signal, "resource": mask_resource}

    class Masked:
        """Finds the modules above as others do, and masks each when it is loaded."""

        @staticmethod
        def find_spec(name, path=None, target=None):
            if name not in masks:
                return None
            mask = masks.pop(name)
            for finder in sys.meta_path:
                spec = finder.find_spec(name, path, target) if finder is not Masked else None
                if spec is not None:
                    spec.loader = Loader(spec.loader, mask)
                    return spec
            return None

    class Loader:
        def __init__(self, real, mask):
            self.real, self.mask = real, mask

        def create_module(self, spec):
            return self.real.create_module(spec)

        def exec_module(self, module):
            self.real.exec_module(module)
            self.mask(module)

    for name in list(masks):
        if name in sys.modules:
            masks.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, Masked)


_mask()
del _mask
