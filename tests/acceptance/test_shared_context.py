"""Shared context between sessions, through `locus context`, `locus mcp` and the committed files.

One story: a kiosk's repository, whose context is off, switched on, written, read by another tool and by a
clone, refused, and stale. The tests hold what came out against the schema and the budgets asked for.
"""

import json
import re
from dataclasses import dataclass, field

import pytest

from tests.acceptance.project import Json, Project, new_project
from tests.cli.support import Ended

SOURCE = "def greet():\n    return 'hello'\n\n\ndef price():\n    return 2\n"
FILES = (
    ("src/kiosk.py", SOURCE),
    ("docs/product.md", "# Product\n\nTea for guests.\n"),
    ("docs/ux.md", "# UX\n"),
    ("docs/architecture.md", "# Architecture\n"),
)
REQUEST = "Add a login"
SUMMARY = "The greeting is implemented. The login form is planned."
EVIDENCE = {"claim": "The greeting is implemented.", "files": [{"path": "src/kiosk.py", "lines": "L1-L2"}]}
SYMBOL = {"claim": "prices are shown", "files": [{"path": "src/kiosk.py", "symbol": "price"}]}
PLAN = {
    "feature_request": REQUEST,
    "pinned_rules": ["Never print secrets."],
    "working_summary": {"text": SUMMARY},
    "open_decisions": [
        {"id": f"D{n}", "text": f"Which form has part {n}?", "status": "open"} for n in range(1, 8)
    ] + [{"id": "D8", "text": "Tea or coffee?", "status": "closed"}],
    "evidence_ledger": [EVIDENCE, SYMBOL],
    "file_pointers": [
        {"role": role, "path": f"docs/{role}.md"} for role in ("product", "ux", "architecture")
    ],
    "cli_sessions": {"codex": {"id": "c-77", "local_path": "/own/c-77.jsonl"}, "gemini": {"id": "g-5"}},
}  # fmt: skip
BUILD = {
    "feature_request": REQUEST,
    "checklist": [{"text": f"Write part {n}", "done": False} for n in range(1, 6)],
    "evidence_ledger": [EVIDENCE],
}
FAILED = {"status": "failed", "failed_step": "tests", "error": "3 tests fail", "next_action": "read them"}
# What claims to be done, and shows nothing or what is not there.
UNSHOWN = {
    "no files": {"evidence_ledger": [{"claim": "The login is done"}]},
    "neither lines nor symbol": {
        "evidence_ledger": [{"claim": "The login is fixed", "files": [{"path": "src/kiosk.py"}]}]
    },
    "lines that are not there": {
        "evidence_ledger": [
            {"claim": "The login is done", "files": [{"path": "src/kiosk.py", "lines": "L1-L99"}]}
        ]
    },
    "a symbol that is not there": {
        "evidence_ledger": [
            {"claim": "The login is done", "files": [{"path": "src/kiosk.py", "symbol": "login"}]}
        ]
    },
    "a step": {"checklist": [{"text": "Write part 9", "done": True}]},
    **{
        word: {"working_summary": {"text": f"The login is {word}."}}
        for word in ("done", "implemented", "fixed", "completed", "finished", "resolved", "shipped")
    },
}
SEED_SIZES = {  # the most characters of each section, and of the whole
    "planning": (
        {"Rules": 350, "Checkpoint": 150, "Open decisions": 600, "Summary": 800, "Files to read": 300},
        2200,
    ),
    "implementation": (
        {"Rules": 350, "Changed since the checkpoint": 600, "Next steps": 400, "Evidence": 150},
        1700,
    ),
}


@dataclass
class Story:
    project: Project
    clone: Project
    off: list[Ended] = field(default_factory=list)
    flags: dict[str, int] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    loaded: Json = field(default_factory=dict)
    bundles: dict[str, str] = field(default_factory=dict)
    rounds: list[Json] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    unchanged: bool = False
    answers: dict[str, Json] = field(default_factory=dict)
    by_mcp: dict[str, str] = field(default_factory=dict)


def write(project: Project, update: Json, *more: object, workstream: str = "login", **environ: str) -> Ended:
    return project.locus(
        "context", "write", workstream, "-", *more, stdin=json.dumps(update).encode(), **environ
    )


VERIFIED = ("--tests-passed", "--diff-applied")
BUILDING = ("--phase", "implementation")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The whole of it, once."""
    place = tmp_path_factory.mktemp("shared")
    project = new_project(place, *FILES)
    reported = Story(project, Project(place / "clone"))
    answers = reported.answers

    reported.off = [write(project, PLAN, *VERIFIED), project.locus("context", "bundle", "login")]
    reported.flags["environment"] = project.locus("context", "load", "x", SHARED_CONTEXT_ENABLED="true").code
    (project.store / "config.toml").write_text("[context]\nshared = true\n", "utf-8")
    reported.flags["settings"] = project.locus("context", "load", "x").code
    reported.flags["environment beats settings"] = project.locus(
        "context", "load", "x", SHARED_CONTEXT_ENABLED="false"
    ).code

    reported.refused["an unverified summary"] = write(project, PLAN).code
    reported.refused["a summary with failing tests"] = write(project, PLAN, "--diff-applied").code
    for update, options in ((PLAN, VERIFIED), (BUILD, BUILDING)):
        written = write(project, update, *options)
        assert written.code == 0, written.err
    reported.files = {
        str(path.relative_to(project.root)): path.read_bytes()
        for path in sorted(project.root.rglob("*context*"))
        if path.is_file() and ".locus" not in path.parts
    } | {
        str(path.relative_to(project.root)): path.read_bytes()
        for path in (project.root / "data/context").iterdir()
    }
    reported.loaded = project.asked("context", "load", "login")
    reported.bundles["planning"] = project.must("context", "bundle", "login")
    reported.bundles["implementation"] = project.must("context", "bundle", "login", *BUILDING)
    reported.rounds = project.asked("context", "bundle", "login", "--roles", "--json")["rounds"]
    with project.mcp("codex") as server:
        for phase in reported.bundles:
            reported.by_mcp[phase] = server.call("context_bundle", workstream="login", phase=phase)

    before = reported.files["data/context/planning_context.json"]
    for name, update in UNSHOWN.items():
        reported.refused[name] = write(project, update, *VERIFIED).code
    planned = project.root / "data/context/planning_context.json"
    reported.unchanged = planned.read_bytes() == before

    for number in range(5):
        run = {**FAILED, "error": f"{number} tests fail"}
        write(project, {"last_run": run, "checklist": [{"text": "x"}]})
    answers["failed"] = project.asked("context", "load", "login")
    reported.bundles["failed"] = project.must("context", "bundle", "login")

    for name in ("alpha", "beta", "gamma"):
        write(project, PLAN, *VERIFIED, workstream=name)
    reported.bundles["grown"] = project.must("context", "bundle", "login")

    _commit_and_clone(project, reported)
    _go_stale(project, reported)
    return reported


def _commit_and_clone(project: Project, told: Story) -> None:
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "Share what we know")
    told.answers["committed"] = {"files": project.git("ls-files").splitlines()}
    told.answers["after the commit"] = project.asked("context", "validate", "login", "--json")
    project.git("clone", "-q", str(project.root), str(told.clone.root))
    told.clone.must("init")
    (told.clone.store / "config.toml").write_text("[context]\nshared = true\n", "utf-8")
    told.answers["of the clone"] = told.clone.asked("context", "load", "login")
    _poison(told.clone)
    for name in ("planning_context.json", "implementation_context.json"):
        (project.root / "data/context" / name).unlink()
    (project.root / "docs/context_summary.md").unlink()
    for phase in ("planning", "implementation"):
        project.must("context", "write", "login", "--rebuild", "--phase", phase)
    told.answers["rebuilt"] = {"status": project.git("status", "--porcelain")}


def _poison(clone: Project) -> None:
    """A committed file whose commit is an option of git, read by every command."""
    path = clone.root / "data/context/planning_context.json"
    whole = json.loads(path.read_text("utf-8"))
    for entry in whole["entries"]:
        entry["checkpoint"]["git_head"] = f"--output={clone.root}/written"
        entry["updated_at"] = "2999-01-01T00:00:00Z"
    path.write_text(json.dumps(whole), "utf-8")
    for words in (("load", "login"), ("bundle", "login"), ("validate", "login"), ("status",)):
        clone.locus("context", *words)


def _go_stale(project: Project, told: Story) -> None:
    answers = told.answers
    (project.root / "src/kiosk.py").write_text(SOURCE.replace("hello", "good day"), "utf-8")
    answers["touched"] = project.asked("context", "load", "login")
    answers["validated"] = project.asked("context", "validate", "login", "--json")
    answers["exit of validate"] = {"code": project.locus("context", "validate", "login").code}
    told.bundles["stale"] = project.must("context", "bundle", "login")
    told.bundles["stale build"] = project.must("context", "bundle", "login", *BUILDING)
    _fill(project, told)
    write(project, {"open_decisions": [{"id": "D1", "status": "closed"}]})
    answers["stored"] = json.loads((project.root / "data/context/planning_context.json").read_text("utf-8"))
    project.git("commit", "-q", "-a", "-m", "Greet by day")
    answers["of another commit"] = project.asked("context", "load", "login")
    project.git("checkout", "-q", "-b", "other")
    answers["of another branch"] = project.asked("context", "load", "login")


def _fill(project: Project, told: Story) -> None:
    """Bundles of a workstream that has more of everything than fits."""
    long = {
        "feature_request": REQUEST,
        "pinned_rules": [f"Rule {n}: keep the tea warm" for n in range(30)],
        "working_summary": {"text": "The form is planned in parts. " * 60},
        "open_decisions": [{"id": f"D{n}", "text": "which of them? " * 9} for n in range(5)],
        "checklist": [{"text": f"Write part {n} " + "of the form " * 12} for n in range(9)],
        "evidence_ledger": [{**SYMBOL, "claim": f"prices are shown, {n}"} for n in range(9)],
        "file_pointers": [{"role": "product", "path": f"docs/product-{n}.md"} for n in range(40)],
    }
    for phase in ("planning", "implementation"):
        written = write(project, long, *VERIFIED, "--phase", phase, workstream="full")
        assert written.code == 0, written.err
    summary = {"working_summary": long["working_summary"]}
    assert write(project, summary, *VERIFIED, workstream="summed up").code == 0
    told.bundles["summed up"] = project.must("context", "bundle", "summed up")
    for number in range(20):
        (project.root / f"src/part-{number:02d}.py").write_text("x = 1\n", "utf-8")
    project.git("add", "src")
    for phase in ("planning", "implementation"):
        told.bundles[f"full {phase}"] = project.must("context", "bundle", "full", "--phase", phase)


def sections(bundle: str) -> dict[str, str]:
    """Title → the whole of the section."""
    return {part.splitlines()[0][3:]: part for part in bundle.strip().split("\n\n")}


def entry_of(data: bytes | Json, workstream: str = "login") -> Json:
    whole = json.loads(data) if isinstance(data, bytes) else data
    [found] = [one for one in whole["entries"] if one["key"]["workstream_id"] == workstream]
    return dict(found)


# -- the files ---------------------------------------------------------------------------------------


def test_off_means_off(story: Story) -> None:
    """S2-5, S2-32: without the flag a write and a bundle are refused; the environment, and after it the
    settings, switch it on."""
    assert [(one.code, one.text) for one in story.off] == [(3, ""), (3, "")]
    assert all("[context]" in one.err for one in story.off)
    assert story.flags == {"environment": 0, "settings": 0, "environment beats settings": 3}


def test_four_files_and_a_page(story: Story) -> None:
    """S2-1, S2-2, S2-6, S2-8: planning and implementation apart, ids of sessions in local files that git
    ignores, a page for people; the rest is committed."""
    names = ("planning_context.json", "planning_sessions.local.json", "implementation_context.json")
    own = {f"data/context/{name}" for name in (*names, ".gitignore")}
    assert own | {"docs/context_summary.md"} == set(story.files)
    committed = set(story.answers["committed"]["files"])
    assert set(story.files) - committed == {"data/context/planning_sessions.local.json"}
    assert b"c-77" not in b"".join(
        data for name, data in story.files.items() if not name.endswith(".local.json")
    )
    page = story.files["docs/context_summary.md"].decode()
    assert REQUEST in page and "> The greeting is implemented." in page
    assert "checklist" not in entry_of(story.files["data/context/planning_context.json"])
    assert "working_summary" not in entry_of(story.files["data/context/implementation_context.json"])


def test_the_file_has_the_fields_of_the_schema(story: Story) -> None:
    """S2-7, S2-9, S2-10, S2-13: every field of the schema, with the values that were given."""
    whole = json.loads(story.files["data/context/planning_context.json"])
    entry = entry_of(whole)
    head = story.project.git("rev-parse", "main~2")

    assert whole["schema_version"] == entry["schema_version"] == 1
    assert set(entry["key"]) == {"repo", "branch", "workstream_id"}
    assert (entry["key"]["branch"], entry["key"]["workstream_id"]) == ("main", "login")
    assert entry["feature_request"] == REQUEST and entry["pinned_rules"] == ["Never print secrets."]
    assert set(entry["checkpoint"]) == {"git_head", "tracked_files_hash", "summary_hash"}
    assert entry["checkpoint"]["git_head"] == head and all(entry["checkpoint"].values())
    at = entry["working_summary"].pop("updated_at")
    assert entry["working_summary"] == {"text": SUMMARY, "stale": False}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", at)
    assert entry["open_decisions"] == PLAN["open_decisions"]
    [first, second] = entry["evidence_ledger"]
    assert first["files"][0].pop("hash").startswith("blake3:") and first == EVIDENCE
    assert second["files"][0].pop("hash").startswith("blake3:") and second == SYMBOL
    assert entry["file_pointers"] == PLAN["file_pointers"]


def test_session_ids_are_local(story: Story) -> None:
    """S2-3, S2-10: they are kept for this machine with what was recorded of them, and a clone has none."""
    local = json.loads(story.files["data/context/planning_sessions.local.json"])
    [row] = local["entries"]

    assert row["cli_sessions"] == PLAN["cli_sessions"] == story.loaded["cli_sessions"]
    assert story.answers["of the clone"]["cli_sessions"] == {}


def test_another_session_and_another_machine_go_on(story: Story) -> None:
    """S2-1, S2-8, S2-18, S2-35: a new process and a clone load what was written; the files come back from
    the log with the same bytes."""
    written = entry_of(story.files["data/context/planning_context.json"])
    of_clone = story.answers["of the clone"]["entry"]

    assert story.loaded["entry"] == written
    assert {name: of_clone[name] for name in PLAN if name not in ("cli_sessions", "working_summary")} == {
        name: written[name] for name in PLAN if name not in ("cli_sessions", "working_summary")
    }
    assert of_clone["working_summary"] == written["working_summary"]
    assert story.answers["of the clone"]["stale"] is False
    assert story.answers["rebuilt"]["status"] == ""


# -- staleness and evidence --------------------------------------------------------------------------


def test_the_repository_outranks_the_summary(story: Story) -> None:
    """S2-11, S2-12, S2-19: fresh until a file changes, also after a commit of the context alone; then stale
    by name, with what to read again, in what is loaded and in what is stored next."""
    assert (story.loaded["stale"], story.loaded["reasons"], story.loaded["scan_again"]) == (False, [], [])
    assert story.answers["after the commit"]["ok"] is True
    touched = story.answers["touched"]
    assert (touched["stale"], touched["reasons"]) == (True, ["tracked files changed"])
    assert touched["scan_again"] == ["src/kiosk.py"]
    assert touched["entry"]["working_summary"]["stale"] is True
    assert entry_of(story.answers["stored"])["working_summary"]["stale"] is True
    assert story.answers["of another commit"]["reasons"][0].startswith("the commit was ")
    assert story.answers["validated"]["ok"] is False and story.answers["exit of validate"] == {"code": 3}
    assert story.answers["validated"]["scan_again"] == ["src/kiosk.py"]
    assert {"path": "src/kiosk.py", "freshness": "changed"} in story.answers["validated"]["evidence"]


def test_what_is_not_shown_is_refused(story: Story) -> None:
    """S2-13, S2-14, S2-20: who says done, or another word for it, without evidence is refused; so is a
    summary without a verified checkpoint; nothing is written then."""
    names = [*UNSHOWN, "an unverified summary", "a summary with failing tests"]
    assert story.refused == dict.fromkeys(names, 3)
    assert story.unchanged


def test_a_failed_run_leaves_its_failure_alone(story: Story) -> None:
    """S2-21, S2-28: step, error and next action are stored, nothing else; the last three errors are
    reported."""
    failed = story.answers["failed"]["entry"]
    assert failed.pop("last_run") == {**FAILED, "error": "4 tests fail"}
    assert [run["error"] for run in failed.pop("failed_runs")] == [f"{n} tests fail" for n in (2, 3, 4)]
    assert failed.pop("updated_at") > story.loaded["entry"]["updated_at"]
    assert failed == {name: value for name, value in story.loaded["entry"].items() if name != "updated_at"}
    assert sections(story.bundles["failed"])["Last errors"].splitlines()[1:] == [
        f"- tests: {n} tests fail; next: read them" for n in (4, 3, 2)
    ]


def test_a_commit_that_is_an_option_reaches_no_git(story: Story) -> None:
    """P5: a committed file may name any text as its commit; git is given commits alone and writes nothing."""
    assert story.answers["of the clone"]["stale"] is False
    assert not (story.clone.root / "written").exists()


# -- the bundle --------------------------------------------------------------------------------------


def test_what_a_bundle_holds(story: Story) -> None:
    """S2-4, S2-16, S2-24, S2-27: rules, checkpoint with sessions, the last five open decisions, summary,
    pointers and references of evidence, in this order, and no content of a file."""
    found = sections(story.bundles["planning"])
    assert list(found) == ["Rules", "Checkpoint", "Open decisions", "Summary", "Files to read", "Evidence"]
    assert found["Rules"].splitlines()[1:] == [
        "- The repository's state is truth: it beats what is noted here.", "- Never print secrets.",
    ]  # fmt: skip
    head = story.project.git("rev-parse", "main~2")[:12]
    assert found["Checkpoint"].splitlines()[1:] == [
        f"- {head}, fresh", "- session of codex: c-77", "- session of gemini: g-5",
    ]  # fmt: skip
    assert found["Open decisions"].splitlines()[1:] == [
        f"- D{n}: Which form has part {n}?" for n in range(3, 8)
    ]
    assert found["Summary"] == f"## Summary\n- {SUMMARY}"
    assert found["Files to read"].splitlines()[1:] == [
        f"- {role} docs/{role}.md" for role in ("product", "ux", "architecture")
    ]
    assert "- The greeting is implemented.: src/kiosk.py:L1-L2" in found["Evidence"]
    assert not [text for text in ("return 'hello'", "Tea for guests") if text in story.bundles["planning"]]


def test_an_implementation_bundle(story: Story) -> None:
    """S2-2, S2-30: the next three steps and what is shown; no summary of the planning phase."""
    found = sections(story.bundles["implementation"])
    assert list(found) == ["Rules", "Checkpoint", "Next steps", "Evidence"]
    assert found["Next steps"].splitlines()[1:] == [f"- Write part {n}" for n in (1, 2, 3)]


def test_tools_get_the_same_bundle(story: Story) -> None:
    """S2-23: what `locus context bundle` prints is what a tool call answers."""
    for phase, text in story.by_mcp.items():
        assert text.partition("\n")[2].strip() == story.bundles[phase].strip()


def test_stale_comes_with_the_diff_first(story: Story) -> None:
    """S2-15, S2-26: what changed comes before everything that was noted, the summary is marked."""
    found = sections(story.bundles["stale"])
    assert list(found)[:3] == ["Rules", "Checkpoint", "Changed since the checkpoint"]
    assert "STALE: tracked files changed" in found["Checkpoint"]
    assert "src/kiosk.py" in found["Changed since the checkpoint"]
    assert found["Summary"].startswith("## Summary\n- STALE, not to be trusted: The greeting")
    assert list(sections(story.bundles["stale build"]))[:2] == ["Rules", "Checkpoint"]


def test_sizes(story: Story) -> None:
    """S2-28…S2-30, S2-36: each section and the whole are within what was asked for, and more workstreams and
    runs do not make a bundle longer."""
    for phase, (limits, whole) in SEED_SIZES.items():
        found = sections(story.bundles[phase]) | sections(story.bundles[f"full {phase}"])
        assert set(limits) <= set(found)
        assert 0.8 * whole < len(story.bundles[f"full {phase}"].strip()) <= whole
        assert {name: len(found[name]) for name, size in limits.items() if len(found[name]) > size} == {}
    assert 700 < len(sections(story.bundles["summed up"])["Summary"]) <= 800
    assert story.bundles["grown"] == story.bundles["failed"]


def test_each_role_gets_the_bundle_and_its_size(story: Story) -> None:
    """S2-25, S2-31: four rounds, one bundle, no new facts, the chair's log, and each role's characters."""
    sizes = {
        "Product Owner": (400, 700), "Architect": (600, 900),
        "Developer": (700, 1000), "Validator": (300, 500),
    }  # fmt: skip
    assert [one["role"] for one in story.rounds] == list(sizes)
    for one in story.rounds:
        least, most = sizes[one["role"]]
        assert one["text"].startswith(story.bundles["planning"].strip())
        assert f"Answer in {least} to {most} characters." in one["text"]
        assert "State no fact that is not in the bundle" in one["text"] and "decision log" in one["text"]


def test_branches_have_entries_of_their_own(story: Story) -> None:
    """S2-7: the same workstream on another branch knows nothing yet."""
    assert story.answers["of another branch"]["entry"]["key"]["branch"] == "other"
    assert "feature_request" not in story.answers["of another branch"]["entry"]
