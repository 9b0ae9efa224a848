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
    "": "compatibility golden ground house limits requirements scripts security_pages stages",
    "agents": "captured_sessions claude_code_hooks claude_code_transcript codex_hooks codex_patches "
        "codex_transcript gemini_install opencode_hooks unified",
    "base": "config display identity repository",
    "benchmarks": "rows_memory",
    "blobs": "pack recent_packs store tree verify",
    "checkout": "materialize",
    "cli": "commands context hook hook_subagents hooks_command maintainer newer_events search "
        "store_keep text",
    "doctor": "completeness",
    "erasure": "erasure_crash",
    "exports": "jsonl parquet wire",
    "gc": "condemn repack usage",
    "hooks": "sweep",
    "importers": "adapters_page batch filestates git_objects importer once",
    "log": "frame journal journal_room kept_lock line manifest numbering quarantine reader seal segment "
        "simfs upcast verify",
    "maintenance": "backup",
    "mcp": "health install",
    "memory": "codes shared",
    "projections": "anchors",
    "query": "engine recount",
    "recorder": "hooks ledger lifecycle placement recorder requests",
    "repair": "salvage",
    "replay": "compare diffs edited_tree history linediff patches trees",
    "reports": "page",
    "restore": "plan known_files",
    "retention": "collection",
    "search": "index meaning words",
    "secrets": "bulk_prefilter erased_rules redaction",
    "setup": "git_exclude",
    "undo": "merge take_back",
    "worktree": "capture git rules stat_all statcache",
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
