"""Columns before every key, with which one text folds the logs of many stores at once.

The rows of one value of these columns are a log by themselves, with positions of its own: what is compared,
counted or ordered is so among them alone. They are never null. A log in its store has no such columns, and
then each of these gives nothing, or the column as it is. Pure text.
"""

Keys = tuple[str, ...]


def led(keys: Keys, of: str = "") -> str:
    """What a list of columns begins with; `of` is the relation that has them, where several do."""
    return "".join(f"{of}.{key}, " if of else f"{key}, " for key in keys)


def same(keys: Keys, left: str, right: str) -> str:
    """What the condition of a join begins with."""
    return "".join(f"{left}.{key} = {right}.{key} AND " for key in keys)


def whole(keys: Keys, column: str) -> str:
    """What names over all logs the row that `column` names in its own."""
    return f"({led(keys)}{column})" if keys else column
