"""What the tools answer, page by page, and from which store: without the protocol, in this process."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.client.client import Client

from eventlog import question
from eventlog.base.errors import EventLogError, NoStore, QueryError, Refused, Unsupported
from eventlog.mcp import page as mcp_page
from eventlog.mcp import server, sql
from eventlog.mcp.call import Parameter, Tool, ToolCall
from eventlog.mcp.served_store import ServedStore, directories
from eventlog.mcp.tools import tools_for
from eventlog.recorder.recorder import Recorder
from eventlog.search import find, query
from eventlog.store import Store
from tests.mcp.support import SECRET, bytes_below, make_project, text_of

TOOLS = {tool.name: tool for tool in tools_for("claude-code")}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tools") / "kiosk"
    make_project(root)
    return root


def ask(project: Path, tool: str, **arguments: Any) -> str:
    return ToolCall.of(TOOLS[tool], arguments).answer(str(project / ".locus"))["text"]


READING: list[tuple[str, dict[str, Any], str]] = [
    ("list_sessions", {"active_only": False}, "Make the kiosk polite"),
    ("briefing", {"focus": "kiosk", "scope": ["src"]}, "Greet in English"),
    ("context", {"message": "the kiosk in English"}, "## Relevant to the message\n- ["),
    ("who", {}, "Nobody is at work here."),
    ("search", {"words": "morning", "path": "src"}, "src/kiosk.py"),
    ("timeline", {"turn": "last"}, "file  edit src/kiosk.py"),
    ("show", {"name": "last"}, "outcome: it greets"),
    ("file_at", {"turn": "last", "path": "src/kiosk.py", "at": "start"}, "\nprint('bye')\n"),
    ("diff", {"turn": "last", "scope": ["src"]}, "+print('good morning')"),
    ("undo_plan", {"turn": "last", "scope": ["src"]}, "undo of turn:"),
    ("decisions", {"words": "greet"}, "because the guests do"),
    ("sql", {"query": "select path from files order by 1"}, '["src/kiosk.py"]'),
]


def test_reading_writes_nothing(project: Path) -> None:
    """A tool that says that it reads leaves every byte of the store as it is, with an index and without."""
    store = project / ".locus"
    for has_index in (False, True):
        if has_index:
            with Store.open(store) as opened:
                opened.reindex()
                find.search(opened, query.parse("morning"))
        before = bytes_below(store)
        for tool, arguments, expected in READING:
            assert not TOOLS[tool].writes
            assert expected in ask(project, tool, **arguments), tool
            assert bytes_below(store) == before, tool


def test_the_tools_that_read_are_all_there() -> None:
    """The list above is that of the tools; shared context, which is off by default, is tried elsewhere."""
    payload = {name for name, tool in TOOLS.items() if not tool.writes}
    assert payload == {tool for tool, _, _ in READING} | {"context_bundle"}


def test_contents_are_shown_as_far_as_they_may_be(project: Path) -> None:
    """P5: what holds a secret is withheld, a binary file is named, CR LF is reported and not spelled out."""
    secret = ask(project, "file_at", turn="last", path="secret.txt")
    changed = ask(project, "diff", turn="last")

    assert "withheld: the content holds a secret" in secret
    assert "not shown: secret.txt: withheld" in changed
    assert SECRET.decode().split()[-1] not in secret + changed
    assert "256 bytes" in ask(project, "file_at", turn="last", path="logo.png")
    assert "2 lines end with CR LF\none\ntwo\n" in ask(project, "file_at", turn="last", path="crlf.txt")
    inside = str(project / "src/kiosk.py")
    assert "good morning" in ask(project, "file_at", turn="last", path=inside)


def test_everything_with_a_name_is_shown(project: Path) -> None:
    """An event, a session and a turn are shown by their names, or by the beginnings of these."""
    with Store.open(project / ".locus") as store:
        [event] = [e for e in store.events() if e["event_type"] == "file" and e["path"] == "src/kiosk.py"]
        session, turn = str(event["session_id"]), str(event["context_id"])

    assert "+print('good morning')" in ask(project, "show", name=str(event["event_id"])[:16])
    assert "path: src/kiosk.py" in ask(project, "show", name=turn)
    for name in (session, session[:5], f"sess-{session}", f"session:x_{session}"):
        assert "turn_count: 1" in ask(project, "show", name=name)


def test_a_large_answer_comes_in_pages(project: Path, tmp_path: Path) -> None:
    """Pages joined are the whole, each within its size, and one that no longer fits is refused."""
    make_project(tmp_path / "large")
    text = "".join(f"line {i:05d}\n" for i in range(3000))
    with Store.open(tmp_path / "large/.locus") as store:
        turn = Recorder(store, agent="codex").start_turn("Write much")
        turn.file("much.txt", before=None, after=text.encode())
        turn.end()
    given = {"turn": turn.ref.name, "path": "much.txt"}
    got, cursor = "", None
    while True:
        page = ask(tmp_path / "large", "file_at", **given, max_chars=10_000, cursor=cursor)
        body = page.removeprefix(mcp_page.RECORD)
        assert body != page and len(page) < 10_400
        shown, _, more = body.partition("[more: ")
        got += shown
        if not more:
            break
        cursor = more.partition("cursor=")[2].partition(" ")[0]
    assert got.endswith(text)
    with pytest.raises(Refused, match="Ask again without a cursor"):
        ask(project, "file_at", turn="last", path="src/kiosk.py", cursor=cursor)


@given(st.text(max_size=400), st.integers(min_value=1, max_value=50))
def test_pages_joined_are_the_text(text: str, chars: int) -> None:
    """Whatever the text and the size of pages, what they show, one after the other, is the text."""
    got, cursor = 0, None
    while True:
        page, following = mcp_page.page(text, cursor, chars)
        left = text[got:]
        if len(left) <= chars:
            assert (page, following) == (left, None)
            return
        shown, _, last = page.removesuffix(" goes on]\n").rpartition("[more: ")
        cursor = last.partition("cursor=")[2]
        assert cursor == following
        size = int(cursor.partition("-")[0]) - got
        assert 0 < size <= chars
        assert shown in (left[:size], f"{left[:size]}\n")
        got += size


def test_what_is_too_large_is_cut_and_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless answer ends, and says so."""
    monkeypatch.setattr(mcp_page, "TEXT_MAX", 100)
    parts = iter(lambda: "ten chars\n", "")

    assert mcp_page.text_of(parts).endswith(
        "[the answer goes on beyond 100 characters; ask for less of it]\n"
    )


def test_sql_that_does_not_end_is_ended(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: a step that DuckDB does not interrupt, and one that takes all memory, end with words."""
    monkeypatch.setattr(sql, "TIMEOUT_S", 1.0)
    with pytest.raises(QueryError, match="did not end within 1 s"):
        ask(project, "sql", query="select levenshtein(repeat('a', 1000000), repeat('b', 1000000))")
    assert question._running == set()
    monkeypatch.setattr(sql, "TIMEOUT_S", 25.0)
    with pytest.raises(QueryError, match="memory"):
        ask(project, "sql", query="select length(repeat('x', 4000000000))")
    reported = ask(project, "sql", query="select * from range(20000)")
    assert "more than 10,000 rows; these are the first, one a line" in reported


def test_a_call_that_takes_too_long_is_answered(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: an answer comes by the deadline, whatever the tool is at; an error that is not ours is reported
    too."""

    def slow(store: Store) -> str:
        time.sleep(1)
        return ""

    def broken(store: Store) -> str:
        raise ZeroDivisionError("a/b")

    tools = (Tool("slow", "", "", slow), Tool("broken", "", "", broken))
    monkeypatch.setattr("eventlog.mcp.tools.tools_for", lambda agent: tools)
    monkeypatch.setattr(server, "DEADLINE_S", 0.1)

    async def run() -> list[str]:
        place = ServedStore(pinned=str(project / ".locus"))
        async with Client(server.make_server(place, "claude-code"), mode="2026-07-28") as client:
            answers = [await client.call_tool(name, {}) for name in ("slow", "broken")]
        assert all(one.is_error for one in answers)
        return [text_of(one) for one in answers]

    late, wrong = anyio.run(run)
    assert "this took longer than 0.1 s" in late
    assert wrong == "an error that should not be: ZeroDivisionError('a/b'). Please report it."


def test_without_the_library_it_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is an extra: where the library is missing, the error names how to install it."""
    monkeypatch.setitem(sys.modules, "mcp.server.stdio", None)
    with pytest.raises(Unsupported, match=r"pip install 'locus-eventlog\[mcp\]'"):
        server.serve(None, "claude-code")


def test_a_server_that_waits_has_loaded_no_engine() -> None:
    """I34: what starts with every session loads neither DuckDB nor pyarrow before somebody asks."""
    probe = (
        "import sys\nfrom eventlog.mcp.server import make_server\n"
        "from eventlog.mcp.served_store import ServedStore\n"
        "make_server(ServedStore(), 'codex')\nprint([m for m in ('duckdb', 'pyarrow', 'orjson') if m in "
        "sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_store_is_that_of_the_roots(project: Path, tmp_path: Path) -> None:
    """Roots lead to the store that serves them; none, and several, are errors that name what to pass."""
    other, bare = tmp_path / "other", tmp_path / "bare"
    make_project(other)
    bare.mkdir()
    (other / "deep/er").mkdir(parents=True)
    place, of_project = ServedStore(), ServedStore.of(None, {"CLAUDE_PROJECT_DIR": str(other)})
    ours, theirs = (str(project / ".locus"), False), (str(other / ".locus"), False)

    assert place.root(None, [str(project)]) == ours
    assert place.root(None, [str(bare), str(other / "deep/er")]) == theirs
    assert place.root(None, [str(other), str(other / "deep")]) == theirs
    assert place.root(str(other), [str(project)]) == theirs
    assert place.root(str(other / ".locus"), None) == theirs
    assert of_project.root(None, None) == theirs
    assert of_project.root(None, [str(project)]) == ours
    for roots in (None, []):
        assert ServedStore(around=str(other / "deep")).root(None, roots) == (str(other / ".locus"), True)
        with pytest.raises(NoStore, match=r"bare\. `locus init` in the project makes one"):
            ServedStore(around=str(bare)).root(None, roots)
        with pytest.raises(NoStore, match=r"the directory of the server is gone\. Pass the argument store"):
            place.root(None, roots)
    with pytest.raises(
        NoStore, match=r"bare\. `locus init` in the project makes one\. Pass the argument store"
    ):
        place.root(None, [str(bare)])
    with pytest.raises(Refused, match=r"several stores: .*kiosk/\.locus, .*other/\.locus\. Pass one of them"):
        place.root(None, [str(project), str(other)])
    with pytest.raises(NoStore, match="no Locus store serves"):
        place.root(str(bare), None)
    with pytest.raises(Refused, match="must be an absolute path"):
        place.root("kiosk", None)


def test_a_server_for_one_store_serves_no_other(project: Path, tmp_path: Path) -> None:
    """A store that was named at the start is the only one; LOCUS_DIR names one as --store does."""
    make_project(tmp_path / "other")
    for place in (
        ServedStore.of(str(project / ".locus"), {}),
        ServedStore.of(None, {"LOCUS_DIR": str(project / ".locus")}),
    ):
        assert not place.needs_roots(None)
        assert place.root(None, None) == (str(project / ".locus"), False)
        assert place.root(str(project), None) == (str(project / ".locus"), False)
        with pytest.raises(Refused, match="serves no other store"):
            place.root(str(tmp_path / "other"), None)


def test_roots_are_directories_of_this_machine() -> None:
    """Roots are `file://` URIs, in which any byte of a path may be escaped; others are refused."""
    assert directories(["file:///a%20b/%C3%A9", "file://localhost/c"]) == ["/a b/é", "/c"]
    assert os.fsencode(directories(["file:///%ff"])[0]) == b"/\xff"
    for uri in ("https://example.org/x", "file://elsewhere/x", "file:///a%00b", "kiosk"):
        with pytest.raises(Refused, match="is no directory of this machine"):
            directories([uri])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", 7), ("string", "\ud800"), ("integer", True), ("integer", 1.5), ("integer", 10**9),
        ("boolean", "yes"), ("array", "a"), ("array", [1]),
    ],
)  # fmt: skip
def test_arguments_are_checked(kind: str, value: Any) -> None:
    """Bad input is refused in one line that names the argument, before any store is opened."""
    tool = Tool("one", "", "", lambda store, x: "", (Parameter(name="x", kind=kind, most=100),))
    with pytest.raises(Refused, match=r"^x must be .*\.$"):
        ToolCall.of(tool, {"x": value})
    assert ToolCall.of(tool, {"x": None}).arguments["x"] is None


def test_context_that_is_shared_is_bundled(tmp_path: Path) -> None:
    """S2-24: with the flag set, the bundle of a workstream is that of the command line."""
    make_project(tmp_path / "shared")
    (tmp_path / "shared/.locus/config.toml").write_text("[context]\nshared = true\n")
    try:
        reported = ask(tmp_path / "shared", "context_bundle", workstream="tea")
    except EventLogError as error:
        reported = str(error)
    assert "tea" in reported or "repo" in reported.lower()
