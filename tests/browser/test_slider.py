"""The slider: at each moment the tree and each file are those that replay gives (docs/view.md)."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from eventlog.store import Store
from tests.browser.samples import PROMPT, Sample
from tests.browser.viewing import Visitor

Reading = Callable[..., Visitor]


def _moments(sample: Sample) -> list[str]:
    return [f"{turn}{side}" for turn in sample.turns for side in ("@start", "")]


def _replayed(store: Store, moment: str, place: Path) -> dict[str, bytes]:
    """What `locus replay` gives of a moment: path → bytes, of a symlink its target."""
    turn, _, at = moment.partition("@")
    target = place / moment
    store.replay(turn, to=target, at=at or "end")
    found = {}
    for path in target.rglob("*"):
        if path.is_symlink() or path.is_file():
            name = path.relative_to(target).as_posix()
            found[name] = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
    return found


def test_the_tree_and_each_file_are_those_of_replay(reading: Reading, sample: Sample, tmp_path: Path) -> None:
    """Both stops of each turn: every path, and the text of every file that has one (P1)."""
    reader = reading(sample.work)
    with Store.open(sample.work / ".locus") as store:
        for moment in _moments(sample):
            files = _replayed(store, moment, tmp_path)
            reader.open(f"/turn/{moment}")
            assert reader.files() == sorted(files), moment
            assert reader.text(".files h2") == f"Files ({len(files)})"
            for path, content in files.items():
                if b"\0" in content or path == ".env":
                    continue
                reader.choose(path).mode("text")
                assert reader.file_text() == content.decode().rstrip("\n"), (moment, path)


def test_stepping_gives_the_same_as_opening(reading: Reading, sample: Sample) -> None:
    """Forwards, backwards and by jumps: the tree depends on the moment and not on the way to it."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[0]}?in=repo")
    seen = {}
    reader.press("g")
    for key in ("j",) * 12:
        seen[reader.text(".facts")[:7]] = reader.files()
        reader.press(key)
    for key in ("k", "k", "g", "G", "k", "k", "k", "k", "j"):
        reader.press(key)
        known = seen.get(reader.text(".facts")[:7])
        assert known is None or reader.files() == known


def test_keys_go_where_they_say(reading: Reading, sample: Sample) -> None:
    """Each key of docs/view.md leads to its turn, file or page."""
    first, second, third, fourth, fifth = sample.turns
    reader = reading(sample.work).open(f"/turn/{first}")

    def at(*keys: str) -> str:
        reader.press(*keys)
        return reader.address().removeprefix("/turn/")

    assert [at("j"), at("k"), at("G"), at("g"), at("ArrowRight"), at("ArrowLeft")] == [
        second,
        first,
        fifth,
        first,
        second,
        first,
    ]
    assert [at("n"), at("p"), at("G", "E"), at("e")] == [second, first, first, first]
    reader.open(f"/turn/{fourth}?file=notes.txt")
    assert at("K") == f"{third}?file=notes.txt"  # it changed before this turn, by no turn
    reader.press("d")
    assert "mode=change" in reader.address()
    reader.press("Escape")
    assert reader.address() == f"/turn/{third}"
    reader.press("x")
    reader.press("/")
    assert reader.address() == "/search"


def test_keys_rest_in_fields_and_can_be_switched_off(reading: Reading, sample: Sample) -> None:
    """A letter that is typed into a field moves nothing."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[1]}")
    reader.press("t")
    reader.page.keyboard.type("jkgt")
    assert reader.find(".files input[type=search]").input_value() == "jkgt"
    assert reader.address() == f"/turn/{sample.turns[1]}"
    reader.press("Escape", "?")
    reader.find("dialog input").uncheck()
    reader.press("Escape", "j")
    assert reader.address() == f"/turn/{sample.turns[1]}"
    reader.open(reader.address()).press("j")
    assert reader.address() == f"/turn/{sample.turns[1]}"  # it is remembered


def test_an_address_survives_a_reload_and_the_back_button(reading: Reading, sample: Sample) -> None:
    """It leads to the same turn, file and mode."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[1]}").choose("tea.py").mode("blame")
    address = reader.address()
    lines = reader.texts(".filebody .line")
    assert "file=tea.py" in address and "mode=blame" in address and "TEA = 3" in "".join(lines)
    reader.page.reload()
    assert reader.ready().texts(".filebody .line") == lines
    reader.choose("run.sh").mode("text")
    assert "exec python3" in reader.file_text()
    reader.page.go_back()
    expect(reader.find(".filehead .path").first).to_have_text("tea.py")
    assert reader.ready().address() == address


def test_what_changed_between_turns_is_told_apart(reading: Reading, sample: Sample) -> None:
    """`notes.txt` was written by a person: marked at the next turn, and compared across the gap."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[2]}")
    assert reader.text('[role=treeitem][title="notes.txt"]').split() == ["notes.txt", "~", "A"]
    assert "changed between turns" in reader.text(".overview")
    reader.choose("notes.txt").mode("change")
    assert reader.texts(".filebody .added .code") == ["by a person"]
    assert "between the turn before and this one" in reader.text(".against")


def test_a_rename_a_mode_and_a_folder_that_becomes_a_file(reading: Reading, sample: Sample) -> None:
    """Each kind of change is named, and what is gone is struck out."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[2]}")
    assert "tea.py → lib/tea.py" in reader.text(".overview")
    reader.files()
    assert "executable" in reader.text('[role=treeitem][title="lib/tea.py"]')
    reader.open(f"/turn/{sample.turns[3]}")
    assert "src" in reader.files() and "src/app.py" not in reader.files()
    assert reader.find('.gone[title="src/app.py"]').count() == 1
    reader.find('.gone[title="src/app.py"]').click()
    reader.ready().mode("text")
    assert "this turn deleted it" in reader.text(".filebody")


def test_lines_are_counted_once(reading: Reading, sample: Sample) -> None:
    """Opening a file, or another way to see it, adds nothing to what the tree says of it."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[1]}")
    row = '[role=treeitem][title="tea.py"]'
    expect(reader.find(row)).to_have_text("tea.py M +1 −1")
    reader.choose("tea.py").mode("text").mode("blame")
    expect(reader.find(row)).to_have_text("tea.py M +1 −1")


def test_filter_and_changed_only_narrow_the_tree(reading: Reading, sample: Sample) -> None:
    """By words of the path, and to what the turn changed."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[1]}")
    reader.find(".files input[type=checkbox]").check()
    assert reader.files() == ["tea.py"]
    reader.find(".files input[type=checkbox]").uncheck()
    reader.find(".files input[type=search]").fill("APP")
    assert reader.files() == ["app", "src/app.py"]


def test_the_slider_says_in_words_where_it_is(reading: Reading, sample: Sample) -> None:
    """What the strip draws is read out, too."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[0]}")
    slider = reader.find("#slider")
    assert slider.get_attribute("aria-valuetext") == "Turn 1 of 5: Make tea cost 3, 1 file changed, 1 error"
    slider.focus()
    reader.press("End")
    assert reader.address() == f"/turn/{sample.turns[4]}"
    assert "0 files changed" in str(slider.get_attribute("aria-valuetext"))


def test_a_turn_is_read_beside_its_files(reading: Reading, sample: Sample) -> None:
    """Prompt, words, and calls with folded results; a failed one is open."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[0]}")
    assert reader.text(".prompt") == PROMPT
    assert reader.text(".words") == "All done."
    calls = reader.texts(".call > summary")
    assert [call.split()[1] for call in calls] == ["Write", "Bash"]
    assert "failed" in calls[1] and "Exit code 3" in reader.text(".call[open] pre:last-of-type")
    assert reader.find(".call").nth(0).get_attribute("open") is None
    reader.press("x", "x")
    assert reader.find(".call[open]").count() == 2


def test_a_change_between_any_two_moments_is_that_of_the_command(reading: Reading, sample: Sample) -> None:
    """The signed lines of `locus diff A B`, in its order."""
    first, last = sample.turns[0], sample.turns[-1]
    reader = reading(sample.work).open(f"/turn/{first}..{last}")
    assert reader.command() == f"locus diff {first} {last}"
    for closed in reader.find("details.compared:not([open]) > summary").all():
        closed.click()
    expect(reader.find(".compared .boxed, .compared div p")).to_have_count(reader.find(".compared").count())
    shown = [
        sign.replace("−", "-") + text
        for sign, text in zip(
            reader.texts(".compared .line:not(.hunk) .sign"),
            reader.find(".compared .line:not(.hunk) .code").all_text_contents(),
            strict=True,
        )
        if sign.strip() and sign != "\\"
    ]
    patch = sample.locus("diff", first, last)
    lines = [line for line in patch.splitlines() if re.match(r"[+-](?!\+\+ |-- )", line)]
    assert sorted(shown) == sorted(lines)
    assert reader.find(
        ".added .code",
    ).count() == sum(line.startswith("+") for line in lines)


def test_a_marked_moment_is_the_side_to_compare(reading: Reading, sample: Sample) -> None:
    """`c` marks it: changes are shown against it, and a link compares all."""
    first, last = sample.turns[0], sample.turns[-1]
    reader = reading(sample.work).open(f"/turn/{first}").press("c", "G")
    reader.choose("notes.txt").mode("change")
    assert reader.texts(".filebody .added .code") == ["by a person"]
    assert reader.command() == f"locus diff {first} {last} notes.txt"
    reader.click("a.compare")
    assert reader.address() == f"/turn/{first}..{last}"


def test_play_goes_on_by_itself(reading: Reading, sample: Sample) -> None:
    """Space plays and stops."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[0]}").press(" ")
    expect(reader.find(".facts")).to_contain_text("3 / 5")
    reader.press(" ")
    assert reader.find('[aria-label="Play"]').get_attribute("aria-pressed") == "false"


def test_turns_seen_before_are_remembered(reading: Reading, sample: Sample) -> None:
    """A session says how many turns came since it was looked at."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[1]}")
    reader.open(f"/turn/{sample.turns[0]}")
    assert "3 turns since you last saw it" in reader.text(".about")
    reader.click(".about button")
    assert reader.address() == f"/turn/{sample.turns[2]}"


@pytest.mark.parametrize("name", ["last", "git"])
def test_names_of_turns_are_those_of_commands(reading: Reading, sample: Sample, name: str) -> None:
    """`last` and `git:COMMIT` lead to their turns."""
    commit = sample.sql("select \"commit\" from turns where title = 'Make it easy to run'")[0][0]
    reader = reading(sample.work).open("/turn/last" if name == "last" else f"/turn/git:{commit[:10]}")
    title = "Only say something" if name == "last" else "Make it easy to run"
    assert reader.text("h1") == title


def test_the_viewer_opens_where_it_is_asked_to(reading: Reading, sample: Sample, tmp_path: Path) -> None:
    """`locus view turn:X` leads to that turn."""
    from tests.browser.viewing import Viewer

    viewer = Viewer(sample.work, f"turn:{sample.turns[1]}")
    try:
        assert f"/turn/{sample.turns[1]}" in viewer.url
    finally:
        viewer.close()
