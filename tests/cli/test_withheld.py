"""Contents that hold a secret: replayed here, shown on request, and in no export."""

import base64
import json
import time
from pathlib import Path

import pytest

from eventlog import agents
from eventlog.base.fs import REAL
from eventlog.blobs.ids import blob_id, to_text
from eventlog.exports import jsonl, jsonl_import, parquet
from eventlog.exports.locusgraph import locusgraph
from eventlog.hooks import context, record
from eventlog.mcp import read
from eventlog.recorder.recorder import Recorder
from eventlog.secrets import erased_rules
from eventlog.store import Store
from locus_cli import contents, maintainer
from tests.cli.hook_support import Agent
from tests.cli.support import Locus, git
from tests.secrets_made import made

CANARY = made(3)["github"]
CONTENT = f"token is {CANARY}\n".encode()
HASH = to_text(blob_id(CONTENT))
SAID = "the code is tulip"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose history has a file with a secret, imported."""
    root = tmp_path / "sample"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "plain.txt").write_text("plain\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", f"Begin with {CANARY}", at=1)
    (root / "secret.txt").write_bytes(CONTENT)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Add what should not be here", at=2)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def recorded(work: Path, locus: Locus) -> Path:
    assert locus("init").code == 0
    assert locus("import", "git", ".").code == 0
    return work


def holders(root: Path) -> list[str]:
    """The files below `root` that contain the canary, as it is or as base64."""
    needles = [CANARY.encode(), *(base64.b64encode(b" " * i + CONTENT)[8:40] for i in range(3))]
    return sorted(
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and any(needle in path.read_bytes() for needle in needles)
    )


def test_a_withheld_content_is_refused_and_shown_on_request(recorded: Path, locus: Locus) -> None:
    """P5: `cat` refuses a content that holds a secret, unless it is asked for by name."""
    refused = [locus("cat", "last:secret.txt"), locus("cat", HASH)]
    shown = locus("cat", "last:secret.txt", "--show-withheld")

    assert [(one.code, one.out) for one in refused] == [(3, b""), (3, b"")]
    assert "--show-withheld" in refused[0].err
    assert (shown.code, shown.out) == (0, CONTENT)
    assert locus("cat", "last:plain.txt").out == b"plain\n"


def test_show_and_diff_put_a_word_in_its_place(recorded: Path, locus: Locus) -> None:
    """P5, P7: what would show a secret says so instead, and the rest is shown."""
    with Store.open(recorded / ".locus") as store:
        event = next(e for e in store.events(event_types=["file"]) if e["path"] == "secret.txt")
    shown = locus("show", event["event_id"])
    as_json = json.loads(locus("show", event["event_id"], "--json").out)
    diff = locus("diff", "last")
    asked = locus("diff", "last", "--show-withheld")

    assert CANARY.encode() not in shown.out and b"[withheld:" in shown.out
    assert as_json["withheld"] is True and "diff" not in as_json
    assert (diff.code, diff.out) == (4, b"") and "secret.txt: withheld" in diff.err
    assert asked.code == 0 and CANARY.encode() in asked.out
    assert b"secret.txt" in locus("diff", "last", "--name-only").out


def test_replay_and_restore_reproduce_it(recorded: Path, locus: Locus, tmp_path: Path) -> None:
    """P1: a content that is withheld is replayed and restored byte for byte."""
    assert locus("replay", "last", "--to", tmp_path / "out").code == 0
    assert (tmp_path / "out/secret.txt").read_bytes() == CONTENT
    (recorded / "secret.txt").unlink()
    assert locus("restore", "last", "secret.txt", "--yes").code == 0
    assert (recorded / "secret.txt").read_bytes() == CONTENT


def test_the_canary_is_in_no_event_and_no_export(recorded: Path, tmp_path: Path) -> None:
    """P5: after an import, a recorded turn and all exports the secret is in packs of 0600 only."""
    with Store.open(recorded / ".locus") as store:
        turn = Recorder(store, agent="script").start_turn(f"Use {CANARY}")
        turn.action("bash", {"command": f"export TOKEN={CANARY}"}, {"output": f"ok {CANARY}"})
        turn.decision(f"{'Because ' * 9}{CANARY}", f"{CANARY}")
        turn.file("again.txt", before=CONTENT, after=b"x" + CONTENT)
        turn.end(outcome=CANARY)
        out = tmp_path / "out"
        out.mkdir()
        (tmp_path / "other").mkdir()
        report = jsonl.export(store, str(out / "log.jsonl"), contents=True, people="full")
        locusgraph.export(store, str(out / "batch.jsonl"), since=0)
        parquet.export(store, str(out / "parquet"))
        store.seal()
        store.reindex()
        with Store.init(tmp_path / "other/.locus", repo_hash=store.repo_hash) as other:
            jsonl_import.load(other, str(out / "log.jsonl"))
            again = [{**e, "position": None} for e in other.events()]
        # Saying it again left a gap in the positions, and the ledger's note came after the export.
        events = [{**e, "position": None} for e in store.events() if e["event_type"] != "cursor"]
        slugs = [str(e["context_id"]) for e in events]

    assert again == events
    assert {name for name, _ in report.missing} == {HASH, to_text(blob_id(b"x" + CONTENT))}
    assert holders(out) == [] and holders(tmp_path / "other") == []
    assert not any(CANARY.lower()[4:20] in slug for slug in slugs)
    assert not any(CANARY[:20] in str(e) or CANARY[:6] in str(e["title"]) for e in events)
    assert all(name.startswith("snapshots/packs/") for name in holders(recorded / ".locus"))
    modes = {path.stat().st_mode & 0o777 for path in (recorded / ".locus/snapshots/packs").iterdir()}
    assert modes == {0o600}


def test_what_is_withheld_is_a_fold_of_the_log(recorded: Path) -> None:
    """P2, I8: it is stated once for a content, by later puts, after sealing, after a put without event."""
    with Store.open(recorded / ".locus") as store, store.blobs.writer() as writer:
        other = to_text(writer.put(b"x" + CONTENT))  # its process dies before it appends
        writer.flush()
    with Store.open(recorded / ".locus") as store:
        assert store.withheld() == {HASH}
        turn = Recorder(store, agent="script").start_turn("Write it")
        position = turn.file("b.txt", before=CONTENT, after=b"x" + CONTENT)
        assert next(iter(store.events(position)))["path"] == "b.txt"
        store.seal()
        assert store.withheld() == {HASH, other}
        reported = list(store.events(event_types=["withheld"]))
        assert [(e["title"], e["payload"]["kinds"]) for e in reported] == [  # type: ignore[index]
            (HASH, ["github-token"]),
            (other, ["github-token"]),
        ]
        assert store.verify("deep") == []


def test_a_broken_setting_is_reported_to_people(recorded: Path, locus: Locus) -> None:
    """P5, P8: a command that runs under the defaults because of a broken file says so on stderr."""
    (recorded / ".locus/config.toml").write_text("[redaction]\nallow = [1]\n")
    ended = locus("log")

    assert ended.code == 0
    assert "config.toml, line 2: allow must be a list of texts" in ended.err


def test_a_hook_call_lets_no_secret_through(work: Path, locus: Locus) -> None:
    """P5: after real hook calls of a turn that handles a secret, it is in packs only, and is withheld."""
    assert locus("init").code == 0
    agent = Agent(work)
    agent.start()
    agent.prompt(f"{CANARY} is the key, {'and so on ' * 12}<private>{SAID}</private>")
    args = {"command": f"deploy --token {CANARY}", "description": "x"}
    tool = agent.begin("Bash", args)
    (work / "made.env").write_bytes(b"made " + CONTENT)
    agent.end(tool, "Bash", args, {"stdout": f"used {CANARY}\n" * 3_000, "stderr": ""})
    agent.say("Notification", message=f"about {CANARY}")
    agent.say("Stop", last_assistant_message=f"done with {CANARY}")
    with Store.open(work / ".locus") as store:
        events = list(store.events())
        withheld = store.withheld()

    assert to_text(blob_id(b"made " + CONTENT)) in withheld and HASH in withheld
    assert {e["event_type"] for e in events if e["redacted"]} >= {"intent", "action", "tool_start"}
    texts = json.dumps(events)
    assert CANARY[4:24].lower() not in texts.lower() and SAID not in texts
    assert all(name.startswith("snapshots/packs/") for name in holders(work / ".locus"))


def test_a_hook_ends_its_scan_for_erased_texts_in_time(
    work: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, P5: after that time a large output is stored and withheld for this; a small file is scanned, and
    a large one left to the process that stores it, which has the time."""
    assert locus("init").code == 0
    with Store.open(work / ".locus") as store:
        erased_rules.add(store.fs, store.layout, [erased_rules.text_rule(b"tulipFox81zebra-Q7", bytes(32))])
    (work / "large.txt").write_bytes(b"large\n" * 300_000)
    (work / "small.txt").write_bytes(b"small\n")
    payload = {"session_id": "s", "prompt_id": "p", "cwd": str(work), "hook_event_name": "PostToolUse"}
    payload |= {"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": "make"}}
    payload["tool_response"] = {"stdout": "output\n" * 300_000}
    monkeypatch.setattr(context, "_SCAN_S", -1e9)
    call = agents.interpret("claude-code", payload)
    monkeypatch.setattr(maintainer, "step_back", lambda: None)
    record.record(
        REAL, str(work / ".locus"), call, {"LOCUS_HOOK_PATIENCE": "20"}, print, started_s=time.monotonic(),
        input_size=3 << 20,
    )  # fmt: skip
    contents.main([str(work / ".locus")])
    with Store.open(work / ".locus") as store:
        payload = {e["title"]: e["payload"]["kinds"] for e in store.events(event_types=["withheld"])}  # type: ignore[index]
        assert store.blobs.locations([blob_id(b"large\n" * 300_000)])
    assert payload.pop(HASH) == ["github-token"]
    assert list(payload.values()) == [["not_looked_through"]]
    assert to_text(blob_id(b"large\n" * 300_000)) not in payload


def test_what_was_not_scanned_is_not_called_a_secret(work: Path, locus: Locus) -> None:
    """P4, P5, P7: a large content for which a hook had no time is withheld; all that show it say why."""
    assert locus("init").code == 0
    with Store.open(work / ".locus") as store:
        erased_rules.add(store.fs, store.layout, [erased_rules.text_rule(b"tulipFox81zebra-Q7", bytes(32))])
    with Store.open(work / ".locus") as store:
        store.redactor.search_until = 0.0
        turn = Recorder(store, agent="script").start_turn("Write it")
        turn.file("small.txt", before=None, after=b"small\n")
        turn.file("large.txt", before=None, after=b"large\n" * 300_000)
        turn.end()
        event = next(e for e in store.events(event_types=["file"]) if e["path"] == "large.txt")
        assert store.withheld() == {event["after_hash"]}
        name = str(event["event_id"])
        assert "not looked through for secrets in time" in "".join(read.show(store, name))
    why = "was not looked through for secrets in time"
    listed = [locus("cat", str(event["after_hash"])), locus("diff", "last"), locus("show", name)]

    assert [one.code for one in listed] == [3, 4, 0]
    assert all(why in one.err + one.text and "holds a secret" not in one.err + one.text for one in listed)
    assert locus("cat", str(event["after_hash"]), "--show-withheld").code == 0
    doctor = locus("doctor").text
    assert "1 content withheld because hooks had no time" in doctor and "max_file_bytes" in doctor
    assert "older form" not in doctor
    rule = b"text 6 0 " + b"0" * 32 + b" " + b"0" * 64
    with Store.open(work / ".locus") as store:
        erased_rules.add(store.fs, store.layout, [rule])
    assert "older form" in locus("doctor").text
