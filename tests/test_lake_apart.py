"""The room of lakes is separate: one machine needs nothing of it, and its libraries stay in it.

Reads files only, so it runs where the extra `lake` is not installed.
"""

import subprocess
import sys

import pytest

from tests.test_house import imports, modules


def test_a_machine_of_its_own_needs_no_lake() -> None:
    """Nothing that runs on one machine imports the room of lakes: only the commands of lakes do."""
    users = {
        name
        for name, path in modules("eventlog", "locus_cli").items()
        if any(imported.startswith("eventlog.lake") for imported in imports(name, path, typing_too=True))
    }

    assert {u for u in users if not u.startswith(("eventlog.lake", "locus_cli.lake"))} == set()


@pytest.mark.parametrize(
    ("library", "allowed"),
    [
        ("obstore", ("eventlog.lake.place",)),
        ("pyiceberg", ("eventlog.lake.files", "eventlog.lake.snapshots", "eventlog.lake.tables")),
        ("pyspark", ("eventlog.lake.folding.spark",)),
        ("sqlalchemy", ("eventlog.lake.snapshots", "eventlog.lake.tables")),
    ],
)
def test_libraries_of_lakes_stay_in_their_modules(library: str, allowed: "tuple[str, ...]") -> None:
    """The client of storages is known to one module, the library of tables to three, Spark to one (I34)."""
    users = {
        name
        for name, path in modules("eventlog", "locus_cli").items()
        if any(imported.split(".")[0] == library for imported in imports(name, path))
    }

    assert users == set(allowed)


def test_help_and_other_commands_load_no_library_of_lakes() -> None:
    """The help of `locus lake` loads neither obstore nor pyiceberg."""
    probe = (
        "import sys\nfrom locus_cli.main import run\n"
        "assert run(['lake', '--help']) == 0 and run(['lake', 'commit', '--help']) == 0\n"
        "print([m for m in ('obstore', 'pyiceberg', 'pyarrow') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)

    assert done.stderr.strip() == "[]"
