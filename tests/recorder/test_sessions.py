"""Which session a recorder is in: resumed, opened again, continued; which one a name means."""

import pytest

from eventlog.base import names
from eventlog.base.errors import Ambiguous, NotFound
from eventlog.recorder import sessions
from eventlog.recorder.hooks import Hooks
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store


def own(store: Store, key: str | None = "conversation-1", **options: int) -> Recorder:
    return Recorder(store, agent="script", agent_session_id=key, **options)


def statuses(store: Store) -> dict[str, str]:
    return dict(store.query("select session_id, status from sessions").rows)


def test_the_very_session_is_resumed(store: Store) -> None:
    """S1-10, S1-20: the agent's own id of a session leads back to it, from any process."""
    first = own(store).start_turn("Fix the JWT refresh")
    second = own(store).start_turn("And the tests")

    assert first.ref.session_id == names.session_id_of("script", "conversation-1")
    assert (second.ref.session_id, second.ref.turn) == (first.ref.session_id, 2)
    assert store.query("select agent_session_id from sessions").rows == [("conversation-1",)]


def test_another_conversation_is_not_resumed(store: Store) -> None:
    """S1-20, S3-32: a recorder of another conversation opens its own and ends the one before."""
    first = own(store).start_turn("Fix the JWT refresh")
    second = own(store, "conversation-2").start_turn("Speed up the parser")
    ended = store.query(
        "select agent_session_id, end_reason from sessions where session_id = $1", [first.ref.session_id]
    ).rows

    assert second.ref.session_id != first.ref.session_id
    assert statuses(store) == {first.ref.session_id: "closed", second.ref.session_id: "active"}
    assert ended == [("conversation-1", "superseded")]


def test_a_conversation_that_ended_is_opened_again(store: Store) -> None:
    """S0-13, S1-20: under its id, slug, title and numbering, with its start kept."""
    first = own(store)
    turn = first.start_turn("Fix the JWT refresh")
    first.end_session("for today")
    again = own(store).start_turn("Something quite different")
    (found,) = store.query(
        "select context_id, title, status, ended_at, end_reason, summary, turn_count from sessions"
    ).rows

    assert again.ref.context_id == f"turn:{turn.ref.session_id}_002"
    assert found == (
        f"session:fix-jwt-refresh_{turn.ref.session_id}",
        "Fix the JWT refresh",
        "active",
        None,
        None,
        "for today",
        2,
    )
    assert {e["context_id"] for e in store.events(event_types=["session"])} == {found[0]}


def test_a_second_start_of_one_conversation_is_no_new_session(store: Store) -> None:
    """S1-20: an agent that announces its session again, after a crash say, is in the same one."""
    one = own(store).start_session("Fix the JWT refresh")
    two = own(store).start_session("Fix the JWT refresh")

    assert one == two
    assert statuses(store) == {one.session_id: "active"}


def test_a_new_session_can_be_demanded_inside_a_conversation(store: Store) -> None:
    """S1-22: who is in a session and starts one gets a new one, even in the same conversation."""
    recorder = own(store)
    one = recorder.start_session("Fix the JWT refresh")
    two = recorder.start_session("Speed up the parser")

    assert statuses(store) == {one.session_id: "closed", two.session_id: "active"}
    assert own(store).resume() == two


def test_a_conversation_goes_on_after_the_turn_limit(store: Store) -> None:
    """S1-58: what continues a session is found by the same conversation, and has one id for everybody."""
    recorder = own(store, turn_limit=2)
    for n in range(3):
        recorder.start_turn(f"Step number {n} of the plan")
    other = own(store, turn_limit=2)
    turn = other.start_turn("Step number 3 of the plan")
    first, second = (
        row[0] for row in store.query("select session_id from sessions order by first_position").rows
    )

    assert turn.ref.context_id == f"turn:{second}_002"
    assert second == names.session_id_of("script", f"after:{first}")


def test_two_that_meet_the_limit_at_once_agree(store: Store) -> None:
    """S1-58, S3-32: both continue in one session; nobody's turn is lost."""
    one, two = own(store, None, turn_limit=1), own(store, None, turn_limit=1)
    one.start_turn("The first step of the plan")
    two.resume()
    turns = [one.start_turn("The second step")]
    two._known_until = store.journal.next_position()  # it read just before the other one wrote
    turns.append(two.start_turn("Another second step"))

    assert turns[0].ref.session_id == turns[1].ref.session_id
    assert [turn.ref.turn for turn in turns] == [1, 2]
    assert sorted(statuses(store).values()) == ["active", "closed"]


def test_a_session_that_somebody_else_ended_is_left(store: Store) -> None:
    """S1-22, S3-32: who goes on working joins the session that was started meanwhile."""
    working = own(store, None)
    old = working.start_turn("Fix the JWT refresh")
    old.action("sh", {})
    elsewhere = own(store, None).start_session("Speed up the parser")
    working.start_turn("And the tests")
    again = working.start_turn("And the docs")

    assert again.ref.session_id == elsewhere.session_id != old.ref.session_id
    assert again.ref.turn == 2
    assert statuses(store) == {old.ref.session_id: "closed", elsewhere.session_id: "active"}


def test_events_of_others_do_not_move_a_recorder(store: Store) -> None:
    """S1-20: two agents that record at once stay in their sessions."""
    one, two = own(store, None), Recorder(store, agent="other")
    turns = [recorder.start_turn("Work") for recorder in (one, two, one, two)]

    assert [turn.ref.turn for turn in turns] == [1, 1, 2, 2]
    assert turns[0].ref.session_id == turns[2].ref.session_id
    assert sorted(statuses(store).values()) == ["active", "active"]


def test_recent_sessions(store: Store) -> None:
    """S1-21: the one that something happened in last comes first; of one agent, or only the active ones."""
    one = Recorder(store, agent="script").start_session("First piece of work")
    two = Recorder(store, agent="person").start_session("Second piece of work")
    three = Recorder(store, agent="script").start_session("Third piece of work")

    def ids(**options: object) -> list[str]:
        return [row.session_id for row in sessions.recent(store, **options)]  # type: ignore[arg-type]

    assert ids() == [three.session_id, one.session_id, two.session_id]
    assert ids(agent="person") == [two.session_id]
    assert ids(only_active=True) == [three.session_id, two.session_id]
    assert ids(limit=1) == [three.session_id]
    assert ids(agent="nobody") == []


def test_a_session_by_name(store: Store) -> None:
    """S1-10: by id, beginning, alias or context id; what fits several or nothing is an error."""
    hooks = Hooks(store, agent="script")
    for session_id in ("abcd1111", "abcd2222"):
        hooks.store_session_start("fix-it", session_id, "Fix it", store.repo_hash)

    for name in ("abcd1111", "abcd1", "sess-abcd1111", "session:fix-it_abcd1111", " ABCD1111 "):
        assert sessions.named(store, name).session_id == "abcd1111"
    with pytest.raises(Ambiguous, match="abcd1111, abcd2222"):
        sessions.named(store, "abcd")
    for name in ("zzzz", "", "sess-"):
        with pytest.raises(NotFound, match="session ls"):
            sessions.named(store, name)


def test_a_decision_shows_in_its_turns_anchor(store: Store) -> None:
    """S0-8, S1-32, S1-47: the anchor lists what was decided when the end does not say it."""
    turn = own(store).start_turn("Fix the JWT refresh")
    turn.decision("Validate first", "it is skipped")
    turn.end()

    assert store.query("select decisions from turns").rows == [(["Validate first"],)]
