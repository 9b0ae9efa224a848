"""The answer `content`: the bytes of a hash as coloured lines, or why they are not shown."""

from typing import Any

from eventlog.base.errors import Corruption, NotFound
from eventlog.blobs.ids import from_text
from eventlog.replay.deferred import secrets_in
from eventlog.view import colours
from eventlog.view.parameters import Parameters
from eventlog.view.stores import ViewedStore

TEXT_MAX = 1 << 20  # bytes of a text that are shown


def answer(viewed: ViewedStore, parameters: Parameters) -> dict[str, Any]:
    hash, path = parameters.required("hash"), parameters.text("path")
    id = from_text(hash)
    erased = viewed.store.blobs.erased(id)
    if erased is not None:
        return {**_NOTHING, "erased": erased}
    if hash in viewed.withheld():
        return {**_NOTHING, "withheld": viewed.why_withheld(hash)}
    try:
        data = viewed.store.blobs.get(id)
        if secrets_in(viewed.store.blobs, id):
            return {**_NOTHING, "withheld": "holds a secret"}
    except Corruption as error:
        return {**_NOTHING, "damaged": str(error)}
    except NotFound as error:
        if viewed.store.blobs.fate(id.hex()) is None:
            raise
        return {**_NOTHING, "erased": str(error)}
    if b"\0" in data:
        return {**_NOTHING, "size": len(data), "binary": True}
    waits = parameters.flag("colour") and len(data) <= colours.LATER_MAX
    text = data[:TEXT_MAX].decode("utf-8", "replace")
    lines, is_coloured = colours.coloured(
        text, path or "", colours.LATER_MAX if waits else colours.AT_ONCE_MAX
    )
    return {
        **_NOTHING,
        "size": len(data),
        "binary": False,
        "text": lines,
        "coloured": is_coloured,
        "cut": len(data) if len(data) > TEXT_MAX else None,
    }


_NOTHING: dict[str, Any] = {
    "size": None, "binary": None, "text": None, "coloured": False, "cut": None,
    "withheld": None, "erased": None, "damaged": None,
}  # fmt: skip
