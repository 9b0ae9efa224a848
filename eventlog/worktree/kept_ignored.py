"""Which ignored files are kept all the same: those that nothing could rebuild (docs/capture.md §1).

The tables are the rule. They compare names in lower case: whole names, beginnings and ends. Pure; imports
nothing, because hooks use it for every name that git ignores.
"""

SIZE_MAX = 5_000_000  # bytes of a file that is kept

TOO_LARGE = f"git ignores it, and it is larger than {SIZE_MAX} bytes"
IN_PIECES = "a process was writing this database or its journal while they were read"
JOURNAL_MISSING = "its journal could not be kept with it"

# Settings and secrets of one machine.
_SETTING_STARTS = (b".env",)
_SETTING_ENDS = (b".env", b".local", b".tfvars", b".tfvars.json", b".tfstate")
_SETTING_PARTS = (b".local.",)  # settings.local.json, CLAUDE.local.md
_SETTING_NAMES = frozenset(
    (b".dev.vars", b".flaskenv", b"local.properties", b"local.settings.json", b"local_settings.py")
)  # fmt: skip

_DATABASE_ENDS = (b".sqlite", b".sqlite3", b".db", b".db3", b".s3db", b".sl3", b".duckdb")
# Files with writes that are not in the database yet. `-shm` is an index of `-wal` and rebuilt from it.
JOURNAL_ENDS = (b"-wal", b"-journal", b".wal")

# Private keys and the stores of credentials.
_PRIVATE_STARTS = (b"id_", b".env.keys", b"service-account", b"service_account")
_PRIVATE_ENDS = (
    b".pem", b".key", b".p12", b".pfx", b".p8", b".ppk", b".jks", b".keystore", b".kdb", b".kdbx", b".gpg",
    b".pgp", b".asc", b".ovpn", b".kubeconfig", b".keytab", b".mobileprovision",
)  # fmt: skip
_PRIVATE_NAMES = frozenset(
    (
        b".npmrc", b".yarnrc", b".yarnrc.yml", b".netrc", b"_netrc", b".pypirc", b".pgpass", b".my.cnf",
        b".git-credentials", b".htpasswd", b".dockercfg", b".dockerconfigjson", b".boto", b".s3cfg",
        b".terraformrc", b".vault-token", b"kubeconfig", b"credentials", b"credentials.json",
        b"credentials.db", b"access_tokens.db", b"application_default_credentials.json", b"key3.db",
        b"key4.db", b"cert8.db", b"cert9.db", b"cookies.sqlite", b"signons.sqlite",
    )
)  # fmt: skip
_PRIVATE_DIRS = frozenset((b".ssh", b".gnupg", b".aws", b".azure", b".kube", b".docker", b"gcloud"))

# Directories whose contents some tool can make again, and such files. Those of agents hold the hooks:
# restoring an older version of them would end the recording.
_REBUILT_DIRS = frozenset(
    (
        b"node_modules", b"bower_components", b".venv", b"venv", b".env", b".tox", b".nox",
        b"__pycache__", b"__pypackages__", b".eggs", b"site-packages", b"target", b"dist", b"build", b"out",
        b"obj", b"vendor", b".next", b".nuxt", b".output", b".svelte-kit", b".astro", b".angular",
        b".parcel-cache", b".turbo", b".vite", b".webpack", b".gradle", b".mvn", b".m2", b".ivy2", b".bundle",
        b".cargo", b".rustup", b".stack-work", b"dist-newstyle", b"_build", b"elm-stuff", b"pods",
        b"deriveddata", b".build", b".swiftpm", b".dart_tool", b".pub-cache", b".terraform", b".serverless",
        b".aws-sam", b".cache", b"cache", b"caches", b".npm", b".yarn", b".pnpm-store", b".mypy_cache",
        b".pytest_cache", b".ruff_cache", b".hypothesis", b".ipynb_checkpoints", b"htmlcov", b"coverage",
        b".nyc_output", b".vs", b".idea", b"tmp", b"temp", b".tmp",
        b".claude", b".codex", b".gemini", b".opencode",
    )
)  # fmt: skip
_REBUILT_NAMES = frozenset((b"thumbs.db", b".coverage.db", b"package-cache.db"))


def is_kept(path: bytes) -> bool:
    """Whether a file at this path is kept although git ignores it, if it is small enough."""
    directory, name = _parts(database_name(path) or path)  # a journal goes with its database
    if _is_private(directory, name) or name in _REBUILT_NAMES or not _REBUILT_DIRS.isdisjoint(directory):
        return False
    return _is_setting(name) or database_name(name) is not None


def is_withheld(path: bytes) -> bool:
    """Whether texts of tools about an ignored file at this path are left out, wherever it is: it may be kept,
    or hold credentials."""
    directory, name = _parts(database_name(path) or path)
    return _is_private(directory, name) or _is_setting(name) or database_name(name) is not None


def database_name(path: bytes) -> "bytes | None":
    """The database that a file is, or is the journal of; None when it is neither."""
    lower = path.lower()
    if lower.endswith(_DATABASE_ENDS):
        return path
    for end in JOURNAL_ENDS:
        if lower.endswith(end) and lower[: -len(end)].endswith(_DATABASE_ENDS):
            return path[: -len(end)]
    return None


def journals_of(path: bytes) -> "list[bytes]":
    """The files with writes that are not in the database at `path` yet; none where it is no database."""
    if not path.lower().endswith(_DATABASE_ENDS):
        return []
    return [path + end for end in JOURNAL_ENDS]


def _parts(path: bytes) -> "tuple[list[bytes], bytes]":
    *directory, name = path.lower().split(b"/")
    return directory, name


def _is_setting(name: bytes) -> bool:
    if name.startswith(_SETTING_STARTS) or name.endswith(_SETTING_ENDS) or name in _SETTING_NAMES:
        return True
    return any(part in name for part in _SETTING_PARTS)


def _is_private(directory: "list[bytes]", name: bytes) -> bool:
    if name.startswith(_PRIVATE_STARTS) or name.endswith(_PRIVATE_ENDS) or name in _PRIVATE_NAMES:
        return True
    return not _PRIVATE_DIRS.isdisjoint(directory)
