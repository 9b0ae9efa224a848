"""The slash commands of the plugin in the true Claude Code: what happened, undo, redo (docs/e2e.md)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from eventlog.store import Store

from .clients import Client, Ended
from .desk import Desk, open_desk
from .scenarios import marked

PLUGIN = Path(__file__).resolve().parents[2] / "plugins/claude-code"

# The marker is no part of the turn's title, which commands show to the model.
_EDIT = marked("edit", "Greet better\n")


@dataclass(frozen=True)
class _Conversation:
    """One session of the client with the plugin, prompt by prompt."""

    desk: Desk
    client: Client

    def say(self, prompt: str) -> Ended:
        """The next prompt of the session; the requests to the model are watched from here on."""
        self.desk.model.served.clear()
        session = self.desk.session() if self.desk.turns() else None
        ended = self.client.run(self.desk.home, self.desk.project, prompt, resume=session)
        assert ended.code == 0, ended.err
        return ended

    def was_sent(self, text: str) -> bool:
        """Whether a request since the last prompt held a text."""
        return any(text in prompt for answer in self.desk.model.served for prompt in answer.prompts)


@pytest.fixture
def talk(client: Client, tmp_path: Path) -> Iterator[_Conversation]:
    """The client with the plugin, at a desk with a store."""
    if client.agent != "claude-code":
        pytest.skip("a plugin for Claude Code")
    with open_desk(client, tmp_path) as desk:
        Store.init(desk.store).close()

        def with_plugin(*given: object) -> list[str]:
            return [*client.arguments(*given), "--plugin-dir", str(PLUGIN)]  # type: ignore[arg-type]

        yield _Conversation(desk, replace(client, arguments=with_plugin))
        assert desk.model.strays == []


def test_undo_and_redo_from_within(talk: _Conversation) -> None:
    """P1, P8: each command gives the model what `locus` prints; after a yes the plan is carried out by its
    token; the turns in which that happened are no work, so that redo finds the undo, and undo the turn."""
    desk = talk.desk
    before = desk.on_disk()
    talk.say(_EDIT)
    (turn,) = desk.turns()
    after = desk.on_disk()
    assert after != before

    talk.say("/locus:what-happened")
    assert talk.was_sent(f"{turn.name}  20") and talk.was_sent("These are the last turns")
    talk.say("/locus:undo")
    assert talk.was_sent(f"undo  {turn.context_id}") and talk.was_sent("edit      kiosk.py")
    assert desk.on_disk() == after
    talk.say(marked("undo-after-yes", "Yes, carry it out."))
    assert desk.on_disk() == before
    talk.say("/locus:redo")
    assert talk.was_sent("redo  event:") and desk.on_disk() == before
    talk.say(marked("redo-after-yes", "Yes, carry it out."))
    assert desk.on_disk() == after
    talk.say("/locus:undo")
    assert talk.was_sent(f"undo  {turn.context_id}")
    assert desk.rows("select undone_by from turns where undone_by is not null") == []
    assert [str(prompt) for prompt in desk.prompts()][1:3] == ["/locus:what-happened", "/locus:undo"]


def test_a_command_with_nothing_to_do_says_so(talk: _Conversation) -> None:
    """P8: where there is nothing to redo, the person reads why, and the model is not asked."""
    talk.say(_EDIT)
    ended = talk.say("/locus:redo")

    assert "so there is nothing to redo" in ended.out + ended.err
    assert not talk.was_sent("The person asks to bring back")
