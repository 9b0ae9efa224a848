"""A git history as sessions and turns: events, ids, numbers, and what a repeated import does."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.base import names
from eventlog.base.errors import NotFound
from eventlog.base.types import Event
from eventlog.blobs.ids import blob_id, to_text
from eventlog.importers.git_history import GitImportReport, import_git
from eventlog.store import Store
from tests.agents.histories import EXECUTABLE, SUBMODULE_MODE, SYMLINK, History, git, line_of
from tests.conftest import closed_later

REPO = "0123456789ab"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.init(tmp_path / "work" / ".locus", repo_hash=REPO, force=True) as store:
        yield store


@pytest.fixture(autouse=True)
def work(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir(exist_ok=True)


def _line(commits: int) -> History:
    history = History()
    for n in range(commits):
        history.put(b"file", b"%d\n" % n).commit(f"Change number {n}")
    return history


def _events(store: Store, *event_types: str) -> list[Event]:
    """Events without what only says when they were written."""
    rows = list(store.events(event_types=event_types or None))
    return [{key: value for key, value in row.items() if key != "recorded_at"} for row in rows]


def _turns(store: Store) -> list[tuple[object, object, object]]:
    return [
        (e["commit"], e["session_id"], e["turn"]) for e in _events(store, "turn") if e["operation"] == "start"
    ]


def test_a_commit_is_a_turn(store: Store, tmp_path: Path) -> None:
    """S1-23, S1-24, S1-29, S1-31, S1-37, S1-47: anchor, snapshot 1, intent 2, files, snapshot, anchor."""
    history = History().put(b"a", b"1\n").put(b"b", b"2\n").commit("Begin the work")
    message = "Fix the JWT refresh bug\n\nIn full.\n"
    path = history.put(b"a", b"1\nmore\n", EXECUTABLE).remove(b"b").commit(message).write(str(tmp_path / "r"))
    report = import_git(store, path)
    commit = line_of(path)[1]
    rows = [
        e
        for e in _events(store)
        if e["commit"] == commit and e["event_type"] not in ("session", "sessions", "ref")
    ]
    start, before, intent, file_a, file_b, after, end = rows

    assert [(e["event_type"], e["operation"], e["seq"]) for e in rows] == [
        ("turn", "start", None),
        ("snapshot", "turn_start", 1),
        ("intent", None, 2),
        ("file", "edit", 3),
        ("file", "delete", 4),
        ("snapshot", "turn_end", 5),
        ("turn", "end", None),
    ]
    assert {(e["turn"], e["agent"], e["agent_turn_id"]) for e in rows} == {(2, "git", commit)}
    assert {e["occurred_at"] for e in rows} == {1_700_000_120_000_000}
    assert start["title"] == end["title"] == "Fix the JWT refresh bug"
    payload = _payload(intent)
    assert payload["message"] == message
    assert payload["author"] == {
        "name": "A U Thor",
        "email": "author@example.org",
        "time": "2023-11-14T23:13:20+01:00",
    }
    assert payload["committer"]["time"] == "2023-11-14T19:45:20-02:30"
    assert (file_a["lines_added"], file_a["lines_removed"]) == (1, 0)
    assert file_a["before_hash"] == to_text(blob_id(b"1\n"))
    assert file_a["after_hash"] == to_text(blob_id(b"1\nmore\n"))
    assert _payload(file_a) == {"before_mode": "100644", "after_mode": "100755", "after_size": 7}
    assert file_a["blobs"] == [file_a["before_hash"], file_a["after_hash"]]
    assert file_a["related_to"] == ["editor"]
    assert file_b["after_hash"] is None
    assert _payload(before)["tracked_files"] == 2
    assert (_payload(after)["tracked_files"], _payload(after)["files_changed"]) == (1, 2)
    assert (_payload(before)["git_head"], _payload(after)["git_head"]) == (line_of(path)[0], commit)
    assert _payload(end)["files_modified"] == ["a", "b"]
    assert _payload(end)["outcome"] == "2 files changed, 1 line added, 1 removed"
    assert (report.commits, report.skipped, report.sessions, report.blobs) == (2, 0, 1, 3)


def test_no_diff_text_is_stored(store: Store, tmp_path: Path) -> None:
    """S1-31, S1-39: contents and diffs are derived from blobs; no event holds a line of a file."""
    path = History().put(b"a", b"canary line\n").commit("x").write(str(tmp_path / "r"))
    import_git(store, path)

    assert "canary" not in repr(_events(store))
    assert store.blob(to_text(blob_id(b"canary line\n"))) == b"canary line\n"


def test_renames_are_one_event(store: Store, tmp_path: Path) -> None:
    """S1-31: a renamed file is one event with both paths, however much of it changed on the way."""
    text = b"".join(b"line %d\n" % n for n in range(40))
    history = History().put(b"old/name", text).commit("1").remove(b"old/name").put(b"new", text + b"tail\n")
    import_git(store, history.commit("2").write(str(tmp_path / "r")))
    event = _events(store, "file")[-1]

    assert (event["operation"], event["path"], _payload(event)["old_path"]) == ("rename", "new", "old/name")
    assert (event["lines_added"], event["lines_removed"]) == (1, 0)
    assert event["before_hash"] == to_text(blob_id(text))


def test_fifty_commits_are_a_session(store: Store, tmp_path: Path) -> None:
    """S1-10…S1-14, S1-49, S1-58: groups of 50 from the root; a full one ends and the next extends it."""
    path = _line(103).write(str(tmp_path / "r"))
    import_git(store, path)
    line = line_of(path)
    ids = [names.session_id_of("git", f"{_repo(path)}:{line[n]}") for n in (0, 50, 100)]
    sessions = _events(store, "session")
    contexts = [f"session:change-number-{n}_{id}" for n, id in zip((0, 50, 100), ids, strict=True)]
    master = f"{_repo(path)}:sessions"

    assert _turns(store) == [(c, ids[n // 50], n % 50 + 1) for n, c in enumerate(line)]
    assert [(e["operation"], e["session_id"], e["extends"]) for e in sessions] == [
        ("start", ids[0], [master]),
        ("end", ids[0], [master]),
        ("start", ids[1], [master]),
        ("update", ids[1], [contexts[0]]),
        ("end", ids[1], [master]),
        ("start", ids[2], [master]),
        ("update", ids[2], [contexts[1]]),
    ]
    assert [e["context_id"] for e in sessions if e["operation"] == "start"] == contexts
    folded = store.query("select extends, status from sessions order by first_position").rows
    assert [extends for extends, _ in folded] == [[master], [master, contexts[0]], [master, contexts[1]]]
    assert {status for _, status in folded} == {"closed"}
    ends = [_payload(e) for e in sessions if e["operation"] == "end"]
    assert [(e["end_reason"], e["turn_count"]) for e in ends] == [("rollover", 50)] * 2
    assert [e["context_id"] for e in _events(store, "sessions")] == [master]


def test_event_ids_are_those_of_the_documentation(store: Store, tmp_path: Path) -> None:
    """I8, docs/event-ids.md: ids come from (git, repo hash, commit, part) and nothing else."""
    path = History().put(b"d/a", b"1").commit("1").write(str(tmp_path / "r"))
    import_git(store, path)
    repo, commit = _repo(path), line_of(path)[0]
    parts = ["turn-start", "snapshot-start", "intent", "file:d/a", "snapshot-end", "turn-end"]

    assert [e["event_id"] for e in _events(store)] == [
        names.event_id_of("locus", "sessions", repo),
        names.event_id_of("git", repo, commit, "ref:refs/heads/main:"),
        names.event_id_of("git", repo, f"{repo}:{commit}", "session-start"),
        *(names.event_id_of("git", repo, commit, part) for part in parts),
    ]


def test_the_repository_is_named_by_its_roots(store: Store, tmp_path: Path) -> None:
    """S1-3: the repo hash comes from the root commits, so every clone has the same; never from the path."""
    path = _line(2).write(str(tmp_path / "r"))
    git(None, "clone", "-q", "--bare", path, str(tmp_path / "clone"))
    report = import_git(store, path)
    again = import_git(store, str(tmp_path / "clone"))

    assert report.repo == again.repo != REPO
    assert (again.commits, again.skipped, again.events) == (0, 2, 0)


def test_a_store_inside_the_repository_gives_its_own_name(tmp_path: Path) -> None:
    """S1-3: a store made before the first commit keeps the hash it has, also for the import."""
    path = _line(2).write(str(tmp_path / "r"), "-q")
    with Store.init(f"{path}/.locus", repo_hash=REPO, project_name="mine") as store:
        report = import_git(store, path)

        assert report.repo == REPO
        assert _events(store, "sessions")[0]["title"] == "mine"


# -- again, later, and in part --------------------------------------------------------------------------


def test_a_second_run_appends_nothing(store: Store, tmp_path: Path) -> None:
    """I8: repeating an import finds everything there, before and after sealing."""
    path = _line(60).write(str(tmp_path / "r"))
    import_git(store, path)
    before = _events(store)
    report = import_git(store, path)
    store.seal()
    sealed = import_git(store, path)

    assert (report.commits, report.skipped, report.events) == (0, 60, 0)
    assert (sealed.commits, sealed.skipped, sealed.events) == (0, 60, 0)
    assert _events(store) == before
    assert len(os.listdir(store.layout.directory("snapshots/packs"))) == 1


def test_new_commits_continue_the_session(store: Store, tmp_path: Path) -> None:
    """I8, S1-20: importing step by step gives the events of one import, in the same order.

    But for the lines that each step saw.
    """
    whole = _line(70).write(str(tmp_path / "whole" / "r"))
    parts = str(tmp_path / "parts" / "r")
    history = _line(30)
    history.write(parts)
    import_git(store, parts)
    for n in range(30, 70):
        history.put(b"file", b"%d\n" % n).commit(f"Change number {n}")
        if n in (49, 50, 69):
            history.add_to(parts)
            import_git(store, parts)
    with _other(tmp_path) as other:
        import_git(other, whole)

        assert _unplaced(store) == _unplaced(other)
        refs = [e["commit"] for e in _events(store, "ref")]
        assert refs == [line_of(whole)[n - 1] for n in (30, 50, 51, 70)]


def _unplaced(store: Store) -> list[Event]:
    """The events but those of lines, without their positions."""
    return [{**e, "position": None} for e in _events(store) if e["event_type"] != "ref"]


@pytest.mark.parametrize("limit", [1, 7, 52])
def test_a_limited_import_agrees_with_the_full_one(store: Store, tmp_path: Path, limit: int) -> None:
    """S1-10, S1-11: the newest commits get the ids, sessions and turns that a full import gives them."""
    path = _line(103).write(str(tmp_path / "r"))
    import_git(store, path, limit=limit)
    partial = _events(store)
    with _other(tmp_path) as other:
        import_git(other, path)
        full = {e["event_id"]: {**e, "position": None} for e in _events(other)}

        assert [e["commit"] for e in partial if e["event_type"] == "intent"] == line_of(path)[-limit:]
        assert [{**e, "position": None} for e in partial] == [full[e["event_id"]] for e in partial]

        import_git(store, path)
        assert {e["event_id"]: {**e, "position": None} for e in _events(store)} == full


def test_rewritten_history_goes_to_sessions_of_its_own(store: Store, tmp_path: Path) -> None:
    """I8, docs/design.md §13: commits keep the turns they have; what differs gets another session."""
    history = _line(4)
    path = history.write(str(tmp_path / "r"))
    import_git(store, path)
    old = line_of(path)
    for n in range(2, 6):
        history.put(b"file", b"other %d\n" % n).commit(
            f"Other {n}", branch="main", start=None if n > 2 else "fork"
        )
        if n == 2:
            git(path, "branch", "fork", old[1])
    history.add_to(path)
    new = line_of(path)
    before = _events(store)
    report = import_git(store, path)
    key = f"{report.repo}:{old[0]}"
    base, other = names.session_id_of("git", key), names.session_id_of("git", f"{key}:{new[2]}")

    assert new[:2] == old[:2] and len(new) == 6
    assert _events(store)[: len(before)] == before
    assert _turns(store) == [(c, base, n + 1) for n, c in enumerate(old)] + [
        (new[n], other, n + 1) for n in range(2, 6)
    ]
    linked = [e for e in _events(store, "session") if e["session_id"] == other][1]
    assert linked["extends"] == [f"session:change-number-0_{base}"]
    marked = [e for e in _events(store, "turn") if e["operation"] == "update"]
    assert [(e["commit"], e["status"]) for e in marked] == [(c, "rewritten") for c in old[2:]]
    assert import_git(store, path).events == 0


def test_the_old_and_the_new_line_can_both_grow(store: Store, tmp_path: Path) -> None:
    """docs/design.md §13: two branches imported in turn keep their sessions, and no turn is used twice."""
    history = _line(3)
    path = history.write(str(tmp_path / "r"))
    git(path, "branch", "side")
    history.branches.add("side")
    import_git(store, path)
    for n in range(3):
        for branch in ("main", "side"):
            history.put(b"file", f"{branch} {n}".encode()).commit(f"{branch} {n}", branch=branch)
            history.parts.insert(-1, b"")
        history.add_to(path)
        import_git(store, path, rev="main")
        import_git(store, path, rev="side")
    turns = _turns(store)

    assert len(turns) == len(set(turns)) == 9
    assert len({(session, turn) for _, session, turn in turns}) == 9
    sides = {session for commit, session, _ in turns if commit in line_of(path, "side")[3:]}
    assert len(sides) == 1


# -- odd repositories -----------------------------------------------------------------------------------


def test_a_repository_without_commits_is_not_found(store: Store, tmp_path: Path) -> None:
    """An unborn HEAD and a folder without git are errors that say so, and nothing is written."""
    git(None, "init", "-q", str(tmp_path / "r"))
    for path in ("r", "work"):
        with pytest.raises(NotFound):
            import_git(store, str(tmp_path / path))

    assert _events(store) == []


def test_a_shallow_clone_says_that_it_is_provisional(store: Store, tmp_path: Path) -> None:
    """P7: the report says so, the import works, and repeating it adds nothing."""
    path = _line(9).write(str(tmp_path / "r"))
    clone = str(tmp_path / "clone")
    git(None, "clone", "-q", "--bare", "--depth", "4", f"file://{path}", clone)
    report = import_git(store, clone)

    assert (report.commits, report.provisional) == (4, True)
    assert import_git(store, clone).events == 0
    assert store.file(f"git:{report.head}", "file") == b"8\n"


def test_names_that_no_tree_may_hold_are_listed(store: Store, tmp_path: Path) -> None:
    """P1, I28: a file called `.locus/…` or `git~1` is not replayed, and every list says why."""
    history = History().put(b"ok", b"1").put(b".LOCUS/x", b"2").put(b"git~1", b"3").commit("odd")
    path = (
        history.put(b".LOCUS/x", b"22")
        .commit("edit")
        .remove(b"git~1")
        .commit("less")
        .write(str(tmp_path / "r"))
    )
    report = import_git(store, path)
    replayed = store.replay(f"git:{report.head}", tmp_path / "out")
    edit = next(e for e in _events(store, "file") if e["operation"] == "edit")

    assert [name for name, _ in report.missing] == [".LOCUS/x", "git~1"]
    assert os.listdir(tmp_path / "out") == ["ok"]
    assert len(replayed.skipped) == 1 and ".locus" in replayed.skipped[0][1]
    assert (edit["before_hash"], edit["after_hash"]) == (to_text(blob_id(b"2")), to_text(blob_id(b"22")))


def test_names_like_an_escaped_one_are_recorded(store: Store, tmp_path: Path) -> None:
    """P1, I28: `refused%41` and `refused%%2Egit` are names, also beside what they would stand for."""
    names = [b"refused%41", b"d/refused%", b"refused%zz/x", b"refused%2elocus", b"refused%git%7E1"]
    names += [b"refused%%2Egit/x", b"s/refused%git%7E1", b"refused%refused%25%252Egit"]
    history = History().put(b"git~1", b"0").put(b"s/git~1", b"0", SYMLINK)
    for name in names:
        history.put(name, name)
    history.commit("odd").put(names[0], b"2").remove(names[1]).remove(b"s/git~1").put(names[4], b"5")
    path = history.commit("edit").write(str(tmp_path / "r"))
    report = import_git(store, path)
    first = store.replay("last", tmp_path / "first", at="start")
    replayed = store.replay(f"git:{report.head}", tmp_path / "out")

    assert [name for name, _ in report.missing] == ["git~1", "s/git~1"]
    assert [path for path, _ in first.skipped] == [b"git~1", b"s/git~1"]
    assert [path for path, _ in replayed.skipped] == [b"git~1"]
    out = os.fsencode(tmp_path / "out")
    found = {
        os.path.relpath(os.path.join(at, name), out): Path(os.fsdecode(os.path.join(at, name))).read_bytes()
        for at, _, some in os.walk(out)
        for name in some
    }
    assert found == {name: name for name in names[2:]} | {names[0]: b"2", names[4]: b"5"}
    assert store.file("last", os.fsdecode(names[4])) == b"5"


def test_submodules_are_commits_without_content(store: Store, tmp_path: Path) -> None:
    """P1: a submodule is an empty directory in a replay, listed with its commit; it has no line counts."""
    commit = "5" * 40
    path = (
        History()
        .put(b"sub", commit.encode(), SUBMODULE_MODE)
        .put(b"a", b"1")
        .commit("x")
        .write(str(tmp_path / "r"))
    )
    import_git(store, path)
    report = store.replay("last", tmp_path / "out")
    event = _events(store, "file")[-1]

    assert report.submodules == [(b"sub", commit)]
    assert os.listdir(tmp_path / "out" / "sub") == []
    assert (event["path"], event["lines_added"], _payload(event)["after_mode"]) == ("sub", None, "160000")


def test_odd_names_and_messages_survive(store: Store, tmp_path: Path) -> None:
    """P1: bytes that are not UTF-8, in names and messages, come back exactly."""
    odd = b'caf\xe9 "q"\n\x01'
    history = History().put(odd, b"1").put(b'"quoted"', b"2")
    path = history.commit(b"caf\xe9", headers=b"encoding ISO-8859-1\n").write(str(tmp_path / "r"))
    import_git(store, path)
    store.replay("last", tmp_path / "out")
    intent = _payload(_events(store, "intent")[0])

    assert sorted(os.listdir(os.fsencode(tmp_path / "out"))) == sorted([odd, b'"quoted"'])
    assert (intent["message"], intent["encoding"]) == ("café", "ISO-8859-1")


def test_times_that_no_calendar_shows_are_unknown(store: Store, tmp_path: Path) -> None:
    """P7: a commit from the year 10,000 or without a time has no time, and the import goes on."""
    history = History().put(b"a", b"1")
    history.time_s = 300_000_000_000
    path = history.commit("far", author=b"A <a> 99999999999999 +9999").write(str(tmp_path / "r"))
    import_git(store, path)
    event = _events(store, "intent")[0]

    assert event["occurred_at"] is None
    assert _payload(event)["author"]["time"] is None


def test_a_message_too_long_for_an_event_is_kept_as_a_blob(store: Store, tmp_path: Path) -> None:
    """S1-29, S1-39: the event holds the beginning, and the whole text by hash."""
    text = "word " * 300_000
    path = History().put(b"a", b"1").commit(text).write(str(tmp_path / "r"))
    import_git(store, path)
    event = _events(store, "intent")[0]

    assert text.startswith(str(_payload(event)["message"]))
    assert store.blob(str(_payload(event)["message_hash"])).decode() == text
    assert event["blobs"] == [_payload(event)["message_hash"]]


def test_empty_commits_and_merges_are_turns(store: Store, tmp_path: Path) -> None:
    """A commit without a change has both snapshots and no file; a merge shows what it brought to its line."""
    history = History().put(b"a", b"1").commit("root").commit("empty")
    history.put(b"b", b"2").commit("side", branch="side", start="main").remove(b"b").put(b"c", b"3").commit(
        "on"
    )
    path = history.put(b"b", b"2").commit("merge", merge="side").write(str(tmp_path / "r"))
    import_git(store, path)
    by_title: dict[object, list[Event]] = {}
    for event in _events(store):
        by_title.setdefault(event["agent_turn_id"], []).append(event)
    _, empty, _, merge = (by_title[commit] for commit in line_of(path))

    assert [e["event_type"] for e in empty] == ["turn", "snapshot", "intent", "snapshot", "turn"]
    assert [e["path"] for e in merge if e["event_type"] == "file"] == ["b"]
    assert len(_payload(merge[2])["parents"]) == 2


def test_a_small_window_changes_nothing(store: Store, tmp_path: Path) -> None:
    """I3, I24: the events are the same however little is held in memory at once."""
    history = History()
    for n in range(30):
        history.put(b"d%d/f" % (n % 7), b"content %d\n" % n * 200).commit(f"c {n}")
    path = history.write(str(tmp_path / "r"))
    import_git(store, path, window_bytes=1)
    with _other(tmp_path) as other:
        import_git(other, path)

        assert _events(store) == _events(other)
        assert len(os.listdir(store.layout.directory("snapshots/packs"))) > 20


def test_progress_counts_to_the_end(store: Store, tmp_path: Path) -> None:
    """P8: progress is (done, total), also when a part was there before."""
    path = _line(5).write(str(tmp_path / "r"))
    import_git(store, path, limit=2)
    seen: list[tuple[int, int]] = []
    import_git(store, path, progress=lambda done, total: seen.append((done, total)))

    assert seen == [(3, 5), (4, 5), (5, 5)]


def test_other_events_in_the_log_do_not_disturb(store: Store, tmp_path: Path) -> None:
    """I8: another agent's sessions and turns, of this repository too, are neither taken nor changed."""
    path = _line(3).write(str(tmp_path / "r"))
    repo = _repo(path)
    line = line_of(path)
    base = names.session_id_of("git", f"{repo}:{line[0]}")
    other = {"event_type": "turn", "operation": "start", "repo": repo, "agent": "codex", "commit": line[0]}
    store.append([{**other, "session_id": "abcdefgh", "turn": 1}])
    import_git(store, path)

    assert _turns(store)[1:] == [(c, base, n + 1) for n, c in enumerate(line)]


def _other(tmp_path: Path) -> Store:
    place = tmp_path / "other"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return closed_later(Store.init(place / ".locus", repo_hash=REPO))


def _repo(path: str) -> str:
    from eventlog.importers.git_objects import open_repository

    with open_repository(path) as repository:
        return repository.roots_hash(repository.resolve("HEAD"))


def _payload(event: Event) -> dict[str, Any]:
    payload = event["payload"]
    assert isinstance(payload, dict)
    return payload


def test_the_report_is_plain_data(store: Store, tmp_path: Path) -> None:
    """P8: a report can be printed as JSON field by field."""
    path = _line(1).write(str(tmp_path / "r"))
    report = import_git(store, path)

    assert report == GitImportReport(_repo(path), line_of(path)[0], 1, 0, report.events, 1, 1, False, ())


def test_the_table_of_ids_names_every_part(store: Store, tmp_path: Path) -> None:
    """I8: docs/event-ids.md has a row for each kind of event that an import writes."""
    table = (Path(__file__).parents[2] / "docs" / "event-ids.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip(" `") for cell in line.split("|")[1:-1]]
        for line in table.splitlines()
        if line[:3] == "| `"
    ]
    listed = {
        (agent, kind, op)
        for agent, kind, ops, _ in rows
        if agent == "git" or kind == "sessions"
        for op in ops.replace("`", "").split(", ")
    }
    history = _line(50).put(b"file", b"").remove(b"file").put(b"b", b"long enough\n" * 9).commit("1")
    history.remove(b"b").put(b"c", b"long enough\n" * 9).commit("2")
    path = history.write(str(tmp_path / "r"))
    import_git(store, path)
    git(path, "update-ref", "refs/heads/main", "main~1")
    import_git(store, path)
    written = {(e["agent"], e["event_type"], e["operation"] or "") for e in _events(store)}

    assert written == listed
