"""Every view that is written for others to read: gone, it is made again from the log, byte for byte."""

import json
import shutil
import subprocess
from pathlib import Path

from eventlog.base.layout import IDX_DIR, INDEX_DIR
from eventlog.memory import briefing_of_log, codes_of_log
from eventlog.memory.shared_entry import IMPLEMENTATION, PLANNING, EntryKey
from eventlog.memory.shared_nodes import write
from eventlog.memory.shared_store import ContextStore
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store
from tests.mcp.support import bytes_below
from tests.recorder.kept import new_store


def write_views(store: Store, root: Path) -> list[Path]:
    """All of them, as maintenance and `locus context` write them; where they are."""
    contexts = ContextStore(store, root)
    for phase in (PLANNING, IMPLEMENTATION):
        contexts.rebuild(phase)
    codes = codes_of_log.export(store)
    assert codes is not None
    shared = [contexts.path(phase) for phase in (PLANNING, IMPLEMENTATION)]
    return [Path(briefing_of_log.export(store)), codes, *shared, root / "docs/context_summary.md"]


def test_every_view_that_is_gone_is_made_again_with_the_same_bytes(tmp_path: Path) -> None:
    """P2, I22, S2-8, S4-4: the facts of briefings, the codes of a project, shared context and its summary are
    folds of the log: deleted, with everything else that is derived, they come back as they were."""
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a.py").write_text("A = 1\n")
    for command in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "begin")):
        who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        subprocess.run(["git", *who, *command], cwd=root, check=True)
    with new_store(root / ".locus") as store:
        recorder = Recorder(store, agent="codex")
        recorder.start_session("Read numbers", intent={"focus": "Read numbers", "scope": ["src/"]})
        turn = recorder.start_turn("Read numbers")
        turn.file("a.py", before=None, after=b"A = 1\n")
        turn.decision("base ten", "it is known")
        turn.error("race", "line 712", tool="Bash", command="make check")
        turn.action("TodoWrite", {"todos": [{"content": "add a sign", "status": "pending"}]})
        turn.end(title="Numbers read")
        for phase in (PLANNING, IMPLEMENTATION):
            payload = {"feature_request": "read numbers", "pinned_rules": ["no eval"]}
            write(ContextStore(store, root), phase, EntryKey(store.repo_hash, "main", "parser"), payload)
        store.seal()
        paths = write_views(store, root)
        before = [path.read_bytes() for path in paths]
        assert all(before) and len(set(before)) == len(paths)
        log = bytes_below(root / ".locus/log")

    derived = (root / ".locus/memory", root / ".locus" / INDEX_DIR, root / ".locus" / IDX_DIR, root / "data")
    for directory in (*derived, root / "docs"):
        shutil.rmtree(directory, ignore_errors=True)
    assert [path for path in paths if path.exists()] == []
    with Store.open(root / ".locus") as store:
        assert write_views(store, root) == paths
        assert [path.read_bytes() for path in paths] == before
        assert json.loads(before[0])["facts"]["decisions"][0]["text"] == "base ten"
    assert bytes_below(root / ".locus/log") == log
