"""Makes the golden stores: `python -m tests.golden.make_stores NAME…`, or `all`, or `--changed`.

A golden store is made once, by the revision whose store and answers it shows, and never again; a later
revision adds stores under other names. With `--changed` it writes what is stated now of those that there are,
where that is stated otherwise on purpose: docs/testing.md has the rule.
"""

import gzip
import itertools
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eventlog import Hooks, Recorder
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import FILE, TreeEntry
from eventlog.store import Store
from tests.cli.support import make_history
from tests.golden import asked, compare, stores
from tests.golden.sessions import AGENTS, FIRST_FILES, HOME
from tests.golden.stores import LEFT, Place
from tests.worktree.support import git

Json = dict[str, Any]

REPO = "9f86d081884c"
SECRET = "quokka-4711-wombat"
# Of these stores also what the verbs say in words is kept.
_IN_WORDS = ("hooks-first", "api")
_HOUR_US = 3_600_000_000
_IMPORTS = {
    "claude-code": f"{LEFT}/claude-code",
    "codex": f"{LEFT}/codex",
    "gemini": f"{LEFT}/gemini-cli",
    "opencode": f"{LEFT}/opencode/export.json",
}


def locus(place: Place, *arguments: str) -> None:
    answer = place.ask(arguments)
    assert answer.code == 0, answer


def hooks_first(place: Place) -> None:
    """Four agents reported by hooks; what they left on disk imported afterwards. Nothing sealed."""
    steps = [step for make in AGENTS.values() for step in make()]
    _begin(place, steps)
    place.play(steps)
    _imported(place)


def transcripts_first(place: Place) -> None:
    """What four agents left on disk imported; their hooks reported the same afterwards. Sealed in the end."""
    steps = [step for make in AGENTS.values() for step in make()]
    _begin(place, steps)
    for step in steps:
        for file, lines in step["lines"].items():
            place.leave(file, lines)
    _imported(place)
    place.play(steps, leave=False)
    locus(place, "store", "seal")


def git_import(place: Place) -> None:
    """Commits of a repository, imported and sealed."""
    _begin(place, [], imports=[["git", "history"]])
    make_history(place.directory / "made")
    git(place.directory / "made", "bundle", "create", "-q", str(place.directory / "history.bundle"), "main")
    shutil.rmtree(place.directory / "made")
    place.imports()


def api(place: Place) -> None:
    """Three turns recorded from Python, the old hooks' contexts beside them. Never sealed."""
    _begin(place, [])
    with Store.open(place.store) as store:
        _record(store)
        _record_contexts(store)


def compacted(place: Place) -> None:
    """The same from Python, sealed after each turn; all segments merged into one, all packs into another."""
    _begin(place, [])
    with Store.open(place.store) as store:
        _record(store, seal=True)
        _record_contexts(store)
        store.seal()
    locus(place, "store", "compact", "--all")
    locus(place, "store", "repack", "--all")


def erased(place: Place) -> None:
    """A session whose first prompt held a secret: erased, with an event, and the steps still hold both."""
    steps = AGENTS["claude-code"](f"Tea is too cheap, make it 3. The till opens with {SECRET}")
    _begin(place, steps)
    place.play(steps)
    locus(place, "import", "claude-code", _IMPORTS["claude-code"])
    _facts(place, imports=[["claude-code", _IMPORTS["claude-code"]]])
    locus(place, "store", "erase", "--secret", SECRET, "--reason", "the code of the till", "--yes")
    with Store.open(place.store) as store:
        (failed,) = [event["event_id"] for event in store.events(event_types=["error"])]
    locus(place, "store", "erase", "--event", failed, "--reason", "not ours to keep", "--yes")


def restored(place: Place) -> None:
    """A session, then its first turn restored, undone, and restored again. Never sealed."""
    steps = AGENTS["claude-code"]()
    _begin(place, steps)
    place.play(steps)
    with Store.open(place.store) as store:
        first = store.query("select context_id from turns order by turn limit 1").rows[0][0]
    for arguments in ([first], ["--undo"], [first]):
        locus(place, "restore", *arguments, "--yes", "--into", "@PLACE@/kiosk")


def shared(place: Place) -> None:
    """Context shared by files of a git repository, a briefing given at the start, a session still open."""
    steps = AGENTS["claude-code"]()
    _begin(place, steps)
    settings = "[context]\nshared = true\n\n[briefing]\nat_start = true\n"
    (place.store / "config.toml").write_text(settings)
    with Store.open(place.store) as store:
        _record(store)
    git(place.project, "init", "-q", "-b", "main", "--template=")
    git(place.project, "add", "-A", ".")
    git(place.project, "commit", "-q", "-m", "Begin the kiosk")
    update = {
        "feature_request": "fair prices",
        "pinned_rules": ["Prices are whole numbers"],
        "working_summary": {"text": "Tea is to cost 3."},
        "open_decisions": [{"id": "d1", "text": "Round up or down?", "status": "open"}],
        "file_pointers": [{"path": "tea.py", "role": "product"}],
    }
    (place.directory / "update.json").write_text(json.dumps(update))
    verified = ("--tests-passed", "--diff-applied")
    locus(place, "context", "write", "prices", "@PLACE@/update.json", *verified)
    locus(place, "session", "start", "raise the price of tea", "--agent", "claude-code", "--scope", "tea.py")
    listed = [place.hook(step["agent"], step["call"]) for step in steps[:1]]
    assert b"Briefing" in listed[0], listed
    place.play(steps[1:-1])


MAKERS: dict[str, Callable[[Place], None]] = {
    "hooks-first": hooks_first,
    "transcripts-first": transcripts_first,
    "git": git_import,
    "api": api,
    "compacted": compacted,
    "erased": erased,
    "restored": restored,
    "shared": shared,
}


def _record(store: Store, *, seal: bool = False) -> None:
    """Two sessions with three turns: decisions, an error and its end, model calls, files, snapshots."""
    recorder = Recorder(store, agent="script", agent_version="1.0", branch="main")
    files = dict(FIRST_FILES)
    for number, (words, path, new) in enumerate(
        [
            ("Make tea cost 3", "tea.py", "TEA = 3\nprint(TEA)\n"),
            ("Make cake cost 4", "cake.py", "CAKE = 4\nprint(CAKE)\n"),
            ("Sell juice no more", "juice.py", ""),
        ]
    ):
        turn = recorder.start_turn(words, tree_hash=_tree(store, files))
        old = files.pop(path)
        if new:
            files[path] = new
        turn.decision("whole prices", "nobody has small coins", alternatives_considered=["cents"])
        turn.action("pytest", {"args": ["tests"]}, {"exit": number % 2}, success=number % 2 == 0)
        if number == 1:
            turn.error("test_failure", "the cake test wants 3", resolved=False)
        turn.file(path, before=old.encode(), after=new.encode() if new else None)
        turn.llm(
            "claude-opus-5",
            prompt_tokens=1000 + number,
            completion_tokens=50,
            cache_read_tokens=600,
            message_id=f"m{number}",
        )
        turn.feedback("praise", "good", sentiment="positive")
        turn.snapshot_of(_tree(store, files))
        turn.end(title=words, outcome="done")
        if seal:
            store.seal()
        if number == 1:
            recorder.end_session("Tea and cake are dearer")
    recorder.end_session("No more juice")


def _record_contexts(store: Store) -> None:
    """What runtimes write that count by themselves, and that write one context for each subject."""
    hooks = Hooks(store, agent="runtime").strict
    hooks.store_tool_run("terminal_bash", {"command": "ls"}, "tea.py", 12, False)
    hooks.store_decision("Sell soup", reasoning="it is winter")
    hooks.store_project_convention("kiosk", "prices are whole numbers", ["TEA = 3"])
    hooks.store_skill("restock", "Fill the shelves", ["look", "buy"], validated=True)
    hooks.store_error("checkout", "the till is stuck", "till.py")


def _tree(store: Store, files: "dict[str, str]") -> str:
    with store.blobs.writer() as writer:
        entries = [
            TreeEntry(path.encode(), FILE, writer.put(text.encode()), len(text.encode()))
            for path, text in files.items()
        ]
        root = writer.put_tree(entries)
        writer.flush()
    return to_text(root)


def _begin(place: Place, steps: list[Json], imports: "list[list[str]] | None" = None) -> None:
    Store.init(place.store, project_name="kiosk", repo_hash=REPO, force=True).close()
    for path, text in FIRST_FILES.items():
        (place.project / path).write_text(text)
    text = "".join(json.dumps(step) + "\n" for step in steps)
    (place.directory / "steps.jsonl").write_text(text)
    _facts(place, imports=imports or [])


def _imported(place: Place) -> None:
    _facts(place, imports=[[agent, path] for agent, path in _IMPORTS.items()])
    place.imports()


def _facts(place: Place, **fields: Any) -> None:
    path = place.directory / "facts.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, **fields}, indent=1) + "\n")


def make(name: str) -> None:
    """The archive and the answers of one store; the answers must be the same wherever it is unpacked."""
    place = Place(Path(HOME).parent)
    shutil.rmtree(place.directory, ignore_errors=True)
    for directory in (place.project, place.directory / "home"):
        directory.mkdir(parents=True)
    MAKERS[name](place)
    _facts(place, clock_us=time.time_ns() // 1000 + _HOUR_US)
    stores.pack(place, name)
    shutil.rmtree(place.directory)

    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory(prefix="longer-") as second:
        place = stores.unpack(name, Path(first))
        with stores.clock(place.facts["clock_us"]):
            questions = asked.questions(place, words=name in _IN_WORDS, shared=name == "shared")
            answers = [place.ask(arguments) for arguments in questions]
        for answer, other in zip(answers, _asked_again(name, answers, Path(second)), strict=True):
            if other != answer:
                _show(answer, other)
                raise SystemExit(f"{name}: {answer.name} is not steady")
    path = stores.STORES / f"{name}.answers.jsonl.gz"
    path.write_bytes(gzip.compress(_lines(answers).encode(), mtime=0))
    print(f"{name}: {len(answers)} answers, {path.stat().st_size} bytes")


def write_changed() -> None:
    """Write what golden stores say now where CHANGES.toml has an entry; refuse what has none."""
    entries = compare.changes()
    for name in stores.names():
        committed = stores.answers_of(name)
        with tempfile.TemporaryDirectory() as directory:
            found = _asked_again(name, committed, Path(directory))
        differing = [(now, why) for old, now in zip(committed, found, strict=True)
                     if (why := compare.difference(old, now)) is not None]  # fmt: skip
        for now, why in differing:
            if not any(entry.covers(name, now.name) for entry in entries):
                raise SystemExit(f"{name}: not covered by {compare.CHANGES}: {why}")
        path = stores.STORES / f"{name}.changed.jsonl.gz"
        path.unlink(missing_ok=True)
        if differing:
            path.write_bytes(gzip.compress(_lines([now for now, _ in differing]).encode(), mtime=0))
        print(f"{name}: {len(differing)} answers changed")


def _asked_again(name: str, answers: "list[stores.Answer]", directory: Path) -> "list[stores.Answer]":
    place = stores.unpack(name, directory)
    with stores.clock(place.facts["clock_us"]):
        return [place.ask(answer.arguments, answer.name) for answer in answers]


def _lines(answers: "list[stores.Answer]") -> str:
    return "".join(json.dumps(asdict(answer)) + "\n" for answer in answers)


def _show(one: stores.Answer, other: stores.Answer) -> None:
    for a, b in itertools.zip_longest(one.out.splitlines(), other.out.splitlines()):
        if a != b:
            print(f"  - {str(a)[:600]}\n  + {str(b)[:600]}", file=sys.stderr)
    if one.err != other.err:
        print(f"  - {one.err}\n  + {other.err}", file=sys.stderr)


if __name__ == "__main__":
    wanted = sys.argv[1:]
    if wanted == ["--changed"]:
        write_changed()
    else:
        for store in MAKERS if wanted == ["all"] else wanted:
            make(store)
