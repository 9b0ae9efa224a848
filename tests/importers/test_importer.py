"""Import of transcripts: once, going on where the last one stopped, losing nothing."""

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.agents.kit import lines
from eventlog.agents.kit.lines import FileSource, Line
from eventlog.base.errors import NotFound
from eventlog.blobs.ids import from_text
from eventlog.importers import completed_lines, importer, sources
from eventlog.importers.importer import ImportReport
from eventlog.store import Store
from tests.agents.claude_support import Teller
from tests.cli.support import locus_process
from tests.secrets_made import assigned, made

SESSION = "0b5f3c1e-0000-4000-8000-000000000001"


def line(number: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": f"line-{number}",
        "parentUuid": f"line-{number - 1}" if number else None,
        "sessionId": more.pop("session", SESSION),
        "timestamp": f"2026-11-20T10:00:{number:02d}.000Z",
        "cwd": "/home/dev/shop",
        "version": "2.1.330",
        "gitBranch": "main",
        "message": {"role": kind, "content": content, **more.pop("message", {})},
        **more,
    }


def usage(output: int) -> dict[str, Any]:
    return {
        "id": "msg_a1b2c1",
        "model": "claude-opus-5",
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": output},
    }


TEXT = {"type": "text", "text": "I shall write it."}
WRITE = {"file_path": "/home/dev/shop/a.py", "content": "price = 1\n"}
CALL = {"type": "tool_use", "id": "tool-1", "name": "Write", "input": WRITE}
RESULT = {"type": "tool_result", "tool_use_id": "tool-1", "content": "File created"}
TOLD = {"type": "create", "filePath": WRITE["file_path"], "content": WRITE["content"], "originalFile": None}

TURN = [
    line(0, "user", "add a price", promptId="prompt-1"),
    line(1, "assistant", [TEXT], requestId="req_1", message=usage(3)),
    line(2, "assistant", [CALL], requestId="req_1", message=usage(40)),
    line(3, "user", [RESULT], promptId="prompt-1", toolUseResult=TOLD),
]


def write(path: Path, lines: list[dict[str, Any]], end: str = "") -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines) + end)
    return path


def run(store: Store, *paths: Path) -> ImportReport:
    return importer.run(store, "claude-code", [FileSource("claude-code", [str(path)]) for path in paths])


def test_a_transcript_becomes_a_turn_with_its_call_counted_once(tmp_path: Path) -> None:
    """P3: an answer on two lines is one model call with its last usage; the file written has its content."""
    with Store.init(tmp_path / ".locus") as store:
        report = run(store, write(tmp_path / "one.jsonl", TURN))

        calls = store.query("select message_id, prompt_tokens, completion_tokens from llm_calls").rows
        assert [tuple(row) for row in calls] == [("msg_a1b2c1", 15, 40)]
        (file,) = store.query("select path, operation, after_hash from files").rows
        assert tuple(file[:2]) == ("a.py", "add")
        assert store.blob(file[2]) == b"price = 1\n"
        assert [tuple(r) for r in store.query("select title, outcome, status from turns").rows] == [
            ("add a price", "I shall write it.", "completed")
        ]
        assert (report.sessions, report.turns, report.calls, report.malformed) == (1, 1, 1, 0)


def test_a_second_import_adds_nothing_and_growth_adds_the_growth(tmp_path: Path) -> None:
    """An unchanged file is not read; one that grew adds what is new, also without the notes of files."""
    path = write(tmp_path / "one.jsonl", TURN[:2])
    with Store.init(tmp_path / ".locus") as store:
        assert run(store, path).calls == 1
        assert run(store, write(path, TURN[:3])).calls == 0  # the same answer, with another line
        assert store.query("select count(*) from llm_calls").rows == [(1,)]
        before = store.journal.next_position()
        assert run(store, path).unchanged == 1
        (tmp_path / ".locus" / "live" / "imports.json").unlink()
        assert run(store, path).events == 0
        assert store.journal.next_position() == before

        write(path, TURN)
        run(store, path)

        assert [tuple(r) for r in store.query("select tool, success from actions").rows] == [("Write", True)]
        assert store.query("select count(*) from llm_calls").rows[0][0] == 1
        ids = [event["event_id"] for event in store.events()]
        assert len(ids) == len(set(ids))


def test_a_malformed_and_a_half_written_line_are_kept_and_counted(tmp_path: Path) -> None:
    """P7: bytes that are no JSON are in the log; half a line at the end is read again when it is whole."""
    whole = json.dumps(TURN[3])
    path = write(tmp_path / "one.jsonl", TURN[:3], end="\xff not json\n" + whole[:30])
    with Store.init(tmp_path / ".locus") as store:
        assert run(store, path).malformed == 2
        (event,) = [e for e in store.events() if e["operation"] == "malformed" and e["payload"]["line"] == 4]
        assert store.blob(event["payload"]["blob"]) == "\xff not json\n".encode()

        path.write_text(path.read_text() + whole[30:] + "\n")
        run(store, path)

        assert store.query("select count(*) from actions").rows[0][0] == 1


def test_a_large_import_leaves_no_secret_on_disk(tmp_path: Path) -> None:
    """P5: scanned in bulk, no text, large text, column or flag keeps one; contents that do are withheld."""
    secret, word = made()["npm"], assigned()["assignment"][1]
    name = "pass" + "word"
    path = tmp_path / "big.jsonl"
    with path.open("w") as file:
        for i in range(300):
            file.writelines(json.dumps(one) + "\n" for one in written(i, f"plain words {i}. " * 500))
        for i, text in enumerate(
            (secret, f"a\t{secret}\n", f'"{name}": "{word}"', f"--{name} {word}", "plain")
        ):
            large = f"{'so it goes. ' * 3000}{text}{' and on' * 3000}"
            for kind in (text, large):
                file.writelines(
                    json.dumps(one) + "\n" for one in written(300 + 2 * i + (kind is large), kind)
                )
        args = {name: word, "argv": [f"--{name}", word], "file_path": f"/home/dev/{secret}"}
        file.writelines(json.dumps(one) + "\n" for one in written(400, "plain", args))
        file.write(f'{{"malformed": {secret}\n')

    with Store.init(tmp_path / ".locus") as store:
        assert run(store, path).malformed == 1
        events: list[Any] = list(store.events())
        withheld = store.withheld()
        contents = {str(id): store.blobs.get(from_text(str(id))) for e in events for id in e["blobs"] or ()}

        for file_path in (tmp_path / ".locus").rglob("*"):
            if file_path.is_file() and "packs" not in file_path.parts:
                data = file_path.read_bytes()
                assert secret.encode() not in data and word.encode() not in data, file_path
        held = {id for id, data in contents.items() if secret.encode() in data or word.encode() in data}
        assert held == withheld and len(held) == 2 * 4 + 1
        assert [event for event in events if event["payload"].get("in_blobs")]
        assert sum(bool(event["redacted"]) for event in events) >= 10


def test_a_large_output_is_redacted_before_it_is_moved(tmp_path: Path) -> None:
    """P5: what a command printed is redacted before a text too large for an event becomes a content."""
    secret, teller = made()["npm"], Teller()
    large = f"{'so it goes. ' * 3000}{secret}{' and on' * 3000}"
    block = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "env"}}
    payload = {"stdout": large, "stderr": "", "interrupted": False, "isImage": False}
    lines = [teller.user("go", promptId="p"), teller.answer("m", block), teller.result("t", large, payload)]
    (tmp_path / "one.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Store.init(tmp_path / ".locus") as store:
        assert run(store, tmp_path / "one.jsonl").problems == []
        ids = [str(id) for event in store.events() for id in event["blobs"] or ()]  # type: ignore[attr-defined]
        contents = [store.blobs.get(from_text(id)) for id in ids]

    assert any(b"so it goes" in data for data in contents)
    assert not any(secret.encode() in data for data in contents)


def written(i: int, text: str, args: "dict[str, Any] | None" = None) -> list[dict[str, Any]]:
    """A prompt, and a file written with the same words."""
    path = f"/home/dev/shop/f{i}.py"
    call: dict[str, Any] = {"type": "tool_use", "id": f"tool-{i}", "name": "Write"}
    call["input"] = args or {"file_path": path, "content": text}
    file = {"type": "create", "filePath": path, "content": text, "originalFile": None}
    result = {"type": "tool_result", "tool_use_id": f"tool-{i}", "content": text}
    return [
        line(i, "user", text, uuid=f"u{i}", promptId=f"prompt-{i}", timestamp="2026-11-20T10:00:00.000Z"),
        line(i, "assistant", [call], uuid=f"a{i}", timestamp="2026-11-20T10:00:01.000Z"),
        line(i, "user", [result], uuid=f"r{i}", toolUseResult=file, timestamp="2026-11-20T10:00:02.000Z"),
    ]


def test_a_turn_from_a_transcript_has_differences_and_files_but_no_replay(tmp_path: Path) -> None:
    """P1, P7: what tools reported of files can be shown; a whole tree is not made up from it."""
    edit = {"file_path": "/home/dev/shop/a.py", "old_string": "1", "new_string": "2"}
    payload = {**edit, "originalFile": "price = 1\n", "oldString": "1", "newString": "2"}
    lines = [
        line(10, "user", "make it two", promptId="prompt-2"),
        line(11, "assistant", [{**CALL, "id": "tool-2", "name": "Edit", "input": edit}]),
        line(12, "user", [{**RESULT, "tool_use_id": "tool-2"}], promptId="prompt-2", toolUseResult=payload),
    ]
    with Store.init(tmp_path / ".locus") as store:
        run(store, write(tmp_path / "one.jsonl", [*TURN, *lines]))
        first, second = (row[0] for row in store.query("select context_id from turns order by turn").rows)

        assert [(one.path, one.operation) for one in store.diff(first)] == [("a.py", "add")]
        (change,) = store.diff(second)
        assert (change.operation, change.lines_added, change.lines_removed) == ("edit", 1, 1)
        assert b"-price = 1\n+price = 2\n" in change.text
        assert store.file(second, "a.py", "start") == b"price = 1\n"
        assert store.file(second, "a.py") == b"price = 2\n"
        with pytest.raises(NotFound, match="no tree was recorded"):
            store.replay(second, tmp_path / "out")


def test_half_a_line_is_settled_when_it_is_read_whole(tmp_path: Path) -> None:
    """P7: it is in no listing and no count any more; its bytes stay; what is malformed stays listed."""
    whole = json.dumps(TURN[3])
    path = write(tmp_path / "one.jsonl", TURN[:2], end="\xff not json\n" + whole[:30])
    open_lines = "select line, reason from malformed_lines order by line"
    with Store.init(tmp_path / ".locus") as store:
        first = run(store, path)
        assert (first.malformed, first.completed) == (2, 0)
        assert [tuple(row) for row in store.query(open_lines).rows] == [(3, "malformed"), (4, "malformed")]
        path.write_text(path.read_text() + whole[30:50])
        again = run(store, path)
        assert (again.malformed, again.completed) == (1, 0)

        path.write_text(path.read_text() + whole[50:] + "\n")
        last = run(store, path)

        assert (last.malformed, last.completed) == (0, 1)
        assert [tuple(row) for row in store.query(open_lines).rows] == [(3, "malformed")]
        kept = [e["payload"]["blob"] for e in store.events() if e["operation"] == "malformed"]  # type: ignore[index]
        assert {store.blob(one) for one in kept} >= {whole[:30].encode(), whole[:50].encode()}
        assert run(store, path).completed == 0

    listed = locus_process("log", "--type", "transcript", "--json", cwd=tmp_path).text.splitlines()
    assert [json.loads(one)["payload"]["line"] for one in listed] == [3]


def test_half_a_line_that_became_another_is_not_settled(tmp_path: Path) -> None:
    """P7: a file that was rewritten does not hold the rest of it."""
    path = write(tmp_path / "one.jsonl", TURN[:2], end='{"type":"note","odd":1,"uu')
    with Store.init(tmp_path / ".locus") as store:
        run(store, path)
        write(path, TURN)
        assert run(store, path).completed == 0
        assert store.query("select count(*) from malformed_lines").rows[0][0] == 1


def test_a_half_line_of_an_older_store_is_settled_by_the_next_import(tmp_path: Path) -> None:
    """P7: also of a file that did not change since its line was read whole."""
    whole = json.dumps(TURN[3])
    path = write(tmp_path / "one.jsonl", TURN[:3], end=whole[:30])
    other = write(tmp_path / "two.jsonl", [line(30, "user", "more", session="another", promptId="p-9")])
    with Store.init(tmp_path / ".locus") as store:
        run(store, path)
        path.write_text(path.read_text() + whole[30:] + "\n")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(completed_lines, "completed", lambda *_: [])
            run(store, path)
        assert store.query("select count(*) from malformed_lines").rows[0][0] == 1

        assert run(store, path, other).completed == 1

        assert store.query("select count(*) from malformed_lines").rows[0][0] == 0


def test_an_import_says_how_many_contents_look_like_secrets(tmp_path: Path) -> None:
    """P5: the number, what lists them, once each; the events it counts are those that the log got."""
    secret = made()["npm"]
    path = tmp_path / "one.jsonl"
    assert locus_process("init", cwd=tmp_path).code == 0
    before = json.loads(locus_process("status", "--json", cwd=tmp_path).out)["status"]["events"]
    lines = [one for number in range(3) for one in written(number, f"{number} {secret if number else ''}")]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))

    first = locus_process("import", "claude-code", "--json", path, cwd=tmp_path)

    report = json.loads(first.out)["import"]
    after = json.loads(locus_process("status", "--json", cwd=tmp_path).out)["status"]["events"]
    assert (first.code, report["withheld"], report["events"]) == (0, 2, after - before)
    asked = locus_process("sql", "--format", "json", "from withheld_contents order by paths", cwd=tmp_path)
    assert [(one["paths"], one["kinds"]) for one in json.loads(asked.out)] == [
        (["f1.py"], ["npm-token"]), (["f2.py"], ["npm-token"]),
    ]  # fmt: skip

    with path.open("a") as file:
        file.writelines(json.dumps(one) + "\n" for one in written(9, f"2 {secret}"))
        file.writelines(json.dumps(one) + "\n" for one in written(10, f"10 {secret}"))
    second = locus_process("import", "claude-code", path, cwd=tmp_path)
    assert "1 content looks like it holds a secret" in second.err
    assert 'locus sql "from withheld_contents"' in second.err


def test_a_turn_whose_lines_were_written_again_ends_before_the_next(tmp_path: Path) -> None:
    """P7: lines with the time of a resume, hours later, make neither the turn nor a model call that long."""
    answer = line(3, "assistant", [TEXT], requestId="req_1", message=usage(40))
    asked = line(0, "user", "add a price", promptId="prompt-1")
    following = line(5, "user", "and a tax", promptId="prompt-2")
    answer["timestamp"] = "2026-11-20T14:00:00.000Z"
    with Store.init(tmp_path / ".locus") as store:
        run(store, write(tmp_path / "a.jsonl", [asked, answer, following]))

        turns = store.query("select duration_ms from turns where title = 'add a price'").rows
        assert [tuple(row) for row in turns] == [(5_000,)]
        assert [tuple(row) for row in store.query("select derived_ms from llm_calls").rows] == [(None,)]


def test_an_import_holds_one_line_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is that of a batch, however long a transcript is: no list of its lines is made."""
    path, alive = tmp_path / "a.jsonl", []
    write(path, [line(number % 60, "system", "x", uuid=f"line-{number}") for number in range(200)])
    read = FileSource.lines

    def counted(self: FileSource, *given: Any) -> Iterator[Line]:
        for number, one in enumerate(read(self, *given)):
            if number % 50 == 49:
                alive.append(sum(isinstance(held, Line) for held in gc.get_objects()))
            yield one

    monkeypatch.setattr(FileSource, "lines", counted)
    with Store.init(tmp_path / ".locus") as store:
        importer.run(store, "claude-code", [FileSource("claude-code", [str(path)])])
    assert len(alive) == 4 and max(alive) <= 3  # that at hand, the one before, and one read ahead


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The lines that are parsed from here on."""
    seen: list[bytes] = []

    def counted(data: bytes, parse: Any = lines.parse) -> Any:
        seen.append(data.rstrip(b"\n"))
        return parse(data)

    monkeypatch.setattr(lines, "parse", counted)
    return seen


def test_each_line_is_parsed_once(tmp_path: Path, parsed: list[bytes]) -> None:
    """A file is recognised, sorted and read by one parse of each of its lines; one that grew between by
    another of the new ones."""
    (tmp_path / "t").mkdir()
    path = write(tmp_path / "t/one.jsonl", written(0, "first") + written(1, "second"))
    found = sources.named("claude-code", [str(tmp_path / "t")])
    with Store.init(tmp_path / ".locus") as store:
        assert importer.run(store, "claude-code", found).lines == len(path.read_bytes().splitlines())
        assert sorted(parsed) == sorted(path.read_bytes().splitlines())

        del parsed[:]
        found = sources.named("claude-code", [str(tmp_path / "t")])
        write(path, written(0, "first") + written(1, "other words") + written(2, "third"))
        assert importer.run(store, "claude-code", found).facts > 0
        expected = set(path.read_bytes().splitlines())
        assert expected <= set(parsed)
        assert any("third" in str(event["payload"]) for event in store.events())


def test_heads_of_many_files_are_bounded(
    tmp_path: Path, parsed: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heads that wait for their lines are the latest few; the lines of others are parsed again."""
    paths = [write(tmp_path / f"{i}.jsonl", written(i, "words")) for i in range(4)]
    size = max(len(path.read_bytes()) for path in paths)
    monkeypatch.setattr(lines, "_HEADS_BYTES_MAX", size + 10)
    for path in paths:
        FileSource("claude-code", [str(path)]).head()
    del parsed[:]

    for path in paths:
        assert list(FileSource("claude-code", [str(path)]).lines({}))
    assert len(parsed) == sum(len(path.read_bytes().splitlines()) for path in paths[:3])
    assert lines._heads._bytes == 0
