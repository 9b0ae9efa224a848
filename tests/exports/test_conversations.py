"""Sessions for other programs: trajectories (ATIF), spans (OTLP), attributed lines (Agent Trace)."""

import base64
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog import Recorder, Store
from eventlog.base.layout import StoreFiles
from eventlog.exports import agent_trace, atif, otlp
from eventlog.exports import conversation as conversation_module
from eventlog.exports.conversation import Conversation, conversations
from eventlog.log import segment_file
from eventlog.log.manifest import SegmentEntry
from eventlog.query import prices
from eventlog.reports import figures
from locus_cli.main import run
from tests.secrets_made import made
from tests.sql_demo import make_demo

AT = 1_780_000_000_000_000
SID = "c0nversa"
CALLS = ("m1", "m2", "m2", "s1")  # m2 is reported twice; s1 is the subagent's
Said = dict[str, Any]


def conversation() -> Iterator[Said]:
    """A session as a transcript gives it: a prompt, an answer with two tools, a subagent, a second prompt."""
    of: Said = {
        "session_id": SID,
        "agent": "claude-code",
        "agent_version": "2.1",
        "agent_session_id": "their-own",
    }
    at = AT

    def event(kind: str, payload: Said, **columns: Any) -> Said:
        nonlocal at
        at += 1_000_000
        return {**of, "event_type": kind, "payload": payload, "occurred_at": at, "turn": 1, **columns}

    usage = {"model": "claude-opus-4-1", "prompt_tokens": 1000, "cache_read_tokens": 600}
    yield event("session", {}, operation="start", title="Talk", turn=None)
    yield event("turn", {"user_message": "Fix it"}, operation="start")
    yield event("intent", {"message": "Fix it"}, source="user")
    yield event("message", {"text": "How?"}, operation="reasoning", message_id="m1", source="agent")
    yield event("message", {"text": "I look."}, operation="text", message_id="m1", source="agent")
    yield event("llm", {}, message_id="m1", completion_tokens=20, **usage)
    yield event(
        "action", {"args": {"command": "make"}, "result": [{"type": "text", "text": "made"}]},
        tool="Bash", tool_use_id="t1", message_id="m1", success=False, duration_ms=500,
    )  # fmt: skip
    yield event("error", {"message": "no rule"}, error_type="tool_failure", resolved=False)
    yield event(
        "action",
        {"args": "look", "result": {"ok": 1}},
        tool="Agent",
        tool_use_id="t2",
        message_id="m1",
        success=True,
    )
    yield event("subagent", {}, subagent_id="sub-1", tool_use_id="t2", operation="start")
    sub = {"subagent_id": "sub-1"}
    yield event("intent", {"message": "look"}, source="system", **sub)
    yield event("llm", {}, message_id="s1", completion_tokens=7, **usage, **sub)
    yield event(
        "action", {"args": {}, "result": "seen"}, tool="Read", tool_use_id="t3", message_id="s1", **sub
    )
    yield event("message", {"text": "Done."}, operation="text", message_id="m2", source="agent")
    yield event("llm", {}, message_id="m2", completion_tokens=1, **usage)
    yield event("llm", {}, message_id="m2", completion_tokens=30, **usage)
    yield event("turn", {"outcome": "Done."}, operation="end", status="completed", title="Fixed")
    yield event("intent", {"message": "and again"}, source="user", turn=2)
    yield event("llm", {}, message_id=None, completion_tokens=None, turn=2, model="own-model")
    yield event("action", {"result": None}, tool="Bash", turn=2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The store of docs/sql.md with that conversation, part sealed."""
    with Store.open(make_demo(tmp_path_factory.mktemp("conversations") / "sample")) as store:
        store.seal()
        store.append(conversation())
        yield store


def test_all_conversations_come_of_one_connection(store: Store, connections: list[object]) -> None:
    """I21: however many sessions there are, they are folded once, and priced."""
    with store.view() as view:
        sessions = list(conversations(store, view, priced=True, derived=True))

    assert len(sessions) > 1
    assert len(connections) == 1


def exported(path: Path, sessions: int) -> dict[str, Conversation]:
    """The conversations of so many sealed sessions, by session."""
    with Store.init(path) as store:
        for number in range(sessions):
            named = {"session_id": f"{number:08x}"}
            store.append(
                {**event, **named, "message_id": event.get("message_id") and f"{number}{event['message_id']}"}
                for event in conversation()
            )
        store.seal()
        store.reindex()
        with store.view() as view:
            reported = conversations(store, view, priced=True, derived=True)
            return {one.session["session_id"]: one for one in reported}


def test_the_log_is_read_once_however_many_sessions_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1-55: as many segments are opened for sixty sessions as for ten; each session has its own events."""
    opened: list[str] = []

    class Counted(segment_file.SegmentFile):
        def __init__(self, files: StoreFiles, entry: SegmentEntry) -> None:
            opened.append(entry.name)
            super().__init__(files, entry)

    monkeypatch.setattr(segment_file, "SegmentFile", Counted)
    exported(tmp_path / "few", 10)
    few = len(opened)
    reported = exported(tmp_path / "many", 60)

    assert len(opened) - few == few > 0
    assert len(reported) == 60
    assert {key: {e["session_id"] for e in c.events} for key, c in reported.items()} == {
        k: {k} for k in reported
    }
    assert {len(one.costs) for one in reported.values()} == {len(set(CALLS))}


@pytest.mark.parametrize("at_once", [1, 7, 50, 1_000])
def test_sessions_that_are_read_together_are_those_read_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """I21: how many events are read at a time changes no document."""
    with Store.open(make_demo(tmp_path / "sample")) as store:
        store.append(conversation())
        monkeypatch.setattr(conversation_module, "_EVENTS_AT_ONCE", at_once)
        together = list(atif.documents(store)), list(otlp.requests(store))
        names = [
            row[0] for row in store.query("select session_id from sessions order by first_position").rows
        ]
        alone = [
            list(form(store, session_id=name)) for form in (atif.documents, otlp.requests) for name in names
        ]
    assert [document for one in alone for document in one] == [*together[0], *together[1]]


# -- trajectories ----------------------------------------------------------------------------------


def wrong_in(document: Said) -> list[str]:
    """What the published rules of ATIF-v1.8 forbid, found by our own reading of them."""
    found = []
    step_keys = {
        "step_id", "timestamp", "source", "model_name", "reasoning_effort", "message", "reasoning_content",
        "tool_calls", "observation", "metrics", "is_copied_context", "llm_call_count", "extra",
    }  # fmt: skip
    if document["schema_version"] != "ATIF-v1.8" or not document["steps"]:
        found.append("head")
    if not {"name", "version"} <= set(document["agent"]) <= {"name", "version", "model_name"}:
        found.append("agent")
    for number, step in enumerate(document["steps"], 1):
        if step["step_id"] != number or not set(step) <= step_keys or not isinstance(step["message"], str):
            found.append(f"step {number}")
        if step["source"] not in ("system", "user", "agent"):
            found.append(f"source of {number}")
        if step["source"] != "agent" and set(step) & {
            "model_name", "reasoning_content", "tool_calls", "metrics"
        }:  # fmt: skip
            found.append(f"agent's fields in {number}")
        calls = [call["tool_call_id"] for call in step.get("tool_calls", ())]
        if any(
            set(call) != {"tool_call_id", "function_name", "arguments"} for call in step.get("tool_calls", ())
        ):
            found.append(f"call in {number}")
        results = step.get("observation", {"results": []})["results"]
        if any(one["source_call_id"] not in calls for one in results) or len(set(calls)) != len(calls):
            found.append(f"result in {number}")
        if any(not isinstance(one.get("content", ""), str) for one in results):
            found.append(f"content in {number}")
    inner = document.get("subagent_trajectories", [])
    if len({one["trajectory_id"] for one in inner}) != len(inner):
        found.append("subagents")
    return found + [problem for one in inner for problem in wrong_in(one)]


@pytest.mark.fast
def test_trajectories_keep_the_rules(store: Store) -> None:
    """P8: every session gives a document that ATIF-v1.8 allows."""
    documents = list(atif.documents(store))
    assert len(documents) == 3
    assert [wrong_in(document) for document in documents] == [[], [], []]


def test_the_reference_validator_takes_them(store: Store) -> None:
    """P8: the models of Harbor, which publishes ATIF, take every document."""
    reference = pytest.importorskip(
        "harbor.models.trajectories.trajectory", reason="pip install harbor, with Python 3.12 or newer"
    )
    for document in atif.documents(store):
        reference.Trajectory.model_validate(json.loads(json.dumps(document)))


def test_a_trajectory_tells_the_conversation(store: Store) -> None:
    """P3: prompts, texts, calls with results and counted tokens are in the steps they belong to."""
    (document,) = atif.documents(store, session_id=SID)
    asked, answered, done, again, last = document["steps"]
    (inner,) = document["subagent_trajectories"]

    assert (document["session_id"], document["agent"]["version"]) == ("their-own", "2.1")
    assert (asked["source"], asked["message"], again["message"]) == ("user", "Fix it", "and again")
    assert (answered["message"], answered["reasoning_content"]) == ("I look.", "How?")
    assert [call["arguments"] for call in answered["tool_calls"]] == [{"command": "make"}, {"input": "look"}]
    made, looked = answered["observation"]["results"]
    assert (made["content"], made["extra"]) == ("made", {"success": False, "duration_ms": 500})
    assert looked["subagent_trajectory_ref"] == [{"trajectory_id": inner["trajectory_id"]}]
    assert [one["text"] for one in answered["extra"]["locus"]["events"]] == ["no rule"]
    done["metrics"].pop("cost_usd", None)  # where the library of prices is installed
    assert done["metrics"] == {"prompt_tokens": 1000, "completion_tokens": 30, "cached_tokens": 600}
    assert done["llm_call_count"] == 1
    assert [step["source"] for step in inner["steps"]] == ["user", "agent"]
    assert "metrics" not in last and last["llm_call_count"] == 1  # unknown is left out
    assert document["final_metrics"]["total_prompt_tokens"] == 3000


def test_totals_of_a_trajectory_are_left_out_where_no_call_is_recorded(tmp_path: Path) -> None:
    """P8: the tokens of a session without a recorded model call are unknown, and not 0; a call that says 0
    has 0."""
    of: Said = {"session_id": SID, "agent": "claude-code", "turn": 1}
    asked: Said = {**of, "event_type": "turn", "operation": "start", "payload": {"user_message": "Try it"}}
    names = {f"total_{name}_tokens" for name in ("prompt", "completion", "cached")}
    with Store.init(tmp_path / ".locus", repo_hash="9f86d081884c", project_name="sample") as own:
        own.append([asked])
        (document,) = atif.documents(own)
        assert document["final_metrics"] == {"total_steps": 1}
        own.append([{**of, "event_type": "llm", "message_id": "m1"}])
        (document,) = atif.documents(own)
        assert document["final_metrics"].keys() & names == set()
        free = {"prompt_tokens": 0, "completion_tokens": 0, "cache_read_tokens": 0}
        own.append([{**of, "event_type": "llm", "message_id": "m2", **free}])
        (document,) = atif.documents(own)
        assert {name: document["final_metrics"][name] for name in names} == dict.fromkeys(names, 0)


def test_a_failure_and_an_empty_directory_are_reported_for_what_they_are(tmp_path: Path) -> None:
    """P7: a call that gave only an error has its text as the result; an empty directory misses no lines."""
    of: Said = {"session_id": SID, "agent": "claude-code", "turn": 1}
    mode = {"after_mode": "040000"}
    with Store.init(tmp_path / ".locus", repo_hash="9f86d081884c", project_name="sample") as own:
        own.append(
            [
                {**of, "event_type": "turn", "operation": "start", "payload": {"user_message": "Try it"}},
                {**of, "event_type": "action", "tool": "Bash", "tool_use_id": "t1", "success": False,
                 "payload": {"args": {"command": "make"}}},
                {**of, "event_type": "error", "tool_use_id": "t1", "payload": {"message": "no rule"}},
                {**of, "event_type": "file", "operation": "add", "path": "empty", "payload": mode},
                {**of, "event_type": "file", "operation": "edit", "path": "unknown", "payload": {}},
            ]
        )  # fmt: skip
        (document,) = atif.documents(own)
        report = agent_trace.TraceReport()
        assert list(agent_trace.records(own, report)) == []
        with figures.asking(own) as query:
            total = figures.total(query, None)
            hot = [row.key for row in figures.by(query, "path", None)]

    (result,) = document["steps"][1]["observation"]["results"]
    assert (result["source_call_id"], result["content"]) == ("t1", "no rule")
    assert [path for path, _ in report.missing] == ["unknown"] == hot
    assert (total.file_changes, total.files) == (1, 1)


def test_a_trajectory_can_be_imported_again(store: Store, tmp_path: Path) -> None:
    """P2: what `import atif` makes of an export has the same prompts, tool calls and tokens."""
    target = tmp_path / "talk.json"
    assert run(["--store", store.layout.root, "export", "atif", "--session", SID, "--to", str(target)]) == 0
    with Store.init(tmp_path / ".locus") as other:
        assert run(["--store", other.layout.root, "import", "atif", str(target)]) == 0
        ask = (
            "select (select count(*) from turns), (select count(*) from actions), (select sum(prompt_tokens) "
            "from llm_calls), (select list(payload->>'message' order by position) from events where "
            "event_type = 'intent' and subagent_id is null)"
        )
        assert other.query(ask).rows == [(2, 4, 3000, ["Fix it", "and again"])]


def test_an_export_of_this_log_is_passed_over(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P3, P8: sessions that the log has are passed over and named, and nothing is added; others in the same
    file are recorded. In another store all are recorded, once."""
    target, mixed, again = (str(tmp_path / name) for name in ("all.json", "mixed.json", "again.json"))
    ask = "select count(*), count(distinct session_id), (select count(*) from llm_calls) from events"

    def locus(at: Store, *words: str) -> str:
        capsys.readouterr()
        assert run(["--store", at.layout.root, *words]) == 0
        return capsys.readouterr().err

    assert locus(store, "export", "atif", "--to", target)
    counted, (first, *_) = store.query(ask).rows, list(atif.documents(store))
    for _ in range(2):
        said = locus(store, "import", "atif", target)
        assert "skipped: session " in said and SID in said and f"of {target}: already in this log" in said
        assert store.query(ask).rows == counted

    foreign = {**first, "session_id": "theirs", "extra": {"locus": {"session_id": "other000"}}}
    Path(mixed).write_text(Path(target).read_text() + json.dumps(foreign) + "\n")
    with Store.init(tmp_path / ".locus") as other:
        assert "skipped" not in locus(other, "import", "atif", target)
        ((events, sessions, calls),) = other.query(ask).rows
        assert sessions == counted[0][1] and calls
        Path(other.layout.live("imports.json")).unlink()
        assert "Nothing new" in locus(other, "import", "atif", target)
        assert other.query(ask).rows == [(events, sessions, calls)]
        locus(other, "export", "atif", "--to", again)
        assert "already in this log" in locus(other, "import", "atif", again)
        assert other.query(ask).rows == [(events, sessions, calls)]
        locus(other, "import", "atif", mixed)
        assert other.query(ask).rows[0][1] == sessions + 1

    with Store.open(make_demo(tmp_path / "own")) as own:
        own.append(conversation())
        own_file = str(tmp_path / "own.json")
        locus(own, "export", "atif", "--to", own_file)
        with open(own_file, "a") as file:
            file.write(json.dumps(foreign) + "\n")
        ((_, sessions, _),) = own.query(ask).rows
        assert "already in this log" in locus(own, "import", "atif", own_file)
        assert own.query(ask).rows[0][1] == sessions + 1


def test_exports_tell_costs_and_the_version_of_prices(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """P3, P7: each call and step costs what SQL says, with whose prices; a call without one makes the total
    unknown, and without the library nothing is reported."""
    pytest.importorskip("genai_prices")
    costs = dict(store.query("select event_id, cost_usd from llm_calls where session_id = $1", [SID]).rows)
    ((source,),) = store.query("select distinct source from prices").rows
    known = {event_id: float(cost) for event_id, cost in costs.items() if cost is not None}
    assert 0 < len(known) < len(costs) and source.startswith("genai-prices ")

    (document,) = atif.documents(store, session_id=SID)
    steps = [*document["steps"], *document["subagent_trajectories"][0]["steps"]]
    listed = [step["metrics"]["cost_usd"] for step in steps if "cost_usd" in step.get("metrics", {})]
    assert sorted(listed) == sorted(known.values())
    assert document["extra"]["locus"]["prices"] == source
    assert "total_cost_usd" not in document["final_metrics"]  # one call has no price

    (request,) = otlp.requests(store, session_id=SID)
    payload = {
        one["said"]["locus.event_id"]: one["said"]["locus.cost_usd"]
        for one in spans_of(request)
        if "locus.cost_usd" in one["said"]
    }
    resource = {one["key"]: one["value"] for one in request["resourceSpans"][0]["resource"]["attributes"]}
    assert payload == known and resource["locus.prices"] == {"stringValue": source}

    monkeypatch.setattr(prices, "load", lambda: None)
    (bare,) = atif.documents(store, session_id=SID)
    (without,) = otlp.requests(store, session_id=SID)
    assert "cost" not in json.dumps(bare) + json.dumps(without)
    assert "genai-prices" not in json.dumps(bare) + json.dumps(without)


def test_a_session_whose_calls_all_have_a_price_has_a_total(tmp_path: Path) -> None:
    """P3: the total of a document is the cost of its session in SQL, subagents included."""
    pytest.importorskip("genai_prices")
    with Store.open(make_demo(tmp_path / "sample")) as store:
        store.append([one for one in conversation() if one.get("model") != "own-model"])
        ((cost,),) = store.query("select cost_usd from sessions where session_id = $1", [SID]).rows
        (document,) = atif.documents(store, session_id=SID)
    assert document["final_metrics"]["total_cost_usd"] == float(cost) > 0


# -- spans -----------------------------------------------------------------------------------------


def parsed(request: Said) -> Any:
    """The request as the protocol's own library reads it; its JSON spells ids in another base."""
    json_format = pytest.importorskip("google.protobuf.json_format")
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")

    def in_base64(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: base64.b64encode(bytes.fromhex(one)).decode()
                if key in ("traceId", "spanId", "parentSpanId")
                else in_base64(one)
                for key, one in value.items()
            }
        return [in_base64(one) for one in value] if isinstance(value, list) else value

    text = json.dumps(in_base64(request))
    return json_format.Parse(text, service.ExportTraceServiceRequest())


def spans_of(request: Said) -> list[Said]:
    message = parsed(request)
    found = []
    for span in message.resource_spans[0].scope_spans[0].spans:
        attributes = {
            one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes
        }  # fmt: skip
        found.append({"span": span, "name": span.name, "said": attributes})
    return found


def test_spans_are_what_a_collector_reads(store: Store) -> None:
    """P3: a turn is a trace, each counted call and each tool a span below it, with the conventions' names."""
    (request,) = otlp.requests(store, session_id=SID)
    spans = spans_of(request)
    names = [one["name"] for one in spans]
    roots = {one["span"].trace_id: one["span"] for one in spans if not one["span"].parent_span_id}

    assert names.count("invoke_agent claude-code") == 2 == len(roots)
    assert [name for name in names if name.startswith("chat")] == ["chat claude-opus-4-1"] * 3 + [
        "chat own-model"
    ]
    assert sum(name.startswith("execute_tool") for name in names) == 4
    for one in spans:
        span = one["span"]
        assert len(span.trace_id) == 16 and len(span.span_id) == 8
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        if span.parent_span_id:
            root = roots[span.trace_id]
            assert span.parent_span_id == root.span_id
            assert root.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= root.end_time_unix_nano
    done = next(one["said"] for one in spans if one["said"].get("gen_ai.response.id") == "m2")
    assert (done["gen_ai.usage.input_tokens"], done["gen_ai.usage.output_tokens"]) == (1000, 30)
    assert (done["gen_ai.provider.name"], done["gen_ai.conversation.id"]) == ("anthropic", "their-own")
    assert "gen_ai.usage.reasoning.output_tokens" not in done
    failed = [one for one in spans if one["span"].status.code == 2]
    assert [(one["name"], one["said"]["error.type"]) for one in failed] == [("execute_tool Bash", "_OTHER")]
    assert failed[0]["span"].end_time_unix_nano - failed[0]["span"].start_time_unix_nano == 500_000_000


def test_spans_have_contents_only_when_asked(store: Store) -> None:
    """P5: prompts, arguments and results leave with --contents only, and equal logs give equal spans."""
    (quiet,), (reported,) = (
        list(otlp.requests(store, session_id=SID, contents=flag)) for flag in (False, True)
    )

    assert not re.search("Fix it|make|made", json.dumps(quiet))
    assert all(words in json.dumps(reported) for words in ("Fix it", "make", "made"))
    assert list(otlp.requests(store, session_id=SID)) == [quiet]
    assert len(list(otlp.requests(store))) == 3


# -- attributed lines ------------------------------------------------------------------------------

# As the published schema has them.
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def test_records_keep_the_rules(store: Store) -> None:
    """P8: every record has the fields and forms of the published schema, and nothing else."""
    found = list(agent_trace.records(store, agent_trace.TraceReport()))
    assert len({record["id"] for record in found}) == len(found) == 5
    for record in found:
        assert {"version", "id", "timestamp", "files"} <= set(record)
        assert set(record) <= {"version", "id", "timestamp", "files", "metadata", "tool", "vcs"}
        assert re.fullmatch(r"[0-9]+\.[0-9]+", record["version"])
        assert _ID.fullmatch(record["id"]) and _TIME.fullmatch(record["timestamp"])
        for file in record["files"]:
            assert set(file) == {"path", "conversations"}
            for one in file["conversations"]:
                assert set(one) == {"contributor", "ranges"} and one["ranges"]
                assert one["contributor"]["type"] in ("ai", "unknown")


def test_records_name_the_lines_of_a_turn(store: Store) -> None:
    """P7: new lines by number; the agent's where a tool call made them, unknown hands in git."""
    found = list(agent_trace.records(store, agent_trace.TraceReport()))
    by_agent = [record for record in found if record["tool"]["name"] == "probe"]
    by_git = [record for record in found if record["tool"]["name"] == "git"]

    assert [record["files"] for record in by_agent] == [
        [{"path": "hello.py", "conversations": [{"contributor": {"type": "ai", "model_id": model},
                                                  "ranges": [{"start_line": 1, "end_line": end}]}]}]
        for model, end in (("model-a", 1), ("model-b", 2))
    ]  # fmt: skip
    edited = next(file for record in by_git[1:2] for file in record["files"])
    assert edited == {
        "path": "src/app.py",
        "conversations": [{"contributor": {"type": "unknown"}, "ranges": [{"start_line": 2, "end_line": 3}]}],
    }
    assert all(len(record["vcs"]["revision"]) == 40 for record in by_git)


def test_a_secret_gives_no_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P5: of a content that is withheld not even numbers of lines leave, and that is stated (exit code 4)."""
    with Store.init(tmp_path / ".locus") as store:
        turn = Recorder(store, agent="probe", agent_session_id="s").start_turn("Add a key")
        key = next(iter(made().values()))
        turn.file("key.txt", before=None, after=f"token = {key}\n".encode(), cause="a" * 32)
        turn.file("open.txt", before=None, after=b"hello\n", cause="a" * 32)
        turn.end(title="Added", outcome="done")
        report = agent_trace.TraceReport()
        (record,) = agent_trace.records(store, report)
    assert [file["path"] for file in record["files"]] == ["open.txt"]
    assert [path for path, why in report.missing if "withheld" in why] == ["key.txt"]
    arguments = ["--store", str(tmp_path / ".locus"), "export", "agent-trace", "--to", "-"]
    assert run(arguments) == 4
    assert json.loads(capsys.readouterr().out)["files"] == record["files"]


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abcd"), max_size=8))
def test_lines_outside_of_ranges_were_there_before(old: list[str], new: list[str]) -> None:
    """P7: without the lines that are named, a content is made of lines of the one before, in order."""
    ranges = agent_trace.new_lines(
        "".join(f"{x}\n" for x in old).encode(), "".join(f"{x}\n" for x in new).encode()
    )
    named = {n for one in ranges for n in range(one["start_line"], one["end_line"] + 1)}
    assert named <= set(range(1, len(new) + 1))
    rest = iter(old)

    assert all(line in rest for n, line in enumerate(new, 1) if n not in named)


# -- the commands ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "count"), [("atif", 3), ("otlp", 3), ("agent-trace", 5)])
def test_each_command_writes_lines_of_json(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, count: int
) -> None:
    """P8: a private file of one document a line, whole or not there; a taken name is refused."""
    target = tmp_path / "out.jsonl"
    arguments = ["--store", store.layout.root, "export", kind, "--to"]
    assert run([*arguments, str(target), "--json"]) in (0, 4)
    assert "export" in json.loads(capsys.readouterr().out)
    assert run([*arguments, str(target)]) == 3
    lines = target.read_bytes().splitlines()

    assert len([json.loads(line) for line in lines]) == count
    assert target.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["out.jsonl"]
    assert run([*arguments, str(target), "--force", "--session", "nobody"]) == 1
    assert target.read_bytes().splitlines() == lines
