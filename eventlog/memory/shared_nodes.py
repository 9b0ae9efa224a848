"""The steps of a workflow that share context: load, validate, write. Callables from a state to its changes.

A state is a dict with `context` and `plan` (whose `metadata` is changed, too), as graph libraries pass it on;
a node returns the keys that change. One flag switches all of it on. While it is off, as by default, a node
reads no file, runs no git and returns nothing (S2-5).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from eventlog.base import config
from eventlog.base.errors import Refused
from eventlog.memory.files import stamp
from eventlog.memory.retrieved import retrieve
from eventlog.memory.shared_bundle import Bundle, bundle
from eventlog.memory.shared_claims import claims_of, doubts, freshness, refuse_doubts, with_hashes
from eventlog.memory.shared_entry import (
    PHASES,
    PLANNING,
    SESSIONS,
    Entry,
    EntryKey,
    check,
    new_entry,
)
from eventlog.memory.shared_state import (
    Staleness,
    branch_of,
    checkpoint_of,
    commit_of,
    diff_since,
    marked,
    staleness,
    state_of,
)
from eventlog.memory.shared_store import ContextStore

FLAG = "share_session"
VARIABLE = "SHARED_CONTEXT_ENABLED"
_SNIPPETS_MAX = 10

State = Mapping[str, Any]
Changes = dict[str, Any]


def is_enabled(contexts: ContextStore, flag: object = None) -> bool:
    """Whether context is shared: by the state, else the environment, else config.toml, else not."""
    if isinstance(flag, bool):
        return flag
    variable = os.environ.get(VARIABLE, "").strip().lower()
    if variable in ("true", "1", "yes", "on"):
        return True
    if variable:
        return False
    return config.read(contexts.store.fs, contexts.store.layout).shared_context


def key_here(contexts: ContextStore, workstream_id: str) -> EntryKey:
    """The key of a workstream on the branch that is checked out."""
    return EntryKey(contexts.store.repo_hash, branch_of(contexts.root), workstream_id)


@dataclass(slots=True)
class _Node:
    """What the nodes have in common. Args: phase: `planning` or `implementation`; size_max: characters of a
    bundle, the phase's own limit by default; writes: whether the search index may be brought up to date;
    with_bundle: without it nothing is searched for, and the bundle is empty."""

    contexts: ContextStore
    workstream_id: str
    phase: str = PLANNING
    size_max: "int | None" = None
    writes: bool = True
    with_bundle: bool = True

    def __post_init__(self) -> None:
        if self.phase not in PHASES:
            raise ValueError(f"phase must be one of {', '.join(PHASES)}, not {self.phase!r}")

    def _is_off(self, state: State) -> bool:
        return not is_enabled(self.contexts, _dict(state, "context").get(FLAG))

    def key(self) -> EntryKey:
        return key_here(self.contexts, self.workstream_id)

    def _check(self, entry: Entry, sessions: "Mapping[str, Any]") -> "tuple[Staleness, Bundle]":
        """Whether an entry still holds, and its bundle: changes first, and what earlier sessions found."""
        drift = staleness(self.contexts.root, entry, state_of(self.contexts.root))
        if not self.with_bundle:
            return drift, Bundle("", {})
        head = commit_of(entry)
        diff = "" if head is None else diff_since(self.contexts.root, head)
        request = str(entry.get("feature_request") or "")
        snippets = [
            (hit.relevance, hit.memory.text, " ".join(filter(None, hit.memory.cites)))
            for hit in retrieve(self.contexts.store, request, _SNIPPETS_MAX, writes=self.writes)
        ]
        made = bundle(
            self.phase, entry, drift, diff=diff, snippets=snippets, sessions=sessions, size_max=self.size_max
        )
        return drift, made


class ContextLoadNode(_Node):
    """Before a workflow is chosen: what is known, whether it still holds, and the bundle."""

    __slots__ = ()

    def __call__(self, state: State) -> Changes:
        if self._is_off(state):
            return {}
        key = self.key()
        loaded = self.contexts.load(self.phase)
        entry = loaded.entries.get(key) or new_entry(key)
        sessions = self.contexts.sessions(self.phase).get(key, {})
        drift, made = self._check(entry, sessions)
        shared = {
            "entry": marked(entry, drift),
            "stale": drift.stale,
            "reasons": list(drift.reasons),
            "scan_again": drift.scan_again,
            "bundle": made.text,
            "left_out": made.left_out,
            "problems": loaded.problems,
        }
        plan = _dict(state, "plan")
        metadata = {**_dict(plan, "metadata"), "shared_context": shared, SESSIONS: sessions}
        return {
            "context": {**_dict(state, "context"), self.phase: shared},
            "plan": {**plan, "metadata": metadata},
        }


class ValidationNode(_Node):
    """Before something is carried out: is what is known still so, and is what is claimed shown?

    `context.validation` has `ok` and what is in the way. The bundle in it shows the changes first.
    """

    __slots__ = ()

    def __call__(self, state: State) -> Changes:
        if self._is_off(state):
            return {}
        entry = self.contexts.entry(self.phase, self.key())
        drift, made = self._check(entry, {})
        root, ledger = self.contexts.root, entry.get("evidence_ledger") or ()
        doubted = doubts(root, ledger, claims_of(entry))
        validation = {
            "ok": not drift.stale and not doubted,
            "stale": list(drift.reasons),
            "scan_again": drift.scan_again,
            "changed": [list(change) for change in drift.changed] if drift.stale else [],
            "doubts": [{"claim": doubt.claim, "why": doubt.why} for doubt in doubted],
            "evidence": [
                {"path": file.get("path"), "freshness": freshness(root, file)}
                for item in ledger
                for file in item["files"]
            ],
            "bundle": made.text,
        }
        return {"context": {**_dict(state, "context"), "validation": validation}}


class ContextWriteNode(_Node):
    """Before memory is written: persists what `context.shared_update` says.

    A run that failed (`last_run.status` is `failed`) leaves its step, error and next action, nothing else.
    Of one that did not, a summary counts only at a verified checkpoint: `verified` with `tests_passed` and
    `diff_applied`, both true. Claims without evidence are refused.
    """

    __slots__ = ()

    def __call__(self, state: State) -> Changes:
        if self._is_off(state):
            return {}
        context = _dict(state, "context")
        sessions = _dict(_dict(_dict(state, "plan"), "metadata"), SESSIONS)
        update = {SESSIONS: sessions, **_dict(context, "shared_update")}
        entry = write(self.contexts, self.phase, self.key(), update)
        return {"context": {**context, "shared_written": entry}}


def write(contexts: ContextStore, phase: str, key: EntryKey, update: "Mapping[str, Any]") -> Entry:
    """Merge an update into an entry by the rules of `ContextWriteNode`; the entry as it is then.

    Ids of tools' sessions in it go into the local file.

    Raises: Refused (claims without evidence, a summary without a verified checkpoint), InvalidEvent,
    Unsupported, LockTimeout, NotDurable.
    """
    fields = dict(update)
    sessions = _dict(fields, SESSIONS)
    verified = _dict(fields, "verified")
    for name in (SESSIONS, "verified"):
        fields.pop(name, None)
    check({**new_entry(key), **fields})
    stored = contexts.entry(phase, key)
    now = datetime.now(UTC)
    run = _dict(fields, "last_run")
    if run.get("status") == "failed":
        names = ("status", "failed_step", "error", "next_action")
        failure = {name: run.get(name) for name in names}
        change: Entry = {"last_run": failure, "failed_runs": [failure] if run.get("error") else None}
    else:
        change = {
            **fields,
            **_shown(contexts, stored, fields),
            **_summary(contexts, stored, fields, verified, now),
        }
        if run:
            change["last_run"] = {"failed_step": "", "error": "", "next_action": "", **run}
    entry = contexts.save(phase, {**new_entry(key), **change}, now=now)
    if sessions:
        contexts.save_sessions(phase, key, sessions)
    return entry


def _shown(contexts: ContextStore, stored: Entry, update: Entry) -> Changes:
    """The ledger of an update with its files' hashes. Raises: Refused for claims that no ledger shows."""
    ledger = update.get("evidence_ledger") or []
    refuse_doubts(contexts.root, ledger)
    refuse_doubts(contexts.root, [*(stored.get("evidence_ledger") or []), *ledger], claims_of(update))
    return {"evidence_ledger": with_hashes(contexts.root, ledger)} if ledger else {}


def _summary(
    contexts: ContextStore, stored: Entry, update: Entry, verified: "Mapping[str, Any]", now: datetime
) -> Changes:
    """The summary of an update and its checkpoint; without one, whether the known summary still holds.

    Raises: Refused for a summary without a verified checkpoint.
    """
    state = state_of(contexts.root)
    text = _dict(update, "working_summary").get("text")
    if text is None:
        stale = staleness(contexts.root, stored, state).stale
        return {"working_summary": {"stale": stale}} if stored.get("working_summary") else {}
    if not (verified.get("tests_passed") is True and verified.get("diff_applied") is True):
        raise Refused(
            "a summary is written at a verified checkpoint only: tests passed and the diff applied "
            "(--tests-passed --diff-applied). Nothing was written."
        )
    summary = {"text": text, "updated_at": stamp(now), "stale": False}
    return {"checkpoint": checkpoint_of(state, text), "working_summary": summary}


def _dict(values: "Mapping[str, Any]", name: str) -> "dict[str, Any]":
    value = values.get(name) if isinstance(values, Mapping) else getattr(values, name, None)
    return value if isinstance(value, dict) else {}
