"""Logs for tests: events, stores on a real or simulated disk, and what a reader sees of them."""

from collections.abc import Iterable, Sequence
from typing import Any

from eventlog.base.fs import FileSystem
from eventlog.base.jsontext import encode
from eventlog.base.layout import JOURNAL_DIR, SEGMENT_DIR, Layout, StoreFiles
from eventlog.base.types import Event
from eventlog.log.journal import Journal
from eventlog.log.line import encode_line
from eventlog.log.reader import open_view
from eventlog.log.seal import SealReport, seal
from tests.conftest import STORE_ID
from tests.conftest import files_of as files_of


def event(number: int, **columns: Any) -> Event:
    """An action whose id is `number`; columns given as None are left out."""
    columns = {
        "event_id": f"{number:032x}",
        "event_type": "action",
        "event_kind": "action",
        "source": "executor",
        "agent": "pi",
        "agent_session_id": "one",
        "repo": "9f86d081884c",
        "occurred_at": 1_750_000_000_000_000 + number,
        "payload": {"number": number, "text": "ä\t\n€", "long": 0.1},
        **columns,
    }
    return {name: value for name, value in columns.items() if value is not None}


class Log:
    """A log under test, on any file system."""

    def __init__(self, fs: FileSystem, layout: Layout, store_id: bytes = STORE_ID) -> None:
        self.fs = fs
        self.layout = layout
        self.store_id = store_id
        self.files = StoreFiles(fs, layout, store_id)
        self.journal = Journal(self.files)

    def append(self, events: Sequence[Event]) -> int:
        return self.journal.append([encode_line(e) for e in events])

    def append_each(self, events: Iterable[Event]) -> None:
        for one in events:
            self.append([one])

    def seal(self, **options: Any) -> SealReport:
        return seal(self.files, self.journal, **options)

    def rows(self, **filters: Any) -> list[Event]:
        """What a reader sees."""
        with open_view(self.files) as view:
            return list(view.iterate(**filters))

    def journals(self) -> list[str]:
        return self.fs.listdir(self.layout.directory(JOURNAL_DIR))

    def segments(self) -> list[str]:
        return self.fs.listdir(self.layout.directory(SEGMENT_DIR))


def payload_text(one: Event) -> str:
    return encode(one.get("payload", {})).decode()
