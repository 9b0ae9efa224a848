"""Pages of turns that agents recorded through the hook program: each thing once, in order, and as text."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from eventlog.query.lookup import turns_where
from eventlog.reading import page as pages
from eventlog.reading.page import CallBlock, ChangesBlock, PageReader, TurnPage, WordsBlock
from eventlog.reading.styles import DIM, FAILED
from eventlog.reading.text import TextRenderer
from eventlog.store import Store
from tests.cli.hook_support import Agent, Codex, project


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a store."""
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID", raising=False)
    return project(tmp_path)


def read(work: Path, *, whole: bool = False) -> list[TurnPage]:
    with Store.open(work / ".locus") as store:
        reader = PageReader(store, whole=whole)
        return [reader.turn(turn) for turn in turns_where(store.query, "order by first_position")]


def shown(page: TurnPage, **how: object) -> list[str]:
    rendered = TextRenderer(**how).page(page)  # type: ignore[arg-type]
    return ["".join(text for _, text in line).rstrip() for line in rendered]


def test_a_turn_reads_from_its_prompt_to_the_last_words(work: Path) -> None:
    """Prompt, each call once with its target, its result and its change, the failed one marked, and what the
    agent wrote at the end: all that a reader needs, and nothing twice."""
    agent = Agent(work)
    agent.start()
    agent.prompt("Print two\nand check it")
    agent.edit("src/app.py", "one", "two")
    agent.bash("echo checked; echo; echo 3; echo 4; echo 5")
    agent.bash("echo no such thing >&2; exit 3")
    agent.stop("It prints two.")
    (page,) = read(work)

    kinds = [type(block) for block in page.blocks]
    assert kinds == [WordsBlock, CallBlock, CallBlock, CallBlock, WordsBlock]
    lines = shown(page)
    assert lines[0].startswith(f"━━ {page.turn.name} · ") and "3 calls · 1 error" in lines[0]
    assert lines[1:] == [
        "❯ Print two",
        "  and check it",
        "  ● Edit src/app.py  +1 −1",
        "    @@ -1 +1 @@",
        "    -print('one')",
        "    +print('two')",
        "  ● Bash echo checked; echo; echo 3; echo 4; echo 5",
        "    checked",
        "",
        "    3  … 2 more lines",
        "  ✗ Bash echo no such thing >&2; exit 3",
        "    Exit code 3",
        "    no such thing",
        "  It prints two.",
        "",
    ]
    assert "    5" in shown(page, whole=True)


def test_a_cost_of_less_than_a_cent_is_no_nothing(work: Path) -> None:
    """P8: it is written as the viewer writes it."""
    agent = Agent(work)
    agent.prompt("Say it")
    agent.stop("Said.")
    (page,) = read(work)
    costly = replace(page, anchor={**page.anchor, "cost_usd": 0.0045, "unpriced_calls": 1})

    assert "at least <$0.01" in "\n".join(shown(costly))


def test_many_files_of_a_call_are_one_line(work: Path) -> None:
    """Five hundred new files do not bury the turn; with everything asked for, each is named."""
    agent = Agent(work)
    agent.start()
    agent.prompt("Generate")
    agent.bash("mkdir -p src/gen/a && for n in $(seq 500); do echo x > src/gen/a/f$n.py; done")
    agent.stop()
    (page,) = read(work)
    lines = shown(page)
    assert "    add 500 files below src/gen/a/" in [line.partition("  +")[0] for line in lines]
    assert len(lines) < 10
    (whole,) = read(work, whole=True)
    assert sum(line.startswith("    add src/gen/a/f") for line in shown(whole, whole=True)) == 500


def test_a_call_without_an_end_and_a_change_without_a_call_are_reported(work: Path) -> None:
    """What is not known is stated: a call that never ended, files that changed while no call ran."""
    agent = Agent(work)
    agent.start()
    agent.prompt("Wait")
    agent.begin("Bash", {"command": "sleep 1000"})
    (work / "mine.txt").write_text("by hand\n")
    agent.stop()
    (page,) = read(work)
    (call,) = [block for block in page.blocks if isinstance(block, CallBlock)]
    (beside,) = [block for block in page.blocks if isinstance(block, ChangesBlock)]
    assert (call.ended, call.success, call.result) == (False, None, "")
    assert [change.path for change in beside.changes] == ["mine.txt"]
    assert "  ● Bash sleep 1000  no end was recorded" in shown(page)
    assert "  ± changed outside any recorded call" in shown(page)


@pytest.mark.parametrize("has_id", (True, False))
def test_a_call_whose_end_has_an_earlier_time_is_shown_once(has_id: bool, work: Path) -> None:
    """P7: the end of a dead call, which nobody reported, may have an earlier time than its start, as earlier
    versions recorded it: both are found by the order of the log, and the call is shown once."""
    agent = Agent(work)
    agent.start()
    agent.prompt("Wait")
    agent.begin("Bash", {"command": "rm a"})
    with Store.open(work / ".locus") as store:
        (start,) = store.events(event_types=("tool_start",))
        names = ("agent", "agent_session_id", "agent_turn_id", "session_id", "turn", "tool")
        of_call = {name: start[name] for name in (*names, *(["tool_use_id"] if has_id else []))}
        payload = {"ended_by": "process gone"}
        end = {**of_call, "event_type": "action", "event_id": "0" * 32, "payload": payload}
        if not has_id:
            start_id, of_call["event_type"] = "1" * 32, "tool_start"
            store.append([{**of_call, "event_id": start_id, "payload": {"args": {"command": "rm b"}}}])
        store.append([{**end, "occurred_at": start["occurred_at"] - 2_000}])
    (page,) = read(work)
    calls = [block for block in page.blocks if isinstance(block, CallBlock)]
    expected = [("rm a", True)] if has_id else [("rm a", False), ("rm b", True)]
    assert [(call.target, call.ended) for call in calls] == expected


def test_withheld_texts_stay_out_of_a_page(work: Path) -> None:
    """What git ignores is captured and withheld: the page names the file and shows no byte of it."""
    (work / ".gitignore").write_text(".env\n")
    (work / ".locus/keep-ignored").write_text("yes\n")
    agent = Agent(work)
    agent.start()
    agent.prompt("Set the name")
    agent.bash("echo NAME=hidden-value > .env")
    agent.stop()
    (page,) = read(work, whole=True)
    text = "\n".join(shown(page, whole=True)).replace("echo NAME=hidden-value > .env", "")
    assert ".env" in text and "its text is withheld" in text and "hidden-value" not in text


def test_a_turn_that_was_taken_back_says_so(work: Path) -> None:
    """The rule names when, and everything below it is dim; after a redo it is as before."""
    agent = Agent(work)
    agent.start()
    agent.prompt("Print two")
    agent.edit("src/app.py", "one", "two")
    agent.stop()
    with Store.open(work / ".locus") as store:
        store.restore(store.undo_plan())
    page = next(page for page in read(work) if page.anchor["agent"] == "claude-code")
    rule, *below = TextRenderer().page(page)
    assert rule[1][0] == FAILED and rule[1][1].startswith(" undone 20")
    assert {style for line in below for style, _ in line} == {DIM}
    with Store.open(work / ".locus") as store:
        store.restore(store.redo_plan())
    assert {page.undone_at for page in read(work)} == {None}


def test_words_are_not_repeated_and_thoughts_only_asked_for(work: Path) -> None:
    """The end of a turn repeats the last message: it is shown once. Thoughts are shown where everything
    is."""
    with Store.open(work / ".locus") as store:
        recorder_events = [
            ("turn", {"user_message": "Hello"}, "start", "user"),
            ("intent", {"message": "Hello"}, None, "user"),
            ("message", {"text": "Hmm."}, "reasoning", "agent"),
            ("message", {"text": "Hi there."}, "text", "agent"),
            ("turn", {"outcome": "Hi there.\n"}, "end", "agent"),
        ]
        store.append_rows(
            {
                "event_type": kind, "session_id": "s1", "turn": 1, "turn_id": "001", "operation": operation,
                "source": source, "payload": payload, "agent": "pi",
            }
            for kind, payload, operation, source in recorder_events
        )  # fmt: skip
    words = [block for block in read(work)[0].blocks if isinstance(block, WordsBlock)]
    assert [(word.author, word.text) for word in words] == [("user", "Hello"), ("agent", "Hi there.")]
    whole = [block.author for block in read(work, whole=True)[0].blocks if isinstance(block, WordsBlock)]
    assert whole == [pages.USER, pages.THINKING, pages.AGENT]


def test_codex_outputs_come_without_what_comes_before_them(work: Path) -> None:
    """The head that Codex puts before an output is no result."""
    agent = Codex(work)
    agent.start()
    agent.prompt("Look")
    agent.patch(
        "*** Begin Patch\n*** Add File: a.txt\n+a\n*** End Patch\n",
        lambda: (work / "a.txt").write_text("a\n"),
    )
    agent.stop()
    (page,) = read(work)
    (call,) = [block for block in page.blocks if isinstance(block, CallBlock)]
    assert call.result == "Success." and [change.path for change in call.changes] == ["a.txt"]


def test_hostile_texts_reach_no_terminal(work: Path) -> None:
    """Control characters and marks of direction in prompts, paths and results are spelled out."""
    agent = Agent(work)
    agent.start()
    agent.prompt("a\x1b]0;title\x07b\u202ec")
    agent.bash("printf 'x\\033[2Jy\\001z'")
    agent.stop("w\x9bm\x00")
    (page,) = read(work)
    text = "\n".join(shown(page, whole=True))
    assert not [character for character in text if ord(character) < 32 and character != "\n"]
    assert not {"\u202e", "\x9b"} & set(text) and "\\u202e" in text
    assert json.dumps(text)
