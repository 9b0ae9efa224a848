"""How well the files at a turn's start and end are known, as the fold of turns says it.

Pure text. The rule is that of replay/certainty.py, whose states rest on the same facts.
"""

# What a snapshot says of the capture that it records.
CAPTURE = "{'operation': operation, 'has_tree': tree_hash IS NOT NULL, 'success': success}"


def _of_capture(capture: str) -> str:
    failed, partial = f"NOT {capture}.has_tree", f"NOT {capture}.success"
    return f"CASE WHEN {failed} THEN 'failed' WHEN {partial} THEN 'partial' ELSE 'exact' END"


_NO_TREE = "WHEN t.start_tree IS NULL THEN CASE WHEN t.look_failed THEN 'failed' ELSE 'none' END "
START_CERTAINTY = (
    f"CASE {_NO_TREE}"
    "WHEN t.first_look.operation IS DISTINCT FROM 'turn_start' THEN 'failed' "
    f"ELSE {_of_capture('t.first_look')} END"
)
END_CERTAINTY = (
    "CASE WHEN t.start_tree IS NULL AND t.look_failed AND t.ended IS DISTINCT FROM true THEN 'unfinished' "
    f"{_NO_TREE}"
    "WHEN t.closed OR t.end_seen IS DISTINCT FROM true THEN 'unfinished' "
    f"ELSE {_of_capture('t.last_look')} END"
)
