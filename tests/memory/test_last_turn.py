"""The first ten lines of a briefing: what was asked last, what came of it, what is left."""

from collections.abc import Callable
from pathlib import Path

import pytest

from eventlog.memory import briefing_of_log, intent
from eventlog.memory.briefing import BriefingReader
from locus_cli.main import run
from tests.agents import claude_support as claude
from tests.agents.claude_support import Line, Teller, text
from tests.recorder.kept import new_store


def failed(said: Teller, id: str, tool: str, args: Line, shown: str) -> list[Line]:
    return said.call(f"m{id}", id, tool, args, shown, failed=True)


def a_search_that_found_nothing(said: Teller) -> list[Line]:
    """Five exit codes that are answers, then an offer."""
    commands = ["rg -n words src", "cd src && which zsh", "diff a b", "ls gone; pwd", "git cat-file -e abc"]
    lines = [said.user("Where is the retry?"), said.answer("m0", text("It is in the client."))]
    lines.append(said.user("Is it used\nanywhere else?"))
    for number, command in enumerate(commands):
        lines += failed(said, f"t{number}", "Bash", {"command": command}, "Exit code 1")
    lines += failed(said, "t9", "Read", {"file_path": f"{claude.HOME}/gone.py"}, "File does not exist.")
    answer = f"No, it is used nowhere else. {'It was written for the old client. ' * 10}Shall I remove it?"
    return [*lines, said.answer("m9", text(answer))]


def a_list_that_is_not_done(said: Teller) -> list[Line]:
    """Interrupted between the second and the third thing to do."""
    todos = [{"content": f"Paint part {n}", "status": "completed" if n < 2 else "pending"} for n in range(7)]
    return [
        said.user("Paint the shop green"),
        *said.call(
            "m1", "t1", "TodoWrite", {"todos": todos}, "Todos have been modified", {"newTodos": todos}
        ),
        said.answer("m2", text("Now the third part:")),
        said.user([text("[Request interrupted by user]")]),
    ]


def a_build_that_fails(said: Teller) -> list[Line]:
    """One failure that work later settled, and one that nothing did."""
    edit = {"file_path": f"{claude.HOME}/a.py", "old_string": "a", "new_string": "b"}
    return [
        said.user("Make it build"),
        *failed(said, "t1", "Edit", edit, "<tool_use_error>File has not been read yet.</tool_use_error>"),
        *said.call("m2", "t2", "Write", {"file_path": f"{claude.HOME}/a.py", "content": "b"}, "File created"),
        *failed(said, "t3", "Bash", {"command": "npm run build"}, "npm warn: x\nnpm error: b is not defined"),
        *failed(said, "t4", "Bash", {"command": "rg -n b src"}, "Exit code 1"),
        said.answer("m3", text("The build still fails.")),
    ]


@pytest.mark.parametrize(
    ("shape", "asked", "outcome", "left"),
    [
        (a_search_that_found_nothing, "Is it used anywhere else?", '"No, it is used nowhere else. It was',
         ['an answer to "Shall I remove it?"']),
        (a_list_that_is_not_done, "Paint the shop green", 'interrupted; the last words were "Now the third',
         ['"next:Paint-part-2", "next:Paint-part-3", "next:Paint-part-4", "next:Paint-part-5" and 1 more']),
        (a_build_that_fails, "Make it build", '"The build still fails."',
         ['Bash "npm run build" failed, and was not seen to work since']),
    ],
)  # fmt: skip
def test_the_first_ten_lines_say_what_was_asked_what_came_of_it_and_what_is_left(
    shape: Callable[[Teller], list[Line]],
    asked: str,
    outcome: str,
    left: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """S3-21, P7: of a session in each of these shapes, and no command that only looked is reported as
    failed."""
    path = claude.write(tmp_path / "s.jsonl", shape(Teller()))
    with new_store(tmp_path / ".locus") as store:
        claude.run(store, path)
    assert run(["--store", str(tmp_path / ".locus"), "briefing"]) == 0
    lines = capsys.readouterr().out.split("\n")
    found = [line.partition("] ")[2] for line in lines[:10] if line.startswith("- [")]

    assert found[0].endswith(f' claude-code was asked: "{asked}"')
    assert found[1].startswith(f"came of it: {outcome}")
    assert found[2 : 2 + len(left)] == [f"left: {one}" for one in left]
    assert not any("Exit code" in line or "does not exist" in line for line in lines)


def test_what_does_not_come_to_its_end_is_left(tmp_path: Path) -> None:
    """P7: a turn under way and one of a commit say what is known of them."""
    with new_store(tmp_path / ".locus") as store:

        def shown() -> list[str]:
            text = briefing_of_log.brief(store, BriefingReader(), intent.now_us(store)).text
            return [line.partition("] ")[2] for line in text.partition("## Last turn\n")[2].split("\n")]

        session = {"session_id": "abcdefgh", "turn": 1, "event_type": "turn", "operation": "start"}
        store.append([{**session, "agent": "git", "title": "Say hello"}])
        assert shown()[0].endswith('git did: "Say hello"') and "left" not in shown()[1]
        store.append([{**session, "turn": 2, "agent": "codex", "payload": {"user_message": "Go on"}}])
        _, outcome, left, *_ = shown()
    assert outcome == "came of it: its end is not recorded"
    assert left == "left: the request itself, which did not come to its end"


def test_true_sessions_say_it_in_their_first_ten_lines(tmp_path: Path) -> None:
    """S3-21: each transcript of a true session that has a turn, by itself."""
    for number, path in enumerate(claude.real()):
        (tmp_path / str(number)).mkdir()
        with new_store(tmp_path / str(number) / ".locus") as store:
            claude.run(store, path, root=None)
            text = briefing_of_log.brief(store, BriefingReader(), intent.now_us(store)).text
            turns = store.query("select count(*) from turns").rows[0][0]
        lines = "\n".join(text.split("\n")[:10])
        for words in ("was asked: ", "came of it: ", "left: ") if turns else ():
            assert words in lines, path
