"""The level of each test, `fast`, `slow` or `hunt`, and which tests are `long` besides (docs/testing.md).

A mark on the test itself counts first. Else a search that only LOCUS_HUNT starts is `hunt`, a test of a file
listed here is `fast`, and every other one is `slow`. All that is fast is to take less than a minute on two
cores: files whose tests take less than a tenth of a second on average belong here, and their few long ones,
of half a second and more, are listed as slow.

Long are the tests that `long_tests.txt` lists: those that took more than a second, on average over their
parameters, when the whole suite was last measured on two busy cores. `scripts/test` leaves them out unless it
is asked for them. A new measurement writes the list again:

    PYTEST_ADDOPTS=--junit-xml=RESULTS.xml scripts/test --all && .venv/bin/python -m tests.levels RESULTS.xml
"""

import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

LEVELS = ("fast", "slow", "hunt")

# Below tests/: a room, and its files.
_FAST = {
    "": "compatibility golden ground house limits requirements scripts security_pages stages",
    "agents": "captured_sessions claude_code_hooks claude_code_transcript codex_hooks codex_patches "
        "codex_transcript gemini_install opencode_hooks unified",
    "base": "config display garbage identity repository",
    "benchmarks": "rows_memory",
    "blobs": "pack recent_packs store tree verify",
    "checkout": "materialize",
    "cli": "commands context hook hook_subagents hooks_command maintainer newer_events search "
        "store_keep text",
    "doctor": "completeness",
    "check": "walk",
    "erasure": "erasure_crash",
    "exports": "jsonl parquet wire",
    "frameworks": "langgraph",
    "gc": "condemn repack usage",
    "hooks": "sweep",
    "importers": "adapters_page batch filestates git_objects importer once",
    "lake": "policy",
    "log": "frame journal journal_room kept_lock line manifest numbering quarantine reader seal segment "
        "simfs upcast verify",
    "maintenance": "backup",
    "mcp": "health install",
    "memory": "codes shared",
    "projections": "anchors",
    "query": "engine",
    "reading": "results",
    "recorder": "hooks ledger lifecycle placement recorder requests",
    "repair": "salvage",
    "replay": "compare diffs edited_tree history linediff patches trees",
    "reports": "usage",
    "restore": "plan known_files",
    "retention": "collection",
    "search": "index meaning words",
    "secrets": "bulk_prefilter engines erased_rules redaction",
    "setup": "git_exclude",
    "store": "store",
    "undo": "merge take_back",
    "view": "cleaning client shortened",
    "worktree": "capture git rules stat_all statcache",
}  # fmt: skip
# Files with tests that take ten seconds: they come first, so that no worker is left with one at the end.
_FIRST = frozenset(
    f"tests/{name}.py" for name in (
        "acceptance/test_sessions", "agents/test_codex_copies", "cli/test_bad_input",
        "exports/test_one_session", "exports/test_people", "exports/test_send", "log/test_crash_points",
        "mcp/test_server", "mcp/test_tools", "projections/test_joins", "test_faults", "test_golden_stores",
        "test_pages_run",
    )
)  # fmt: skip
# Below tests/: of these files, the tests that are slow all the same.
_LONG = {
    "agents/captured_sessions": "a_captured_session_is_recorded_whole",
    "agents/claude_code_transcript": "any_object_is_taken",
    "agents/codex_hooks": "a_session_of_patches_and_commands",
    "checkout/materialize": "a_tree_comes_back_exactly the_work_of_a_dead_or_stuck_writer_is_done_again",
    "cli/commands": "import_takes_the_newest log_can_be_narrowed log_of_one_session "
        "progress_shows_on_a_terminal progress_stays_off_pipes seal_and_rebuild_change_no_answer "
        "show_a_turn_and_a_session show_an_event_with_its_diff sql_reads_its_query_from_stdin "
        "status_shows_what_is_there",
    "cli/hook": "a_hook_whose_input_never_ends_stops_by_itself a_huge_input_is_cut",
    "cli/hook_subagents": "a_true_session_whose_subagents_end_late "
        "what_ends_after_the_next_prompt_counts_where_it_began",
    "cli/hooks_command": "a_directory_that_was_deleted_is_reported the_installed_line_records",
    "cli/newer_events": "an_event_of_a_newer_locus_is_shown_and_named",
    "cli/store_keep": "a_backup_is_read_with_the_store_option "
        "a_broken_manifest_is_reported_with_the_word_that_is_needed a_salvage_needs_no_store_file",
    "compatibility": "the_versions_are_those_of_the_code",
    "erasure/erasure_crash": "a_sync_that_fails_leaves_no_erasure_that_says_it_is_done "
        "an_erasure_survives_a_crash_at_every_call",
    "exports/jsonl": "contents_come_along each_content_comes_once_before_the_event_that_needs_it "
        "what_the_log_lost_is_reported",
    "exports/parquet": "a_directory_with_something_in_it_is_refused an_empty_log_has_its_columns",
    "exports/wire": "a_payload_fits_and_says_what_is_missing",
    "gc/repack": "any_packs_merge_to_the_same_contents",
    "gc/usage": "what_only_a_session_needs_is_what_releasing_it_frees",
    "hooks/sweep": "the_maintainer_sweeps",
    "house": "every_import_is_a_declared_dependency every_invariant_has_a_test_or_a_reason "
        "every_module_has_a_docstring every_test_states_its_behaviour",
    "importers/adapters_page": "an_agent_is_added_by_its_folder_alone",
    "importers/importer": "a_large_import_leaves_no_secret_on_disk an_import_holds_one_line_at_a_time "
        "an_import_says_how_many_contents_look_like_secrets "
        "half_a_line_is_settled_when_it_is_read_whole",
    "limits": "a_limit_on_file_sizes_leaves_a_store_that_can_be_read",
    "log/line": "decoding_gives_back_the_columns_and_the_payload_bytes",
    "log/numbering": "fold_agrees_with_the_rules_read_literally "
        "numbering_a_numbered_log_changes_nothing numbers_do_not_depend_on_where_the_log_is_cut",
    "log/seal": "a_batch_of_many_pieces_is_deduplicated_and_numbered_as_one",
    "log/segment": "a_bad_line_far_after_the_first_stops_the_parsing "
        "a_column_that_first_comes_late_is_found a_segment_reads_back_as_what_went_in "
        "arrow_and_python_decode_lines_alike frames_come_as_pieces_that_hold_their_positions",
    "maintenance/backup": "a_killed_backup_leaves_a_whole_copy_and_the_next_one_completes_it "
        "what_the_copy_has_is_not_read_again",
    "mcp/health": "agents_with_the_tools_and_without",
    "mcp/install": "a_server_that_does_not_start_is_not_installed files_made_for_it_are_removed",
    "memory/codes": "a_recorded_session_leaves_its_codes an_erasure_takes_the_files_with_it "
        "codes_beyond_their_budget_are_warned_of the_exported_file_is_a_view "
        "what_a_user_wrote_is_noted_where_it_is_asked_for",
    "projections/anchors": "a_better_row_in_the_tail_takes_a_call_from_an_indexed_session the_master",
    "query/engine": "views_of_one_type_read_their_payload",
    "recorder/hooks": "a_session_from_start_to_end",
    "recorder/recorder": "a_new_session_ends_the_one_before numbers_do_not_change_when_sealed "
        "session_totals_accumulate_per_turn the_anchor_merges_start_and_end",
    "replay/history": "a_path_is_no_pattern_and_no_sql history_follows_renames_back "
        "unknown_stays_unknown versions_come_newest_first_with_their_turn",
    "reports/usage": "it_is_json_and_agrees_with_stats projects_have_names_and_commits_can_be_left_out",
    "restore/known_files": "an_edit_within_one_tick_is_seen",
    "restore/plan": "restore_gives_the_wanted_tree_and_undo_the_old_one what_was_never_recorded_stays",
    "retention/collection": "a_budget_releases_the_oldest_and_no_more_than_it_takes "
        "a_content_that_nobody_released_is_damage a_plan_holds_once "
        "a_plan_names_the_sessions_of_which_something_goes "
        "a_session_is_lost_with_a_content_deep_in_its_trees "
        "active_and_pinned_sessions_are_not_archived capture_after_collection_stores_content_again "
        "events_after_a_release_are_kept events_in_no_session_keep_what_they_name "
        "every_reader_says_what_became_of_a_collected_content "
        "kept_sessions_replay_after_another_was_collected rules_of_number_and_age_release_the_oldest "
        "what_becomes_live_after_the_plan_is_kept what_is_live_again_is_brought_back",
    "search/index": "the_index_follows_the_log",
    "search/words": "what_is_found_is_marked",
    "secrets/engines": "engines_agree_about_any_text",
    "secrets/erased_rules": "a_rule_is_added_to_a_damaged_file_with_those_that_it_lost "
        "little_of_a_large_content_is_hashed",
    "secrets/redaction": "redacting_again_changes_nothing "
        "this_project_holds_nothing_that_looks_like_a_secret",
    "setup/git_exclude": "any_list_comes_back",
    "stages": "a_stage_may_end_by_itself_when_its_time_is_up "
        "a_stage_without_end_is_ended_with_its_children the_stage_of_the_tests_ends_with_their_number",
    "store/store": "large_appends_become_several_batches",
    "undo/merge": "clean_and_other_than_git_never_happens",
    "undo/take_back": "undo_and_redo_give_the_same_bytes undo_of_the_newest_gives_what_was_before "
        "undo_of_two_turns_gives_what_was_before_both what_came_later_stays",
    "view/shortened": "some_turns_have_the_same_trees",
    "worktree/capture": "a_name_that_comes_in_the_tick_of_the_listing_is_seen "
        "a_path_longer_than_any_call_takes_is_captured an_edit_in_the_same_tick_is_seen",
    "worktree/rules": "a_cached_capture_obeys_it_like_a_first_one",
    "worktree/stat_all": "a_child_keeps_no_descriptor_of_its_parent",
}  # fmt: skip
FAST_FILES = frozenset(
    f"tests/{room}{'/' if room else ''}test_{name}.py"
    for room, names in _FAST.items()
    for name in names.split()
)
_LONG_TESTS = frozenset(
    (f"tests/{room}test_{name}.py", f"test_{test}")
    for file, tests in _LONG.items()
    for room, name in [(file[: -len(file.rpartition("/")[2])], file.rpartition("/")[2])]
    for test in tests.split()
)


def level_of(path: str, test: str) -> str:
    """The level of a test without a mark: `path` from the root of the checkout, `test` the function's."""
    if test.startswith("test_hunt_"):
        return "hunt"
    is_long = (path, test.partition("[")[0]) in _LONG_TESTS
    return "fast" if path in FAST_FILES and not is_long else "slow"


def rank_of(path: str) -> int:
    """Where in a run the tests of a file come: those of the lowest rank first."""
    return 0 if path in _FIRST else 1


def may_be_fast(file: Path, root: Path) -> bool:
    """Whether a file of tests in the checkout `root` has a fast one."""
    path = file.relative_to(root).as_posix()
    return path in FAST_FILES or "mark.fast" in file.read_text(encoding="utf-8")


_LONG_LIST = Path(__file__).with_name("long_tests.txt")
_LONG_S = 1.0


def long_tests() -> frozenset[tuple[str, str]]:
    """The long tests, each as its path from the root of the checkout and the name of its function."""
    lines = (line.split() for line in _LONG_LIST.read_text(encoding="utf-8").splitlines())
    return frozenset((f"tests/{path}", f"test_{name}") for path, *names in lines for name in names)


def measured(results: str) -> dict[str, list[str]]:
    """The long tests of a run, by file, out of its JUnit XML."""
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for case in ElementTree.parse(results).iter("testcase"):
        path = case.attrib["classname"].removeprefix("tests.").replace(".", "/") + ".py"
        name = case.attrib["name"].partition("[")[0].removeprefix("test_")
        seconds[path, name].append(float(case.attrib["time"]))
    long: dict[str, list[str]] = defaultdict(list)
    for (path, name), times in sorted(seconds.items()):
        if sum(times) > _LONG_S * len(times):
            long[path].append(name)
    return long


if __name__ == "__main__":
    _LONG_LIST.write_text(
        "".join(f"{path} {' '.join(names)}\n" for path, names in measured(sys.argv[1]).items()),
        encoding="utf-8",
    )
