"""The answers of the viewer, through a real server: what they say, and that asking changes nothing."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog import Store, question
from eventlog.base.errors import Corruption
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import DIRECTORY, SKIPPED, plain_kind
from eventlog.replay.deferred import hashed
from eventlog.view import answers, changes, contents, finding, pages, versions
from eventlog.view.answers import ROUTES
from eventlog.view.stores import ViewedStores
from tests.mcp.support import bytes_below
from tests.view.sample import ERASED, HOSTILE, SECRET, Sample
from tests.view.support import Served

MEMBERS = {
    "/api/stores": {"stores", "zone"},
    "/api/sessions": {"sessions", "more", "choices"},
    "/api/spine": {
        "session", "resume", "until", "paths", "hashes", "turns", "stops", "changes", "reasons", "withheld",
        "cut",
    },
    "/api/page": {
        "turn", "session_id", "title", "status", "uncertain", "undone_at", "anchor", "blocks",
    },
    "/api/event": {"event", "cut"},
    "/api/compare": {"files", "cut"},
    "/api/change": {"hunks", "why", "cut"},
    "/api/tree": {"files", "state", "why", "cut"},
    "/api/blame": {"origins", "lines", "cut"},
    "/api/history": {"versions", "cut"},
    "/api/search": {"hits", "more", "missing", "events", "why"},
    "/api/errors": {"rows", "cut"},
    "/api/decisions": {"rows", "cut"},
    "/api/sql": {"columns", "rows", "cut"},
    "/api/figures": {
        "total", "rows", "prices", "saved_by_caching_usd", "hours", "commits", "with_commits", "choices",
    },
}  # fmt: skip


def questions(sample: Sample, served: Served) -> list[tuple[str, dict[str, str]]]:
    """One of each kind, and some about what is not there as others are."""
    spine = served.answer("/api/spine")
    turn = sample.turns["edit"]
    event = served.answer("/api/page", turn=turn)["blocks"][0]["event_id"]
    turns = [("/api/page", {"turn": name}) for name in sample.turns.values()]
    trees = [("/api/tree", {"moment": sample.turns[name]}) for name in ("edit", "partial", "live")]
    return [
        ("/api/stores", {}),
        ("/api/sessions", {}),
        ("/api/spine", {}),
        ("/api/spine", {"session": sample.session}),
        ("/api/event", {"id": event}),
        *((f"/api/content/{hash}", {"path": "a.py"}) for hash in spine["hashes"]),
        *turns,
        *trees,
        ("/api/compare", {"a": turn}),
        ("/api/compare", {"a": f"{turn}@start", "b": sample.turns["rename"]}),
        ("/api/change", {"a": turn, "path": "tea.py"}),
        ("/api/blame", {"moment": turn, "path": "tea.py"}),
        ("/api/history", {"path": "coffee.py"}),
        ("/api/search", {"q": "tea"}),
        ("/api/errors", {"open": "1"}),
        ("/api/decisions", {}),
        ("/api/sql", {"q": "select title from turns"}),
        ("/api/figures", {"by": "model"}),
    ]


def test_a_tour_of_every_answer_changes_not_one_byte(sample: Sample, served: Served) -> None:
    """P5: what reads writes nothing, with an index of words and without; and each answer has its members."""
    with Store.open(sample.store) as store:
        store.count_lines()
    for round in range(2):
        before = bytes_below(sample.store)
        seen = set()
        for path, parameters in questions(sample, served):
            answer = served.answer(path, **parameters)
            seen.add(path)
            if path in MEMBERS:
                assert answer.keys() == MEMBERS[path] | {"v"}, path
            assert answer["v"] == 1
        assert seen >= ROUTES.keys()
        assert bytes_below(sample.store) == before
        if not round:
            with Store.open(sample.store) as store:
                from eventlog.search import index

                index.maintain(store)
                store.compare_trees()


# -- the spine ---------------------------------------------------------------------------------------


def files_of(spine: dict[str, Any], number: int) -> dict[str, list[Any]]:
    """The files of a stop, as a client works them out."""
    if number < 0:
        return {}
    files = files_of(spine, spine["stops"][number]["base"])
    for path, hash, size, kind, operation, old in spine["changes"][number]:
        if old is not None:
            del files[spine["paths"][old]]
        if operation == "D":
            del files[spine["paths"][path]]
        else:
            files[spine["paths"][path]] = [None if hash is None else spine["hashes"][hash], size, kind]
    return files


@pytest.mark.parametrize("session", [None, "its"])
def test_a_client_makes_every_tree_of_the_spine(sample: Sample, served: Served, session: str | None) -> None:
    """P1: hash, size and kind of every file at both stops of every turn, as `Store.tree` has it."""
    spine = served.answer("/api/spine", **({} if session is None else {"session": sample.session}))
    with Store.open(sample.store) as store:
        with store.view() as view:
            assert spine["until"] == view.next_position
        for number, stop in enumerate(spine["stops"]):
            name = spine["turns"][stop["turn"]]["name"]
            if stop["source"] == "none":
                assert spine["changes"][number] == []
                assert stop["files"] == (spine["stops"][stop["base"]]["files"] if stop["base"] >= 0 else None)
                continue
            state = store.files_at(name, stop["at"])
            expected = {}
            for path, entry in state.walk():
                if entry.kind != DIRECTORY:
                    known = hashed(store.blobs, entry)
                    hash = None if entry.kind == SKIPPED else to_text(known.id)
                    expected[path.decode()] = [hash, entry.size, plain_kind(entry.kind).decode()]
            assert files_of(spine, number) == expected
            assert stop["files"] == len(expected)
            assert (stop["state"], stop["why"]) == (state.certainty.state, state.certainty.why or None)
            listed = served.answer("/api/tree", moment=f"{name}@{stop['at']}")["files"]
            assert {path: [hash, size, kind] for path, hash, size, kind, _ in listed} == expected


def test_what_a_spine_says_of_turns_and_contents(sample: Sample, served: Served) -> None:
    """Each path and content once, facts of each turn, where files come from, and what is withheld."""
    spine = served.answer("/api/spine")
    by_name = {turn["name"]: turn for turn in spine["turns"]}
    assert [spine["turns"][stop["turn"]]["name"] for stop in spine["stops"][::2]] == list(by_name)
    assert spine["paths"] == sorted(spine["paths"], key=str.encode)
    assert len(set(spine["hashes"])) == len(spine["hashes"])
    edit = by_name[sample.turns["edit"]]
    assert (edit["agent"], edit["errors"], edit["tool_calls"], edit["tokens"]) == ("claude-code", 1, 1, 1_100)
    assert edit["title"] == "Change the price of tea"
    assert isinstance(edit["started_at"], int)
    sources = {name: [] for name in sample.turns.values()}
    for stop in spine["stops"]:
        name = spine["turns"][stop["turn"]]["name"]
        if name in sources:
            sources[name].append((stop["source"], stop["state"]))
    assert sources[sample.turns["edit"]] == [("tree", "exact")] * 2
    assert sources[sample.turns["partial"]] == [("partial", "none")] * 2
    assert sources[sample.turns["none"]] == [("none", "none")] * 2
    assert sources[sample.turns["live"]][0] == ("tree", "exact")
    secret = to_text(_id(SECRET))
    erased = to_text(_id(ERASED))
    assert spine["withheld"] == {
        str(spine["hashes"].index(secret)): "holds a secret",
        str(spine["hashes"].index(erased)): served.answer(f"/api/content/{erased}")["erased"][3:],
    }


def _id(text: str) -> bytes:
    from eventlog.blobs.ids import blob_id

    return blob_id(text.encode())


# -- pages and contents ------------------------------------------------------------------------------


def test_a_page_has_what_was_asked_called_and_changed(sample: Sample, served: Served) -> None:
    """The blocks of a turn, recorded texts as they are: whoever draws them makes them harmless."""
    page = served.answer("/api/page", turn=sample.turns["edit"])
    kinds = [block["kind"] for block in page["blocks"]]
    assert kinds[0] == "words" and {"call", "changes", "note"} <= set(kinds)
    words = page["blocks"][0]
    assert (words["author"], words["text"]) == ("user", f"Make tea cost 3 {HOSTILE}")
    (call,) = [block for block in page["blocks"] if block["kind"] == "call"]
    assert (call["tool"], call["success"], call["result"]) == ("Bash", False, "too cheap")
    (change,) = [c for b in page["blocks"] for c in b.get("changes", ()) if c["path"] == "tea.py"]
    assert (change["operation"], change["added"], change["removed"]) == ("add", 5, 0)
    assert page["anchor"]["prompt_tokens"] == 1_000
    assert isinstance(page["anchor"]["started_at"], int)


def test_texts_and_payloads_that_are_long_are_cut_and_say_so(sample: Sample, served: Served) -> None:
    """P7: a cut states the whole length."""
    page = served.answer("/api/page", turn=sample.turns["live"])
    (long,) = [block for block in page["blocks"] if block.get("cut")]
    assert (len(long["text"]), long["cut"]) == (pages.TEXT_MAX, 400_000)
    answer = served.answer("/api/event", id=long["event_id"])
    assert len(answer["event"]["payload"]) <= pages.PAYLOAD_MAX < answer["cut"]
    assert answer["event"]["event_id"] == long["event_id"]


def test_a_content_is_the_text_in_coloured_pieces(sample: Sample, served: Served) -> None:
    """The pieces, joined, are the text; the path chooses the language."""
    text = (sample.root / "coffee.py").read_text()
    path = f"/api/content/{to_text(_id(text))}"
    answer = served.answer(path, path="src/tea.py")
    assert answer["coloured"] is True
    assert "\n".join("".join(piece for _, piece in line) for line in answer["text"]) + "\n" == text
    assert ["kn", "def"] in answer["text"][3] or ["k", "def"] in answer["text"][3]
    plain = served.answer(path)
    assert (plain["coloured"], plain["text"][0]) == (True, [["", 'TEA = 3  # "tea"']])
    assert plain["size"] == len(text) and plain["binary"] is False and plain["cut"] is None


@given(
    st.lists(
        st.sampled_from(
            ['"""', "'", "\\", "def tea(n):", "# milk", "\n", "\n\n", "\r\n", " ", "\t", "\x00", "ü\u2028"]
        )
    ).map("".join),
    st.integers(1, 60),
    st.sampled_from(["a.py", "a.html", "a.sh", "a.md", "a.unknown"]),
)
def test_colours_change_no_text(text: str, most: int, path: str) -> None:
    """However much of a text is coloured, its pieces are the text, and coloured lines those of the whole."""
    lines, _ = contents.colours.coloured(text, path, most)
    whole, is_whole = contents.colours.coloured(text, path, len(text) + 1)
    plain = contents.colours.plain(text)
    as_text = [["".join(piece for _, piece in line) for line in shown] for shown in (lines, whole, plain)]
    assert as_text[0] == as_text[1] == as_text[2]
    if is_whole:
        first = next((n for n, line in enumerate(lines) if line != whole[n]), len(lines))
        assert lines[first:] == plain[first:]
        assert first == len(lines) or sum(len(line) + 1 for line in as_text[2][: first + 1]) >= most


def test_a_content_that_is_not_shown_says_why(sample: Sample, served: Served) -> None:
    """P5, P7: withheld, erased, binary, damaged, unknown: five things, and none of them is empty."""
    secret = served.answer(f"/api/content/{to_text(_id(SECRET))}")
    assert (secret["text"], secret["size"], secret["withheld"]) == (None, None, "holds a secret")
    erased = served.answer(f"/api/content/{to_text(_id(ERASED))}")
    assert erased["text"] is None and "it was erased on " in erased["erased"]
    binary = served.answer(f"/api/content/{to_text(_id(chr(0) + chr(1) + chr(2)))}")
    assert (binary["binary"], binary["size"], binary["text"]) == (True, 3, None)
    assert served.ask(f"/api/content/blake3:{'0' * 64}").status == 404
    for name in ("x", "..", "blake3:0", f"blake3:{'A' * 64}", "../../STORE"):
        assert served.ask(f"/api/content/{name}").status in (400, 404)


def test_a_damaged_content_is_reported(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    """P7: damage is neither an empty file nor an error of the page."""
    with Store.open(sample.store) as store:
        stores = ViewedStores({"sample": store})

        def damaged(id: bytes) -> bytes:
            raise Corruption("a pack", "its bytes are not what was written")

        hash = to_text(_id((sample.root / "coffee.py").read_text()))
        monkeypatch.setattr(store.blobs, "get", damaged)
        answer = answers.answer(stores, f"/api/content/{hash}", {})
    assert answer["text"] is None and "its bytes are not what was written" in answer["damaged"]


def test_large_texts_are_coloured_when_a_reader_waits(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a long text the first lines are coloured at first, of a longer one always; a huge one is cut."""
    text = (sample.root / "coffee.py").read_text()
    path, wanted = f"/api/content/{to_text(_id(text))}", {"path": "a.py"}
    with Store.open(sample.store) as store:
        stores = ViewedStores({"sample": store})
        whole = answers.answer(stores, path, wanted)["text"]
        first = len(text.partition("\n")[0])
        monkeypatch.setattr(contents.colours, "AT_ONCE_MAX", first + 2)
        answer = answers.answer(stores, path, wanted)
        assert answer["coloured"] is False
        assert answer["text"] == whole[:1] + contents.colours.plain(text)[1:] != whole
        assert answers.answer(stores, path, {**wanted, "colour": "1"})["text"] == whole
        monkeypatch.setattr(contents.colours, "LATER_MAX", 10)
        assert answers.answer(stores, path, {**wanted, "colour": "1"}) == answer
        monkeypatch.setattr(contents.colours, "AT_ONCE_MAX", 1)
        monkeypatch.setattr(contents, "TEXT_MAX", 5)
        answer = answers.answer(stores, path, wanted)
        assert answer["cut"] == answer["size"] and answer["text"] == [[["", "TEA ="]]]


# -- differences -------------------------------------------------------------------------------------


def patch_of(hunks: list[dict[str, Any]]) -> str:
    return "".join(
        f"{hunk['header']}\n" + "".join(f"{line[0]}{line[3]}\n" for line in hunk["lines"]) for hunk in hunks
    )


def test_differences_are_those_of_the_command(sample: Sample, served: Served) -> None:
    """Of any two moments: files, counts, and hunks line by line, with their numbers."""
    ((first, last),) = [(sample.turns["edit"], sample.turns["rename"])]
    with Store.open(sample.store) as store:
        commits = [
            f"{s}_{t}"
            for s, t in store.query(
                "select session_id, turn_id from turns where agent = 'git' order by turn"
            ).rows
        ]
        for a, b in (
            (first, None),
            (last, None),
            (commits[0], commits[-1]),
            (commits[-1], commits[0]),
            (first, last),
        ):
            wanted = store.diff(a, b)
            parameters = {"a": a} if b is None else {"a": a, "b": b}
            withheld = store.withheld()
            answer = served.answer("/api/compare", **parameters)["files"]
            assert [file["path"] for file in answer] == [file.path for file in wanted]
            for shown, file in zip(answer, wanted, strict=True):
                assert (shown["operation"], shown["old_path"]) == (file.operation, file.old_path)
                if {shown["before"], shown["after"]} & withheld:
                    why = "was erased on " if file.path == "gone.txt" else "holds a secret"
                    assert shown["withheld"].startswith(why) and shown["added"] is None
                    continue
                assert (shown["added"], shown["removed"], shown["binary"]) == (
                    file.lines_added, file.lines_removed, file.binary,
                )  # fmt: skip
                change = served.answer("/api/change", **parameters, path=file.path)
                text = file.text.decode()
                assert patch_of(change["hunks"]) == (text[text.index("@@ -") :] if "@@ -" in text else "")
                assert (change["why"] is None) == bool(change["hunks"])


def test_lines_of_a_change_have_their_numbers(sample: Sample, served: Served) -> None:
    """Of the side on which a line is; also where tool calls alone are known."""
    change = served.answer("/api/change", a=sample.turns["edit"], path="tea.py")
    assert change["hunks"][0]["lines"][:2] == [["+", None, 1, 'TEA = 3  # "tea"'], ["+", None, 2, ""]]
    within = served.answer("/api/change", a=sample.turns["partial"], path="told.txt")
    assert within["hunks"][0]["lines"] == [[" ", 1, 1, "one"], ["+", None, 2, "two"]]


def test_why_there_is_no_change_is_reported(sample: Sample, served: Served) -> None:
    """P7, P5: withheld, binary, equal and renamed are four things."""
    first, last = sample.turns["edit"], sample.turns["rename"]
    whys = {
        path: served.answer("/api/change", a=first, path=path)["why"]
        for path in ("secret.txt", "plain.bin", "README.md")
    }
    assert whys == {
        "secret.txt": "withheld: the content holds a secret",
        "plain.bin": "it is binary",
        "README.md": "nothing of it changed",
    }
    renamed = served.answer("/api/change", a=last, path="coffee.py")
    assert renamed["why"] == "its name changed, and not its content"


def test_large_differences_are_cut_and_say_so(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are bounded: contents that are read for counts, files, lines."""
    with Store.open(sample.store) as store:
        stores = ViewedStores({"sample": store})
        whole = answers.answer(stores, "/api/compare", {"a": sample.turns["edit"]})["files"]
        monkeypatch.setattr(changes, "COUNTED_MAX", 1)
        counted = answers.answer(stores, "/api/compare", {"a": sample.turns["edit"]})["files"]
        assert len([file for file in counted if file["added"] is not None]) <= 1
        monkeypatch.setattr(changes, "FILES_MAX", 2)
        cut = answers.answer(stores, "/api/compare", {"a": sample.turns["edit"]})
        assert (len(cut["files"]), cut["cut"]) == (2, len(whole))
        monkeypatch.setattr(changes, "LINES_MAX", 2)
        answer = answers.answer(stores, "/api/change", {"a": sample.turns["edit"], "path": "tea.py"})
        assert (len(answer["hunks"][0]["lines"]), answer["cut"]) == (2, 2)
        monkeypatch.setattr(versions, "FILES_MAX", 2)
        assert answers.answer(stores, "/api/tree", {"moment": sample.turns["edit"]})["cut"] == 2


# -- files over time ---------------------------------------------------------------------------------


def test_history_and_blame_name_their_turns(sample: Sample, served: Served) -> None:
    """Across a rename; before its first version there is no file, and no line of a withheld one."""
    found = served.answer("/api/history", path="coffee.py")["versions"]
    assert [(v["turn"], v["operation"], v["path"], v["certain"]) for v in found] == [
        (sample.turns["rename"], "rename", "coffee.py", True),
        (sample.turns["edit"], "add", "tea.py", True),
    ]
    assert found[1]["hash"] == to_text(_id((sample.root / "coffee.py").read_text()))
    blame = served.answer("/api/blame", moment=sample.turns["rename"], path="coffee.py")
    (origin,) = blame["origins"]
    assert (origin["turn"], origin["title"], origin["agent"], origin["how"]) == (
        sample.turns["edit"], "Change the price of tea", "claude-code", "version",
    )  # fmt: skip
    assert [text for _, text in blame["lines"]] == (sample.root / "coffee.py").read_text().splitlines()
    assert (
        served.ask("/api/blame", {"moment": f"{sample.turns['edit']}@start", "path": "tea.py"}).status == 404
    )
    assert served.ask("/api/blame", {"moment": sample.turns["edit"], "path": "secret.txt"}).status in (
        404,
        413,
    )


# -- questions ---------------------------------------------------------------------------------------


def test_a_conversation_is_resumed_where_it_began(tmp_path: Path) -> None:
    """Agents look for conversations of the directory they are in, so the command goes there first."""
    from tests.view.support import serving

    elsewhere = str(tmp_path / "lib dir")
    with Store.init(tmp_path / ".locus") as store:
        for session, cwd in (("here", str(tmp_path)), ("there", elsewhere), ("unknown", None)):
            begun = {"event_type": "session", "operation": "start", "session_id": session, "cwd": cwd}
            store.append([begun | {"agent": "gemini-cli", "agent_session_id": f"of-{session}"}])
    with serving({"main": tmp_path / ".locus"}) as served:
        sessions = served.answer("/api/sessions")["sessions"]
        for session in sessions:
            assert served.answer("/api/spine", session=session["session_id"])["resume"] == session["resume"]
    assert {session["session_id"]: session["resume"] for session in sessions} == {
        "here": "gemini --resume of-here",
        "there": f"cd '{elsewhere}' && gemini --resume of-there",
        "unknown": "gemini --resume of-unknown",
    }


def test_sessions_are_filtered_and_say_what_there_is_to_choose(sample: Sample, served: Served) -> None:
    """Active ones with what they do, the command that resumes each, filters, and pages."""
    whole = served.answer("/api/sessions")
    assert [s["agent"] for s in whole["sessions"]][:1] == ["gemini-cli"]
    by_agent = {s["agent"]: s for s in whole["sessions"]}
    assert by_agent["gemini-cli"]["active"] is True
    assert by_agent["gemini-cli"]["doing"] == "changed garden.md"
    assert by_agent["codex"]["status"] == "closed" and by_agent["codex"]["active"] is False
    assert whole["choices"]["agent"] == ["claude-code", "codex", "gemini-cli", "git"]
    assert by_agent["claude-code"]["models"] == ["claude-sonnet-4-5"]
    resumes = {agent: session["resume"] for agent, session in by_agent.items()}
    assert resumes == {
        "claude-code": "claude --resume 11111111-2222-3333-4444-555555555555",
        "codex": "codex resume codex-1",
        "gemini-cli": "gemini --resume gemini-1",
        "git": None,
    }
    for agent, session in by_agent.items():
        assert served.answer("/api/spine", session=session["session_id"])["resume"] == resumes[agent]
    for name, value, agents in (
        ("agent", "codex", {"codex"}),
        ("model", "claude-sonnet-4-5", {"claude-code"}),
        ("branch", "main", {"claude-code", "gemini-cli"}),
        ("state", "closed", {"codex"}),
        ("q", "TEA make", {"claude-code"}),
        ("session", sample.session, {"claude-code"}),
    ):
        found = served.answer("/api/sessions", **{name: value})
        assert {s["agent"] for s in found["sessions"]} - {"git"} == agents, name
        assert found["choices"] == whole["choices"]
    first = served.answer("/api/sessions", limit="1")
    assert first["more"] is True
    rest = served.answer("/api/sessions", before=first["sessions"][0]["session_id"])
    assert first["sessions"] + rest["sessions"] == whole["sessions"] and rest["more"] is False


def test_hits_have_their_words_marked(sample: Sample, served: Served) -> None:
    """Each hit opens an event; the marked pieces are the words."""
    hits = served.answer("/api/search", q="cheap")["hits"]
    assert {hit["turn"] for hit in hits} == {sample.turns["edit"]}
    marked = {piece.lower() for hit in hits for piece, is_marked in hit["pieces"] if is_marked}
    assert marked == {"cheap"}
    assert all(hit["event_id"] and hit["kind"] for hit in hits)
    assert served.ask("/api/search", {"q": '"'}).status in (200, 400)
    assert served.ask("/api/search").status == 400


def test_errors_and_decisions_name_their_turns(sample: Sample, served: Served) -> None:
    """With what became of them, and why."""
    (error,) = served.answer("/api/errors", session=sample.session)["rows"]
    assert (error["turn"], error["message"], error["resolved"]) == (
        sample.turns["edit"], "AssertionError: too cheap", None,
    )  # fmt: skip
    (decision,) = served.answer("/api/decisions")["rows"]
    assert (decision["decision"], decision["reason"], decision["turn"]) == (
        "Charge three", "Two is too cheap", sample.turns["edit"],
    )  # fmt: skip
    assert served.ask("/api/errors", {"session": "nobody"}).status == 404
    assert served.ask("/api/errors", {"open": "perhaps"}).status == 400


def test_sql_runs_in_a_process_of_its_own(
    sample: Sample, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P5: within limits of rows and time, in safe mode, and an error has its words."""
    answer = served.answer(
        "/api/sql", q="select 1 as one, now()::date as day, blob 'a' as bytes, [1] as list"
    )
    assert [column["name"] for column in answer["columns"]] == ["one", "day", "bytes", "list"]
    assert answer["rows"][0][0] == 1 and answer["rows"][0][2:] == ["61", [1]]
    many = served.answer("/api/sql", q="select * from range(10000)")
    assert (len(many["rows"]), many["cut"]) == (finding.ROWS_MAX, finding.ROWS_MAX)
    wrong = served.ask("/api/sql", {"q": "select\n  nothing"})
    assert wrong.status == 400 and "nothing" in wrong.json()["error"]["what"]
    for statement in ("drop table turns", "select * from read_text('/etc/passwd')", "attach 'x' as y"):
        assert served.ask("/api/sql", {"q": statement}).status in (400, 413)
    asked = []
    ask = question.ask_program
    monkeypatch.setattr(question, "ask_program", lambda *a, **k: asked.append(k) or ask(*a, **k))
    served.answer("/api/sql", q="select 1")
    assert asked[0]["limits"].timeout_s == finding.SQL_SECONDS


def test_figures_are_counted_by_what_is_asked_for(served: Served) -> None:
    """A wrong dimension, zone or date is refused."""
    by_model = served.answer("/api/figures", by="model")
    assert [row["key"] for row in by_model["rows"]] == ["claude-sonnet-4-5"]
    assert len(by_model["hours"]) == 7
    assert served.answer("/api/figures", since="2100-01-01")["total"]["turns"] == 0
    assert served.ask("/api/figures", {"by": "weather"}).status == 400
    assert served.ask("/api/figures", {"tz": "Nowhere/Atlantis"}).status == 400
    assert served.ask("/api/figures", {"since": "yesterday"}).status == 400


@pytest.mark.parametrize(
    ("path", "parameters", "status"),
    [
        ("/api/none", {}, 404),
        ("/api/page", {}, 400),
        ("/api/page", {"turn": "nobody"}, 404),
        ("/api/page", {"turn": "{session}"}, 409),
        ("/api/page", {"turn": "x", "other": "y"}, 400),
        ("/api/page", {"turn": "x" * 9_000}, 400),
        ("/api/spine", {"session": "nobody"}, 404),
        ("/api/spine", {"store": "nobody"}, 404),
        ("/api/compare", {"a": "{edit}@middle"}, 400),
        ("/api/compare", {"a": "{edit}@start"}, 400),
        ("/api/sessions", {"limit": "-1"}, 400),
        ("/api/sessions", {"limit": "100000"}, 400),
        ("/api/event", {"id": "zz"}, 404),
    ],
)
def test_a_wrong_question_gets_a_clear_error(
    sample: Sample, served: Served, path: str, parameters: dict[str, str], status: int
) -> None:
    """Status and words say what is wrong."""
    names = {"session": sample.session, **sample.turns}
    given = {name: value.format(**names) for name, value in parameters.items()}
    reply = served.ask(path, given)
    assert reply.status == status, reply.body
    error = reply.json()["error"]
    assert error["what"] and error.keys() == {"what", "next"}


def test_a_parameter_is_given_once(served: Served) -> None:
    """Twice, or as no text, it is refused."""
    assert served.ask("/api/page?turn=a&turn=b").status == 400
    assert served.ask("/api/page?turn=%ff").status == 400


# -- several stores, days, the command ---------------------------------------------------------------


def test_each_store_is_asked_by_its_name(sample: Sample, tmp_path: Path) -> None:
    """Without a name the first one is meant; an empty store is empty."""
    from tests.view.support import serving

    (tmp_path / "other").mkdir()
    Store.init(tmp_path / "other" / ".locus", project_name="other").close()
    with serving({"sample": sample.store, "other": tmp_path / "other" / ".locus"}) as served:
        listed = served.answer("/api/stores")["stores"]
        assert [store["name"] for store in listed] == ["sample", "other"]
        assert served.answer("/api/spine", store="other")["stops"] == []
        assert served.answer("/api/sessions", store="other")["sessions"] == []
        assert len(served.answer("/api/sessions", store="sample")["sessions"]) == 4
        assert served.answer("/api/sessions") == served.answer("/api/sessions", store="sample")


def test_a_session_counts_on_every_day_that_it_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the clock of this machine: a session over midnight is in both days."""
    from eventlog import Recorder

    evening = 1_767_219_600_000_000  # 2025-12-31 22:20 UTC
    with Store.init(tmp_path / ".locus") as store:
        turn = Recorder(store, agent="probe").start_turn("Watch the fireworks")
        turn.action("Look", {}, occurred_at=evening)
        turn.action("Look", {}, occurred_at=evening + 3_600_000_000)
        turn.end()
        found = {}
        for zone in ("UTC", "Europe/Berlin", "America/New_York"):
            monkeypatch.setenv("TZ", zone)
            row = answers.answer(ViewedStores({"x": store}), "/api/sessions", {})["sessions"][0]
            found[zone] = row["days"][:-1]  # the last is that of recording
            chosen = answers.answer(ViewedStores({"x": store}), "/api/sessions", {"day": "2026-01-01"})
            assert len(chosen["sessions"]) == (zone == "Europe/Berlin")
    assert found == {
        "UTC": ["2025-12-31"],
        "Europe/Berlin": ["2025-12-31", "2026-01-01"],
        "America/New_York": ["2025-12-31"],
    }


def test_the_server_begins_without_what_few_answers_need() -> None:
    """Contents load pyarrow and Pygments, a search what computes with columns: not the start."""
    probe = (
        "import sys, eventlog.view.server\n"
        "print([name for name in ('pyarrow', 'duckdb', 'pygments', 'uvicorn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_serves_and_ends(sample: Sample, tmp_path: Path) -> None:
    """The installed command: its address on standard output answers; SIGINT ends it with 0."""
    import http.client
    import signal

    command = [sys.executable, "-m", "locus_cli", "--store", str(sample.store), "view", "--print-url"]
    with subprocess.Popen(
        [*command, f"turn:{sample.turns['edit']}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().decode().strip()
            address, _, token = url.partition("#t=")
            host = address.split("/")[2]
            assert address == f"http://{host}/turn/{sample.turns['edit']}"
            for other in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    assert token.encode() not in other.read_bytes()
                except OSError:
                    continue
            connection = http.client.HTTPConnection(host, timeout=60)
            connection.request("GET", "/api/stores", headers={"Authorization": f"Bearer {token}"})
            assert json.loads(connection.getresponse().read())["stores"][0]["name"] == "sample"
            connection.close()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_without_the_extra_one_line_says_what_to_install(sample: Sample, tmp_path: Path) -> None:
    """And `locus --version` needs nothing of it."""
    absent = tmp_path / "absent"
    for name in ("starlette", "uvicorn", "pygments"):
        (absent / name).mkdir(parents=True)
        (absent / name / "__init__.py").write_text(f"raise ImportError('No module named {name}')")
    environment = {"PYTHONPATH": str(absent), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    ended = [
        subprocess.run(
            [sys.executable, "-m", "locus_cli", "--store", str(sample.store), *words],
            env=environment, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2],
        )
        for words in (["view", "--print-url"], ["--version"])
    ]  # fmt: skip
    assert (ended[0].returncode, ended[0].stdout) == (1, "")
    (line,) = ended[0].stderr.strip().splitlines()
    assert line.endswith("Install them: pip install 'locus-eventlog[view]'")
    assert (ended[1].returncode, ended[1].stderr) == (0, "")
    assert shutil.which("locus") is None or ended[1].stdout.startswith("locus ")
