"""What tools gave back, as text."""

import pytest

from eventlog.reading.page import result_text


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"result": "plain"}, "plain"),
        ({"result": {"stdout": "out\n", "stderr": "err"}}, "out\n\nerr"),
        ({"result": [{"functionResponse": {"response": {"output": "deep"}}}]}, "deep"),
        ({"result": "\x1b[31mred\x1b[0m\r\n"}, "red"),
        ({"result": {"unknown": "member"}}, ""),
        ({"error": "first", "result": "second"}, "first"),
        ({}, ""),
    ],
)
def test_results_are_text(payload: dict[str, object], text: str) -> None:
    """Whatever shape an agent gives its results, a reader gets their text."""
    assert result_text(payload) == text
