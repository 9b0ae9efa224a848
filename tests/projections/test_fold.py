"""The projections against a plain Python fold, over any log in any state of sealing and indexing."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings

from tests.conftest import examples
from tests.projections import oracle
from tests.projections.logs import Log, histories, index_tables, live

History = list[tuple[str, list[dict[str, Any]]]]


@contextmanager
def a_log() -> Iterator[Log]:
    """A log in a directory of its own, since an example of a property is not a test of its own."""
    root = tempfile.mkdtemp(prefix="locus-test-")
    try:
        yield Log(f"{root}/.locus")
    finally:
        shutil.rmtree(root)


def differences(found: Any, expected: Any) -> list[str]:
    """Where two sets of projections differ, one line for each cell."""
    lines = []
    for name in expected:
        for key in sorted({*found[name], *expected[name]}, key=repr):
            one, other = found[name].get(key), expected[name].get(key)
            if one is None or other is None:
                lines.append(f"{name} {key}: {'missing' if one is None else 'made up'}")
                continue
            for column in sorted({*one, *other}):
                if one.get(column, "no column") != other.get(column, "no column"):
                    lines.append(f"{name} {key} {column}: {one.get(column)!r} for {other.get(column)!r}")
    return lines


def check(history: History) -> None:
    with a_log() as log:
        live(log, history)
        expected = oracle.project(log.events())

        assert differences(log.tables(), expected) == []

        log.seal()
        report = log.make_index()
        assert differences(log.tables(), expected) == []
        if report is None:
            return
        with index_tables(log, report.name) as tables:
            made_step_by_step = tables
        again = log.make_index(fresh=True)
        assert again is not None and again.name == report.name and not again.incremental
        with index_tables(log, again.name) as tables:
            assert made_step_by_step == tables


@settings(max_examples=examples(6, 100))
@given(histories())
def test_any_log_folds_to_what_the_rules_say(history: History) -> None:
    """I19, I20, I21, I22: index + tail = whole log = Python fold, wherever segments and generations end;
    an index made step by step has the rows of one made at once."""
    check(history)


def test_hunt_for_a_log_that_folds_otherwise(hunt_minutes: float) -> None:
    """I19, I20, I21: the same, for as long as LOCUS_HUNT says."""
    if not hunt_minutes:
        pytest.skip("LOCUS_HUNT is not set")
    until = time.monotonic() + hunt_minutes * 60

    @settings(max_examples=20)
    @given(histories())
    def hunt(history: History) -> None:
        check(history)

    while time.monotonic() < until:
        hunt()
