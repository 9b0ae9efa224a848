"""Whether this installation lasts. Settings of agents name its files, and outlive every cache."""

import os
import sys

from eventlog.base.errors import Refused

# Cache Directory Tagging Specification: uv and pipx tag the caches in which `uvx` and `pipx run` make
# environments. A tag inside of an environment is for backups, and does not say that it is a cache's.
_TAG = "CACHEDIR.TAG"
_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"
DISTRIBUTION = "locus-eventlog"


def refuse_cached(then: str) -> None:
    """Refuse to name this installation in settings where a cache holds it, which may be emptied at any time.

    Args: then: the command that is to be repeated with an installation that lasts. Raises: Refused.
    """
    cache = cache_around(sys.prefix)
    if cache is not None:
        raise Refused(
            f"this Locus is in a cache, {cache}, and is gone when that is emptied. Nothing was written. "
            f"Install it to stay, `uv tool install {_source()}` or `pipx install {_source()}`, then `{then}`."
        )


def cache_around(environment: str) -> "str | None":
    """The tagged cache directory that an environment is in; None where there is none."""
    directory = os.path.realpath(environment)
    while (parent := os.path.dirname(directory)) != directory:
        directory = parent
        if _is_tagged(directory):
            return directory
    return None


def _is_tagged(directory: str) -> bool:
    try:
        with open(f"{directory}/{_TAG}", "rb") as file:
            return file.read(len(_SIGNATURE)) == _SIGNATURE
    except OSError:
        return False


def _source() -> str:
    """What to install: the file or checkout that this installation was made of (PEP 610), else the name."""
    import json
    import shlex
    from importlib import metadata
    from urllib.parse import unquote, urlsplit

    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
        url = str(json.loads(text or "{}").get("url") or DISTRIBUTION)
    except (metadata.PackageNotFoundError, ValueError):
        return DISTRIBUTION
    return shlex.quote(unquote(urlsplit(url).path) if url.startswith("file:") else url)
