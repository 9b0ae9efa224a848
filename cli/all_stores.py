"""`--all-stores` of the verbs that read: each store of this user answers, one after the other.

Nothing is added up over stores: two that imported the same conversations both have their calls, and a sum
would count their money twice (`locus sql --all-stores` can be asked for it).
"""

import functools
import os
from collections.abc import Callable
from typing import Any

import click

import eventlog
from eventlog.base import jsontext

from . import outside
from .exits import usage_error
from .output import document, json_line, one_line
from .streams import opened, put, say, sinks

Command = Callable[..., int | None]  # the exit code, None for 0


def in_all_stores(command: Command) -> Command:
    """A verb's function with the option `--all-stores`. Put it directly above the function.

    With it the function is called for each store, as if `--store` named it. A store that knows nothing of
    what is asked for is passed over; when all are, the first one's error is the answer.
    """

    @click.option("--all-stores", is_flag=True, help="Each store that you have made or recorded into.")
    @functools.wraps(command)
    def run(*arguments: Any, all_stores: bool, **options: Any) -> int | None:
        if not all_stores:
            return command(*arguments, **options)
        if options.get("lake") is not None:
            raise usage_error("--lake means all stores of a place; give it without --all-stores")
        if options.get("follow"):
            raise usage_error("--follow goes on in one store; name it with `locus --store DIR`")
        if click.get_current_context().find_root().obj is not None:
            raise usage_error("--store names one store, and --all-stores means all; give one of them")
        return _each(functools.partial(command, *arguments, **options), bool(options.get("as_json")))

    return run


def _each(answer: Callable[[], int | None], as_json: bool) -> int:
    """Have each store answer; the highest exit code of them."""
    from eventlog import multi_store

    with multi_store.opened((), every=True) as known:
        directories = {name: store.layout.root for name, store in known.stores.items()}
    for path in known.gone:
        say(f"left out: {path}")
    answers = [_Answer(name, directory, as_json) for name, directory in directories.items()]
    for store in answers:
        store.run(answer)
    absent = [store.absent for store in answers if store.absent is not None]
    if len(absent) == len(answers):
        raise absent[0]
    documents = [store.fields for store in answers if store.fields is not None]
    if documents:
        stores = opened[:]
        opened.clear()  # each document names the unread positions of its own store
        put(document({"stores": documents, "left_out": known.gone}))
        opened[:] = stores
    return max(store.code for store in answers)


class _Answer:
    """What one store answers. `code` is the exit code, `absent` the error of one that knows nothing of it."""

    def __init__(self, name: str, directory: str, as_json: bool) -> None:
        self._name = name
        self._directory = directory
        self._as_json = as_json
        self._taken: list[bytes] = []
        self._has_head = False
        self.code = 0
        self.absent: eventlog.NotFound | None = None
        self.fields: dict[str, Any] | None = None

    def run(self, answer: Callable[[], int | None]) -> None:
        root = click.get_current_context().find_root()
        before, root.obj = root.obj, self._directory
        others = list(opened)
        opened.clear()
        outside.forget(root)
        sinks.append(self._take if self._as_json else self._put)
        try:
            self.code = answer() or 0
        except click.exceptions.Exit as ending:
            self.code = ending.exit_code
        except eventlog.NotFound as error:
            self.absent = error
        except eventlog.EventLogError as error:
            self.code = error.exit_code
            say(f"locus: {self._name}: {error}")
        finally:
            sinks.pop()
            root.obj = before
            opened[:0] = others
            outside.forget(root)
        self._give()

    def _put(self, text: "str | bytes", colour: "bool | None") -> None:
        """Write a part of an answer for people, the first one under the name of the store."""
        sink = sinks.pop()
        try:
            if text and not self._has_head:
                self._has_head = True
                put(f"── {one_line(self._name)} · {one_line(self._directory)}\n")
            put(text, colour=colour)
        finally:
            sinks.append(sink)

    def _take(self, text: "str | bytes", _colour: "bool | None") -> None:
        self._taken.append(text if isinstance(text, bytes) else os.fsencode(text))

    def _give(self) -> None:
        """Pass on what was taken: a document waits for those of the other stores, lines do not."""
        data = b"".join(self._taken)
        store = {"store": self._name, "directory": self._directory}
        if data.startswith(b"{\n"):
            fields = jsontext.decode(data)
            del fields["version"]
            self.fields = {**store, "exit_code": self.code, **fields}
            return
        for line in data.splitlines():
            put(json_line({**store, **jsontext.decode(line)}))
