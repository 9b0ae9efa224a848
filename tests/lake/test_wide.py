"""Sessions, turns and calls of many stores, each once: the rules of docs/lake-tables.md §3 as laws."""

from hypothesis import given, settings

from tests.conftest import examples
from tests.lake import wide_oracle
from tests.lake.wide_lakes import of_tables
from tests.lake.wide_oracle import Stores
from tests.lake.wide_stores import folded, stores_that_share
from tests.projections.test_fold import differences


@settings(max_examples=examples(25, 600))
@given(stores_that_share())
def test_any_stores_fold_to_what_the_rules_say(stores: Stores) -> None:
    """Copies, forks and parts of sessions in several stores: all rows and columns are those of the plain fold
    over each event once."""
    assert differences(of_tables(folded(stores)), of_tables(wide_oracle.wide(stores))) == []
