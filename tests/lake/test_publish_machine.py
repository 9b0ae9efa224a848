"""Any order of recording, erasing, publishing, being killed, copying, merging: the place is always a prefix
of the log, each event once, and after a publish all of it as it should be.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eventlog.base.errors import Refused
from eventlog.blobs.ids import blob_id, to_text
from eventlog.erasure import erasure
from eventlog.lake import merges, remembered
from eventlog.lake.place import Place, open_place
from eventlog.lake.policy import Policy
from eventlog.secrets.redaction import withheld_event
from eventlog.store import Store
from tests.conftest import examples
from tests.lake.publishing import (
    ALL,
    NOTHING,
    TEXTS,
    assert_published_under_its_policies,
    chain_of,
    copy_of,
    forget,
    holding,
    live_table,
    new_store,
    record,
    send,
)

_POLICIES = {"all": ALL, "texts": TEXTS, "nothing": NOTHING}


class KilledError(BaseException):
    """In the place of SIGKILL: nothing of the publisher's runs after it."""


class Publishing(RuleBasedStateMachine):
    """One store, copies of it, one folder."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="locus-lake-"))
        (self.root / "shared").mkdir()
        self.place: Place = open_place(f"file://{self.root}/shared")
        self.store = new_store(self.root / "a")
        self.policy: Policy = ALL
        self.number = 0
        self.canaries: list[str] = []
        self.erased: list[str] = []
        self.withheld: list[str] = []
        self.copies: list[Store] = []

    def teardown(self) -> None:
        for store in (self.store, *self.copies):
            store.close()
        shutil.rmtree(self.root)

    @rule(has_content=st.booleans(), common=st.integers(0, 2))
    def record(self, has_content: bool, common: int) -> None:
        self.number += 1
        canary = f"canary{self.number:04d}fox"
        self.canaries.append(canary)
        contents = (f"content with {canary}".encode(), b"common content %d" % common) if has_content else ()
        record(self.store, self.number, f"text with {canary}", *contents)

    @precondition(lambda self: self.canaries)
    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        canary = data.draw(st.sampled_from(self.canaries))
        self.canaries.remove(canary)
        erasure.erase(self.store, erasure.plan_secret(self.store, canary))
        self.erased.append(canary)

    @precondition(lambda self: self.canaries)
    @rule(data=st.data())
    def withhold(self, data: st.DataObject) -> None:
        content = f"content with {data.draw(st.sampled_from(self.canaries))}"
        self.store.append_rows([withheld_event(to_text(blob_id(content.encode())), ("jwt",))])
        self.withheld.append(content)

    @rule(name=st.sampled_from(sorted(_POLICIES)))
    def set_policy(self, name: str) -> None:
        self.policy = _POLICIES[name]

    @rule()
    def publish(self) -> None:
        send(self.store, self.place, self.policy)
        live = assert_published_under_its_policies(self.store, self.place)
        assert not any(policy.widens(self.policy) for policy in live)
        for text in (*self.erased, *self.withheld):
            assert holding(self.place, self.root / "scratch", text) == []

    @rule(kill_at=st.integers(0, 12), after=st.booleans())
    def publish_killed(self, kill_at: int, after: bool) -> None:
        count = [0]

        def counted(call: Any) -> Any:
            def effect(*arguments: Any) -> Any:
                number, count[0] = count[0], count[0] + 1
                if number == kill_at and not after:
                    raise KilledError
                answer = call(*arguments)
                if number == kill_at:
                    raise KilledError
                return answer

            return effect

        with pytest.MonkeyPatch.context() as patch:
            for owner, name in ((Place, "create"), (Place, "delete"), (remembered, "write")):
                patch.setattr(owner, name, counted(getattr(owner, name)))
            try:
                send(self.store, self.place, self.policy)
            except KilledError:
                pass

    @precondition(lambda self: len(self.copies) < 3)
    @rule()
    def copy(self) -> None:
        self.copies.append(copy_of(self.store, self.root / f"copy {len(self.copies)}"))

    @precondition(lambda self: self.copies)
    @rule(data=st.data())
    def publish_from_a_copy(self, data: st.DataObject) -> None:
        """It has no events of its own; where it is older than the place, it is refused."""
        store = data.draw(st.sampled_from(self.copies))
        try:
            send(store, self.place, self.policy)
        except Refused as error:
            assert "older copy" in str(error) or "knows nothing of" in str(error)

    @rule()
    def merge(self) -> None:
        merges.merge(self.place, self.store.identity.store_id, files_min=2)

    @rule()
    def forget(self) -> None:
        forget(self.store, self.place)

    @invariant()
    def each_event_is_there_once(self) -> None:
        chain = chain_of(self.store, self.place)
        positions = live_table(self.store, self.place)["position"].to_pylist()
        assert positions == [row["position"] for row in self.store.rows(0, chain.end)]


TestPublishing = pytest.mark.filterwarnings("ignore")(Publishing.TestCase)
TestPublishing.settings = settings(max_examples=examples(12, 500), stateful_step_count=20, deadline=None)
