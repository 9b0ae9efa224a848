"""Shared context: what is kept, when it is stale, what is refused, and what fits into a prompt."""

import itertools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.errors import InvalidEvent, Refused, Unsupported
from eventlog.memory import shared_bundle, shared_claims, shared_nodes
from eventlog.memory.shared_entry import IMPLEMENTATION, PLANNING, EntryKey, merged, new_entry
from eventlog.memory.shared_nodes import ContextLoadNode, ContextWriteNode, ValidationNode, write
from eventlog.memory.shared_state import Staleness, staleness, state_of
from eventlog.memory.shared_store import ContextStore
from eventlog.store import Store
from tests.recorder.kept import new_store

VERIFIED = {"tests_passed": True, "diff_applied": True}
SUMMARY = {"working_summary": {"text": "The parser reads numbers."}, "verified": VERIFIED}
EVIDENCE = {"claim": "numbers are implemented", "files": [{"path": "src/a.py", "lines": "L1-L2"}]}


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit."""
    root = tmp_path_factory.mktemp("shared") / "tree"
    (root / "src").mkdir(parents=True)
    (root / "src/a.py").write_text("def number():\n    return 1\n", "utf-8")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "begin")
    return root


@pytest.fixture
def contexts(prepared: Path, tmp_path: Path) -> Iterator[ContextStore]:
    subprocess.run(["cp", "-r", str(prepared), str(tmp_path / "tree")], check=True)
    with new_store(tmp_path / "tree/.locus") as store:
        yield ContextStore(store, tmp_path / "tree")


@pytest.fixture
def key(contexts: ContextStore) -> EntryKey:
    return EntryKey(contexts.store.repo_hash, "main", "parser")


def again(contexts: ContextStore) -> ContextStore:
    return ContextStore(Store.open(contexts.store.layout.root), contexts.root)


def state_now(contexts: ContextStore, phase: str, key: EntryKey) -> Staleness:
    return staleness(contexts.root, contexts.entry(phase, key), state_of(contexts.root))


# -- the store ---------------------------------------------------------------------------------------


def test_what_is_written_is_there_for_the_next_session(contexts: ContextStore, key: EntryKey) -> None:
    """S2-1, S2-6, S2-8, S2-10, S2-35: an entry has the schema's fields and outlives its process."""
    write(
        contexts, PLANNING, key, {**SUMMARY, "feature_request": "read numbers", "pinned_rules": ["no eval"]}
    )
    write(
        contexts, PLANNING, key, {"open_decisions": [{"id": "D1", "text": "which base?", "status": "open"}]}
    )
    path = Path(contexts.root) / "data/context/planning_context.json"
    (entry,) = json.loads(path.read_text("utf-8"))["entries"]

    assert entry == again(contexts).entry(PLANNING, key)
    assert (entry["schema_version"], entry["key"]) == (1, key.as_dict())
    assert entry["checkpoint"]["git_head"] == git(Path(contexts.root), "rev-parse", "HEAD")
    assert set(entry["checkpoint"]) == {"git_head", "tracked_files_hash", "summary_hash"}
    at = entry["working_summary"].pop("updated_at")
    assert entry["working_summary"] == {"text": "The parser reads numbers.", "stale": False}
    assert at < entry["updated_at"]
    assert entry["pinned_rules"] == ["no eval"]
    assert entry["open_decisions"] == [{"id": "D1", "text": "which base?", "status": "open"}]
    assert "read numbers" in (Path(contexts.root) / "docs/context_summary.md").read_text("utf-8")


def test_planning_and_implementation_are_apart(contexts: ContextStore, key: EntryKey) -> None:
    """S2-2: what is written for one phase is not seen in the other."""
    write(contexts, PLANNING, key, {"feature_request": "plan"})
    write(contexts, IMPLEMENTATION, key, {"feature_request": "build"})

    assert contexts.entry(PLANNING, key)["feature_request"] == "plan"
    assert contexts.entry(IMPLEMENTATION, key)["feature_request"] == "build"


def test_workstreams_of_all_branches_coexist(contexts: ContextStore, key: EntryKey) -> None:
    """S2-7: the key tells them apart, not the label."""
    keys = [key, EntryKey(key.repo, "main", "lexer"), EntryKey(key.repo, "next", "parser")]
    for number, one in enumerate(keys):
        write(
            contexts,
            PLANNING,
            one,
            {"feature_request": "the same label", "checklist": [{"text": str(number)}]},
        )
    found = contexts.load(PLANNING).entries

    assert [found[one]["checklist"] for one in keys] == [[{"text": str(n)}] for n in range(3)]


def test_session_ids_stay_on_this_machine(contexts: ContextStore, key: EntryKey) -> None:
    """S2-3, S2-6, S2-8: they are in a file that git ignores, and losing it loses nothing else."""
    write(contexts, PLANNING, key, {"feature_request": "plan"})
    contexts.save_sessions(PLANNING, key, {"codex": {"id": "c-1", "local_path": "x"}})
    contexts.save_sessions(PLANNING, key, {"gemini": {"id": "g-1"}})
    root = Path(contexts.root)
    git(root, "add", "-A", "data", "docs")

    assert again(contexts).sessions(PLANNING)[key] == {
        "codex": {"id": "c-1", "local_path": "x"},
        "gemini": {"id": "g-1"},
    }
    assert "local.json" not in git(root, "ls-files")
    assert "c-1" not in contexts.path(PLANNING).read_text("utf-8")
    with pytest.raises(InvalidEvent, match="local sessions"):
        contexts.save(PLANNING, {**new_entry(key), "cli_sessions": {"codex": {"id": "c-1"}}})
    contexts.path(PLANNING, local=True).write_bytes(b"{")
    assert contexts.sessions(PLANNING) == {} and contexts.entry(PLANNING, key)["feature_request"] == "plan"


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["feature_request", "note"]), st.none() | st.text(max_size=3), max_size=2
        ),
        max_size=6,
    )
)
def test_later_keys_win_and_absent_ones_change_nothing(updates: "list[dict[str, Any]]") -> None:
    """S2-9, P2: merging is a fold: the last value of each key that is not null."""
    entry: dict[str, Any] = {}
    for update in updates:
        entry = merged(entry, update)
    expected = {}
    for update in updates:
        expected |= {name: value for name, value in update.items() if value is not None}

    assert entry == expected


def test_items_of_lists_are_told_apart(contexts: ContextStore, key: EntryKey) -> None:
    """S2-9: a decision is closed by its id; other items stay as they are, in their order."""
    first = [{"id": "D1", "text": "base?", "status": "open"}, {"id": "D2", "text": "sign?", "status": "open"}]
    write(contexts, PLANNING, key, {"open_decisions": first, "pinned_rules": ["a"]})
    write(
        contexts,
        PLANNING,
        key,
        {"open_decisions": [{"id": "D1", "status": "closed"}], "pinned_rules": ["b", "a"]},
    )
    entry = contexts.entry(PLANNING, key)

    assert entry["open_decisions"] == [{"id": "D1", "text": "base?", "status": "closed"}, first[1]]
    assert entry["pinned_rules"] == ["a", "b"]


def test_deleted_files_are_written_again_with_the_same_bytes(contexts: ContextStore, key: EntryKey) -> None:
    """P2, S2-8: the files are views of the log."""
    write(contexts, PLANNING, key, {**SUMMARY, "feature_request": "read numbers"})
    paths = [contexts.path(PLANNING), Path(contexts.root) / "docs/context_summary.md"]
    before = [path.read_bytes() for path in paths]
    for path in paths:
        path.unlink()
    contexts.rebuild(PLANNING)

    assert [path.read_bytes() for path in paths] == before


def test_what_somebody_else_committed_is_taken_into_the_log(
    contexts: ContextStore, key: EntryKey, tmp_path: Path
) -> None:
    """P2, S2-1: a clone's entry is read, and in our log from then on; the newer one counts."""
    write(contexts, PLANNING, key, {"feature_request": "ours"})
    data = json.loads(contexts.path(PLANNING).read_text("utf-8"))
    theirs = {**data["entries"][0], "feature_request": "theirs", "updated_at": "2999-01-01T00:00:00Z"}
    older = {**new_entry(EntryKey(key.repo, "main", "other")), "feature_request": "old"}
    contexts.path(PLANNING).write_text(json.dumps({**data, "entries": [theirs, older]}), "utf-8")

    assert contexts.entry(PLANNING, key)["feature_request"] == "theirs"
    contexts.path(PLANNING).unlink()
    assert contexts.entry(PLANNING, key)["feature_request"] == "theirs"
    assert len(contexts.load(PLANNING).entries) == 2


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"entries": 3}', b"\xff", b"[" * 100_000])
def test_a_file_that_cannot_be_read_is_kept(contexts: ContextStore, key: EntryKey, data: bytes) -> None:
    """P6, S2-9: it stops nobody, its bytes are kept, and what the log knows counts."""
    write(contexts, PLANNING, key, {"feature_request": "ours"})
    contexts.path(PLANNING).write_bytes(data)
    loaded = contexts.load(PLANNING)
    (problem,) = loaded.problems

    assert loaded.entries[key]["feature_request"] == "ours"
    assert Path(problem.rpartition(" ")[2]).read_bytes() == data
    write(contexts, PLANNING, key, {"feature_request": "again"})
    assert contexts.load(PLANNING).problems == []


def test_a_merge_conflict_is_read_from_both_sides(contexts: ContextStore, key: EntryKey) -> None:
    """P6: of each workstream the newer side counts, and the file as it was is kept."""
    write(contexts, PLANNING, key, {"feature_request": "x"})
    entry = json.loads(contexts.path(PLANNING).read_text("utf-8"))["entries"][0]
    sides = [
        json.dumps({**entry, "feature_request": word, "updated_at": at})
        for word, at in (("ours", "2998-01-01T00:00:00Z"), ("theirs", "2999-01-01T00:00:00Z"))
    ]
    text = (
        '{"schema_version": 1, "entries": [\n<<<<<<< HEAD\n'
        + f"{sides[0]}\n||||||| base\n{{}}\n=======\n{sides[1]}\n>>>>>>> next\n]}}\n"
    )
    contexts.path(PLANNING).write_text(text, "utf-8")
    loaded = contexts.load(PLANNING)

    assert loaded.entries[key]["feature_request"] == "theirs"
    assert "merge conflict" in loaded.problems[0]
    assert Path(loaded.problems[0].rpartition(" ")[2]).read_text("utf-8") == text


def test_a_file_of_a_newer_format_is_not_touched(contexts: ContextStore, key: EntryKey) -> None:
    """S2-9: it is not understood, hence neither taken over nor replaced."""
    contexts.path(PLANNING).parent.mkdir(parents=True)
    data = b'{"schema_version": 2, "entries": []}'
    contexts.path(PLANNING).write_bytes(data)

    assert contexts.load(PLANNING).newer
    with pytest.raises(Unsupported, match="newer Locus"):
        write(contexts, PLANNING, key, {"feature_request": "x"})
    assert contexts.path(PLANNING).read_bytes() == data


def test_a_secret_reaches_neither_log_nor_file(contexts: ContextStore, key: EntryKey) -> None:
    """P5: what is committed for everybody is redacted like everything else."""
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7h8"
    write(contexts, PLANNING, key, {"feature_request": f"use {secret}"})

    assert secret not in contexts.path(PLANNING).read_text("utf-8")
    assert secret not in json.dumps(contexts.entry(PLANNING, key))


# -- staleness ---------------------------------------------------------------------------------------


def test_a_fresh_summary_is_fresh_and_stays_so_when_it_is_committed(
    contexts: ContextStore, key: EntryKey
) -> None:
    """S2-11, S2-12: writing and committing the files of shared context changes nothing that they tell of."""
    write(contexts, PLANNING, key, SUMMARY)
    assert state_now(contexts, PLANNING, key) == Staleness()
    git(Path(contexts.root), "add", "data", "docs")
    git(Path(contexts.root), "commit", "-q", "-m", "context")

    assert state_now(contexts, PLANNING, key) == Staleness()


def test_any_change_of_the_repository_makes_it_stale(contexts: ContextStore, key: EntryKey) -> None:
    """S2-11, S2-36: content, commit and summary are each compared, and what to read again is listed."""
    write(contexts, PLANNING, key, SUMMARY)
    root = Path(contexts.root)
    (root / "src/a.py").write_text("def number():\n    return 2\n", "utf-8")
    touched = state_now(contexts, PLANNING, key)
    assert (touched.reasons, touched.changed) == (("tracked files changed",), (("M", "src/a.py"),))
    git(root, "commit", "-q", "-a", "-m", "two")
    assert "the commit was" in state_now(contexts, PLANNING, key).reasons[0]
    git(root, "checkout", "-q", "HEAD~1")
    assert state_now(contexts, PLANNING, EntryKey(key.repo, "main", "parser")) == Staleness()
    entry = contexts.entry(PLANNING, key)
    contexts.save(PLANNING, {**entry, "working_summary": {"text": "edited by hand"}})
    assert state_now(contexts, PLANNING, key).reasons == ("the summary was changed by other means",)


# -- evidence ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("The bug is fixed.", True),
        ("Done", True),
        ("numbers are implemented now", True),
        ("It was abandoned, the prefixed form is undone", False),
        ("not done", False),
        ("It isn't fixed yet", False),
        ("to be implemented", False),
        ("The old one is not fixed. The new one is fixed", True),
    ],
)
def test_what_claims_to_be_done(text: str, claims: bool) -> None:
    """S2-14: whole words only, and what is denied is no claim."""
    assert shared_claims.says_done(text) is claims


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (None, "names no file"),
        ([], "names no file"),
        ([{"path": "src/a.py"}], "neither lines nor a symbol"),
        ([{"path": "src/b.py", "lines": "L1"}], "no file of the repository"),
        ([{"path": "../tree/src/a.py", "lines": "L1"}], "no file of the repository"),
        ([{"path": "link.py", "lines": "L1"}], "no file of the repository"),
        ([{"path": "src/a.py", "lines": "L1-L40"}], "it has 2"),
        ([{"path": "src/a.py", "lines": "everywhere"}], "are no lines"),
        ([{"path": "src/a.py", "symbol": "numbers"}], "has no numbers"),
    ],
)
def test_a_claim_without_evidence_is_refused(
    contexts: ContextStore, key: EntryKey, files: "list[dict[str, str]] | None", why: str
) -> None:
    """S2-13, S2-14: nothing is done because somebody says so, and nothing is written then."""
    (Path(contexts.root) / "link.py").symlink_to("src/a.py")
    update = {"evidence_ledger": [{"claim": "it is done", **({} if files is None else {"files": files})}]}
    with pytest.raises(Refused, match=why):
        write(contexts, IMPLEMENTATION, key, update)

    assert not contexts.path(IMPLEMENTATION).exists()


def test_a_claim_with_evidence_is_kept_with_its_freshness(contexts: ContextStore, key: EntryKey) -> None:
    """S2-13, P7: lines or a symbol show it; later the file's hash tells whether it is still that."""
    symbol = {"claim": "it is fixed", "files": [{"path": "src/a.py", "symbol": "number"}]}
    write(contexts, IMPLEMENTATION, key, {"evidence_ledger": [EVIDENCE, symbol]})
    (kept, _) = contexts.entry(IMPLEMENTATION, key)["evidence_ledger"]
    (file,) = kept["files"]

    assert shared_claims.freshness(contexts.root, file) == "same"
    (Path(contexts.root) / "src/a.py").write_text("changed\n", "utf-8")
    assert shared_claims.freshness(contexts.root, file) == "changed"
    (Path(contexts.root) / "src/a.py").unlink()
    assert shared_claims.freshness(contexts.root, file) == "gone"


def test_a_summary_claims_nothing_that_the_ledger_does_not_show(
    contexts: ContextStore, key: EntryKey
) -> None:
    """S2-14: what the summary says to be done needs an entry of the ledger."""
    payload = {**SUMMARY, "working_summary": {"text": "We looked around. numbers are implemented"}}
    with pytest.raises(Refused, match="no evidence names it"):
        write(contexts, PLANNING, key, payload)
    write(contexts, PLANNING, key, {**payload, "evidence_ledger": [EVIDENCE]})

    assert contexts.entry(PLANNING, key)["working_summary"]["text"].endswith("implemented")


def test_a_summary_is_written_at_verified_checkpoints_only(contexts: ContextStore, key: EntryKey) -> None:
    """S2-20: tests pass and the diff is applied, or the former summary stays."""
    write(contexts, PLANNING, key, SUMMARY)
    for verified in ({}, {"tests_passed": True}, {"tests_passed": 1, "diff_applied": True}):
        with pytest.raises(Refused, match="verified checkpoint"):
            write(contexts, PLANNING, key, {"working_summary": {"text": "new"}, "verified": verified})

    assert contexts.entry(PLANNING, key)["working_summary"]["text"] == "The parser reads numbers."


def test_a_failed_run_leaves_its_failure_and_nothing_else(contexts: ContextStore, key: EntryKey) -> None:
    """S2-21: step, error and next action; a run that goes well clears the error."""
    write(contexts, PLANNING, key, SUMMARY)
    before = contexts.entry(PLANNING, key)
    run = {"status": "failed", "failed_step": "tests", "error": "3 fail", "next_action": "look", "more": 1}
    write(
        contexts,
        PLANNING,
        key,
        {"last_run": run, "working_summary": {"text": "wrong"}, "checklist": [{"text": "x"}]},
    )
    failed = contexts.entry(PLANNING, key)

    assert failed.pop("last_run") == {n: run[n] for n in ("status", "failed_step", "error", "next_action")}
    assert failed.pop("failed_runs") == [
        {n: run[n] for n in ("status", "failed_step", "error", "next_action")}
    ]
    assert {**failed, "updated_at": 0} == {**before, "updated_at": 0}
    write(contexts, PLANNING, key, {"last_run": {"status": "ok"}})
    assert contexts.entry(PLANNING, key)["last_run"]["error"] == ""


# -- the bundle --------------------------------------------------------------------------------------


def long_entry(key: EntryKey, *, size: int = 400) -> "dict[str, Any]":
    word = "word " * (size // 5)
    return {
        **new_entry(key),
        "feature_request": "read numbers",
        "checkpoint": {"git_head": "a" * 40},
        "pinned_rules": ["never eval what is read"],
        "working_summary": {"text": word * 3},
        "open_decisions": [{"id": f"D{n}", "text": word, "status": "open"} for n in range(9)],
        "checklist": [{"text": f"step {n}", "done": n < 2} for n in range(9)],
        "evidence_ledger": [EVIDENCE] * 9,
        "file_pointers": [{"role": "architecture", "path": f"docs/{n}.md"} for n in range(40)],
        "last_run": {"error": "3 tests fail", "next_action": "look at them"},
    }


SNIPPETS: "list[shared_bundle.Snippet]" = [
    (0.9, "use base 10", "turn:a_001"),
    (0.2, "irrelevant", "turn:b_001"),
]


def test_a_planning_bundle_has_its_sections_in_order(contexts: ContextStore, key: EntryKey) -> None:
    """S2-4, S2-16, S2-24, S2-27, S2-33: rules, checkpoint, decisions, summary, pointers, snippets."""
    entry = long_entry(key, size=20)
    made = shared_bundle.bundle(
        PLANNING, entry, Staleness(), snippets=SNIPPETS, sessions={"codex": {"id": "c1"}}
    )
    titles = [line[3:] for line in made.text.splitlines() if line.startswith("## ")]

    assert titles == [
        "Rules",
        "Checkpoint",
        "Last errors",
        "Open decisions",
        "Summary",
        "Files to read",
        "Evidence",
        "Found in earlier sessions",
    ]
    assert "never eval what is read" in made.text and "beats what is noted" in made.text
    assert "session of codex: c1" in made.text
    assert "use base 10 [turn:a_001]" in made.text and "irrelevant" not in made.text
    assert "## Last errors\n- 3 tests fail; next: look at them" in made.text
    assert [f"D{n}" in made.text for n in range(9)] == [False] * 4 + [True] * 5
    assert made.left_out == {"pointers": 40 - made.text.count("docs/"), "evidence": 6}


def test_an_implementation_bundle_shows_what_changed_first(contexts: ContextStore, key: EntryKey) -> None:
    """S2-15, S2-26, S2-30: changes, then the next three steps and the places of evidence."""
    stale = Staleness(("tracked files changed",), (("M", "src/a.py"),))
    made = shared_bundle.bundle(IMPLEMENTATION, long_entry(key, size=20), stale)
    titles = [line[3:] for line in made.text.splitlines() if line.startswith("## ")]

    assert titles == [
        "Rules", "Checkpoint", "Changed since the checkpoint", "Last errors", "Next steps", "Evidence",
    ]  # fmt: skip
    assert "STALE: tracked files changed" in made.text and "- M src/a.py" in made.text
    assert [f"step {n}" in made.text for n in range(6)] == [False, False, True, True, True, False]
    assert "numbers are implemented: src/a.py:L1-L2" in made.text


def test_a_stale_summary_is_not_to_be_trusted(contexts: ContextStore, key: EntryKey) -> None:
    """S2-15: the changes come first, and the summary says what it is."""
    stale = Staleness(("tracked files changed",), (("M", "src/a.py"),))
    made = shared_bundle.bundle(PLANNING, long_entry(key, size=20), stale, diff=" src/a.py | 2 +-")

    assert made.text.index("src/a.py | 2 +-") < made.text.index("- STALE, not to be trusted: word")


@given(
    phase=st.sampled_from([PLANNING, IMPLEMENTATION]),
    size=st.integers(5, 3000),
    size_max=st.integers(0, 3000),
    rules=st.lists(st.text(max_size=600), max_size=4),
)
def test_a_bundle_fits_its_budget(phase: str, size: int, size_max: int, rules: "list[str]") -> None:
    """S2-28, S2-29, S2-30, S2-36: within its limit, the same twice, rules and checkpoint in it."""
    entry = long_entry(EntryKey("r", "b", "w"), size=size) | {"pinned_rules": rules}
    stale = Staleness(("the commit was a and is b",), tuple(("M", f"src/{n}.py") for n in range(50)))
    made = shared_bundle.bundle(phase, entry, stale, snippets=SNIPPETS, size_max=size_max)
    limit = min(size_max or 9999, shared_bundle.SIZE_MAX[phase])

    assert made == shared_bundle.bundle(phase, entry, stale, snippets=SNIPPETS, size_max=size_max)
    assert made.text.startswith("## Rules\n- The repository's state is truth")
    assert "## Checkpoint\n- aaaaaaaaaaaa, STALE" in made.text
    assert len(made.text) <= max(limit, 350 + 150 + 2)
    for section in made.text.split("\n\n"):
        assert "\n- " in section, "a heading with nothing below it"


def test_what_is_shed_goes_in_a_fixed_order(contexts: ContextStore, key: EntryKey) -> None:
    """S2-28: snippets, pointers, summary, decisions; each goes before the next one is shortened."""
    entry = long_entry(key)
    seen = [
        [n for n in ("retrieved", "pointers", "summary", "decisions") if n not in shed(made, n)]
        for made in (
            shared_bundle.bundle(PLANNING, entry, Staleness(), snippets=SNIPPETS, size_max=limit)
            for limit in (2200, 1900, 1500, 1000, 120)
        )
    ]

    assert seen[-1] == []
    for before, after in itertools.pairwise(seen):
        assert set(after) <= set(before)
        assert after == before[len(before) - len(after) :]


def shed(made: shared_bundle.Bundle, name: str) -> "set[str]":
    title = {"retrieved": "Found in", "pointers": "Files to", "summary": "Summary", "decisions": "Open dec"}[
        name
    ]
    return set() if f"## {title}" in made.text else {name}


def test_every_role_gets_the_same_bundle(contexts: ContextStore, key: EntryKey) -> None:
    """S2-25, S2-31: four rounds in order, each with its length, and no facts from nowhere."""
    made = shared_bundle.bundle(PLANNING, long_entry(key), Staleness())
    rounds = shared_bundle.role_rounds(made)

    assert [role for role, _ in rounds] == ["Product Owner", "Architect", "Developer", "Validator"]
    for (role, text), (least, most) in zip(rounds, shared_bundle.ROLES.values(), strict=True):
        assert text.startswith(made.text)
        assert f"You are the {role}. Answer in {least} to {most} characters." in text
        assert "State no fact that is not in the bundle" in text and "decision log" in text


LONG: "list[shared_bundle.Snippet]" = [(0.9, "word " * 200, "turn:a_001")]


def test_each_section_and_each_role_has_its_size(contexts: ContextStore, key: EntryKey) -> None:
    """S2-28…S2-31: the characters of each section, of a whole bundle, and of what each role answers."""
    sizes = {
        PLANNING: {
            "Rules": 350, "Checkpoint": 150, "Changed since the checkpoint": 600, "Last errors": 300,
            "Open decisions": 600, "Summary": 800, "Files to read": 300, "Evidence": 150,
            "Found in earlier sessions": 300,
        },
        IMPLEMENTATION: {
            "Rules": 350, "Checkpoint": 150, "Changed since the checkpoint": 600, "Last errors": 300,
            "Next steps": 400, "Evidence": 150, "Found in earlier sessions": 200,
        },
    }  # fmt: skip
    answers = [(400, 700), (600, 900), (700, 1000), (300, 500)]
    stale = Staleness(("tracked files changed",), tuple(("M", f"src/{n:04d}.py") for n in range(200)))
    for phase, whole in ((PLANNING, 2200), (IMPLEMENTATION, 1700)):
        for left in ("working_summary", "open_decisions", "file_pointers", "checklist", "evidence_ledger"):
            entry = {**new_entry(key), "feature_request": "x", left: long_entry(key, size=2000)[left]}
            made = shared_bundle.bundle(phase, entry, stale, snippets=LONG)
            for section in made.text.split("\n\n"):
                assert len(section) <= sizes[phase][section.splitlines()[0][3:]], section
        steps = [{"text": "step " * 23 + str(n)} for n in range(3)]
        full = {**long_entry(key, size=2000), "pinned_rules": ["rule"] * 60, "checklist": steps}
        assert len(shared_bundle.bundle(phase, full, stale, snippets=LONG).text) <= whole
    rounds = [text for _, text in shared_bundle.role_rounds(made)]
    asked = [f"in {least} to {most} characters" for least, most in answers]
    assert all(words in text for words, text in zip(asked, rounds, strict=True))


def test_snippets_are_let_in_from_one_half_on(contexts: ContextStore, key: EntryKey) -> None:
    """S2-33: a relevance of 0.5 is enough, and less is not."""
    snippets = [(0.5, "just enough", "turn:a_001"), (0.49, "too little", "turn:b_001")]
    entry = {**new_entry(key), "feature_request": "read numbers"}
    made = shared_bundle.bundle(PLANNING, entry, Staleness(), snippets=snippets)

    assert "just enough" in made.text and "too little" not in made.text


# -- nodes and the flag ------------------------------------------------------------------------------


ON = {"context": {"share_session": True}, "plan": {"metadata": {"kept": 1}}}


def test_without_the_flag_nothing_happens(contexts: ContextStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2-5, S2-32: no file is read or written, no git runs, nothing is gated, and nothing comes back."""
    monkeypatch.delenv(shared_nodes.VARIABLE, raising=False)
    position = contexts.store.journal.next_position()
    monkeypatch.setattr(subprocess, "Popen", None)
    monkeypatch.setattr(shared_nodes, "state_of", None)
    for state in ({}, {"context": {}}, {"context": {"share_session": False}}):
        for node in (ContextLoadNode, ValidationNode, ContextWriteNode):
            update = {"evidence_ledger": [{"claim": "done"}]}
            assert (
                node(contexts, "parser")(
                    {**state, "context": {**state.get("context", {}), "shared_update": update}}
                )
                == {}
            )

    assert contexts.store.journal.next_position() == position
    assert not (Path(contexts.root) / "data").exists()


def test_the_state_beats_the_environment_beats_the_settings(
    contexts: ContextStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2-32: three places, in this order, and off when none of them says anything."""
    monkeypatch.delenv(shared_nodes.VARIABLE, raising=False)
    assert not shared_nodes.is_enabled(contexts)
    Path(contexts.store.layout.config_file).write_text("[context]\nshared = true\n", "utf-8")
    assert shared_nodes.is_enabled(contexts)
    monkeypatch.setenv(shared_nodes.VARIABLE, "false")
    assert not shared_nodes.is_enabled(contexts)
    assert shared_nodes.is_enabled(contexts, True)
    monkeypatch.setenv(shared_nodes.VARIABLE, "true")
    assert shared_nodes.is_enabled(contexts) and not shared_nodes.is_enabled(contexts, False)


def test_the_nodes_pass_context_on(contexts: ContextStore, key: EntryKey) -> None:
    """S2-12, S2-17, S2-18, S2-19, S2-34: what one run writes the next one loads, into context and plan."""
    update = {**SUMMARY, "feature_request": "read numbers", "cli_sessions": {"codex": {"id": "c1"}}}
    written = ContextWriteNode(contexts, "parser")(
        {**ON, "context": {**ON["context"], "shared_update": update}}
    )
    loaded = ContextLoadNode(contexts, "parser")(ON)
    shared = loaded["context"][PLANNING]

    assert written["context"]["shared_written"]["feature_request"] == "read numbers"
    assert (shared["stale"], shared["scan_again"]) == (False, [])
    assert shared["bundle"].startswith("## Rules") and "The parser reads numbers." in shared["bundle"]
    assert loaded["plan"]["metadata"]["shared_context"] == shared
    assert loaded["plan"]["metadata"]["kept"] == 1
    assert loaded["plan"]["metadata"]["cli_sessions"] == {"codex": {"id": "c1"}}
    (Path(contexts.root) / "src/a.py").write_text("x\n", "utf-8")
    checked = ValidationNode(contexts, "parser")(ON)["context"]["validation"]
    assert (checked["ok"], checked["stale"], checked["scan_again"]) == (
        False,
        ["tracked files changed"],
        ["src/a.py"],
    )
    assert "src/a.py" in checked["bundle"]
    again = ContextLoadNode(contexts, "parser")(ON)["context"][PLANNING]
    assert (again["stale"], again["scan_again"]) == (True, ["src/a.py"])


@pytest.mark.slow
def test_the_nodes_run_in_a_real_graph(contexts: ContextStore, key: EntryKey) -> None:
    """S2-22, S2-23: load, validate, write in a real graph; the next run begins with what was written."""
    graphs = pytest.importorskip("langgraph.graph", reason="langgraph is not installed")

    class State(TypedDict, total=False):
        context: dict[str, Any]
        plan: dict[str, Any]

    def work(state: State) -> State:
        return {"context": {**state["context"], "shared_update": {**SUMMARY, "feature_request": "numbers"}}}

    graph = graphs.StateGraph(State)
    steps = {
        "load": ContextLoadNode(contexts, "parser"),
        "validate": ValidationNode(contexts, "parser"),
        "work": work,
        "write": ContextWriteNode(contexts, "parser"),
    }
    for name, step in steps.items():
        graph.add_node(name, step)
    for before, after in zip([graphs.START, *steps], [*steps, graphs.END], strict=True):
        graph.add_edge(before, after)
    run = graph.compile()
    first = run.invoke({"context": {"share_session": True}, "plan": {}})
    second = run.invoke({"context": {"share_session": True}, "plan": {}})

    assert "Summary" not in first["context"][PLANNING]["bundle"]
    assert "The parser reads numbers." in second["context"][PLANNING]["bundle"]
    assert second["plan"]["metadata"]["shared_context"] == second["context"][PLANNING]
    assert second["context"]["validation"]["ok"] is True
