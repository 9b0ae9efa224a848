"""Files that are no good: each is explained, bounded, and takes nothing else with it."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from eventlog.agents.kit import lines
from eventlog.importers import importer, sources
from eventlog.importers.importer import ImportReport
from eventlog.store import Store
from tests.agents.claude_support import HOME, SESSION, Teller
from tests.cli.support import locus_process

Said = dict[str, Any]


def encoded(*items: Said) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in items)


def talk() -> tuple[Said, Said]:
    teller = Teller()
    prompt = teller.user("add a price", promptId="p-1")
    return prompt, teller.answer("m-1", {"type": "text", "text": "Gladly."}, 4)


PROMPT, ANSWER = (encoded(one) for one in talk())
ODD = f'{{"type":"note","uuid":"q","sessionId":"{SESSION}","odd":%s}}\n'.encode()


def run(store: Store, *paths: Path, agent: str = "claude-code") -> ImportReport:
    return importer.run(store, agent, sources.named(agent, [str(path) for path in paths]))


def ids_in(store: Store) -> list[str]:
    return [str(event["event_id"]) for event in store.events()]


def payloads(store: Store, **columns: str) -> list[Any]:
    """The payloads of the events with these columns."""
    return [e["payload"] for e in store.events() if all(e[name] == columns[name] for name in columns)]


def forget(store: Store) -> None:
    Path(store.layout.live("imports.json")).unlink(missing_ok=True)


# Lines between a prompt and its answer, and how many of them are no JSON objects that can be understood.
BETWEEN: dict[str, tuple[bytes, int]] = {
    "latin-1": (b'{"type":"user","x":"caf\xe9"}\n', 1),
    "no JSON": (b"\x00\xff\xfe binary \x80\n", 1),
    "a run of NUL": (b"\0" * 5_000 + b"\n", 1),
    "an array": (b"[1, 2, 3]\n", 1),
    "blank lines": (b"\n  \n\r\n", 0),
    "300 kB": (ODD % (b'"' + b"a" * 300_000 + b'"'), 0),
    "10,000 brackets": (ODD % (b"[" * 10_000 + b"]" * 10_000), 1),
    "900 brackets": (ODD % (b"[" * 900 + b"]" * 900), 1),
    "400 objects": (ODD % (b'{"a":' * 400 + b"1" + b"}" * 400), 1),
    "many, but not deep": (ODD % (b"[" + b",".join([b"{}"] * 500) + b"]"), 0),
    "a large integer": (ODD % (b"9" * 40), 0),
    "an integer of 5,000 digits": (ODD % (b"9" * 5_000), 1),
    "no numbers": (ODD % b"[NaN, Infinity, 1e999]", 0),
    "a lone surrogate": (ODD % b'"\\ud800"', 0),
    "a NUL in a text": (ODD % b'"a\\u0000b"', 0),
    "a key twice": (ODD % b'1,"odd":2', 0),
    "a large count": (encoded(Teller(name="n").answer("m-2", {"type": "text", "text": "x"}, 10**30)), 0),
    "half an image": (
        json.dumps(Teller(name="n").user([{"type": "image", "data": "iVBORw0K" * 9}]))[:-30].encode(),
        1,
    ),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_an_odd_line_is_kept_and_its_neighbours_are_recorded(tmp_path: Path, name: str) -> None:
    """P7: the turn around it is whole; what cannot be understood is kept as bytes; again adds nothing."""
    odd, malformed = BETWEEN[name]
    data = PROMPT + (odd if odd.endswith(b"\n") else odd + b"\n") + ANSWER
    path = tmp_path / "one.jsonl"
    path.write_bytes(data)
    with Store.init(tmp_path / ".locus") as store:
        report = run(store, path)

        assert (report.problems, report.malformed) == ([], malformed)
        (turn,) = store.query("select user_request from turns").rows
        assert turn[0] == "add a price"
        assert [
            tuple(r)
            for r in store.query(
                "select completion_tokens from llm_calls where message_id like '%m-1:%'"
            ).rows
        ] == [(4,)]
        kept = [store.blob(one["blob"]) for one in payloads(store, operation="malformed")]
        assert [one.rstrip(b"\n") for one in kept] == ([odd.rstrip(b"\n")] if malformed else [])
        if odd.startswith(b'{"type":"note"') and not malformed:
            assert any("odd" in payload for payload in payloads(store))
        before = ids_in(store)
        forget(store)
        run(store, path)
        assert ids_in(store) == before


@pytest.mark.parametrize(
    "data",
    [
        lines.BOM + PROMPT + ANSWER,
        (PROMPT + ANSWER).replace(b"\n", b"\r\n"),
        PROMPT + ANSWER.rstrip(b"\n"),
        PROMPT + ANSWER + b'{"type":"user","uu',
    ],
    ids=["byte-order mark", "CRLF", "no last newline", "half a line"],
)
def test_another_spelling_of_lines_is_the_same_session(tmp_path: Path, data: bytes) -> None:
    """P7: what editors and transports do to a file's ends and its beginning changes none of its events."""
    listed = []
    for name, content in (("plain", PROMPT + ANSWER), ("odd", data)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.jsonl").write_bytes(content)
        with Store.init(tmp_path / name / ".locus") as store:
            run(store, tmp_path / name / "one.jsonl")
            others = ("sessions", "import", "transcript")
            listed.append({e["event_id"] for e in store.events() if e["event_type"] not in others})
    ended = listed[0] ^ listed[1]
    assert len(ended) <= (4 if data.endswith(b"uu") else 0)  # the ends are named by the last event
    assert len(listed[0]) > 5


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (random.Random(1).randbytes(100_000), "something binary"),
        ((PROMPT + ANSWER).decode().encode("utf-16"), "UTF-16"),
        ((PROMPT + ANSWER).decode().encode("utf-16-le"), "UTF-16"),
        (b"# Notes\n\nbuy milk\n" * 30, "no lines of JSON"),
        (json.dumps([1, 2], indent=1).encode(), "no lines of JSON"),
        (b'{"a": 1}\n{"b": 2}\n', "is no transcript of claude-code"),
        (encoded({"type": "session_meta", "payload": {"id": "x", "cwd": "/a"}}), "locus import codex"),
    ],
    ids=["binary", "UTF-16 with a mark", "UTF-16", "text", "array", "other JSON", "another agent's"],
)
def test_a_file_of_another_kind_is_refused_and_the_rest_imported(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    """P7: one line says what a file is; nothing of it is stored; the good file named with it is imported."""
    (tmp_path / "bad.jsonl").write_bytes(data)
    (tmp_path / "good.jsonl").write_bytes(PROMPT + ANSWER)
    with Store.init(tmp_path / ".locus") as store:
        report = run(store, tmp_path / "bad.jsonl", tmp_path / "good.jsonl")

        ((path, problem),) = report.problems
        assert path == str(tmp_path / "bad.jsonl")
        assert reason in problem and "\n" not in problem
        assert (report.sources, report.turns, report.malformed) == (1, 1, 0)


def test_an_empty_file_is_no_problem(tmp_path: Path) -> None:
    """A session that has no content yet: nothing to tell, nothing to complain about."""
    (tmp_path / "one.jsonl").touch()
    with Store.init(tmp_path / ".locus") as store:
        report = run(store, tmp_path / "one.jsonl")
        assert (report.problems, report.malformed, report.turns) == ([], 0, 0)


def test_what_is_no_plain_file_is_named_with_exit_code_4(tmp_path: Path) -> None:
    """P7: a pipe, a dangling link, a device and an unreadable file are named; the good one is imported."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "dangling.jsonl").symlink_to("/nowhere/at/all")
    (tmp_path / "unreadable.jsonl").write_bytes(PROMPT)
    (tmp_path / "unreadable.jsonl").chmod(0)
    (tmp_path / "good.jsonl").write_bytes(PROMPT + ANSWER)
    bad = ["pipe.jsonl", "dangling.jsonl", "/dev/zero"]
    if os.geteuid() != 0:
        bad.append("unreadable.jsonl")
    assert locus_process("init", cwd=tmp_path).code == 0

    ended = locus_process("import", "claude-code", *bad, "good.jsonl", cwd=tmp_path)

    assert ended.code == 4
    listed = [line for line in ended.err.splitlines() if line.startswith("not imported:")]
    assert len(listed) == len(bad)
    assert all(any(name in line for line in listed) for name in bad)
    assert "Recorded 1 session" in ended.err
    missing = locus_process("import", "claude-code", "gone.jsonl", cwd=tmp_path)
    assert (missing.code, "there is no such file" in missing.err) == (1, True)


def test_a_directory_takes_only_its_transcripts_and_follows_no_link(tmp_path: Path) -> None:
    """Of a named directory the files that look like transcripts; pipes, links and loops in it are passed."""
    inner = tmp_path / "kept" / "deep"
    inner.mkdir(parents=True)
    (inner / "good.jsonl").write_bytes(PROMPT + ANSWER)
    (inner / "noise.jsonl").write_bytes(b"\x00\x01noise")
    (inner / "link.jsonl").symlink_to(inner / "good.jsonl")
    (inner / "loop").symlink_to(tmp_path / "kept")
    os.mkfifo(inner / "pipe.jsonl")
    with Store.init(tmp_path / ".locus") as store:
        report = run(store, tmp_path / "kept")
        assert (report.sources, report.problems) == (1, [])


def test_a_file_by_several_names_counts_once(tmp_path: Path) -> None:
    """P3: the same file twice, by a link and by another path: one session, each call once."""
    path = tmp_path / "one.jsonl"
    path.write_bytes(PROMPT + ANSWER)
    os.link(path, tmp_path / "hard.jsonl")
    (tmp_path / "soft.jsonl").symlink_to(path)
    with Store.init(tmp_path / ".locus") as store:
        around = tmp_path / "." / ".." / tmp_path.name / "one.jsonl"
        report = run(store, path, path, around, tmp_path / "hard.jsonl", tmp_path / "soft.jsonl")

        assert (report.turns, report.calls, report.problems) == (1, 1, [])
        ids = ids_in(store)
        assert len(ids) == len(set(ids))
        assert store.query("select count(*) from llm_calls").rows[0][0] == 1


@pytest.mark.parametrize(
    "session", [17, None, ["a"], {"a": 1}, "", "x" * 100_000, "a\nb", "\ud800", "../../etc", "a\0b"]
)
def test_a_session_of_a_strange_name_is_kept(tmp_path: Path, session: object) -> None:
    """P7: an id that is no text, or no good one, takes nothing away from what its lines say."""
    prompt, answer = talk()
    path = tmp_path / "one.jsonl"
    path.write_bytes(encoded({**prompt, "sessionId": session}, {**answer, "sessionId": session}))
    with Store.init(tmp_path / ".locus") as store:
        assert run(store, path).problems == []
        recorded = repr([event["payload"] for event in store.events()])
        assert "add a price" in recorded and "Gladly." in recorded
        store.query("select * from sessions").rows  # noqa: B018


@pytest.mark.parametrize(
    ("when", "year"),
    [
        ("0001-01-01T00:00:00.000Z", 1),
        ("9999-12-31T23:59:59.999Z", 9999),
        ("2026-11-20T00:30:00+02:00", 2026),
        ("0000-00-00T00:00:00Z", None),
        ("9999-99-99T99:99:99Z", None),
        ("9999-12-31T23:59:59-23:00", None),
        ("2026-11-20T10:00:00", None),
        ("yesterday", None),
        (1_795_000_000, None),
        (None, None),
    ],
)
def test_any_time_can_be_written_and_shown(tmp_path: Path, when: object, year: int | None) -> None:
    """P7: a time is one that SQL can show, or unknown; a clock that runs backwards changes no order."""
    prompt, answer = talk()
    path = tmp_path / "one.jsonl"
    path.write_bytes(encoded(prompt, {**answer, "timestamp": when}))
    with Store.init(tmp_path / ".locus") as store:
        assert run(store, path).problems == []
        listed = [e for e in store.events() if e["event_type"] in ("intent", "message")]
        assert [e["event_type"] for e in listed] == ["intent", "message"]
        (shown,) = store.query("select occurred_at from events where event_type = 'message'").rows
        assert (None if shown[0] is None else int(str(shown[0])[:4])) == year
        assert len(store.query("select * from turns").rows) == 1


@pytest.mark.parametrize(
    "path",
    [
        "", "\0", f"{HOME}/a\0b", "../../../etc/passwd", f"{HOME}/../../etc/passwd", "/etc/passwd",
        "C:\\Users\\dev\\a.py", "//server/share/a", f"{HOME}/", HOME, f"{HOME}/{'a/' * 5_000}", "~/a.py", "file:///a",
    ],
)  # fmt: skip
def test_a_strange_path_makes_no_file_outside(tmp_path: Path, path: str) -> None:
    """P7: what a tool was given stays in its action; a file event names a path below the directory."""
    teller = Teller()
    block = {"type": "tool_use", "id": "t", "name": "Write", "input": {"file_path": path, "content": "x"}}
    fields = {"type": "create", "filePath": path, "content": "x", "originalFile": None}
    listed = [teller.user("go", promptId="p"), teller.answer("m", block), teller.result("t", "ok", fields)]
    (tmp_path / "one.jsonl").write_bytes(encoded(*listed))
    with Store.init(tmp_path / ".locus") as store:
        assert run(store, tmp_path / "one.jsonl").problems == []
        (payload,) = payloads(store, event_type="action")
        assert payload["args"]["file_path"] == path
        for (name,) in store.query("select path from files").rows:
            assert name and not name.startswith("/") and ".." not in name.split("/") and "\0" not in name


def test_a_line_that_is_too_long_is_kept_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P7: a result above the limit is one such line, in the blob store byte for byte; its call is
    reported."""
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 4 << 20)
    teller = Teller()
    call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "cat it"}}
    listed = [teller.user("show me", promptId="p-1"), teller.answer("m-1", call)]
    long = encoded(teller.result("t", "a" * (9 << 20)))
    then = encoded(teller.answer("m-2", {"type": "text", "text": "There."}))
    path = tmp_path / "one.jsonl"
    path.write_bytes(encoded(*listed) + long + then)
    with Store.init(tmp_path / ".locus") as store:
        report = run(store, path)

        assert (report.oversized, report.malformed, report.lines) == (1, 0, 4)
        assert report.is_partial and (report.turns, report.calls) == (1, 2)
        pieces = payloads(store, operation="oversized")
        assert [one["piece"] for one in pieces] == [0, 1, 2]
        assert {one["line"] for one in pieces} == {3}
        assert b"".join(store.blob(one["blob"]) for one in pieces) == long
        assert [one["args"] for one in payloads(store, event_type="tool_start")] == [{"command": "cat it"}]
        (note,) = payloads(store, event_type="import")
        assert [(one["lines"], one["malformed"]) for one in note["parts"]] == [(4, 1)]
        assert len(store.query("from malformed_lines where reason = 'oversized'").rows) == 3


def test_a_line_that_grows_above_the_limit_loses_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: imported while its last piece was half written, and once more when it is whole."""
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 4 << 20)
    long = ODD % (b'"' + b"a" * (9 << 20) + b'"')
    path = tmp_path / "one.jsonl"
    with Store.init(tmp_path / ".locus") as store:
        for size in (6 << 20, len(long)):
            path.write_bytes(PROMPT + long[:size] + (ANSWER if size == len(long) else b""))
            assert run(store, path).problems == []
        found = {one["offset"]: one for one in payloads(store, operation="oversized")}  # the last of each

        assert b"".join(store.blob(one["blob"]) for _, one in sorted(found.items())) == long
        assert store.query("select count(*) from llm_calls").rows[0][0] == 1


def long_talk(turns: int, words: int = 5) -> list[Said]:
    teller, reported = Teller(), []
    for number in range(turns):
        reported.append(teller.user(f"question {number} " + "word " * words, promptId=f"p-{number}"))
        reported.append(
            teller.answer(f"m-{number}", {"type": "text", "text": f"answer {number} " + "word " * words}, 3)
        )
    return reported


def test_a_file_that_is_written_while_it_is_read_is_completed_later(tmp_path: Path) -> None:
    """P3: lines appended during an import are reported by it or by the next one, none twice."""
    listed = [json.dumps(one).encode() + b"\n" for one in long_talk(600)]
    path = tmp_path / "one.jsonl"
    path.write_bytes(b"".join(listed[:400]))
    begun = threading.Event()

    def write() -> None:
        begun.wait()
        with path.open("ab", buffering=0) as file:
            for line in listed[400:]:
                half = len(line) // 2
                file.write(line[:half])
                time.sleep(0.0001)
                file.write(line[half:])

    thread = threading.Thread(target=write)
    thread.start()
    with Store.init(tmp_path / ".locus") as store:
        begun.set()
        while thread.is_alive():
            assert run(store, path).problems == []
        thread.join()
        run(store, path)

        ids = ids_in(store)
        assert len(ids) == len(set(ids))
        assert [
            tuple(r) for r in store.query("select count(*), sum(completion_tokens) from llm_calls").rows
        ] == [(600, 1800)]
        assert store.query("select count(*) from turns").rows[0][0] == 600


# -- processes that die ------------------------------------------------------------------------------

CHILD = """
import resource, sys
from eventlog.base.errors import EventLogError
from eventlog.store import Store
from eventlog.importers import importer, sources
importer._BATCH_EVENTS = 32
limit = int(sys.argv[3])
with Store.open(sys.argv[1]) as store:
    print("go", flush=True)
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        importer.run(store, "claude-code", sources.named("claude-code", [sys.argv[2]]))
    except EventLogError as error:
        print(type(error).__name__, error)
        sys.exit(9)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def child(store: Path, path: Path, limit: int = 0) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(store), str(path), str(limit)], stdout=subprocess.PIPE, text=True
    )


def size_of_log(store: Path) -> int:
    return sum(path.stat().st_size for path in (store / "log").rglob("*") if path.is_file())


def finished(store: Path, path: Path) -> bool:
    process = child(store, path)
    process.communicate()
    return process.returncode == 0


def events_in(root: Path) -> list[tuple[object, ...]]:
    names = ("event_id", "event_type", "turn", "seq", "session_id", "occurred_at")
    with Store.open(root) as store:
        return [
            (*(e[name] for name in names), json.dumps(e["payload"], sort_keys=True))
            for e in store.events()
            if e["event_type"] != "sessions"
        ]


def test_an_import_that_is_killed_is_finished_by_repeating_it(tmp_path: Path) -> None:
    """P7, I3, I24: SIGKILL at any moment, then once more: the same events in the same order as without."""
    path = tmp_path / "one.jsonl"
    path.write_bytes(encoded(*long_talk(400, words=60)))
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
        Store.init(tmp_path / name / ".locus").close()
    assert finished(tmp_path / "whole/.locus", path)
    draw = random.Random(int(os.environ.get("LOCUS_SEED", "1")))
    whole = size_of_log(tmp_path / "whole/.locus")
    killed = 0
    for moment in sorted(draw.uniform(0.0, 0.9) for _ in range(4)):
        one = child(tmp_path / "killed/.locus", path)
        while one.poll() is None and size_of_log(tmp_path / "killed/.locus") < moment * whole:
            time.sleep(0.005)
        one.send_signal(signal.SIGKILL)
        one.communicate()
        killed += one.returncode == -signal.SIGKILL
    assert killed

    assert finished(tmp_path / "killed/.locus", path)

    assert events_in(tmp_path / "killed/.locus") == events_in(tmp_path / "whole/.locus")


def test_a_full_disk_stops_an_import_with_one_line_and_loses_nothing(tmp_path: Path) -> None:
    """I4, P7: what was written stays whole, the error says what to do, and a repeat completes it."""
    path = tmp_path / "one.jsonl"
    path.write_bytes(encoded(*long_talk(300, words=60)))
    for name in ("whole", "full"):
        (tmp_path / name).mkdir()
        Store.init(tmp_path / name / ".locus").close()
    assert finished(tmp_path / "whole/.locus", path)
    full = child(tmp_path / "full/.locus", path, 200_000)
    out, _ = full.communicate()
    assert (full.returncode, out.startswith("go\nNotDurable")) == (9, True), out
    assert len(out.splitlines()) == 2

    assert finished(tmp_path / "full/.locus", path)

    assert events_in(tmp_path / "full/.locus") == events_in(tmp_path / "whole/.locus")


def test_a_large_transcript_takes_little_memory(tmp_path: Path, hunt_minutes: float) -> None:
    """Memory is a batch, a line and some ten bytes of each event, whatever the file's size."""
    size = (200 << 20) if hunt_minutes else (24 << 20)
    teller = Teller()
    path = tmp_path / "one.jsonl"
    with path.open("wb") as file:
        number = 0
        while file.tell() < size:
            number += 1
            text = f"answer {number} " + "word " * 800
            file.write(encoded(teller.user(f"question {number}", promptId=f"p-{number}")))
            file.write(encoded(teller.answer(f"m-{number}", {"type": "text", "text": text})))
    Store.init(tmp_path / ".locus").close()
    one = child(tmp_path / ".locus", path)
    out, _ = one.communicate()

    assert one.returncode == 0
    assert int(out.splitlines()[-1]) <= 300 << 10
