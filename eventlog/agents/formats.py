"""How each agent's transcripts are found, recognised and read.

`TranscriptSpec.reader` names a module, which has `READER` and `recognises`, and may have
- `SUFFIXES`: how the names of its files end;
- `directories_of_transcripts(environ) -> list[str]`: where the agent keeps them;
- `sources_in(path) -> list[FileSource]`: what a file holds, nothing when it is part of another;
- `histories_in(source, head) -> list[FileSource]`: copies of other transcripts that a source begins with;
- `exported_session(record) -> str | None`: the id of the session of Locus that a line is an export of;
- `root_of(source, head, roots) -> str | None`: in which of these working trees a session ran, when its
  first lines do not say where as `cwd`;
- `backups_of(path) -> str | None`: for the session in this file, the directory in which the agent keeps
  copies of edited files; each session has one of its own below it.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from eventlog import agents
from eventlog.agents.kit.draft import Draft
from eventlog.agents.kit.lines import FileSource

Environ = Mapping[str, str]

_SUFFIXES = (".jsonl",)


class Reader(Protocol):
    """One for each source; the same lines give the same drafts."""

    def __init__(self, draft: Draft) -> None: ...

    def take(self, record: "dict[str, Any]") -> None:
        """A line that is a JSON object; a value of the wrong kind is an unknown one."""

    def end(self) -> None:
        """What is still pending at the end."""


def _module(agent: str) -> Any:
    spec = agents.spec_of(agent)
    assert spec is not None and spec.transcripts is not None, f"{agent} leaves transcripts"
    return agents.loaded(spec.transcripts.reader)


def reader_of(agent: str) -> type[Reader]:
    reader: type[Reader] = _module(agent).READER
    return reader


def suffixes_of(agent: str) -> tuple[str, ...]:
    suffixes: tuple[str, ...] = getattr(_module(agent), "SUFFIXES", _SUFFIXES)
    return suffixes


def directories_of(agent: str, environ: Environ) -> list[str]:
    """Where the agent keeps its transcripts; empty when it has no such place."""
    directories = getattr(_module(agent), "directories_of_transcripts", None)
    paths: list[str] = [] if directories is None else directories(environ)
    return paths


def source_of(agent: str, path: str) -> FileSource:
    """The first source that a named file is, whatever is in it."""
    return sources_of(agent, path)[0]


def sources_of(agent: str, path: str) -> list[FileSource]:
    """The sources that a named file holds; at least one, whatever is in it."""
    return list(sources_in(agent, path)) or [FileSource(agent, [path])]


def sources_in(agent: str, path: str) -> Iterator[FileSource]:
    of_module = getattr(_module(agent), "sources_in", None)
    if of_module is None:
        yield FileSource(agent, [path])
    else:
        yield from of_module(path)


def histories_in(agent: str, source: FileSource, head: "list[dict[str, Any]]") -> list[FileSource]:
    """Copies of other sessions' transcripts with which a source begins, to be read before it."""
    of_module = getattr(_module(agent), "histories_in", None)
    histories: list[FileSource] = [] if of_module is None else of_module(source, head)
    return histories


def exported_session_of(agent: str) -> "Callable[[dict[str, Any]], str | None]":
    """What names the session of Locus that a line of the agent's format is an export of."""
    of_module: Callable[[dict[str, Any]], str | None] | None
    of_module = getattr(_module(agent), "exported_session", None)
    return (lambda _: None) if of_module is None else of_module


def root_of(
    agent: str, source: FileSource, head: "list[dict[str, Any]]", roots: list[str]
) -> tuple[str | None, str | None]:
    """Where the session ran, and in which of `roots` that is, as far as its first lines say."""
    of_module = getattr(_module(agent), "root_of", None)
    if of_module is not None:
        root: str | None = of_module(source, head, roots)
        return root, root
    for record in head:
        payload = record.get("payload")
        for fields in (record, payload if isinstance(payload, dict) else {}):
            cwd = fields.get("cwd")
            if isinstance(cwd, str) and cwd:
                cwd = os.path.normpath(cwd)
                return cwd, next((root for root in roots if cwd == root or cwd.startswith(f"{root}/")), None)
    return None, None


def backups_of(agent: str, source: FileSource) -> "str | None":
    """Where the agent keeps copies of the files that a session edited, by session; None: nowhere."""
    of_module = getattr(_module(agent), "backups_of", None)
    directory: str | None = None if of_module is None else of_module(source.path)
    return directory


def is_one(agent: str, head: "list[dict[str, Any]]") -> bool:
    """Whether a file that begins with these objects is one of the agent's."""
    recognises = _module(agent).recognises
    return any(recognises(record) for record in head)
