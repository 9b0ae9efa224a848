"""Publications of events that are made up, and what a test asks a table and a process."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
from blake3 import blake3

from eventlog.base import jsontext
from eventlog.lake import tables
from eventlog.lake.chain import LiveFile, Rewrite, publication_name, rewrite_name, rewritten_name
from eventlog.lake.outgoing import SCHEMA, encoded
from eventlog.lake.place import Place
from eventlog.lake.policy import Policy
from eventlog.lake.source import identity_of
from tests import forked


def file_of(
    store_id: bytes,
    base: int,
    end: int,
    *,
    text: str = "",
    skips: "tuple[int, ...]" = (),
    moved: int = 0,
    **metadata: str,
) -> bytes:
    """A published file with an event at each position of [base, end) but those that it skips.

    Args: moved: so much further the events lie than the file's metadata say.
    """
    rows = [
        {
            "store_id": store_id.hex(),
            "position": position + moved,
            "event_id": f"{store_id.hex()[:4]}-{position}",
            "event_type": "turn",
            "session_id": f"session-{position % 3}",
            "title": text or None,
            "branch": text or None,
        }
        for position in range(base, end)
        if position not in skips
    ]
    table = pa.Table.from_pylist(rows, SCHEMA)
    identity = identity_of([table])
    keys = {
        "format": "1",
        "store_id": store_id.hex(),
        "base": str(base),
        "end": str(end),
        "last_event_id": identity.last_event_id,
        "ids": identity.digest,
        "policy": Policy().encoded(),
        "erasures": "[]",
        "packs": "[]",
        **metadata,
    }
    return encoded([table], {f"locus.{key}": value for key, value in keys.items()})


def publish(place: Place, store_id: bytes, base: int, end: int, **options: Any) -> str:
    """Create a publication; its name."""
    name = publication_name(store_id, base)
    assert place.create(name, file_of(store_id, base, end, **options))
    return name


def rewrite(
    place: Place, store_id: bytes, number: int, reason: str, removed: str, base: int, end: int, **options: Any
) -> str:
    """Put a file in the place of another; its name."""
    data = file_of(store_id, base, end, **options)
    name = rewritten_name(store_id, number, base, blake3(data).hexdigest())
    assert place.create(name, data)
    made = Rewrite(number, reason, (removed,), (LiveFile(name, base, end, len(data)),))
    assert place.create(rewrite_name(store_id, number), made.encoded())
    return name


def positions(place: Place, catalog: str) -> "list[tuple[str, int]]":
    """(store, position) of every row of the table, in order, as its reader sees them."""
    with tables.opened(place, catalog) as opened:
        rows = tables.loaded(place, opened, catalog).scan(selected_fields=("store_id", "position"))
        return sorted((row["store_id"], row["position"]) for row in rows.to_arrow().to_pylist())


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """`locus` as a process of its own, forked from one that has imported the commands."""
    words = [str(argument) for argument in arguments]
    done = forked.locus(words, b"", Path.cwd(), os.environ, timeout_s=300)
    out, err = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(words, done.returncode, out, err)


def answer(*arguments: object) -> "dict[str, Any]":
    """What `locus … --json` answers, as a process of its own."""
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    value: dict[str, Any] = jsontext.decode(done.stdout.encode())
    return value


def objects(place: Place) -> "dict[str, bytes]":
    """All objects of a place."""
    return {entry.name: place.read(entry.name) for entry in place.list("")}
