"""Commands load no library that they do not need, wherever it is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog.store import Store

# As other packages see numpy: installed, and usable.
NOTES_ITSELF = """
import os
with open(os.environ["LOADED"], "a") as file:
    print(__name__, file=file)
"""


@pytest.fixture
def loaded(tmp_path: Path) -> Path:
    """Where packages called numpy and pandas note that they are loaded."""
    for name in ("numpy", "pandas"):
        package = tmp_path / "packages" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(NOTES_ITSELF)
    return tmp_path / "loaded"


def test_what_needs_neither_works_without_them(tmp_path: Path, loaded: Path) -> None:
    """pyarrow asks for pandas where it reads a time; finders of modules have the metadata of packages."""
    code = """
import datetime, importlib.metadata, importlib.util
from locus_cli import unused
unused.refuse()
unused.refuse()
import pyarrow as pa
now = datetime.datetime(2026, 1, 1)
assert pa.scalar(now).as_py() == now and pa.array([now]).to_pylist() == [now]
assert importlib.util.find_spec("numpy") is None and importlib.metadata.version("pyarrow")
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "packages"), "LOADED": str(loaded)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert not loaded.exists()


@pytest.mark.parametrize("program", ["locus_cli", "locus_cli.maintainer"])
def test_numpy_and_pandas_are_not_loaded(tmp_path: Path, loaded: Path, program: str) -> None:
    """pyarrow loads both where they are installed, in more time than a command takes."""
    store_path = tmp_path / "store"
    with Store.init(store_path) as store:  # so many that the maintainer seals them
        note = {"event_type": "note", "event_kind": "fact"}
        store.append([{**note, "payload": {"text": f"tea {number} " * 40}} for number in range(8_000)])
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "packages"), "LOADED": str(loaded)}
    if program == "locus_cli":
        starts = [
            [sys.executable, "-m", program, "--store", str(store_path), *words]
            for words in (["store", "seal"], ["search", "tea"], ["sql", "select blob_at('a', 'turn:x')"])
        ]
    else:  # as a hook starts it, but for -I, which would not see these packages
        from locus_cli import maintainer

        starts = [[sys.executable, "-c", maintainer.code_of("main"), str(store_path), ""]]
    for words in starts:
        subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, check=False)
    with Store.open(store_path) as store, store.view() as view:
        assert view.manifest.segments, "pyarrow was at work"
    assert not loaded.exists(), loaded.read_text()
