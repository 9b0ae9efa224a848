"""The settings of a store: what is read, what a slip of the pen does, and what a hook pays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog.base import config
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.secrets.redaction import of_store
from eventlog.store import Store

GOOD = b"""
[redaction]
allow = ["jwt"]
deny = ["acme-intranet", "/acme-[0-9]{6}/"]

[capture]
include = ["build/**"]
max_file_bytes = 4096

[context]
shared = true

[memory]
codes_base = "~/codes"
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    Store.init(tmp_path / ".locus").close()
    return Layout(str(tmp_path / ".locus"))


def write(layout: Layout, data: bytes) -> config.Config:
    Path(layout.config_file).write_bytes(data)
    return config.read(REAL, layout)


def test_without_a_file_the_defaults_apply(layout: Layout) -> None:
    """P5: redaction is on without anybody having asked for it, and nothing is written for it."""
    found = config.read(REAL, layout)

    assert (found.enabled, found.allow, found.deny, found.include) == (True, (), (), ())
    assert (found.max_file_bytes, found.problem) == (None, None)
    assert not os.path.exists(layout.config_twin)


def test_settings_are_read_from_file_and_twin_alike(layout: Layout) -> None:
    """P2: the twin is derived: with it, without it or with a damaged one, the settings are the same."""

    def shown(found: config.Config) -> tuple[object, ...]:
        limits = found.max_file_bytes, found.shared_context, found.codes_base, found.problem
        return found.enabled, found.allow, found.deny, found.include, *limits

    lists = ("jwt",), ("acme-intranet", "/acme-[0-9]{6}/"), ("build/**",)
    expected = (True, *lists, 4096, True, "~/codes", None)
    assert shown(write(layout, GOOD)) == expected
    assert shown(config.read(REAL, layout)) == expected
    twin = Path(layout.config_twin)
    assert twin.stat().st_mode & 0o777 == 0o600
    twin.write_bytes(twin.read_bytes().replace(b"acme-intranet", b"acme-internet"))
    assert shown(config.read(REAL, layout)) == expected
    twin.unlink()
    assert shown(config.read(REAL, layout)) == expected
    assert write(layout, b"[redaction]\nenabled = false\n").enabled is False


@pytest.mark.parametrize(
    ("text", "size"), [("5GB", 5 * 10**9), ("1.5 mb", 1_500_000), ("700", 700), (700, 700), ("8 kB", 8000)]
)
def test_a_budget_is_a_size_in_the_words_of_people(layout: Layout, text: object, size: int) -> None:
    """P6: `max_bytes` is a number or a size with its unit; there is none by default."""
    assert config.read(REAL, layout).max_bytes is None
    quoted = repr(text).encode()
    for _ in ("parsed", "from the twin"):
        found = write(layout, b"[retention]\nmax_age_days = 3\nmax_bytes = " + quoted)
        assert (found.max_age_days, found.max_sessions, found.max_bytes) == (3, None, size)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[redaction]\nallow = [", "line 2"),
        (b"[redaction]\n\nenabeld = true", "line 3: [redaction] has no enabeld"),
        (b"[redaction]\nenabled = 'yes'", "line 2: enabled must be true or false"),
        (b"[redaction]\nallow = [1]", "line 2: allow must be a list of texts"),
        (b"[redaction]\ndeny = ['ok-it-is', 'abc']", "line 2: 'abc' is too short"),
        (b"[redaction]\ndeny = ['/a(/']", "line 2: /a(/ is no regular expression"),
        (b"[capture]\nmax_file_bytes = -1", "line 2: max_file_bytes cannot be below zero"),
        (b"x = 1", "line 1: there is no [x]"),
        (b"[retention]\nmax_bytes = '5 pounds'", "line 2: max_bytes must be a size such as"),
        (b"[retention]\nmax_bytes = 'nan'", "line 2: max_bytes must be a size such as"),
        (b"[retention]\nmax_bytes = -1", "line 2: max_bytes cannot be below zero"),
        (b"[retention]\nmax_sessions = 0", "line 2: max_sessions cannot be zero"),
        (b"[retention]\nmax_age_days = 1.5", "line 2: max_age_days must be a number"),
        (b"[redaction]\n# \xff", "line 2: it is not UTF-8"),
    ],
)
def test_a_slip_of_the_pen_is_named_and_stops_nobody(layout: Layout, data: bytes, said: str) -> None:
    """P4, P5: a broken file is reported with its line; defaults apply, and what was denied stays denied."""
    write(layout, GOOD)
    found = write(layout, data)

    assert found.problem is not None and said in found.problem and layout.config_file in found.problem
    assert (found.enabled, found.allow) == (True, ())
    assert of_store(REAL, layout).text("at acme-intranet").startswith("at [REDACTED:denied:")


@pytest.mark.parametrize("kind", ["directory", "dangling", "huge"])
def test_what_is_no_file_stops_nobody(layout: Layout, kind: str) -> None:
    """P4: a directory, a dead link or a huge file in its place is a note, not a failure."""
    if kind == "directory":
        os.mkdir(layout.config_file)
    elif kind == "dangling":
        os.symlink("nowhere", layout.config_file)
    else:
        Path(layout.config_file).write_bytes(b"#" * (2 << 20))
    redactor = of_store(REAL, layout)

    assert redactor.enabled
    assert redactor.problem is not None and "config.toml cannot be read" in redactor.problem


def test_a_hook_parses_no_toml_twice(layout: Layout) -> None:
    """P4: once somebody has parsed the file, a hook reads its twin and loads no TOML parser."""
    write(layout, GOOD.replace(b', "/acme-[0-9]{6}/"', b""))
    probe = (
        "import sys\nfrom eventlog.base.fs import REAL\nfrom eventlog.base.layout import Layout\n"
        f"from eventlog.secrets.redaction import of_store\nr = of_store(REAL, Layout({layout.root!r}))\n"
        "r.text('acme-intranet password=1')\nprint('tomllib' in sys.modules, r.problem)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False None"
