"""A store with everything that a viewer may meet: it is made once, and copied."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from eventlog import Recorder, Store
from eventlog.erasure import erasure
from eventlog.importers.git_history import import_git
from eventlog.recorder import lifecycle
from tests.cli.support import git, make_history
from tests.secrets_made import made

# Texts that would run, mislead or break out, were they put into a page as they are.
HOSTILE = "<script>window.hit=1</script>\u202edlrow\x1b[31m\x00'\"&<img src=x onerror=hit>"
SECRET = f"token = {made()['github']}\n"
ERASED = "the word is xylophone\n"


@dataclass(frozen=True)
class Sample:
    """The directory, and the names of turns by what they are."""

    root: Path
    turns: dict[str, str]
    session: str

    @property
    def store(self) -> Path:
        return self.root / ".locus"


def make(root: Path) -> Sample:
    make_history(root)
    with Store.init(root / ".locus", project_name="sample") as store:
        import_git(store, str(root))
        turns = _agent(store, root)
        turns |= _without_trees(store)
        erasure.erase(store, erasure.plan_secret(store, ERASED.strip()))
        store.seal()
        turns |= _after_the_seal(store, root)
    sample = Sample(root, turns, turns["edit"].partition("_")[0])
    (root / "sample.json").write_text(json.dumps([turns, sample.session]))
    return sample


def _agent(store: Store, root: Path) -> dict[str, str]:
    recorder = Recorder(
        store, agent="claude-code", agent_session_id="11111111-2222-3333-4444-555555555555", branch="main"
    )
    turn = recorder.start_turn(f"Make tea cost 3 {HOSTILE}", root=root)
    (root / "tea.py").write_text('TEA = 3  # "tea"\n\n\ndef cost() -> int:\n    return TEA\n')
    (root / "secret.txt").write_text(SECRET)
    (root / "gone.txt").write_text(ERASED)
    (root / "plain.bin").write_bytes(b"\0\1\2")
    turn.file("tea.py", before=None, after=(root / "tea.py").read_bytes())
    turn.action("Bash", {"command": "python3 check.py"}, {"stderr": "too cheap"}, success=False)
    turn.error("Check", "AssertionError: too cheap", command="python3 check.py")
    turn.decision("Charge three", "Two is too cheap", alternatives_considered=["Charge four"])
    turn.llm("claude-sonnet-4-5", prompt_tokens=1_000, completion_tokens=100)
    turn.snapshot(root)
    turn.end(title="Change the price of tea", outcome="Tea costs 3.")
    first = turn.ref.name
    turn = recorder.start_turn("Rename it", root=root)
    os.rename(root / "tea.py", root / "coffee.py")
    (root / "between.txt").write_text("1\n")
    turn.file(
        "coffee.py", before=(root / "coffee.py").read_bytes(), after=(root / "coffee.py").read_bytes(),
        operation="rename", payload={"old_path": "tea.py"},
    )  # fmt: skip
    turn.snapshot(root)
    turn.end(title="Rename it")
    return {"edit": first, "rename": turn.ref.name}


def _without_trees(store: Store) -> dict[str, str]:
    """A turn whose tool calls alone are known, and one of which nothing is."""
    recorder = Recorder(store, agent="codex", agent_session_id="codex-1")
    turn = recorder.start_turn("Only told")
    turn.file("told.txt", before=b"one\n", after=b"one\ntwo\n")
    turn.end(title="Only told")
    reported = turn.ref.name
    turn = recorder.start_turn("Say hello")
    turn.end(title="Say hello", outcome="Hello.")
    recorder.end_session("Done")
    return {"partial": reported, "none": turn.ref.name}


def _after_the_seal(store: Store, root: Path) -> dict[str, str]:
    """A session at work, in the journal."""
    recorder = Recorder(store, agent="gemini-cli", agent_session_id="gemini-1")
    recorder.start_session("Look after the garden")
    turn = recorder.start_turn("Look after the garden", root=root)
    (root / "garden.md").write_text("# Garden\n")
    turn.file("garden.md", before=None, after=b"# Garden\n")
    event = lifecycle.timeline_event(
        "message", turn.ref.session_id, turn.ref.turn, {"text": "x" * 400_000}, operation="text"
    )
    store.append_rows([event])
    turn.snapshot(root)
    return {"live": turn.ref.name}


def head_of(root: Path) -> str:
    return git(root, "rev-parse", "HEAD").strip()


def loaded(root: Path) -> Sample:
    turns, session = json.loads((root / "sample.json").read_text())
    return Sample(root, turns, session)
