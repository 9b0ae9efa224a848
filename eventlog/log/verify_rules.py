"""Are the files that keep secrets and erased texts out intact: `redaction.key`, and the rules of erasures?

The newest erasure of this store records in the log how the files with its rules ended. So a file that was
cut short, taken away or put back to an older state is reported too (I11). Reads only, beside any writer.
"""

import os
from collections.abc import Iterator

from eventlog.base.errors import Corruption, why_unreadable
from eventlog.base.fs import FileSystem, read_file
from eventlog.base.layout import Layout
from eventlog.log.erasures import erasures_in
from eventlog.log.finding import MISSING, RULES, Finding, RepairStep
from eventlog.log.reader import LogView
from eventlog.secrets import erased_rules

_KEY_LOST = (
    "Secrets are taken out all the same, but one that was met before gets another fingerprint. Bring the "
    "file back from a backup, or delete it: a new one is made."
)
_KEY_AGAIN = "a new one is made: a secret that was met before gets another fingerprint"


def verify_rules(
    fs: FileSystem, layout: Layout, store_id: bytes, view: "LogView | None" = None
) -> Iterator[Finding]:
    """What is wrong with these files; without a view, by their own checks alone."""
    yield from _verify_key(fs, layout)
    expected_checks = _checks_of_newest(view, store_id) if view is not None else set()
    files_by_path = {rules_file.path: rules_file for rules_file in erased_rules.files(fs, layout)}
    paths = (layout.erased, layout.erased_copy)
    if len(files_by_path) == 1 and all(map(fs.exists, paths)):
        files_by_path = dict.fromkeys(paths, *files_by_path.values())  # they are the same
    wrong: "dict[str, str]" = {}
    for path in paths:
        rules_file = files_by_path.get(path)
        if rules_file is not None and rules_file.problem is not None:
            wrong[path] = rules_file.problem.removeprefix(f"{path}: ")
        elif expected_checks and (rules_file is None or expected_checks.isdisjoint(rules_file.checks)):
            lost = "it is gone" if rules_file is None else "it is shorter than what was written"
            wrong[path] = f"{lost}: the last erasure added rules that it does not have"
    for path, what in wrong.items():
        other = paths[path == paths[0]]
        if other in wrong or other not in files_by_path:
            then = (
                "Rules that can be read still count. Bring the file back from a backup, or delete "
                f"{paths[0]} and {paths[1]} and erase once more what was erased: it may be recorded again."
            )
            mend = None
        else:
            then = f"The rules of {other} count. Copy that file over this one."
            kind = MISSING if path not in files_by_path else RULES
            mend = RepairStep(kind, path, what, f"{os.path.basename(other)} is copied over it")
        yield Finding(path, f"{what}. {then}", mend=mend)


def _verify_key(fs: FileSystem, layout: Layout) -> Iterator[Finding]:
    path = layout.redaction_key
    if not fs.exists(path):
        return  # none was needed
    try:
        if erased_rules.valid_key(read_file(fs, path, 1024)) is not None:
            return
        what = "its bytes do not match their digest"
    except ValueError:
        what = "it is far longer than what was written"
    except OSError as error:
        what = why_unreadable(error)
    yield Finding(path, f"{what}. {_KEY_LOST}", mend=RepairStep(RULES, path, what, _KEY_AGAIN))


def _checks_of_newest(view: LogView, store_id: bytes) -> "set[str]":
    """How the two files ended when the newest erasure of this store had added its rules."""
    try:
        erasures = erasures_in(view)
    except Corruption:
        return set()  # the log's own check reports it
    for erasure in reversed(erasures):
        if erasure.rules and erasure.store == store_id.hex():
            return set(erasure.rules)
    return set()
