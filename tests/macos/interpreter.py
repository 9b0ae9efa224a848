"""Makes a Python without what Linux alone has: `python -m tests.macos.interpreter DIRECTORY` prints its path.

It is the interpreter that runs this, with its standard library by links, but for `encodings`: every
Python imports that first, whatever its options, and here it ends with `tests/macos/mask.py`.
"""

import os
import shutil
import site
import sys
import sysconfig
from pathlib import Path

_MASK = Path(__file__).with_name("mask.py")
# What the library asks of a Mac when it is imported there.
_SCPROXY = "def _get_proxies(): return {}\ndef _get_proxy_settings(): return {}\n"


def make(directory: Path) -> Path:
    """An environment in `directory`, which sees the packages of this one; its interpreter."""
    library = Path(sysconfig.get_path("stdlib"))
    own = directory / "lib" / library.name
    (own / "site-packages").mkdir(parents=True)
    (directory / "bin").mkdir()
    python = directory / "bin/python3"
    shutil.copy2(os.path.realpath(sys.executable), python)
    for entry in library.iterdir():
        if entry.name not in ("encodings", "site-packages", "__pycache__"):
            (own / entry.name).symlink_to(entry)
    shutil.copytree(library / "encodings", own / "encodings", ignore=shutil.ignore_patterns("__pycache__"))
    with open(own / "encodings/__init__.py", "a", encoding="utf-8") as module:
        module.write(_MASK.read_text(encoding="utf-8"))
    (own / "_scproxy.py").write_text(_SCPROXY, encoding="utf-8")
    data = f"{sysconfig._get_sysconfigdata_name()}.py"  # type: ignore[attr-defined]
    (own / data.replace("_linux_", "_darwin_")).symlink_to(library / data)
    packages = "".join(f"import site; site.addsitedir({path!r})\n" for path in site.getsitepackages())
    (own / "site-packages/usual.pth").write_text(packages, encoding="utf-8")
    for program, module in (("locus", "start"), ("locus-hook", "hook_entry")):
        script = directory / "bin" / program
        script.write_text(f"#!{python}\nimport sys\nfrom locus_cli.{module} import main\nsys.exit(main())\n")
        script.chmod(0o755)
    return python


if __name__ == "__main__":
    print(make(Path(sys.argv[1]).resolve()))
