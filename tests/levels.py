"""The level of each test: `fast`, `slow` or `hunt` (docs/testing.md).

A mark on the test itself counts first. Else a search that only LOCUS_HUNT starts is `hunt`, a test of a file
listed here is `fast`, and every other one is `slow`. All that is fast is to take less than a minute on two
cores: files whose tests take less than a tenth of a second on average belong here, and their few long ones
are marked slow.

Pure values and a function of them.
"""

LEVELS = ("fast", "slow", "hunt")

# Below tests/: a room, and its files.
_FAST = {
    "": "compatibility config erased golden ground house identity limits redaction repository "
        "requirements scripts secret_scan security_pages stages wording",
    "agents": "batch captured_sessions claude_code codex gemini_install git_objects live_sweep opencode",
    "benchmarks": "rows_memory",
    "cli": "commands context hook hook_subagents hooks_command maintainer newer_events search "
        "store_keep text",
    "exports": "jsonl parquet wire",
    "keep": "backup salvage",
    "log": "frame journal journal_room kept_lock line manifest numbering quarantine reader seal segment "
        "simfs upcast verify",
    "memory": "codes shared",
    "projections": "anchors",
    "query": "engine recount",
    "recorder": "completeness hooks ledger lifecycle placement recorder requests",
    "replay": "compare diffs edited_tree history linediff patches restore restore_seen trees",
    "reports": "page",
    "search": "index meaning words",
    "serve": "mcp_health mcp_install",
    "snapshots": "collect materialize pack repack statcache store tree usage verify worktree "
        "worktree_git worktree_look worktree_rules young",
    "transcripts": "adapters_page claude_code codex codex_patch filestates importer once unified",
}  # fmt: skip
FAST_FILES = frozenset(
    f"tests/{room}{'/' if room else ''}test_{name}.py"
    for room, names in _FAST.items()
    for name in names.split()
)


def level_of(path: str, test: str) -> str:
    """The level of a test without a mark: `path` from the root of the checkout, `test` the function's."""
    if test.startswith("test_hunt_"):
        return "hunt"
    return "fast" if path in FAST_FILES else "slow"
